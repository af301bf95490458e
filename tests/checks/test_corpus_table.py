"""The table that judges our judgement of the corpus: it has to see what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import truth
from tests.corpus.expected import Case
from tests.corpus.table import Line, Right, against, by_word
from tests.unit.judged import judged
from toolkit.checks.check import Finding, failed, passed, unknown

FAR = Case(fails="pcie.distance", words="NODE")
BOTH = Case(fails="pcie.distance", words="NODE", also={"pcie.link": "x8"})
NEAR = Case(passes=("pcie.distance",))
TRAP = Case()
LACKS = Case(lacks={"pcie.link": "rate"})


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
        pytest.param(
            FAR, {"rdma.port": failed("NODE", expected="x")}, Right.WRONG, id="another-check"
        ),
        pytest.param(
            BOTH,
            {
                "pcie.distance": failed("4 NODE", expected="x"),
                "pcie.link": failed("x8", expected=""),
            },
            Right.RIGHT,
            id="both-faults",
        ),
        pytest.param(
            BOTH,
            {"pcie.distance": failed("4 NODE", expected="x"), "pcie.link": unknown("?")},
            Right.OPEN,
            id="one-of-two-faults",
        ),
        pytest.param(
            BOTH,
            {"pcie.distance": failed("4 NODE", expected="x"), "pcie.link": passed("fine")},
            Right.WRONG,
            id="one-of-two-passes",
        ),
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
        pytest.param(
            LACKS, {"pcie.link": unknown("no rate")}, Right.LACKS, id="says-what-it-lacks"
        ),
        pytest.param(LACKS, {"pcie.link": unknown("?")}, Right.OPEN, id="does-not-say-it"),
        pytest.param(LACKS, {"pcie.link": passed("rate")}, Right.OPEN, id="passes-without-it"),
        pytest.param(
            LACKS, {"pcie.link": failed("y", expected="x")}, Right.WRONG, id="judged-after-all"
        ),
    ],
)
def test_what_a_row_makes_of_verdicts(
    case: Case, findings: dict[str, Finding], right: Right
) -> None:
    one = judged("capture", **{name.replace(".", "__"): each for name, each in findings.items()})
    assert against("kind/file.txt", case, one).right is right


def test_inventory_is_what_the_index_calls_neutral_and_no_row_claims_anything_of() -> None:
    one = judged("capture", pcie__link=unknown("?"))
    assert against("kind/file.txt", Case(), one, "neutral").right is Right.UNJUDGED
    assert against("kind/file.txt", Case(), one, "trap-x").right is Right.RIGHT
    assert against("kind/file.txt", NEAR, one, "neutral").right is Right.OPEN


SEEN, ALARM = passed("8 PIX"), failed("4 NODE", expected="x")


@pytest.mark.parametrize(
    ("word", "findings", "right"),
    [
        pytest.param("good", {"pcie.distance": SEEN}, Right.RIGHT, id="health-seen"),
        pytest.param("good", {}, Right.OPEN, id="health-not-seen"),
        pytest.param(
            "good", {"pcie.distance": SEEN, "pcie.link": ALARM}, Right.WRONG, id="false-alarm"
        ),
        pytest.param("trap-grep", {"pcie.link": ALARM}, Right.WRONG, id="trap-fallen-into"),
        pytest.param("trap-grep", {}, Right.OPEN, id="trap-not-judged"),
        pytest.param("bad-xid", {"pcie.link": ALARM}, Right.OPEN, id="for-what-reason"),
        pytest.param("bad-xid", {"pcie.link": unknown("?")}, Right.OPEN, id="fault-not-seen"),
        pytest.param("bad-xid", {"pcie.distance": SEEN}, Right.WRONG, id="broken-and-passes"),
        pytest.param("neutral", {"pcie.link": ALARM}, Right.UNJUDGED, id="inventory"),
        pytest.param("splendid", {"pcie.link": SEEN}, Right.UNJUDGED, id="a-word-of-a-later-index"),
    ],
)
def test_what_a_word_of_the_index_makes_of_verdicts(
    word: str, findings: dict[str, Finding], right: Right
) -> None:
    none = {"kernel.version": unknown("?"), "pcie.link": unknown("?")}  # else they pass
    given = none | findings
    one = judged("capture", **{name.replace(".", "__"): each for name, each in given.items()})
    line = by_word("kind/file.txt", word, one)
    assert line.right is right
    assert line.blind == (word == "bad-xid" and right is Right.WRONG)


def test_only_a_pass_makes_a_line_blind() -> None:
    assert Line("kind/file.txt", Right.WRONG, "passes: x").blind
    assert not Line("kind/file.txt", Right.WRONG, "x", ("x",)).blind
    assert not Line("kind/file.txt", Right.OPEN, "no verdict").blind


def _report(*properties: tuple[str, object], skipped: str = "") -> pytest.TestReport:
    if skipped:
        why = ("test_x.py", 1, f"Skipped: {skipped}")
        return pytest.TestReport("x", ("x", 1, "x"), {}, "skipped", why, "call")
    return pytest.TestReport(
        "x", ("x", 1, "x"), {}, "passed", None, "call", user_properties=properties
    )


def test_the_end_of_a_run_counts_captures_and_names_the_wrong_ones() -> None:
    lines = ("right\ta/1\tseen", "wrong\ta/2\tx: y", "silent\tb/1\tz", "silent\tb/2\tz")
    reports = [_report(*(("capture", each) for each in lines)), _report()]
    assert truth.told(reports) == [
        "corpus: 4 captures with a ground truth: 1 right, 1 wrong, 2 silent",
        "corpus: WRONG a/2: x: y",
    ]


def test_the_end_of_a_run_without_captures_says_so(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text("def test_a() -> None: ...\n\n\ndef test_b() -> None: ...\n")
    reason = truth.unrun([file, file], "88 captures")
    assert reason == (
        "shared captures: 4 tests not run, of 88 captures: ../shared is not beside the checkout"
    )
    reports = [_report(skipped=reason), _report(skipped="needs dash"), _report()]
    assert truth.told(reports) == [f"NOT TRIED ON REAL MACHINES: {reason}"]
