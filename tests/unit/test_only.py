"""``--only`` and ``--skip``: some checks alone are judged, told of and planned for."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    OURS_BY_NAME,
    STUBBED,
    TRANSLATED,
    frames,
    placed,
    plan_for,
)
from toolkit.checks.all import ALL
from toolkit.checks.judged import Judged, judge_node
from toolkit.checks.selection import selection
from toolkit.cli import main
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.evidence import Evidence
from toolkit.report.text import count_line
from toolkit.verbs.cli.provision import _beside
from toolkit.verbs.plan import NO_CHANGE, Planned, plan_node
from toolkit.verbs.provision import Provisioned, _worse, as_wanted, done_well
from toolkit.want import Selection, Want

DAY = date(2026, 11, 22)
IOMMU = Want(checks=selection("iommu", ""))
ILL = frames(TRANSLATED, NO_AUTOLOAD, LITTLE_MEMLOCK)


def judged(want: Want, evidence: Evidence) -> Judged:
    return judge_node("gpu1", evidence, want, DAY)


@pytest.mark.parametrize(
    ("only", "skip", "left"),
    [
        pytest.param("rdma.port", "", ["rdma.port"], id="an-id"),
        pytest.param("kernel.config", "", ["dmabuf", "infiniband", "p2pdma", "modsig"], id="part"),
        pytest.param("rdma.port,between.mtu", "between.ofed", ["port"], id="between-nodes"),
        pytest.param("acs.*, iommu.b*", "acs.mask", ["boot", "redirect", "persistence"], id="both"),
    ],
)
def test_a_check_is_named_whole_or_by_how_it_begins(only: str, skip: str, left: list[str]) -> None:
    found = selection(only, skip)
    ids = {each.id for each in ALL if found.has(each.id)}
    assert {each.rpartition(".")[2] for each in ids} == {each.rpartition(".")[2] for each in left}


def test_what_is_skipped_is_all_but_that() -> None:
    left = [each.id for each in ALL if selection("", "peermem").has(each.id)]
    assert left == [each.id for each in ALL if not each.id.startswith("peermem.")]
    assert all(map(Selection().has, left))


@pytest.mark.parametrize(
    ("only", "skip", "message", "hint"),
    [
        pytest.param("rdma.prot", "", "--only: no check 'rdma.prot'", "rdma.port?", id="id"),
        pytest.param("", "peermen.*", "--skip: no check 'peermen.*'", "peermem?", id="topic"),
        pytest.param("pcie.acs", "", "--only: no check 'pcie.acs'", "mean acs?", id="its-topic"),
        pytest.param(",", "", "--only ',' names no check", "lists them", id="none"),
        pytest.param("rdma", "rdma", "leave no check", "fewer", id="nothing-left"),
        pytest.param("between", "", "leaves no check of a node", "rdma", id="between-alone"),
        pytest.param("between.mtv", "", "no check 'between.mtv'", "between.mtu?", id="between"),
    ],
)
def test_a_name_that_no_check_has_is_refused_with_the_one_meant(
    only: str, skip: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        selection(only, skip)
    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_a_node_that_was_not_judged_whole_is_never_called_ready() -> None:
    well = judged(IOMMU, node())
    assert {each.check.id.partition(".")[0] for each in well.verdicts} == {"iommu"}
    assert (well.state, well.exit_code) == ("passes", ExitCode.OK)
    told = count_line([Outcome("gpu1", well), Outcome("gpu2", judged(IOMMU, node(ILL)))])
    count = len(well.verdicts)
    assert told == f"{count} of {len(ALL)} checks judged, as --only says: 1 of 2 nodes pass these."
    skipping = judged(Want(checks=selection("", "iommu")), node(TRANSLATED))
    assert (skipping.state, len(skipping.verdicts)) == ("passes", len(ALL) - count)
    assert count_line([Outcome("gpu1", skipping)]).endswith(
        "--skip says: 1 of 1 node passes these."
    )


def test_a_plan_is_for_what_the_named_checks_ask_for() -> None:
    whole, alone = plan_for(ILL), plan_for(ILL, IOMMU)
    assert [each.artefact for each in alone.changes] == ["boot.arguments"]
    assert {"boot.arguments", "modules-load.peermem"} < {each.artefact for each in whole.changes}
    rest = plan_for(ILL, Want(checks=selection("", "iommu")))
    assert {each.artefact for each in rest.changes} == {
        each.artefact for each in whole.changes if each.artefact != "boot.arguments"
    }


def test_what_other_checks_would_have_changed_stays() -> None:
    """A file of ours that is no longer wanted, one whose text differs, work that is owed."""
    names = ("limits.logins", "modules-load.peermem")
    old = {OURS_BY_NAME[name]: "old\n" for name in names} | {"/etc/gdr-toolkit/gone": "x\n"}
    here = frames(placed(old), {"pending": "DEPMOD depmod -a\n"})
    assert not plan_for(here).empty
    alone = plan_for(here, IOMMU)
    assert (alone.empty, alone.blocked) == (True, ())


def test_a_change_that_rests_on_a_check_that_is_left_out_says_so() -> None:
    stub = frames(STUBBED, NO_AUTOLOAD)
    assert "modules-load.peermem" in {each.artefact for each in plan_for(stub).changes}
    alone = plan_for(stub, Want(checks=selection("peermem.autoload", "")))
    assert [each.artefact for each in alone.blocked] == ["modules-load.peermem"]
    assert alone.blocked[0].reason.startswith("nothing in this plan mends peermem.stub")
    assert alone.empty


def test_what_a_change_makes_worse_counts_though_nobody_named_it() -> None:
    """A trial is given up, the node ends with 2 and is not given back, and it is told of."""
    start, now = (plan_node("gpu1", e, IOMMU, DAY) for e in (node(), node(NO_AUTOLOAD)))
    assert _worse(now, start) == {"peermem.autoload"}
    done = Provisioned(start.judged, now.judged)
    assert (done.after.exit_code, done.exit_code) == (ExitCode.OK, ExitCode.FAILED)
    assert not done_well(Outcome("gpu1", done))
    assert _beside([Outcome("gpu1", done)]) == ["", "gpu1: worse than before: peermem.autoload"]
    skipping = replace(IOMMU, checks=selection("iommu", "peermem"))
    left = [plan_node("gpu1", e, skipping, DAY) for e in (node(), node(NO_AUTOLOAD))]
    assert _worse(left[1], left[0]) == set()


def test_what_was_wrong_before_is_no_harm_and_keeps_a_drained_node_out() -> None:
    ill = plan_node("gpu1", node(NO_AUTOLOAD), IOMMU, DAY).judged
    done = Provisioned(ill, ill)
    assert (done_well(Outcome("gpu1", done)), done.exit_code) == (True, ExitCode.OK)
    assert not as_wanted(done)
    assert not done_well(Outcome("gpu1", replace(done, service="stays drained")))
    assert Planned(ill, NO_CHANGE).judged.whole.exit_code is ExitCode.FAILED


def doctor(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["gdr", *words])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "gpu1.evidence"
    file.write_text(node(NO_AUTOLOAD).dump())
    return str(file)


def test_of_a_text_it_is_told_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "topo").write_text("\tGPU0\tNIC0\nGPU0\t X \tSYS\nNIC0\tSYS\t X \n")
    doctor(monkeypatch, "doctor", str(tmp_path / "topo"), "--only", "pcie")
    assert capsys.readouterr().out.endswith(f" of {len(ALL)} checks judged, as --only says\n")


@pytest.mark.parametrize("verb", ["doctor", "plan"])
def test_the_document_says_which_checks_its_verdicts_are_of(
    saved: str, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = doctor(
        monkeypatch, verb, "--from", saved, "--only", "rdma,acs", "--skip", "acs", "--json"
    )
    told = json.loads(capsys.readouterr().out)
    schema = Path(__file__).parents[2] / "docs/report.schema.json"
    jsonschema.validate(told, json.loads(schema.read_text()))
    count = len(told["hosts"][0]["verdicts"])
    assert told["checks"] == {
        "judged": count, "of": len(ALL), "only": ["rdma", "acs"], "skip": ["acs"],
    }  # fmt: skip
    assert (code, told["summary"]["states"]) == (0, {"passes": 1})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("doctor --only rdmaa", "rdmaa"),
        ("doctor --skip rdma --textfile nodes.prom", "--textfile tells of whole nodes, and --skip"),
        ("doctor --only rdma --next-boot", "--only is for checks, and a forecast has none"),
        ("doctor --skip rdma --kernel 6.8.0-1-generic", "--skip is for checks"),
        ("doctor --next-boot --kernel 6.8.0-1-generic", "--kernel and --next-boot ask for two"),
        ("doctor --kernel newest", "--kernel 'newest' is no kernel release"),
        ("doctor --next-boot --textfile nodes.prom", "--textfile tells of the kernel that runs"),
        ("plan --sign-key k", "--sign-key signs what is delivered"),
        ("plan --sign-cert c", "--sign-key signs what is delivered"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(
    words: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctor(monkeypatch, *words.split(), "--from", "nothing") == ExitCode.USAGE
    told = capsys.readouterr()
    assert [line[:7] for line in told.err.splitlines()] == ["error: ", " next: "]
    assert says in told.err
    assert (told.out, list(tmp_path.iterdir())) == ("", [])
