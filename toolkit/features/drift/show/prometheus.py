"""Drift as Prometheus reads it, from a file that node_exporter's textfile collector takes.

A host's state, and a line for each column that is not as wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from toolkit.errors import ExitCode, Outcome
from toolkit.features.drift.plan.drift import Drift, Standing
from toolkit.features.drift.show.document import state_of
from toolkit.report.prometheus import Remembered, Samples, add_run, of_failure

STATES = ("as wanted", "drift", "unknown", "no GPU", "cut off", "out of reach", "error")
_STANDINGS = (Standing.DRIFT, Standing.UNKNOWN, Standing.WAIVED, Standing.SAME)
PREFIX = "gdr_drift"
_READ_AT = "gdr_drift_host_read_timestamp_seconds"
_SUCCESS_AT = "gdr_drift_success_timestamp_seconds"
_HELP = {
    "gdr_drift_host_state": "1 for the state that the host is in, 0 for each other one.",
    "gdr_drift_properties": "Number of the host's properties of each standing.",
    "gdr_drift_property": "1 for a column of a property that is not as wanted, or not known.",
    "gdr_drift_reboot_owed": "1 where what is wanted is written, and a reboot brings it.",
    _READ_AT: "When the host was last read in full, by this run or an earlier one.",
    "gdr_drift_exit_code": "What the run ended with: docs/exit-codes.md.",
    "gdr_drift_run_timestamp_seconds": "When the last run began, whatever became of it.",
    _SUCCESS_AT: "When the last run began that read every host in full.",
    "gdr_drift_run_success": "1 where the last run read every host in full, else 0.",
}


def exposition(
    outcomes: Sequence[Outcome[Drift]], code: ExitCode, when: datetime, before: Remembered
) -> str:
    """The whole file for a run that looked at its hosts.

    A host that could not be read keeps nothing of what it was before but the time at which
    it was last read.

    :param when: the beginning of the run, in any zone.
    """
    now = int(when.timestamp())
    samples = Samples(_HELP)
    for outcome in outcomes:
        _host(samples, outcome, now, before)
    whole = bool(outcomes) and all(_read(each) for each in outcomes)
    samples.add("gdr_drift_exit_code", int(code))
    add_run(samples, PREFIX, when, before, success=whole)
    return samples.text()


def failed(when: datetime, before: Remembered) -> str:
    """The whole file for a run that failed before it could tell of any host."""
    return of_failure(_HELP, PREFIX, when, before)


def _read(outcome: Outcome[Drift]) -> bool:
    return outcome.value is not None and outcome.value.complete


def _host(samples: Samples, outcome: Outcome[Drift], now: int, before: Remembered) -> None:
    host, drift = outcome.host, outcome.value
    state = state_of(outcome)
    for each in STATES:
        samples.add("gdr_drift_host_state", int(each == state), host=host, state=each)
    if at := now if _read(outcome) else before.read.get(host, 0):
        samples.add(_READ_AT, at, host=host)
    if drift is None:
        return
    for standing in _STANDINGS:
        count = len(drift.having(standing))
        samples.add("gdr_drift_properties", count, host=host, standing=standing.value)
    samples.add("gdr_drift_reboot_owed", int(drift.reboot_owed), host=host)
    for line in drift.lines:
        for column, cell in (("on disk", line.on_disk), ("in effect", line.in_effect)):
            if cell.standing in {Standing.DRIFT, Standing.UNKNOWN}:
                labels = {"topic": line.topic.value, "name": line.name, "column": column}
                labels["standing"] = cell.standing.value
                samples.add("gdr_drift_property", 1, host=host, **labels)
