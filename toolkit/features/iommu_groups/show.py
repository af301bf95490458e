"""IOMMU groups and what would be done to them, or was, for a person: folded by nodes alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolkit.errors import Outcome
from toolkit.features.iommu_groups.plan import Switch, Switching
from toolkit.hosts.host import fold
from toolkit.report.table import Ink, Painter, clean, labelled
from toolkit.report.text import errors


def domain_lines(outcomes: Sequence[Outcome[Switching]], paint: Painter) -> list[str]:
    """One part a set of nodes of which the same is told, then what went wrong."""
    groups: dict[Switching, list[str]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            groups.setdefault(outcome.value, []).append(outcome.host)
    lines: list[str] = []
    for told, hosts in groups.items():
        lines += [paint(clean(fold(hosts)), Ink.BOLD), *_node(told, paint), ""]
    return lines + errors(((each.host, each.error) for each in outcomes), paint)


def _node(told: Switching, paint: Painter) -> Iterator[str]:
    if not told.switches:
        yield "  nothing to change: no IOMMU group of an HCA, or none that was changed before"
    for switch in told.switches:
        yield from _group(switch, told, paint)
    for step in told.steps:
        yield from labelled("did", step)


def _group(switch: Switch, told: Switching, paint: Painter) -> Iterator[str]:
    word, ink = "would change", Ink.YELLOW
    if switch.same:
        word, ink = "as wanted", Ink.GREEN
    elif switch.obstacles:
        word, ink = "refused", Ink.RED
    elif told.done:
        word, ink = "changed", Ink.GREEN
    devices = ", ".join(
        f"{each.address} ({each.driver})" if each.driver else each.address
        for each in switch.group.devices
    )
    way = f"{switch.group.domain} -> {switch.to}" if not switch.same else switch.to.value
    head = f"  group {switch.group.number}".ljust(12)
    yield f"{head} {paint(word.ljust(13), ink)}{way}"
    yield from labelled("devices", devices)
    for obstacle in switch.obstacles:
        yield from labelled("because", obstacle.text)
        if obstacle.hint:
            yield from labelled("next", obstacle.hint)
