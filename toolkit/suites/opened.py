"""The hosts of one pytest run, opened once; and ``gdr``, a node as a site's own tests ask of it.

def test_the_modules_are_there(gdr):
    assert gdr["peermem.loaded"].passed
    assert gdr.node.driver is not None
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date

import pytest

from toolkit.checks.all import named
from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged, judge_node
from toolkit.cli.verb import site_here
from toolkit.errors import ToolkitError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.groups import resolved
from toolkit.report.text import verdict_text
from toolkit.suites.outcomes import ACCESS, LEDGER, WANT, Ledger
from toolkit.suites.uris import OPTIONS, access_of, containers
from toolkit.verbs.access import Access, Fleet, inventory_in, wanted
from toolkit.verbs.connect import open_fleet
from toolkit.verbs.doctor import gather
from toolkit.verbs.passport import sealed
from toolkit.want import DEFAULT_PROFILE

STACK = pytest.StashKey[ExitStack]()
FLEET = pytest.StashKey[Fleet]()
TROUBLE = pytest.StashKey[ToolkitError]()  # why there is no fleet
GATHERED = pytest.StashKey[Mapping[str, Evidence | ToolkitError]]()


def open_hosts(config: pytest.Config) -> None:
    """Take what ``verify`` has prepared, else read the options; open the fleet once."""
    if FLEET in config.stash or TROUBLE in config.stash:
        return
    stack = config.stash.setdefault(STACK, ExitStack())
    try:
        if ACCESS not in config.stash:
            config.stash[ACCESS] = _access(config)
            site = _option(config, "--gdr-site") or site_here()
            profile = _option(config, "--gdr-profile") or DEFAULT_PROFILE
            want = wanted(profile, site)
            listed = config.stash[ACCESS].inventory
            config.stash[WANT] = resolved(want, lambda: inventory_in(listed), site)
        config.stash.setdefault(LEDGER, Ledger())
        access = config.stash[ACCESS]
        config.stash[FLEET] = containers(access) or stack.enter_context(open_fleet(access))
    except ToolkitError as why:
        # With --pyargs the suites' conftest is loaded during collection, where what is raised
        # would be a traceback; it is said once all is collected.
        config.stash[TROUBLE] = why


def close_hosts(config: pytest.Config) -> None:
    """Let go of what was opened."""
    if STACK in config.stash:
        config.stash[STACK].close()


def refuse_trouble(config: pytest.Config) -> None:
    """:raises pytest.UsageError: no host could be named, or what was asked makes no sense."""
    if TROUBLE in config.stash:
        why = config.stash[TROUBLE]
        raise pytest.UsageError(f"{why}\n next: {why.hint}")


def host_names(config: pytest.Config) -> list[str]:
    """Names of the hosts that were named; none where that failed."""
    fleet = config.stash.get(FLEET, None)
    return [host.name for host in fleet.hosts] if fleet else []


def case_id(name: str) -> str:
    """What stays the name of a host's cases: toolkit://gpu07."""
    return name if "://" in name else f"toolkit://{name}"


def gathered_of(config: pytest.Config) -> Mapping[str, Evidence | ToolkitError]:
    """The evidence of every host, asked for at once, before the first case."""
    if GATHERED not in config.stash:
        config.stash[GATHERED] = gather(config.stash[FLEET])
    return config.stash[GATHERED]


def _option(config: pytest.Config, name: str) -> str:
    """An option of options.py; "" where that plugin was not loaded."""
    return str(config.getoption(name, default="") or "")


def _access(config: pytest.Config) -> Access:
    inventory = _option(config, "--gdr-inventory")
    if not config.getoption("hosts") and not inventory:
        raise UsageError("no hosts named", hint="pytest --pyargs toolkit.suites --hosts gpu[1-4]")
    base = Access(
        inventory=inventory,
        transport=_option(config, "--gdr-transport") or "paramiko",
        become=not _option(config, "--gdr-no-become"),
        yes=True,
    )
    options = {name: config.getoption(name, default=None) for name in OPTIONS}
    return access_of(config.getoption("hosts") or "", options, base)


@dataclass(frozen=True, repr=False)
class CheckAnswer:
    """What a check says of a host; a failed assertion shows it whole."""

    host: str
    verdict: Verdict

    @property
    def status(self) -> str:
        """One of pass, fail, unknown, n/a."""
        return self.verdict.status.value

    @property
    def passed(self) -> bool:
        return self.verdict.status is Status.PASS

    @property
    def failed(self) -> bool:
        return self.verdict.status is Status.FAIL

    @property
    def found(self) -> str:
        return self.verdict.finding.found

    def __repr__(self) -> str:
        lines = verdict_text(self.host, self.verdict).split("\n")
        return f"<{'; '.join(' '.join(line.split()) for line in lines)}>"


@dataclass(frozen=True, repr=False)
class GdrHost:
    """A host, judged."""

    name: str
    node: Node  # its facts
    judged: Judged

    def __repr__(self) -> str:
        return f"<{self.name}: {self.judged.state}>"

    def __getitem__(self, check: str) -> CheckAnswer:
        """The answer of a check by its id, such as "peermem.loaded".

        :raises KeyError: there is no such check; it names those that come near.
        """
        try:
            asked = named(check, [each.check for each in self.judged.verdicts]).id
        except UsageError as why:
            raise KeyError(f"{why}; {why.hint}") from None
        found = next(each for each in self.judged.verdicts if each.check.id == asked)
        return CheckAnswer(self.name, found)


def judged_host(config: pytest.Config, name: str) -> GdrHost:
    """The host of that name; the test fails in a sentence where it cannot be asked."""
    refuse_trouble(config)
    found = gathered_of(config)[name]
    if isinstance(found, ToolkitError):
        pytest.fail(f"{found}\n next: {found.hint}", pytrace=False)
    want = config.stash[WANT].of(name)
    evidence = sealed(found, want)
    return GdrHost(name, Node(evidence), judge_node(name, evidence, want, date.today()))
