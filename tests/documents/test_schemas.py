"""What machines read of us keeps the schemas that others publish for it."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.documents.published import CTRF, JENKINS, SARIF, Published
from tests.unit.judged import BARE, HEALTHY, SICK, SLOW, TODAY, UNSURE, judged, verdict
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.report.ctrf import ctrf
from toolkit.report.document import ReportRun, dumps
from toolkit.report.junit import junit
from toolkit.report.sarif import sarif
from toolkit.want import Waiver

WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
RUN = ReportRun(
    "doctor", WHEN, WHEN, ExitCode.UNREACHABLE, "/srv/runs/one two", lambda host: f"{host}.evidence"
)
WAIVED = Judged(
    "gpu004",
    (verdict("iommu.passthrough", SLOW, Waiver("iommu.passthrough", "VMs", date(2027, 1, 1))),),
    TODAY,
)
HOSTILE = judged("gpu\udcff<&>", iommu__passthrough=SLOW)
LOST: Outcome[Judged] = Outcome(
    "gpu009", error=TransportError("gpu009: refused", hint="is sshd up?")
)
ALL = [*(Outcome(n.host, n) for n in (HEALTHY, SICK, UNSURE, BARE, WAIVED, HOSTILE)), LOST]


def against(schema: Published, document: str) -> None:
    loaded: dict[str, Any] = json.loads(document)
    jsonschema.validate(loaded, json.loads(schema.path.read_text()))


@pytest.mark.parametrize("outcomes", [ALL, ALL[:1], [LOST], []], ids=["all", "one", "lost", "none"])
def test_sarif_keeps_the_standards_schema(outcomes: list[Outcome[Judged]]) -> None:
    against(SARIF, dumps(sarif(outcomes, RUN)))


@pytest.mark.parametrize("outcomes", [ALL, ALL[:1], [LOST], []], ids=["all", "one", "lost", "none"])
def test_ctrf_keeps_its_schema(outcomes: list[Outcome[Judged]]) -> None:
    against(CTRF, dumps(ctrf(outcomes, RUN)))


def test_the_schemas_refuse_what_they_do_not_know() -> None:
    log = sarif(ALL, RUN) | {"version": "2.2.0"}
    with pytest.raises(jsonschema.ValidationError, match=r"2\.2\.0"):
        against(SARIF, dumps(log))
    report = ctrf(ALL, RUN) | {"verdicts": 1}
    with pytest.raises(jsonschema.ValidationError, match="verdicts"):
        against(CTRF, dumps(report))


def xmllint(schema: Published, document: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "report.xml"
    file.write_text(document, encoding="utf-8")
    argv = ("xmllint", "--nonet", "--noout", "--schema", str(schema.path), str(file))
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_junit_keeps_jenkins_schema(tmp_path: Path) -> None:
    done = xmllint(JENKINS, junit(ALL), tmp_path)
    assert (done.returncode, done.stderr.split()[-1]) == (0, "validates")


def test_jenkins_schema_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    broken = junit(ALL).replace("<failure", "<defeat").replace("</failure", "</defeat")
    assert "defeat" in xmllint(JENKINS, broken, tmp_path).stderr
