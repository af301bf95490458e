"""What the checks say of every row of their tables, in full: expected, hint and details, too.

A row claims a status and a part of what is found; the rest stands in ``findings/FILE.txt``. A
change of wording shows here as a difference to be read in review; to accept all of them, run
these tests with GDR_ACCEPT=1 in the environment.

``damaged/FILE.txt`` has what they say besides when what differs in a row is damaged in turn: a line
less, lines in another order, each number one more, each word its opposite. No row claims that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.checks.rows import by_file
from tests.evidence.build import node
from tests.evidence.judging import Row, judged, name, shown
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding
from toolkit.evidence import Evidence, State
from toolkit.facts.node.node import Node

FOLDER = Path(__file__).parent / "findings"
DAMAGED = Path(__file__).parent / "damaged"
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"
FILES = by_file()
OPPOSITES = ("yes no", "on off", "enabled disabled", "Y N", "active inactive", "1 0", "up down")
OPPOSITE = {one: other for pair in OPPOSITES for one, other in
            (pair.split(), reversed(pair.split()))}  # fmt: skip
NUMBER = re.compile(r"(?<![\w.:-])\d+(?![\w.:-])")
WORD = re.compile(rf"\b({'|'.join(OPPOSITE)})\b")


def counted(more: int) -> Callable[[str], str]:
    return lambda text: NUMBER.sub(lambda found: str(int(found[0]) + more), text)


def lines(chosen: slice) -> Callable[[str], str]:
    return lambda text: "".join(f"{line}\n" for line in text.split("\n")[:-1][chosen])


CHANGES: dict[str, Callable[[str], str]] = {
    "without its first line": lines(slice(1, None)),
    "without its last line": lines(slice(0, -1)),
    "backwards": lines(slice(None, None, -1)),
    "one more": counted(1),
    "one less": counted(-1),
    "the opposite": lambda text: WORD.sub(lambda found: OPPOSITE[found[0]], text),
}


def kept(file: str, folder: Path = FOLDER) -> Path:
    return folder / f"{file.removeprefix('test_checks_')}.txt"


def accepted(told: str, file: Path) -> None:
    if ACCEPT:
        file.write_text(told)
    assert told == file.read_text()


def damaged(row: Row) -> Iterator[tuple[str, Finding]]:
    """What is said of a row when one of its frames is damaged, by frame and damage."""
    evidence, check = node(row.frames, board=row.board), BY_ID[row.check]
    for key in row.frames:
        frame = evidence.frames.get(key)
        if frame is None or frame.state is not State.OK:
            continue
        for what, change in CHANGES.items():
            text = change(frame.text)
            if text != frame.text:
                frames = {**evidence.frames, key: replace(frame, text=text)}
                whole = Evidence(frames, evidence.complete)
                yield f"{name(row)}: {key} {what}", check(Node(whole), row.want).finding


def unclaimed(rows: Sequence[Row]) -> Iterator[str]:
    """Findings that no row has, each where it came first."""
    known = {(row.check, judged(row).finding) for row in rows}
    for row in rows:
        for what, finding in damaged(row):
            if (row.check, finding) not in known:
                known.add((row.check, finding))
                yield from shown(finding, what)


@pytest.mark.parametrize("file", FILES)
def test_findings(file: str) -> None:
    told = [line for row in FILES[file] for line in shown(judged(row).finding, name(row))]
    accepted("\n".join(told) + "\n", kept(file))


@pytest.mark.parametrize("file", FILES)
def test_findings_of_damaged_rows(file: str) -> None:
    accepted("".join(f"{line}\n" for line in unclaimed(FILES[file])), kept(file, DAMAGED))


def test_every_file_of_findings_is_some_tables() -> None:
    for folder in (FOLDER, DAMAGED):
        assert sorted(folder.iterdir()) == sorted(kept(file, folder) for file in FILES)
