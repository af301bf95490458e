"""Every capture of the corpus, judged to the ground truth that its source established."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus.expected import EXPECTED, Case
from tests.corpus.known import CORPUS, index
from tests.corpus.table import TODAY, Right, held, judged, lines
from tests.laws import few, tried
from toolkit.checks.all import ALL
from toolkit.checks.judged import judge_node
from toolkit.errors import ToolkitError, UsageError
from toolkit.facts.kinds import named
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.verbs.pasted_logs import decoded
from toolkit.want import Want

IDS = [check.id for check in ALL]
INDEX = {file: row["verdict"] for file, row in index().items()}


RIGHT_OF_ANSWERS = 0.9  # the least share; what the table names is held one by one besides


def test_every_capture_with_a_ground_truth_is_counted(
    record_property: Callable[[str, object], None],
) -> None:
    """Those too that came after the table; the run's end prints what is recorded here.

    A new capture may be answered wrongly, and is then named there. But no broken machine
    may pass: that the tool must never say, or the table has to tell why it may.
    """
    all_lines = lines()
    for line in all_lines:
        record_property("capture", f"{line.right.counted}\t{line.file}\t{line.why}")
    assert {line.file for line in all_lines} == set(INDEX)
    assert [(line.file, line.why) for line in all_lines if line.blind] == []
    answers = [line.right for line in all_lines if line.right in {Right.RIGHT, Right.WRONG}]
    assert answers.count(Right.RIGHT) >= RIGHT_OF_ANSWERS * len(answers)


@pytest.mark.parametrize("file", [file for file, word in INDEX.items() if word.startswith("bad-")])
def test_no_capture_of_a_broken_machine_is_ready(file: str) -> None:
    """Of whatever kind, in the table or not; one that is refused is not ready either."""
    try:
        state = judged(file).state
    except ToolkitError:
        return
    assert state != "ready"


def test_the_table_names_captures_that_there_are() -> None:
    assert sorted(set(EXPECTED) - set(INDEX)) == []


@pytest.mark.parametrize("file", EXPECTED)
def test_the_table_says_what_the_source_established(file: str) -> None:
    """A capture that is called bad has to fail, and no other may, but as the table says."""
    case, bad = EXPECTED[file], INDEX[file].startswith("bad-")
    assert bool(case.fails or case.lacks or case.refused) or not bad
    assert not case.fails or bad or INDEX[file] == "neutral"
    assert bool(case.words) == bool(case.fails)


@pytest.mark.parametrize("file", EXPECTED)
def test_the_verdict_is_that_of_the_ground_truth(file: str) -> None:
    case, line = EXPECTED[file], held(file, EXPECTED[file])
    fine = {Right.REFUSED} if case.refused else {Right.RIGHT, Right.UNJUDGED}
    assert line.right in (fine | {Right.LACKS} if case.lacks else fine), (line.why, line.alarms)


def test_every_check_that_the_table_names_is_there() -> None:
    """A name that nobody has would leave its row open for ever."""
    cases = EXPECTED.values()
    named = {name for case in cases for name in _named(case) if name}
    assert sorted(named - set(IDS)) == []


def _named(case: Case) -> tuple[str, ...]:
    return (case.fails, *case.passes, *case.also, *case.lacks)


def test_no_row_leaves_open_which_check_it_means() -> None:
    """One name each, and no failure that is let pass: what is wrong has to be told."""
    for file, case in EXPECTED.items():
        assert isinstance(case.fails, str), file
        assert all(case.also.values()), file
        assert not set(case.passes) & {case.fails, *case.also}, file
        assert not case.lacks or not (case.fails or case.passes), file
        assert all(case.lacks.values()), file


@pytest.mark.parametrize(
    "file", few([file for file, case in EXPECTED.items() if not case.refused], 3, "damaged")
)
@tried(8)
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
