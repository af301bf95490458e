"""A run over hosts that processes share, in a process of one thread as the program has it."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from toolkit.errors import LoginError, Outcome
from toolkit.hosts.host import Host
from toolkit.progress import Silent
from toolkit.ssh.pool import Interrupted
from toolkit.ssh.shards import run_apart

LONG = b"\xff" + b"\0\0\0\4" + b"nope" + b"\1" * 999  # at its second byte a message begins


class Stopping(Silent):
    """Ctrl-C once so many were begun."""

    def __init__(self, after: int) -> None:
        self._after = after

    def note(self, host: str, text: str) -> None:
        self._after -= text == "begun"
        if not self._after:
            os.kill(os.getpid(), signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Deeds:
    """What a host's name says is done for it."""

    log: Path
    at_once: int

    def do(self, host: Host) -> int:
        kind = host.name.rstrip("0123456789")
        if kind == "bad":
            raise LoginError(f"{host.name}: no")
        if kind == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "once":
            self._add(f"{host.name} ")
        if kind == "busy":  # until as many are as may be
            self._add("(")
            while self.log.read_text().count("(") < self.at_once:
                time.sleep(0.01)
            self._add(")")
        if kind == "long":
            return int.from_bytes(LONG, "little")
        time.sleep({"endless": 1000, "slow": 0.05}.get(kind, 0))
        return os.getpid()

    def _add(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(what)


def share(
    pipe: Connection,
    names: Sequence[str],
    deeds: Deeds,
    *,
    max_fail: str = "",
    stop_after: int = -1,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Sends the outcomes, and the number of this process once it has no other.

    :param before: is called in it, and makes it one of the processes below.
    """
    before()
    hosts, progress = [Host(name) for name in names], Stopping(stop_after)
    try:
        found: list[Outcome[int]] = run_apart(
            2, hosts, deeds.do, fanout=deeds.at_once, progress=progress, max_fail=max_fail
        )
    except Interrupted as why:
        found = list(why.outcomes)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pipe.send((found, os.getpid()))


def no_memory() -> None:
    def fork() -> int:
        raise BlockingIOError

    os.fork = fork


def no_disk() -> None:
    def temporary(**_: object) -> NoReturn:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    tempfile.TemporaryFile = temporary  # type: ignore[assignment] # of any kind


def children_ignored() -> None:
    """As a shell without a heed of them, or a supervisor, hands it on."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def stopped_at_a_fork() -> None:
    real = os.fork

    def fork() -> int:
        pid = real()
        if pid:
            os.kill(os.getpid(), signal.SIGINT)
        return pid

    os.fork = fork


def stopped_amid_a_message() -> None:
    """Ctrl-C where what is left of it has the look of a message, and is none."""
    real = Connection._recv  # type: ignore[attr-defined] # what it reads a message by

    def recv(pipe: Connection, size: int) -> object:
        if size < len(LONG):
            return real(pipe, size)
        Connection._recv = real  # type: ignore[attr-defined] # once
        while bytes(real(pipe, 1).getvalue()) != b"\xff":
            pass
        raise KeyboardInterrupt

    Connection._recv = recv  # type: ignore[attr-defined] # see above
