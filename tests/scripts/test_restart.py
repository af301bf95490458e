"""A reboot asks for the node's lock, and keeps it until the node is up again."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.scripts.engine import BOOT, LIMIT_S, MODPROBE_D, STATE, Tree, bundle_of, sent
from tests.scripts.test_apply_lock import ended, slow_run, until
from toolkit.node.deliver import RELEASE, restart_script

pytestmark = pytest.mark.shell

BOOT_ID = "proc/sys/kernel/random/boot_id"
NEXT_BOOT = "22222222-3333-4444-5555-666666666666"
# A node goes down only after a while; this one shuts down until /go appears.
SYSTEMCTL = f"""#!/bin/sh
echo "$*" >>"$GDR_ROOT/rebooted"
{{
    until [ -e "$GDR_ROOT/go" ]; do sleep 0.05; done
    echo {NEXT_BOOT} >"$GDR_ROOT/{BOOT_ID}"
}} &
"""


def rebooting(tree: Tree) -> None:
    tree.command("systemctl", SYSTEMCTL)
    done = tree.run(restart_script(BOOT, 5))
    assert (done.exit, done.states()) == (0, {BOOT: "ok"}), done.stdout + done.stderr
    # A shell makes the file first, and fills it then.
    until(lambda: tree.exists("/rebooted") and tree.read("/rebooted"))


def lock(tree: Tree) -> Path:
    return tree.root / STATE / "lock"


def test_no_run_begins_between_the_word_and_the_boot(tree: Tree) -> None:
    rebooting(tree)
    assert tree.read("/rebooted") == "reboot\n"
    second = tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0), SUDO_USER="ann")
    assert second.exit == 75
    assert second.evidence.frames["lock"].text.startswith("it is rebooting since 2")
    assert not tree.exists(MODPROBE_D)
    tree.write("/go", "")
    until(lambda: NEXT_BOOT in tree.read(BOOT_ID))
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}, expect=()), wait_s=0)).exit == 0
    assert tree.leftovers() == []


def test_all_is_on_the_disk_before_the_node_goes_down(tree: Tree) -> None:
    """What was placed is, but what a trigger or somebody else wrote may not be."""
    said = '#!/bin/sh\necho {name} "$*" >>"$GDR_ROOT/order"\n'
    tree.tool("sync", said.format(name="sync"))
    tree.command("systemctl", said.format(name="systemctl"))
    assert tree.run(restart_script(BOOT, 5)).exit == 0
    until(lambda: tree.exists("/order") and "systemctl" in tree.read("/order"))
    assert tree.read("/order").split("\n")[:2] == ["sync ", "systemctl reboot"]


def test_a_node_that_another_run_works_on_is_not_rebooted(tree: Tree) -> None:
    tree.command("systemctl", SYSTEMCTL)
    first = slow_run(tree)
    held = tree.run(restart_script(BOOT, 0))
    assert held.exit == 75
    assert f"by process {first.pid}, " in held.evidence.frames["lock"].text
    tree.write("/go", "")
    assert ended(first) == 0
    time.sleep(1.5)
    assert not tree.exists("/rebooted")
    assert tree.leftovers() == []


def test_a_reboot_waits_for_the_work_of_another_run(tree: Tree) -> None:
    tree.command("systemctl", SYSTEMCTL)
    first = slow_run(tree)
    waiting = tree.start(restart_script(BOOT, LIMIT_S))
    time.sleep(1.3)
    assert not tree.exists("/rebooted")
    tree.write("/go", "")
    assert (ended(first), ended(waiting)) == (0, 0)
    until(lambda: NEXT_BOOT in tree.read(BOOT_ID))
    assert tree.read(MODPROBE_D) == "x\n"


def test_a_node_that_was_booted_meanwhile_is_not_booted_again(tree: Tree) -> None:
    tree.command("systemctl", SYSTEMCTL)
    done = tree.run(restart_script(NEXT_BOOT, 0))
    assert done.exit == 5
    assert done.states() == {f"expect boot-id {NEXT_BOOT}": "failed:65"}
    time.sleep(1.5)
    assert not tree.exists("/rebooted")
    assert tree.leftovers() == []


def test_a_node_that_refuses_to_reboot_may_be_worked_on_again(tree: Tree) -> None:
    for name in ("systemctl", "reboot"):
        tree.command(name, f"#!/bin/sh\necho {name} >>$GDR_ROOT/asked\nexit 1\n")
    assert tree.run(restart_script(BOOT, 0)).exit == 0
    until(lambda: tree.exists("/asked") and not os.path.lexists(lock(tree)))
    assert tree.read("/asked") == "systemctl\nreboot\n"


def test_cut_off_anywhere_it_reboots_nothing(dash_tree: Tree) -> None:
    dash_tree.command("systemctl", SYSTEMCTL)
    script = restart_script(BOOT, 0)
    last = script.rindex("gdr_apply")
    for end in (*range(last, len(script) - 1, 9), len(script) - 2, script.index("going_down")):
        assert dash_tree.run(script[:end]).exit != 75
    time.sleep(1.5)
    assert not dash_tree.exists("/rebooted")


def test_a_reboot_that_never_came_does_not_keep_a_node_for_ever(tree: Tree) -> None:
    """Whoever kept the lock was killed with its session, and the node stayed up."""
    lock(tree).parent.mkdir(parents=True)
    began = Path("/proc/1/stat").read_text().rpartition(") ")[2].split()[19]
    lock(tree).symlink_to(f"1,{began},{BOOT},2026-01-01T00:00:00Z,rebooting for root,100")
    tree.write("/proc/uptime", "1300.99 1.0\n")
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 75
    tree.write("/proc/uptime", "1301.00 1.0\n")
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 0
    assert tree.leftovers() == []


def test_a_step_of_the_clock_amid_a_reboot_frees_no_lock_and_boots_once(tree: Tree) -> None:
    rebooting(tree)
    os.utime(lock(tree), (1000, 1000), follow_symlinks=False)  # as a step forward makes it look
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 75
    assert tree.run(restart_script(BOOT, 0)).exit == 75
    tree.write("/go", "")
    until(lambda: NEXT_BOOT in tree.read(BOOT_ID))
    assert tree.run(restart_script(BOOT, 0)).exit == 5
    assert tree.read("/rebooted") == "reboot\n"


def test_a_reset_that_is_a_bmc_s_keeps_the_lock_and_reboots_nothing(tree: Tree) -> None:
    tree.command("systemctl", SYSTEMCTL)
    kept = tree.run(restart_script(BOOT, 5, by_itself=False))
    assert (kept.exit, kept.states()) == (0, {BOOT: "ok"}), kept.stdout + kept.stderr
    second = tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0))
    assert second.exit == 75
    assert second.evidence.frames["lock"].text.startswith("it is rebooting since 2")
    time.sleep(1.5)
    assert not tree.exists("/rebooted")
    tree.run(RELEASE)
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 0
    assert tree.leftovers() == []


def test_a_dead_lock_that_another_run_has_taken_meanwhile_is_the_others(tree: Tree) -> None:
    """Between the look at a dead holder's link and its removal another run may have won it."""
    lock(tree).parent.mkdir(parents=True)
    lock(tree).symlink_to(f"4194304,5,{BOOT},2026-01-01T00:00:00Z,root")
    began = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    winner = f"{os.getpid()},{began},{BOOT},2026-01-01T00:00:01Z,ann"
    real = shutil.which("tr")  # what the engine calls between the two
    tree.tool("tr", f'#!/bin/sh\nln -sfn {winner} {lock(tree)}\nexec {real} "$@"\n')
    second = tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0))
    assert second.exit == 75
    assert str(lock(tree).readlink()) == winner
    assert not tree.exists(MODPROBE_D)


def test_a_dead_lock_that_another_run_is_about_to_break_is_left_to_it(tree: Tree) -> None:
    dead = f"4194304,5,{BOOT},2026-01-01T00:00:00Z,root"
    began = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    lock(tree).parent.mkdir(parents=True)
    lock(tree).symlink_to(dead)
    breaking = lock(tree).with_name(f"dead-{re.sub('[^A-Za-z0-9]', '-', dead)}")
    breaking.symlink_to(f"{os.getpid()},{began},{BOOT},2026-01-01T00:00:01Z,ann")
    assert tree.run(sent(bundle_of({MODPROBE_D: "x\n"}), wait_s=0)).exit == 75
    assert (str(lock(tree).readlink()), breaking.is_symlink()) == (dead, True)


def test_a_lock_that_is_at_work_is_not_given_back(tree: Tree) -> None:
    first = slow_run(tree)
    tree.run(RELEASE)
    assert os.path.lexists(lock(tree))
    tree.write("/go", "")
    assert ended(first) == 0
