"""Verdicts on a set of nodes, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.checks.agreement import SetVerdict
from toolkit.checks.check import Impact, Status
from toolkit.hosts.host import fold
from toolkit.report.document import Json, picked
from toolkit.report.table import Ink, Painter, clean, labelled, wrapped


def between_lines(
    verdicts: Sequence[SetVerdict], paint: Painter, *, verbose: bool = False, brief: bool = False
) -> list[str]:
    """What differs between nodes that have to be alike; with ``verbose`` what does not, too.

    :param brief: what is fragile alone is told in one line.
    """
    lines: list[str] = []
    besides: list[str] = []
    for each in verdicts:
        failed = each.status is Status.FAIL
        if failed and brief and not verbose and each.rule.impact is Impact.FRAGILE:
            besides.append(f"{each.rule.id} on {each.found}")
            continue
        if not failed and not verbose:
            continue
        ink = Ink.RED if failed else Ink.YELLOW if each.status is Status.UNKNOWN else Ink.GREEN
        name = paint(f"{each.rule.id} ".ljust(24), Ink.BOLD)
        impact = each.rule.impact.value.ljust(9) if failed else ""
        hosts = clean(each.found) if failed else ""
        lines.append(f"{paint(each.status.value.ljust(8), ink)} {name}{impact}{hosts}".rstrip())
        told = [f"{fold(one.hosts)}: {one.found}" for one in each.differing] or [each.found]
        for at, words in enumerate(told):
            lines += labelled("found" if not at else "", words)
        if failed:
            lines += labelled("expected", each.rule.title)
            lines += labelled("why", each.rule.why)
        if verbose:
            lines += labelled("not read", fold(each.unread))
        lines.append("")
    if besides:
        first, *rest = wrapped(f"fragile  between nodes: {'; '.join(besides)}", rest=" " * 9)
        lines += [first.replace("fragile", paint("fragile", Ink.YELLOW), 1), *rest, ""]
    return lines


def between_document(verdicts: Sequence[SetVerdict]) -> dict[str, Json]:
    """For the head of a document; nothing where there was one node."""
    if not verdicts:
        return {}
    return {
        "between": [
            {
                **picked(each, "id=rule.id title=rule.title status found unread"),
                "impact": each.rule.impact.value,
                "differing": [picked(one, "hosts items value norm") for one in each.differing],
            }
            for each in verdicts
        ]
    }
