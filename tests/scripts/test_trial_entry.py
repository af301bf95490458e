"""The entry that a trial adds to GRUB's menu: the default's own, with other words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.shell

# As grub-mkconfig of Debian 12 and Ubuntu 22.04 write them, shortened.
HEAD = """\
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi
"""
DEBIAN = (
    HEAD
    + """\
menuentry 'Debian GNU/Linux' --class gnu-linux $menuentry_id_option 'gnulinux-simple-1' {
\tload_video
\tinsmod gzio
\tif [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi
\tsearch --no-floppy --fs-uuid --set=root 1
\techo\t'Loading Linux 6.1.0-50-amd64 ...'
\tlinux\t/boot/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro iommu=soft quiet
\tinitrd\t/boot/initrd.img-6.1.0-50-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1' {
\tmenuentry 'Debian GNU/Linux, with Linux 6.1.0-50-amd64' $menuentry_id_option 'gnulinux-6.1-1' {
\t\tlinux\t/boot/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro quiet
\t\tinitrd\t/boot/initrd.img-6.1.0-50-amd64
\t}
}
"""
)
UBUNTU = (
    HEAD
    + """\
menuentry 'Ubuntu' --class ubuntu --unrestricted $menuentry_id_option 'gnulinux-simple-1' {
\trecordfail
\tsavedefault
\tif [ "${initrdfail}" = 1 ]; then
\t  linux\t/boot/vmlinuz-6.8.0-45-generic root=PARTUUID=1 ro $vt_handoff panic=-1
\telse
\t  linux\t/boot/vmlinuz-6.8.0-45-generic root=PARTUUID=1 ro iommu=soft $vt_handoff
\t  initrd\t/boot/initrd.img-6.8.0-45-generic
\tfi
\tinitrdfail
}
"""
)
NEW = {"id": "0a1b2c", "add": 'iommu=pt "pci=config_acs=0@a;1@b" gdr_toolkit.trial=0a1b2c'}


def entry(
    folder: Path, shell: str, menu: str, at: str = "/boot/grub/grub.cfg", **values: str
) -> list[str]:
    """What the generator prints where grub.cfg is ``menu``."""
    path = folder / at[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(menu)
    text = render_text("boot/trial.sh.j2", NEW | {"drop": "", "menu": at} | values)
    done = subprocess.run(
        [*SHELLS[shell], "-s"],
        input=text,
        env={"GDR_ROOT": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_it_is_the_default_entry_with_the_words_behind(tmp_path: Path, shell: str) -> None:
    lines = entry(tmp_path, shell, DEBIAN, entry="gnulinux-simple-1")
    assert lines[0] == (
        "menuentry 'gdr-toolkit: trial 0a1b2c' --class gnu-linux "
        "$menuentry_id_option 'gdr-toolkit-trial' {"
    )
    assert lines[-1] == "}"
    assert lines[-3] == (
        "\tlinux\t/boot/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro iommu=soft quiet iommu=pt "
        '"pci=config_acs=0@a;1@b" gdr_toolkit.trial=0a1b2c'
    )
    was = DEBIAN[len(HEAD) :].split("\n}\n")[0].split("\n")
    assert [lines[1:-3], lines[-2]] == [was[1:-2], was[-1]]


def test_words_that_go_are_left_out_whole(tmp_path: Path) -> None:
    lines = entry(tmp_path, "dash", DEBIAN, entry="gnulinux-simple-1", drop="iommu=soft ro UUID=1")
    linux = next(line for line in lines if "vmlinuz" in line and "linux\t" in line)
    assert "iommu=soft" not in linux
    assert " ro " not in linux
    assert "root=UUID=1 quiet" in linux


def test_an_entry_of_a_submenu_becomes_one_of_the_menu(tmp_path: Path) -> None:
    lines = entry(tmp_path, "dash", DEBIAN, entry="gnulinux-6.1-1")
    assert [lines[0][:9], lines[-1], len(lines)] == ["menuentry", "}", 4]


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_trial_remembers_nothing_and_gets_its_words_on_every_way(
    tmp_path: Path, shell: str
) -> None:
    lines = entry(tmp_path, shell, UBUNTU, entry="gnulinux-simple-1", drop="iommu=soft")
    kept = [line.strip() for line in lines]
    assert not {"recordfail", "savedefault", "initrdfail"} & set(kept)
    linux = [line for line in lines if line.strip().startswith("linux")]
    assert len(linux) == 2
    assert all(line.endswith("gdr_toolkit.trial=0a1b2c") for line in linux)
    assert "--unrestricted" in lines[0]
    assert [kept[1], kept[3], kept[-2]] == ['if [ "${initrdfail}" = 1 ]; then', "else", "fi"]


@pytest.mark.parametrize("menu", ["", HEAD, DEBIAN.replace("simple-1", "simple-2")])
def test_an_entry_that_is_not_there_gives_none(tmp_path: Path, menu: str) -> None:
    assert entry(tmp_path, "dash", menu, entry="gnulinux-simple-1") == []
