"""Who does the work on the hosts that a rollout begins: one thread a host."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from toolkit.errors import Outcome
from toolkit.hosts.host import Host
from toolkit.ssh.pool import attempt

T = TypeVar("T")


class HostWorkers(Protocol[T]):
    """Begins hosts, and hands over each one's outcome once."""

    def begin(self, host: Host) -> None:
        """Begin to work on the host; returns at once."""

    def next(self, limit_s: float) -> Outcome[T] | None:
        """An outcome that nobody has had yet; None where none comes within the limit."""


class Threads(HostWorkers[T]):
    """The hands of a real run. Daemons: a second Ctrl-C leaves them to their work."""

    def __init__(self, work: Callable[[Host], T]) -> None:
        self._work = work
        self._ended: queue.SimpleQueue[Outcome[T]] = queue.SimpleQueue()

    def begin(self, host: Host) -> None:
        def run() -> None:
            self._ended.put(attempt(host, self._work))

        threading.Thread(target=run, name=f"gdr-{host.name}", daemon=True).start()

    def next(self, limit_s: float) -> Outcome[T] | None:
        try:
            return self._ended.get(timeout=limit_s)
        except queue.Empty:
            return None
