"""Drift for people."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tests.features.drift.test_drift import drift
from tests.unit.planning import LITTLE_MEMLOCK, TRANSLATED, frames
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.evidence import Evidence
from toolkit.features.drift.cli import drift_node
from toolkit.features.drift.plan import Cell, Drift, DriftLine, DriftStanding, DriftTopic
from toolkit.features.drift.show import text
from toolkit.report.table import WIDTH, Painter
from toolkit.want import Want

CAPTURES = sorted(Path(__file__).parents[2].glob("evidence/*.txt"))
PLAIN = Painter(False)
HOSTILE = DriftLine(
    DriftTopic.WORK,
    "\x1b[2J",
    "done",
    Cell("\x1b]0;x\x07", DriftStanding.DRIFT),
    Cell(),
    "\x1b[31m",
)


def captured() -> list[Outcome[Drift]]:
    today = date(2026, 11, 22)
    return [
        Outcome(each.stem, drift_node(each.stem, Evidence.parse(each.read_text()), Want(), today))
        for each in CAPTURES
    ]


def test_every_line_fits_a_hundred_columns() -> None:
    for verbose in (False, True):
        shown = text(captured(), PLAIN, verbose=verbose).split("\n")
        assert [line for line in shown if len(line) > WIDTH] == []


def test_an_argument_longer_than_a_line_is_folded() -> None:
    word = "pci=disable_acs_redir=" + ";".join(["0000:15:01.0/00.0/00.0"] * 16)
    missing = DriftLine(
        DriftTopic.ARGUMENT, word, "there", Cell("not there", DriftStanding.DRIFT), Cell()
    )
    shown = text([Outcome("gpu001", Drift((missing,)))], PLAIN).split("\n")
    assert max(map(len, shown)) <= WIDTH
    assert word in "".join(line.strip() for line in shown)


def test_nodes_that_drifted_alike_are_told_of_once() -> None:
    ill = drift(frames(TRANSLATED, LITTLE_MEMLOCK))
    outcomes = [Outcome(f"gpu{number:03}", ill) for number in range(1, 129)]
    shown = text([*outcomes, Outcome("gpu200", drift({}))], PLAIN)
    assert shown.count("drift     gpu[001-128]") == 1
    assert shown.count("IOMMU domains of HCAs") == 1
    assert "as wanted gpu200" in shown
    assert shown.endswith("128 of 129 nodes have drifted")


def test_what_to_do_is_told_when_asked() -> None:
    outcomes = [Outcome("gpu001", drift(frames(TRANSLATED)))]
    assert "next:" not in text(outcomes, PLAIN)
    assert "next:" in text(outcomes, PLAIN, verbose=True)


def test_what_is_as_wanted_is_told_when_asked() -> None:
    outcomes = [Outcome("gpu001", drift({}))]
    assert "nvidia-peermem" not in text(outcomes, PLAIN)
    assert "nvidia-peermem" in text(outcomes, PLAIN, verbose=True)


def test_a_host_out_of_reach_is_named_with_the_reason() -> None:
    lost: Outcome[Drift] = Outcome("gpu001", error=TransportError("gpu001: no route", hint="look"))
    shown = text([lost], PLAIN)
    assert "no route" in shown
    assert shown.endswith("0 of 1 nodes have drifted")


def test_nodes_of_which_nothing_is_wanted_or_known_are_told_apart() -> None:
    bare, cut = Drift(gpus=False), Drift(complete=False)
    shown = text([Outcome("login1", bare), Outcome("gpu001", cut)], PLAIN)
    assert shown == "cut off   gpu001\n\nno GPU    login1\n0 of 2 nodes have drifted"
    assert (bare.exit_code, cut.exit_code) == (ExitCode.OK, ExitCode.UNREACHABLE)


def test_a_name_of_several_words_stays_in_its_column_and_what_is_waived_says_so() -> None:
    waived, none = Cell("8388608", DriftStanding.WAIVED), Cell()
    names = {"locked memory of each service": False, f"/etc/{'x' * 18}": False}
    for name, alone in (*names.items(), (f"/etc/{'x' * 19}", True)):
        line = DriftLine(DriftTopic.PROPERTY, name, "unlimited", waived, none)
        _, _, first, *_ = text([Outcome("gpu001", Drift((line,)))], PLAIN, verbose=True).split("\n")
        assert ("waived: 8388608" in first) is not alone


def test_what_a_node_says_does_not_steer_the_terminal() -> None:
    shown = text([Outcome("gpu001", Drift((HOSTILE,)))], PLAIN, verbose=True)
    assert "\x1b" not in shown
    assert "\x07" not in shown
