"""Hosts that are a simulated BMC each, and a node that answers by SSH, or does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from tests.bmc.client import bmc_on
from tests.bmc.simulator import Simulator
from toolkit.errors import Outcome, TransportError
from toolkit.features.bios.plan_reading import BiosOutcome, BiosReading
from toolkit.features.bios.plan_wishes import BiosWish, read_asked
from toolkit.features.bios.run import BiosRun, roll_out_bios
from toolkit.features.bios.run_look import BiosQuery, look_all
from toolkit.features.bios.run_reset import Consent
from toolkit.hosts.host import Host
from toolkit.redfish.client import Bmc
from toolkit.rollout.journal import About, Event, Journal
from toolkit.rollout.plan.batches import terms_of
from toolkit.rollout.run import Rolled
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.rollout import Agreed
from toolkit.want import Role, Want

QUICK = Consent(reboot=True, graceful_s=1.5, boot_s=20, settle_s=0.6, poll_s=0.05)
JOB = "|7|1000|python3|/dev/infiniband/uverbs0\n"


@dataclass
class NodeOf:
    """The node behind a simulated BMC: its boot id is the count of the machine's boots."""

    name: str
    bmc: Simulator
    answers: bool = True
    users: str = ""  # frame content: processes that have a GPU or an HCA open
    scripts: list[str] = field(default_factory=list)

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        if not self.answers or self.bmc.machine.posting or self.bmc.machine.power == "Off":
            raise TransportError(f"{self.name}: does not answer")
        last = script.rstrip("\n").rpartition("\n")[2]
        self.scripts.append(last)
        if last == "occupied":
            told = (
                "= begin ok gdr-toolkit/1\n= uid ok id -u\n|0\n= users ok /proc/*/fd\n"
                f"{self.users}= accounts ok /etc/passwd\n|root:0\n|alice:1000\n= end ok 3\n"
            )
            return Result(0, told, "")
        if last.startswith("gdr_apply restart"):
            return Result(0, "= begin ok gdr-toolkit/1\n= restart ok x\n= end ok 1\n", "")
        return Result(0, f"boot-{self.bmc.machine.boots}\n", "")

    def close(self) -> None:
        """Nothing is open."""


class Site:
    """Some hosts, and runs of the verb over them."""

    def __init__(self, base: Path, bmcs: Sequence[Simulator]) -> None:
        self.bmcs = {f"gpu{number}": bmc for number, bmc in enumerate(bmcs, 1)}
        self.nodes = {name: NodeOf(name, bmc) for name, bmc in self.bmcs.items()}
        self.base = base
        self._runs = 0

    @property
    def fleet(self) -> Fleet:
        hosts = tuple(Host(name) for name in self.bmcs)
        return Fleet(hosts, lambda host: self.nodes[host.name], Access(fanout=4))

    def reach(self, host: Host) -> Bmc:
        return bmc_on(self.bmcs[host.name])

    def asking(self, said: str, back: dict[str, tuple[BiosWish, ...]] | None = None) -> BiosQuery:
        want = Want(role=Role.BARE_METAL)
        return BiosQuery(want, read_asked(said) if said else None, back or {})

    def folder(self) -> RunFolder:
        self._runs += 1
        when = datetime(2026, 11, 22, 12, 0, self._runs, tzinfo=UTC)
        return RunFolder(self.base / "runs", "bios", when)

    def look(self, said: str = "") -> list[Outcome[BiosReading]]:
        return look_all(self.fleet, self.reach, self.asking(said), self.folder())

    def apply(
        self,
        said: str,
        consent: Consent = QUICK,
        *,
        serial: str = "",
        asking: BiosQuery | None = None,
    ) -> Rolled[BiosOutcome]:
        meant = asking or self.asking(said)
        folder = self.folder()
        looked = look_all(self.fleet, self.reach, meant, folder)
        todo = [e.host for e in looked if e.value and e.value.plan.pending]
        terms = terms_of(todo, serial=serial, max_unavailable="", max_fail="", at_once=4)
        agreed = Agreed(terms, About("bios", "op@adm", "2026-11-22T12:00:00+00:00"))
        run = BiosRun(self.fleet, self.reach, meant, consent, folder)
        return roll_out_bios(run, looked, agreed)

    def events(self, run: str = "") -> tuple[Event, ...]:
        """What the journal of the latest run has."""
        found = (self.base / "runs").glob(run or "*")
        folders = sorted(each for each in found if each.is_dir())  # the budget's books lie beside
        with Journal.open(folders[-1]) as journal:
            return journal.story().events


def only(rolled: Rolled[BiosOutcome]) -> BiosOutcome:
    """What came of the one host."""
    (outcome,) = rolled.outcomes.values()
    return outcome.get()


def with_(consent: Consent, **told: bool | float) -> Consent:
    return replace(consent, **told)
