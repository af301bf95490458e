"""What an expert says of each machine is what we say of it.

``python -m tests.evidence.machines`` prints the same as a table.
"""

from __future__ import annotations

import re

import pytest

from tests.evidence.machines.composed import COMPOSED
from tests.evidence.machines.edits import HERE, edited, edits_between
from tests.evidence.machines.held import (
    DEFAULT,
    PROFILES,
    Row,
    cases,
    evidence_of,
    held,
    rows,
)
from tests.laws import few
from toolkit.checks.check import Impact
from toolkit.evidence import Evidence

ROWS = rows()
EDITED = sorted(path.stem for path in (HERE / "nodes").glob("*.edits"))
STATES = {"ready", "unknown", "no GPU", "n/a", "sick", *Impact}
BASE = Evidence.parse((HERE / "base.evidence").read_text())


@pytest.mark.parametrize(
    ("row", "profile"),
    few([pytest.param(*case, id=f"{case[0].machine}-{case[1]}") for case in cases()], 3, "expert"),
)
def test_we_say_what_the_expert_says(row: Row, profile: str) -> None:
    assert held(row, profile).disagreements == ()


def test_every_machine_has_its_rows_and_every_row_its_machine() -> None:
    assert {row.machine for row in ROWS} == {*EDITED, *COMPOSED}
    assert len(EDITED) == 24
    assert len(COMPOSED) >= 20
    assert not {*EDITED} & {*COMPOSED}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.machine}-{'-'.join(row.profiles)}")
def test_a_row_names_its_source_and_what_is_wrong(row: Row) -> None:
    """A state other than ready has a fault that has to be told; "ready" has none."""
    assert row.source
    assert row.says
    assert set(row.profiles) <= set(PROFILES)
    assert row.state in STATES or (row.profiles == ("plan",) and (row.plan or row.untold))
    needed = [fault for fault in row.faults if fault.needed]
    assert bool(needed) == (row.state in {"sick", *Impact})
    assert all(fault.needed or fault.why for fault in row.faults)
    for words in (*row.told, *row.untold, *(fault.words for fault in row.faults)):
        re.compile(words)


def test_what_a_user_gets_first_is_asked_of_each_machine() -> None:
    judged = {row.machine for row in ROWS if row.state}
    assert {row.machine for row in ROWS if DEFAULT in row.profiles} == judged


@pytest.mark.parametrize("machine", [*EDITED, *COMPOSED])
def test_a_machine_is_evidence_as_a_node_gives_it(machine: str) -> None:
    """Whole, with the frames of the base in its order; what it lacks would be left open."""
    found = evidence_of(machine)
    assert found.complete
    assert [key for key in found.frames if key in BASE.frames] == list(BASE.frames)
    assert Evidence.parse(found.dump()) == found


@pytest.mark.parametrize("machine", EDITED)
def test_edits_are_those_between_two_evidences(machine: str) -> None:
    found = evidence_of(machine)
    assert edited(BASE, edits_between(BASE, found)) == found


def test_an_edit_of_another_line_than_it_names_is_refused() -> None:
    assert edited(BASE, "= hostname ok x\n@1\n-healthy\n+other\n").text("hostname") == "other\n"
    assert edited(BASE, "= hostname absent x\n@1\n-healthy\n").frame("hostname").trouble
    with pytest.raises(AssertionError, match="hostname, line 1 is 'healthy'"):
        edited(BASE, "= hostname ok x\n@1\n-another\n+other\n")
