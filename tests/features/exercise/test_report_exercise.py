"""What is printed of measurements: the table, and below it what falls short, is open, or asked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.features.exercise.exercising import planned, view
from toolkit.checks.check import Status
from toolkit.compat.reader import Confidence
from toolkit.facts.rdma.exercise import Kind
from toolkit.features.exercise.plan_judge import ExpectedFigure, JudgedTest
from toolkit.features.exercise.plan_proof import Point, ProofState
from toolkit.features.exercise.show import EarlierFigures, _remarks, result_lines
from toolkit.report.table import WIDTH, Painter
from toolkit.throughput.estimate import Estimate, Layer, Unit

TESTS = planned(view("gpu1"), view("gpu2")).tests
PLAIN = Painter(coloured=False)
FIGURE = Estimate(
    48.0, 40.0, 50.0, Unit.GBS, "wire", next(iter(Layer)), Confidence.HIGH, ("no other load",)
)
SHOWN = Point(ProofState.SHOWN, "mlx5_0 of gpu1 sent it")
OPEN = Point(
    next(each for each in ProofState if each is not ProofState.SHOWN), "nothing names the memory"
)
WELL = JudgedTest(
    TESTS[0], Status.PASS, "fine", 47.5, Unit.GBS, ExpectedFigure(FIGURE), 0.99, points=(SHOWN,)
)


def below(result: JudgedTest, *, verbose: bool = False) -> dict[str, list[str]]:
    """What stands below the table of one test: label to texts."""
    lines = result_lines([result], PLAIN, earlier={}, verbose=verbose)[2:]
    found: dict[str, list[str]] = {}
    for line in lines[2:]:
        if line[3:13].strip():
            found.setdefault(line[3:13].strip(), []).append(line[14:])
    if lines:
        assert lines[:2] == ["", f"{result.test.number}. {result.test.title}"]
    assert all(len(line) <= WIDTH for line in lines)
    return found


BETWEEN = f"{TESTS[0].drive.said} to {TESTS[0].serve.said if TESTS[0].serve else ''}"
PREDICTED = [FIGURE.said.split("\n")[0]]
OF_NOTHING = ExpectedFigure(None, "nobody knows this card")


@pytest.mark.parametrize(
    ("result", "verbose", "told"),
    [
        pytest.param(WELL, False, {}, id="well"),
        pytest.param(
            WELL, True, {"predicted": PREDICTED, "assumed": ["no other load"],
                         "shown": [SHOWN.words]},
            id="well-verbose",
        ),
        pytest.param(
            replace(WELL, status=Status.FAIL, suspect="ACS redirect"), False,
            {"suspect": ["ACS redirect"], "predicted": PREDICTED}, id="fail",
        ),
        pytest.param(
            replace(WELL, status=Status.UNKNOWN, value=None, found="it ended with 1"), False,
            {"no result": ["it ended with 1"], "predicted": PREDICTED}, id="unknown",
        ),
        pytest.param(
            replace(WELL, points=(SHOWN, OPEN)), False,
            {OPEN.proof.value: [OPEN.words]}, id="open",
        ),
        pytest.param(
            replace(WELL, expected=OF_NOTHING), True,
            {"predicted": ["nothing: nobody knows this card"], "shown": [SHOWN.words]},
            id="not-predicted",
        ),
        pytest.param(
            replace(WELL, expected=OF_NOTHING, value=None, status=Status.UNKNOWN), False,
            {"no result": ["fine"]}, id="nor-measured",
        ),
        pytest.param(
            replace(WELL, expected=None, status=Status.FAIL, troubles=("a grew", "b grew")), False,
            {"counter": ["a grew", "b grew"]}, id="counters",
        ),
    ],
)  # fmt: skip
def test_below_the_table(result: JudgedTest, verbose: bool, told: dict[str, list[str]]) -> None:
    found = below(result, verbose=verbose)
    between = " ".join(found.pop("between", []))
    assert bool(between) is bool(told)
    assert BETWEEN.startswith(between)
    assert found == told


def test_a_test_of_one_node_alone_is_between_its_gpus() -> None:
    alone = replace(WELL, test=replace(TESTS[0], serve=None), status=Status.FAIL)
    assert below(alone)["between"] == ["the GPUs of gpu1"]


def test_the_table_has_a_dash_for_what_is_not_known() -> None:
    bare = JudgedTest(TESTS[0], Status.UNKNOWN, "it ended")
    [head, row, *_] = result_lines([bare], PLAIN, earlier={})
    assert head.split() == ["test", "measured", "predicted", "ratio", "before"]
    assert row.startswith(f"{TESTS[0].number}. unknown ")
    assert row.split()[-4:] == ["-"] * 4
    well = result_lines([WELL], PLAIN, earlier={})[1]
    assert "0.99" in well.split()
    assert well.split()[-1] == "-"


@pytest.mark.parametrize(("kind", "unit"), [(TESTS[0].kind, "GB/s"), (Kind.LATENCY, "us")])
def test_what_was_measured_before_stands_beside_it(kind: Kind, unit: str) -> None:
    now = replace(WELL, test=replace(TESTS[0], kind=kind))
    before = {TESTS[0].number: EarlierFigures("2026-11-20T09:00:00+00:00", 44.0)}
    row = result_lines([now], PLAIN, earlier=before)[1]
    assert row.split()[-4:] == ["44.0", unit, "on", "2026-11-20"]


def test_only_the_status_is_painted() -> None:
    painted = result_lines([WELL, replace(WELL, status=Status.FAIL)], Painter(True), earlier={})
    for line, colour in zip(painted[1:3], ("32", "31"), strict=True):
        assert line.startswith(f"\x1b[{colour}m{TESTS[0].number}. ")
        assert line.count("\x1b[") == 2


@pytest.mark.parametrize("label", ["note", "left out"])
def test_a_long_remark_goes_on_below_its_first_word(label: str) -> None:
    texts = [" ".join(["word"] * 40)]
    first, *rest = _remarks(texts, ()) if label == "left out" else _remarks((), texts)
    assert first.startswith(f"{label}: word ")
    assert rest
    assert all(line.startswith(" " * len(f"{label}: ") + "word") for line in rest)
