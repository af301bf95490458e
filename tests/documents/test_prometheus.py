"""What we tell Prometheus is what its own tool takes, and what our dashboard and alerts ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents.promtool import promtool
from tests.documents.test_schemas import ALL
from tests.features.drift.test_drift_report import captured
from toolkit.errors import ExitCode
from toolkit.features.drift import show as prometheus
from toolkit.report import prometheus as of_doctor
from toolkit.report.prometheus import Remembered

DOCS = Path(__file__).parents[2] / "docs"
WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
DOCTOR = of_doctor.exposition(ALL, ExitCode.FAILED, WHEN, Remembered())
WELL = of_doctor.exposition(ALL[:1], ExitCode.OK, WHEN, Remembered())
DRIFT = prometheus.exposition(captured(), ExitCode.FAILED, WHEN, Remembered())
_NAME = re.compile(r"\bgdr_[a-z_]+")


def written() -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) gauge$", DOCTOR + WELL + DRIFT, re.MULTILINE))


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DOCS / "grafana/gdr-toolkit.json").read_text())
    return loaded


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_promtool_finds_nothing_to_mend() -> None:
    assert promtool("check", "metrics", given=DOCTOR + DRIFT) == (0, "")


def test_promtool_refuses_what_is_no_exposition() -> None:
    broken = DOCTOR.replace('"} 1', '"} one', 1)
    assert promtool("check", "metrics", given=broken)[0] != 0


def test_the_dashboard_asks_for_what_is_written_and_in_words_of_prometheus(tmp_path: Path) -> None:
    asked = list(expressions())
    assert set(_NAME.findall(" ".join(asked))) <= written()
    rules = [
        {"record": f"panel:{at}:asked", "expr": each.replace("$host", ".*")}
        for at, each in enumerate(asked)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    status, said = promtool("check", "rules", str(file))
    assert status == 0, said
    assert f"{len(asked)} rules found" in said


def test_panels_of_the_dashboard_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    cells = [
        (x, y)
        for each in panels
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_alerts_are_rules_about_what_is_written() -> None:
    file = DOCS / "grafana/alerts.yml"
    status, said = promtool("check", "rules", str(file))
    assert status == 0, said
    assert "5 rules found" in said
    assert set(_NAME.findall(" ".join(re.findall(r"expr: (.*)", file.read_text())))) <= written()


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        pytest.param({"gdr_doctor_run_success": "0x240"}, True, id="no-run-ever-read-all"),
        pytest.param({"gdr_doctor_success_timestamp_seconds": "0x240"}, True, id="long-ago"),
        pytest.param({"gdr_doctor_success_timestamp_seconds": "0+60x240"}, False, id="just-now"),
    ],
)
def test_nobody_looking_is_told_whether_or_not_anybody_ever_did(
    values: dict[str, str], fires: bool, tmp_path: Path
) -> None:
    name = "GpuDirectNotLookedAt"
    told = {"exp_labels": {"severity": "warning"}, "exp_annotations": said_by(name)}
    case = {
        "interval": "1m",
        "input_series": [{"series": metric, "values": run} for metric, run in values.items()],
        "alert_rule_test": [
            {"eval_time": "3h", "alertname": name, "exp_alerts": [told] if fires else []}
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(DOCS / "grafana/alerts.yml")], "tests": [case]})
    )
    status, said = promtool("test", "rules", str(file))
    assert status == 0, said


def said_by(alert: str) -> dict[str, str]:
    [group] = yaml.safe_load((DOCS / "grafana/alerts.yml").read_text())["groups"]
    found: dict[str, str] = next(
        each["annotations"] for each in group["rules"] if each["alert"] == alert
    )
    return found
