"""What the cache of builds has, and what was removed from it.

The schema of the document is docs/build-cached.schema.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.report.document import Json
from toolkit.report.table import clean, columns

SCHEMA = "gdr-toolkit/build-cached/1"
_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class CachedRow:
    """One entry of the cache."""

    digest: str
    package: str  # "" where its manifest cannot be read
    version: str
    kernel: str  # kernel release
    used: float  # seconds since 1970
    size: int  # bytes


def listing(rows: Sequence[CachedRow], now: float) -> str:
    """A line an entry, the last used first, and one that counts.

    :param now: seconds since 1970.
    """
    if not rows:
        return "the cache is empty"
    head = ("digest", "package", "kernel", "size", "last used")
    table = columns([head, *(_cells(row, now) for row in rows)])
    return "\n".join([*table, "", f"{_entries(rows)}, {_size(sum(r.size for r in rows))}"])


def pruned(rows: Sequence[CachedRow]) -> str:
    """What was removed."""
    return f"removed: {_entries(rows)}, {_size(sum(row.size for row in rows))}"


def _cells(row: CachedRow, now: float) -> tuple[str, ...]:
    if not row.package:
        return (row.digest[:12], "cannot be read", "-", _size(row.size), "-")
    days = int(max(0.0, now - row.used) // _DAY_S)
    used = "today" if days == 0 else f"{days} day{'' if days == 1 else 's'} ago"
    package = clean(f"{row.package}/{row.version}")
    return (row.digest[:12], package, clean(row.kernel), _size(row.size), used)


def cached_document(
    rows: Sequence[CachedRow], folder: str, when: datetime, *, removed: bool = False
) -> dict[str, Json]:
    """The same for machines; ``when`` in any zone, written in UTC."""
    entries: list[Json] = [
        {
            "digest": row.digest,
            "package": row.package,
            "version": row.version,
            "kernel": row.kernel,
            "size": row.size,
            "used": int(row.used),
        }
        for row in rows
    ]
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "cache": folder,
        "removed": removed,
        "entries": entries,
    }


def _entries(rows: Sequence[CachedRow]) -> str:
    return f"{len(rows)} build{'' if len(rows) == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"
