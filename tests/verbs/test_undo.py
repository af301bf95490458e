"""Undo of a run: what it asks before it reboots, and what it compares after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolkit.checks.check import Finding, Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.checks.modules.peermem import loaded
from toolkit.errors import ApplyError, ExitCode, Outcome, ToolkitError, UsageError
from toolkit.evidence import Evidence, State
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.node.deliver import Applied, Step, StepState
from toolkit.rollout.budget import books_of
from toolkit.rollout.history import read_run, read_runs
from toolkit.rollout.hooks import Hooks, NotTaken, Say
from toolkit.rollout.journal import About, stamp
from toolkit.rollout.plan.batches import terms_of
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs import rollback as rollback_module
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.reading import InUse
from toolkit.verbs.rollback import RolledBack, Undoing, undo
from toolkit.verbs.rollout import Agreed

CAPTURES = Path(__file__).parents[1] / "evidence"
NO_HOOKS = Hooks()
BOTH = Undoing("2026-11-21T22-00-00-provision", {"gpu01": ("20261121T220001Z-77",)})


class Silent:
    """A transport that nothing is sent over: what would be is put in place below."""

    name = "gpu01"

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None:
        """Nothing is open."""


def booted_with(words: str) -> Evidence:
    """A healthy node that was booted with these words, whatever its boot menu has."""
    evidence = Evidence.parse((CAPTURES / "healthy.txt").read_text())
    frame = evidence.frames["cmdline"]
    assert frame.state is State.OK
    return evidence.plus([replace(frame, text=frame.text.rstrip("\n") + words + "\n")])


@dataclass
class Scheduler:
    """A drainer that keeps what it was asked for."""

    asked: list[str] = field(default_factory=list)
    jobs: bool = False  # that do not end

    def has_out(self, host: Host) -> bool:
        return False

    def take_out(self, host: Host, say: Say) -> str:
        self.asked.append("drain")
        if self.jobs:
            raise NotTaken("gpu01: jobs remain")
        return ""

    def give_back(self, host: Host, say: Say) -> str:
        self.asked.append("resume")
        return ""

    def stay_out(self, host: Host, why: str) -> str:
        self.asked.append(why)
        return "stays drained"


@pytest.fixture
def rebooted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The boots that were ended. A job is at work, and the boot menu wants no other words."""
    ended: list[str] = []
    step = Step("UPDATE_BOOTLOADER update-grub", StepState.DONE)

    def at_work(transport: Transport) -> None:
        raise InUse(f"{transport.name}: not rebooted: at work: python3")

    def taken_back(*_: object, **__: object) -> Applied:
        return Applied("20261121T220001Z-77", (step,), needs_reboot=True)

    def reboot(_: Transport, boot_id: str, **__: object) -> None:
        ended.append(boot_id)

    monkeypatch.setattr(rollback_module, "refuse_jobs", at_work)
    monkeypatch.setattr(deliver, "rollback", taken_back)
    monkeypatch.setattr(rollback_module, "reboot", reboot)
    return ended


@pytest.fixture
def undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome[RolledBack]]:
    """Undo on one node that comes back with more words on its command line, or none."""

    def go(
        *, over_jobs: bool, more: str = "", hooks: Hooks = NO_HOOKS, content: bool = True
    ) -> Outcome[RolledBack]:
        looks: Iterator[Evidence] = iter((booted_with(""), booted_with(more)))
        monkeypatch.setattr(rollback_module, "collect", lambda _: next(looks, booted_with("")))
        fleet = Fleet((Host("gpu01"),), lambda _: Silent(), Access())
        folder = RunFolder(tmp_path, "undo", datetime.now(UTC))
        about = About("undo", "op@here", stamp(), undoes=BOTH.run)
        agreed = Agreed(terms_of(["gpu01"]), about, hooks=hooks, alone=True)

        def judge(host: str, evidence: Evidence) -> Judged:
            failed = Verdict(loaded, Finding(Status.FAIL, "not loaded"))
            return Judged(host, () if content else (failed,), date(2026, 11, 22))

        return undo(
            fleet, BOTH, folder, agreed, judge=judge, allow_reboot=True, over_jobs=over_jobs
        ).outcomes["gpu01"]

    return go


def test_no_node_is_rebooted_under_a_job(
    undone: Callable[..., Outcome[RolledBack]], rebooted: list[str]
) -> None:
    assert isinstance(undone(over_jobs=False).error, InUse)
    assert rebooted == []


def test_over_jobs_reboots_it_and_lays_its_command_line_beside_the_menu(
    undone: Callable[..., Outcome[RolledBack]], rebooted: list[str], tmp_path: Path
) -> None:
    found = undone(over_jobs=True).get()
    assert found.steps[-1] == "command line: as the boot menu has it"
    assert found.rebooted
    assert len(rebooted) == 1
    (run,) = read_runs(tmp_path)
    events = [e for e in read_run(tmp_path, run.id).story.events if e.phase == "rebooting"]
    assert [event.boot_id for event in events] == rebooted  # written before it was begun


def test_another_command_line_than_the_menus_is_an_error(
    undone: Callable[..., Outcome[RolledBack]], rebooted: list[str]
) -> None:
    error = undone(over_jobs=True, more=" iommu=pt").error
    assert isinstance(error, ApplyError)
    assert "gpu01: booted with" in str(error)
    assert len(rebooted) == 1


@pytest.mark.parametrize("content", [True, False])
def test_a_scheduler_s_node_is_drained_and_given_back_where_it_is_as_wanted(
    undone: Callable[..., Outcome[RolledBack]], rebooted: list[str], tmp_path: Path, content: bool
) -> None:
    drainer = Scheduler()
    done = undone(over_jobs=True, hooks=Hooks(scheduler=drainer), content=content).get()
    why = "taken back, and not as wanted: peermem.loaded"
    assert drainer.asked == ["drain", "resume" if content else why]
    assert done.exit_code is (ExitCode.OK if content else ExitCode.FAILED)
    assert len(rebooted) == 1
    assert [s.held.value for s in books_of(tmp_path).shares] == ["out of service"] * (not content)


def test_nothing_is_taken_back_under_jobs_that_do_not_end(
    undone: Callable[..., Outcome[RolledBack]], rebooted: list[str], tmp_path: Path
) -> None:
    drainer = Scheduler(jobs=True)
    assert isinstance(undone(over_jobs=True, hooks=Hooks(scheduler=drainer)).error, NotTaken)
    (run,) = read_runs(tmp_path)
    phases = [each.phase for each in read_run(tmp_path, run.id).story.events]
    assert phases == ["planned", "begun", "draining", "untaken", "failed"]
    assert rebooted == []
    assert books_of(tmp_path).shares == ()


# --- several runs of ours on one node ---

FIRST, SECOND = "20261121T220001Z-77", "20261121T220009Z-90"
GONE = UsageError("gpu01: no run of that name stands", hint="")


@dataclass
class Journal:
    """What the node takes back, and how it stands then."""

    names: tuple[str, ...] = (SECOND, FIRST)
    known: dict[str, bool | ToolkitError] = field(default_factory=dict)  # whether a boot is owed
    verdict: Verdict | None = None  # that is not content
    complete: bool = True
    asked: list[str] = field(default_factory=list)

    def rollback(self, _: Transport, run: str, *, sink: Sink, audit: str) -> Applied:
        assert {"run=a-run", "reason=ticket_7"} < set(audit.split())
        self.asked.append(run)
        found = self.known.get(run, False)
        if isinstance(found, ToolkitError):
            raise found
        return Applied(run, (Step(f"restore {run[-2:]}", StepState.DONE),), needs_reboot=found)

    def judge(self, host: str, _: Evidence) -> Judged:
        self.asked.append("judged")
        verdicts = (self.verdict,) if self.verdict else ()
        return Judged(host, verdicts, date(2026, 11, 22), complete=self.complete)

    def undo(
        self, runs: Path, monkeypatch: pytest.MonkeyPatch, hooks: Hooks = NO_HOOKS
    ) -> Outcome[RolledBack]:
        monkeypatch.setattr(deliver, "rollback", self.rollback)
        monkeypatch.setattr(rollback_module, "collect", lambda _: booted_with(""))
        fleet = Fleet((Host("gpu01"),), lambda _: Silent(), Access())
        about = About("undo", "op@here", stamp(), "ticket 7", undoes="a-run")
        agreed = Agreed(terms_of(["gpu01"]), about, hooks=hooks, alone=True)
        (runs / "a-run").mkdir()
        folder, what = RunFolder.again(runs / "a-run"), Undoing("a-run", {"gpu01": self.names})
        rolled = undo(fleet, what, folder, agreed, judge=self.judge, allow_reboot=False)
        return rolled.outcomes["gpu01"]


@pytest.mark.parametrize(
    ("known", "steps"),
    [
        ({}, ("restore 90: done", "restore 77: done")),
        ({SECOND: GONE}, (f"{SECOND}: was taken back before", "restore 77: done")),
        ({FIRST: GONE}, ("restore 90: done", f"{FIRST}: was taken back before")),
    ],
)
def test_each_run_is_taken_back_in_its_turn_whatever_was_taken_back_before(
    known: dict[str, bool | ToolkitError],
    steps: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Journal(known=known)
    done = node.undo(tmp_path, monkeypatch).get()
    assert (tuple(done.steps), done.rebooted) == (steps, False)
    assert node.asked == [SECOND, FIRST]  # and where nobody has it out, nobody judges


@pytest.mark.parametrize("owes", [SECOND, FIRST])
def test_a_boot_is_owed_where_any_of_them_needs_one(
    owes: str, rebooted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Journal(known={owes: True})
    seen: list[bool] = []

    def end(_: object, steps: list[str], *, booting: bool) -> RolledBack:
        seen.append(booting)
        return RolledBack(steps, booting)

    monkeypatch.setattr(rollback_module._TakingBack, "end", end)
    node.undo(tmp_path, monkeypatch)
    assert seen == [True]


def test_a_node_that_never_said_what_it_calls_a_run_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, drainer = Journal(names=()), Scheduler()
    error = node.undo(tmp_path, monkeypatch, Hooks(scheduler=drainer)).error
    assert isinstance(error, ApplyError)
    assert "gpu01: run a-run was at work here, and was never told" in str(error)
    assert "rollback --hosts gpu01 --run NAME" in error.hint
    assert (node.asked, drainer.asked) == ([], [])


UNSURE = Verdict(loaded, Finding(Status.UNKNOWN, "not read"))


@pytest.mark.parametrize(
    ("node", "why", "code"),
    [
        (Journal(verdict=UNSURE), "peermem.loaded", ExitCode.UNKNOWN),
        (Journal(complete=False), "its evidence was cut off", ExitCode.UNREACHABLE),
    ],
)
def test_a_node_of_which_too_little_is_known_stays_out_of_service(
    node: Journal, why: str, code: ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drainer = Scheduler()
    done = node.undo(tmp_path, monkeypatch, Hooks(scheduler=drainer)).get()
    assert drainer.asked == ["drain", f"taken back, and not as wanted: {why}"]
    assert done.steps == ("restore 90: done", "restore 77: done", "stays drained")
    assert (done.out, done.exit_code) == (True, code)


def test_a_node_that_could_not_take_it_back_stays_out_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ApplyError("gpu01: a step failed")
    node, drainer = Journal(known={SECOND: broken}), Scheduler()
    assert node.undo(tmp_path, monkeypatch, Hooks(scheduler=drainer)).error is broken
    assert drainer.asked == ["drain", "gpu01: a step failed"]
    assert node.asked == [SECOND]


@pytest.mark.parametrize(("told", "steps"), [("", 2), ("left out of service: bad dimm", 3)])
def test_what_a_scheduler_says_of_giving_back_is_told(
    told: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scheduler, "give_back", lambda *_: told)
    done = Journal().undo(tmp_path, monkeypatch, Hooks(scheduler=Scheduler())).get()
    assert (len(done.steps), done.out, done.exit_code) == (steps, False, ExitCode.OK)
    assert done.steps[2:] == (told,) * bool(told)
