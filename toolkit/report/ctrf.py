"""Verdicts as a CTRF document: one test for each host and check.

Only a pass counts as passed. What could not be known is "other", as the format has no word for
it, with our own word beside it; what does not apply and what is waived is skipped.
Source: Common Test Report Format, specification 0.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from toolkit import __version__
from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.errors import Outcome
from toolkit.report.document import Json, Judgements, ReportRun, dumps
from toolkit.report.text import verdict_text

_SPECIFICATION = "0.0.0"
_STATUS = {
    Status.PASS: "passed",
    Status.FAIL: "failed",
    Status.UNKNOWN: "other",
    Status.NA: "skipped",
}
_COUNTED = ("passed", "failed", "skipped", "pending", "other")
_LONE = re.compile("[\ud800-\udfff]")  # undecodable bytes of a node; strict readers refuse them


def text(outcomes: Judgements, run: ReportRun) -> str:
    """What goes into the file."""
    return dumps(ctrf(outcomes, run))


def ctrf(outcomes: Judgements, run: ReportRun) -> dict[str, Json]:
    """The whole document; times are milliseconds since 1970, as the format has them."""
    tests: list[Json] = []
    counts: Counter[str] = Counter()
    for status, told in _tests(outcomes):
        tests.append(told)
        counts[status] += 1
    return {
        "reportFormat": "CTRF",
        "specVersion": _SPECIFICATION,
        "generatedBy": "gdr-toolkit",
        "results": {
            "tool": {"name": f"gdr-toolkit {run.verb}", "version": __version__},
            "summary": {
                "tests": len(tests),
                **{name: counts[name] for name in _COUNTED},
                "suites": len(outcomes),
                "start": _milliseconds(run.began),
                "stop": _milliseconds(run.ended),
            },
            "tests": tests,
        },
    }


def _tests(outcomes: Sequence[Outcome[Judged]]) -> Iterator[tuple[str, Json]]:
    for outcome in outcomes:
        host, judged = _plain(outcome.host), outcome.value
        if judged is None:
            yield "failed", _test(host, "reach", "failed", str(outcome.error))
            continue
        if not judged.complete:
            yield "failed", _test(host, "reach", "failed", "its evidence was cut off")
        for verdict in judged.verdicts:
            yield _verdict(host, judged, verdict)


def _verdict(host: str, judged: Judged, verdict: Verdict) -> tuple[str, Json]:
    check, status = verdict.check, _STATUS[verdict.status]
    raw, message = verdict.status.value, verdict.finding.found
    if verdict.waived(judged.today) and verdict.waiver:
        status, raw, message = "skipped", "waived", f"waived: {verdict.waiver.reason}"
    told = _test(host, check.id, status, message)
    told |= {"rawStatus": raw, "tags": [check.impact.value, check.tense.value]}
    if status in ("failed", "other"):
        told["trace"] = _plain(verdict_text(judged.host, verdict))
    return status, told


def _test(host: str, name: str, status: str, message: str) -> dict[str, Json]:
    told: dict[str, Json] = {
        "name": name,
        "suite": [host],
        "testId": f"{host}/{name}",
        "status": status,
        "duration": 0,  # a node is asked once: no check has a time of its own
    }
    return told | ({"message": _plain(message)} if message else {})


def _milliseconds(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def _plain(text: str) -> str:
    return _LONE.sub("\ufffd", text)
