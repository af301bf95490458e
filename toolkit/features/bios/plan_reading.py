"""BIOS: its settings beside what is wanted of them, the outcome of a change, what was there before.

What was there is written to the journal before anything is sent; each attribute with what held,
what the next reset would have made it, and what we ask for:

    {"machine": "Dell Inc. PowerEdge R750", "attributes": [["AccessControl", "Enabled", null,
    "Disabled"]]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from toolkit.checks.firmware.bios_wanted import BiosGoal
from toolkit.compat.bios import BiosRole
from toolkit.errors import ExitCode
from toolkit.facts.firmware.bios_setting import Exposed
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_bmc import BmcRead
from toolkit.facts.firmware.redfish_json import Raw, raw, tree
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan import BiosPlan, Edit, Effect
from toolkit.features.bios.plan_wishes import BiosWish, BlockKind, meant_of, satisfied
from toolkit.untrusted import read_json
from toolkit.want import Role


class LineState(StrEnum):
    """How one line stands to what is wanted."""

    AS_WANTED = "as wanted"
    DIFFERS = "differs"
    COMING = "at next reset"  # differs now, and pending as wanted
    LEAVING = "not after next reset"  # as wanted now, and pending otherwise
    LEFT_ALONE = "left alone"  # nothing is wanted of it
    NOT_EXPOSED = "not exposed"


ILL = frozenset({LineState.DIFFERS, LineState.COMING, LineState.LEAVING})


class BiosLine(Struct, frozen=True):
    """One attribute, or a setting that is none."""

    setting: BiosRole
    stand: LineState
    wanted: str = ""  # "" where nothing is
    why: str = ""
    name: str = ""  # the vendor's
    part: str = ""
    scope: str = ""  # "slot 1"; "" for the whole machine
    current: str = ""
    pending: str = ""  # "" where the next reset changes nothing
    read_only: bool = False


def lines_of(
    exposed: Mapping[BiosRole, Sequence[Exposed]], wanted: Mapping[BiosRole, BiosGoal]
) -> tuple[BiosLine, ...]:
    """All settings, in their order; parts of a setting that nothing is wanted of included."""
    found: list[BiosLine] = []
    for setting in BiosRole:
        wish = wanted.get(setting)
        every = exposed.get(setting, ())
        meant = {each.name for each in meant_of(every)}
        if not every:
            word, why = (str(wish), wish.why) if wish else ("", "")
            found.append(BiosLine(setting, LineState.NOT_EXPOSED, word, why))
        found += [_line_of(each, wish if each.name in meant else None) for each in every]
    return tuple(found)


def _line_of(exposed: Exposed, wanted: BiosGoal | None) -> BiosLine:
    attribute = exposed.attribute
    return BiosLine(
        exposed.setting,
        _state_of(exposed, wanted) if wanted else LineState.LEFT_ALONE,
        str(wanted) if wanted else "",
        wanted.why if wanted else "",
        exposed.name,
        exposed.part,
        exposed.scope,
        words_of(attribute.current),
        words_of(attribute.pending) if attribute.changing else "",
        attribute.read_only,
    )


def _state_of(exposed: Exposed, wanted: BiosGoal) -> LineState:
    wish = BiosWish(wanted.word, exposed.setting, will_do=wanted.will_do)
    attribute = exposed.attribute
    now = satisfied(attribute, attribute.current, wish, exposed.row)
    if not attribute.changing:
        return LineState.AS_WANTED if now else LineState.DIFFERS
    then = satisfied(attribute, attribute.pending, wish, exposed.row)
    if now:
        return LineState.AS_WANTED if then else LineState.LEAVING
    return LineState.COMING if then else LineState.DIFFERS


def ill(lines: Iterable[BiosLine]) -> tuple[BiosLine, ...]:
    """Those that are not as wanted, now or after the next reset."""
    return tuple(each for each in lines if each.stand in ILL)


class BiosReading(Struct, frozen=True):
    """One BIOS as its BMC tells of it now."""

    about: BmcRead
    bios: Bios
    lines: tuple[BiosLine, ...]
    plan: BiosPlan = field(default_factory=BiosPlan)
    role: Role | None = None  # None: not said, and the node could not be asked
    remarks: tuple[str, ...] = ()  # what a reader must hold of it

    @property
    def machine(self) -> str:
        """ "Dell Inc. PowerEdge R750, BIOS 1.8.2"; "" for a BMC that names nothing."""
        name = " ".join(each for each in (self.bios.vendor, self.bios.model) if each)
        version = f"BIOS {self.bios.version}" if self.bios.version else ""
        return ", ".join(each for each in (name, version) if each)

    @property
    def shown(self) -> ExitCode:
        """Of a look alone: whether what is wanted is so."""
        return ExitCode.FAILED if ill(self.lines) else ExitCode.OK

    @property
    def to_do(self) -> ExitCode:
        """Of a plan: what stands in its way goes before what is to be done."""
        if any(each.block is not BlockKind.NOT_EXPOSED for each in self.plan.blocked):
            return ExitCode.FAILED
        if self.plan.pending:
            return ExitCode.PENDING
        # A BIOS that does not tell of what was named leaves it to the OS to know.
        unknown = any(each.named for each in self.plan.blocked)
        return ExitCode.UNKNOWN if unknown else ExitCode.OK


class BiosOutcome(Struct, frozen=True):
    """One BIOS's way from what it was to what it is."""

    before: BiosReading
    after: BiosReading
    steps: tuple[str, ...] = ()  # what was done, a sentence each
    missed: tuple[Edit, ...] = ()  # the machine has started since, and these are not in force
    sent: bool = False  # whether a BMC took anything on
    resets: int = 0
    busy: str = ""  # why it was not reset

    @property
    def exit_code(self) -> ExitCode:
        """What is not in force after a start is a failure; what waits for one is pending."""
        return ExitCode.FAILED if self.missed else self.after.to_do

    @property
    def as_agreed(self) -> bool:
        """Whether all is done that the plan promised; it had shown what cannot be had."""
        if self.missed or self.busy or self.after.plan.pending:
            return False
        return set(self.after.plan.blocked) <= set(self.before.plan.blocked)


class KeptAttribute(Struct, frozen=True):
    """One attribute as it was."""

    name: str
    before: Raw
    pending: Raw  # None where nothing was pending
    after: Raw  # what we asked for

    @property
    def back(self) -> Raw:
        """What it goes back to: what was pending would hold by now."""
        return self.before if self.pending is None else self.pending


class KeptBios(Struct, frozen=True):
    """What was kept of one machine."""

    machine: str  # vendor and model, in the BMC's own words
    attributes: tuple[KeptAttribute, ...] = ()

    def dump(self) -> str:
        """One line, for the journal."""
        rows = [[each.name, each.before, each.pending, each.after] for each in self.attributes]
        return json.dumps({"machine": self.machine, "attributes": rows}, ensure_ascii=True)


def before_of(machine: str, edits: Sequence[Edit], effects: Sequence[Effect] = ()) -> KeptBios:
    """What is kept before these edits are sent, and what follows from them by itself."""
    sent = [KeptAttribute(each.name, each.before, each.pending, each.after) for each in edits]
    follows = [
        KeptAttribute(e.name, e.before, None, e.after) for e in effects if e.after is not None
    ]
    return KeptBios(machine, (*sent, *follows))


def read_before(text: str) -> KeptBios:
    """What an earlier run kept; what cannot be read of it is left out.

    :raises ValueError: it is no JSON object.
    """
    found: object = read_json(text)
    if not isinstance(found, dict):
        raise ValueError("no object")
    rows = tree(found).get("attributes")
    kept = [
        KeptAttribute(str(row[0]), raw(row[1]), raw(row[2]), raw(row[3]))
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, list) and len(row) == 4
    ]
    return KeptBios(str(tree(found).get("machine", "")), tuple(kept))


def joined(befores: Iterable[KeptBios]) -> KeptBios:
    """What several passes kept, oldest first: an attribute's first value and its last wish."""
    found: dict[str, KeptAttribute] = {}
    machine = ""
    for before in befores:
        machine = machine or before.machine
        for each in before.attributes:
            first = found.get(each.name, each)
            found[each.name] = KeptAttribute(each.name, first.before, first.pending, each.after)
    return KeptBios(machine, tuple(found.values()))


def back(before: KeptBios) -> tuple[BiosWish, ...]:
    """The wishes that take a run back."""
    return tuple(
        BiosWish(words_of(each.back), attribute=each.name, exact=each.back, ours=each.after)
        for each in before.attributes
        if each.back is not None
    )
