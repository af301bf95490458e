"""An image that is a folder: an unpacked root, or one that is mounted."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import StaleError, UsageError
from toolkit.features.image.io import file_journal
from toolkit.features.image.io.aside import mounts, unwritable
from toolkit.features.image.io.index import Difference, stamps
from toolkit.features.image.io.inside import exchange, flush_folder
from toolkit.features.image.io.namespace import Room

# Mounted in a root by who works in it, and of this machine.
_NOT_ITS_OWN = {
    *("proc", "sysfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "securityfs"),
    *("debugfs", "tracefs", "pstore", "bpf", "efivarfs", "configfs", "hugetlbfs", "fusectl"),
    *("binfmt_misc", "autofs", "rpc_pipefs"),
}
# Whatever is mounted there: no script in the image sees it, and none of it is the image's.
_EACH_BOOT = ("dev", "proc", "run", "sys", "tmp")
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EBUSY, errno.EPERM}
_WHOLE = "the folder and its copy change places in one step (renameat2)"
_BY_FILE = "it is a mount point or holds one, so it is replaced file by file, with a journal"


class Tree:
    """A folder, worked on as a copy beside it; folder and copy then change places."""

    def __init__(self, root: Path) -> None:
        """:raises UsageError: there is no such folder, or it is this machine's own root."""
        if not root.is_dir():
            raise UsageError(f"{root}: is no folder", hint="--root names an unpacked image")
        self.target = root.resolve()
        if self.target == self.target.parent:
            raise UsageError(
                f"{root}: is this machine itself", hint="use provision --hosts localhost"
            )
        self._parts = mounts(self.target)
        self._then: Mapping[str, tuple[int, int, int]] = {}

    @property
    def way(self) -> str:
        """How it is put in place, as half a sentence."""
        return _BY_FILE if self._parts else _WHOLE

    def bring(self, room: Room, folder: Path) -> Path:
        """Make the copy, once what a killed run left half done is finished or taken back.

        :returns: its root, the same path inside and outside the room.
        :raises ApplyError: there is no space for it.
        """
        file_journal.mend(self.target)
        self._then = self._stamps()
        copy = folder / "root"
        room.call("cp", "-a", "-x", "--reflink=auto", "-T", self.target, copy)
        for point, _ in self._own():
            if point != self.target:
                inside = copy / point.relative_to(self.target)
                room.call("cp", "-a", "-x", "--reflink=auto", "-T", point, inside)
        return copy

    def pack(self, room: Room, folder: Path, changed: tuple[Difference, ...]) -> None:
        """See that all that is new is on the disk.

        :raises StaleError: somebody has changed the folder since it was copied.
        """
        if self._stamps() != self._then:
            raise StaleError(
                f"{self.target}: somebody changed it while its copy was worked on",
                hint="nothing was replaced; run it again when nobody else writes to it",
            )
        if self._parts:
            file_journal.prepare(room, self.target, folder / "root", changed)
        else:
            room.call("sync", "-f", folder / "root")

    def put(self, folder: Path) -> None:
        """Let the two change places; or do what was prepared.

        :raises ApplyError: it could not be done.
        """
        if self._parts:
            file_journal.carry_out(self.target)
            return
        try:
            exchange(folder / "root", self.target)
        except OSError as why:
            if why.errno in _CANNOT:
                raise UsageError(
                    f"{self.target}: its file system cannot let two folders change places: "
                    f"{why.strerror}",
                    hint="the image is as it was; mount it on itself (mount --bind), and it is "
                    "replaced file by file",
                ) from why
            raise unwritable(self.target, why) from why
        flush_folder(self.target.parent)

    def _own(self) -> tuple[tuple[Path, str], ...]:
        """Mount points that are parts of the image, from above."""
        return tuple(sorted(each for each in self._parts if not self._foreign(*each)))

    def _foreign(self, point: Path, kind: str) -> bool:
        below = point.relative_to(self.target).parts
        return kind in _NOT_ITS_OWN or bool(below and below[0] in _EACH_BOOT)

    def _stamps(self) -> Mapping[str, tuple[int, int, int]]:
        """Without what is mounted there and is of this machine."""
        left_out = {
            "/" + str(point.relative_to(self.target))
            for point, kind in self._parts
            if self._foreign(point, kind)
        }
        return stamps(self.target, left_out)
