"""Runs of ours taken back on nodes: what is told, who is rebooted, what must have come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from tests.evidence.build import node
from tests.evidence.frames import ABSENT, Override
from toolkit.errors import ApplyError, UsageError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.progress import Silent
from toolkit.rollout.plan.batches import Phase
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs import rollback as flow
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.budget_run import Work
from toolkit.verbs.reading import InUse
from toolkit.verbs.rollback import RolledBack, booted_back, rollback

SAME = "command line: as the boot menu has it"


class Wire:
    name = "gpu1"

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None: ...


@pytest.mark.parametrize("run", ["", "-", "a b", "last; reboot", "../x", "$(id)"])
def test_what_cannot_be_the_name_of_a_run_is_never_sent(run: str) -> None:
    with pytest.raises(UsageError, match="no run is named"):
        deliver.rollback_script(run, 5)


def test_of_hosts_that_an_earlier_run_changed_none_may_be_missing() -> None:
    hosts = (Host("gpu1"), Host("gpu2"))
    fleet = Fleet(hosts, lambda _: Wire(), Access(), demo=True)
    assert fleet.only(["gpu2"]).hosts == hosts[1:]
    assert fleet.only(["gpu2"]).demo
    with pytest.raises(UsageError, match=r"no host of that name any more: gpu3, gpu4$"):
        fleet.only(["gpu4", "gpu1", "gpu3"])


@dataclass
class Heard(Silent):
    notes: list[str] = field(default_factory=list)

    def note(self, host: str, text: str) -> None:
        self.notes.append(f"{host}: {text}")


@dataclass
class World:
    """One node: what its journal has to take back, and how it boots."""

    owes: bool = True  # a reboot
    busy: bool = False
    before: Evidence = field(default_factory=node)
    after: Evidence = field(default_factory=node)
    did: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def undo(self, transport: Transport, which: str, *, sink: Sink, audit: str) -> SimpleNamespace:
        assert {"run=a-run", "reason=ticket_4711"} < set(audit.split())
        self.did.append(f"rollback {which}")
        sink("= begin ok gdr-toolkit/1")
        sink("|building dkms")
        return SimpleNamespace(steps=["restore /etc/x: done"], needs_reboot=self.owes)

    def collect(self, _: Transport) -> Evidence:
        return self.after if "reboot" in " ".join(self.did) else self.before

    def reboot(self, _: Transport, boot_id: str, *, limit_s: float, note: Sink) -> None:
        self.did.append(f"reboot {boot_id == self.before.text('boot-id').strip()}")
        assert limit_s > 60
        note("back")

    def refuse(self, transport: Transport) -> None:
        self.did.append("jobs")
        if self.busy:
            raise InUse(f"{transport.name}: at work")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(deliver, "rollback", made.undo)
    monkeypatch.setattr(flow, "collect", made.collect)
    monkeypatch.setattr(flow, "reboot", made.reboot)
    monkeypatch.setattr(flow, "refuse_jobs", made.refuse)
    return made


@dataclass
class Witness:
    acts: list[str]

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        self.acts.append(f"{phase.value} {bool(boot_id)}")


def back(world: World, monkeypatch: pytest.MonkeyPatch, **how: bool) -> RolledBack:
    """Take back on the one node, where no other run shares the budget."""
    progress = Heard()

    def counted(fleet: Fleet, title: str, work: Work[RolledBack], _: object) -> RolledBack:
        assert title == "rolling back"
        witness = Witness(world.did)
        return work(fleet.hosts[0], Wire(), witness)  # type: ignore[arg-type] # all that it asks

    monkeypatch.setattr(flow, "on_each_counted", counted)
    fleet = Fleet((Host("gpu1"),), lambda _: Wire(), Access(progress=progress))
    told = {"allow_reboot": True, "over_jobs": False} | how
    about = SimpleNamespace(reason="ticket 4711")
    counting = SimpleNamespace(
        folder=SimpleNamespace(settle=lambda: "a-run"), agreed=SimpleNamespace(about=about)
    )
    done = rollback(fleet, "last", counting, **told)  # type: ignore[arg-type] # as the rows have them
    world.notes = progress.notes
    assert isinstance(done, RolledBack)
    return done


def test_what_is_taken_back_is_told_and_the_reboot_that_it_needs_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = back(world, monkeypatch)
    assert done == RolledBack(("restore /etc/x: done", SAME), rebooted=True)
    assert world.did == [
        "applying False", "rollback last", "jobs", "rebooting True", "reboot True",
    ]  # fmt: skip
    assert world.notes == ["gpu1: building dkms", "gpu1: back"]


@pytest.mark.parametrize(("owes", "allowed"), [(True, False), (False, True), (False, False)])
def test_a_node_is_not_rebooted_unless_it_must_be_and_may_be(
    world: World, monkeypatch: pytest.MonkeyPatch, owes: bool, allowed: bool
) -> None:
    world.owes = owes
    done = back(world, monkeypatch, allow_reboot=allowed)
    assert done == RolledBack(("restore /etc/x: done",), rebooted=False)
    assert world.did == ["applying False", "rollback last"]


def test_jobs_keep_a_node_from_its_reboot_unless_they_may_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.busy = True
    with pytest.raises(InUse):
        back(world, monkeypatch)
    assert world.did[-1] == "jobs"
    world.did.clear()
    assert back(world, monkeypatch, over_jobs=True).rebooted
    assert "jobs" not in world.did


OTHER = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=off\n"


@pytest.mark.parametrize(
    ("after", "menu", "told"),
    [
        pytest.param({}, None, SAME, id="as-the-menu-has-it"),
        pytest.param({"cmdline": OTHER}, None, "booted with 'root=/dev/sda1 iommu=off'", id="not"),
        pytest.param({"cmdline": OTHER}, ABSENT, "not compared", id="a-menu-that-is-not-read"),
    ],
)
def test_the_command_line_after_the_reboot_is_the_boot_menu_s(
    world: World, after: dict[str, Override], menu: Override | None, told: str
) -> None:
    unread = {} if menu is None else {"boot-entries": menu}
    world.before, world.after = node(unread), node(after)
    if told.startswith("booted"):
        with pytest.raises(ApplyError, match=f"gpu1: {told}, and its boot menu has"):
            booted_back(Wire(), print)
    else:
        assert told in booted_back(Wire(), print)


def test_whoever_hears_of_the_reboot_may_keep_it(world: World) -> None:
    def refuse(_: str) -> None:
        raise InUse("no")

    with pytest.raises(InUse):
        booted_back(Wire(), print, refuse)
    assert world.did == []
