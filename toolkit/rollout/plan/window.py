"""When a rollout may begin with a host: ``Sat 22:00-04:00``, ``Mon-Fri 01:00-05:00``, ``4h``.

Days and times are those of the controller's clock on the wall. A window that ends before it
begins goes on after midnight, and belongs to the day on which it began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta

from msgspec import Struct

from toolkit.errors import UsageError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(
    r"(?:(?P<days>[a-z]{3}(?:-[a-z]{3})?)\s+)?"
    r"(?P<from>[0-9]{1,2}:[0-9]{2})\s*-\s*(?P<to>[0-9]{1,2}:[0-9]{2})"
)
_LENGTH = re.compile(r"(?P<count>[1-9][0-9]{0,3})\s*(?P<unit>[hm])")
_HINT = 'for example --window "Sat 22:00-04:00", "Mon-Fri 01:00-05:00,Sun 00:00-24:00" or 4h'


class WeekSpan(Struct, frozen=True):
    """A stretch of time on some days of the week."""

    days: frozenset[int]  # 0 is Monday; the day on which it begins
    begins: int  # minutes after midnight
    lasts: int  # minutes

    def starts(self, around: datetime) -> Iterator[datetime]:
        """The beginnings from the day before ``around`` to eight days after it."""
        for shift in range(-1, 9):
            day = around.date() + timedelta(days=shift)
            if day.weekday() in self.days:
                yield datetime.combine(day, time()) + timedelta(minutes=self.begins)


class RolloutWindow(Struct, frozen=True):
    """When hosts may be begun; with neither spans nor an end, always."""

    spans: tuple[WeekSpan, ...] = ()
    until: datetime | None = None  # local, naive
    said: str = ""

    def open_at(self, now: datetime) -> bool:
        """:param now: local, naive."""
        if self.until is not None:
            return now < self.until
        return not self.spans or any(
            start <= now < start + timedelta(minutes=span.lasts)
            for span in self.spans
            for start in span.starts(now)
        )

    def opens_after(self, now: datetime) -> datetime | None:
        """When it opens next; None where it never will."""
        starts = [start for span in self.spans for start in span.starts(now) if start > now]
        return min(starts, default=None)


def parse_window(said: str, now: datetime) -> RolloutWindow:
    """What ``--window`` says; "" is always open.

    :param now: local, naive: a length counts from here.
    :raises UsageError: for anything else.
    """
    if not said.strip():
        return RolloutWindow()
    if length := _LENGTH.fullmatch(said.strip().lower()):
        unit = timedelta(hours=1) if length["unit"] == "h" else timedelta(minutes=1)
        return RolloutWindow(until=now + int(length["count"]) * unit, said=said)
    return RolloutWindow(spans=tuple(_span(part) for part in said.split(",")), said=said)


def _span(part: str) -> WeekSpan:
    found = _SPAN.fullmatch(part.strip().lower())
    if found is None:
        raise UsageError(f"--window: cannot read {part.strip()!r}", hint=_HINT)
    begins, ends = _minutes(found["from"], part), _minutes(found["to"], part)
    if begins == ends:
        raise UsageError(f"--window {part.strip()!r}: begins and ends at once", hint=_HINT)
    return WeekSpan(
        _days(found["days"] or "mon-sun", part), begins, (ends - begins) % (24 * 60) or 1440
    )


def _days(said: str, part: str) -> frozenset[int]:
    first, _, last = said.partition("-")
    if first not in DAYS or (last or first) not in DAYS:
        raise UsageError(f"--window: no such day in {part.strip()!r}", hint=_HINT)
    start, end = DAYS.index(first), DAYS.index(last or first)
    return frozenset((start + step) % 7 for step in range((end - start) % 7 + 1))


def _minutes(said: str, part: str) -> int:
    hours, minutes = map(int, said.split(":"))
    if minutes > 59 or hours * 60 + minutes > 24 * 60:
        raise UsageError(f"--window: no such time in {part.strip()!r}", hint=_HINT)
    return hours * 60 + minutes
