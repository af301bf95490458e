"""Fleets of composed nodes, laid side by side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tests.evidence.board import BOARD, Board
from tests.evidence.build import node
from tests.evidence.frames import Override
from toolkit.checks.outliers import VERDICT, Comparison, Difference, Sheets, compare
from toolkit.report.table import Painter
from toolkit.want import Want

PLAIN = Painter(False)
WHEN = datetime(2026, 11, 21, tzinfo=UTC)
NAMES = [f"gpu{number:03d}" for number in range(1, 13)]


def fleet(
    changes: Mapping[str, Mapping[str, Override]] | None = None,
    boards: Mapping[str, Board] | None = None,
    *,
    names: list[str] = NAMES,
) -> Comparison:
    """Healthy nodes, of which some have other frames or another board."""
    sheets = Sheets(Want())
    return compare(
        [
            sheets.make(
                name,
                node(
                    {"hostname": f"{name}\n", "boot-id": f"{name}\n"}
                    | dict((changes or {}).get(name, {})),
                    board=(boards or {}).get(name, BOARD),
                ),
            )
            for name in names
        ]
    )


def only(compared: Comparison) -> tuple[tuple[str, ...], tuple[Difference, ...]]:
    """The one group of odd nodes, with what facts (not verdicts) say of them."""
    (kind,) = compared.kinds
    (odd,) = kind.odd
    return odd.hosts, tuple(each for each in odd.differences if each.topic != VERDICT)
