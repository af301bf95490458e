"""Why a check matters, what is read for it, and how its property is brought about."""

from __future__ import annotations

from toolkit.checks.check import Check
from toolkit.report.table import Ink, Painter, columns, labelled


def explain(check: Check, paint: Painter) -> str:
    """What ``explain CHECK`` prints."""
    lines = [paint(check.id, Ink.BOLD), f"  {check.title}", ""]
    if check.why:
        lines += [*(f"  {line}".rstrip() for line in check.why.split("\n")), ""]
    paths = " and ".join(sorted(path.value for path in check.paths))
    lines += labelled("impact", f"{check.impact} when it fails", indent=2)
    lines += labelled("holds", check.tense.value, indent=2)
    lines += labelled("path", paths, indent=2)
    lines += labelled("fix", check.fix, indent=2)
    lines += labelled("source", check.source, indent=2)
    return "\n".join(lines)


def listing(checks: tuple[Check, ...]) -> str:
    """All checks, one line each."""
    return "\n".join(columns((check.id, check.impact.value, check.title) for check in checks))
