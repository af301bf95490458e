"""One command on a node, and how it is taken back."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum

from toolkit.plan.artefact import Trigger

Command = tuple[str, ...]


class When(StrEnum):
    """When a rollback runs the command that takes an act back."""

    FIRST = "first"  # before any file is restored
    KEPT = "kept"  # after that, where a file that the act rewrote could not be restored
    AFTER = "after"  # after that, always


@dataclass(frozen=True, slots=True)
class Act:
    """One command on the node."""

    trigger: Trigger
    command: Command
    keeps: tuple[str, ...] = ()  # patterns of the files it rewrites, which are not ours
    undo: tuple[tuple[When, Command], ...] = ()
    early: bool = False  # before files are removed, on which it rests
    names: tuple[tuple[str, str], ...] = ()  # files it must have made, and what each then names
    temps: tuple[str, ...] = ()  # patterns of what it leaves beside them where it is cut off

    @property
    def call(self) -> str:
        """One quoted line: the trigger's name, then the command."""
        return call(self.trigger, self.command)


def call(trigger: Trigger, command: Command) -> str:
    return shlex.join((trigger.name, *command))
