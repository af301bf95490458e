"""The forecast for a person: what would be lost, folded by who would lose it."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.checks.check import Status
from toolkit.checks.kernel.forecast import Foreseen, Prospect
from toolkit.errors import Outcome
from toolkit.hosts.host import fold
from toolkit.report.table import Ink, Painter, clean, columns, labelled, unjudged
from toolkit.report.text import errors

_WORDS = {
    Status.PASS: ("kept", Ink.GREEN),
    Status.FAIL: ("lost", Ink.RED),
    Status.UNKNOWN: ("unknown", Ink.YELLOW),
    Status.NA: ("n/a", Ink.GREY),
}
_STATE_INK = {"keeps": Ink.GREEN, "unknown": Ink.YELLOW}


def forecast_report(
    outcomes: Sequence[Outcome[Foreseen]], paint: Painter, *, verbose: bool = False
) -> str:
    """What ``doctor --kernel`` and ``doctor --next-boot`` print."""
    shown = set(Status) if verbose else {Status.FAIL, Status.UNKNOWN}
    groups: dict[tuple[str, Prospect], list[str]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            ahead = outcome.value.forecast
            for each in ahead.prospects:
                if each.finding.status in shown:
                    key = (ahead.kernel, Prospect(each.topic, each.finding))
                    groups.setdefault(key, []).append(outcome.host)
    lines: list[str] = []
    for (_, each), hosts in groups.items():
        lines += [*_prospect(each, hosts, paint), ""]
    lines += errors(((each.host, each.error) for each in outcomes), paint)
    return "\n".join([*lines, *_summary(outcomes, paint)])


def _prospect(each: Prospect, hosts: list[str], paint: Painter) -> list[str]:
    finding = each.finding
    word, ink = _WORDS[finding.status]
    names = clean(fold(hosts))
    lines = [f"{paint(word.ljust(8), ink)} {paint(each.topic.ljust(24), Ink.BOLD)}{names}"]
    lines += labelled("found", finding.found)
    lines += [line for detail in finding.details for line in labelled("", detail)]
    lines += labelled("expected", finding.expected)
    return lines + labelled("fix" if finding.status is Status.FAIL else "next", finding.hint)


def _summary(outcomes: Sequence[Outcome[Foreseen]], paint: Painter) -> list[str]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        rows.setdefault(_row(outcome), []).append(outcome.host)
    head = ("kept", "lost", "unknown", "state", "kernel", "nodes")
    table = columns([head, *((*row, clean(fold(hosts))) for row, hosts in rows.items())])
    lines = [paint(table[0], Ink.GREY)]
    for line, row in zip(table[1:], rows, strict=True):
        painted = paint(row[3], _STATE_INK.get(row[3], Ink.RED))
        lines.append(line.replace(f" {row[3]} ", f" {painted} ", 1))
    # "3 of 5 nodes would lose nothing."
    whole = [each.value for each in outcomes if each.value and each.value.judged.complete]
    keeps = sum(each.forecast.state == "keeps" for each in whole)
    total = len(outcomes)
    count = f"{keeps} of {total} {'node' if total == 1 else 'nodes'} would lose nothing."
    return [*lines, "", count]


def _row(outcome: Outcome[Foreseen]) -> tuple[str, ...]:
    if outcome.value is None:
        return ("-", "-", "-", unjudged(outcome.error), "-")
    ahead = outcome.value.forecast
    counts = [str(len(found)) for found in (ahead.keeps, ahead.losses, ahead.unknown)]
    state = ahead.state if outcome.value.judged.complete else "cut off"
    return (*counts, state, ahead.kernel or "not known")
