"""A testinfra backend over our own transport: one connection a host, our rules for keys.

testinfra's Paramiko backend ignores ProxyJump, only warns of unknown host keys, and fails
with Paramiko 5 where the ssh configuration mentions GSSAPI.
"""

from __future__ import annotations

from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult

from toolkit.ssh.transport import Transport

_SCRIPT = """command_line() {{
{command}
}}
command_line
"""


class TransportBackend(BaseBackend):  # type: ignore[misc] # testinfra ships no types
    """Runs each command of a test as a script on the host's one connection."""

    NAME = "toolkit"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport.name)
        self._transport = transport
        self._encoding = "utf-8"  # what the transport has decoded already

    def run(self, command: str, *args: str, **kwargs: Any) -> CommandResult:  # noqa: ARG002 testinfra's signature
        """Run one shell command line, quoted by testinfra's rules. Any: testinfra's own."""
        line = self.get_command(command, *args)
        result = self._transport.run(_SCRIPT.format(command=line))
        return self.result(result.exit, line.encode(), _bytes(result.stdout), _bytes(result.stderr))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
