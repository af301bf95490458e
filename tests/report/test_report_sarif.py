"""SARIF and CTRF: what counts as a finding, as passed, and as nothing at all."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.unit.judged import BARE, HEALTHY, SICK, SLOW, TODAY, UNSURE, judged, verdict
from toolkit.checks.check import failed
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.report.ctrf import ctrf
from toolkit.report.document import ReportRun
from toolkit.report.sarif import sarif
from toolkit.want import Waiver

WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
RUN = ReportRun(
    "doctor", WHEN, WHEN, ExitCode.FAILED, "/srv/runs/one two", lambda host: f"{host}.evidence"
)
LOST: Outcome[Judged] = Outcome(
    "gpu009", error=TransportError("gpu009: refused", hint="is sshd up?")
)
WAIVER = Waiver("iommu.passthrough", "VMs", date(2027, 1, 1))
WAIVED = Judged("gpu004", (verdict("iommu.passthrough", SLOW, WAIVER),), TODAY)


def log(*nodes: Judged, lost: bool = False) -> dict[str, Any]:
    outcomes = [*(Outcome(each.host, each) for each in nodes), *([LOST] if lost else [])]
    whole: Any = sarif(outcomes, RUN)["runs"]
    run: dict[str, Any] = whole[0]
    return run


def cases(*nodes: Judged, lost: bool = False) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    outcomes = [*(Outcome(each.host, each) for each in nodes), *([LOST] if lost else [])]
    results: Any = ctrf(outcomes, RUN)["results"]
    return results["summary"], results["tests"]


def test_what_passes_and_what_does_not_apply_is_no_finding() -> None:
    assert log(HEALTHY, BARE)["results"] == []


def test_a_failure_is_a_finding_of_its_impact_and_an_unknown_an_open_question() -> None:
    found = log(SICK, UNSURE)["results"]
    assert [(each["kind"], each["level"]) for each in found] == [
        ("fail", "warning"),
        ("open", "none"),
    ]
    assert "translated: DMA-FQ on 16" in found[0]["message"]["text"]
    assert "Not known" in found[1]["message"]["text"]


def test_each_finding_points_at_its_rule() -> None:
    run = log(SICK, UNSURE)
    rules = run["tool"]["driver"]["rules"]
    for each in run["results"]:
        assert rules[each["ruleIndex"]]["id"] == each["ruleId"]


def test_a_waived_failure_is_there_and_suppressed_with_its_reason() -> None:
    (found,) = log(WAIVED)["results"]
    assert found["suppressions"] == [
        {"kind": "external", "justification": "VMs (until 2027-01-01)"}
    ]


def test_a_finding_keeps_its_fingerprint_whatever_was_found() -> None:
    other = judged(
        SICK.host, iommu__passthrough=failed("translated: DMA on 2", expected="identity")
    )
    elsewhere = judged("gpu007", iommu__passthrough=SLOW)
    prints = [log(n)["results"][0]["partialFingerprints"] for n in (SICK, other, elsewhere)]
    assert prints[0] == prints[1] != prints[2]


def test_a_node_out_of_reach_is_no_clean_run() -> None:
    (told,) = log(HEALTHY, lost=True)["invocations"]
    assert told["executionSuccessful"] is False
    (said,) = told["toolExecutionNotifications"]
    assert said["message"]["text"] == "gpu009: refused; is sshd up?"
    assert log(HEALTHY)["invocations"][0]["executionSuccessful"] is True


def test_evidence_that_was_cut_off_is_no_clean_run() -> None:
    cut = Judged("gpu005", HEALTHY.verdicts, TODAY, complete=False)
    assert log(cut)["invocations"][0]["executionSuccessful"] is False
    summary, told = cases(cut)
    assert (summary["failed"], told[0]["message"]) == (1, "its evidence was cut off")


def test_the_evidence_is_named_in_a_way_that_a_uri_can_carry() -> None:
    run = log(judged("gpu 1/ü", iommu__passthrough=SLOW))
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == "gpu%201%2F%C3%BC.evidence"
    base = run["originalUriBaseIds"]["EVIDENCE"]["uri"]
    assert base.endswith("/srv/runs/one%20two/")


@pytest.mark.parametrize(
    ("node", "status", "raw"),
    [(SICK, "failed", "fail"), (UNSURE, "other", "unknown"), (BARE, "skipped", "n/a"),
     (WAIVED, "skipped", "waived")],
)  # fmt: skip
def test_only_a_pass_counts_as_passed(node: Judged, status: str, raw: str) -> None:
    summary, told = cases(node)
    assert (told[-1]["status"], told[-1]["rawStatus"]) == (status, raw)
    assert summary["passed"] == sum(each["status"] == "passed" for each in told) < summary["tests"]
    assert summary["tests"] == sum(
        summary[each] for each in ("passed", "failed", "skipped", "pending", "other")
    )


def test_a_host_out_of_reach_is_a_failed_test() -> None:
    summary, (told,) = cases(lost=True)
    assert (summary["failed"], told["name"], told["status"]) == (1, "reach", "failed")
