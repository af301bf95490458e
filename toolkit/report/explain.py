"""Why a check matters, what is read for it, and how its property is brought about."""

from __future__ import annotations

from toolkit.checks.check import Check
from toolkit.report import table
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
    lines += labelled("code", home(check), indent=2)
    return "\n".join(lines)


def home(check: Check) -> str:
    """The file of a check, below a checkout: "toolkit/checks/modules/peermem.py"."""
    return check.judge.__module__.replace(".", "/") + ".py"


def listing(checks: tuple[Check, ...], *, wrapped: bool = False) -> str:
    """All checks, one line each, for grep; or wrapped as a terminal needs it."""
    rows = columns((check.id, check.impact.value, check.title) for check in checks)
    if not wrapped or not checks:
        return "\n".join(rows)
    indent = len(rows[0]) - len(checks[0].title)
    return "\n".join(line for row in rows for line in table.wrapped(row, rest=" " * indent))
