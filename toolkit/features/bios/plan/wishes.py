"""What an operator asks of a BIOS: ``--set acs=off,payload.mrrs=4096B``.

A wish names one of our settings, whatever a vendor calls it, or with ``raw:`` an attribute by
the vendor's own name. What value an attribute takes for it is decided once the BIOS is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from toolkit.checks.firmware.bios_wanted import Wanted
from toolkit.compat.bios import BiosRole
from toolkit.errors import UsageError
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_values import Meaning, meaning_of

PROFILE = "profile"  # as a word of --set: all that profile and role ask for
RAW = "raw:"
# Settings that are more than a switch: any word of the BIOS's own may be asked for.
_VALUED = frozenset(
    {BiosRole.MMIO_WINDOW, BiosRole.PAYLOAD, BiosRole.LINK_SPEED, BiosRole.NUMA_CLUSTERING}
    | {BiosRole.POWER_PROFILE, BiosRole.C_STATES}
)
_SWITCH = (Meaning.ON, Meaning.OFF, Meaning.AUTO)


@dataclass(frozen=True, slots=True)
class Wish:
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


@dataclass(frozen=True, slots=True)
class Asked:
    """All that was asked for with ``--set``."""

    wishes: tuple[Wish, ...] = ()
    profile: bool = False

    def on(self, wanted: Mapping[BiosRole, Wanted]) -> tuple[Wish, ...]:
        """The wishes for one machine: those that were named, then those of its profile."""
        named = {each.setting for each in self.wishes}
        more = [
            Wish(each.word, setting, will_do=each.will_do, profile=True)
            for setting, each in wanted.items()
            if self.profile and setting not in named and setting is not BiosRole.SECURE_BOOT
        ]
        return (*self.wishes, *more)


def read_asked(text: str) -> Asked:
    """What ``--set`` says: SETTING=VALUE, SETTING.PART=VALUE, raw:NAME=VALUE or profile.

    :raises UsageError: no such setting or value, with those that come near; or said twice.
    """
    wishes: list[Wish] = []
    profile = False
    for each in (part.strip() for part in text.split(",")):
        if each == PROFILE:
            profile = True
        elif each:
            wishes.append(_wish(each))
    if not wishes and not profile:
        raise UsageError("--set names nothing", hint="--set acs=off, or --set profile")
    _refuse_twice(wishes)
    return Asked(tuple(wishes), profile)


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


def _wish(text: str) -> Wish:
    name, equals, word = (part.strip() for part in text.partition("="))
    if not equals or not name or not word:
        raise UsageError(
            f"--set {text[:60]!r}: a setting and its value are SETTING=VALUE",
            hint="--set acs=off,aspm=off; or --set profile",
        )
    if name.startswith(RAW):
        return Wish(word, attribute=name.removeprefix(RAW))
    bare, _, part = name.partition(".")
    setting = check_setting(bare, "--set")
    if setting is BiosRole.SECURE_BOOT:
        raise UsageError(
            "--set secure-boot: is a resource of its own with keys behind it, and not changed here",
            hint="in the BIOS's own screens, or at the BMC: SecureBootEnable of "
            "Systems/ID/SecureBoot, then a reset; with it on, modules must be signed: enrol",
        )
    check_word(setting, word, "--set")
    return Wish(word, setting, part)


def _refuse_twice(wishes: list[Wish]) -> None:
    seen: set[tuple[str, str]] = set()
    for each in wishes:
        key = (each.setting or each.attribute, each.part)
        if key in seen:
            raise UsageError(
                f"--set names {str(each).partition('=')[0]} twice", hint="once will do"
            )
        seen.add(key)
