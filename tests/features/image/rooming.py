"""Rooms for images without a right to mount: tools of our own stand in for those that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit.features.image.io import namespace
from toolkit.features.image.io.namespace import MountRoom
from toolkit.safe_file import hold

_LOG = 'printf "%s\\n" "$(basename "$0") $*" >>"$ROOMING/log"\n'
_TOOLS = {
    "unshare": 'while [ $# -gt 0 ] && [ "$1" != sh ]; do shift; done\nexec "$@"\n',
    # What ends all processes would end those of the tests.
    "nsenter": 'case "$*" in *kill*) exit 0 ;; esac\n'
    'while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done\n[ $# -gt 0 ] || exit 64\n'
    'shift\nexec "$@"\n',
    "setpriv": 'shift 2\nexec "$@"\n',
    "chroot": 'shift\nexec "$@"\n',
    "mount": "",
    "umount": "",
    "sync": "",
}


class Tools:
    """The folder of those tools, and what they were called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, text: str) -> None:
        tool = self.folder / "bin" / name
        tool.write_text(f"#!/bin/sh\n{_LOG}{text}")
        tool.chmod(0o755)

    @property
    def log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().split("\n")[:-1] if log.exists() else []

    def calls(self, name: str) -> list[str]:
        return [line for line in self.log if line.partition(" ")[0] == name]


def lay_tools(folder: Path, patch: pytest.MonkeyPatch) -> Tools:
    (folder / "bin").mkdir(parents=True)
    tools = Tools(folder)
    for name, text in _TOOLS.items():
        tools.add(name, text)
    path = f"{folder / 'bin'}:{os.environ['PATH']}:{namespace.PATH}"
    patch.setenv("ROOMING", str(folder))
    patch.setenv("PATH", path)
    patch.setitem(namespace._OUTSIDE, "PATH", path)
    patch.setitem(namespace._OUTSIDE, "ROOMING", str(folder))
    # It means every process that it may signal: in here, those would be the tests' as well.
    patch.setattr(MountRoom, "still", lambda _: None)
    return tools


@contextmanager
def opened(tools: Tools, name: str = "image") -> Iterator[MountRoom]:
    lock = hold(tools.folder / "lock")
    assert lock is not None
    with lock:
        room = MountRoom.open(name, lock.descriptor)
        try:
            yield room
        finally:
            room.close()
