"""What a run does on each host, on disk before it is done: one SQLite file a run.

    run      one row: who, what for, in which words
    host     the hosts in their order, each with its batch
    event    what was about to be done or how it ended, in the order in which it was written
    turn     one row a controller that was at work on the run: who, since when, how it ended
    chain    what tells of a row that was changed since; see chain.py

Every write is on the disk when the call returns. Rows are only added. A journal whose writer
was killed is opened for writing even to be read: SQLite must first take back what was half
written, and cannot do that in a file that it may not touch.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from toolkit.errors import ExitCode, ToolkitError, UsageError
from toolkit.rollout import chain
from toolkit.safe_file import private_file, private_folder

FILE = "journal.sqlite"
VERSION = 1
_BUSY_S = 30.0
_TABLES = (
    "CREATE TABLE run (verb TEXT, who TEXT, began TEXT, reason TEXT, words TEXT, undoes TEXT)",
    "CREATE TABLE host (at INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, batch INTEGER NOT NULL)",
    "CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,"
    " host TEXT NOT NULL, phase TEXT NOT NULL, boot_id TEXT NOT NULL, detail TEXT NOT NULL)",
    "CREATE TABLE turn (seq INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL,"
    " began TEXT NOT NULL, ended TEXT, how TEXT, code INTEGER)",
    "CREATE INDEX event_of ON event (host)",
    chain.TABLE,
    f"PRAGMA user_version = {VERSION}",
)
T = TypeVar("T")


class JournalError(ToolkitError):
    """The journal cannot be written or read; what it should have told of was not begun."""

    exit_code = ExitCode.STOPPED


class About(Struct, frozen=True):
    """The one row of a run."""

    verb: str
    who: str  # "operator@machine"
    began: str  # ISO 8601, UTC
    reason: str = ""
    words: str = ""  # what was said, as JSON
    undoes: str = ""  # the run that this one takes back


class Event(Struct, frozen=True):
    """One row of what happened."""

    host: str
    phase: str  # a word of change.rollout.Phase, or "run" for a run's name on the node
    time: str = ""  # ISO 8601, UTC
    boot_id: str = ""
    detail: str = ""


class Turn(Struct, frozen=True):
    """One controller's time with the run; how and code are None while it lasts, or was killed."""

    who: str
    began: str
    ended: str | None = None
    how: str | None = None
    code: int | None = None


class Story(Struct, frozen=True):
    """All that a journal has."""

    about: About
    batches: tuple[tuple[str, ...], ...]
    events: tuple[Event, ...]
    turns: tuple[Turn, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(host for batch in self.batches for host in batch)


def by_host(events: Iterable[Event]) -> dict[str, list[Event]]:
    """The events of each host, oldest first: to ask host by host would take the square of them."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.host, []).append(event)
    return found


def stamp() -> str:
    """Now, as journals write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Journal:
    """One run's journal, open for writing. May be called from many threads."""

    def __init__(self, file: Path, base: sqlite3.Connection) -> None:
        self.file = file
        self._base = base
        self._lock = threading.Lock()
        self._turn = 0

    @classmethod
    def create(cls, folder: Path, about: About) -> Journal:
        """A new journal in the folder, which is made where it is missing.

        :raises JournalError: it cannot be written.
        """
        file = folder / FILE
        try:
            private_folder(folder)
            private_file(file)
        except OSError as why:
            raise _trouble(file, why.strerror or str(why)) from why
        made = cls(file, _connect(file, "rwc"))
        row = (about.verb, about.who, about.began, about.reason, about.words, about.undoes)

        def begin(base: sqlite3.Connection) -> sqlite3.Cursor:
            for table in _TABLES:
                base.execute(table)
            return _added(base, "run", "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?)", row)

        made._do(begin)
        return made

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """The journal of an earlier run; what a killed writer had half written is taken back.

        :raises UsageError: there is no such run.
        :raises JournalError: it is damaged, or of a later version of ours.
        """
        file = folder / FILE
        if not file.is_file():
            raise UsageError(
                f"{folder.name}: no journal of such a run", hint="runs lists those that there are"
            )
        opened = cls(file, _connect(file, "rw"))
        ((version,),) = opened._rows("PRAGMA user_version")
        if version != VERSION:
            opened.close()
            raise JournalError(
                f"{file}: is of version {version}, and this toolkit writes {VERSION}",
                hint="read it with the version that wrote it",
            )
        return opened

    def close(self) -> None:
        with self._lock:
            self._base.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take_turn(self, who: str) -> None:
        """A controller begins to work on the run. :raises JournalError: cannot be written."""
        row = (who, stamp())
        words = "INSERT INTO turn (who, began) VALUES (?, ?)"
        ended = self._do(lambda base: _added(base, "turn", words, row))
        self._turn = ended.lastrowid or 0

    def end_turn(self, how: str, code: int) -> None:
        """It is through: ``how`` in a clause. :raises JournalError: cannot be written."""
        row = (stamp(), how, code, self._turn)
        words = "UPDATE turn SET ended = ?, how = ?, code = ? WHERE seq = ?"

        def end(base: sqlite3.Connection) -> sqlite3.Cursor:
            ended = base.execute(words, row)
            chain.vouch(base, "end", self._turn)
            return ended

        self._do(end)

    def add_batches(self, batches: Iterable[Iterable[str]], *, first: int = 0) -> None:
        """The hosts, in their order, numbered from ``first``.

        :raises JournalError: cannot be written.
        """
        rows = [(name, batch) for batch, names in enumerate(batches, first) for name in names]
        self._add("host", "INSERT INTO host (name, batch) VALUES (?, ?)", rows)

    def add(self, *events: Event) -> None:
        """Write events, all or none. :raises JournalError: cannot be written."""
        now = stamp()
        rows = [(e.time or now, e.host, e.phase, e.boot_id, e.detail) for e in events]
        words = "INSERT INTO event (time, host, phase, boot_id, detail) VALUES (?, ?, ?, ?, ?)"
        self._add("event", words, rows)

    def _add(self, kind: str, words: str, rows: Sequence[tuple[str | int, ...]]) -> None:
        def add(base: sqlite3.Connection) -> None:
            for row in rows:
                _added(base, kind, words, row)

        self._do(add)

    def head(self) -> str:
        """The digest that vouches for all of it. :raises JournalError: it is damaged."""
        return self._do(lambda base: chain.head(base) if chain.chained(base) else "")

    def broken(self) -> list[str] | None:
        """What is not as it was written; None for a journal of a version that vouched for nothing.

        :raises JournalError: it is damaged.
        """
        return self._do(lambda base: chain.broken(base) if chain.chained(base) else None)

    def of(self, host: str) -> tuple[Event, ...]:
        """One host's events, oldest first. :raises JournalError: it is damaged."""
        words = "SELECT host, phase, time, boot_id, detail FROM event WHERE host = ? ORDER BY seq"
        return tuple(Event(*map(str, row)) for row in self._rows(words, host))

    def story(self) -> Story:
        """All of it. :raises JournalError: it is damaged."""
        abouts = self._rows("SELECT verb, who, began, reason, words, undoes FROM run")
        if not abouts:
            raise JournalError(f"{self.file}: tells of no run", hint="its disk may have been full")
        hosts = self._rows("SELECT name, batch FROM host ORDER BY at")
        if None in abouts[0]:
            raise damaged(self.file, ValueError("the row of the run lacks a value"))
        batches: dict[object, list[str]] = {}
        for name, batch in hosts:
            batches.setdefault(batch, []).append(str(name))
        words = "SELECT host, phase, time, boot_id, detail FROM event ORDER BY seq"
        events = tuple(Event(*map(str, row)) for row in self._rows(words))
        turns = self._rows("SELECT who, began, ended, how, code FROM turn ORDER BY seq")
        try:
            rows = tuple(_turn(row) for row in turns)
        except ValueError as why:
            raise damaged(self.file, why) from why
        return Story(
            About(*map(str, abouts[0])),
            tuple(tuple(names) for names in batches.values()),
            events,
            rows,
        )

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
                ended = work(self._base)
                self._base.execute("COMMIT")
                return ended
            except sqlite3.Error as why:
                with suppress(sqlite3.Error):
                    self._base.execute("ROLLBACK")
                raise _trouble(self.file, str(why)) from why

    def _rows(self, words: str, *values: str) -> list[tuple[object, ...]]:
        with self._lock:
            try:
                return self._base.execute(words, values).fetchall()
            except sqlite3.Error as why:
                raise _trouble(self.file, str(why)) from why


def _added(
    base: sqlite3.Connection, kind: str, words: str, row: tuple[str | int, ...]
) -> sqlite3.Cursor:
    """Write one row, and vouch for it."""
    made = base.execute(words, row)
    chain.vouch(base, kind, made.lastrowid or 0)
    return made


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    """:param mode: rw, or rwc to make it."""
    try:
        base = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,  # transactions begin where we say so
            check_same_thread=False,  # one at a time, by our own lock
        )
        # A rollback journal, not WAL: home folders lie on NFS, where WAL is not safe.
        base.execute("PRAGMA journal_mode = DELETE")
        base.execute("PRAGMA synchronous = EXTRA")
    except sqlite3.Error as why:
        raise _trouble(file, str(why)) from why
    return base


def _turn(row: tuple[object, ...]) -> Turn:
    who, began, ended, how, code = row
    return Turn(
        str(who),
        str(began),
        None if ended is None else str(ended),
        None if how is None else str(how),
        int(str(code)) if code is not None else None,
    )


def damaged(file: Path, why: Exception) -> JournalError:
    """Some row of it is none that we write."""
    return JournalError(
        f"the journal {file} holds a row that cannot be read: {why}",
        hint="the other runs are as they were; keep the file for a bug report",
    )


def _trouble(file: Path, why: str) -> JournalError:
    return JournalError(
        f"the journal {file} cannot be used: {why}",
        hint="make room, or mend the file; then go on with --resume " + file.parent.name,
    )
