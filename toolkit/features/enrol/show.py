"""What a certificate's enrolment came to: one row a node, and what the operator has to do."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import Outcome
from toolkit.features.enrol.plan import AT_THE_CONSOLE, Enrolling, Standing
from toolkit.plural import counted
from toolkit.report.table import Ink, Painter, clean, columns
from toolkit.report.text import errors

_INKS = {
    Standing.ENROLLED: Ink.GREEN,
    Standing.NEEDLESS: Ink.GREY,
    Standing.WAITS: Ink.YELLOW,
    Standing.MISSING: Ink.YELLOW,
}


def enrol_lines(outcomes: Sequence[Outcome[Enrolling]], paint: Painter) -> list[str]:
    """The table, what could not be done, and the way through MokManager where it is needed."""
    rows = [
        (each.host, value.standing.value, f"Secure Boot: {value.secure_boot}", value.found)
        for each in outcomes
        if (value := each.value) is not None
    ]
    inks = [_INKS[each.value.standing] for each in outcomes if each.value is not None]
    lines = [
        line.replace(row[1], paint(row[1], ink), 1)
        for line, row, ink in zip(
            columns([tuple(clean(cell) for cell in row) for row in rows]), rows, inks, strict=True
        )
    ]
    lines += errors(((each.host, each.error) for each in outcomes), paint)
    waiting = [e.host for e in outcomes if e.value and e.value.standing is Standing.WAITS]
    if waiting:
        lines += [
            "",
            f"{counted(len(waiting), 'node', 'waits', 'wait')}: "
            "reboot each with its console at hand (BMC, KVM);",
        ]
        lines += [f"  {line}" for line in AT_THE_CONSOLE]
        lines += [
            "  who does not answer within ten seconds boots on, and the request is gone",
            "undo, until that boot: enrol --revoke with the same options",
        ]
    return lines
