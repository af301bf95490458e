"""Every capture of the corpus, judged to the ground truth that its source established."""

from __future__ import annotations

import csv
import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS
from tests.corpus.table import TODAY, Right, held
from toolkit.checks.all import ALL
from toolkit.checks.judged import judge_node
from toolkit.errors import UsageError
from toolkit.facts.imports import evidence_of, frames_of, named
from toolkit.flow.imports import decoded
from toolkit.want import Want

IDS = [check.id for check in ALL]
INDEX = {
    row["file"]: row["verdict"]
    for row in csv.DictReader(
        (CORPUS / "INDEX.tsv").read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE
    )
}


def test_the_table_has_each_capture_once() -> None:
    assert set(EXPECTED) == set(INDEX)


@pytest.mark.parametrize("file", EXPECTED)
def test_the_table_says_what_the_source_established(file: str) -> None:
    """A capture that is called bad has to fail, and no other may, but as the table says."""
    case, bad = EXPECTED[file], INDEX[file].startswith("bad-")
    assert bool(case.fails or case.unjudged) or not bad
    assert not case.fails or bad or INDEX[file] == "neutral"
    assert bool(case.words) == bool(case.fails)


@pytest.mark.parametrize("file", EXPECTED)
def test_the_verdict_is_that_of_the_ground_truth(file: str) -> None:
    line = held(file, EXPECTED[file])
    assert line.right in {Right.RIGHT, Right.UNJUDGED}, (line.why, line.alarms)


def test_every_check_that_the_table_names_is_there() -> None:
    """A name that nobody has would leave its row open for ever."""
    cases = EXPECTED.values()
    named = {pattern for case in cases for pattern in (*case.fails, *case.passes)}
    assert [each for each in sorted(named) if not fnmatch.filter(IDS, each)] == []
    tolerated = {check for case in cases for check in case.tolerated}
    assert tolerated <= set(IDS)


@pytest.mark.parametrize("file", [file for file, case in EXPECTED.items() if not case.refused])
@settings(max_examples=8, deadline=None)
@given(at=st.floats(0, 1), odd=st.binary(max_size=8), lost=st.integers(0, 200))
def test_a_damaged_capture_ends_no_run(file: str, at: float, odd: bytes, lost: int) -> None:
    data = (CORPUS / file).read_bytes()
    where = int(at * len(data))
    (kind, *_) = frames_of(decoded(data), file)
    text = decoded(data[:where] + odd + data[where + lost :])
    try:
        evidence = evidence_of(frames_of(text, file, named(kind.key)))
    except UsageError:
        return
    assert len(judge_node(file, evidence, Want(), TODAY).verdicts) == len(ALL)
