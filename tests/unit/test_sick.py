"""What it means that a node is sick, in everything that is made of verdicts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.judged import HEALTHY, SLOW, judged
from toolkit.checks.check import Finding, Impact, failed
from toolkit.errors import ExitCode, Outcome
from toolkit.features.page.show.parts import MEANS, STATES
from toolkit.report import prometheus, sarif
from toolkit.report.document import ReportRun
from toolkit.report.prometheus import Remembered
from toolkit.report.table import Painter
from toolkit.report.text import count_line, summary
from toolkit.verbs.provision import Provisioned, as_wanted, harm

ROOT = Path(__file__).parents[2]
BROKE = failed("not loaded", expected="loaded")
DEAD = failed("0000:ca:00.0: Xid 95", expected="no Xid of memory, firmware, NVLink or bus")
DYING = judged("gpu009", gpu__xid=DEAD, peermem__loaded=BROKE, iommu__passthrough=SLOW)


def test_the_worst_impact_names_the_state() -> None:
    assert DYING.state == "sick"


def test_it_ends_with_the_exit_code_of_any_failure() -> None:
    assert DYING.exit_code is ExitCode.FAILED


@pytest.mark.parametrize(
    ("findings", "mendable"),
    [
        ({"gpu__xid": DEAD}, False),
        ({"inside__shm": failed("62 MiB", expected="1 GiB")}, False),
        ({"inside__shm": failed("62 MiB", expected="1 GiB"), "peermem__loaded": BROKE}, True),
        ({}, True),
    ],
    ids=["hardware", "a-container", "a-container-and-its-node", "nothing-fails"],
)
def test_no_plan_mends_hardware_or_what_is_in_a_container(
    findings: dict[str, Finding], mendable: bool
) -> None:
    assert judged("gpu1", **findings).mendable is mendable


def test_the_last_line_says_what_to_do_with_it() -> None:
    assert count_line([Outcome("a", HEALTHY)]).endswith("RDMA.")
    assert count_line([Outcome("a", DYING)]).endswith(" 1 is sick: drain it.")
    assert count_line([Outcome("a", DYING)] * 2).endswith(" 2 are sick: drain them.")


def test_its_state_has_a_colour_of_its_own() -> None:
    lines = summary([Outcome("gpu009", DYING)], Painter(coloured=True))
    assert "\x1b[35msick\x1b[0m" in "\n".join(lines)


@pytest.mark.parametrize("impact", Impact)
def test_each_impact_is_known_wherever_impacts_are_told_apart(impact: Impact) -> None:
    pages = ROOT / "toolkit/report/pages"
    assert impact in STATES
    assert impact in MEANS
    assert impact in prometheus.STATES
    assert f"\n.{impact} {{" in (pages / "base.css").read_text()
    assert f"\n.fill-{impact} {{" in (pages / "fleet.css").read_text()
    assert f"\n.edge-{impact} {{" in (pages / "fleet.css").read_text()
    for schema in ("report", "checks"):
        assert f'"{impact}"' in (ROOT / f"docs/{schema}.schema.json").read_text()
    for page in ("guide", "checks"):
        assert f"\n| {impact} | " in (ROOT / f"docs/{page}.md").read_text()
    assert f"{impact}," in (ROOT / "docs/monitoring.md").read_text()


def test_code_scanning_takes_it_for_an_error() -> None:
    when = datetime(2026, 11, 23, tzinfo=UTC)
    run = ReportRun("doctor", when, when, ExitCode.FAILED, "", lambda host: host)
    log = json.loads(json.dumps(sarif.sarif([Outcome("gpu009", DYING)], run)))
    levels = {each["ruleId"]: each["level"] for each in log["runs"][0]["results"]}
    assert levels["gpu.xid"] == "error"


def test_it_has_a_sample_of_its_own() -> None:
    when = datetime(2026, 11, 23, tzinfo=UTC)
    told = prometheus.exposition([Outcome("gpu009", DYING)], ExitCode.FAILED, when, Remembered())
    assert 'gdr_doctor_host_state{host="gpu009",state="sick"} 1' in told
    assert 'gdr_doctor_host_state{host="gpu009",state="broken"} 0' in told


def test_a_canary_that_turned_sick_is_not_as_wanted_and_is_worse_than_before() -> None:
    turned = Provisioned(judged("gpu009"), judged("gpu009", gpu__xid=DEAD))
    assert not as_wanted(turned)
    assert harm(turned) == "worse than before: gpu.xid"
