"""A measured bandwidth against a predicted one; and several findings as one.

No published measurement of a sound node is below four fifths of what the model predicts, and none
of a degraded one above seventeen twentieths (docs/prediction.md); between them nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Finding, Status, failed, passed, unknown
from toolkit.throughput.estimate import Estimate

SHORT, REACHED = 0.8, 0.85
_ABOVE = 1.02  # of the line's rate: clocks differ
_FIRM = 1.2  # of the value: a bound beyond it is of what was not read, and nobody knows
_WORST = (Status.FAIL, Status.UNKNOWN, Status.PASS)


class Goal(Struct, frozen=True):
    """What is predicted of what was meant; two figures where the text leaves that open."""

    least: Estimate | None  # None: nothing tells how little may be in order
    most: Estimate
    ceiling: float = float("inf")  # GB/s that physics does not let it exceed
    asks: str = ""  # what would tell more


def weigh(value: float, shown: str, goal: Goal, *, short: str) -> Finding:
    """:param value: GB/s, one way.
    :param shown: what was measured, in words.
    :param short: what to look at where it falls short.
    """
    if value > goal.ceiling * _ABOVE:
        return unknown(
            f"{shown}: more than its ports carry ({goal.ceiling:.1f} GB/s), so that it went "
            "another way, or is another node's",
            hint="give the ports of the node that measured: ibstat",
        )
    most = goal.most
    if value >= REACHED * (most.value if most.high <= _FIRM * most.value else most.high):
        return passed(shown, details=(f"predicted: {goal.most.said}",))
    least = goal.least
    if least is not None and value < SHORT * least.value and value < least.low:
        return failed(shown, expected=least.said, hint=short)
    return unknown(
        f"{shown}; predicted is {goal.most.said}, and what is in order here is not known",
        hint=goal.asks or short,
    )


def together(findings: Sequence[Finding]) -> Finding:
    """The worst of some, with the others in its details."""
    worst = min(findings, key=lambda each: _WORST.index(each.status))
    others = [f"{each.status}: {each.found}" for each in findings if each is not worst]
    return replace(worst, details=(*worst.details, *others))
