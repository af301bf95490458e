"""BIOS: what an operator asks for: ``--set acs=off,payload.mrrs=4096B``.

A wish names one of our settings, whatever a vendor calls it, or with ``raw:`` an attribute by
the vendor's own name. Which attributes it means, and which value of theirs, the very one that a
PATCH must carry, is decided once the BIOS is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum

from msgspec import Struct

from toolkit.checks.firmware.bios_wanted import BiosGoal
from toolkit.compat.bios import BiosRole, BiosRow
from toolkit.errors import UsageError
from toolkit.facts.firmware.bios_setting import Exposed
from toolkit.facts.firmware.redfish_bios import Attribute, Bios
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Kind
from toolkit.facts.firmware.redfish_values import (
    Meaning,
    Value,
    meaning_of,
    raw_for,
    squeezed,
    words_of,
)
from toolkit.facts.firmware.redfish_values import Wish as Meant
from toolkit.plural import first_of

PROFILE = "profile"  # as a word of --set: all that profile and role ask for
RAW = "raw:"
# Settings that are more than a switch: any word of the BIOS's own may be asked for.
_VALUED = frozenset(
    {BiosRole.MMIO_WINDOW, BiosRole.PAYLOAD, BiosRole.LINK_SPEED, BiosRole.NUMA_CLUSTERING}
    | {BiosRole.POWER_PROFILE, BiosRole.C_STATES}
)
_SWITCH = (Meaning.ON, Meaning.OFF, Meaning.AUTO)


class BiosWish(Struct, frozen=True):
    """One thing asked for. Either a setting or an attribute is named."""

    word: str  # "off", "4096B", or the BIOS's own
    setting: BiosRole | None = None
    part: str = ""  # "mrrs"; "" for all of the setting
    attribute: str = ""  # the vendor's name
    will_do: frozenset[Meaning] = frozenset()  # what is left as it is; of a profile's wish
    exact: Raw = None  # the value itself, where an undo knows it; None for one to be found
    ours: Raw = None  # of an undo: what we had set; another value is other hands'
    profile: bool = False  # nobody named it: where it is not exposed, that is no trouble

    def __str__(self) -> str:
        if self.setting is None:
            return f"{self.attribute}={self.word}"
        return f"{self.setting}{'.' * bool(self.part)}{self.part}={self.word}"


class BiosRequest(Struct, frozen=True):
    """All that was asked for with ``--set``."""

    wishes: tuple[BiosWish, ...] = ()
    profile: bool = False

    def on(self, wanted: Mapping[BiosRole, BiosGoal]) -> tuple[BiosWish, ...]:
        """The wishes for one machine: those that were named, then those of its profile."""
        named = {each.setting for each in self.wishes}
        more = [
            BiosWish(each.word, setting, will_do=each.will_do, profile=True)
            for setting, each in wanted.items()
            if self.profile and setting not in named and setting is not BiosRole.SECURE_BOOT
        ]
        return (*self.wishes, *more)


def read_asked(text: str) -> BiosRequest:
    """What ``--set`` says: SETTING=VALUE, SETTING.PART=VALUE, raw:NAME=VALUE or profile.

    :raises UsageError: no such setting or value, with those that come near; or said twice.
    """
    wishes: list[BiosWish] = []
    profile = False
    for each in (part.strip() for part in text.split(",")):
        if each == PROFILE:
            profile = True
        elif each:
            wishes.append(_wish(each))
    if not wishes and not profile:
        raise UsageError("--set names nothing", hint="--set acs=off, or --set profile")
    _refuse_twice(wishes)
    return BiosRequest(tuple(wishes), profile)


def check_word(setting: BiosRole, word: str, where: str) -> None:
    """A value for a setting, as far as it can be judged without a BIOS.

    :param where: what said so, for the sentence.
    :raises UsageError: a switch that is neither on, off nor auto.
    """
    if setting in _VALUED:
        return
    if meaning_of(word).meaning not in _SWITCH:
        raise UsageError(
            f"{where}: {word[:60]!r} is no value of {setting}",
            hint=f"{setting}=on, off or auto; or the BIOS's own word with raw:NAME=VALUE",
        )


def check_setting(name: str, where: str) -> BiosRole:
    """The setting of that name.

    :raises UsageError: there is none, with those that come near.
    """
    known = [each.value for each in BiosRole]
    if name in known:
        return BiosRole(name)
    near = get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.4)
    hint = f"is it {' or '.join(near)}?" if near else f"settings: {', '.join(known)}"
    raise UsageError(
        f"{where}: no setting {name[:60]!r}",
        hint=f"{hint}; an attribute by its vendor's name is raw:NAME=VALUE",
    )


def _wish(text: str) -> BiosWish:
    name, equals, word = (part.strip() for part in text.partition("="))
    if not equals or not name or not word:
        raise UsageError(
            f"--set {text[:60]!r}: a setting and its value are SETTING=VALUE",
            hint="--set acs=off,aspm=off; or --set profile",
        )
    if name.startswith(RAW):
        return BiosWish(word, attribute=name.removeprefix(RAW))
    bare, _, part = name.partition(".")
    setting = check_setting(bare, "--set")
    if setting is BiosRole.SECURE_BOOT:
        raise UsageError(
            "--set secure-boot: is a resource of its own with keys behind it, and not changed here",
            hint="in the BIOS's own screens, or at the BMC: SecureBootEnable of "
            "Systems/ID/SecureBoot, then a reset; with it on, modules must be signed: enrol",
        )
    check_word(setting, word, "--set")
    return BiosWish(word, setting, part)


def _refuse_twice(wishes: list[BiosWish]) -> None:
    seen: set[tuple[str, str]] = set()
    for each in wishes:
        key = (each.setting or each.attribute, each.part)
        if key in seen:
            raise UsageError(
                f"--set names {str(each).partition('=')[0]} twice", hint="once will do"
            )
        seen.add(key)


_SHOWN = 12  # allowed values that a sentence names
_TEXT = frozenset({Kind.STRING, Kind.UNTOLD})


def value_for(attribute: Attribute, wish: BiosWish, row: BiosRow | None = None) -> Raw:
    """The value; None where the attribute takes none that the wish could mean.

    The BIOS's own word goes before what means the same.

    :param row: what is known of the attribute, where it is one of our settings.
    """
    if wish.exact is not None:
        return wish.exact
    named = squeezed(wish.word)
    for each in attribute.allowed:
        if named in {squeezed(each.value), squeezed(each.display)}:
            return attribute.shown(each)
    if wish.setting is None and not attribute.allowed and attribute.kind in _TEXT:
        return wish.word  # nobody tells what it takes but the BMC itself
    meant = meaning_of(wish.word, attribute.name, row)
    if meant.meaning is Meaning.OTHER:
        return None
    return raw_for(attribute, Meant(meant.meaning, meant.number), row)


def satisfied(attribute: Attribute, value: Raw, wish: BiosWish, row: BiosRow | None = None) -> bool:
    """Whether a value is as wished already: in meaning, or in the very word of ``raw:``."""
    now = _meant(attribute, value, row)
    if now.meaning in wish.will_do:
        return True
    target = value_for(attribute, wish, row)
    if target is None:
        return False
    alike = wish.setting is not None and now.same(_meant(attribute, target, row))
    return alike or words_of(target) == words_of(value)


def _meant(attribute: Attribute, value: Raw, row: BiosRow | None) -> Value:
    """What a value means, told by its display name where it is a mere number."""
    return meaning_of(attribute.told(value), attribute.name, row)


def allowed(attribute: Attribute) -> str:
    """What it takes, for a sentence."""
    if attribute.kind is Kind.BOOLEAN:
        return "true, false"
    if attribute.kind is Kind.INTEGER:
        ends = (("from", attribute.entry.lower), ("to", attribute.entry.upper))
        told = [f"{word} {end}" for word, end in ends if end is not None]
        return " ".join(("a whole number", *told))
    found = [attribute.shown(each) for each in attribute.allowed]
    return first_of(found, _SHOWN) or "not told by its registry"


class BlockKind(StrEnum):
    """Why a wish is not to be had."""

    NOT_EXPOSED = "not exposed"  # the BIOS offers no such setting
    NO_VALUE = "no such value"
    AMBIGUOUS = "ambiguous"  # which part is meant was not said
    READ_ONLY = "read-only"
    LOCKED = "locked"  # the BMC's lockdown holds all of them
    CONTRARY = "contrary"  # another wish forces another value
    CHANGED = "changed since"  # an undo finds other hands' value there


# What keeps no other wish from being done: there is nothing to be done about it.
_HARMLESS = frozenset({BlockKind.NOT_EXPOSED, BlockKind.CHANGED})


class BlockedWish(Struct, frozen=True):
    """A wish that is not to be had on this machine."""

    wish: str
    block: BlockKind
    reason: str  # one clause
    hint: str = ""
    named: bool = True  # by the operator, not by a profile

    @property
    def stops(self) -> bool:
        """Whether nothing at all is sent: half of what was named together may be worse."""
        return self.named and self.block not in _HARMLESS


class BiosTarget(Struct, frozen=True):
    """One attribute that a wish means."""

    wish: BiosWish
    attribute: Attribute
    row: BiosRow | None = None


def targets_of(
    bios: Bios,
    exposed: Mapping[BiosRole, Sequence[Exposed]],
    wishes: Sequence[BiosWish],
    blocked: list[BlockedWish],
) -> Iterable[BiosTarget]:
    """The attributes that wishes mean.

    :param blocked: grows by the wishes that mean none.
    """
    for wish in wishes:
        if wish.setting is None:
            yield from _named(bios, exposed, wish, blocked)
            continue
        every = [each for each in exposed.get(wish.setting, ()) if each.part != "status"]
        meant = meant_of(every, wish.part)
        if wish.profile and not every:
            continue
        if meant:
            yield from (BiosTarget(wish, each.attribute, each.row) for each in meant)
        else:
            blocked.append(_not_met(wish, every))


def meant_of(every: Sequence[Exposed], part: str = "") -> Sequence[Exposed]:
    """The attributes of a setting that are meant where ``part`` is said, or none is.

    Without a part the setting's own switch is meant, where it has one beside its parts.
    """
    meant = [each for each in every if each.part == part]
    if meant or part or len({each.part for each in every}) > 1:
        return meant
    return every


def _not_met(wish: BiosWish, every: Sequence[Exposed]) -> BlockedWish:
    """Why a wish for a setting means none of the attributes that it is exposed as."""
    if every and not wish.part:
        parts = " or ".join(sorted({f"{wish.setting}.{each.part}" for each in every}))
        reason = f"{wish.setting} is {', '.join(each.name for each in every)} here"
        return BlockedWish(str(wish), BlockKind.AMBIGUOUS, reason, f"say which: {parts}")
    reason, hint = "this BIOS offers no such setting to its BMC", ""
    if every:
        known = {
            f"{wish.setting}.{each.part}" if each.part else str(wish.setting) for each in every
        }
        reason, hint = f"it has no part {wish.part!r}", f"there is {', '.join(sorted(known))}"
    return BlockedWish(str(wish), BlockKind.NOT_EXPOSED, reason, hint)


def _named(
    bios: Bios,
    exposed: Mapping[BiosRole, Sequence[Exposed]],
    wish: BiosWish,
    blocked: list[BlockedWish],
) -> Iterable[BiosTarget]:
    attribute = bios.attributes.get(wish.attribute)
    if attribute is None:
        near = get_close_matches(wish.attribute, bios.attributes, n=3, cutoff=0.6)
        hint = (
            f"is it {' or '.join(near)}?" if near else "bios --verbose lists those that there are"
        )
        reason = "this BIOS has no such attribute"
        blocked.append(BlockedWish(str(wish), BlockKind.NOT_EXPOSED, reason, hint))
        return
    every = (each for group in exposed.values() for each in group)
    row = next((each.row for each in every if each.name == wish.attribute), None)
    yield BiosTarget(wish, attribute, row)
