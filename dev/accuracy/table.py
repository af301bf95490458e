"""The accuracy table as a page shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dev.accuracy.fit import FITS
from dev.accuracy.judge import THRESHOLDS, Judged, Score, detected, score
from dev.accuracy.points import Tier
from toolkit.compat.throughput import Constants

BEGIN = "<!-- written by python -m dev.accuracy --write; the rest is ours -->"
END = "<!-- until here -->"
_SHOWN = (Tier.A, Tier.B)


def section(judged: tuple[Judged, ...], shipped: Constants) -> str:
    """Everything between the marks of docs/prediction.md."""
    parts = [_summary(judged), _detection(judged), _constants(shipped), _points(judged)]
    return "\n".join([BEGIN, "", *parts, END])


def put(page: str, text: str) -> str:
    """The page with this section in place of the one between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + text + after


def taken(page: str) -> str:
    """The section that a page has."""
    return BEGIN + page.partition(BEGIN)[2].partition(END)[0] + END


def _summary(judged: tuple[Judged, ...]) -> str:
    lines = [
        "| predictor | tier | points | median error | in 10 % | in 25 % | within x2 | worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    kinds: tuple[tuple[str, Callable[[Judged], float]], ...] = (
        ("this model", lambda each: each.error),
        ("naive", lambda each: each.naive_error),
    )
    for name, error in kinds:
        lines += [_score(name, tier, score(judged, tier, error)) for tier in _SHOWN]
    shares = {tier: [e.inside for e in judged if e.point.tier is tier] for tier in _SHOWN}
    inside = [
        f"{sum(found)} of {len(found)} ({sum(found) / len(found):.0%}) of tier {tier}"
        for tier, found in shares.items()
    ]
    return "\n".join([*lines, "", f"Inside the interval that was told: {', '.join(inside)}.", ""])


def _score(name: str, tier: Tier, found: Score) -> str:
    shares = (found.within_10, found.within_25, found.within_2x)
    cells = [name, tier.value, str(found.count), f"{found.median:.1%}"]
    cells += [*(f"{each:.0%}" for each in shares), f"{found.worst:.0%}"]
    return _row(cells)


def _detection(judged: tuple[Judged, ...]) -> str:
    lines = [
        "Measured below a threshold of the sound node's prediction:",
        "",
        "| threshold | degraded and missed | sound and alarmed |",
        "|---|---|---|",
    ]
    for threshold in THRESHOLDS:
        missed, bad, alarms, good = detected(judged, threshold)
        lines.append(_row([f"{threshold:.2f}", f"{missed} / {bad}", f"{alarms} / {good}"]))
    return "\n".join([*lines, ""])


def _constants(shipped: Constants) -> str:
    """The fitted ones, as they are shipped: from all points together."""
    lines = [
        "Fitted constants, as shipped (from all points; each source is judged without itself):",
        "",
        "| constant | value | low to high | where no other source is left |",
        "|---|---|---|---|",
    ]
    for fit in FITS:
        row = shipped.rows[fit.name]
        span = f"{row.range.low:g} to {row.range.high:g} {row.unit}".strip()
        stand_in = f"`{row.prior_of}`" if row.prior_of else f"{row.prior:g}"
        lines.append(
            _row([f"`{row.id}`", f"{row.range.value:g}", span, f"{stand_in}: {row.why_prior}"])
        )
    return "\n".join([*lines, ""])


def _points(judged: tuple[Judged, ...]) -> str:
    return "\n".join(["Every point:", "", *_point_rows(judged), ""])


def _point_rows(judged: tuple[Judged, ...]) -> Iterator[str]:
    yield "| point | tier | test | path | bytes | measured | predicted | error | naive | source |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for each in judged:
        point = each.point
        unit = "us" if point.is_latency else "GB/s"
        yield _row(
            [
                point.id,
                point.tier.value,
                point.op,
                point.path,
                f"{point.size:.0f}" if point.size else "",
                f"{point.measured:.4g} {unit}",
                f"{each.said.value:.4g} ({each.said.low:.3g}-{each.said.high:.3g})",
                f"{each.error:+.1%}",
                f"{each.naive_error:+.0%}",
                point.source,
            ]
        )


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(each.replace("|", "/") for each in cells) + " |"
