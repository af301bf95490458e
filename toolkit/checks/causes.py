"""The causes on one node: what is wrong of itself, each with the checks that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.checks.check import Gap, Status, Verdict
from toolkit.checks.judged import Judged


@dataclass(frozen=True, slots=True)
class Cause:
    """A failed or unknown verdict that follows from no other, and those that follow from it."""

    root: Verdict
    follows: tuple[Verdict, ...] = ()  # in the order of the checks


def causes(judged: Judged) -> tuple[Cause, ...]:
    """Each failed or unknown verdict in exactly one cause; waived failures are in none.

    Verdicts that are open for one and the same reason, a frame that was not read, are one
    cause: the first of them stands for it.
    """
    open_ = {each.check.id: each for each in judged.verdicts if _open(judged, each)}
    roots = {name: _root(name, judged, open_) for name in open_}
    first: dict[object, str] = {}
    groups: dict[str, list[Verdict]] = {}
    for name, verdict in open_.items():
        top = roots[name]
        top = first.setdefault(_reason(open_[top]), top)
        if name == top:
            groups.setdefault(top, [])
        else:
            groups.setdefault(top, []).append(verdict)
    return tuple(Cause(open_[top], tuple(groups[top])) for top in open_ if top in groups)


def _open(judged: Judged, verdict: Verdict) -> bool:
    if verdict.status is Status.FAIL:
        return not verdict.waived(judged.today)
    return verdict.status is Status.UNKNOWN


def _root(name: str, judged: Judged, open_: dict[str, Verdict]) -> str:
    """Where the steps from a verdict end; itself where they would go in a circle."""
    after = {each.check: each.after for each in judged.steps}
    at, seen = name, {name}
    while (above := after.get(at, "")) in open_:
        if above in seen:
            return name
        seen.add(above)
        at = above
    return at


def _reason(root: Verdict) -> object:
    """What makes two roots one: for a failure nothing does, for an unknown the same words."""
    if root.status is Status.FAIL:
        return root.check.id
    gap = root.finding.gap
    return gap if gap is not Gap.NONE else (Status.UNKNOWN, root.finding.found)
