"""An image, changed aside and put in place of the old one in one step, or not at all.

    with stage(ImageSource(Medium.ROOT, path)) as staged:
        staged.run(script)           in its tree, with nothing of this machine to be seen
        staged.write(path, data)
        staged.commit()              what it became takes the old one's place

Leaving without ``commit`` leaves the old image as it was, byte for byte. So does whatever ends
this process: see io/namespace.py for what ends with it, and io/aside.py for what the next run
finds and removes. The work leaves nothing of the builder in the image, and no scratch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from toolkit.errors import ApplyError, UsageError
from toolkit.features.image.io.aside import aside
from toolkit.features.image.io.disk import Disk
from toolkit.features.image.io.index import FileKind, Index, TreeDifference, differences, look
from toolkit.features.image.io.inside import link_inside, read_inside, remove_inside, write_inside
from toolkit.features.image.io.namespace import ImageGround, MountRoom
from toolkit.features.image.io.tar import Tar
from toolkit.features.image.io.tree import TreeMedium
from toolkit.interrupts import Interrupts, terminable
from toolkit.node.scripts import FOLDER
from toolkit.progress import Progress, Silent
from toolkit.ssh.transport import Result, Sink, Transport, quiet

# As it was before, whatever a script made of it: what tells one machine from all others, or
# belongs to the network of whoever builds.
AS_BEFORE = (
    *("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname", "/etc/hosts"),
    *("/etc/resolv.conf", "/etc/mtab", "/etc/adjtime", "/etc/hostid"),
    "/etc/iscsi/initiatorname.iscsi",
    *("/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret", "/var/lib/random-seed"),
    *("/etc/ssh/ssh_host_*", "/usr/sbin/policy-rc.d", "/root/.bash_history"),
    # DKMS makes a key for signing at the first build: one for each image would be one for a fleet.
    *("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.*"),
)
# Gone, where it was not there before.
_SCRATCH = (
    "/var/lib/dkms/*/*/build",
    "/var/lib/dkms/*/*/*/*/log",
    # Of the builds that were made here; what was done stands in the journal.
    *("/var/lib/gdr-toolkit/rebuild/*.log", "/var/lib/gdr-toolkit/runs/*/log"),
)
POLICY = "/usr/sbin/policy-rc.d"  # by which Debian's packages ask whether they may start services
_POLICY = b"""#!/bin/sh
# Lies here while the image is worked on: no service is started in it.
exit 101
"""

Kept = Mapping[str, bytes]  # content of files that are put back, by path


def keep(root: Path, before: Index) -> Kept:
    """The content of what must stay as it is.

    :raises OSError: it cannot be read.
    """
    paths = (path for path, entry in before.items() if entry.kind is FileKind.FILE)
    return {path: read_inside(root, path) for path in paths if _one_of(path, AS_BEFORE)}


def forbid_services(root: Path, before: Index) -> None:
    """Until ``clean``, no package of the image starts a service in it.

    :raises OSError: the image cannot be written.
    """
    if "/var/lib/dpkg" in before:
        write_inside(root, POLICY, _POLICY, 0o755)


def clean(root: Path, before: Index, kept: Kept, known: Index) -> Index:
    """Put back and take away; what the tree holds now.

    :param known: a look at it that may be old.
    :raises OSError: the image cannot be written.
    """
    after = look(root, known)
    for path in sorted(after.keys() - before.keys()):
        if _one_of(path, _SCRATCH):
            remove_inside(root, path)
    for each in differences(before, after):
        if _one_of(each.path, AS_BEFORE):
            _put_back(root, each.path, before, kept)
    return look(root, after)


def _put_back(root: Path, path: str, before: Index, kept: Kept) -> None:
    old = before.get(path)
    if old is None or old.kind not in {FileKind.FILE, FileKind.LINK}:
        remove_inside(root, path)
    elif old.kind is FileKind.LINK:
        with suppress(IsADirectoryError):
            link_inside(root, path, old.what)
    else:
        write_inside(root, path, kept[path], old.mode, owner=old.owner)


def _one_of(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, each) and path.count("/") == each.count("/") for each in patterns)


# What a root has, if only empty.
_WHOLE = ("/dev", "/etc", "/proc", "/run", "/sys", "/tmp")  # noqa: S108 # paths in the image
_VIEW = FOLDER / "media.sh"


class Medium(StrEnum):
    """What an image is kept in."""

    ROOT = "root"  # an unpacked folder
    DISK = "disk"  # a raw or qcow2 file
    TAR = "tar"


class ImageSource(Struct, frozen=True):
    """One image, as the operator named it."""

    medium: Medium
    path: Path
    out: Path | None = None  # where the result goes; None: in the place of the image


class _Keeper(Protocol):
    """One medium: how its tree is brought into a room, and how what came of it is put in place."""

    target: Path  # what is replaced

    @property
    def way(self) -> str:
        """How it is put in place, as half a sentence."""

    def bring(self, room: MountRoom, folder: Path) -> Path: ...

    def pack(self, room: MountRoom, folder: Path, changed: tuple[TreeDifference, ...]) -> None: ...

    def put(self, folder: Path) -> None: ...


class Staged:
    """An image that is worked on. A Transport, too: its scripts run in the image's tree."""

    def __init__(
        self, keeper: _Keeper, room: MountRoom, folder: Path, tree: Path, progress: Progress
    ) -> None:
        self._keeper, self._room, self._folder = keeper, room, folder
        self._progress = progress
        self.root = tree
        try:
            self._before = self._now = look(self.outside)
        except OSError as why:
            raise self._failed("it could not be read", why) from why
        for each in _WHOLE:
            if each not in self._before or self._before[each].kind is not FileKind.FOLDER:
                raise UsageError(
                    f"{self.name}: there is no folder {each} in it",
                    hint="an image is a whole root, with bin, etc, dev, proc, sys, run and tmp",
                )
        self._kept = self._begin()
        self._committed = False

    @property
    def name(self) -> str:
        """The image's path."""
        return str(self._keeper.target)

    @property
    def way(self) -> str:
        """How the result is put in place, as half a sentence."""
        return self._keeper.way

    @property
    def outside(self) -> Path:
        """The tree, as this process sees it: what is mounted there is not on our own paths.

        An absolute link followed from here leads out of it: use ``read`` and ``write``.
        """
        return self._room.door / self.root.relative_to("/")

    @property
    def view(self) -> Path:
        """The tree with nothing of this machine in it, as ``ground`` sees it: see media.sh."""
        return self._folder / "view"

    @property
    def ground(self) -> Transport:
        """This machine, with what is mounted for the image: ``root`` and ``view`` are there.

        What runs there ends with us, as everything else.
        """
        return ImageGround(self.name, self._room)

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        """Run a script in the view, by the image's own sh, as root. As Transport's.

        It cannot load modules, reboot, set the clock or reach a network. What uname and dmesg
        say there is still of the kernel that runs here.
        """
        return self._room.run(script, self.view, limit_s, sink)

    def close(self) -> None:
        """The stage ends with its block, not with this."""

    def read(self, path: str) -> bytes:
        """A file, by its path in the image.

        :raises OSError: it is not there, or cannot be read.
        """
        return read_inside(self.outside, path)

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Put a file, by its path in the image, whole; of root, with the folders it needs.

        :raises ApplyError: it cannot be written.
        """
        try:
            write_inside(self.outside, path, data, mode)
        except OSError as why:
            raise self._failed(f"{path} cannot be written", why) from why

    def differences(self) -> tuple[TreeDifference, ...]:
        """What is not as it was, by path, once what must not stay has been cleared away."""
        self._tidy()
        found = differences(self._before, self._now)
        self._begin()
        return found

    def commit(self) -> tuple[TreeDifference, ...]:
        """Clear away what must not stay, and put the result in place of the old image.

        :returns: what differs between the two, by path.
        :raises ApplyError: it could not be done; the old image is as it was.
        """
        if self._committed:
            raise UsageError(
                f"{self.name}: it has been put in place already", hint="begin another run for it"
            )
        self._room.still()
        self._progress.note(self.name, "clearing away what is not the image's")
        self._tidy()
        self._progress.note(self.name, "writing it to the disk")
        changed = differences(self._before, self._now)
        self._keeper.pack(self._room, self._folder, changed)
        self._room.close()
        with Interrupts():  # what comes now takes an instant, and is done or not
            self._keeper.put(self._folder)
            self._committed = True
        return changed

    def _begin(self) -> Kept:
        """From here on scripts may change it; what is put back at the end."""
        try:
            kept = keep(self.outside, self._before)
            forbid_services(self.outside, self._before)
        except OSError as why:
            raise self._failed("nothing can be written in it", why) from why
        return kept

    def _tidy(self) -> None:
        try:
            self._now = clean(self.outside, self._before, self._kept, self._now)
        except OSError as why:
            raise self._failed("it could not be cleared up", why) from why

    def _failed(self, what: str, why: OSError) -> ApplyError:
        where = f": {why.filename}" if why.filename else ""
        return ApplyError(
            f"{self.name}: {what}: {why.strerror}{where}",
            hint="the image is as it was; make room in it where it is full",
        )


@contextmanager
def stage(source: ImageSource, *, progress: Progress | None = None) -> Iterator[Staged]:
    """An image, to be changed aside.

    :raises UsageError: it is not there, or we are not root.
    :raises Unsupported: it is of a kind, or on a machine, that we cannot do this with.
    :raises LockedError: another run is at work on it.
    :raises ApplyError: it could not be brought, for want of space say.
    """
    told = progress or Silent()
    keeper = _keeper(source)
    if os.geteuid() != 0:
        raise UsageError(
            f"{source.path}: only root can work on an image", hint="run it by sudo, or as root"
        )
    with ExitStack() as stack:
        stack.enter_context(terminable())  # a whole copy of the image is to go with us
        folder, lock = stack.enter_context(aside(keeper.target))
        room = MountRoom.open(str(keeper.target), lock.descriptor)
        stack.callback(room.close)
        told.note(str(keeper.target), f"copying it aside; {keeper.way}")
        tree = keeper.bring(room, folder)
        staged = Staged(keeper, room, folder, tree, told)
        room.call("sh", "-c", _VIEW.read_text("utf-8"), "gdr", "view", tree, folder)
        yield staged


def _keeper(source: ImageSource) -> _Keeper:
    if source.medium is Medium.ROOT:
        return TreeMedium(source.path)
    if source.medium is Medium.DISK:
        return Disk(source.path)
    return Tar(source.path, source.out)
