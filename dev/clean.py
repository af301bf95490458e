"""What a checkout leaves on its machine beside what git has, and taking that away."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dev.run import MARK, MEMORY
from toolkit.package_data import kept
from toolkit.rollout.runs import DEMO
from toolkit.verbs.access import demo_folder, state_dir

CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")
PROC = Path("/proc")
_OLD_S = 86400.0  # nothing of ours works so long in one temporary folder
_ABANDONED = re.compile(  # as tempfile and mktemp name what toolkit/ and tests/ make there
    r"gdr-(bug-\w{8}\.txt|(image|build)\.\w{6}|(ground|sandbox)-\d+-\w{8}"
    r"|(boot|commit|faults|guest|headers|image|kvm|mutants|pod|real|sabotage|seal|sign|verify"
    r"|vagrant|view|wheels)-\w{8})",
    re.ASCII,
)
_LAYER = re.compile(r"(?:lowerdir|datadir|upperdir|workdir)\+?=(.*)", re.DOTALL)
_TESTS, _CACHE = "temporary folders of tests", "what tests of all checkouts keep between runs"

_Holder = tuple[str, tuple[str, ...]]  # who, and the paths that it holds


class Left(Struct, frozen=True):
    """One thing, or several of a kind."""

    what: str
    paths: tuple[Path, ...]  # none is a link, or below one
    size: int  # bytes on disk
    used_by: str = ""  # then it is left alone


def found(root: Path, *, shared: bool = False) -> Iterator[Left]:
    """What is this checkout's and may go, the environment last: what cleans may run from it.

    :param root: the checkout, without links in its path.
    :param shared: what tests keep for all checkouts of the user, too.
    :raises UsageError: nobody knows where the user keeps state.
    """
    caches = kept("XDG_CACHE_HOME", "~/.cache")
    temporaries = {Path(tempfile.gettempdir()), MEMORY}
    runs = [each.parent for each in state_dir().glob(f"runs/*/{DEMO}") if _of(each, demo_folder())]
    made = (each for own in temporaries for each in own.glob(f"pytest-of-*/*/{MARK}"))
    marks = [each for each in made if _safe(each.parent)]
    places = [root / ".venv", root / ".venv.old", *caches.glob("[0-9]*")]
    ours = [each for each in places if _of(each / MARK, root)]
    locks = [each.with_name(f"{each.name}.lock") for each in ours if each.suffix != ".old"]
    holders = list(_holders())
    tester = _user(ours, holders)  # has nothing open in what it tests with between two tests
    for what, paths in (
        ("simulated nodes", [demo_folder()]),
        ("runs on simulated nodes", runs),
        (_CACHE, [_test_cache()] * shared),
        (_TESTS, [each.parent for each in marks if _of(each, root)]),
        ("temporary files of programs that were killed", _abandoned(temporaries)),
        ("caches", [root / each for each in CACHES]),
        ("compiled Python", _compiled(root)),
        ("environment", [*ours, *locks]),
    ):
        real = tuple(path for path in paths if path.exists() and not path.is_symlink())
        if real:
            user = (tester if what in {_CACHE, _TESTS} else "") or _user(real, holders)
            yield Left(what, real, sum(map(size, real)), user)


def stays(*, shared: bool = False) -> Iterator[Left]:
    """What is the user's rather than the checkout's, and is not taken away.

    :param shared: what tests keep for all checkouts goes.
    """
    caches, state = kept("XDG_CACHE_HOME", "~/.cache"), state_dir()
    demo = state / "demo"
    old = ((demo / each) for each in ("nodes", "templates", "version"))
    others = (each for each in sorted(demo.glob("[0-9a-f]" * 12)) if each != demo_folder())
    for what, path in (
        ("results of builds", caches / "builds"),
        ("what BMCs said of themselves", caches / "registries"),
        ("virtual machines of vm.up", state / "lab"),
        *((_CACHE, each) for each in [_test_cache()] * (not shared)),
        *(("simulated nodes of an earlier version", each) for each in old),
        *(("simulated nodes of another checkout, or of none", each) for each in others),
    ):
        if path.exists():
            yield Left(what, (path,), size(path))
    runs = [each for each in state.glob("runs/[0-9]*") if not (each / DEMO).exists()]
    if runs:
        yield Left("runs on real nodes", (state / "runs",), sum(map(size, runs)))


def still(shown: Iterable[Left], now: Iterable[Left]) -> Iterator[Left]:
    """Of what was shown, what is there now, with who uses it now."""
    there = {each.what: each for each in now}
    for each in shown:
        if again := there.get(each.what):
            paths = tuple(path for path in again.paths if path in each.paths)
            yield replace(again, paths=paths, size=sum(map(size, paths)))


def take_away(left: Left) -> None:
    """Remove it; links are removed themselves, never what they lead to.

    :raises OSError: one of the paths cannot be removed, whole.
    """
    for path in left.paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as why:  # which may name but the last part
            raise OSError(why.errno, why.strerror, str(path)) from why


def size(path: Path) -> int:
    """Bytes on disk below a path; what has several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    places = [path]
    for at, folders, files in os.walk(path):
        places += [Path(at, name) for name in (*folders, *files)]
    for place in places:
        with suppress(OSError):  # gone since
            here = place.lstat()
            seen[here.st_dev, here.st_ino] = here.st_blocks * 512
    return sum(seen.values())


def _of(mark: Path, owner: Path) -> bool:
    """Whether a mark names this owner."""
    try:
        return mark.read_text().strip() == str(owner)
    except (OSError, ValueError):
        return False


def _compiled(root: Path) -> list[Path]:
    """The folders __pycache__ of our own files."""
    places = []
    for at, folders, _ in os.walk(root):
        places += [Path(at, each) for each in folders if each == "__pycache__"]
        folders[:] = [each for each in folders if each[0] != "." and each != "__pycache__"]
    return places


def _test_cache() -> Path:
    """Where tests keep things unless GDR_TEST_CACHE says where: that folder has another owner."""
    return kept("XDG_CACHE_HOME", "~/.cache").with_name("gdr-toolkit-tests")


def _safe(folder: Path) -> bool:
    """Whether it and what it lies in are our user's own folders: nobody else put them there."""
    try:
        told = [each.lstat() for each in (folder, folder.parent)]
    except OSError:  # gone since
        return False
    return all(stat.S_ISDIR(it.st_mode) and it.st_uid == os.geteuid() for it in told)


def _abandoned(temporaries: Iterable[Path]) -> list[Path]:
    """Files of ours that a day old program should have removed, and reports of bugs."""
    old = []
    for path in (each for own in temporaries for each in own.glob("gdr-*")):
        with suppress(OSError):  # gone since
            told = path.lstat()
            ours = told.st_uid == os.geteuid() and time.time() - told.st_mtime > _OLD_S
            if ours and _ABANDONED.fullmatch(path.name) and not _is_work(path):
                old.append(path)
    return old


def _is_work(path: Path) -> bool:
    """Whether it is a clone, or holds one."""
    return (path / "invokew").exists() or any(
        ".git" in (*folders, *files) for _, folders, files in os.walk(path)
    )


def _holders() -> Iterator[_Holder]:
    """Each other process, with what it was started with or has open; and mounts, of all views."""
    views, ourselves = set[Path](), _ourselves()
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            view = (process / "ns/mnt").readlink()
            if view not in views:
                lines = (process / "mountinfo").read_bytes().splitlines()
                views.add(view)
                yield "a mount", tuple(each for line in lines for each in _mounted(line))
        with suppress(OSError):
            if process.name not in ourselves:
                name = (process / "comm").read_text().strip()
                paths = (*_words(process), *_open(process))
                yield f"process {process.name} ({name})", paths


def _ourselves() -> set[str]:
    """The numbers of this process and of those that wait for it: shells, sudo, invokew."""
    number, seen = os.getpid(), set[str]()
    with suppress(OSError):  # somebody else's
        while number:
            seen.add(str(number))
            told = (PROC / str(number) / "stat").read_text().rpartition(")")[2]
            number = int(told.split()[1])
    return seen | {str(os.getppid())}


def _mounted(line: bytes) -> Iterator[str]:
    """From a line of mountinfo, where it is mounted, and an overlay's layers."""
    mount, _, source = line.partition(b" - ")
    yield _plain(mount.split(b" ")[4])
    for option in source.split(b" ")[-1].split(b","):
        if layers := _LAYER.fullmatch(_plain(option)):
            for layer in re.split(r"(?<!\\):+", layers[1]):
                yield os.path.realpath(layer.replace("\\:", ":"))


def _plain(text: bytes) -> str:
    """With the kernel's octal escapes undone: a blank is \\040."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda it: bytes([int(it[1], 8)]), text))


def _words(process: Path) -> Iterator[str]:
    """The paths that a process was started with; a link counts as itself and as its target."""
    cwd = Path("/")
    with suppress(OSError):  # somebody else's
        cwd = (process / "cwd").readlink()
    for word in os.fsdecode((process / "cmdline").read_bytes()).split("\0"):
        if "/" in word:
            path = cwd / word
            yield os.path.realpath(path)
            yield f"{os.path.realpath(path.parent)}/{path.name}"


def _open(process: Path) -> Iterator[str]:
    links = [process / "cwd", process / "exe"]
    with suppress(OSError):  # somebody else's, or ended
        links += (process / "fd").iterdir()
    for link in links:
        with suppress(OSError):  # closed since
            yield str(link.readlink())


def _user(paths: Iterable[Path], holders: Iterable[_Holder]) -> str:
    """Who uses one of the paths, or something below; "" for nobody."""
    names = [os.path.realpath(path) for path in paths]
    for who, held in holders:
        if any(each == name or each.startswith(f"{name}/") for each in held for name in names):
            return who
    return ""
