"""Recompute the accuracy table: ``python -m dev.accuracy [CSV] [--write]``.

Prints it, or with ``--write`` puts it into docs/prediction.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dev.accuracy.judge import judge
from dev.accuracy.points import parse_points
from dev.accuracy.table import put, section
from dev.run import ROOT
from toolkit.compat.throughput import constants

POINTS = ROOT.parent / "shared" / "throughput-points.csv"
PAGE = ROOT / "docs" / "prediction.md"


def main(words: list[str]) -> int:
    given = [each for each in words if each != "--write"]
    points = Path(given[0]) if given else POINTS
    if not points.is_file():
        sys.stderr.write(f"error: {points} is not there\n next: name the file of points\n")
        return 64
    found = section(judge(parse_points(points.read_text("utf-8")), constants()), constants())
    if "--write" in words:
        PAGE.write_text(put(PAGE.read_text("utf-8"), found), "utf-8")
    else:
        sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
