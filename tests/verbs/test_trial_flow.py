"""What comes of a node whose command line is to change: tried, kept, given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verbs.trying import Machine, asks_for, make_machine
from toolkit.errors import ApplyError, ExitCode, TransportError
from toolkit.facts.boot.cmdline import parse_cmdline
from toolkit.node import reboot as asking
from toolkit.verbs import provision

LONG = True
DEBIAN, ROCKY = "demo-iommu", "demo-rocky"
TRIALS = "/var/lib/gdr-toolkit/trials"
KINDS = pytest.mark.parametrize("kind", [DEBIAN, pytest.param(ROCKY, marks=pytest.mark.exhaustive)])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_POLL_S", 0.05)
    monkeypatch.setattr(provision, "SETTLE_S", 30.0)
    monkeypatch.setattr(provision, "BETWEEN_LOOKS_S", 0.1)


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    return make_machine(tmp_path / "node", getattr(request, "param", DEBIAN))


def words(machine: Machine) -> tuple[str, ...]:
    return parse_cmdline(machine.read("/proc/cmdline")).words


@KINDS
def test_what_works_is_kept_after_one_boot(tmp_path: Path, kind: str) -> None:
    machine = make_machine(tmp_path / "node", kind)
    done = machine.bring()
    assert (done.exit_code, done.rebooted, done.left) == (ExitCode.OK, True, None)
    assert "iommu=pt" in words(machine)
    assert any(word.startswith("gdr_toolkit.trial=") for word in words(machine))
    assert not any(
        "trial" in path or "gdr_toolkit.trial" in text for path, text in machine.loader.items()
    )
    environment = "boot/grub/grubenv" if kind == DEBIAN else "boot/grub2/grubenv"
    assert "next_entry" not in machine.loader[environment]
    assert not machine.exists(TRIALS)
    assert not machine.plan().pending
    booted = machine.boot_id
    machine.bring()
    assert machine.boot_id == booted


@KINDS
def test_without_leave_to_reboot_the_loader_is_left_alone(tmp_path: Path, kind: str) -> None:
    machine = make_machine(tmp_path / "node", kind)
    before, booted = machine.loader, machine.boot_id
    done = machine.bring(reboot=False)
    assert (machine.loader, machine.boot_id) == (before, booted)
    assert done.left is not None
    assert done.left.trial is not None
    assert done.reboot_owed


@KINDS
def test_a_kernel_that_panics_is_given_up_and_nothing_else_was_touched(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make_machine(tmp_path / "node", kind)
    asks_for(monkeypatch, "init=/nope", "rdinit=/nope")
    before, line, booted = machine.loader, words(machine), machine.boot_id
    with pytest.raises(ApplyError, match=r"came back on its old entry.*nothing else was touched"):
        machine.bring()
    assert (machine.loader, words(machine)) == (before, line)
    assert machine.boot_id != booted
    assert not machine.exists("/etc/security/limits.d/gdr-toolkit.conf")
    assert " given-up " in machine.read(TRIALS)


def test_what_was_given_up_is_not_tried_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for(monkeypatch, "init=/nope", "rdinit=/nope")
    with pytest.raises(ApplyError):
        machine.bring()
    booted = machine.boot_id
    done = machine.bring()
    assert machine.boot_id == booted
    assert done.exit_code is not ExitCode.OK
    [blocked] = machine.plan().plan.blocked
    assert "is not tried again: it came back on its old entry" in blocked.reason


def test_an_argument_without_effect_is_not_kept(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for(monkeypatch, "iommu.nosuch=1")
    before, line = machine.loader, words(machine)
    with pytest.raises(ApplyError, match=r"told iommu.nosuch=1, and still iommu.passthrough"):
        machine.bring()
    assert (machine.loader, words(machine)) == (before, line)


def test_a_node_that_is_worse_for_it_goes_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, line = machine.loader, words(machine)
    monkeypatch.setattr(provision, "SETTLE_S", 0.0)
    monkeypatch.setattr(
        provision, "_worse", lambda now, _start: {"gpu.count"} if now.lines.trial else set()
    )
    with pytest.raises(ApplyError, match=r"these were worse: gpu.count; it is on the old"):
        machine.bring()
    assert (machine.loader, words(machine)) == (before, line)
    assert "worse: gpu.count" in machine.read(TRIALS)


class Died(BaseException):
    """A controller ends here, and tells nobody."""


def dies_at(machine: Machine, part: str, *, after: str = "") -> None:
    """The controller dies before the first script with ``part``, once ``after`` was sent."""
    seen: list[str] = [] if after else ["yes"]

    def cut(script: str) -> None:
        if after and after in script:
            seen.append(after)
        elif seen and part in script:
            machine.cut = lambda _script: None
            raise Died

    machine.cut = cut


@KINDS
def test_a_trial_that_a_dead_controller_left_running_is_judged_and_kept(
    tmp_path: Path, kind: str
) -> None:
    machine = make_machine(tmp_path / "node", kind)
    dies_at(machine, "gdr_apply rollback")
    with pytest.raises(Died):
        machine.bring()
    assert any(word.startswith("gdr_toolkit.trial=") for word in words(machine))
    assert " open " in machine.read(TRIALS)
    booted = machine.boot_id
    done = machine.bring()
    assert done.exit_code is ExitCode.OK
    assert machine.boot_id == booted, "it runs what it should: nothing to reboot for"
    assert not any("trial" in path for path in machine.loader)
    assert not machine.exists(TRIALS)


def test_a_trial_that_a_dead_controller_never_booted_is_taken_away_and_tried(
    machine: Machine,
) -> None:
    dies_at(machine, "note_trial")
    with pytest.raises(Died):
        machine.bring()
    assert machine.exists("/etc/grub.d/42_gdr-toolkit")
    assert machine.bring().exit_code is ExitCode.OK
    assert not machine.exists("/etc/grub.d/42_gdr-toolkit")


def test_a_trial_that_was_noted_and_whose_boot_was_not_asked_for_is_tried(
    machine: Machine,
) -> None:
    dies_at(machine, "restart ", after="note_trial")
    with pytest.raises(Died):
        machine.bring()
    assert f" {machine.boot_id}\n" in machine.read(TRIALS)
    assert machine.bring().exit_code is ExitCode.OK
    assert "iommu=pt" in words(machine)


def test_a_trial_that_fell_back_while_nobody_looked_is_not_tried_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for(monkeypatch, "init=/nope", "rdinit=/nope")
    line = words(machine)
    dies_at(machine, "gdr_apply rollback")
    with pytest.raises(Died):
        machine.bring()
    assert words(machine) == line
    booted = machine.boot_id
    machine.bring()
    assert machine.boot_id == booted
    assert not machine.exists("/etc/grub.d/42_gdr-toolkit")
    [blocked] = machine.plan().plan.blocked
    assert "nobody was told how it ended" in blocked.reason


def test_a_node_that_does_not_come_back_is_said_to_have_its_old_entry(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "REBOOT_S", 0.3)
    asks_for(monkeypatch, "init=/nope", "rdinit=/nope", "panic=0")
    with pytest.raises(TransportError, match=r"its next reset boots the old entry"):
        machine.bring()


def test_a_menu_of_which_others_changed_more_is_not_booted(machine: Machine) -> None:
    """/etc/default/grub was changed, and update-grub has not been called since."""
    site = machine.place / "tree/etc/default/grub.d/50-site.cfg"
    site.write_text('GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS1 nosmt"\n')
    before, booted = machine.loader, machine.boot_id
    with pytest.raises(ApplyError, match=r"its default entry would have changed to: .*nosmt"):
        machine.bring()
    assert (machine.loader, machine.boot_id) == (before, booted)


def test_by_flag_the_default_is_written_untried(machine: Machine) -> None:
    done = machine.bring(untried=True)
    assert done.exit_code is ExitCode.OK
    assert "iommu=pt" in words(machine)
    assert not any(word.startswith("gdr_toolkit.trial=") for word in words(machine))
