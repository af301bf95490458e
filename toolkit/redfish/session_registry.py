"""Every session that is open on any BMC, so that each is closed whichever way the process ends.

BMCs have few sessions, and keep one that nobody closed for minutes. On Ctrl-C the threads that
read them are left alone; so whoever owns the run closes what they had opened.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Protocol

_PATIENCE_S = 5.0  # for all of them together, on the way out


class OpenSession(Protocol):
    """What is open: a Bmc."""

    def slam(self) -> None:
        """End what it waits for, and log out over a connection of its own."""


class SessionRegistry:
    """As a block: whichever way it ends, no session is left. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._moving: set[OpenSession] = set()
        self._open: set[OpenSession] = set()
        self._shut = False

    @contextlib.contextmanager
    def entering(self, door: OpenSession) -> Iterator[None]:
        """A login is under way: until it is through, nobody knows how to undo it.

        :raises KeyboardInterrupt: the run is ending; no further session is opened.
        """
        with self._lock:
            if self._shut:
                raise KeyboardInterrupt
            self._moving.add(door)
        try:
            yield
        except BaseException:
            self._moved(door, opened=False)
            raise
        self._moved(door, opened=True)

    @contextlib.contextmanager
    def leaving(self, door: OpenSession) -> Iterator[None]:
        """A logout is under way: it is waited for, as a login is."""
        with self._lock:
            self._open.discard(door)
            self._moving.add(door)
        try:
            yield
        finally:
            self._moved(door, opened=False)

    def __enter__(self) -> SessionRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; within seconds, whatever BMCs do meanwhile."""
        end = time.monotonic() + _PATIENCE_S
        with self._lock:
            self._shut = True
            # A login that is under way would leave a session that nobody knows of; a logout, one
            # that nobody else would close.
            self._lock.wait_for(lambda: not self._moving, timeout=_PATIENCE_S / 2)
            doors = [*self._open]
            self._open.clear()
        threads = [threading.Thread(target=each.slam, daemon=True) for each in doors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0.1))

    def _moved(self, door: OpenSession, *, opened: bool) -> None:
        with self._lock:
            self._moving.discard(door)
            if opened:
                self._open.add(door)
            self._lock.notify_all()
