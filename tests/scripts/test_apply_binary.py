"""Kernel modules among the files: every byte arrives, every byte comes back."""

from __future__ import annotations

import os
import signal
import subprocess
from hashlib import sha256

import pytest

from tests.scripts.engine import BOOT, KERNEL, UPDATE_GRUB, Tree, sent, trigger
from tests.scripts.test_apply_lock import until
from toolkit.node.deliver import engine
from toolkit.plan.bundle import Bundle, File, tar_bytes

pytestmark = pytest.mark.shell

PLACE = f"/lib/modules/{KERNEL}/updates/gdr-toolkit/nvidia-peermem.ko"
# Every byte there is, ends of lines, words of our own protocol, and no newline at the end.
FIRST = bytes(range(256)) * 9 + b"\r\n= end ok 3\n|GDR_END\nGDR_END\n" + b"\0" * 100
SECOND = FIRST[::-1] + b"\xff~Module signature appended~\n"


def bundle(data: bytes, *steps: str) -> Bundle:
    """Places a module, and then does the steps."""
    file = File(PLACE, 0o644, data, sha256(data).hexdigest())
    listed = [
        f"expect kernel {KERNEL}",
        f"expect boot-id {BOOT}",
        "keep UPDATE_BOOTLOADER /boot/grub",
        f"place {PLACE} 644 {file.sha256}",
        *steps,
    ]
    return Bundle((file,), (*listed, f"finish {len(listed)}"), "{}\n", engine())


def held(tree: Tree) -> bytes:
    return (tree.root / PLACE[1:]).read_bytes()


def test_a_module_arrives_and_goes_byte_for_byte(tree: Tree) -> None:
    before = tree.files()
    assert tree.run(sent(bundle(FIRST))).exit == 0
    assert held(tree) == FIRST
    assert tree.run(sent(bundle(SECOND))).exit == 0
    assert held(tree) == SECOND
    assert tree.rollback("last").exit == 0
    assert held(tree) == FIRST
    assert tree.rollback("all").exit == 0
    assert tree.files() == before


def test_damage_on_the_way_is_found_before_anything_is_touched(tree: Tree) -> None:
    text = sent(bundle(FIRST))
    at = text.index("base64 -d")
    line = text.index("\n", at) + 5
    before = tree.files()
    other = "A" if text[line] != "A" else "B"
    ran = tree.run(text[:line] + other + text[line + 1 :])
    assert ran.exit != 0
    assert tree.files() == before


def test_killed_while_the_trigger_runs_the_next_run_takes_it_all_back(tree: Tree) -> None:
    tree.run(sent(bundle(FIRST)))
    before = tree.files()
    tree.command("update-grub", "#!/bin/sh\n: >$GDR_ROOT/var/begun\nsleep 600\n")
    process = tree.start(sent(bundle(SECOND, *trigger(UPDATE_GRUB))))
    until(lambda: tree.exists("/var/begun"))
    assert held(tree) == SECOND
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    tree.command("update-grub", "#!/bin/sh\n:\n")
    assert tree.rollback("last").exit == 0
    assert held(tree) == FIRST
    after = tree.files()
    del before["bin/update-grub"], after["bin/update-grub"]
    assert after == before
    assert tree.leftovers() == []


def test_the_bundle_on_disk_holds_the_same_bytes(dash_tree: Tree) -> None:
    packed = tar_bytes(bundle(FIRST))
    folder = dash_tree.root.parent / "unpacked"
    folder.mkdir()  # by tar: Debian's 3.11 has no filters for extractall yet
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    done = subprocess.run(
        ["dash", str(folder / "apply.sh"), "apply", "5", "end"],
        env=dash_tree.env(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert held(dash_tree) == FIRST
