"""Every check on every host. The suite has no knowledge of its own, so it cannot drift."""

from __future__ import annotations

from datetime import date

import pytest

from toolkit.checks.check import Check, Status
from toolkit.errors import ExitCode
from toolkit.report.text import verdict_text
from toolkit.suites.run import Judge, Ledger


def test_node(judge: Judge, check: Check, ledger: Ledger, today: date) -> None:
    host_name, verdict = judge(check)
    ledger.saw(host_name, verdict, today)
    match verdict.status:
        case Status.NA:
            pytest.skip(verdict.finding.found)
        case Status.FAIL if verdict.waived(today) and verdict.waiver is not None:
            pytest.skip(f"waived until {verdict.waiver.until}: {verdict.waiver.reason}")
        case Status.FAIL:
            ledger.note(host_name, ExitCode.FAILED)
            pytest.fail(verdict_text(host_name, verdict), pytrace=False)
        case Status.UNKNOWN:
            ledger.note(host_name, ExitCode.UNKNOWN)
            pytest.fail(verdict_text(host_name, verdict), pytrace=False)
        case Status.PASS:
            assert verdict.cited, "a pass must rest on something that was read"
