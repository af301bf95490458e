"""Drift as text, as one JSON document (docs/drift.schema.json), and as metrics of Prometheus.

Of metrics a host has its state, and a line for each column that is not as wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from toolkit import __version__
from toolkit.errors import ExitCode, Outcome
from toolkit.features.drift.plan import Cell, Drift, DriftLine, DriftStanding, told
from toolkit.hosts.host import fold
from toolkit.report.document import Json, picked
from toolkit.report.prometheus import Remembered, Samples, add_run, of_failure
from toolkit.report.table import Ink, Painter, clean, unjudged, wrapped
from toolkit.report.text import errors

_INK = {
    DriftStanding.DRIFT: Ink.RED,
    DriftStanding.UNKNOWN: Ink.YELLOW,
    DriftStanding.WAIVED: Ink.YELLOW,
    DriftStanding.NONE: Ink.GREY,
}
_HEADS = ("property", "wanted", "on disk", "in effect")
_WIDTHS = (23, 20, 24, 25)
_INDENT, _GAP = 2, 2
_FURTHER = " " * _INDENT * 2


def text(outcomes: Sequence[Outcome[Drift]], paint: Painter, *, verbose: bool = False) -> str:
    """What ``drift`` prints.

    :param verbose: what is as wanted too, and what to do about each line.
    """
    groups: dict[tuple[str, tuple[DriftLine, ...]], list[str]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            drift = outcome.value
            shown = drift.lines if verbose else told(drift.lines)
            groups.setdefault((drift.state, shown), []).append(outcome.host)
    lines: list[str] = []
    for (state, shown), hosts in groups.items():
        if shown or state not in {"as wanted", "no GPU"}:
            ink = {"drift": Ink.RED, "as wanted": Ink.GREEN}.get(state, Ink.YELLOW)
            head = f"{paint(state.ljust(10), ink)}{paint(clean(fold(hosts)), Ink.BOLD)}"
            lines += [head, *_table(shown, paint, verbose=verbose), ""]
    lines += errors([(each.host, each.error) for each in outcomes], paint)
    return "\n".join([*lines, *_summary(outcomes, paint)])


def _table(lines: Sequence[DriftLine], paint: Painter, *, verbose: bool) -> Iterator[str]:
    if not lines:
        return
    heads = (
        paint(head.ljust(width), Ink.GREY) for head, width in zip(_HEADS, _WIDTHS, strict=True)
    )
    yield (" " * _INDENT + (" " * _GAP).join(heads)).rstrip()
    for line in lines:
        # One property; a path that its column does not hold has a line of its own.
        name = clean(line.name)
        if len(name) > _WIDTHS[0] and " " not in name:
            yield from wrapped(name, first=" " * _INDENT, rest=" " * _INDENT, cell=True)
            name = ""
        plain = (Cell(name, DriftStanding.SAME), Cell(line.wanted, DriftStanding.SAME))
        cells = (*plain, line.on_disk, line.in_effect)
        columns = [_cell(cell, width, paint) for cell, width in zip(cells, _WIDTHS, strict=True)]
        blank = [" " * width for width in _WIDTHS]
        for row in zip_longest(*columns):
            parts = [part or empty for part, empty in zip(row, blank, strict=True)]
            yield (" " * _INDENT + (" " * _GAP).join(parts)).rstrip()
        if verbose and line.hint:
            yield from wrapped(f"next: {line.hint}", first=_FURTHER, rest=_FURTHER)


def _cell(cell: Cell, width: int, paint: Painter) -> list[str]:
    shown = clean(cell.text) or ("" if cell.standing is not DriftStanding.NONE else "-")
    if cell.standing is DriftStanding.WAIVED:
        shown = f"waived: {shown}"
    ink = _INK.get(cell.standing) if cell.text else None
    lines = wrapped(shown, width, cell=True) or [""]
    return [paint(each.ljust(width), ink) if ink else each.ljust(width) for each in lines]


def _summary(outcomes: Sequence[Outcome[Drift]], paint: Painter) -> Iterator[str]:
    drifts = [(each.host, each.value) for each in outcomes if each.value is not None]
    same = [host for host, drift in drifts if drift.state == "as wanted"]
    bare = [host for host, drift in drifts if drift.state == "no GPU"]
    owed = [host for host, drift in drifts if drift.reboot_owed]
    if same:
        yield f"{paint('as wanted'.ljust(10), Ink.GREEN)}{clean(fold(same))}"
    if bare:
        yield f"{paint('no GPU'.ljust(10), Ink.GREY)}{clean(fold(bare))}"
    if owed:
        yield f"{paint('reboot'.ljust(10), Ink.YELLOW)}{clean(fold(owed))}: provision --reboot"
    count = sum(drift.state == "drift" for _, drift in drifts)
    yield f"{count} of {len(outcomes)} nodes have drifted"


SCHEMA = "gdr-toolkit/drift/1"


def state_of(outcome: Outcome[Drift]) -> str:
    """One host's state, whether or not it could be looked at."""
    return unjudged(outcome.error) if outcome.value is None else outcome.value.state


def document(
    outcomes: Sequence[Outcome[Drift]], profile: str, code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; fields are only ever added within a version."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "profile": profile,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "hosts": [_host_json(each) for each in outcomes],
    }


def _host_json(outcome: Outcome[Drift]) -> dict[str, Json]:
    drift, error = outcome.value, outcome.error
    return {
        "name": outcome.host,
        "state": state_of(outcome),
        "reboot_owed": drift.reboot_owed if drift else False,
        "lines": [_line_json(each) for each in drift.lines] if drift else [],
        "error": {"message": str(error), "hint": error.hint} if error else None,
    }


def _line_json(line: DriftLine) -> dict[str, Json]:
    return {
        **picked(line, "topic name standing means wanted"),
        "on_disk": picked(line.on_disk, "found=text standing"),
        "in_effect": picked(line.in_effect, "found=text standing"),
        "hint": line.hint,
    }


STATES = ("as wanted", "drift", "unknown", "no GPU", "cut off", "out of reach", "error")
_STANDINGS = (DriftStanding.DRIFT, DriftStanding.UNKNOWN, DriftStanding.WAIVED, DriftStanding.SAME)
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
            if cell.standing in {DriftStanding.DRIFT, DriftStanding.UNKNOWN}:
                labels = {"topic": line.topic.value, "name": line.name, "column": column}
                labels["standing"] = cell.standing.value
                samples.add("gdr_drift_property", 1, host=host, **labels)
