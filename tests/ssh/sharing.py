"""A run over hosts that processes share, in a process of one thread as the program has it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from toolkit.errors import LoginError, Outcome
from toolkit.hosts.host import Host
from toolkit.progress import Silent
from toolkit.ssh.pool import Interrupted
from toolkit.ssh.shards import run_apart


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
    forks: bool = True,
) -> None:
    """Sends the outcomes, and the number of this process once it has no other."""
    if not forks:
        os.fork = _none  # as where no memory is left
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


def _none() -> int:
    raise BlockingIOError
