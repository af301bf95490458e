"""Doctor: what it judges, what of it is told, and what nodes have between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from tests.evidence.build import INFINIBAND, node
from tests.invoked import here
from tests.unit.judged import HEALTHY, SICK, judged
from toolkit.checks.check import failed
from toolkit.checks.judged import Judged
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.evidence import Frame, State
from toolkit.groups import SiteWants
from toolkit.verbs.cli import doctor
from toolkit.verbs.cli.session import Session
from toolkit.verbs.doctor import Gathered
from toolkit.want import Want

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())
SLOWER = INFINIBAND.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1)
OLDER = INFINIBAND.replace("fw_ver:28.43.2026", "fw_ver:28.43.2024")


@pytest.mark.parametrize(
    ("infiniband", "told"),
    [
        pytest.param(INFINIBAND, ([], ExitCode.OK), id="alike"),
        pytest.param(SLOWER, (["between.rate"], ExitCode.FAILED), id="slower"),
        pytest.param(OLDER, (["between.firmware"], ExitCode.OK), id="a-mix-of-versions"),
    ],
)
def test_what_differs_between_nodes_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    infiniband: str,
    told: tuple[list[str], ExitCode],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    saved = tmp_path / "saved"
    saved.mkdir()
    for name, own in (("gpu001", INFINIBAND), ("gpu002", infiniband), ("gpu003", INFINIBAND)):
        text = node({"hostname": f"{name}\n", "infiniband": own}).dump()
        (saved / f"{name}.evidence").write_text(text)
    words = ("--profile", "peermem", "--json")
    code = here(monkeypatch, "doctor", "--from", str(saved), *words)
    seen = capsys.readouterr()
    found = json.loads(seen.out)
    jsonschema.validate(found, SCHEMA)
    assert "note:" not in seen.err, "and no file that nobody asked for is missed"
    assert found["exit_code"] == code
    failing = [each["id"] for each in found["between"] if each["status"] == "fail"]
    assert (failing, code) == told
    here(monkeypatch, "doctor", "--from", str(saved / "gpu002.evidence"), *words)
    assert "between" not in json.loads(capsys.readouterr().out)


DEAD = judged("gpu9", gpu__xid=failed("Xid 95", expected="no Xid of memory"))
LOG = (Frame("nccl-log", State.OK, "job.log", "x\n"),)
INSIDE = (Frame("inside", State.OK, "image", "kind image\n"),)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """A run of doctor that was told this."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda **words: Session.begin("doctor", Said({"profile": "peermem", **words}))


@pytest.mark.parametrize(("nccl", "verbose"), [("", True), ("job.log", False)])
def test_the_report_and_the_last_line_have_what_was_found(
    session: Callable[..., Session],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    nccl: str,
    verbose: bool,
) -> None:
    def report(told: object, _: object, **more: object) -> str:
        asked = ("nccl.log", "nccl.agrees") if nccl else ()
        assert told is outcomes
        assert more == {
            "verbose": verbose, "asked": asked, "aside": aside, "between": ["between"] * verbose,
        }  # fmt: skip
        return "the report"

    def lines(told: object, _: object, **more: object) -> list[str]:
        assert (told, more) == (between, {"verbose": verbose, "brief": True})
        return ["between"]

    monkeypatch.setattr("toolkit.report.text.report", report)
    monkeypatch.setattr("toolkit.report.between.between_lines", lines)
    monkeypatch.setattr("toolkit.report.between.between_document", lambda _: {"between": [1]})
    away: Outcome[Judged] = Outcome("gpu3", error=TransportError("gpu3: away"))
    text = replace(HEALTHY, host="topo", text=True)
    outcomes = [*(Outcome(each.host, each) for each in (HEALTHY, SICK, DEAD, text)), away]
    aside: list[Any] = []
    between: list[Any] = ["a rule"] * verbose
    run = session(nccl_log=nccl, verbose=verbose)
    code = doctor._reported(run, outcomes, aside, ExitCode.FAILED, between)
    assert (code, capsys.readouterr().out) == (ExitCode.FAILED, "the report\n")
    said = run.said
    assert (said.sick, said.beyond, said.texts) == ({"gpu9"}, {"gpu9"}, {"topo"})
    kept = json.loads((run.folder.path / "report.json").read_text())
    assert len(kept["hosts"]) == len(outcomes)
    assert kept.get("between") == ([1] if verbose else None)


@pytest.mark.parametrize(
    "words",
    [
        {"only": "rdma"},
        {"inside": "docker:x"},
        {"textfile": "x"},
        {"kernel": "6"},
        {"skip": "rdma"},
    ],
)
def test_what_goes_together_is_not_refused(words: dict[str, str | int | bool]) -> None:
    doctor._refuse_part(Said(words))


def test_the_collectors_file_is_told_of_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "gpu001.evidence").write_text(node().dump())
    words = ("--from", str(tmp_path / "gpu001.evidence"), "--textfile", str(tmp_path / "x.prom"))
    assert here(monkeypatch, "doctor", *words) == ExitCode.OK
    assert 'host="gpu001"' in (tmp_path / "x.prom").read_text()


@pytest.mark.parametrize(
    ("words", "files", "also"),
    [
        ({"hosts": "a"}, None, ()),
        ({"hosts": "a", "nccl_log": "job.log"}, None, LOG),
        ({"hosts_file": "h", "nccl_log": "job.log"}, None, LOG),
        ({"inventory": "i", "nccl_log": "job.log"}, None, LOG),
        ({"nccl_log": "job.log"}, ["job.log"], LOG),
        ({"from_": "a\0b"}, ["a", "b"], ()),
        ({"from_": "a", "nccl_log": "job.log", "inside": "image:/x"}, ["a"], (*LOG, *INSIDE)),
    ],
)
def test_what_is_judged_is_what_was_named_with_the_job_and_the_image(
    session: Callable[..., Session],
    monkeypatch: pytest.MonkeyPatch,
    words: dict[str, str],
    files: list[str] | None,
    also: tuple[Frame, ...],
) -> None:
    @contextmanager
    def fleet(_: Said) -> Iterator[str]:
        yield "a fleet"

    def examine(*told: object, **more: object) -> list[Outcome[Judged]]:
        seen.append((*told, more))
        return []

    seen: list[Any] = []
    monkeypatch.setattr(doctor, "fleet", fleet)
    monkeypatch.setattr(doctor, "examine", examine)
    monkeypatch.setattr(doctor, "examine_files", examine)
    monkeypatch.setattr("toolkit.verbs.pasted_logs.import_log", {Path("job.log"): LOG}.get)
    monkeypatch.setattr(
        "toolkit.verbs.inside.opened_inside",
        lambda where: SimpleNamespace(frames=INSIDE * (where == "image:/x")),
    )
    run, wants, aside = session(**words), SiteWants(Want()), list[Any]()
    gathered = Gathered(wants)
    assert doctor._examined(run, wants, aside, gathered) == []
    (found,) = seen
    if files is None:
        assert found[:4] == ("a fleet", wants, run.today, run.folder)
        assert found[4] == {"also": also, "gathered": gathered, "then": doctor._import_report}
    else:
        assert found[0] == [Path(each) for each in files]
        assert found[1] is aside
        assert found[2:] == (wants, run.today, {"also": also, "gathered": gathered})
