"""What is printed of a few nodes, in full, in every form that a program or a person reads.

The tests of each form say what must be so; here a change of any word or field shows as a
difference to be read in review. To accept all of them, run these tests with GDR_ACCEPT=1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, HCAS, PORTS, REDIRECTS
from tests.evidence.build import node
from tests.evidence.platforms import DATA_DIRECT, GRACE
from tests.report.test_report_sarif import LOST, WAIVED
from tests.unit.biosing import bios, planned
from tests.unit.fleets import TODAY, capture
from tests.unit.judged import BARE, HEALTHY, SICK, UNSURE
from tests.unit.planning import NOT_LOADED, STUBBED, TRANSLATED, plan_for
from toolkit import __version__
from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.checks.judged import Judged, judge_node
from toolkit.compat.bios import shipped
from toolkit.compat.throughput import constants
from toolkit.errors import ExitCode, Outcome
from toolkit.facts.firmware.bios_setting import match
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_bmc import BmcRead, Trust
from toolkit.facts.node.node import Node
from toolkit.features.bios.plan import BiosPlan, Effect
from toolkit.features.bios.plan_reading import BiosOutcome, BiosReading, LineState, lines_of
from toolkit.features.bios.show import changed_lines, looked_lines, planned_lines, summary
from toolkit.features.bios.show import document as bios_document
from toolkit.features.predict import show as predicted
from toolkit.features.predict.plan.totals import (
    TrainingJob,
    gain,
    predict,
    predict_inputs,
    read_node,
)
from toolkit.features.predict.plan.what_if import parse_wishes, with_wishes
from toolkit.features.topology import cli as topology
from toolkit.features.topology.show.view import view
from toolkit.report.ctrf import ctrf
from toolkit.report.document import Json, ReportRun, Told, document, dumps
from toolkit.report.junit import junit
from toolkit.report.plan_text import plan_lines
from toolkit.report.prometheus import Remembered, exposition
from toolkit.report.sarif import sarif
from toolkit.report.table import Painter
from toolkit.report.text import report
from toolkit.throughput.inputs import Load
from toolkit.want import Role, Want

FOLDER = Path(__file__).parent / "reports"
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"
PLAIN, COLOURED = Painter(coloured=False), Painter(coloured=True)
WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
FENCED = BOARD.but(PORTS[0], acs=REDIRECTS).but(HCAS[0], now=("16.0 GT/s PCIe", 8))
SLOWED = node({**TRANSLATED}, board=FENCED)


def nodes() -> list[Outcome[Judged]]:
    cut = Judged("gpu005", HEALTHY.verdicts, TODAY, complete=False)
    some = (HEALTHY, SICK, UNSURE, BARE, WAIVED, cut)
    return [*(Outcome(each.host, each) for each in some), LOST]


def doctor() -> str:
    real = Outcome("gpu010", judge_node("gpu010", capture("stub"), Want(), TODAY))
    every, few = [*nodes(), real], nodes()[:5]
    parts = [report(every, PLAIN), report(every, PLAIN, verbose=True), report(few, COLOURED)]
    return "\n".join([*parts, report(few, PLAIN, asked=["kernel.version"])])


def made(whole: Mapping[str, Json]) -> str:
    return dumps(whole).replace(f'"{__version__}"', '"VERSION"')


def as_document() -> str:
    judged = [Outcome(each.host, Told(judged=each)) for each in (HEALTHY, SICK, UNSURE, BARE)]
    plans = [plan_for(frames) for frames in (TRANSLATED, NOT_LOADED)]
    planned = [Outcome(f"gpu1{at}", Told(plan=plan)) for at, plan in enumerate(plans)]
    done = Outcome("gpu20", Told(before=SICK, judged=HEALTHY, steps=("a", "b"), rebooted=True))
    lost: Outcome[Told] = Outcome("gpu009", error=LOST.error)
    outcomes = [*judged, *planned, done, lost]
    return made(document("doctor", "peermem", outcomes, ExitCode.UNREACHABLE, WHEN))


RUN = ReportRun("doctor", WHEN, WHEN, ExitCode.FAILED, "", lambda host: f"{host}.evidence")


def as_sarif() -> str:
    return made(sarif(nodes(), RUN))


def plans() -> str:
    rows = [("a", TRANSLATED), ("b", TRANSLATED), ("c", NOT_LOADED), ("d", STUBBED), ("e", {})]
    found = [(name, plan_for(frames)) for name, frames in rows]
    texts = plan_lines(found[:2], PLAIN, diffs=True) + plan_lines(found[:1], COLOURED, diffs=True)
    return "\n".join([*texts, *plan_lines(found, COLOURED, diffs=False)])


def topologies() -> str:
    seen = [view(f"gpu{at}", node(board=b)) for at, b in enumerate((FENCED, GRACE, DATA_DIRECT))]
    texts = [topology.text(each, PLAIN) for each in seen]
    return "\n".join([*texts, topology.text(seen[0], COLOURED), made(topology.as_json(seen[0]))])


def predictions() -> str:
    c = constants()
    told = read_node(Node(SLOWED), c)
    now = predict_inputs(told, Load(), c)
    words = "acs=off,iommu=pt,link=gen5x16"
    then = predict_inputs(with_wishes(told, parse_wishes(words)), Load(), c)
    healthy = predict(Node(node()))
    totals = (("gpu1", now.total), ("gpu2", healthy.total), ("gpu3", None))
    texts = [predicted.text("gpu1", now, PLAIN, whole=whole) for whole in (True, False)]
    texts += [predicted.text("gpu2", healthy, COLOURED, whole=True)]
    texts += [predicted.wish_text(now, then, words), made(predicted.as_json("gpu1", now))]
    for count in (2, 16):
        found = gain(totals, TrainingJob(count, 70e9, 1000), c)
        assert found is not None
        texts += [predicted.return_text(found), made(predicted.return_json(found))]
    return "\n".join(texts)


def bioses() -> tuple[list[Outcome[BiosReading]], list[Outcome[BiosOutcome]]]:
    """Two that are looked at, one of them with a plan; one that was changed; one out of reach.

    And one whose role nobody knows, with more than a table has room for, and a plan that is
    stopped by a wish that is not to be had.
    """

    def looked(
        of: Bios, asked: str = "", role: Role | None = Role.BARE_METAL, trust: Trust = Trust.PINNED
    ) -> BiosReading:
        plan = planned(of, asked) if asked else BiosPlan()
        lines = lines_of(match(of, shipped()), wanted(role))
        about = BmcRead("192.0.2.9", trust, "Dell Inc.", "R750", "1.8.2", "6.10")
        return BiosReading(about, of, lines, plan, role, ("read while the node was down",))

    asked = "power-profile=Custom,aspm=off,sr-iov=off,resizable-bar=on,iommu=off"
    before = looked(bios({"SriovGlobalEnable": "Disabled"}, MmioAbove4Gb="Disabled"), asked)
    after = looked(bios())
    missed = before.plan.edits[:1]
    lost = LOST.error
    long = bios({"SysProfile": "Custom"}, SysProfile="P" * 28, MmioAbove4Gb="E" * 29)
    odd = looked(long, "dma-protection=off,power-profile=Fast,raw:SysProfil=x", None, Trust.NO)
    edit = replace(odd.plan.edits[0], display="DMA protection", setting=None)
    more = tuple(Effect(f"Follows{number}", "becomes read-only") for number in range(9))
    odd = replace(odd, plan=replace(odd.plan, passes=((edit,),), effects=more))
    scoped = replace(odd.lines[0], scope="slot 1", read_only=True, stand=LineState.AS_WANTED)
    odd = replace(odd, lines=(scoped, *odd.lines[1:]))
    alone = replace(odd, lines=(replace(odd.lines[0], wanted="", pending=""),), plan=BiosPlan())
    seen = [Outcome("gpu1", before), Outcome("gpu2", after), Outcome("gpu3", after)]
    seen += [Outcome("gpu4", odd), Outcome("gpu5", alone)]
    done = [
        Outcome("gpu1", BiosOutcome(before, after, ("sent one setting", "reset"), missed, True, 1)),
        Outcome("gpu2", BiosOutcome(before, before, busy="a job runs")),
        Outcome("gpu3", BiosOutcome(after, after, ("sent",), sent=True)),
        Outcome("gpu4", BiosOutcome(odd, odd, missed=(replace(edit, name="Gone"),))),
        Outcome("gpu5", BiosOutcome(odd, odd)),
        Outcome("gpu6", BiosOutcome(odd, odd, sent=True)),
        Outcome("gpu7", BiosOutcome(after, after)),
    ]
    return [*seen, Outcome("gpu9", error=lost)], [*done, Outcome("gpu9", error=lost)]


def bios_texts() -> str:
    seen, done = bioses()
    lines = looked_lines(seen, PLAIN) + looked_lines(seen, COLOURED, verbose=True)
    lines += planned_lines(seen, PLAIN) + planned_lines(seen, PLAIN, verbose=True)
    lines += [*changed_lines(done, PLAIN), summary(done), summary(done[:1])]
    whole = [bios_document(each, ExitCode.PENDING, WHEN) for each in (seen, done)]
    return "\n".join([*lines, *map(made, whole)])


FORMS: dict[str, Callable[[], str]] = {
    "doctor.txt": doctor,
    "document.json": as_document,
    "junit.xml": lambda: junit(nodes()),
    "ctrf.json": lambda: made(ctrf(nodes(), RUN)),
    "sarif.json": as_sarif,
    "metrics.txt": lambda: exposition(nodes(), ExitCode.FAILED, WHEN, Remembered()),
    "plans.txt": plans,
    "topology.txt": topologies,
    "predictions.txt": predictions,
    "bios.txt": bios_texts,
}


@pytest.mark.parametrize("form", FORMS)
def test_reports(form: str) -> None:
    text = FORMS[form]().rstrip("\n") + "\n"
    if ACCEPT:
        (FOLDER / form).write_text(text)
    assert text == (FOLDER / form).read_text()


def test_every_file_of_reports_is_some_form() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(FOLDER / form for form in FORMS)
