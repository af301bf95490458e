"""A bundle that is brought more than once: looked at, found carried out, taken back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import (
    MODPROBE_D,
    STATE,
    UPDATE_GRUB,
    Ran,
    Tree,
    bundle_of,
    digest,
    sent,
    trigger,
)
from tests.scripts.test_apply_lock import ended, slow_run
from toolkit.plan.bundle import Bundle, runner

pytestmark = pytest.mark.shell

BOOT_ID = "/proc/sys/kernel/random/boot_id"
USUAL = bundle_of(
    {MODPROBE_D: "softdep x pre: y\n"},
    *trigger(UPDATE_GRUB),
    expect=(f"expect file {MODPROBE_D} absent",),
)


def call(tree: Tree, verb: str, bundle: Bundle = USUAL, wait_s: str = "5") -> Ran:
    """As Ansible's script module does: a file that sh is given, with words behind it."""
    file = tree.root.parent / "run.sh"
    file.write_text(runner(bundle))
    done = subprocess.run(
        [*tree.shell, str(file), verb, wait_s, "end"],
        env=tree.env(TMPDIR=str(tree.root.parent)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def aside(tree: Tree) -> list[Path]:
    return list(tree.root.parent.glob("gdr-*"))


def test_a_look_says_what_would_be_done_and_touches_nothing(tree: Tree) -> None:
    before = tree.files()
    ran = call(tree, "look")
    assert (ran.exit, ran.stderr) == (0, "")
    assert ran.evidence.complete
    assert ran.states()[f"not begun: place {MODPROBE_D}"] == "absent"
    assert ran.states()[f"not begun: {UPDATE_GRUB}"] == "absent"
    assert tree.files() == before
    assert not tree.exists(STATE)
    assert aside(tree) == []


def test_a_look_at_a_node_in_another_state_says_so(tree: Tree) -> None:
    tree.write(MODPROBE_D, "of other hands\n")
    ran = call(tree, "look")
    assert ran.exit == 5
    assert ran.states()[f"expect file {MODPROBE_D} absent"] == "failed:65"
    assert not tree.exists(STATE)


def test_what_was_carried_out_is_not_done_again(tree: Tree) -> None:
    assert call(tree, "apply").exit == 0
    after, journal = tree.files(), tree.state("journal")
    for verb in ("apply", "look"):
        ran = call(tree, verb)
        assert ran.exit == 0
        names = {"apply": ["settled"], "look": ["standing", "settled"]}
        assert list(ran.evidence.frames) == names[verb]
        assert {each.source for each in ran.evidence.frames.values()} == {journal[0].split()[0]}
    assert tree.run(sent(USUAL)).exit == 5, "a plan that we send ourselves is for a state"
    assert tree.files() == after
    assert tree.state("journal") == journal
    assert aside(tree) == []


def test_a_boot_does_not_make_it_undone(tree: Tree) -> None:
    bundle = bundle_of({MODPROBE_D: "x\n"})
    assert call(tree, "apply", bundle).exit == 0
    tree.write(BOOT_ID, "99999999-2222-3333-4444-555555555555\n")
    assert list(call(tree, "apply", bundle).evidence.frames) == ["settled"]


def test_what_other_hands_changed_since_is_stale_and_not_settled(tree: Tree) -> None:
    assert call(tree, "apply").exit == 0
    tree.write(MODPROBE_D, "of other hands\n")
    ran = call(tree, "apply")
    assert ran.exit == 5
    assert ran.words("expect file").startswith(f"{MODPROBE_D} is not as it was when the plan was")


def test_a_run_that_stopped_midway_is_not_settled(tree: Tree) -> None:
    bundle = bundle_of({MODPROBE_D: "x\n"}, *trigger(UPDATE_GRUB))
    tree.command("update-grub", "#!/bin/sh\nexit 3\n")
    assert call(tree, "apply", bundle).exit == 5
    ran = call(tree, "look", bundle)
    assert "settled" not in ran.evidence.frames


def test_a_trigger_that_is_owed_again_is_not_settled(tree: Tree) -> None:
    assert call(tree, "apply").exit == 0
    tree.write(f"/{STATE}/pending", f"{UPDATE_GRUB}\n")
    assert "settled" not in call(tree, "look").evidence.frames


def test_triggers_without_a_file_are_run_whenever_they_are_brought(tree: Tree) -> None:
    """A module loaded on Monday may be unloaded on Tuesday, in the same boot, by the same plan."""
    bundle = bundle_of({}, *trigger(UPDATE_GRUB))
    for ran in (tree.run(sent(bundle)), call(tree, "apply", bundle), tree.run(sent(bundle))):
        assert ran.exit == 0
        assert ran.states()[UPDATE_GRUB] == "ok"
        assert "settled" not in ran.evidence.frames


def test_a_look_at_a_node_that_is_held_says_who_holds_it(tree: Tree) -> None:
    process = slow_run(tree)
    ran = call(tree, "look")
    tree.write("/go", "")
    assert ended(process) == 0
    assert ran.exit == 75
    assert f"by process {process.pid}, started by " in ran.evidence.frames["lock"].text


def test_a_bundle_is_taken_back_by_itself_and_once(tree: Tree) -> None:
    other = "/etc/modprobe.d/other.conf"
    before = tree.files()
    assert tree.run(sent(bundle_of({other: "kept\n"}))).exit == 0
    assert call(tree, "apply").exit == 0
    ran = call(tree, "retract")
    assert (ran.exit, ran.stderr) == (0, "")
    assert ran.states()[f"restore {MODPROBE_D}"] == "ok"
    assert tree.read(other) == "kept\n"
    assert not tree.exists(MODPROBE_D)
    again = call(tree, "retract")
    assert again.exit == 0
    assert list(again.evidence.frames) == ["nothing"]
    assert tree.rollback().exit == 0
    assert {p: e[:4] for p, e in tree.files().items()} == {p: e[:4] for p, e in before.items()}
    assert aside(tree) == []


def test_another_bundle_is_not_this_one(tree: Tree) -> None:
    assert call(tree, "apply").exit == 0
    other = bundle_of(
        {MODPROBE_D: "softdep x pre: z\n"},
        expect=(f"expect file {MODPROBE_D} {digest('softdep x pre: y' + chr(10))}",),
    )
    assert list(call(tree, "retract", other).evidence.frames) == ["nothing"]
    assert call(tree, "apply", other).exit == 0
    assert tree.read(MODPROBE_D) == "softdep x pre: z\n"


def test_a_file_that_is_cut_at_any_byte_runs_nothing(dash_tree: Tree) -> None:
    text = runner(USUAL)
    file = dash_tree.root.parent / "run.sh"
    for cut in [*range(0, len(text), 499), *range(len(text) - 30, len(text) - 1)]:
        file.write_text(text[:cut])
        words = [*dash_tree.shell, str(file), "apply", "5", "end"]
        done = subprocess.run(words, env=dash_tree.env(), capture_output=True, check=False)
        assert done.stdout == b"", f"cut at {cut}"
    assert not dash_tree.exists(STATE)
