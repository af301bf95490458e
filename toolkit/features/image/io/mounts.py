"""The file systems of a disk, mounted as the system on it would have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from toolkit.errors import ApplyError, Unsupported
from toolkit.features.image.io.inside import read_inside
from toolkit.features.image.io.namespace import MountRoom
from toolkit.features.image.io.partitions import Partition

_MOUNTED = {"ext4", "xfs", "btrfs"}  # what a root is kept on
_CLOSED = {"LUKS", "LVM", "RAID", "BitLocker"}
_OPTIONS = {"xfs": "nouuid"}  # the same may be mounted on this machine
_SUBVOLUMES = ("root", "@")  # Fedora's and Ubuntu's names for the one that is the root
_OURS = re.compile(r"/(boot|efi|usr|var|etc|lib|opt)(/.*)?")  # where a system keeps its parts
# Mounted from a device of another name than a loop device's, which the system on the disk finds
# in its /dev as well: GRUB's own script for Linux silently leaves the kernels out of the menu of
# a system whose root is on a loop device. The mount on the side holds the loop device meanwhile.
_MOUNT = """
set -eu
kind=$1 spot=$2 disk=$3 number=$4 options=$5 target=$6 uuid=$7
nodes=/dev/shm/gdr-image side=${disk%/*}/side
if [ ! -d "$nodes" ]; then
    mount -n -t tmpfs -o mode=755 gdr /dev/shm
    mkdir -p "$nodes/by-uuid" "$side"
fi
if [ ! -b "$nodes/$number" ]; then
    mount -n -t "$kind" -o "$spot" "$disk" "$side"
    loop=$(findmnt -n -o SOURCE --mountpoint "$side")
    numbers=$(stat -c '0x%t 0x%T' "${loop%%[*}")
    mknod "$nodes/$number" b ${numbers% *} ${numbers#* }
    ln -sf "../$number" "$nodes/by-uuid/$uuid"
fi
mount -n -t "$kind" -o "$options" "$nodes/$number" "$target"
if mountpoint -q "$side"; then umount -n "$side"; fi
"""
_LET_GO = """
findmnt -n -R -o TARGET "$1" | while read -r each; do
    fstrim --quiet "/${each#*/}" 2>/dev/null # not every file system can
    sync -f "/${each#*/}" || exit
done || exit
left=50
while ! said=$(umount -n -R "$1" 2>&1); do # what was killed may still be ending
    if [ "$left" = 0 ]; then echo "$said" >&2; exit 1; fi
    left=$((left - 1))
    sleep 0.1
done
"""
_UNMOUNT = 'umount -n "$1" && rm "/dev/shm/gdr-image/$2"'
_DEVICE = re.compile(r"/dev/([shv]d[a-z]|xvd[a-z]|(?:nvme\d+n|mmcblk)\d+(?=p))p?(\d+)")
_FIRST = {"sda", "hda", "vda", "xvda", "nvme0n1", "mmcblk0"}  # of the disks of a machine


class MountRow(Struct, frozen=True):
    """A line of /etc/fstab."""

    device: str
    folder: str
    kind: str
    options: tuple[str, ...]


def rows(text: str) -> tuple[MountRow, ...]:
    """The lines of an fstab. What is no line of it is left out, as mount does."""
    words = (line.split() for line in text.split("\n") if not line.lstrip().startswith("#"))
    plain = (
        [re.sub(r"\\([0-7]{3})", lambda told: chr(int(told[1], 8)), word) for word in line]
        for line in words
        if len(line) >= 3
    )
    return tuple(
        MountRow(a, b, c, tuple((rest or ["defaults"])[0].split(","))) for a, b, c, *rest in plain
    )


def named(row: MountRow, found: tuple[Partition, ...], disk: str = "") -> Partition | None:
    """The partition of this disk that a line means, if any.

    :param disk: as the system calls this one, "sda"; "" where its fstab does not tell.
    """
    device = row.device.removeprefix("/dev/disk/by-")
    key, _, value = device.partition("=" if "=" in device else "/")
    value = value.strip('"')
    for each in found:
        marks = {"uuid": each.inside.uuid, "partuuid": each.uuid, "label": each.inside.label}
        mark = marks.get(key.lower(), "")
        alike = value == mark if key.lower() == "label" else value.lower() == mark
        if mark and alike:
            return each
    match = _DEVICE.fullmatch(row.device)
    if match is None or match[1] not in ({disk} if disk else _FIRST):
        return None
    return next((each for each in found if each.number == int(match[2])), None)


def _of_root(lines: tuple[MountRow, ...]) -> str:
    """The disk that the root is on, where its line names a device."""
    matches = (_DEVICE.fullmatch(each.device) for each in lines if each.folder == "/")
    return next((match[1] for match in matches if match), "")


class Mounted:
    """The file systems of one disk, in a room, below one folder."""

    def __init__(self, name: str, room: MountRoom, disk: Path, tree: Path) -> None:
        self._name, self._room, self._disk, self._tree = name, room, disk, tree

    def mount(self, found: tuple[Partition, ...]) -> None:
        """Mount the root, and what its fstab puts below it from the same disk.

        :raises Unsupported: there is no root that we can mount, or more than one.
        """
        roots = [each for each in found if self._try(each)]
        if len(roots) != 1:
            raise self._no_root(found, roots)
        self._root(roots[0])
        for row, partition in sorted(self._below(found), key=lambda each: each[0].folder):
            target = self._tree / row.folder.strip("/")
            self._refuse_links(row.folder)
            self._mount(partition, target, subvolume=_subvolume(row))

    def unmount(self) -> None:
        """Write all to the disk and let go of it, with what is free given back.

        :raises ApplyError: something holds it.
        """
        self._room.call("sh", "-c", _LET_GO, "gdr", self._tree)

    def _try(self, partition: Partition) -> bool:
        """Whether a root is in it; nothing is mounted afterwards."""
        if partition.inside.kind not in _MOUNTED:
            return False
        self._root(partition)
        found = self._is_root()
        self._room.call("sh", "-c", _UNMOUNT, "gdr", self._tree, str(partition.number))
        return found

    def _root(self, partition: Partition) -> None:
        self._mount(partition, self._tree)
        if partition.inside.kind == "btrfs" and not self._is_root():
            for name in _SUBVOLUMES:
                if (self._seen() / name / "etc").is_dir():
                    words = ("gdr", self._tree, str(partition.number))
                    self._room.call("sh", "-c", _UNMOUNT, *words)
                    self._mount(partition, self._tree, subvolume=f"subvol={name}")
                    return

    def _mount(self, partition: Partition, target: Path, *, subvolume: str = "") -> None:
        kind = partition.inside.kind
        options = _OPTIONS.get(kind, "rw")
        spot = f"{options},loop,offset={partition.start},sizelimit={partition.size}"
        options += f",{subvolume}" if subvolume else ""
        words = (kind, spot, self._disk, str(partition.number), options, target)
        try:
            self._room.call("sh", "-c", _MOUNT, "gdr", *words, partition.inside.uuid)
        except ApplyError as why:
            if "unknown filesystem type" not in str(why):
                raise
            raise Unsupported(
                f"{self._name}: the kernel of this machine cannot mount partition "
                f"{partition.number}: {kind}",
                hint=f"modprobe {kind}, or run it on a machine whose kernel has it",
            ) from why

    def _below(self, found: tuple[Partition, ...]) -> Iterator[tuple[MountRow, Partition]]:
        used: set[Partition | None] = set()
        try:
            fstab = read_inside(self._seen(), "/etc/fstab").decode("utf-8", "replace")
        except FileNotFoundError:
            fstab = ""
        lines = rows(fstab)
        own = _of_root(lines)
        for row in lines:
            if row.folder == "/" or not row.folder.startswith("/") or row.kind == "swap":
                continue
            partition = named(row, found, own)
            if partition is not None:
                yield row, partition
            elif _needed(row):
                raise Unsupported(
                    f"{self._name}: {row.folder} is mounted from {row.device}, "
                    "which is not on this disk",
                    hint="an image is one disk; mount all its parts by hand and use --root",
                )
            used.add(partition)
        yield from self._unnamed(found, used)

    def _unnamed(
        self, found: tuple[Partition, ...], used: set[Partition | None]
    ) -> Iterator[tuple[MountRow, Partition]]:
        """The EFI system partition, where systemd would find it without an fstab."""
        for each in found:
            if not each.efi or each.inside.kind != "vfat" or each in used:
                continue
            for folder in ("/efi", "/boot"):
                place = self._seen() / folder.strip("/")
                if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
                    yield MountRow("", folder, "vfat", ()), each
                    return

    def _seen(self) -> Path:
        return self._room.door / self._tree.relative_to("/")

    def _is_root(self) -> bool:
        """A link counts even where it leads nowhere from here."""
        places = ("etc/os-release", "usr/lib/os-release")
        found = (self._seen() / each for each in places)
        return any(each.is_symlink() or each.is_file() for each in found)

    def _refuse_links(self, folder: str) -> None:
        at = self._seen()
        for name in folder.strip("/").split("/"):
            at /= name
            if name == ".." or at.is_symlink() or not at.is_dir():
                raise Unsupported(
                    f"{self._name}: {folder} is in its fstab, and is no folder there",
                    hint="mend that line of its /etc/fstab, or make the folder",
                )

    def _no_root(self, found: tuple[Partition, ...], roots: list[Partition]) -> Unsupported:
        told = ", ".join(f"{each.number}: {each.inside.kind or 'unknown'}" for each in found)
        if roots:
            both = " and ".join(str(each.number) for each in roots)
            return Unsupported(
                f"{self._name}: partitions {both} each hold a system; one is expected",
                hint="mount the one that is meant, and use --root",
            )
        closed = sorted({each.inside.kind for each in found} & _CLOSED)
        if closed:
            return Unsupported(
                f"{self._name}: no partition that can be mounted holds a system, and there is "
                f"{' and '.join(closed)} (partitions {told})",
                hint=f"open the {closed[0]} by hand, mount what is in it, and use --root",
            )
        return Unsupported(
            f"{self._name}: no partition holds a system with /etc/os-release (partitions {told})",
            hint="the root is to be ext4, xfs or btrfs",
        )


def _needed(row: MountRow) -> bool:
    """Whether the system has one of its parts there, from a device."""
    device = "=" in row.device or row.device.startswith("/dev/")
    return bool(
        device and _OURS.fullmatch(row.folder) and not {"noauto", "nofail", "bind"} & {*row.options}
    )


def _subvolume(row: MountRow) -> str:
    """As mount takes it, by name or by number."""
    return next((each for each in row.options if each.startswith(("subvol=", "subvolid="))), "")
