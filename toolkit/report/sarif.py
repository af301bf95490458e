"""Verdicts as SARIF 2.1.0, for code scanning and whatever else gathers findings over time.

A failing check is a result of kind "fail", an unknown one of kind "open"; what passes or does
not apply is no finding and is left out. A waived failure is there, suppressed, with its reason.
Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from hashlib import sha256
from urllib.parse import quote

from toolkit import __version__
from toolkit.checks.check import Check, Impact, Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, ToolkitError
from toolkit.package_data import as_called
from toolkit.report.document import Json, Judgements, ReportRun, dumps

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVEL = {
    Impact.SICK: "error",
    Impact.BROKEN: "error",
    Impact.SLOW: "warning",
    Impact.FRAGILE: "warning",
}
_FINDINGS = frozenset({Status.FAIL, Status.UNKNOWN})
_LONE = re.compile("[\ud800-\udfff]")  # undecodable bytes of a node; strict readers refuse them
_EVIDENCE = "EVIDENCE"  # the folder of the run, which a viewer may have elsewhere


def text(outcomes: Judgements, run: ReportRun) -> str:
    """What goes into the file."""
    return dumps(sarif(outcomes, run))


def sarif(outcomes: Judgements, run: ReportRun) -> dict[str, Json]:
    """One SARIF log with one run."""
    # Every check that was asked, whether or not anything was found, by id.
    seen = {
        verdict.check.id: verdict.check
        for outcome in outcomes
        if outcome.value
        for verdict in outcome.value.verdicts
    }
    rules = [seen[name] for name in sorted(seen)]
    places = {check.id: at for at, check in enumerate(rules)}
    results = [
        _result(outcome.value, verdict, places, run.file_of(outcome.host))
        for outcome in outcomes
        if outcome.value
        for verdict in outcome.value.verdicts
        if verdict.status in _FINDINGS
    ]
    told: dict[str, Json] = {
        "tool": {
            "driver": {
                "name": "gdr-toolkit",
                "version": __version__,
                "rules": [_rule(each) for each in rules],
            }
        },
        "invocations": [_invocation(outcomes, run)],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    if run.evidence:
        told["originalUriBaseIds"] = {_EVIDENCE: {"uri": f"file://{quote(run.evidence)}/"}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [told]}


def _rule(check: Check) -> Json:
    told: dict[str, Json] = {
        "id": check.id,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.why or check.title},
        "help": {"text": as_called(f"{check.fix}\n\nSource: {check.source}")},
        "defaultConfiguration": {"level": _LEVEL[check.impact]},
        "properties": {"tags": [check.impact.value, check.tense.value]},
    }
    return told


def _result(judged: Judged, verdict: Verdict, places: dict[str, int], file: str) -> Json:
    check, finding = verdict.check, verdict.finding
    failing = verdict.status is Status.FAIL
    host = _plain(judged.host)
    told: dict[str, Json] = {
        "ruleId": check.id,
        "ruleIndex": places[check.id],
        "kind": "fail" if failing else "open",
        "level": _LEVEL[check.impact] if failing else "none",  # as the standard has it
        "message": {"text": _plain(_sentence(host, verdict))},
        "locations": [_location(host, file)],
        "partialFingerprints": {"hostAndCheck/v1": _fingerprint(host, check.id)},
        "properties": {
            "impact": check.impact.value,
            "found": _plain(finding.found),
            "expected": _plain(finding.expected),
            "fix": _plain(as_called(finding.hint or check.fix)),
            "details": [_plain(each) for each in finding.details],
            "cited": list(verdict.cited),
        },
    }
    if verdict.waived(judged.today) and verdict.waiver:
        reason = f"{verdict.waiver.reason} (until {verdict.waiver.until.isoformat()})"
        told["suppressions"] = [{"kind": "external", "justification": _plain(reason)}]
    return told


def _sentence(host: str, verdict: Verdict) -> str:
    finding = verdict.finding
    head = f"{host}: {verdict.check.title} "
    if verdict.status is Status.UNKNOWN:
        return f"{head}Not known: {finding.found}"
    return f"{head}Found: {finding.found}" + (
        f"; expected: {finding.expected}" if finding.expected else ""
    )


def _location(host: str, file: str) -> Json:
    """The evidence that the verdict rests on, and the node as the thing that is ill."""
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(_plain(file), safe=""), "uriBaseId": _EVIDENCE}
        },
        "logicalLocations": [{"name": host, "kind": "resource"}],
    }


def _fingerprint(host: str, check: str) -> str:
    """The same for the same question about the same host, whatever was found, run after run."""
    return sha256(f"{host}\0{check}".encode()).hexdigest()


def _invocation(outcomes: Sequence[Outcome[Judged]], run: ReportRun) -> Json:
    told = [_notification(each.host, each.error) for each in outcomes if each.error]
    told += [
        {"level": "error", "message": {"text": f"{_plain(each.host)}: its evidence was cut off"}}
        for each in outcomes
        if each.value and not each.value.complete
    ]
    return {
        # Whether the tool did its work: a node that nobody could read is work not done.
        "executionSuccessful": not told and run.code is not ExitCode.BUG,
        "exitCode": int(run.code),
        "startTimeUtc": run.began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "toolExecutionNotifications": told,
    }


def _notification(host: str, error: ToolkitError) -> Json:
    said = f"{error}" if str(error).startswith(host) else f"{host}: {error}"
    return {
        "level": "error",
        "message": {"text": _plain(as_called(f"{said}; {error.hint}".rstrip("; ")))},
    }


def _plain(text: str) -> str:
    return _LONE.sub("\ufffd", text)
