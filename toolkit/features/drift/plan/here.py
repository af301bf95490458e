"""One node as drift looks at it: its facts, its verdicts, and the plan for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from toolkit.checks.check import Status, Verdict
from toolkit.facts.node.node import Node
from toolkit.features.drift.plan.drift import Standing
from toolkit.plan.change import Blocked, Change
from toolkit.plan.plan import Plan

_STANDINGS = {
    Status.PASS: Standing.SAME,
    Status.FAIL: Standing.DRIFT,
    Status.UNKNOWN: Standing.UNKNOWN,
    Status.NA: Standing.NONE,
}


@dataclass(frozen=True, slots=True)
class Here:
    """One node; verdicts and plan are of the same evidence."""

    node: Node
    verdicts: Mapping[str, Verdict]  # by check id
    plan: Plan
    today: date  # on which waivers are weighed

    def standing(self, verdict: Verdict) -> Standing:
        """How the property stands that was judged."""
        return Standing.WAIVED if verdict.waived(self.today) else _STANDINGS[verdict.status]

    def judged(self, ids: tuple[str, ...]) -> tuple[Verdict, ...]:
        """The verdicts of these checks, as far as there are any."""
        return tuple(self.verdicts[each] for each in ids if each in self.verdicts)

    def change_of(self, path: str) -> Change | None:
        """What the plan does to the file at this path."""
        return next((each for each in self.plan.changes if each.path == path), None)

    def blocked(self, artefact: str) -> Blocked | None:
        """Why nothing can be planned for this artefact."""
        return next((each for each in self.plan.blocked if each.artefact == artefact), None)
