"""What a plan would change in each file, as unified differences; of a module its hash."""

from __future__ import annotations

from difflib import unified_diff

from toolkit.plan.change import Action, Change
from toolkit.plan.plan import Plan


def diff(plan: Plan) -> str:
    """The differences of all files that the plan touches; "" where it touches none."""
    return "".join(map(_diff, plan.files))


def _diff(change: Change) -> str:
    before = f"a{change.path}" if change.old else "/dev/null"
    after = f"b{change.path}" if change.action is Action.PLACE else "/dev/null"
    if change.data:
        return f"--- {before}\n+++ {after}\n({_binary(change)})\n"
    if change.old and change.old_text is None:
        return f"--- {before}\n+++ {after}\n(its present text is not part of the evidence)\n"
    old = (change.old_text or "").split("\n")[:-1]
    new = change.text.split("\n")[:-1]
    if old == new:
        return f"--- {before}\n+++ {after}\n({change.why[0]})\n"
    return "".join(f"{line}\n" for line in unified_diff(old, new, before, after, lineterm=""))


def _binary(change: Change) -> str:
    was = f", in place of sha256 {change.old.sha256}" if change.old else ""
    return f"binary, {len(change.data)} bytes, sha256 {change.sha256}{was}"
