"""The books of the budget, on disk: one SQLite file for all runs of a state folder.

    share     a node, the run that it counts for, why, since when
    told      the most that a run was told may be unavailable; no row where it was told nothing

Everything is asked and written within a *moment*, which one controller at a time has, so that
two that begin at once cannot both take the last share. As with journals, what was written is
on the disk when the moment has ended.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from toolkit.errors import ExitCode, ToolkitError
from toolkit.safe_file import private_file, private_folder

FILE = ".budget.sqlite"  # as .claims: no folder of a run, and listed before them
_BUSY_S = 30.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS share (node TEXT NOT NULL, run TEXT NOT NULL, held TEXT NOT NULL,"
    " why TEXT NOT NULL, since TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (node, run))",
    "CREATE TABLE IF NOT EXISTS told (run TEXT PRIMARY KEY, most INTEGER)",
)


class BudgetError(ToolkitError):
    """The books of the budget cannot be read or written; nothing was begun."""

    exit_code = ExitCode.STOPPED


class BudgetRow(Struct, frozen=True):
    """One share, in the words of the file."""

    node: str
    run: str
    held: str
    why: str
    since: str  # ISO 8601, UTC
    count: int = 1


class Moment:
    """What may be asked and written while nobody else can."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base

    def rows(self) -> list[BudgetRow]:
        words = "SELECT node, run, held, why, since, count FROM share ORDER BY since, node"
        return [BudgetRow(*row) for row in self._base.execute(words)]

    def told(self) -> dict[str, int | None]:
        """By run, the most that it was told; None for no limit."""
        return dict(self._base.execute("SELECT run, most FROM told ORDER BY run"))

    def tell(self, run: str, most: int | None) -> None:
        self._base.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (run, most))

    def put(self, row: BudgetRow) -> None:
        """One share, in place of what there was of the node and run."""
        values = (row.node, row.run, row.held, row.why, row.since, row.count)
        self._base.execute("INSERT OR REPLACE INTO share VALUES (?, ?, ?, ?, ?, ?)", values)

    def drop(self, node: str, run: str) -> None:
        self._base.execute("DELETE FROM share WHERE node = ? AND run = ?", (node, run))

    def forget(self, run: str) -> None:
        """The run was told nothing, any more."""
        self._base.execute("DELETE FROM told WHERE run = ?", (run,))


class Book:
    """The file, open. May be used from many threads, one at a time."""

    def __init__(self, runs: Path) -> None:
        """:raises BudgetError: it cannot be made or opened."""
        self.file = runs / FILE
        self._lock = threading.Lock()
        try:
            private_folder(runs)
            private_file(self.file)
            self._base = sqlite3.connect(
                self.file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            # As the journals: home folders lie on NFS, where WAL is not safe.
            self._base.execute("PRAGMA journal_mode = DELETE")
            self._base.execute("PRAGMA synchronous = EXTRA")
            for table in _TABLES:
                self._base.execute(table)
        except (sqlite3.Error, OSError) as why:
            raise _trouble(self.file, str(why)) from why

    def close(self) -> None:
        with self._lock:
            self._base.close()

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        """Alone with the books; all that was written stands at its end, or nothing.

        :raises BudgetError: they cannot be read or written, or another holds them too long.
        """
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
                yield Moment(self._base)
                self._base.execute("COMMIT")
            except sqlite3.Error as why:
                raise _trouble(self.file, str(why)) from why
            finally:
                with suppress(sqlite3.Error):
                    if self._base.in_transaction:
                        self._base.execute("ROLLBACK")


def _trouble(file: Path, why: str) -> BudgetError:
    return BudgetError(
        f"the books of the budget {file} cannot be used: {why}",
        hint="nothing was begun; make room, or mend the file, or see who holds it: fuser",
    )
