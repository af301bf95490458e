"""Hosts, evidence and wants for the suites.

pytest-testinfra has ``--hosts`` and ``--ssh-config`` already; they mean what they mean to
our own tasks. Further options carry the prefix ``--gdr-``: see options.py.

A testinfra backend over our own transport: one connection a host, our rules for keys.

testinfra's Paramiko backend ignores ProxyJump, only warns of unknown host keys, and fails
with Paramiko 5 where the ssh configuration mentions GSSAPI.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from datetime import date
from typing import Any

import pytest
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host as TestinfraHost

from toolkit.checks.all import ALL
from toolkit.checks.consumers.chosen import taken
from toolkit.errors import NoEvidence, ToolkitError, Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.ssh.transport import Transport
from toolkit.suites.opened import (
    FLEET,
    case_id,
    close_hosts,
    gathered_of,
    host_names,
    open_hosts,
    refuse_trouble,
)
from toolkit.suites.run import CHECKS, LEDGER, WANT, Judge, Ledger
from toolkit.verbs.passport import sealed
from toolkit.want import Selection

_SCRIPT = """command_line() {{
{command}
}}
command_line
"""


pytest_configure, pytest_unconfigure = open_hosts, close_hosts
pytest_collection_modifyitems = refuse_trouble


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case per host, or per host and check, with ids that stay: toolkit://gpu07-acs.redirect."""
    if "host_name" in metafunc.fixturenames:
        names = host_names(metafunc.config)
        metafunc.parametrize("host_name", names, ids=map(case_id, names), scope="session")
    if "check" in metafunc.fixturenames:
        counts = metafunc.config.stash.get(CHECKS, Selection()).has
        wants = metafunc.config.stash.get(WANT, None)
        every = (*ALL, *(wants.of("").own if wants else ()))
        asked = [each for each in every if counts(each.id)]
        metafunc.parametrize("check", asked, ids=[each.id for each in asked])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """What asks in other words has nothing to compare where the probe read nothing."""
    try:
        return (yield)
    except NoEvidence as why:
        pytest.skip(f"not read: {why}")
    except Unparsable as why:
        pytest.fail(str(why), pytrace=False)


@pytest.fixture(scope="session")
def gathered(request: pytest.FixtureRequest) -> Mapping[str, Evidence | ToolkitError]:
    return gathered_of(request.config)


@pytest.fixture(scope="session")
def evidence(
    request: pytest.FixtureRequest,
    host_name: str,
    gathered: Mapping[str, Evidence | ToolkitError],
    ledger: Ledger,
) -> Evidence:
    found = gathered[host_name]
    if isinstance(found, ToolkitError):
        ledger.note(host_name, found.exit_code)
        pytest.fail(f"{found}\n next: {found.hint}", pytrace=False)
    return sealed(found, request.config.stash[WANT].of(host_name))


@pytest.fixture(scope="session")
def node(evidence: Evidence) -> Node:
    """One Node a host, so that each fact is computed once."""
    return Node(evidence)


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest, host_name: str, node: Node) -> Judge:
    """What a check says of the host; its facts are computed once."""
    want = taken(node.fresh(), request.config.stash[WANT].of(host_name))
    return lambda check: (host_name, check(node, want))


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> Ledger:
    return request.config.stash[LEDGER]


@pytest.fixture(scope="session")
def today() -> date:
    """The day on which waivers are weighed."""
    return date.today()


@pytest.fixture(scope="session")
def transport(request: pytest.FixtureRequest, host_name: str) -> Iterator[Transport]:
    """The host's one connection for the second file."""
    fleet = request.config.stash[FLEET]
    opened = fleet.connect(next(host for host in fleet.hosts if host.name == host_name))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def host(transport: Transport) -> TestinfraHost:
    """testinfra's own view of the host, over our transport."""
    return TestinfraHost(TransportBackend(transport))


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
