"""Verdicts as JUnit XML: a suite for each host, a case for each check.

Source: the schema that Jenkins' xunit plugin and GitLab read. A failing check is a
failure, an unknown one an error: neither counts as passed anywhere.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.errors import Outcome
from toolkit.report.document import Judgements, ReportRun
from toolkit.report.text import verdict_text

# XML 1.0 has no way to write these.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(outcomes: Judgements, run: ReportRun) -> str:
    """What goes into the file."""
    del run  # the format has no place for it
    return junit(outcomes)


def junit(outcomes: Judgements) -> str:
    """One <testsuites> document."""
    root = Xml.Element("testsuites", name="gdr-toolkit")
    for outcome in outcomes:
        _suite(root, outcome)
    Xml.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"
    )


def _suite(root: Xml.Element, outcome: Outcome[Judged]) -> None:
    name = _plain(outcome.host)
    suite = Xml.SubElement(root, "testsuite", name=name)
    if outcome.value is None:
        case = Xml.SubElement(suite, "testcase", classname=name, name="reach")
        Xml.SubElement(case, "error", message=_plain(str(outcome.error)))
        counts = {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}
    else:
        judged = outcome.value
        cut = not judged.complete
        if cut:
            case = Xml.SubElement(suite, "testcase", classname=name, name="reach")
            Xml.SubElement(case, "error", message="its evidence was cut off")
        for verdict in judged.verdicts:
            _case(suite, judged, verdict)
        counts = {
            "tests": len(judged.verdicts) + cut,
            "failures": len(judged.having(Status.FAIL)),
            "errors": len(judged.having(Status.UNKNOWN)) + cut,
            "skipped": len(judged.having(Status.NA)) + len(judged.waived),
        }
    for key, count in counts.items():
        suite.set(key, str(count))


def _case(suite: Xml.Element, judged: Judged, verdict: Verdict) -> None:
    case = Xml.SubElement(suite, "testcase", classname=_plain(judged.host), name=verdict.check.id)
    found = _plain(verdict.finding.found)
    if verdict.waived(judged.today) and verdict.waiver:
        # The reason as content: Jenkins' schema knows no attribute of what is skipped.
        Xml.SubElement(case, "skipped").text = _plain(f"waived: {verdict.waiver.reason}")
        return
    match verdict.status:
        case Status.FAIL:
            node = Xml.SubElement(case, "failure", message=found, type=verdict.check.impact)
            node.text = _plain(verdict_text(judged.host, verdict))
        case Status.UNKNOWN:
            Xml.SubElement(case, "error", message=found, type="unknown")
        case Status.NA:
            Xml.SubElement(case, "skipped").text = found
        case Status.PASS:
            pass


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
