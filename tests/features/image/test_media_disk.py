"""A disk in a file: what is refused, what its copy and its result are made with."""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import LockedError, StaleError, Unsupported, UsageError
from toolkit.features.image.io import disk as media_disk
from toolkit.features.image.io.disk import Disk, is_disk
from toolkit.features.image.io.partitions import Partition

QCOW2 = b"QFI\xfb" + bytes(60)
FORMATS = [
    (b"KDMV", "VMDK"),
    (b"vhdxfile", "VHDX"),
    (b"conectix", "VHD"),
    (b"QED\0", "QED"),
    (b"<<< Oracle VM VirtualBox", "VDI"),
]


class FakeRoom:
    """Copies as the tools would, and notes their words."""

    def __init__(self, **told: object) -> None:
        self.told = told
        self.calls: list[list[str]] = []
        self.clusters: dict[str, object] = {}

    def call(self, *argv: str | Path) -> str:
        words = [str(each) for each in argv]
        self.calls.append(words)
        if words[:2] == ["qemu-img", "info"]:
            return json.dumps(self.told)
        if words[:2] == ["sh", "-c"]:
            return json.dumps(self.clusters)
        if words[0] == "cp" or words[:2] == ["qemu-img", "convert"]:
            Path(words[-1]).write_bytes(Path(words[-2]).read_bytes() + b"+")
        return ""


class FakeMounted:
    made: tuple[object, ...] = ()
    found: tuple[Partition, ...] = ()
    unmounted = 0

    def __init__(self, *words: object) -> None:
        type(self).made = words

    def mount(self, found: tuple[Partition, ...]) -> None:
        type(self).found = found

    def unmount(self) -> None:
        type(self).unmounted += 1


@pytest.fixture(autouse=True)
def _mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_disk, "Mounted", FakeMounted)
    monkeypatch.setattr(media_disk, "demand", lambda _, tools: [*tools])
    monkeypatch.setattr(FakeMounted, "unmounted", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "aside"
    made.mkdir()
    return made


def work(tmp_path: Path, folder: Path, room: FakeRoom, data: bytes) -> Disk:
    path = tmp_path / "disk.img"
    path.write_bytes(data)
    path.chmod(0o640)
    disk = Disk(path)
    assert disk.bring(room, folder) == folder / "tree"  # type: ignore[arg-type]  # a stand-in
    disk.pack(room, folder, ())  # type: ignore[arg-type]  # a stand-in
    return disk


def test_a_raw_disk_is_copied_and_the_copy_takes_its_name(tmp_path: Path, folder: Path) -> None:
    room = FakeRoom()
    disk = work(tmp_path, folder, room, b"raw")
    path = tmp_path / "disk.img"
    assert disk.target == path
    assert (folder / "tree").is_dir()
    words = ["cp", "--reflink=auto", "--sparse=always", "-T", str(path), f"{folder}/disk"]
    assert room.calls == [
        words,
        ["umount", "-n", "-R", f"{folder}/view"],
        ["sync", f"{folder}/result"],
    ]
    assert FakeMounted.made == (str(path), room, folder / "disk", folder / "tree")
    assert [each.size for each in FakeMounted.found] == [4]
    assert FakeMounted.unmounted == 1
    assert (folder / "result").stat().st_mode & 0o7777 == 0o640
    disk.put(folder)
    assert path.read_bytes() == b"raw+"
    assert not (folder / "result").exists()


def test_what_was_never_mounted_is_not_unmounted(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    (folder / "disk").write_bytes(b"y")
    room = FakeRoom()
    Disk(path).pack(room, folder, ())  # type: ignore[arg-type]  # a stand-in
    assert [each[0] for each in room.calls] == ["sync"]


OWN = {"compat": "0.10"}


@pytest.mark.parametrize(
    ("told", "clusters", "options"),
    [
        ({}, {}, ["-o", "cluster_size=65536,compat=1.1"]),
        (
            {"cluster-size": 4096, "format-specific": {"data": {"compat": "0.10"}}},
            {"compressed-clusters": 0},
            ["-o", "cluster_size=4096,compat=0.10"],
        ),
        (
            {"format-specific": {"data": {"compression-type": "zstd", "extended-l2": True}}},
            {"compressed-clusters": 9},
            ["-c", "-o", "cluster_size=65536,compat=1.1,compression_type=zstd,extended_l2=on"],
        ),
        (
            {"format-specific": {"data": {"extended-l2": False, "corrupt": False}}},
            {},
            ["-o", "cluster_size=65536,compat=1.1"],
        ),
    ],
)
def test_a_qcow2_disk_is_made_anew_as_it_was(
    tmp_path: Path,
    folder: Path,
    told: dict[str, object],
    clusters: dict[str, object],
    options: list[str],
) -> None:
    room = FakeRoom(**told)
    room.clusters = clusters
    disk = work(tmp_path, folder, room, QCOW2)
    path, copy = str(tmp_path / "disk.img"), str(folder / "disk")
    info, check, there, view, back, sync = room.calls
    assert info == ["qemu-img", "info", "-f", "qcow2", "--output=json", path]
    assert check[2:] == [media_disk._CHECK, "gdr", path]
    assert there == ["qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, copy]
    result = str(folder / "result")
    assert back == ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", *options, copy, result]
    assert (view[0], sync) == ("umount", ["sync", result])
    disk.put(folder)
    assert (tmp_path / "disk.img").read_bytes() == QCOW2 + b"++"


def test_what_qcow2_needs_is_asked_before(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(media_disk, "demand", lambda *words: asked.append(words))
    work(tmp_path, folder, FakeRoom(), QCOW2)
    assert asked == [(str(tmp_path / "disk.img"), ("qemu-img",))]


@pytest.mark.parametrize(
    ("told", "what", "hint"),
    [
        ({"backing-filename": "x"}, "another image below it", "qemu-img convert -O qcow2, first"),
        ({"snapshots": [{}]}, "snapshots in it", "qemu-img snapshot -d, first"),
        ({"encrypted": True}, "encryption", "decrypt it, first"),
        ({"data-file": "x"}, "its data in another file", "qemu-img convert -O qcow2, first"),
        ({"bitmaps": [{}]}, "bitmaps in it", "qemu-img bitmap --remove, first"),
        ({"corrupt": True}, "the mark of a damaged one", "qemu-img check -r all, first"),
    ],
)
def test_what_would_be_lost(
    tmp_path: Path, folder: Path, told: dict[str, object], what: str, hint: str
) -> None:
    own = {"data-file", "bitmaps", "corrupt"}
    if own & set(told):
        told = {"format-specific": {"data": told}}
    with pytest.raises(Unsupported) as raised:
        work(tmp_path, folder, FakeRoom(**told), QCOW2)
    assert str(raised.value) == f"{tmp_path}/disk.img: it has {what}, which would be lost"
    assert raised.value.hint == hint


@pytest.mark.parametrize(("magic", "name"), FORMATS)
def test_formats_that_are_not_written(tmp_path: Path, magic: bytes, name: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(magic + b"text")
    with pytest.raises(Unsupported, match=f"/a: is {name}, not raw or qcow2"):
        Disk(path)
    assert is_disk(path)


@pytest.mark.parametrize(
    ("magic", "tool"), [(b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")]
)
def test_a_packed_disk(tmp_path: Path, magic: bytes, tool: str) -> None:
    (tmp_path / "a").write_bytes(magic)
    with pytest.raises(Unsupported, match=f"/a: is packed by {tool}") as raised:
        Disk(tmp_path / "a")
    assert raised.value.hint == f"unpack it first: {tool} -d"


@pytest.mark.parametrize(
    ("data", "disk"),
    [(b"text", False), (b"a\0", True), (b"x" * 511 + b"\0", True), (b"x" * 512 + b"\0", False)],
)
def test_text_is_no_disk(tmp_path: Path, data: bytes, disk: bool) -> None:
    (tmp_path / "a").write_bytes(data)
    assert is_disk(tmp_path / "a") is disk


def test_a_disk_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"):
        Disk(tmp_path)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").touch()
    assert Disk(tmp_path / "link").target == tmp_path / "real"


def test_a_table_that_makes_no_sense_is_told_of_the_disk(tmp_path: Path, folder: Path) -> None:
    head = b"EFI PART" + bytes(64) + struct.pack("<QII", 2, 1, 1)
    with pytest.raises(Unsupported, match=r"/disk.img: its GPT makes no sense"):
        work(tmp_path, folder, FakeRoom(), bytes(512) + head)


@pytest.mark.parametrize("byte", [100, 199, 200, 299])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_disk_that_a_machine_runs_from(
    tmp_path: Path, folder: Path, byte: int, when: str
) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(b"raw")
    disk = Disk(path) if when == "before" else work(tmp_path, folder, FakeRoom(), b"raw")
    with path.open("rb") as file:  # QEMU's locks are of the open file, and are read ones
        lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        room: Any = FakeRoom()
        refused = partial(disk.bring, room) if when == "before" else disk.put
        with pytest.raises(LockedError, match=r"/disk.img: a machine runs from it"):
            refused(folder)
    assert path.read_bytes() == b"raw"


@pytest.mark.parametrize("byte", [0, 99, 300])
def test_locks_that_are_not_qemus(tmp_path: Path, folder: Path, byte: int) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(b"raw")
    with path.open("rb") as file:
        lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        Disk(path).bring(FakeRoom(), folder)  # type: ignore[arg-type]  # a stand-in


def test_a_disk_that_is_mounted_here(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = work(tmp_path, folder, FakeRoom(), b"raw")
    files = {
        "/sys/block/loop1/loop/backing_file": "/somewhere\n",
        "/sys/block/loop2/loop/backing_file": None,
        "/sys/block/loop7/loop/backing_file": f"{tmp_path}/disk.img\n",
    }
    read = Path.read_text

    def told(path: Path, *words: str) -> str:
        if str(path) not in files:
            return read(path, *words)
        text = files[str(path)]
        if text is None:
            raise OSError(6, "No such device or address")
        return text

    monkeypatch.setattr(Path, "glob", lambda *_: [Path(each) for each in files])
    monkeypatch.setattr(Path, "read_text", told)
    with pytest.raises(LockedError, match=r"/disk.img: it is in use as /dev/loop7"):
        disk.put(folder)
    with pytest.raises(LockedError, match=r"/disk.img: it is in use as /dev/loop7"):
        Disk(tmp_path / "disk.img").bring(FakeRoom(), folder)  # type: ignore[arg-type]  # a stand-in


@pytest.mark.parametrize(
    "touch",
    [
        lambda path: path.write_bytes(b"new"),
        lambda path: path.write_bytes(b"longer"),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: (path.rename(f"{path}.old"), path.write_bytes(b"raw")),
    ],
)
def test_a_disk_that_somebody_wrote_to_meanwhile(
    tmp_path: Path, folder: Path, touch: Callable[[Path], object]
) -> None:
    disk = work(tmp_path, folder, FakeRoom(), b"raw")
    path = tmp_path / "disk.img"
    touch(path)
    after = path.read_bytes()
    with pytest.raises(StaleError, match="somebody wrote to it"):
        disk.put(folder)
    assert path.read_bytes() == after
