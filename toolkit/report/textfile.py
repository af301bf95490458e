"""Drift as Prometheus reads it, from a file that node_exporter's textfile collector takes.

Source: Prometheus, Exposition formats (text format 0.0.4). The collector refuses samples with a
time of their own and a file that has one sample twice, so times are values here, and each sample
is written once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.change.drift import Cell, Drift, Standing
from toolkit.errors import ExitCode, Outcome
from toolkit.report.drift_document import state_of

STATES = ("as wanted", "drift", "unknown", "no GPU", "cut off", "out of reach", "error")
_STANDINGS = (Standing.DRIFT, Standing.UNKNOWN, Standing.WAIVED, Standing.SAME)
_LONGEST = 200  # characters of a label: some come from nodes
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
_READ = re.compile(_READ_AT + r'\{host="((?:[^"\\\n]|\\.)*)"\} ([0-9]+)')
_SUCCESS = re.compile(_SUCCESS_AT + r" ([0-9]+)")

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an earlier file says of earlier runs; times in seconds since 1970."""

    success: int = 0  # 0 for never
    read: Mapping[str, int] = field(default_factory=dict)  # by host


@dataclass(slots=True)
class _Samples:
    """Values by metric and labels: a sample that comes again takes the place of the first."""

    found: dict[str, dict[Labels, int]] = field(default_factory=dict)

    def add(self, metric: str, value: int, **labels: str) -> None:
        self.found.setdefault(metric, {})[tuple(labels.items())] = value

    def lines(self) -> Iterator[str]:
        for metric, help_ in _HELP.items():
            samples = self.found.get(metric, {})
            if samples:
                yield f"# HELP {metric} {help_}"
                yield f"# TYPE {metric} gauge"
            for labels, value in samples.items():
                told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
                yield f"{metric}{{{told}}} {value}" if told else f"{metric} {value}"


def _escaped(text: str) -> str:
    whole = text.encode("utf-8", "replace").decode()[:_LONGEST]
    return whole.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


def remembered(text: str) -> Remembered:
    """Read what an earlier run wrote; what is not of our making tells nothing."""
    read = {}
    success = 0
    for line in text.split("\n"):
        if found := _READ.fullmatch(line):
            read[_plain(found[1])] = int(found[2])
        elif found := _SUCCESS.fullmatch(line):
            success = int(found[1])
    return Remembered(success, read)


def exposition(
    outcomes: Sequence[Outcome[Drift]], code: ExitCode, when: datetime, before: Remembered
) -> str:
    """The whole file for a run that looked at its hosts.

    A host that could not be read keeps nothing of what it was before but the time at which
    it was last read.

    :param when: the beginning of the run, in any zone.
    """
    now = int(when.timestamp())
    samples = _Samples()
    for outcome in outcomes:
        _host(samples, outcome, now, before)
    whole = bool(outcomes) and all(_read(each) for each in outcomes)
    samples.add("gdr_drift_exit_code", int(code))
    _run(samples, now, before, success=whole)
    return "\n".join([*samples.lines(), ""])


def failed(when: datetime, before: Remembered) -> str:
    """The whole file for a run that failed before it could tell of any host."""
    samples = _Samples()
    for host, time in before.read.items():
        samples.add(_READ_AT, time, host=host)
    _run(samples, int(when.timestamp()), before, success=False)
    return "\n".join([*samples.lines(), ""])


def _run(samples: _Samples, now: int, before: Remembered, *, success: bool) -> None:
    samples.add("gdr_drift_run_timestamp_seconds", now)
    samples.add("gdr_drift_run_success", int(success))
    if last := now if success else before.success:
        samples.add(_SUCCESS_AT, last)


def _read(outcome: Outcome[Drift]) -> bool:
    return outcome.value is not None and outcome.value.complete


def _host(samples: _Samples, outcome: Outcome[Drift], now: int, before: Remembered) -> None:
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
            if _open(cell):
                labels = {"topic": line.topic.value, "name": line.name, "column": column}
                labels["standing"] = cell.standing.value
                samples.add("gdr_drift_property", 1, host=host, **labels)


def _open(cell: Cell) -> bool:
    return cell.standing in {Standing.DRIFT, Standing.UNKNOWN}
