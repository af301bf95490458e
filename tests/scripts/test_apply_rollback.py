"""How the engine takes back what a run did."""

from __future__ import annotations

import os

import pytest

from tests.scripts.engine import (
    GRUB_CFG,
    LIMITS,
    MODPROBE_D,
    UPDATE_GRUB,
    Tree,
    bundle_of,
    sent,
    trigger,
    usual,
)

pytestmark = pytest.mark.shell

DEEP = "/etc/gdr-toolkit/sub/kernel-arguments"


def test_rollback_restores_bytes_mode_owner_and_time(tree: Tree) -> None:
    old = tree.write(MODPROBE_D, "what was\n", 0o640)
    if os.geteuid() == 0:
        os.chown(old, 12, 34)
    os.utime(old, (1_600_000_000, 1_600_000_000))
    before = tree.files()
    tree.run(sent(bundle_of({MODPROBE_D: "new\n", DEEP: "iommu=pt\n"}, *trigger(UPDATE_GRUB))))
    assert tree.files() != before
    ran = tree.rollback()
    assert ran.exit == 0
    assert tree.files() == before
    assert tree.state("owned") == []
    assert tree.leftovers() == []


def test_rollback_of_a_removal_puts_the_file_back(tree: Tree) -> None:
    tree.run(sent(bundle_of({DEEP: "iommu=pt\n"})))
    before, owned = tree.files(), sorted(tree.state("owned"))
    tree.run(sent(bundle_of({}, remove=[DEEP])))
    assert not tree.exists("/etc/gdr-toolkit")
    assert tree.state("owned") == []
    assert tree.rollback("last").exit == 0
    assert tree.files() == before
    assert sorted(tree.state("owned")) == owned


def test_runs_are_taken_back_newest_first(tree: Tree) -> None:
    before = tree.files()
    for text in ("one\n", "two\n", "three\n"):
        tree.run(usual(text))
    middle = tree.files()
    tree.run(usual("four\n"))
    assert tree.rollback("last").exit == 0
    assert tree.files() == middle
    assert tree.rollback("all").exit == 0
    assert tree.files() == before
    assert {line.split()[1] for line in tree.state("journal")} == {"rolled-back"}


def test_one_run_can_be_named(tree: Tree) -> None:
    tree.run(sent(bundle_of({MODPROBE_D: "one\n"})))
    tree.run(sent(bundle_of({LIMITS: "two\n"})))
    first = tree.state("journal")[0].split()[0]
    assert tree.rollback(first).exit == 0
    assert not tree.exists(MODPROBE_D)
    assert tree.exists(LIMITS)


def test_nothing_to_take_back_is_no_trouble(tree: Tree) -> None:
    ran = tree.rollback()
    assert (ran.exit, ran.states()) == (0, {"no run to take back": "ok"})


def test_a_file_changed_since_by_other_hands_is_left(tree: Tree) -> None:
    tree.run(sent(bundle_of({MODPROBE_D: "ours\n", LIMITS: "ours\n"})))
    tree.write(LIMITS, "theirs\n")
    ran = tree.rollback()
    assert ran.exit == 5
    assert ran.words(f"restore {LIMITS}") == "changed since by other hands, so left as it is\n"
    assert tree.read(LIMITS) == "theirs\n"
    assert not tree.exists(MODPROBE_D)
    assert [line.split()[1] for line in tree.state("journal")] == ["partly-rolled-back"]


def test_links_and_folders_that_a_trigger_moves_come_back(tree: Tree) -> None:
    for version in ("1.0", "2.0"):
        tree.write(f"/boot/grub/{version}/module.ko", version)
    (tree.root / "boot/grub/current").symlink_to("1.0")
    (tree.root / "boot/grub/empty").mkdir()
    tree.command(
        "dkms",
        '#!/bin/sh\ncd "$GDR_ROOT/boot/grub" && ln -sfn 2.0 current && ln -s 1.0 other\n'
        "rmdir empty && mkdir -p a/b && echo x >a/b/c\n"
        "rm 1.0/module.ko && echo y >2.0/module.ko\n",
    )
    before = tree.files()
    assert tree.run(sent(bundle_of({}, *trigger("BUILD_DKMS dkms build")))).exit == 0
    assert tree.rollback().exit == 0
    assert tree.files() == before
    assert (tree.root / "boot/grub/current").readlink().name == "1.0"


def test_a_rewritten_file_changed_since_is_written_by_its_trigger_again(tree: Tree) -> None:
    tree.run(usual("softdep x\n"))
    tree.write(GRUB_CFG, "a kernel was installed since\n")
    ran = tree.rollback()
    assert ran.exit == 0
    assert "changed since by other hands" in ran.words("give back")
    assert tree.read(GRUB_CFG) == "options site\n\n"  # as update-grub derives it without ours


def test_only_the_trigger_whose_files_were_changed_since_runs_again(tree: Tree) -> None:
    tree.write("/lib/modules/6.8/updates/nvidia.ko", "stub\n")
    tree.command(
        "dkms",
        "#!/bin/sh\necho $@ >>$GDR_ROOT/builds\n"
        "echo built >$GDR_ROOT/lib/modules/6.8/updates/nvidia.ko\n",
    )
    calls = ("BUILD_DKMS dkms build", UPDATE_GRUB)
    tree.run(sent(bundle_of({MODPROBE_D: "x\n"}, *[s for c in calls for s in trigger(c)])))
    tree.write(GRUB_CFG, "a kernel was installed since\n")
    assert tree.rollback().exit == 0
    assert tree.read("/builds") == "build\n"  # not again: its file could be restored
    assert tree.read("/lib/modules/6.8/updates/nvidia.ko") == "stub\n"
    assert tree.read(GRUB_CFG) == "options site\n\n"


def test_a_call_that_is_taken_back_by_another_one(tree: Tree) -> None:
    log = "#!/bin/sh\necho $@ $(ls $GDR_ROOT/etc/modprobe.d) >>$GDR_ROOT/log\n"
    tree.command("dkms", log)
    steps = [
        "undo first 'BUILD_DKMS dkms remove'",
        "undo after 'BUILD_DKMS dkms tidy'",
        "trigger 'BUILD_DKMS dkms add'",
    ]
    tree.run(sent(bundle_of({MODPROBE_D: "x\n"}, *steps)))
    assert tree.rollback().exit == 0
    assert tree.read("/log").split("\n")[:-1] == [
        "add gdr-toolkit.conf site.conf",
        "remove gdr-toolkit.conf site.conf",  # before files are restored
        "tidy site.conf",  # after
    ]
