"""Fleets for pages: nodes of a few kinds, judged once, under as many names as are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from toolkit.checks.judged import judge_node
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.facts.rdma.perftest import MeasuredPair
from toolkit.features.page.show.parts import Page, html
from toolkit.features.page.show.seen import Seeing, SeenNode
from toolkit.features.page.show.view import make
from toolkit.want import Want

CAPTURES = Path(__file__).parents[1] / "evidence"
WHEN = datetime(2026, 11, 22, 12, tzinfo=UTC)
TODAY = date(2026, 11, 22)


@cache
def capture(kind: str) -> Evidence:
    return Evidence.parse((CAPTURES / f"{kind}.txt").read_text())


def named(seen: SeenNode, name: str) -> SeenNode:
    """The same node under another name."""
    sheet = replace(seen.sheet, host=name)
    return replace(seen, judged=replace(seen.judged, host=name), sheet=sheet)


def page_of(
    nodes: Iterable[tuple[str, Evidence]],
    lost: Iterable[tuple[str, ToolkitError]] = (),
    want: Want | None = None,
    measured: Mapping[str, tuple[MeasuredPair, ...]] | None = None,
) -> Page:
    """Each node judged for itself, and hosts that gave no evidence after them."""
    wanted = want or Want()
    seeing = Seeing(wanted)
    outcomes = [
        Outcome(name, seeing.see(judge_node(name, evidence, wanted, TODAY), evidence))
        for name, evidence in nodes
    ]
    outcomes += [Outcome(name, error=error) for name, error in lost]
    return make(outcomes, seeing.passing, "peermem", WHEN, measured)


def kinds(*names: str) -> Page:
    """A node of each captured kind: "healthy", "acs"."""
    return page_of((f"gpu-{name}", capture(name)) for name in names)


def written(page: Page) -> str:
    return "".join(html(page, "./invokew report --from evidence"))
