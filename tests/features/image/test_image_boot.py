"""One boot of an image: what QEMU is told, what the image is given, and how it ends."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from msgspec.structs import replace

from tests.features.image.booting import Fake, fakes
from tests.features.image.booting import machine as machine_of
from toolkit.errors import ApplyError, ExitCode, UsageError
from toolkit.features.image import run_boot as boot
from toolkit.features.image.boot import throwaway
from toolkit.features.image.boot.folder import PLACE, one_time
from toolkit.features.image.boot.qemu import (
    Accelerator,
    Direct,
    QemuMachine,
    Uefi,
    accelerator,
    boots_by_bios,
    command,
    disk_format,
)
from toolkit.features.image.cli import image
from toolkit.features.image.cli_boot import proven, told
from toolkit.features.image.run_boot import Booted, BootProof, arguments
from toolkit.hosts.host import Host
from toolkit.progress import Silent
from toolkit.ssh.ssh_config import SshConfig
from toolkit.verbs.access import Access


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return fakes(tmp_path, monkeypatch)


def test_nothing_is_written_to_the_disk_and_nothing_leads_out(tmp_path: Path) -> None:
    words = command(machine_of(tmp_path))
    drive = next(each for each in words if each.startswith("file="))
    assert f"file={tmp_path}/disk,,1.qcow2,format=qcow2,snapshot=on" in drive
    assert any("restrict=on" in each for each in words)
    assert not any("io.systemd.credential" in each for each in words)  # ps shows words to all


def test_who_has_no_boot_loader_is_given_a_kernel(tmp_path: Path) -> None:
    given = Direct(tmp_path / "vmlinuz", tmp_path / "initrd", "iommu=pt root=UUID=1")
    words = command(replace(machine_of(tmp_path), direct=given))
    assert words[words.index("-append") + 1] == "iommu=pt root=UUID=1"
    assert not any("bootindex" in each for each in words)  # the kernel's place is the first
    assert "-kernel" not in command(machine_of(tmp_path))


def test_the_firmwares_variables_are_a_copy(tmp_path: Path) -> None:
    machine = replace(machine_of(tmp_path), uefi=Uefi(Path("/code"), tmp_path / "variables"))
    assert f"if=pflash,unit=1,format=raw,file={tmp_path}/variables" in command(machine)
    assert "if=pflash,unit=0,format=raw,readonly=on,file=/code" in command(machine)


@pytest.mark.parametrize(
    ("device", "qemu", "name", "why"),
    [
        pytest.param("absent", "exit 33", "tcg", "no .*/absent here", id="no-device"),
        pytest.param("kvm", "exit 33", "kvm", "", id="a-guest-ends-in-time"),
        pytest.param("kvm", "exit 1", "tcg", "refuses a guest", id="refused"),
        pytest.param("kvm", "exec sleep 60", "tcg", "more than 0.5", id="a-guest-crawls"),
    ],
)
def test_kvm_is_used_where_a_guest_ran_to_its_end(  # noqa: PLR0917 a row has as many
    programs: Fake, tmp_path: Path, device: str, qemu: str, name: str, why: str
) -> None:
    (tmp_path / "kvm").touch()
    programs("qemu-system-x86_64", qemu)
    limit_s = 30.0 if "sleep" not in qemu else 0.5
    found = accelerator(tmp_path / device, limit_s)
    assert found.name == name
    assert re.search(why, found.why)


def test_the_credential_puts_both_keys_where_only_this_boot_sees_them(tmp_path: Path) -> None:
    made = one_time(tmp_path, "image", 2222)
    name, _, text = made.credential.read_text().partition("=")
    lines = b64decode(text).decode().splitlines()
    assert name == "io.systemd.credential.binary:tmpfiles.extra"
    paths = [line.split()[1] for line in lines]
    assert paths == [
        *(PLACE, f"{PLACE}/host_key", f"{PLACE}/authorized_keys"),
        "/etc/ssh/sshd_config.d/00-gdr-toolkit-boot.conf",  # sshd includes *.conf alone
    ]
    assert PLACE.startswith("/run/")
    login = b64decode(lines[2].split()[-1]).decode()
    assert login.startswith("ssh-ed25519 ")
    host = (tmp_path / "known_hosts").read_text()
    assert host.startswith("[127.0.0.1]:2222 ssh-ed25519 ")
    assert host.split()[2] != login.split()[1]


def test_cloud_init_is_handed_the_same_keys(tmp_path: Path) -> None:
    made = one_time(tmp_path, "image", 2222)
    text = (made.seed / "user-data").read_text()
    assert text.startswith("#cloud-config\n")
    assert (tmp_path / "known_hosts").read_text().split()[2] in text


def test_what_opens_the_guest_is_its_owners_alone(tmp_path: Path) -> None:
    made = one_time(tmp_path, "image", 2222)
    for path in (made.credential, tmp_path / "key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """TMPDIR is the operator's: ssh_config takes blanks and per cent signs its own way."""
    folder = tmp_path / "a b 5%d"
    folder.mkdir()
    made = one_time(folder, "image", 2222)
    target = SshConfig.load(made.ssh_config).target(Host("image"))
    assert list(map(str, target.key_files)) == [str(folder / "key")]
    assert str(target.known_hosts[0]) == str(folder / "known_hosts")


def _root(folder: Path) -> Path:
    for name, text in (
        ("boot/vmlinuz-6.1.0-9-amd64", "k9"),
        ("boot/initrd.img-6.1.0-9-amd64", "i9"),
        ("boot/vmlinuz-6.1.0-10-amd64", "k10"),
        ("boot/initrd.img-6.1.0-10-amd64", "i10"),
        ("boot/vmlinuz-6.12.1-amd64", "without an initramfs"),
        ("etc/default/grub", 'GRUB_CMDLINE_LINUX="console=ttyS0" # ours\nGRUB_TIMEOUT=5\n'),
        (
            "etc/default/grub.d/a.cfg",
            'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX ro rodata=off iommu=pt"\n',
        ),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_root_boots_its_newest_kernel_that_has_an_initramfs(tmp_path: Path) -> None:
    root = _root(tmp_path / "root")
    found = throwaway.kernels(root)
    assert sorted(found) == ["6.1.0-10-amd64", "6.1.0-9-amd64"]
    given = throwaway.direct(root, "6.1.0-10-amd64", arguments(root), tmp_path)
    assert given.kernel.read_text() == "k10"
    assert given.arguments.startswith("console=ttyS0 rodata=off iommu=pt root=UUID=")
    assert "fstab=no" in given.arguments


def test_what_a_root_says_for_the_kernel_is_read_in_the_order_of_its_files(
    tmp_path: Path,
) -> None:
    root = _root(tmp_path / "root")
    for name, text in (
        ("z.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX last"\n'),
        (
            "b.cfg",
            'GRUB_CMDLINE_LINUX_DEFAULT=quiet\nGRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX} b"\n',
        ),
        ("y.txt", "GRUB_CMDLINE_LINUX=none\n"),
        ("c.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX $NOBODY c"\n'),
    ):
        (root / "etc/default/grub.d" / name).write_text(text)
    assert arguments(root) == "console=ttyS0 ro rodata=off iommu=pt b  c last quiet"
    (root / "etc/kernel").mkdir()
    (root / "etc/kernel/cmdline").write_text(" ro pci=realloc\n\n")
    assert arguments(root) == "ro pci=realloc"
    (root / "etc/kernel/cmdline").write_text("\n")
    assert arguments(root).startswith("console=ttyS0")
    shutil.rmtree(root / "etc/default/grub.d")
    usual = "GRUB_CMDLINE_LINUX_DEFAULT=quiet\nGRUB_CMDLINE_LINUX=ro\n"
    for text, said in ((usual, "ro quiet"), ("GRUB_CMDLINE_LINUX_DEFAULT=\n", "")):
        (root / "etc/default/grub").write_text(text)
        assert arguments(root) == said


def test_the_newest_kernel_by_its_numbers_is_the_one_that_is_booted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throwaway, "throw_away_disk", lambda *_: None)
    root = _root(tmp_path / "root")
    machine = QemuMachine(root, "raw", tmp_path, 1, tmp_path, tmp_path)
    made = boot._without_loader(root, machine, Silent()).direct
    assert made is not None
    assert made.kernel.read_text() == "k10"


@pytest.mark.parametrize("least", [True, False])
def test_a_boot_needs_a_folder_to_write_to_and_room_for_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: bool
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/x")
    monkeypatch.setattr(throwaway, "refuse_little_room", lambda *_: None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    boot.refuse_early(0.0, 128)
    if least:
        with pytest.raises(UsageError, match="with 127 MB of memory is none"):
            boot.refuse_early(0.0, 127)
        return
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="none: no folder to write to"):
        boot.refuse_early(0.0, 128)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match="no folder to write to"):
        boot.refuse_early(0.0, 128)


def test_a_link_of_the_root_leads_nowhere_here(tmp_path: Path) -> None:
    root = _root(tmp_path / "root")
    (tmp_path / "secret").write_text("of this machine")
    (root / "etc/kernel").symlink_to(tmp_path)
    (root / "boot/vmlinuz-6.9.0-1-amd64").symlink_to(tmp_path / "secret")
    (root / "boot/initrd.img-6.9.0-1-amd64").write_text("")
    assert throwaway.read_inside(root, "etc/kernel/secret") == ""
    assert "6.9.0-1-amd64" not in throwaway.kernels(root)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "etc/default/grub").write_text("x"), id="content"),
        pytest.param(lambda root: (root / "etc/default").chmod(0o700), id="mode"),
        pytest.param(lambda root: (root / "etc/new").touch(), id="a-new-file"),
        pytest.param(lambda root: os.utime(root / "etc/default/grub"), id="times"),
    ],
)
def test_a_root_that_was_written_to_is_another(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    root = _root(tmp_path / "root")
    before = throwaway.digest(root)
    assert throwaway.digest(root) == before
    change(root)
    assert throwaway.digest(root) != before


def test_a_changed_disk_is_told_and_is_no_success(tmp_path: Path) -> None:
    assert proven(tmp_path, BootProof("aa", "aa")).endswith("sha256 aa")
    with pytest.raises(ApplyError, match="sha256 aa, now bb"):
        proven(tmp_path, BootProof("aa", "bb"))


def test_a_disk_is_what_its_first_bytes_say(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"QFI\xfb")
    assert disk_format(disk) == "qcow2"
    disk.write_bytes(b"\0" * 512)
    assert disk_format(disk) == "raw"


def test_a_disk_without_a_partition_table_has_no_boot_loader(
    tmp_path: Path, programs: Fake
) -> None:
    (tmp_path / "disk").write_bytes(b"\0" * 4096)
    programs("qemu-img", f'cat /dev/zero | head -c 512 >"{tmp_path}/sector"')
    (tmp_path / "bin/head").symlink_to("/usr/bin/head")
    with pytest.raises(UsageError, match="no partition table"):
        boots_by_bios(tmp_path / "disk", tmp_path)


def test_without_room_nothing_is_begun(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"MB free, and the boot needs") as caught:
        throwaway.refuse_little_room(tmp_path, sys.maxsize)
    assert "TMPDIR" in caught.value.hint


@pytest.mark.parametrize("name", ["golden.txz", "golden", "golden.tar.zst"])
def test_an_archive_is_booted_as_one_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_bytes(b"\xfd7zXZ\0" if "zst" not in name else b"\x28\xb5\x2f\xfd")
    asked = []
    monkeypatch.setattr(throwaway, "unpack", lambda tar, _: asked.append(tar))
    monkeypatch.setattr(throwaway, "refuse_little_room", lambda *_: None)
    with pytest.raises(UsageError, match="no kernel with an initramfs"):
        boot._machine(tmp_path / name, tmp_path, 1, one_time(tmp_path, "i", 1), Silent())
    assert asked == [tmp_path / name]


def test_the_operator_is_told_how_it_booted_and_what_that_does_not_prove() -> None:
    quick = Accelerator("tcg", "no /dev/kvm here")
    booted = Booted(Access(), quick, 41.6, "degraded", ("a.service",), direct=True)
    waiting = told(replace(booted, state="starting", waiting=("b.service",)))
    assert waiting[1].endswith("judged as it is; still to come: b.service")
    lines = told(booted)
    assert lines == [
        "booted by emulation (TCG): no /dev/kvm here in 42 s, systemd says degraded",
        "1 unit failed: a.service",
        "a root has no boot loader: its kernel was started by QEMU, from a copy",
        "no GPU and no HCA is there: what needs one is n/a, and proven by no boot here",
    ]


def test_what_is_only_looked_at_is_not_booted(tmp_path: Path) -> None:
    with pytest.raises(Exit) as ended:
        image(Context(), root=str(tmp_path), check=True, boot=True)
    assert ended.value.code == ExitCode.USAGE
