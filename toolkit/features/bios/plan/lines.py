"""One BIOS beside what is wanted of it, line by line: current, pending, wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from toolkit.checks.firmware.bios_wanted import Wanted
from toolkit.compat.bios import BiosRole
from toolkit.facts.firmware.bios_setting import Exposed
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan.planning import meant_of
from toolkit.features.bios.plan.values import satisfied
from toolkit.features.bios.plan.wishes import Wish


class Stand(StrEnum):
    """How one line stands to what is wanted."""

    AS_WANTED = "as wanted"
    DIFFERS = "differs"
    COMING = "at next reset"  # differs now, and pending as wanted
    LEAVING = "not after next reset"  # as wanted now, and pending otherwise
    LEFT_ALONE = "left alone"  # nothing is wanted of it
    NOT_EXPOSED = "not exposed"


ILL = frozenset({Stand.DIFFERS, Stand.COMING, Stand.LEAVING})


@dataclass(frozen=True, slots=True)
class Line:
    """One attribute, or a setting that is none."""

    setting: BiosRole
    stand: Stand
    wanted: str = ""  # "" where nothing is
    why: str = ""
    name: str = ""  # the vendor's
    part: str = ""
    scope: str = ""  # "slot 1"; "" for the whole machine
    current: str = ""
    pending: str = ""  # "" where the next reset changes nothing
    read_only: bool = False


def lines_of(
    exposed: Mapping[BiosRole, Sequence[Exposed]], wanted: Mapping[BiosRole, Wanted]
) -> tuple[Line, ...]:
    """All settings, in their order; parts of a setting that nothing is wanted of included."""
    found: list[Line] = []
    for setting in BiosRole:
        wish = wanted.get(setting)
        every = exposed.get(setting, ())
        meant = {each.name for each in meant_of(every)}
        if not every:
            word, why = (str(wish), wish.why) if wish else ("", "")
            found.append(Line(setting, Stand.NOT_EXPOSED, word, why))
        found += [_line(each, wish if each.name in meant else None) for each in every]
    return tuple(found)


def _line(exposed: Exposed, wanted: Wanted | None) -> Line:
    attribute = exposed.attribute
    return Line(
        exposed.setting,
        _stand(exposed, wanted) if wanted else Stand.LEFT_ALONE,
        str(wanted) if wanted else "",
        wanted.why if wanted else "",
        exposed.name,
        exposed.part,
        exposed.scope,
        words_of(attribute.current),
        words_of(attribute.pending) if attribute.changing else "",
        attribute.read_only,
    )


def _stand(exposed: Exposed, wanted: Wanted) -> Stand:
    wish = Wish(wanted.word, exposed.setting, will_do=wanted.will_do)
    attribute = exposed.attribute
    now = satisfied(attribute, attribute.current, wish, exposed.row)
    if not attribute.changing:
        return Stand.AS_WANTED if now else Stand.DIFFERS
    then = satisfied(attribute, attribute.pending, wish, exposed.row)
    if now:
        return Stand.AS_WANTED if then else Stand.LEAVING
    return Stand.COMING if then else Stand.DIFFERS


def ill(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Those that are not as wanted, now or after the next reset."""
    return tuple(each for each in lines if each.stand in ILL)
