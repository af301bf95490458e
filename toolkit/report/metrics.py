"""Verdicts as Prometheus reads them, from a file that node_exporter's textfile collector takes.

A host's state, counts by status, and a sample for each check that fails or is not known: what
passes has none, so that a fleet of thousands stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome
from toolkit.report.document import state_of
from toolkit.report.prometheus import Remembered, Samples, add_run, of_failure

PREFIX = "gdr_doctor"
STATES = (
    *("ready", "sick", "broken", "slow", "fragile", "unknown"),
    *("no GPU", "n/a", "cut off", "out of reach", "error"),
)
_READ_AT = f"{PREFIX}_host_read_timestamp_seconds"
_SUCCESS_AT = f"{PREFIX}_success_timestamp_seconds"
HELP = {
    f"{PREFIX}_host_state": "1 for the state that the host is in, 0 for each other one.",
    f"{PREFIX}_checks": "Number of the host's checks of each status; waived failures apart.",
    f"{PREFIX}_check": "1 for a check that fails, is waived, or could not be known.",
    _READ_AT: "When the host was last read in full, by this run or an earlier one.",
    f"{PREFIX}_exit_code": "What the run ended with: docs/exit-codes.md.",
    f"{PREFIX}_run_timestamp_seconds": "When the last run began, whatever became of it.",
    _SUCCESS_AT: "When the last run began that read every host in full.",
    f"{PREFIX}_run_success": "1 where the last run read every host in full, else 0.",
}


def exposition(
    outcomes: Sequence[Outcome[Judged]], code: ExitCode, when: datetime, before: Remembered
) -> str:
    """The whole file for a run that looked at its hosts.

    :param when: the beginning of the run, in any zone.
    """
    now = int(when.timestamp())
    samples = Samples(HELP)
    for outcome in outcomes:
        _host(samples, outcome, now, before)
    samples.add(f"{PREFIX}_exit_code", int(code))
    add_run(
        samples,
        PREFIX,
        when,
        before,
        success=bool(outcomes) and all(_read(each) for each in outcomes),
    )
    return samples.text()


def failed(when: datetime, before: Remembered) -> str:
    """The whole file for a run that failed before it could tell of any host."""
    return of_failure(HELP, PREFIX, when, before)


def _read(outcome: Outcome[Judged]) -> bool:
    return outcome.value is not None and outcome.value.complete


def _host(samples: Samples, outcome: Outcome[Judged], now: int, before: Remembered) -> None:
    host, judged = outcome.host, outcome.value
    state = state_of(judged, outcome.error)
    for each in STATES:
        samples.add(f"{PREFIX}_host_state", int(each == state), host=host, state=each)
    if at := now if _read(outcome) else before.read.get(host, 0):
        samples.add(_READ_AT, at, host=host)
    if judged is None:
        return
    for status in Status:
        count = len(judged.having(status))
        samples.add(f"{PREFIX}_checks", count, host=host, status=status.value)
    samples.add(f"{PREFIX}_checks", len(judged.waived), host=host, status="waived")
    for verdict in judged.verdicts:
        if verdict.status in (Status.FAIL, Status.UNKNOWN):
            waived = verdict.waived(judged.today)
            told = {"host": host, "check": verdict.check.id, "impact": verdict.check.impact.value}
            told["status"] = "waived" if waived else verdict.status.value
            samples.add(f"{PREFIX}_check", 1, **told)
