"""What the engine does on a node, step by step."""

from __future__ import annotations

import os
import re
import stat

import pytest

from tests.scripts.engine import (
    BOOT,
    GRUB_CFG,
    KERNEL,
    LIMIT_S,
    LIMITS,
    MODPROBE_D,
    STATE,
    UPDATE_GRUB,
    Tree,
    bundle_of,
    digest,
    noted,
    noting,
    sent,
    trigger,
    usual,
)
from toolkit.node.deliver import engine
from toolkit.plan.bundle import Bundle

pytestmark = pytest.mark.shell

DEEP = "/etc/gdr-toolkit/sub/kernel-arguments"


def test_a_file_is_placed_and_its_trigger_run(tree: Tree) -> None:
    ran = tree.run(usual("softdep x\n"))
    assert (ran.exit, ran.stderr) == (0, "")
    assert set(ran.states().values()) == {"ok"}
    assert tree.read(MODPROBE_D) == "softdep x\n"
    assert "softdep x" in tree.read(GRUB_CFG)
    assert tree.state("owned") == [MODPROBE_D]
    assert tree.state("pending") == []
    assert [line.split()[1] for line in tree.state("journal")] == ["done"]
    assert tree.leftovers() == []


TEMP = "/etc/modprobe.d/.gdr-toolkit.conf.gdr-toolkit-new"


def test_bytes_are_on_the_disk_before_they_have_the_name(tree: Tree) -> None:
    noting(tree)
    tree.run(usual())
    calls = noted(tree)
    renamed = calls.index(f"mv -f {TEMP} {MODPROBE_D}")
    assert f"sync -d {TEMP}" in calls[:renamed]
    assert "sync -d /etc/modprobe.d" in calls[renamed:]
    # What takes the act back was on the disk before it.
    assert any(line.startswith("sync -d") and line.endswith("/undo") for line in calls[:renamed])


def test_what_is_replaced_is_on_the_disk_before_it_is(tree: Tree) -> None:
    """A rollback after a crash would else find an empty copy, or no word of it."""
    tree.write(MODPROBE_D, "old\n")
    noting(tree)
    tree.run(usual())
    calls = noted(tree)
    renamed = calls.index(f"mv -f {TEMP} {MODPROBE_D}")
    [copy] = (each for each in range(renamed) if re.search(r"/kept/\d", calls[each]))
    [told] = (each for each in range(renamed) if calls[each].endswith("/undo"))
    assert calls[copy].startswith("sync -d /var/lib/gdr-toolkit/runs/")
    assert copy < told < renamed


def test_what_a_rollback_restores_is_on_the_disk_before_it_has_the_name(tree: Tree) -> None:
    tree.write(MODPROBE_D, "old\n")
    tree.run(usual())
    noting(tree)
    assert tree.rollback().exit == 0
    calls = noted(tree)
    grub = "/boot/grub/.grub.cfg.gdr-toolkit-new"
    for temp, path in ((TEMP, MODPROBE_D), (grub, GRUB_CFG)):
        renamed = calls.index(f"mv -f {temp} {path}")
        assert f"sync -d {temp}" in calls[:renamed]
    assert "sync -d /etc/modprobe.d" in calls


def test_the_state_is_on_the_disk_before_it_has_its_name(tree: Tree) -> None:
    noting(tree)
    tree.run(usual())
    calls = noted(tree)
    for name in ("journal", "pending", "owned"):
        renamed = calls.index(f"mv -f /{STATE}/{name}.new /{STATE}/{name}")
        assert calls[renamed - 1] == f"sync -d /{STATE}/{name}.new"


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755])
def test_mode_and_owner_are_those_of_the_bundle(tree: Tree, mode: int) -> None:
    tree.run(sent(bundle_of({MODPROBE_D: "x\n"}, mode=mode)))
    found = (tree.root / MODPROBE_D[1:]).stat()
    assert stat.S_IMODE(found.st_mode) == mode
    assert (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        pytest.param(
            "expect kernel 6.1.0", f"made for kernel 6.1.0, the node now runs {KERNEL}", id="kernel"
        ),
        pytest.param(f"expect boot-id {BOOT[:-1]}0", "the node was booted again", id="boot"),
        pytest.param(f"expect file {MODPROBE_D} {'0' * 64}", "now absent", id="file-gone"),
        pytest.param("expect file /etc/modprobe.d/site.conf absent", "absent then", id="file-new"),
        pytest.param("expect moon full", "does not know", id="from-the-future"),
    ],
)
def test_a_plan_for_another_state_touches_nothing(tree: Tree, expect: str, sentence: str) -> None:
    before = tree.files()
    wrong = bundle_of(
        {MODPROBE_D: "x\n"}, *trigger(UPDATE_GRUB), expect=[f"expect kernel {KERNEL}", expect]
    )
    ran = tree.run(sent(wrong))
    assert ran.exit == 5
    assert sentence in ran.words(expect)
    assert ran.states()[f"expect kernel {KERNEL}"] == "ok"
    assert ran.states()[f"not begun: place {MODPROBE_D}"] == "absent"
    assert ran.evidence.complete
    assert tree.files() == before
    assert tree.state("journal") == []
    assert list((tree.root / STATE / "runs").iterdir()) == []


def test_expectations_that_hold_let_the_plan_through(tree: Tree) -> None:
    tree.write(MODPROBE_D, "old\n")
    holds = [f"expect file {MODPROBE_D} {digest('old' + chr(10))}", f"expect file {LIMITS} absent"]
    assert tree.run(sent(bundle_of({MODPROBE_D: "new\n"}, expect=holds))).exit == 0


def test_a_failed_trigger_says_what_stands_and_what_was_not_begun(tree: Tree) -> None:
    tree.command("dkms", "#!/bin/sh\necho Building...\necho broken >&2\nexit 10\n")
    calls = ["BUILD_DKMS dkms build", UPDATE_GRUB]
    ran = tree.run(sent(bundle_of({MODPROBE_D: "x\n"}, *[s for c in calls for s in trigger(c)])))
    assert ran.exit == 5
    assert ran.words("BUILD_DKMS") == "Building...\nbroken\n"
    assert ran.states()[f"place {MODPROBE_D}"] == "ok"
    assert ran.states()["BUILD_DKMS dkms build"] == "failed:10"
    assert ran.states()[f"not begun: {UPDATE_GRUB}"] == "absent"
    assert tree.read(MODPROBE_D) == "x\n"
    assert tree.state("pending") == calls  # both are owed to the next plan
    assert [line.split()[1] for line in tree.state("journal")] == ["stopped"]
    tree.command("dkms", "#!/bin/sh\n")
    assert tree.rollback().exit == 0
    assert tree.state("pending") == []


def test_a_missing_command_is_found_before_anything_is_touched(tree: Tree) -> None:
    before = tree.files()
    ran = tree.run(sent(bundle_of({MODPROBE_D: "x\n"}, *trigger("DEPMOD no-such-thing -a"))))
    assert ran.exit == 5
    assert ran.words("DEPMOD") == "no-such-thing: the node has no such command\n"
    assert tree.files() == before


def test_commands_of_another_machine_are_not_the_nodes(tree: Tree) -> None:
    ran = tree.run(sent(bundle_of({}, *trigger("DEPMOD ls /"))))
    assert ran.states()["DEPMOD ls /"] == "failed:127"


def test_dkms_tells_what_it_calls_which_kernel_it_builds_for(tree: Tree) -> None:
    """OFED's scripts take KVERSION, or ask which kernel runs: on another one, for the wrong one."""
    tree.command("dkms", "#!/bin/sh\necho for ${KVERSION-the running one}\n")
    calls = [f"BUILD_DKMS dkms {rest}" for rest in ("build -m a -v 1 -k 6.1.0-9 --force", "status")]
    ran = tree.run(sent(bundle_of({}, *[s for c in calls for s in trigger(c)])))
    assert [ran.words(call) for call in calls] == ["for 6.1.0-9\n", "for the running one\n"]


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_is_no_ordinary_file_is_not_replaced(tree: Tree, kind: str) -> None:
    place = tree.root / MODPROBE_D[1:]
    if kind == "link":
        place.symlink_to("site.conf")
    else:
        place.mkdir()
    before = tree.files()
    ran = tree.run(usual())
    assert ran.states()[f"place {MODPROBE_D}"] == "failed:73"
    assert tree.files() == before


def test_a_missing_parent_that_cannot_be_made_is_told_in_the_systems_words(tree: Tree) -> None:
    tree.write("/etc/security", "a file where a folder should be\n")
    ran = tree.run(sent(bundle_of({MODPROBE_D: "x\n", LIMITS: "y\n"}, *trigger(UPDATE_GRUB))))
    assert ran.exit == 5
    assert "mkdir" in ran.words(f"place {LIMITS}")
    assert ran.states()[f"place {MODPROBE_D}"] == "ok"
    assert ran.states()[f"not begun: {UPDATE_GRUB}"] == "absent"
    assert tree.state("owned") == [MODPROBE_D]
    assert tree.leftovers() == []


def test_triggers_run_in_the_order_of_the_list(tree: Tree) -> None:
    tree.command("say", "#!/bin/sh\necho $1 >>$GDR_ROOT/said\n")
    steps = [step for word in ("a", "b", "c") for step in trigger(f"DEPMOD say {word}", undo="")]
    tree.run(sent(bundle_of({}, *steps)))
    assert tree.read("/said") == "a\nb\nc\n"


def test_quoted_arguments_arrive_whole(tree: Tree) -> None:
    tree.command("grubby", '#!/bin/sh\nfor each; do echo "<$each>"; done\n')
    call = "UPDATE_BOOTLOADER grubby '--args=intel_iommu=on iommu=pt' '$(touch /tmp/x)' 'a;b'"
    ran = tree.run(sent(bundle_of({}, *trigger(call))))
    assert ran.words(call) == "<--args=intel_iommu=on iommu=pt>\n<$(touch /tmp/x)>\n<a;b>\n"


def test_output_comes_as_it_is_made(tree: Tree) -> None:
    tree.command(
        "dkms", "#!/bin/sh\necho compiling\nuntil [ -e $GDR_ROOT/go ]; do sleep 0.05; done\n"
    )
    process = tree.start(sent(bundle_of({}, *trigger("BUILD_DKMS dkms build"))))
    assert process.stdout is not None
    for line in process.stdout:
        if line == "|compiling\n":
            break
    tree.write("/go", "")  # only now may it end, so the line came before that
    assert process.communicate(timeout=LIMIT_S)[0].endswith("\n")
    assert process.returncode == 0


def test_a_line_without_an_end_is_a_line(tree: Tree) -> None:
    assert tree.run(usual()).words(UPDATE_GRUB).endswith("...\ndone\n")


def test_an_only_expecting_bundle_leaves_no_run_behind(tree: Tree) -> None:
    ran = tree.run(sent(Bundle((), (f"expect kernel {KERNEL}", "finish 1"), "{}\n", engine())))
    assert ran.exit == 0
    assert tree.state("journal") == []
    assert tree.rollback().states() == {"no run to take back": "ok"}


RELOAD = "RELOAD_MODULES reload nvidia_peermem nvidia-peermem"
MODPROBE = """#!/bin/sh
case $1 in
    --show-depends) printf 'insmod /lib/nvidia.ko\\ninsmod /lib/nvidia-peermem.ko \\n'; exit ;;
esac
echo "modprobe $*" >>$GDR_ROOT/said
"""


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        pytest.param(None, "modprobe nvidia-peermem\n", id="not-loaded"),
        pytest.param("NEW", "", id="loaded-as-on-disk"),
        pytest.param("OLD", "rmmod nvidia_peermem\nmodprobe nvidia-peermem\n", id="another-build"),
    ],
)
def test_a_module_is_reloaded_only_where_it_must(tree: Tree, loaded: str | None, said: str) -> None:
    tree.command("modprobe", MODPROBE)
    tree.command("modinfo", "#!/bin/sh\n[ $3 = /lib/nvidia-peermem.ko ] && echo NEW\n")
    tree.command("rmmod", '#!/bin/sh\necho "rmmod $*" >>$GDR_ROOT/said\n')
    tree.write("/said", "")
    if loaded:
        tree.write("/sys/module/nvidia_peermem/srcversion", loaded + "\n")
    assert tree.run(sent(bundle_of({}, *trigger(RELOAD, undo="")))).exit == 0
    assert tree.read("/said") == said


def test_a_module_in_use_is_not_torn_out(tree: Tree) -> None:
    tree.command("modprobe", MODPROBE)
    tree.command("modinfo", "#!/bin/sh\necho NEW\n")
    tree.command("rmmod", "#!/bin/sh\necho 'rmmod: Module nvidia_peermem is in use' >&2\nexit 1\n")
    tree.write("/sys/module/nvidia_peermem/srcversion", "OLD\n")
    ran = tree.run(sent(bundle_of({}, *trigger(RELOAD, undo=""))))
    assert ran.words(RELOAD) == "rmmod: Module nvidia_peermem is in use\n"
    assert ran.states()[RELOAD] == "failed:1"
    assert not tree.exists("/said")


def test_commands_see_broken_pipes_as_ever(tree: Tree) -> None:
    """Only the engine outlives its controller: what it calls would else complain, or go on."""
    tree.command("dkms", "#!/bin/sh\nyes | head -n 1\n")
    ran = tree.run(sent(bundle_of({}, *trigger("BUILD_DKMS dkms build"))))
    assert ran.words("BUILD_DKMS dkms") == "y\n"


def test_what_is_kept_is_for_root_alone(tree: Tree) -> None:
    tree.write(MODPROBE_D, "old\n")
    tree.run(usual())
    [run] = (tree.root / STATE / "runs").iterdir()
    assert not any(stat.S_IMODE(each.stat().st_mode) & 0o077 for each in (run, run / "kept"))
