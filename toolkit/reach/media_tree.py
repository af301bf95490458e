"""An image that is a folder: an unpacked root."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import StaleError, Unsupported, UsageError
from toolkit.reach.media_aside import mounts, unwritable
from toolkit.reach.media_index import stamps
from toolkit.reach.media_inside import exchange, flush_folder
from toolkit.reach.media_room import Room

_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EBUSY}


class Tree:
    """A folder, worked on as a copy beside it; folder and copy then change places."""

    way = "the folder and its copy change places in one step (renameat2)"

    def __init__(self, root: Path) -> None:
        """:raises UsageError: there is no such folder, or it is this machine's own root."""
        if not root.is_dir():
            raise UsageError(f"{root}: is no folder", hint="--root names an unpacked image")
        self.target = root.resolve()
        if self.target == self.target.parent:
            raise UsageError(
                f"{root}: is this machine itself", hint="use provision --hosts localhost"
            )
        self._then: Mapping[str, tuple[int, int, int]] = {}

    def bring(self, room: Room, folder: Path) -> Path:
        """Make the copy.

        :returns: its root, the same path inside and outside the room.
        :raises ApplyError: there is no space for it.
        """
        if found := mounts(self.target):
            raise Unsupported(
                f"{self.target}: {found[0][0]} is a mount point, and cannot change places",
                hint="unmount it, and name the folder or the disk that it came from",
            )
        self._then = stamps(self.target)
        copy = folder / "root"
        room.call("cp", "-a", "--reflink=auto", "-T", self.target, copy)
        return copy

    def pack(self, room: Room, folder: Path) -> None:
        """See that the copy is on the disk."""
        room.call("sync", "-f", folder / "root")

    def put(self, folder: Path) -> None:
        """Let the two change places.

        :raises StaleError: somebody has changed the folder since it was copied.
        """
        if stamps(self.target) != self._then:
            raise StaleError(
                f"{self.target}: somebody changed it while its copy was worked on",
                hint="nothing was replaced; run it again when nobody else writes to it",
            )
        try:
            exchange(folder / "root", self.target)
        except OSError as why:
            if why.errno in _NO_EXCHANGE:
                raise Unsupported(
                    f"{self.target}: its file system cannot let two folders change places: "
                    f"{why.strerror}",
                    hint="the image is as it was; move it to ext4, xfs or btrfs",
                ) from why
            raise unwritable(self.target, why) from why
        flush_folder(self.target.parent)

    def mend(self, left: Path) -> None:
        """A folder that a killed run left holds nothing that is needed."""
