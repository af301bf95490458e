"""The table that judges our judgement of the corpus: it has to see what is wrong."""

from __future__ import annotations

import pytest

from tests.corpus.expected import Case
from tests.corpus.table import Right, against
from tests.unit.judged import judged
from toolkit.checks.check import Finding, failed, passed, unknown

FAR = Case(fails=("pcie.distance", "rdma.*"), words="NODE|no HCA")
NEAR = Case(passes=("pcie.distance",))
TRAP = Case()
TRAFFIC = Case(unjudged="traffic")


@pytest.mark.parametrize(
    ("case", "findings", "right"),
    [
        pytest.param(
            FAR, {"pcie.distance": failed("4 NODE", expected="x")}, Right.RIGHT, id="seen"
        ),
        pytest.param(
            FAR,
            {"pcie.distance": failed("4 of 4", expected="x", details=("GPU0: NODE",))},
            Right.RIGHT,
            id="seen-in-the-details",
        ),
        pytest.param(FAR, {"rdma.port": failed("no HCA", expected="x")}, Right.RIGHT, id="topic"),
        pytest.param(
            FAR, {"pcie.distance": failed("link", expected="x")}, Right.WRONG, id="wrong-reason"
        ),
        pytest.param(FAR, {"pcie.distance": passed("8 PIX")}, Right.WRONG, id="wrong-pass"),
        pytest.param(FAR, {"pcie.distance": unknown("?")}, Right.OPEN, id="not-seen"),
        pytest.param(
            FAR,
            {
                "pcie.distance": failed("4 NODE", expected="x"),
                "acs.redirect": failed("y", expected="x"),
            },
            Right.WRONG,
            id="false-alarm-beside",
        ),
        pytest.param(NEAR, {"pcie.distance": passed("8 PIX")}, Right.RIGHT, id="health-seen"),
        pytest.param(NEAR, {"pcie.distance": unknown("?")}, Right.OPEN, id="health-not-seen"),
        pytest.param(
            NEAR, {"pcie.distance": failed("y", expected="x")}, Right.WRONG, id="health-denied"
        ),
        pytest.param(TRAP, {}, Right.RIGHT, id="trap-avoided"),
        pytest.param(
            TRAP, {"pcie.link": failed("y", expected="x")}, Right.WRONG, id="trap-fallen-into"
        ),
        pytest.param(TRAFFIC, {}, Right.UNJUDGED, id="not-judgeable"),
        pytest.param(
            TRAFFIC, {"pcie.link": failed("y", expected="x")}, Right.WRONG, id="judged-after-all"
        ),
        pytest.param(
            Case(tolerated={"pcie.link": "it is"}),
            {"pcie.link": failed("y", expected="x")},
            Right.RIGHT,
            id="true-besides",
        ),
    ],
)
def test_what_a_row_makes_of_verdicts(
    case: Case, findings: dict[str, Finding], right: Right
) -> None:
    one = judged("capture", **{name.replace(".", "__"): each for name, each in findings.items()})
    assert against("kind/file.txt", case, one).right is right
