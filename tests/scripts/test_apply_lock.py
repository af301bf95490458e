"""Two runs on one node, and runs that end before their end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scripts.engine import (
    BOOT,
    GRUB_CFG,
    MODPROBE_D,
    SHELLS,
    STATE,
    UPDATE_GRUB,
    Ran,
    Tree,
    bundle_of,
    make_tree,
    sent,
    trigger,
    usual,
)
from toolkit.node.deliver import rollback_script

pytestmark = pytest.mark.shell

SLOW = "#!/bin/sh\necho begun\nuntil [ -e $GDR_ROOT/go ]; do sleep 0.05; done\n"
BUILD = "BUILD_DKMS dkms build"


def until(true: Callable[[], object], limit_s: float = 120) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=120)
    return process.returncode


def slow_run(tree: Tree, *more: str) -> subprocess.Popen[str]:
    """A run that is in the midst of its trigger, until /go appears."""
    tree.command("dkms", SLOW)
    steps = [step for call in (BUILD, *more) for step in trigger(call)]
    process = tree.start(sent(bundle_of({MODPROBE_D: "x\n"}, *steps)))
    assert process.stdout is not None
    assert any(line == "|begun\n" for line in iter(process.stdout.readline, ""))
    return process


def test_a_second_run_is_told_who_holds_the_node(tree: Tree) -> None:
    first = slow_run(tree)
    second = tree.run(
        sent(bundle_of({MODPROBE_D: "y\n"}), wait_s=0), SSH_CONNECTION="192.0.2.7 1 2"
    )
    assert second.exit == 75
    words = second.evidence.frames["lock"].text
    assert f"by process {first.pid}, started by " in words
    assert words.startswith("held since 2")
    tree.write("/go", "")
    assert ended(first) == 0
    assert tree.read(MODPROBE_D) == "x\n"


def test_a_second_run_waits_its_turn(tree: Tree) -> None:
    first = slow_run(tree)
    second = tree.start(sent(bundle_of({MODPROBE_D: "y\n"}, expect=()), wait_s=30))
    time.sleep(0.3)
    assert tree.read(MODPROBE_D) == "x\n"
    tree.write("/go", "")
    assert (ended(first), ended(second)) == (0, 0)
    assert tree.read(MODPROBE_D) == "y\n"
    assert [line.split()[1] for line in tree.state("journal")] == ["done", "done"]


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(f"1,0,{BOOT},2026-01-01T00:00:00Z,root", id="another-process-has-that-number"),
        pytest.param(f"4194304,5,{BOOT},2026-01-01T00:00:00Z,root", id="that-process-is-gone"),
        pytest.param("OURSELVES,another-boot,2026-01-01T00:00:00Z,root", id="another-boot"),
    ],
)
def test_a_dead_holders_lock_is_broken(tree: Tree, holder: str) -> None:
    if holder.startswith("OURSELVES"):
        began = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
        holder = holder.replace("OURSELVES", f"{os.getpid()},{began}")
    lock = tree.root / STATE / "lock"
    lock.parent.mkdir(parents=True)
    lock.symlink_to(holder)
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 0
    assert tree.leftovers() == []


def test_what_a_killed_run_left_of_a_lock_goes_with_the_next(tree: Tree) -> None:
    """It was killed once it had broken a dead holder's lock, or as it handed on its own."""
    state = tree.root / STATE
    state.mkdir(parents=True)
    (state / "dead-4711-5").symlink_to(f"4194304,5,{BOOT},2026-01-01T00:00:00Z,root")
    (state / "lock.4711").symlink_to(f"1,1,{BOOT},2026-01-01T00:00:00Z,rebooting for root,77")
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 0
    assert tree.leftovers() == []


def test_a_living_holders_lock_is_not_broken(tree: Tree) -> None:
    began = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    lock = tree.root / STATE / "lock"
    lock.parent.mkdir(parents=True)
    lock.symlink_to(f"{os.getpid()},{began},{BOOT},2026-01-01T00:00:00Z,root")
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 75
    assert not tree.exists(MODPROBE_D)


def test_of_many_who_find_a_dead_lock_one_at_a_time_wins(tree: Tree) -> None:
    # mkdir fails where another run is inside: two at once would show.
    tree.command(
        "alone", "#!/bin/sh\nmkdir $GDR_ROOT/inside && sleep 0.1 && rmdir $GDR_ROOT/inside\n"
    )
    lock = tree.root / STATE / "lock"
    lock.parent.mkdir(parents=True)
    lock.symlink_to(f"4194304,5,{BOOT},2026-01-01T00:00:00Z,root")
    text = sent(bundle_of({}, *trigger("DEPMOD alone", undo=""), expect=()), wait_s=50)
    runs = [tree.start(text) for _ in range(4)]
    ended = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, ended
    assert tree.leftovers() == []


def test_a_signal_ends_the_run_after_the_step_that_is_under_way(tree: Tree) -> None:
    process = slow_run(tree, UPDATE_GRUB)
    os.kill(process.pid, signal.SIGTERM)
    time.sleep(0.2)
    assert process.poll() is None
    tree.write("/go", "")
    rest = process.communicate(timeout=120)[0]
    ran = Ran(process.returncode, "= begin ok gdr-toolkit/1\n" + rest, "")
    assert ran.exit == 5
    assert ran.states()[BUILD] == "ok"
    assert ran.states()[f"not begun: {UPDATE_GRUB}"] == "absent"
    assert tree.state("pending") == [UPDATE_GRUB]
    assert tree.leftovers() == []


@pytest.fixture
def hang_up() -> Iterator[None]:
    """SIGHUP ends whoever does not see to it, also where nohup has it ignored: exec keeps that,
    but resets a handler."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up")
def test_a_run_goes_on_when_its_controller_is_gone(tree: Tree) -> None:
    process = slow_run(tree, UPDATE_GRUB)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # what it prints from now on meets a broken pipe
    process.stderr.close()
    os.kill(process.pid, signal.SIGHUP)
    tree.write("/go", "")
    process.wait(30)
    assert "x" in tree.read(GRUB_CFG)
    assert [line.split()[1] for line in tree.state("journal")] == ["done"]
    assert tree.state("pending") == []


def test_a_daemon_that_a_trigger_starts_does_not_hold_the_run(dash_tree: Tree) -> None:
    dash_tree.command("dkms", "#!/bin/sh\nsleep 600 &\necho $! >$GDR_ROOT/daemon\necho started\n")
    ran = dash_tree.run(sent(bundle_of({}, *trigger(BUILD))))
    os.kill(int(dash_tree.read("/daemon")), signal.SIGKILL)  # raises where it has ended
    assert ran.words(BUILD) == "started\n"


# --- killed -----------------------------------------------------------------------------


def heal(tree: Tree, text: str) -> None:
    """What the next plan would do: place again, run what is owed; then all must be well."""
    owed = [step for call in tree.state("pending") for step in trigger(call)]
    steps = owed or trigger(UPDATE_GRUB)
    ran = tree.run(sent(bundle_of({MODPROBE_D: text}, *steps, expect=())))
    assert ran.exit == 0, ran.stdout + ran.stderr
    assert tree.read(MODPROBE_D) == text
    assert text in tree.read(GRUB_CFG)
    assert tree.state("owned") == [MODPROBE_D]
    assert tree.state("pending") == []
    assert tree.leftovers() == []
    assert {line.split()[1] for line in tree.state("journal")} <= {"done", "interrupted"}


def healthy_again(tree: Tree, text: str, site: str) -> None:
    """After a kill: nothing is half there; the next run ends well; all of it can be taken back."""
    if tree.exists(MODPROBE_D):
        assert tree.read(MODPROBE_D) in {"old\n", text}  # never half of it
    heal(tree, text)
    assert tree.rollback("all").exit == 0
    assert not tree.exists(MODPROBE_D) or tree.read(MODPROBE_D) == "old\n"
    assert tree.read("/etc/modprobe.d/site.conf") == site
    assert text not in tree.read(GRUB_CFG)
    assert tree.state("owned") == []
    assert tree.leftovers() == []


def test_what_a_killed_run_left_half_placed_is_cleared_by_the_next(tree: Tree) -> None:
    half = tree.write("/etc/modprobe.d/.gdr-toolkit.conf.gdr-toolkit-new", "half of")
    dead = "20261121T100000Z-77"
    tree.write(f"{STATE}/journal", f"{dead} began 2026-11-21T10:00:00Z\n")
    tree.write(f"{STATE}/runs/{dead}/undo", f"file {MODPROBE_D} {'0' * 64} absent no 4 - - -\n")
    tree.write(f"{STATE}/runs/{dead}/owed", "")
    tree.write(f"{STATE}/owned", f"{MODPROBE_D}\n")
    assert tree.run(sent(bundle_of({"/etc/modprobe.d/other.conf": "x\n"}))).exit == 0
    assert not half.exists()
    assert [line.split()[1] for line in tree.state("journal")] == ["interrupted", "done"]
    assert tree.state("owned") == ["/etc/modprobe.d/other.conf"]  # what is not there is not ours


TEXT = "".join(f"softdep module{number} pre: nvidia\n" for number in range(200))
# Each of these, before it does its work, ends the whole session where its turn has come.
DEADLY = """#!/bin/sh
count=$(($(/bin/cat "$GDR_COUNT") + 1))
echo $count >"$GDR_COUNT"
if [ $count = "$GDR_FATAL" ]; then kill -9 -$(ps -o sid= -p $$ | tr -d ' '); sleep 5; fi
exec {real} "$@"
"""
WATCHED = ("cat", "chmod", "cp", "ln", "mkdir", "mv", "rm", "sync")


def deadly(tree: Tree) -> None:
    for name in WATCHED:
        real = shutil.which(name, path=os.environ["PATH"])
        tree.tool(name, DEADLY.replace("{real}", str(real)))


@pytest.mark.parametrize("existing", ["", "old\n"], ids=["nothing-there", "a-file-there"])
def test_killed_before_any_of_its_commands_the_next_run_ends_well(
    tmp_path: Path, existing: str
) -> None:
    """Every moment between two commands of the engine, one by one."""
    fatal, moments = (-2 if existing else 0), 0  # the two cases share out the moments
    while True:
        fatal += 4
        tree = make_tree(tmp_path / f"{fatal}" / "node", SHELLS["dash"])
        if existing:
            tree.write(MODPROBE_D, existing)
        count = tree.root.parent / "count"
        count.write_text("0\n")
        deadly(tree)
        process = tree.start(usual(TEXT), GDR_COUNT=str(count), GDR_FATAL=str(fatal))
        process.communicate(timeout=60)
        shutil.rmtree(tree.tools)
        tree.tools.mkdir()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        moments += 1
        healthy_again(tree, TEXT, "options site\n")
    assert moments >= 12


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_a_random_moment_the_next_run_ends_well(tree: Tree, seed: int) -> None:
    process = tree.start(usual(TEXT))
    time.sleep(random.Random(seed).uniform(0, 0.4))  # noqa: S311 # a moment, not a secret
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)
    healthy_again(tree, TEXT, "options site\n")


def test_killed_in_a_rollback_the_next_rollback_ends_well(tmp_path: Path) -> None:
    for fatal in range(1, 200, 5):
        tree = make_tree(tmp_path / f"{fatal}" / "node", SHELLS["dash"])
        tree.write(MODPROBE_D, "old\n", 0o600)
        before = tree.files()
        assert tree.run(usual(TEXT)).exit == 0
        count = tree.root.parent / "count"
        count.write_text("0\n")
        deadly(tree)
        more = {"GDR_COUNT": str(count), "GDR_FATAL": str(fatal)}
        killed = tree.run(rollback_script("last", 5), **more)
        shutil.rmtree(tree.tools)
        assert killed.exit in {0, -signal.SIGKILL}
        assert tree.rollback().exit == 0
        assert {path: each[:4] for path, each in tree.files().items()} == {
            path: each[:4] for path, each in before.items()
        }
        assert tree.leftovers() == []
        if killed.exit == 0:
            return
    pytest.fail("the rollback was killed every time")
