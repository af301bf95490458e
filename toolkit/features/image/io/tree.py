"""An image that is a folder: an unpacked root, or one that is mounted.

A root that cannot be exchanged as a whole is replaced file by file, with a journal:

    .gdr-image.prepare     what is going to be done; each new file is made beside its place
    .gdr-image.apply       the same list, once all of them are on the disk: from here on it is
                           done to its end, by us or by the next run

Both lie in the root itself, so that they are found wherever it is mounted next. Each step may
be done twice: whoever was stopped in the midst of them leaves nothing that cannot be finished.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from toolkit.errors import ApplyError, StaleError, UsageError
from toolkit.features.image.io.aside import mounts, unwritable
from toolkit.features.image.io.index import TreeChange, TreeDifference, stamps
from toolkit.features.image.io.inside import exchange, flush_file_system, flush_folder
from toolkit.features.image.io.namespace import MountRoom
from toolkit.untrusted import read_json

PREPARE = ".gdr-image.prepare"
APPLY = ".gdr-image.apply"
_NEW = ".gdr-image.new-"


class _Act(StrEnum):
    REMOVE = "remove"
    NO_FOLDER = "no-folder"  # remove it if it is one: what takes its place is none
    ONLY_FOLDER = "only-folder"  # remove it if it is none
    FOLDER = "folder"  # make it, or give it its owner and mode
    PLACE = "place"


class _Step(Struct, frozen=True):
    act: _Act
    path: str  # below the root, without a slash before it
    new: str = ""  # where the new file was made, likewise
    mode: int = 0
    owner: tuple[int, int] = (0, 0)
    attributes: dict[str, str] = field(default_factory=dict)  # extended ones, in hex


def prepare(room: MountRoom, root: Path, copy: Path, changed: Iterable[TreeDifference]) -> None:
    """Make all that is new beside its place, and the list of what is to be done with it.

    :raises ApplyError: there is no space for it; nothing is left of it then.
    """
    steps = _steps(root, copy, tuple(changed))
    try:
        _write(root / PREPARE, steps)
        for each in steps:
            if each.act is _Act.PLACE:
                room.call("cp", "-a", "-T", copy / each.path, root / each.new)
        room.call("sync", "-f", root)
        for folder in {(root / each.new).parent for each in steps if each.new}:
            room.call("sync", "-f", folder)  # it may be on a file system of its own
    except BaseException:
        take_back(root)
        raise


def carry_out(root: Path) -> None:
    """Do what was prepared, to its end.

    :raises ApplyError: it was stopped by the file system; the next run goes on with it.
    """
    try:
        (root / PREPARE).rename(root / APPLY)
        flush_folder(root)
        finish(root)
    except OSError as why:
        raise _stopped(root, why) from why


def _stopped(root: Path, why: OSError) -> ApplyError:
    return ApplyError(
        f"{root}: stopped in the midst of it: {why.strerror}: {why.filename}",
        hint="mend that and run it again: what was begun is finished first",
    )


def mend(root: Path) -> None:
    """Finish or take back what a run left that was killed.

    :raises UsageError: its list cannot be read.
    :raises ApplyError: it was stopped by the file system again.
    """
    try:
        finish(root)
        take_back(root)
    except OSError as why:
        raise _stopped(root, why) from why


def finish(root: Path) -> None:
    """Do what the list says that is to be finished, if there is one."""
    steps = _read(root / APPLY)
    for each in steps:
        _do(root, each)
    if (root / APPLY).exists():
        above = {(root / each.path).parent for each in steps} | {root}
        parts = {folder.stat().st_dev: folder for folder in above if folder.is_dir()}
        for folder in parts.values():
            flush_file_system(folder)
        (root / APPLY).unlink()
        flush_folder(root)


def take_back(root: Path) -> None:
    """Remove what was made beside its place, if there is such a list."""
    with suppress(UsageError):  # the list itself was cut: then nothing was made yet
        for each in _read(root / PREPARE):
            if each.new:
                _clear(root, each.new)
    for left in (PREPARE, f"{PREPARE}.new"):
        with suppress(OSError):
            (root / left).unlink()


def _steps(root: Path, copy: Path, changed: tuple[TreeDifference, ...]) -> tuple[_Step, ...]:
    """What goes, deepest first; then folders and files, each folder before what is in it."""
    gone = [each for each in changed if each.change in {TreeChange.REMOVED, TreeChange.KIND}]
    steps = [_Step(_way_out(copy, each), each.path[1:]) for each in reversed(gone)]
    for number, each in enumerate(changed):
        if each.change is TreeChange.REMOVED:
            continue
        path = each.path[1:]
        status = (copy / path).lstat()
        if stat.S_ISDIR(status.st_mode):
            owner, mode = (status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)
            own = _attributes(copy / path)
            steps.append(_Step(_Act.FOLDER, path, "", mode, owner, own))
        else:
            steps.append(_Step(_Act.PLACE, path, f"{_standing(root, path)}{_NEW}{number}"))
    return tuple(steps)


def _way_out(copy: Path, gone: TreeDifference) -> _Act:
    """What has taken the place already, when this is done for the second time, stays."""
    if gone.change is TreeChange.REMOVED:
        return _Act.REMOVE
    path = copy / gone.path[1:]
    return _Act.ONLY_FOLDER if path.is_dir() and not path.is_symlink() else _Act.NO_FOLDER


def _standing(root: Path, path: str) -> str:
    """The nearest folder above that is there already: new ones come on its file system."""
    above, _, _ = path.rpartition("/")
    while above and ((root / above).is_symlink() or not (root / above).is_dir()):
        above, _, _ = above.rpartition("/")
    return f"{above}/" if above else ""


def _do(root: Path, step: _Step) -> None:
    at = root / step.path
    folder = at.is_dir() and not at.is_symlink()
    if step.act in {_Act.REMOVE, _Act.NO_FOLDER, _Act.ONLY_FOLDER}:
        if step.act is not (_Act.ONLY_FOLDER if folder else _Act.NO_FOLDER):
            _clear(root, step.path)
    elif _through_link(root, step.path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(at))
    elif step.act is _Act.FOLDER:
        at.mkdir(exist_ok=True)
        os.chown(at, *step.owner)
        at.chmod(step.mode)
        for name, value in step.attributes.items():
            os.setxattr(at, name, bytes.fromhex(value))
    elif (root / step.new).is_symlink() or (root / step.new).exists():
        (root / step.new).replace(at)


def _clear(root: Path, below: str) -> None:
    """What is at a path; where a link or a file stands above it by now, it is gone already."""
    path = root / below
    if _through_link(root, below):
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(NotADirectoryError):
            path.unlink(missing_ok=True)


def _through_link(root: Path, below: str) -> bool:
    parts = Path(below).parts
    return any((root / Path(*parts[:count])).is_symlink() for count in range(1, len(parts)))


def _attributes(path: Path) -> dict[str, str]:
    with suppress(OSError):
        return {each: os.getxattr(path, each).hex() for each in os.listxattr(path)}
    return {}


def _write(file: Path, steps: tuple[_Step, ...]) -> None:
    """One step a line, and a last line that says that all are there."""
    lines = [json.dumps(asdict(each)) for each in steps]
    beside = file.with_name(f"{file.name}.new")
    with beside.open("w", encoding="ascii") as stream:
        stream.write("\n".join([*lines, "end", ""]))
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(file)
    flush_folder(file.parent)


def _read(file: Path) -> tuple[_Step, ...]:
    try:
        *lines, end, last = file.read_text("ascii").split("\n")
    except FileNotFoundError:
        return ()
    except ValueError:
        lines, end, last = [], "", ""
    if (end, last) != ("end", ""):
        raise UsageError(
            f"{file}: cannot be read: the list of a run that was killed",
            hint="the image may be of two halves: make it anew from where it came",
        )
    found = (read_json(line) for line in lines)
    steps = tuple(
        _Step(_Act(each.pop("act")), owner=tuple(each.pop("owner")), **each) for each in found
    )
    paths = [Path(path) for each in steps for path in (each.path, each.new)]
    if any(path.is_absolute() or ".." in path.parts for path in paths):
        raise UsageError(
            f"{file}: names what is not in the image: no run of ours wrote that",
            hint="nothing was done; remove the file, and ask where the image comes from",
        )
    return steps


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


class TreeMedium:
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

    def bring(self, room: MountRoom, folder: Path) -> Path:
        """Make the copy, once what a killed run left half done is finished or taken back.

        :returns: its root, the same path inside and outside the room.
        :raises ApplyError: there is no space for it.
        """
        mend(self.target)
        self._then = self._stamps()
        copy = folder / "root"
        room.call("cp", "-a", "-x", "--reflink=auto", "-T", self.target, copy)
        for point, kind in sorted(self._parts):
            if point != self.target and not self._foreign(point, kind):
                inside = copy / point.relative_to(self.target)
                room.call("cp", "-a", "-x", "--reflink=auto", "-T", point, inside)
        return copy

    def pack(self, room: MountRoom, folder: Path, changed: tuple[TreeDifference, ...]) -> None:
        """See that all that is new is on the disk.

        :raises StaleError: somebody has changed the folder since it was copied.
        """
        if self._stamps() != self._then:
            raise StaleError(
                f"{self.target}: somebody changed it while its copy was worked on",
                hint="nothing was replaced; run it again when nobody else writes to it",
            )
        if self._parts:
            prepare(room, self.target, folder / "root", changed)
        else:
            room.call("sync", "-f", folder / "root")

    def put(self, folder: Path) -> None:
        """Let the two change places; or do what was prepared.

        :raises ApplyError: it could not be done.
        """
        if self._parts:
            carry_out(self.target)
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

    def _foreign(self, point: Path, kind: str) -> bool:
        below = point.relative_to(self.target).parts
        return kind in _NOT_ITS_OWN or bool(below and below[0] in _EACH_BOOT)

    def _stamps(self) -> Mapping[str, tuple[int, int, int]]:
        left_out = {
            "/" + str(point.relative_to(self.target))
            for point, kind in self._parts
            if self._foreign(point, kind)
        }
        return stamps(self.target, left_out)
