"""What a BIOS was before we changed it: written to the journal before anything is sent.

    {"machine": "Dell Inc. PowerEdge R750", "attributes": [["AccessControl", "Enabled", null,
    "Disabled"]]}

Each attribute with what held, what the next reset would have made it, and what we ask for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolkit.facts.firmware.redfish_json import Raw, raw, tree
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan.plan import Edit, Effect
from toolkit.features.bios.plan.wishes import Wish
from toolkit.untrusted import read_json

KEPT = "kept"  # the journal's word for such an event


@dataclass(frozen=True, slots=True)
class Kept:
    """One attribute as it was."""

    name: str
    before: Raw
    pending: Raw  # None where nothing was pending
    after: Raw  # what we asked for

    @property
    def back(self) -> Raw:
        """What it goes back to: what was pending would hold by now."""
        return self.before if self.pending is None else self.pending


@dataclass(frozen=True, slots=True)
class Before:
    """What was kept of one machine."""

    machine: str  # vendor and model, in the BMC's own words
    attributes: tuple[Kept, ...] = ()

    def dump(self) -> str:
        """One line, for the journal."""
        rows = [[each.name, each.before, each.pending, each.after] for each in self.attributes]
        return json.dumps({"machine": self.machine, "attributes": rows}, ensure_ascii=True)


def before_of(machine: str, edits: Sequence[Edit], effects: Sequence[Effect] = ()) -> Before:
    """What is kept before these edits are sent, and what follows from them by itself."""
    sent = [Kept(each.name, each.before, each.pending, each.after) for each in edits]
    follows = [Kept(e.name, e.before, None, e.after) for e in effects if e.after is not None]
    return Before(machine, (*sent, *follows))


def read_before(text: str) -> Before:
    """What an earlier run kept; what cannot be read of it is left out.

    :raises ValueError: it is no JSON object.
    """
    found: object = read_json(text)
    if not isinstance(found, dict):
        raise ValueError("no object")
    rows = tree(found).get("attributes")
    kept = [
        Kept(str(row[0]), raw(row[1]), raw(row[2]), raw(row[3]))
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, list) and len(row) == 4
    ]
    return Before(str(tree(found).get("machine", "")), tuple(kept))


def joined(befores: Iterable[Before]) -> Before:
    """What several passes kept, oldest first: an attribute's first value and its last wish."""
    found: dict[str, Kept] = {}
    machine = ""
    for before in befores:
        machine = machine or before.machine
        for each in before.attributes:
            first = found.get(each.name, each)
            found[each.name] = Kept(each.name, first.before, first.pending, each.after)
    return Before(machine, tuple(found.values()))


def back(before: Before) -> tuple[Wish, ...]:
    """The wishes that take a run back."""
    return tuple(
        Wish(words_of(each.back), attribute=each.name, exact=each.back, ours=each.after)
        for each in before.attributes
        if each.back is not None
    )
