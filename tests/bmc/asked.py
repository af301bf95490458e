"""A request as it came, an answer as it goes, and the log of both."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bmc.rules import Resource

WRITES = frozenset({"POST", "PATCH", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; the names of its headers are small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None  # what the JSON says; None for none

    @property
    def login(self) -> bool:
        """Whether it opens or closes a session, and so changes nothing of the machine."""
        return "/SessionService/" in self.path


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Resource | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log."""

    asked: Asked
    status: int  # 0: the connection was cut

    def __str__(self) -> str:
        return f"{self.asked.method} {self.asked.path} {self.status}"


class Log:
    """Every request that a BMC has had, in order; read it while nobody asks any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._connections = 0
        self.most_connections = 0  # open at one time

    def add(self, asked: Asked, status: int) -> None:
        with self._lock:
            self._entries.append(Entry(asked, status))

    def connected(self, change: int) -> int:
        """Count a connection in (1) or out (-1); returns how many there are."""
        with self._lock:
            self._connections += change
            self.most_connections = max(self.most_connections, self._connections)
            return self._connections

    @property
    def entries(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._entries)

    def of(self, method: str, path: str = "") -> tuple[Asked, ...]:
        """The requests of one method whose path holds ``path``."""
        found = (entry.asked for entry in self.entries if entry.asked.method == method)
        return tuple(each for each in found if path in each.path)

    @property
    def writes(self) -> tuple[Asked, ...]:
        """All that would change the machine; sessions do not."""
        asked = (entry.asked for entry in self.entries)
        return tuple(each for each in asked if each.method in WRITES and not each.login)
