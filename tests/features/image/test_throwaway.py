"""What is booted in place of a root, and one file of an archive."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit.errors import UsageError
from toolkit.features.image.boot import throwaway
from toolkit.features.image.boot.throwaway import (
    ALWAYS,
    ROOT_UUID,
    digest,
    direct,
    kernels,
    read_inside,
    refuse_little_room,
    throw_away_disk,
    unpack,
)
from toolkit.tar_member import is_tar, read_member

GIB = 1 << 30


@pytest.mark.parametrize(("needed", "enough"), [(1024, True), (1025, False)])
def test_little_room_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: int, enough: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=GIB + 1000))
    if enough:
        refuse_little_room(tmp_path, needed)
        return
    with pytest.raises(UsageError) as raised:
        refuse_little_room(tmp_path, needed)
    assert str(raised.value) == f"{tmp_path}: 1024 MB free, and the boot needs 1025"


def test_a_file_is_told_by_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throwaway, "_CHUNK", 4)
    path = tmp_path / "image"
    path.write_bytes(b"0123456789")
    told: list[str] = []
    assert digest(path, told.append) == sha256(b"0123456789").hexdigest() == digest(path)
    assert told == ["hashing: 40%", "hashing: 80%", "hashing: 100%"]
    path.write_bytes(b"")
    assert digest(path) == sha256(b"").hexdigest()


def test_a_folder_is_told_by_all_that_lies_in_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "b/d").mkdir(parents=True)
    (root / "a").write_text("x")
    (root / "b/c").write_text("x")
    seen = {digest(root)}
    assert digest(root) in seen
    (root / "b/c").chmod(0o600)
    seen.add(digest(root))
    (root / "b/c").write_text("y")
    seen.add(digest(root))
    os.utime(root / "a", ns=(1, 1))
    seen.add(digest(root))
    (root / "b/d/link").symlink_to("/nowhere")
    seen.add(digest(root))
    (root / "a").rename(root / "e")
    seen.add(digest(root))
    assert len(seen) == 6


def test_the_order_of_a_folder_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.file").touch()
        (tmp_path / name / "deep").touch()
    walk = os.walk
    found = []
    for turned in (False, True):

        def turn(root: Path, turned: bool = turned) -> object:
            for folder, names, files in walk(root):
                names.sort(reverse=turned)
                files.sort(reverse=turned)
                yield folder, names, files

        monkeypatch.setattr(os, "walk", turn)
        found.append(digest(tmp_path))
    assert found[0] == found[1]


TOOL = """#!/bin/sh
printf '%s\\n' "$(basename "$0") $*" >>"{folder}/log"
echo "$LC_ALL" >"{folder}/locale"
cat "{folder}/says" 2>/dev/null
exit "$(cat "{folder}/status" 2>/dev/null || echo 0)"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tools"
    (folder / "bin").mkdir(parents=True)
    for name in ("tar", "du", "mke2fs"):
        (folder / "bin" / name).write_text(TOOL.format(folder=folder))
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "xx_XX")
    return folder


def test_a_tar_is_unpacked_with_owners_and_attributes(tools: Path, tmp_path: Path) -> None:
    unpack(tmp_path / "a.tar", tmp_path / "new")
    words = "tar --numeric-owner --xattrs --xattrs-include=* -xpf"
    assert (tools / "log").read_text() == f"{words} {tmp_path}/a.tar -C {tmp_path}/new\n"
    assert (tools / "locale").read_text() == "C\n"
    assert (tmp_path / "new").is_dir()


def test_a_disk_with_all_of_a_root(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tools / "says").write_text("1001\t/r\n")
    asked: list[tuple[Path, int]] = []
    monkeypatch.setattr(throwaway, "refuse_little_room", lambda *words: asked.append(words))
    throw_away_disk(Path("/r"), tmp_path / "disk")
    du, mke2fs = (tools / "log").read_text().split("\n")[:-1]
    assert du == "du -sxm /r"
    assert mke2fs == (
        f"mke2fs -q -F -t ext4 -O ^has_journal -L root -U {ROOT_UUID} "
        f"-E root_owner=0:0 -d /r {tmp_path}/disk {1251 + 512}M"
    )
    assert asked == [(tmp_path, 1001 + 512)]
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(UsageError, match="/r: a disk with its owners and modes is made by root"):
        throw_away_disk(Path("/r"), tmp_path / "disk")


def test_a_tool_that_fails(tools: Path, tmp_path: Path) -> None:
    (tools / "bin/tar").write_text("#!/bin/sh\nprintf 'first\\nlast\\n' >&2; exit 2\n")
    with pytest.raises(UsageError, match=r"^tar: last$"):
        unpack(tmp_path / "a.tar", tmp_path / "one")
    (tools / "bin/tar").write_text(f"#!/bin/sh\necho {'x' * 400} >&2; exit 2\n")
    with pytest.raises(UsageError, match=f"^tar: {'x' * 300}$"):
        unpack(tmp_path / "a.tar", tmp_path / "two")


@pytest.mark.parametrize(("tool", "package"), [("mke2fs", "e2fsprogs"), ("tar", "tar")])
def test_a_tool_that_is_not_here(monkeypatch: pytest.MonkeyPatch, tool: str, package: str) -> None:
    def run(words: tuple[str, ...], env: dict[str, str], **_: object) -> None:
        assert words == (tool,)
        assert env["PATH"].endswith(":/usr/local/sbin:/usr/sbin:/sbin")
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UsageError, match=f"{tool} is not here") as raised:
        throwaway._call(tool)
    assert raised.value.hint == f"install {package}"


def test_a_tool_that_never_ends(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throwaway, "_LIMIT_S", 0.05)
    (tools / "bin/tar").write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(UsageError, match=r"tar has not ended after 0.05 s"):
        unpack(tmp_path / "a.tar", tmp_path / "new")


def boot(root: Path, *names: str) -> None:
    (root / "boot").mkdir(exist_ok=True, parents=True)
    for name in names:
        (root / "boot" / name).write_text(name)


@pytest.mark.parametrize("initrd", ["initrd.img-6.1", "initramfs-6.1.img", "initrd-6.1"])
def test_kernels_that_have_an_initramfs(tmp_path: Path, initrd: str) -> None:
    boot(tmp_path, "vmlinuz-6.1", initrd, "vmlinuz-5.0", "initrd.img-4.0")
    made = (tmp_path / "boot/vmlinuz-6.1", tmp_path / "boot" / initrd)
    assert kernels(tmp_path) == {"6.1": made}


def test_the_first_of_the_names_counts_and_links_do_not(tmp_path: Path) -> None:
    boot(tmp_path, "vmlinuz-6.1", "initrd-6.1", "initramfs-6.1.img", "initrd.img-7.0")
    (tmp_path / "boot/initrd.img-6.1").symlink_to("initrd-6.1")
    (tmp_path / "boot/vmlinuz-7.0").symlink_to("vmlinuz-6.1")
    assert kernels(tmp_path) == {
        "6.1": (tmp_path / "boot/vmlinuz-6.1", tmp_path / "boot/initramfs-6.1.img")
    }


def test_kernel_and_initramfs_are_copied(tmp_path: Path) -> None:
    boot(tmp_path / "root", "vmlinuz-6.1", "initrd.img-6.1")
    words = "ro root=UUID=x rootflags=a rootwait iommu=pt quiet rod"
    found = direct(tmp_path / "root", "6.1", words, tmp_path)
    assert found.kernel == tmp_path / "vmlinuz"
    assert found.initrd == tmp_path / "initrd"
    assert found.kernel.read_text() == "vmlinuz-6.1"
    assert found.initrd.read_text() == "initrd.img-6.1"
    assert found.arguments == f"iommu=pt quiet rod {ALWAYS}"
    assert direct(tmp_path / "root", "6.1", "", tmp_path).arguments == ALWAYS


def test_a_file_of_a_root_is_read_through_no_link(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/a").mkdir(parents=True)
    (root / "etc/a/file").write_bytes(b"text\xff")
    (root / "etc/link").symlink_to("a/file")
    (root / "up").symlink_to("etc")
    (tmp_path / "secret").write_text("x")
    assert read_inside(root, "etc/a/file") == "text\N{REPLACEMENT CHARACTER}"
    for path in ("etc/link", "up/a/file", "etc/none", "etc/a"):
        assert read_inside(root, path) == ""


def packed(*members: tuple[str, bytes, bytes], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]  # a stand-in
        for name, kind, data in members:
            each = tarfile.TarInfo(name)
            each.type, each.size = kind, len(data)
            archive.addfile(each, io.BytesIO(data))
    whole: bytes = made.getvalue()
    return whole


FILE = tarfile.REGTYPE
MEMBERS = (
    ("./etc/a", FILE, b"first"),
    ("etc/b", FILE, b"b"),
    ("/etc/a", FILE, b"last"),
    ("etc/d", tarfile.DIRTYPE, b""),
)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_the_last_member_of_a_name_counts(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(packed(*MEMBERS, mode=mode))
    assert is_tar(path)
    assert read_member(path, "etc/a", 5) == b"last"
    assert read_member(path, "etc/b", 1) == b"b"
    assert read_member(path, "etc/c", 9) is None
    assert read_member(path, "etc/d", 9) is None
    with pytest.raises(UsageError, match=r"/a.tar: /etc/a has 5 bytes, too many for one"):
        read_member(path, "etc/a", 4)


def test_a_file_that_a_folder_replaced_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(packed(("a", FILE, b"x"), ("a", tarfile.DIRTYPE, b"")))
    assert read_member(path, "a", 9) is None


@pytest.mark.parametrize(("data", "tar"), [(b"", False), (b"text", False), (b"x" * 600, False),
                                           (b"\x28\xb5\x2f\xfd", True), (b"BZh", True),
                                           (b"x" * 257 + b"ustar", True)])  # fmt: skip
def test_archives_are_told_by_what_they_begin_with(tmp_path: Path, data: bytes, tar: bool) -> None:
    (tmp_path / "a").write_bytes(data)
    assert is_tar(tmp_path / "a") is tar


@pytest.mark.parametrize("cut", [lambda data: data[:700], lambda _: b"text" * 300])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_an_archive_that_is_no_whole_one(tmp_path: Path, cut: object, mode: str) -> None:
    assert callable(cut)
    data = packed(("a", FILE, os.urandom(4000)), mode=mode)
    (tmp_path / "a").write_bytes(cut(data))
    with pytest.raises(UsageError, match="/a: no whole tar: "):
        read_member(tmp_path / "a", "b", 9)


def test_an_archive_that_is_damaged_behind_its_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(packed(("a", FILE, b"x"), mode="w:gz")[:-4])
    with pytest.raises(UsageError, match="/a: no whole tar: "):
        read_member(tmp_path / "a", "a", 9)


@pytest.fixture
def zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of our own: what follows the magic number is the archive."""
    tool = tmp_path / "bin/zstd"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\n[ "$*" = "-q -d -c -- $5" ] || exit 9\ntail -c +5 "$5"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tool


def test_what_python_does_not_unpack(
    zstd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + packed(*MEMBERS))
    assert read_member(path, "etc/a", 9) == b"last"
    with pytest.raises(UsageError, match="has 5 bytes"):
        read_member(path, "etc/a", 4)
    zstd.write_text(zstd.read_text() + "exit 1\n")
    with pytest.raises(UsageError, match="/a: no whole tar, says zstd"):
        read_member(path, "etc/a", 9)
    zstd.unlink()
    monkeypatch.setenv("PATH", str(zstd.parent))
    with pytest.raises(UsageError, match="/a: zstd is not here"):
        read_member(path, "etc/a", 9)


def test_who_unpacks_is_ended_with_us(
    zstd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*words: object, **more: object) -> subprocess.Popen[bytes]:
        started.append(popen(*words, **more))  # type: ignore[call-overload]  # a stand-in
        return started[-1]

    zstd.write_text('#!/bin/sh\ntail -c +5 "$5"\nexec sleep 600\n')
    monkeypatch.setattr(subprocess, "Popen", noted)
    path = tmp_path / "a"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + packed(*MEMBERS))
    with pytest.raises(UsageError, match="has 5 bytes"):
        read_member(path, "etc/a", 4)
    assert started[0].returncode == -9
