"""Undo of a run: what it asks before it reboots, and what it compares after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolkit.change.rollout_terms import terms_of
from toolkit.errors import ApplyError, Outcome
from toolkit.evidence import Evidence, State
from toolkit.flow import rollback as rollback_module
from toolkit.flow import undo as undo_module
from toolkit.flow.access import Access, Fleet
from toolkit.flow.jobs import InUse
from toolkit.flow.past import read_run, read_runs
from toolkit.flow.rollback import RolledBack
from toolkit.flow.rolling import Agreed
from toolkit.flow.runs import RunFolder
from toolkit.flow.undo import Undoing, undo
from toolkit.hosts import Host
from toolkit.reach import deliver
from toolkit.reach.deliver import Applied, Step, StepState
from toolkit.reach.journal import About, stamp
from toolkit.reach.transport import Result, Sink, Transport, quiet

CAPTURES = Path(__file__).parents[1] / "evidence"
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

    monkeypatch.setattr(undo_module, "refuse_jobs", at_work)
    monkeypatch.setattr(deliver, "rollback", taken_back)
    monkeypatch.setattr(rollback_module, "reboot", reboot)
    return ended


@pytest.fixture
def undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome[RolledBack]]:
    """Undo on one node that comes back with more words on its command line, or none."""

    def go(*, over_jobs: bool, more: str = "") -> Outcome[RolledBack]:
        looks: Iterator[Evidence] = iter((booted_with(""), booted_with(more)))
        monkeypatch.setattr(rollback_module, "collect", lambda _: next(looks))
        fleet = Fleet((Host("gpu01"),), lambda _: Silent(), Access())
        folder = RunFolder(tmp_path, "undo", datetime.now(UTC))
        agreed = Agreed(terms_of(["gpu01"]), About("undo", "op@here", stamp(), undoes=BOTH.run))
        rolled = undo(fleet, BOTH, folder, agreed, allow_reboot=True, over_jobs=over_jobs)
        return rolled.outcomes["gpu01"]

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
