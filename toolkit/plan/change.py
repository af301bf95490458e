"""What happens to one file of ours, or why nothing can."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct, field

from toolkit.facts.modules.placed_files import Placed
from toolkit.plan.artefact import Trigger

Command = tuple[str, ...]


class Action(StrEnum):
    PLACE = "place"
    REMOVE = "remove"
    TRIGGER = "trigger"  # the file is as it should be, and not in effect


class Change(Struct, frozen=True):
    """What happens to one file of ours."""

    artefact: str  # "modules-load.peermem"
    title: str
    path: str
    action: Action
    text: str = ""  # what the file will hold; "" when it is removed
    mode: int = 0
    old: Placed | None = None  # what lies there now; None for nothing
    old_text: str | None = None  # None where there is none, or the evidence lacks it
    triggers: tuple[Trigger, ...] = ()
    why: tuple[str, ...] = ()  # one line a reason: the proofs that fail, or what differs
    values: Mapping[str, str] = field(default_factory=dict)  # what the template was given
    data: bytes = b""  # in place of a text: a kernel module

    @property
    def content(self) -> bytes:
        """What the file will hold."""
        return self.data or self.text.encode()

    @property
    def sha256(self) -> str:
        """Of the new content, as hexadecimal digits."""
        return sha256(self.content).hexdigest()


class Wanted(Struct, frozen=True):
    """A file of ours that the node should have, unless what it is for is so without it."""

    artefact: str  # "modules-load.peermem"
    title: str
    path: str
    sha256: str  # of what it should hold, as hexadecimal digits
    proofs: tuple[str, ...]  # ids of the checks that pass once it is in effect, on this node
    arguments: tuple[str, ...] = ()  # words that it adds to the kernel's command line


class Blocked(Struct, frozen=True):
    """What should change and cannot be planned; nothing is done about it."""

    artefact: str  # "" for what no artefact of ours accounts for
    reason: str  # one sentence
    hint: str = ""


class When(StrEnum):
    """When a rollback runs the command that takes an act back."""

    FIRST = "first"  # before any file is restored
    KEPT = "kept"  # after that, where a file that the act rewrote could not be restored
    AFTER = "after"  # after that, always


class Act(Struct, frozen=True):
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
