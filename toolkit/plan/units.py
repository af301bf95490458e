"""Units of ours whose work is due at once, and not at the next boot alone."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.plan.acs import UNIT
from toolkit.plan.change import Action, Change

Command = tuple[str, ...]
Undo = tuple[tuple[str, Command], ...]  # when, as acts.When says it


def started(asking: Sequence[Change]) -> tuple[Command, Undo, bool]:
    """How the unit that sees to ACS is started, or stopped before its files go.

    Its stop gives registers back what it found in them.

    :returns: the command, what takes it back, and whether it comes before files are removed.
    """
    name = UNIT.rpartition("/")[2]
    start, stop = (("systemctl", verb, name) for verb in ("restart", "stop"))
    units = [change for change in asking if change.path == UNIT]
    if any(change.action is Action.REMOVE for change in units):
        return stop, (("after", start),), True
    if all(change.old is not None for change in units):
        return start, (("first", stop), ("after", start)), False
    return start, (("first", stop),), False
