"""Verdicts for Prometheus: one state a host, and no sample for what was not read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.report.test_report_sarif import LOST, WAIVED
from tests.unit.exposition import Key, parse
from tests.unit.judged import BARE, HEALTHY, SICK, TODAY, UNSURE
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome
from toolkit.report.prometheus import (
    HELP,
    PREFIX,
    STATES,
    Remembered,
    exposition,
    failed,
    remembered,
)

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
AT = int(NOW.timestamp())
CUT = Judged("gpu005", HEALTHY.verdicts, TODAY, complete=False)


def key(metric: str, **labels: str) -> Key:
    return f"{PREFIX}_{metric}", tuple(sorted(labels.items()))


def told(*outcomes: Outcome[Judged], before: Remembered | None = None) -> dict[Key, int]:
    return parse(exposition(outcomes, ExitCode.FAILED, NOW, before or Remembered()))


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome("gpu001", HEALTHY), "ready"),
        (Outcome("gpu002", SICK), "slow"),
        (Outcome("gpu003", UNSURE), "unknown"),
        (Outcome("login1", BARE), "no GPU"),
        (Outcome("gpu005", CUT), "cut off"),
        (LOST, "out of reach"),
    ],
)
def test_a_host_is_in_one_state(outcome: Outcome[Judged], state: str) -> None:
    found = told(outcome)
    states = {each: found[key("host_state", host=outcome.host, state=each)] for each in STATES}
    assert states == {each: int(each == state) for each in STATES}


def test_what_fails_has_a_sample_and_what_passes_has_none() -> None:
    found = told(Outcome("gpu002", SICK), Outcome("gpu003", UNSURE), Outcome("gpu004", WAIVED))
    checks = {each: value for each, value in found.items() if each[0] == f"{PREFIX}_check"}
    rows = {(dict(labels)["check"], dict(labels)["status"]) for _, labels in checks}
    assert rows == {
        ("iommu.passthrough", "fail"),
        ("pcie.bar1", "unknown"),
        ("iommu.passthrough", "waived"),
    }
    assert set(checks.values()) == {1}


def test_a_waived_failure_is_counted_apart() -> None:
    found = told(Outcome("gpu004", WAIVED))
    assert found[key("checks", host="gpu004", status="waived")] == 1
    assert found[key("checks", host="gpu004", status="fail")] == 0


@pytest.mark.parametrize("bad", [LOST, Outcome("gpu005", CUT)], ids=["lost", "cut"])
def test_a_host_that_was_not_read_in_full_is_no_success(bad: Outcome[Judged]) -> None:
    before = Remembered(AT - 60, {bad.host: AT - 60})
    found = told(Outcome("gpu001", HEALTHY), bad, before=before)
    assert found[key("run_success")] == 0
    assert found[key("success_timestamp_seconds")] == AT - 60
    assert found[key("host_read_timestamp_seconds", host=bad.host)] == AT - 60


def test_a_run_that_fails_leaves_nothing_but_when_hosts_were_read() -> None:
    text = exposition([Outcome("gpu001", HEALTHY)], ExitCode.OK, NOW, Remembered())
    before = remembered(text, PREFIX)
    assert before == Remembered(AT, {"gpu001": AT})
    found = parse(failed(NOW, before))
    assert found[key("run_success")] == 0
    assert not [each for each in found if "state" in each[0]]


def test_the_guide_names_every_metric_of_doctor() -> None:
    page = Path(__file__).parents[2] / "docs/monitoring.md"
    assert set(re.findall(r"`(gdr_doctor_[a-z_]+)", page.read_text())) == set(HELP)
