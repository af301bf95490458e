"""Samples in the text format of Prometheus, and what an earlier file says of earlier runs.

Source: Prometheus, Exposition formats (text format 0.0.4). The textfile collector refuses samples
with a time of their own and a file that has one sample twice, so times are values here, and each
sample is written once.

Verdicts as Prometheus reads them, from a file that node_exporter's textfile collector takes.

A host's state, counts by status, and a sample for each check that fails or is not known: what
passes has none, so that a fleet of thousands stays small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome
from toolkit.report.document import state_of

_LONGEST = 200  # characters of a label: some come from nodes

Labels = tuple[tuple[str, str], ...]
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


class Remembered(Struct, frozen=True):
    """What an earlier file says of earlier runs; times in seconds since 1970."""

    success: int = 0  # 0 for never
    read: Mapping[str, int] = field(default_factory=dict)  # by host


class Samples(Struct):
    """Gauges by metric and labels: a sample that comes again takes the place of the first."""

    help: Mapping[str, str]  # by metric, in the order in which they are written
    found: dict[str, dict[Labels, int]] = field(default_factory=dict)

    def add(self, metric: str, value: int, **labels: str) -> None:
        self.found.setdefault(metric, {})[tuple(labels.items())] = value

    def text(self) -> str:
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        for metric, told in self.help.items():
            samples = self.found.get(metric, {})
            if samples:
                yield f"# HELP {metric} {told}"
                yield f"# TYPE {metric} gauge"
            for labels, value in samples.items():
                written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
                yield f"{metric}{{{written}}} {value}" if written else f"{metric} {value}"


def add_run(
    samples: Samples, prefix: str, when: datetime, before: Remembered, *, success: bool
) -> None:
    """What is told of a run itself: when it began, and when the last one did that was whole.

    :param when: in any zone.
    """
    now = int(when.timestamp())
    samples.add(f"{prefix}_run_timestamp_seconds", now)
    samples.add(f"{prefix}_run_success", int(success))
    if last := now if success else before.success:
        samples.add(f"{prefix}_success_timestamp_seconds", last)


def of_failure(help_: Mapping[str, str], prefix: str, when: datetime, before: Remembered) -> str:
    """The whole file for a run that failed before it could tell of any host."""
    samples = Samples(help_)
    for host, time in before.read.items():
        samples.add(f"{prefix}_host_read_timestamp_seconds", time, host=host)
    add_run(samples, prefix, when, before, success=False)
    return samples.text()


def remembered(text: str, prefix: str) -> Remembered:
    """Read what an earlier run wrote; what is not of our making tells nothing.

    :param prefix: "gdr_drift", before ``_host_read_timestamp_seconds`` and
        ``_success_timestamp_seconds``.
    """
    of_host = re.compile(
        prefix + r'_host_read_timestamp_seconds\{host="((?:[^"\\\n]|\\.)*)"\} ([0-9]+)'
    )
    of_run = re.compile(prefix + "_success_timestamp_seconds ([0-9]+)")
    read, success = {}, 0
    for line in text.split("\n"):
        if found := of_host.fullmatch(line):
            read[_plain(found[1])] = int(found[2])
        elif found := of_run.fullmatch(line):
            success = int(found[1])
    return Remembered(success, read)


def _escaped(text: str) -> str:
    whole = text.encode("utf-8", "replace").decode()[:_LONGEST]
    return whole.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


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
