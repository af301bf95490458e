"""Audit log: a hash chain over the rows of a journal, so that a changed one is found.

    chain    one row a row that was written: which, and the SHA-256 of the digest before with it

Rows are only added, in the transaction that writes what they vouch for: a crash takes both
back. Who can write to the file can make all of it anew; the last digest, which goes to the
system's log as a run ends, tells of that.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

TABLE = (
    "CREATE TABLE chain (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,"
    " row INTEGER NOT NULL, digest TEXT NOT NULL)"
)
# What is vouched for of each kind of row, by its number.
_ROWS = {
    "run": "SELECT rowid, verb, who, began, reason, words, undoes FROM run",
    "host": "SELECT at, name, batch FROM host",
    "event": "SELECT seq, time, host, phase, boot_id, detail FROM event",
    "turn": "SELECT seq, who, began FROM turn",
    "end": "SELECT seq, ended, how, code FROM turn WHERE ended IS NOT NULL",
}
_NUMBER = {"run": "rowid", "host": "at", "event": "seq", "turn": "seq", "end": "seq"}
_NAMES = {"run": "the row of the run", "end": "the end of turn"}
Row = tuple[object, ...]


def vouch(base: sqlite3.Connection, kind: str, number: int) -> None:
    """Add a link for a row that was just written, within the same transaction."""
    if not chained(base):
        return  # a journal that an older version began
    words = f"{_ROWS[kind]} {'AND' if kind == 'end' else 'WHERE'} {_NUMBER[kind]} = ?"
    row = base.execute(words, (number,)).fetchone()
    digest = _link(head(base), kind, row)
    base.execute("INSERT INTO chain (kind, row, digest) VALUES (?, ?, ?)", (kind, number, digest))


def chained(base: sqlite3.Connection) -> bool:
    words = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'chain'"
    return base.execute(words).fetchone() is not None


def head(base: sqlite3.Connection) -> str:
    """The last digest; "" where nothing is vouched for."""
    last = base.execute("SELECT digest FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return str(last[0]) if last else ""


def broken(base: sqlite3.Connection) -> list[str]:
    """What is not as it was written, a clause each: changed, removed, added, in another order."""
    rows = {kind: {row[0]: row for row in base.execute(words)} for kind, words in _ROWS.items()}
    links = base.execute("SELECT seq, kind, row, digest FROM chain ORDER BY seq").fetchall()
    found: list[str] = []
    before, met = "", 0
    vouched: set[tuple[str, int]] = set()
    for seq, kind, number, digest in links:
        if seq != met + 1:
            found.append(f"links {met + 1} to {seq - 1} of the chain are gone")
        row = rows.get(kind, {}).get(number)
        if row is None:
            found.append(f"{_named(kind, number)} is gone")
        elif seq == met + 1 and _link(before, kind, row) != digest:
            found.append(f"{_named(kind, number)} is not as it was written")
        vouched.add((kind, number))
        before, met = digest, seq
    made = base.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chain'").fetchone()
    if made and made[0] > met:
        found.append(f"the last {made[0] - met} links of the chain are gone")
    found += [
        f"{_named(kind, number)} was added by other hands"
        for kind, each in rows.items()
        for number in each
        if (kind, number) not in vouched
    ]
    return found


def cut_off(file: Path) -> bool:
    """Whether a write was under way as its writer died: SQLite takes it back on opening."""
    beside = file.with_name(f"{file.name}-journal")
    return beside.is_file() and beside.stat().st_size > 0


def _named(kind: str, number: int) -> str:
    return _NAMES[kind] if kind == "run" else f"{_NAMES.get(kind, kind)} {number}"


def _link(before: str, kind: str, row: Row) -> str:
    # What JSON has no word for, SQLite's blobs, as Python shows it; floats as text, too.
    plain = [each if each is None or isinstance(each, int | str) else str(each) for each in row]
    return hashlib.sha256(json.dumps([before, kind, *plain]).encode()).hexdigest()
