"""Where the files are that are not Python: beside the package in a checkout, inside it in a wheel.

What lies inside the package in both is found beside the module that reads it. And where the
user has ours, who may have no home and no name: a number is enough for the kernel.
"""

from __future__ import annotations

import functools
import getpass
import os
import pwd
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from toolkit.errors import ToolkitError, UsageError

PACKAGE = Path(__file__).resolve().parent
_MAINS: Mapping[tuple[str, ...], str] = {
    ("cli", "__main__.py"): "toolkit.cli",
    ("gdr_toolkit", "__main__.py"): "gdr_toolkit",
}


def templates(package: Path = PACKAGE) -> Path:
    """The folder of templates for what lands on nodes.

    :raises ToolkitError: when the installation lacks it.
    """
    return _folder("templates", package)


def playbooks(package: Path = PACKAGE) -> Path:
    """The folder of Ansible playbooks over our bundles.

    :raises ToolkitError: when the installation lacks it.
    """
    return _folder("playbooks", package)


def kept(variable: str, usual: str) -> Path:
    """The user's folder of ours, by the XDG base directory specification; it need not be there.

    Without a home that can be used it is below a folder of the user's own among temporary files,
    and standard error says so, once.

    :param variable: names another one in the environment, such as XDG_STATE_HOME.
    :param usual: where it is without that; begins with ~/.
    :raises UsageError: nowhere can anything be kept.
    """
    base = os.environ.get(variable) or usual
    if base.startswith("~/"):
        return _in_home(f"{base[2:]}/gdr-toolkit")
    try:
        return Path(base).expanduser() / "gdr-toolkit"
    except RuntimeError as why:  # of expanduser
        raise UsageError(
            f"{variable}={base}: this user has no home folder",
            hint="name a folder that can be written",
        ) from why


def _in_home(path: str) -> Path:
    troubles = []
    for name, home in _homes():
        why = _unusable(home, home / path)
        if not why:
            break
        troubles.append(f"{name} {why}")
    else:
        home = _temporary_home()
        troubles = troubles or [f"user {os.geteuid()} has no home and HOME is not set"]
    if troubles:
        _say(f"note: {', '.join(troubles)}; what is kept goes below {home}")
    return home / path


def _homes() -> Iterator[tuple[str, Path]]:
    """How the user's home is told, and where it is: HOME goes first, as everywhere."""
    told = os.environ.get("HOME", "")
    if told:
        yield f"HOME={told}", Path(told)
    try:
        known = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # as in many containers
        return
    if known not in {"", told}:
        yield f"the home {known}", Path(known)


def _unusable(home: Path, place: Path) -> str:
    """Why nothing of ours goes there; "" where it may."""
    try:
        about = home.stat()
    except OSError as why:
        return f"cannot be used ({why.strerror})"
    if not (home.is_absolute() and stat.S_ISDIR(about.st_mode)):
        return "is no folder"
    if not _is_home(about, os.geteuid()):
        return f"is not this user's (it is of user {about.st_uid})"
    there = next(each for each in (place, *place.parents) if os.path.lexists(each))
    if there == place or os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        return ""
    return f"cannot be used ({there} cannot be written)"


def _is_home(folder: os.stat_result, user: int) -> bool:
    """Whether it is the user's, or root's and given by a group, as in containers.

    In one that all may write, what lies there may be anybody's.
    """
    given = folder.st_uid == 0 and not folder.st_mode & stat.S_IWOTH
    return folder.st_uid == user or given


def _temporary_home() -> Path:
    """A folder of the user's own among temporary files, where nobody else can write or look.

    :raises UsageError: there is none, or somebody else was there first.
    """
    hint = "set HOME, or XDG_STATE_HOME and XDG_CACHE_HOME, to a folder that can be written"
    try:
        folder = Path(tempfile.gettempdir(), f"gdr-toolkit-{os.geteuid()}").absolute()
        if _anybodys(folder.parent.stat(), os.geteuid()):
            raise UsageError(f"{folder.parent}: others could put another folder there", hint=hint)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        about = folder.lstat()
    except OSError as why:
        raise UsageError(f"no home, and no temporary folder: {why}", hint=hint) from why
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise UsageError(f"{folder} is somebody else's", hint=hint)
    if about.st_mode & 0o077:
        raise UsageError(f"{folder} is open to others", hint=f"chmod 700 {folder}, or remove it")
    return folder


def _anybodys(folder: os.stat_result, user: int) -> bool:
    """Whether somebody else may put another folder in the place of ours in it."""
    if folder.st_mode & stat.S_ISVTX:
        return False
    shared = folder.st_mode & stat.S_IWGRP and folder.st_uid != user
    return bool(folder.st_mode & stat.S_IWOTH or shared)


@functools.cache
def _say(note: str) -> None:
    print(note, file=sys.stderr)


def from_home(path: str) -> Path:
    """The path with the user's home for its ~, which stays where nobody knows of a home."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 # Path's own raises there


def user_name() -> str:
    """The user's name; his number where no name goes with it, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError: before Python 3.13
        return str(os.geteuid())


def _folder(name: str, package: Path) -> Path:
    # Inside first: beside an installed package lie other people's folders.
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise ToolkitError(
        f"this installation has no folder {name}",
        hint="install it again: pip install --force-reinstall, and the wheel's file",
    )


def commit() -> str:
    """The commit that this is of, of a checkout or as it was built; "" where that is not known."""
    with suppress(OSError):
        return PACKAGE.joinpath("commit.txt").read_text("utf-8").strip()
    if not (PACKAGE.parent / ".git").exists():
        return ""
    import subprocess  # noqa: PLC0415 only they pay for it

    words = ("git", "-C", str(PACKAGE.parent), "describe", "--always", "--dirty", "--exclude=*")
    with suppress(OSError):
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def program() -> str:
    """How this program was called, as far as one who reads it can call it again from here."""
    own = Path(sys.argv[0])
    if own.name == "gdr":
        return "gdr"
    if own.parts[-2:] in _MAINS:
        return f"python -m {_MAINS[own.parts[-2:]]}"
    if own.suffix == ".pyz":
        return f"{'' if '/' in sys.argv[0] else 'python3 '}{shlex.quote(sys.argv[0])}"
    root = PACKAGE.parent
    if not (root / "invokew").is_file():
        return "invoke"  # tasks of their own, over an installed package
    if Path.cwd() == root:
        return "./invokew"
    return shlex.quote(min(os.path.relpath(root / "invokew"), str(root / "invokew"), key=len))


def called_within(verb: str) -> str:
    """The collection of one's own from which a verb was called: "ops.gdr." of ops.gdr.doctor."""
    typed = (word for word in sys.argv[1:] if word.rpartition(".")[2] == verb)
    name = next(typed, "")
    return name[: len(name) - len(verb)]


def as_called(text: str) -> str:
    """Words with a command of ours, as it is called here: they are written for a checkout."""
    if "./invokew" not in text or (PACKAGE.parent / "invokew").is_file():
        return text
    return text.replace("./invokew", program())
