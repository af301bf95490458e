"""Single lines of reports, each a row: the cache's entries, what is in the way of a reload."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolkit.built.io.store import StoreRow
from toolkit.features.builds.show import listing, pruned
from toolkit.features.reload.cli import _obstacle
from toolkit.features.reload.plan_obstacles import ObstacleKind, ReloadObstacle
from toolkit.report.table import Painter
from toolkit.rollout.runs import RunFolder

NOW, DAY = 1_800_000_000.0, 86_400
KERNEL = "6.1.0-49-amd64"


def row(package: str = "nvidia", *, age: float = 0.0, size: int = 5000) -> StoreRow:
    about = (("package", package), ("version", "535"), ("kernel", KERNEL))
    return StoreRow("0123456789abcdef", about, NOW - age, size)


@pytest.mark.parametrize(
    ("entry", "cells"),
    [
        (row(), ["nvidia/535", KERNEL, "5.0 kB", "today"]),
        (row(age=DAY - 1), ["nvidia/535", KERNEL, "5.0 kB", "today"]),
        (row(age=DAY), ["nvidia/535", KERNEL, "5.0 kB", "1 day ago"]),
        (row(age=2.5 * DAY), ["nvidia/535", KERNEL, "5.0 kB", "2 days ago"]),
        (row(age=-DAY), ["nvidia/535", KERNEL, "5.0 kB", "today"]),  # a clock that went back
        (row(""), ["cannot be read", "-", "5.0 kB", "-"]),
        (row(size=99_999), ["nvidia/535", KERNEL, "100.0 kB", "today"]),
        (row(size=100_000), ["nvidia/535", KERNEL, "0.1 MB", "today"]),
    ],
)
def test_an_entry_of_the_cache(entry: StoreRow, cells: list[str]) -> None:
    head, line, empty, count = listing([entry], NOW).split("\n")
    assert head.split() == ["digest", "package", "kernel", "size", "last", "used"]
    assert line.split("  ")[0] == "0123456789ab"
    assert line.split() == ["0123456789ab", *" ".join(cells).split()]
    assert (empty, count) == ("", f"1 build, {cells[2]}")


def test_entries_are_counted_with_what_they_hold_together() -> None:
    rows = [row(size=300_000), row(size=260_000)]
    assert listing(rows, NOW).endswith("\n\n2 builds, 0.6 MB")
    assert pruned(rows) == "removed: 2 builds, 0.6 MB"
    assert pruned([]) == "removed: 0 builds, 0.0 kB"
    assert listing([], NOW) == "the cache is empty"


@pytest.mark.parametrize(
    ("obstacle", "lines"),
    [
        (ReloadObstacle(ObstacleKind.KERNEL, "b", "a holds b"), ["  stop  a holds b"]),
        (
            ReloadObstacle(ObstacleKind.KERNEL, "b", "a", "end it"),
            ["  stop  a", "        next: end it"],
        ),
        (
            ReloadObstacle(ObstacleKind.SSH, "eth 0", "a", "end it"),
            ["  stop  a", "        next: end it", "        or:   --over 'ssh:eth 0'"],
        ),
    ],
)
def test_what_is_in_the_way_of_a_reload(obstacle: ReloadObstacle, lines: list[str]) -> None:
    assert list(_obstacle(obstacle, Painter(coloured=False))) == lines


def test_what_keeps_a_run_from_being_kept_is_said_once_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder\n")
    folder = RunFolder(tmp_path / "runs", "plan", datetime(2026, 11, 24, tzinfo=UTC))
    assert folder.trouble == ""
    folder.keep("a.txt", "x")
    first = folder.trouble
    assert first.endswith((": Not a directory", ": File exists"))
    assert "".join(folder.kept("b.json", ["one", "two"])) == "onetwo"
    assert folder.trouble == first
