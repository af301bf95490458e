"""How a forecast is told: to a person, in a document, and by the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.checks.test_forecast import BARE_NEXT, BOTH
from tests.evidence.build import DRIVER, KERNEL, NEXT_KERNEL, node
from tests.evidence.frames import Override
from tests.replay import ReplayTransport
from tests.unit.judged import TODAY
from toolkit.checks.judged import judge_node
from toolkit.checks.kernel.forecast import Foreseen, forecast
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.hosts.host import Host
from toolkit.report.document import Told, document
from toolkit.report.forecast import forecast_report
from toolkit.report.table import Painter
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import forecast as verb
from toolkit.verbs.cli.forecast import foretell
from toolkit.verbs.cli.session import Session
from toolkit.want import Want


def foreseen(frames: Mapping[str, Override], *, complete: bool = True) -> Foreseen:
    evidence = node(BOTH | dict(frames), complete=complete)
    return Foreseen(judge_node("a", evidence, Want(), TODAY), forecast(Node(evidence), Want()))


def test_evidence_that_was_cut_counts_as_out_of_reach() -> None:
    assert foreseen({}).exit_code is ExitCode.OK
    assert foreseen(BARE_NEXT).exit_code is ExitCode.FAILED
    assert foreseen({}, complete=False).exit_code is ExitCode.UNREACHABLE


FLEET: list[Outcome[Foreseen]] = [
    Outcome("gpu001", foreseen({})),
    Outcome("gpu002", foreseen(BARE_NEXT)),
    Outcome("gpu003", foreseen(BARE_NEXT)),
    Outcome("gpu004", error=TransportError("gpu004: no route")),
]


def test_the_report_folds_nodes_that_lose_the_same() -> None:
    text = forecast_report(FLEET, Painter(False))
    assert text.count(f"no nvidia for {NEXT_KERNEL}") == 1
    assert "lost     driver                  gpu[002-003]" in text
    assert f"then dkms install nvidia/{DRIVER} -k {NEXT_KERNEL}" in " ".join(text.split())
    assert "error    gpu004" in text
    assert text.endswith("1 of 4 nodes would lose nothing.")
    assert "kept     driver" not in text
    assert "kept     driver" in forecast_report(FLEET, Painter(False), verbose=True)


def test_the_state_of_each_row_has_its_colour_and_nothing_else_of_it() -> None:
    table = forecast_report(FLEET, Painter(True)).split("\n")[-5:-2]
    assert [re.findall("\x1b\\[(\\d+)m([a-z ]+)\x1b", line) for line in table] == [
        [("32", "keeps")], [("31", "loses")], [("31", "out of reach")]
    ]  # fmt: skip


def test_what_was_cut_off_is_no_forecast_in_the_table_either() -> None:
    cut = Outcome("gpu005", foreseen({}, complete=False))
    assert "cut off" not in forecast_report(FLEET, Painter(False))
    (line,) = (
        each
        for each in forecast_report([*FLEET, cut], Painter(False)).split("\n")
        if "gpu005" in each and "cut off" in each
    )
    assert "keeps" not in line


def test_the_document_has_the_forecast_of_each_host() -> None:
    told = [
        Outcome(each.host, Told(each.value.judged, forecast=each.value.forecast))
        for each in FLEET
        if each.value
    ]
    text = document("doctor", "peermem", told, ExitCode.FAILED, datetime(2026, 11, 21, tzinfo=UTC))
    hosts = json.loads(json.dumps(text))["hosts"]
    assert [each["forecast"]["state"] for each in hosts] == ["keeps", "loses", "loses"]
    assert hosts[1]["forecast"]["kernel"] == NEXT_KERNEL
    lost = {p["topic"] for p in hosts[1]["forecast"]["prospects"] if p["status"] == "fail"}
    assert lost == {"driver", "rdma-stack", "nvidia-peermem"}


# --- the command line ---


def told(folder: Path, **options: str | bool) -> ExitCode:
    for each in FLEET[:2]:
        frames = {} if each.host == "gpu001" else BARE_NEXT
        (folder / f"{each.host}.evidence").write_text(node(BOTH | dict(frames)).dump())
    said = Said({"from_": str(folder), "profile": "peermem", "quiet": True, **options})
    return foretell(Session.begin("doctor", said), Want())


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        pytest.param({"next_boot": True}, ExitCode.FAILED, "1 of 2 nodes would", id="next-boot"),
        pytest.param({"kernel": KERNEL}, ExitCode.OK, "2 of 2 nodes would", id="named"),
        pytest.param({"kernel": "6.99.0-1"}, ExitCode.UNKNOWN, "gpu[001-002]", id="not-installed"),
    ],
)
def test_saved_evidence_is_told_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    options: dict[str, str | bool],
    code: ExitCode,
    words: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    saved = tmp_path / "saved"
    saved.mkdir()
    assert told(saved, **options) is code
    assert words in capsys.readouterr().out


def test_nodes_that_are_asked_are_told_of_and_what_they_said_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    evidence = node(BOTH | dict(BARE_NEXT))
    way = Fleet((Host("gpu1"),), lambda host: ReplayTransport(host.name, evidence), Access())
    monkeypatch.setattr(verb, "fleet", lambda _: nullcontext(way))
    said: dict[str, str | int | bool] = {"profile": "peermem", "next_boot": True}
    texts: list[str] = []
    for verbose in (False, True):
        session = Session.begin("doctor", Said(said | {"verbose": verbose}))
        assert foretell(session, Want()) is ExitCode.FAILED
        assert Evidence.parse((session.folder.path / "gpu1.evidence").read_text()) == evidence
        texts.append(capsys.readouterr().out)
    assert len(texts[1]) > len(texts[0]), "and all of it to who asks"


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "next"},
        {"kernel": KERNEL, "next_boot": True},
        {"next_boot": True, "textfile": "/nowhere/doctor.prom"},
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, options: dict[str, str | bool]) -> None:
    with pytest.raises(UsageError):
        told(tmp_path, **options)
