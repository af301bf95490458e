"""This machine: no SSH, the same marks, sudo where needed."""

from __future__ import annotations

from toolkit.errors import TransportError
from toolkit.ssh import transport_errors
from toolkit.ssh.become import Become
from toolkit.ssh.child import run_child
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import Hearing
from toolkit.ssh.stream import Lines, conclude
from toolkit.ssh.transport import Result, Sink, quiet


class LocalTransport:
    """Runs scripts here. See ``Transport`` for what it promises."""

    def __init__(
        self,
        name: str = "localhost",
        *,
        credentials: Credentials | None = None,
        become: bool = True,
        wrapped: bool = False,
        hearing: Hearing | None = None,
    ) -> None:
        self._name = name
        self._hearing = hearing or Hearing(name)
        self._become = Become(become, (credentials or Credentials()).become_password, wrapped)

    @property
    def name(self) -> str:
        return self._name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        lines = Lines(sink, self._hearing)
        words = ["sh", "-c", self._become.command]
        try:
            ended = run_child(words, self._become.feed(script), limit_s=limit_s, lines=lines)
        except OSError as why:
            raise TransportError(
                f"{self._name}: sh cannot be started: {why.strerror}",
                hint="is /bin/sh there, and may it be run?",
            ) from why
        if ended.late:
            raise transport_errors.late(self._name, limit_s, "the script ran")
        return conclude(self._name, lines.end(), ended.stderr)

    def close(self) -> None:
        """There is nothing to let go of."""
