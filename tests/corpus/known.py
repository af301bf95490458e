"""Where captures of real machines lie, and what their index says of each."""

from __future__ import annotations

import csv
from pathlib import Path

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
POINTS = CORPUS.parent / "throughput-points.csv"  # published measurements
REDFISH = CORPUS.parent / "redfish"  # whole captures of BMCs, as a mockup server lays them out
HERE = CORPUS.is_dir() and REDFISH.is_dir()
_PRESENT = "test_present.py"  # says so where they are not
TESTS = [each for each in sorted(Path(__file__).parent.glob("test_*.py")) if each.name != _PRESENT]


def index() -> dict[str, dict[str, str]]:
    """Rows of the corpus by file: ``kind``, ``ground_truth`` in words, ``verdict`` in a word.

    Good, bad-FAULT, trap-WHAT (it looks like a fault) or neutral. The corpus grows beside
    us: a file that no table of ours names is counted, never an error. None where it is not here.
    """
    if not HERE:
        return {}
    text = (CORPUS / "INDEX.tsv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["file"]: row for row in rows}
