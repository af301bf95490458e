"""What the checks say of every row of their tables, in full: expected, hint and details, too.

A row claims a status and a part of what is found; the rest stands in ``findings/FILE.txt``. A
change of wording shows here as a difference to be read in review; to accept all of them, run
these tests with GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.checks.rows import by_file
from tests.evidence.judging import judged, name, shown

FOLDER = Path(__file__).parent / "findings"
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"
FILES = by_file()


def kept(file: str) -> Path:
    return FOLDER / f"{file.removeprefix('test_checks_')}.txt"


@pytest.mark.parametrize("file", FILES)
def test_findings(file: str) -> None:
    lines = [line for row in FILES[file] for line in shown(judged(row).finding, name(row))]
    told = "\n".join(lines) + "\n"
    if ACCEPT:
        kept(file).write_text(told)
    assert told == kept(file).read_text()


def test_every_file_of_findings_is_some_tables() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(map(kept, FILES))
