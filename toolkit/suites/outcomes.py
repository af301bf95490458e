"""What ``verify`` hands to the suite, and what the suite saw, for its exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

import pytest

from toolkit.checks.check import Check, Status, Verdict
from toolkit.errors import ExitCode, worst
from toolkit.groups import Wants
from toolkit.verbs.access import Access
from toolkit.want import Selection

Judge = Callable[[Check], tuple[str, Verdict]]  # the host's name, and its verdict


@dataclass(slots=True)
class Ledger:
    """Exit codes by host; pytest's own status only knows that something failed."""

    codes: dict[str, list[ExitCode]] = field(default_factory=dict)
    statuses: dict[tuple[str, str], str] = field(default_factory=dict)  # by host and check

    def note(self, host: str, code: ExitCode) -> None:
        self.codes.setdefault(host, []).append(code)

    def saw(self, host: str, verdict: Verdict, today: date) -> None:
        """What a check came to: pytest knows no more than passed, failed and skipped."""
        waived = verdict.status is Status.FAIL and verdict.waived(today)
        word = "waived" if waived else verdict.status.value
        self.statuses[host, verdict.check.id] = word

    @property
    def exit_code(self) -> ExitCode:
        return worst([code for codes in self.codes.values() for code in codes])


ACCESS = pytest.StashKey[Access]()
WANT = pytest.StashKey[Wants]()
CHECKS = pytest.StashKey[Selection]()  # those that are asked
LEDGER = pytest.StashKey[Ledger]()
