"""What the controller says of a run, in its own sentences."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.scripts.engine import (
    BOOT,
    GRUB_CFG,
    MODPROBE_D,
    STATE,
    UPDATE_GRUB,
    Tree,
    bundle_of,
    sent,
    trigger,
    usual,
)
from toolkit.errors import ApplyError, ExitCode, LockedError, StaleError, UsageError
from toolkit.node import deliver
from toolkit.node.audit import of_run
from toolkit.ssh.transport import Result, Sink, Transport, quiet

pytestmark = pytest.mark.shell


@dataclass(slots=True)
class Local:
    """A transport that runs scripts on a scratch node."""

    tree: Tree
    cut: int = 0  # bytes of the output that are lost
    name: str = "gpu07"
    heard: list[str] = field(default_factory=list)

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        ran = self.tree.run(script)
        for line in ran.stdout.split("\n")[:-1]:
            sink(line)
        return Result(ran.exit, ran.stdout[: len(ran.stdout) - self.cut], ran.stderr)

    def close(self) -> None:
        """Nothing to let go of."""


def test_a_local_node_is_a_transport(dash_tree: Tree) -> None:
    transport: Transport = Local(dash_tree)
    assert transport.name == "gpu07"


def test_what_was_done_is_told_step_by_step(dash_tree: Tree) -> None:
    local = Local(dash_tree)
    applied = deliver.apply(local, usual(), sink=local.heard.append)
    assert [str(step) for step in applied.steps][-3:] == [
        f"place {MODPROBE_D}: done",
        f"undo kept {UPDATE_GRUB}: done",
        f"{UPDATE_GRUB}: done",
    ]
    assert applied.steps[-1].output.startswith("Generating grub")
    assert applied.needs_reboot
    assert [line.split()[0] for line in dash_tree.state("journal")] == [applied.run]
    assert "|Generating grub configuration file ..." in local.heard


def test_a_stale_plan_says_that_nothing_was_touched(dash_tree: Tree) -> None:
    stale = bundle_of({MODPROBE_D: "x\n"}, expect=["expect kernel 6.1.0"])
    with pytest.raises(StaleError) as caught:
        deliver.apply(Local(dash_tree), sent(stale))
    assert str(caught.value) == (
        "gpu07: the plan was made for kernel 6.1.0, the node now runs 6.8.0-45-generic"
    )
    assert caught.value.hint == "nothing was touched; plan again: ./invokew plan --hosts gpu07"
    assert caught.value.exit_code is ExitCode.STOPPED


def test_a_held_node_says_who_holds_it(dash_tree: Tree) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        stat = Path(f"/proc/{sleeper.pid}/stat").read_text()
        began = stat.rpartition(") ")[2].split()[19]
        lock = dash_tree.root / STATE / "lock"
        lock.parent.mkdir(parents=True)
        lock.symlink_to(f"{sleeper.pid},{began},{BOOT},2026-11-21T10:00:00Z,ann 192.0.2.7")
        with pytest.raises(LockedError) as caught:
            deliver.apply(Local(dash_tree), sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert str(caught.value) == (
        f"gpu07: held since 2026-11-21T10:00:00Z by process {sleeper.pid}, started by ann 192.0.2.7"
    )


def test_a_failed_step_says_what_stands_and_what_was_not_begun(dash_tree: Tree) -> None:
    dash_tree.command("dkms", "#!/bin/sh\necho Building...\necho 'cc: not found' >&2\nexit 10\n")
    steps = [step for call in ("BUILD_DKMS dkms build", UPDATE_GRUB) for step in trigger(call)]
    with pytest.raises(ApplyError) as caught:
        deliver.apply(Local(dash_tree), sent(bundle_of({MODPROBE_D: "x\n"}, *steps)))
    assert str(caught.value) == (
        "gpu07: BUILD_DKMS dkms build ended with status 10; 1 step before it stands, "
        "1 was not begun\nBuilding...\ncc: not found"
    )
    assert "./invokew rollback --hosts gpu07" in caught.value.hint


def test_a_first_step_that_fails_leaves_nothing_touched(dash_tree: Tree) -> None:
    dash_tree.write("/etc/modprobe.d/gdr-toolkit.conf/a-folder", "x\n")
    with pytest.raises(ApplyError, match="is not an ordinary file") as caught:
        deliver.apply(Local(dash_tree), usual())
    assert "; nothing was touched, 1 was not begun" in str(caught.value)


def test_a_first_command_that_fails_may_have_touched_things(dash_tree: Tree) -> None:
    dash_tree.command("dkms", "#!/bin/sh\nexit 3\n")
    with pytest.raises(ApplyError, match=r"ended with status 3; no step before it$"):
        deliver.apply(Local(dash_tree), sent(bundle_of({}, *trigger("BUILD_DKMS dkms"))))


def test_an_output_that_breaks_off_is_no_success(dash_tree: Tree) -> None:
    with pytest.raises(ApplyError, match="gpu07: the script broke off"):
        deliver.apply(Local(dash_tree, cut=30), usual())


def test_no_output_at_all_is_no_success(dash_tree: Tree) -> None:
    with pytest.raises(ApplyError, match="broke off; nothing is known to stand"):
        deliver.apply(Local(dash_tree), "echo 'sh: broken' >&2\n")


def test_where_nothing_can_be_written_the_system_says_why(dash_tree: Tree) -> None:
    dash_tree.write("/var", "a file\n")
    with pytest.raises(ApplyError, match=r"Not a directory|File exists") as caught:
        deliver.apply(Local(dash_tree), usual())
    assert caught.value.hint == "nothing was touched"


def test_a_rollback_tells_its_runs_and_whether_the_boot_changes(dash_tree: Tree) -> None:
    first = deliver.apply(Local(dash_tree), usual("one\n"))
    second = deliver.apply(Local(dash_tree), usual("two\n"))
    back = deliver.rollback(Local(dash_tree), "all")
    assert back.run == f"{second.run} {first.run}"
    assert back.needs_reboot
    assert deliver.rollback(Local(dash_tree)).steps == ()


def test_a_rollback_of_files_alone_owes_no_reboot(dash_tree: Tree) -> None:
    deliver.apply(Local(dash_tree), sent(bundle_of({MODPROBE_D: "x\n"})))
    assert not deliver.rollback(Local(dash_tree)).needs_reboot


def test_a_rollback_says_what_it_left(dash_tree: Tree) -> None:
    deliver.apply(Local(dash_tree), usual())
    dash_tree.write(MODPROBE_D, "theirs\n")
    with pytest.raises(ApplyError) as caught:
        deliver.rollback(Local(dash_tree))
    assert str(caught.value) == (
        f"gpu07: not all was taken back: restore {MODPROBE_D}: "
        "changed since by other hands, so left as it is"
    )
    assert dash_tree.read(GRUB_CFG) == "menuentry before\n"


def test_a_run_that_the_node_does_not_know_is_told(dash_tree: Tree) -> None:
    deliver.apply(Local(dash_tree), usual())
    with pytest.raises(UsageError, match="gpu07: the journal has no run 20200101T000000Z-1"):
        deliver.rollback(Local(dash_tree), "20200101T000000Z-1")
    assert dash_tree.exists(MODPROBE_D)


@pytest.mark.parametrize("run", ["", "last; reboot", "../x", "$(reboot)", "a b", "-"])
def test_what_cannot_be_a_run_is_never_sent(dash_tree: Tree, run: str) -> None:
    with pytest.raises(UsageError, match="no run is named"):
        deliver.rollback(Local(dash_tree), run)


def test_the_nodes_journal_has_who_had_it_done_and_who_took_it_back(
    dash_tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    made = of_run("2026-11-21T22-00-00-provision", "ticket 4711; rm -rf / rolled-back ")
    applied = deliver.apply(Local(dash_tree), usual(), audit=made)
    (line,) = dash_tree.state("journal")
    digest = (dash_tree.root / STATE / "runs" / applied.run / "bundle").read_text().strip()
    state, told = line.split(" ", 3)[1], line.split(" ", 3)[3]
    assert (state, told) == ("done", f"{made} bundle={digest}")
    assert {"sudo=alice", "run=2026-11-21T22-00-00-provision"} < set(made.split())
    assert "reason=ticket_4711__rm_-rf___rolled-back_" in made.split()
    back = of_run("2026-11-22T09-00-00-undo")
    deliver.rollback(Local(dash_tree), audit=back)
    (line,) = dash_tree.state("journal")
    assert line.split(" ", 3)[1::2] == ["rolled-back", f"{made} bundle={digest} / {back}"]
