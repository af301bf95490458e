"""The boot menu of an image: our words go in and come out, and nothing else changes."""

from __future__ import annotations

import pytest

from tests.scripts.engine import GRUB_CFG, Ran, Tree, bundle_of, noted, noting, sent

pytestmark = pytest.mark.shell

MENU = """\
set default="0"
menuentry 'Debian' {
	search --no-floppy --fs-uuid --set=root 1234-5678
	echo	'Loading Linux 6.1.0 ...'
	linux	/boot/vmlinuz-6.1.0 root=UUID=1 ro quiet iommu.strict=0
	initrd	/boot/initrd.img-6.1.0
}
	linux16 /vmlinuz-6.1.0   ro  "pci=a;b"
"""
DROP_IN = "/etc/default/grub.d/zz-gdr-toolkit.cfg"


def told(tree: Tree, *words: str) -> Ran:
    call = f"UPDATE_BOOTLOADER menu {GRUB_CFG} {' '.join(words)}"
    steps = (
        f"keep UPDATE_BOOTLOADER {GRUB_CFG}",
        f"undo kept 'UPDATE_BOOTLOADER menu {GRUB_CFG} -{words[0][1:]}'",
        f"trigger '{call}'",
        f"prove {GRUB_CFG} vmlinu",
    )
    return tree.run(sent(bundle_of({DROP_IN: "iommu=pt\n"}, *steps, expect=())))


def test_a_word_goes_into_each_kernels_line_once(tree: Tree) -> None:
    tree.write(GRUB_CFG, MENU, 0o600)
    noting(tree)
    assert told(tree, "+iommu=pt", "-iommu.strict=0").exit == 0
    temp, calls = "/boot/grub/.grub.cfg.gdr-toolkit-new", noted(tree)
    renamed = calls.index(f"mv -f {temp} {GRUB_CFG}")
    assert calls[renamed - 1 : renamed + 2 : 2] == [f"sync -d {temp}", "sync -d /boot/grub"]
    made = tree.read(GRUB_CFG)
    assert "\tlinux\t/boot/vmlinuz-6.1.0 root=UUID=1 ro quiet iommu=pt\n" in made
    assert '\tlinux16\t/vmlinuz-6.1.0 ro "pci=a;b" iommu=pt\n' in made
    kept = [line for line in MENU.split("\n") if "linux" not in line or "echo" in line]
    assert [line for line in made.split("\n") if line in kept] == kept
    assert (tree.root / GRUB_CFG.lstrip("/")).stat().st_mode & 0o777 == 0o600
    assert told(tree, "+iommu=pt").exit == 0
    assert tree.read(GRUB_CFG) == made


def test_it_is_taken_back_byte_for_byte(tree: Tree) -> None:
    tree.write(GRUB_CFG, MENU, 0o600)
    assert told(tree, "+iommu=pt").exit == 0
    assert tree.rollback("last").exit == 0
    assert tree.read(GRUB_CFG) == MENU


def test_a_menu_without_kernels_is_left_as_it_is(tree: Tree) -> None:
    tree.write(GRUB_CFG, "menuentry 'Firmware' {\n}\n")
    ran = told(tree, "+iommu=pt")
    assert ran.exit == 5
    assert "grub.cfg names no kernel" in ran.stdout
    assert tree.read(GRUB_CFG) == "menuentry 'Firmware' {\n}\n"
