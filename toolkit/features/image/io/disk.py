"""An image that is the disk of a machine, in a file: raw or qcow2.

It is worked on as a raw copy, whose partitions are mounted by offset: that takes loop devices
and nothing else, no daemon whose end could tear a file system, and no partition table that the
kernel would have to know. The result is made in the format of the source.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolkit.errors import LockedError, StaleError, Unsupported, UsageError
from toolkit.features.image.io.index import TreeDifference
from toolkit.features.image.io.inside import flush_folder
from toolkit.features.image.io.mounts import Mounted
from toolkit.features.image.io.namespace import MountRoom, demand
from toolkit.features.image.io.partitions import partitions
from toolkit.untrusted import read_json

_QCOW2 = "qcow2"
_OTHERS = (
    *((b"KDMV", "VMDK"), (b"vhdxfile", "VHDX"), (b"conectix", "VHD"), (b"QED\0", "QED")),
    (b"<<< Oracle VM VirtualBox", "VDI"),
)
_PACKED = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))
# 3: clusters that nobody uses, which a machine leaves that was switched off. The result has none.
_CHECK = 'qemu-img check -f qcow2 --output=json "$1" || [ $? = 3 ]'
# Bytes that QEMU locks while it has an image open (block/file-posix.c).
_QEMU_LOCKS = (100, 200)  # what it may do, and what nobody else may


class Disk:
    """A file with a disk in it, worked on as a copy beside it that then takes its name."""

    way = "a copy of the disk takes its name in one step (rename)"

    def __init__(self, path: Path) -> None:
        """:raises UsageError: there is no such file.
        :raises Unsupported: it is of a format that we do not write.
        """
        if not path.is_file():
            raise UsageError(f"{path}: is no file", hint="--disk names a raw or qcow2 disk")
        self.target = path.resolve()
        self._format = _format(self.target)
        self._then = self.target.stat()
        self._options: tuple[str, ...] = ()
        self._mounted: Mounted | None = None

    def bring(self, room: MountRoom, folder: Path) -> Path:
        """Copy the disk and mount what is on it.

        :raises LockedError: a machine runs from it, or it is mounted here.
        :raises Unsupported: it holds no system that we can mount.
        """
        self._refuse_running()
        self._refuse_mounted()
        copy, tree = folder / "disk", folder / "tree"
        if self._format == _QCOW2:
            demand(str(self.target), ("qemu-img",))
            self._options = self._read_options(room)
            words = ("qemu-img", "convert", "-f", _QCOW2, "-O", "raw")
            room.call(*words, self.target, copy)
        else:
            room.call("cp", "--reflink=auto", "--sparse=always", "-T", self.target, copy)
        with copy.open("rb") as disk:
            try:
                found = partitions(disk, copy.stat().st_size)
            except Unsupported as why:
                raise Unsupported(f"{self.target}: {why}", hint=why.hint) from why
        tree.mkdir()
        self._mounted = Mounted(str(self.target), room, copy, tree)
        self._mounted.mount(found)
        return tree

    def pack(self, room: MountRoom, folder: Path, _: tuple[TreeDifference, ...]) -> None:
        """Unmount all, make the result and see that it is on the disk."""
        if self._mounted is not None:
            room.call("umount", "-n", "-R", folder / "view")
            self._mounted.unmount()
        copy, result = folder / "disk", folder / "result"
        if self._format == _QCOW2:
            words = ("qemu-img", "convert", "-f", "raw", "-O", _QCOW2, *self._options)
            room.call(*words, copy, result)
        else:
            copy.rename(result)
        os.chown(result, self._then.st_uid, self._then.st_gid)
        result.chmod(self._then.st_mode & 0o7777)
        room.call("sync", result)

    def put(self, folder: Path) -> None:
        """Give the result the name of the old one.

        :raises StaleError: somebody has written to that since it was copied.
        """
        self._refuse_running()
        self._refuse_mounted()
        now = self.target.stat()
        if _stamp(now) != _stamp(self._then):
            raise StaleError(
                f"{self.target}: somebody wrote to it while its copy was worked on",
                hint="nothing was replaced; run it again when no machine runs from it",
            )
        (folder / "result").replace(self.target)
        flush_folder(self.target.parent)

    def _read_options(self, room: MountRoom) -> tuple[str, ...]:
        """What the result is made with, so that it is as the source was."""
        words = ("qemu-img", "info", "-f", _QCOW2, "--output=json")
        told: dict[str, Any] = read_json(room.call(*words, self.target))
        own: dict[str, Any] = told.get("format-specific", {}).get("data", {})
        for there, what, hint in (
            (told.get("backing-filename"), "another image below it", "qemu-img convert -O qcow2"),
            (told.get("snapshots"), "snapshots in it", "qemu-img snapshot -d"),
            (told.get("encrypted"), "encryption", "decrypt it"),
            (own.get("data-file"), "its data in another file", "qemu-img convert -O qcow2"),
            (own.get("bitmaps"), "bitmaps in it", "qemu-img bitmap --remove"),
            (own.get("corrupt"), "the mark of a damaged one", "qemu-img check -r all"),
        ):
            if there:
                raise Unsupported(
                    f"{self.target}: it has {what}, which would be lost", hint=f"{hint}, first"
                )
        cluster, compat = told.get("cluster-size", 65536), own.get("compat", "1.1")
        options = [f"cluster_size={cluster}", f"compat={compat}"]
        if "compression-type" in own:
            options.append(f"compression_type={own['compression-type']}")
        if own.get("extended-l2"):
            options.append("extended_l2=on")
        # Clusters of published images are compressed.
        checked: dict[str, Any] = read_json(room.call("sh", "-c", _CHECK, "gdr", self.target))
        packed = checked.get("compressed-clusters", 0)
        return (*(("-c",) if packed else ()), "-o", ",".join(options))

    def _refuse_running(self) -> None:
        with self.target.open("rb") as file:
            for first in _QEMU_LOCKS:
                ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, first, 100, 0)
                told = fcntl.fcntl(file, fcntl.F_OFD_GETLK, ask)
                if struct.unpack("hhqqi4x", told)[0] != fcntl.F_UNLCK:
                    raise LockedError(
                        f"{self.target}: a machine runs from it, or a tool of QEMU's has it open",
                        hint="nothing was touched; end that first: fuser -v",
                    )

    def _refuse_mounted(self) -> None:
        """Whoever works in the old file by a loop device would go on there, and all be lost."""
        for each in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):  # it was let go of meanwhile
                if each.read_text("utf-8", "surrogateescape").rstrip("\n") == str(self.target):
                    raise LockedError(
                        f"{self.target}: it is in use as /dev/{each.parts[3]}",
                        hint="nothing was touched; unmount what is in it, then losetup -d",
                    )


def is_disk(path: Path) -> bool:
    """Whether a file may be a disk: text, such as a document, has no zeroes at its beginning.

    :raises OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(512)
    return b"\0" in head or head.startswith(tuple(magic for magic, _ in _OTHERS))


def _format(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(64)
    if head[:4] == b"QFI\xfb":
        return _QCOW2
    for magic, name in _OTHERS:
        if head.startswith(magic):
            raise Unsupported(
                f"{path}: is {name}, not raw or qcow2",
                hint=f"qemu-img convert -O qcow2 {path} NAME.qcow2",
            )
    for magic, tool in _PACKED:
        if head.startswith(magic):
            raise Unsupported(f"{path}: is packed by {tool}", hint=f"unpack it first: {tool} -d")
    return "raw"


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
