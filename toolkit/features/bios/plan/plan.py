"""What of a BIOS is to be changed, in which order, and what stands in the way. Sends nothing.

passes      what is sent at once, one attribute an edit; what only a reset opens waits for it
owed        asked for, and pending already: nothing is to be sent, a reset makes it so
effects     what follows by itself, as the registry's dependencies tell
strangers   pending by other hands, and made so by the same reset
blocked     asked for, and not to be had: named, with the reason
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from toolkit.compat.bios import BiosRole
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_values import words_of


class Block(StrEnum):
    """Why a wish is not to be had."""

    NOT_EXPOSED = "not exposed"  # the BIOS offers no such setting
    NO_VALUE = "no such value"
    AMBIGUOUS = "ambiguous"  # which part is meant was not said
    READ_ONLY = "read-only"
    LOCKED = "locked"  # the BMC's lockdown holds all of them
    CONTRARY = "contrary"  # another wish forces another value
    CHANGED = "changed since"  # an undo finds other hands' value there


# What keeps no other wish from being done: there is nothing to be done about it.
_HARMLESS = frozenset({Block.NOT_EXPOSED, Block.CHANGED})


@dataclass(frozen=True, slots=True)
class Edit:
    """One attribute that is to be sent."""

    name: str  # as a PATCH must have it
    before: Raw  # what holds now
    pending: Raw  # what the next reset would have made it; None where nothing was
    after: Raw
    wish: str  # "acs=off"
    display: str = ""  # as the BIOS's own screens call it
    setting: BiosRole | None = None
    named: bool = True  # by the operator, not by a profile

    def __str__(self) -> str:
        coming = (
            "" if self.pending in (None, self.before) else f" (pending {words_of(self.pending)})"
        )
        return f"{self.name}: {words_of(self.before)}{coming} -> {words_of(self.after)}"


@dataclass(frozen=True, slots=True)
class Blocked:
    """A wish that is not to be had on this machine."""

    wish: str
    block: Block
    reason: str  # one clause
    hint: str = ""
    named: bool = True  # by the operator, not by a profile

    @property
    def stops(self) -> bool:
        """Whether nothing at all is sent: half of what was named together may be worse."""
        return self.named and self.block not in _HARMLESS


@dataclass(frozen=True, slots=True)
class Effect:
    """What follows from the edits without being asked for."""

    name: str
    text: str  # "becomes read-only", "Enabled -> Disabled"
    before: Raw = None
    after: Raw = None  # None where its value stays


@dataclass(frozen=True, slots=True)
class BiosPlan:
    """What is to be done to one BIOS."""

    passes: tuple[tuple[Edit, ...], ...] = ()  # the first is empty where a reset comes first
    owed: tuple[Edit, ...] = ()
    effects: tuple[Effect, ...] = ()
    strangers: tuple[Edit, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    asked: int = 0  # wishes
    content: int = 0  # of these, attributes that are as asked already

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(edit for each in self.passes for edit in each)

    @property
    def pending(self) -> bool:
        """Whether anything is left to do: to send, or a reset for what was sent."""
        return bool(self.passes or self.owed)

    @property
    def stopped(self) -> tuple[Blocked, ...]:
        """Why nothing is sent; () where it may be."""
        return tuple(each for each in self.blocked if each.stops)

    @property
    def resets(self) -> int:
        """How many resets it takes."""
        return max(len(self.passes), int(bool(self.owed)))

    def within(self, agreed: BiosPlan) -> bool:
        """Whether it sends nothing that the agreed one does not."""
        return _pairs(self.edits) <= _pairs((*agreed.edits, *agreed.owed)) and _pairs(
            self.strangers
        ) <= _pairs((*agreed.strangers, *agreed.edits, *agreed.owed))


def _pairs(edits: Sequence[Edit]) -> set[tuple[str, str]]:
    return {(each.name, words_of(each.after)) for each in edits}


def names(edits: Iterable[Edit]) -> str:
    """The attributes, for a sentence."""
    return ", ".join(each.name for each in edits)
