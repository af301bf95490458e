"""Plans and their outcome for a person: folded by who would change the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolkit.checks.judged import Judged, causes
from toolkit.hosts.host import fold
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Change
from toolkit.plan.plan import Plan, diff
from toolkit.report.table import Ink, Painter, clean, labelled


def plan_lines(
    plans: Sequence[tuple[str, Plan]],
    paint: Painter,
    *,
    diffs: bool,
    judged: Mapping[str, Judged] | None = None,
) -> list[str]:
    """Each group of equal plans: what is placed and why, and what that calls for.

    :param plans: host and plan; empty plans are counted at the end.
    :param judged: by host; with it the files stand in the order of the causes that they mend.
        They are placed in the plan's own order, which is another matter.
    """
    groups: dict[tuple[object, ...], tuple[Plan, list[str]]] = {}
    for host, plan in plans:
        groups.setdefault(_same(plan), (plan, []))[1].append(host)
    lines: list[str] = []
    for plan, hosts in groups.values():
        if not plan.empty or plan.blocked:
            shown = _by_cause(plan, (judged or {}).get(hosts[0]))
            lines += [*_plan(shown, clean(fold(hosts)), paint, diffs), ""]
    idle = [host for host, plan in plans if plan.empty and not plan.blocked]
    if idle:
        lines += [f"{paint('as wanted'.ljust(10), Ink.GREEN)}{clean(fold(idle))}", ""]
    return lines


def _by_cause(plan: Plan, judged: Judged | None) -> Plan:
    if judged is None:
        return plan
    ranks = {
        verdict.check.id: at
        for at, each in enumerate(causes(judged))
        for verdict in (each.root, *each.follows)
    }

    def rank(change: Change) -> int:
        found = (ranks.get(why.partition(":")[0], len(ranks)) for why in change.why)
        return min(found, default=len(ranks))

    return replace(plan, changes=tuple(sorted(plan.changes, key=rank)))


def _plan(plan: Plan, hosts: str, paint: Painter, diffs: bool) -> list[str]:
    lines = [f"{paint('change'.ljust(10), Ink.YELLOW)}{paint(hosts, Ink.BOLD)}"]
    for change in plan.changes:
        lines += labelled(str(change.action), change.path)
        lines += labelled("", change.title)
        lines += [line for why in change.why for line in labelled("why", why)]
    for number, package in enumerate(plan.installs):
        lines += labelled("" if number else "install", package)
    if plan.triggers:
        lines += labelled("then", ", ".join(trigger_name(each) for each in plan.triggers))
    if plan.trial is not None:
        told = f"{plan.trial.told}: by one boot, and kept if no check is worse for it"
        lines += labelled("tried", told)
    for blocked in plan.blocked:
        lines += labelled("blocked", f"{blocked.artefact}: {blocked.reason}")
        lines += labelled("next", blocked.hint)
    if diffs:
        lines += ["", *(_shade(line, paint) for line in diff(plan).split("\n") if line)]
    return lines


def _same(plan: Plan) -> tuple[object, ...]:
    """What makes two plans the same to a reader; kernels and boot ids may differ."""
    changes = tuple((each.path, each.action, each.content, each.why) for each in plan.changes)
    return changes, plan.triggers, plan.blocked, plan.installs


def trigger_name(trigger: Trigger) -> str:
    """ "rebuild initramfs"."""
    return trigger.name.lower().replace("_", " ")


def _shade(line: str, paint: Painter) -> str:
    ink = {"+": Ink.GREEN, "-": Ink.RED}.get(line[:1])
    text = " " * 9 + clean(line)
    return paint(text, ink) if ink else text
