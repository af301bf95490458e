"""What packages of every format have in common: files, and what the operator decides.

No clock, user or host takes part, so that equal inputs give equal bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from toolkit.errors import UsageError

EPOCH = 1767225600  # 2026-01-01, unless SOURCE_DATE_EPOCH says otherwise
# No surrogates: they stand for bytes of the command line that are no UTF-8.
_MAINTAINER = re.compile(
    r"[^\x00-\x1f\ud800-\udfff<>,\"\\%$`]{1,80} <[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+>"
)
# Not by strftime: the names are English wherever a package is made.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip


class Format(StrEnum):
    DEB = "deb"
    RPM = "rpm"
    TAR = "tar"


@dataclass(frozen=True, slots=True)
class Placed:
    """One file of a package."""

    path: str  # relative, as it lands: "lib/modules/6.1.0-56-amd64/updates/gdr-toolkit/..."
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Making:
    """What the operator decides about packages."""

    revision: int = 1  # raised for a package that shall replace one of the same driver and OFED
    maintainer: str = "gdr-toolkit <gdr-toolkit@example.org>"
    epoch: int = EPOCH  # seconds; the time that all files and the package itself carry

    def __post_init__(self) -> None:
        """Refuse what would break out of a control file.

        :raises UsageError: for a maintainer or a number that a package cannot have.
        """
        if not _MAINTAINER.fullmatch(self.maintainer):
            raise UsageError(
                f"{self.maintainer!r} cannot be a package's maintainer",
                hint="write it as: Name <name@example.org>",
            )
        if not 1 <= self.revision <= 99999 or not 0 < self.epoch < 1 << 32:
            raise UsageError(
                f"revision {self.revision}, time {self.epoch}: no package can have these",
                hint="a revision is a whole number from 1 on, a time is in seconds since 1970",
            )

    @property
    def day(self) -> datetime:
        return datetime.fromtimestamp(self.epoch, tz=UTC)

    @property
    def debian_date(self) -> str:
        """As a changelog of Debian's has it: "Thu, 01 Jan 2026 00:00:00 +0000"."""
        day = self.day
        month = _MONTHS[day.month - 1]
        return f"{_DAYS[day.weekday()]}, {day:%d} {month} {day:%Y %H:%M:%S} +0000"

    @property
    def rpm_date(self) -> str:
        """As a changelog of rpm's has it: "Thu Jan 01 2026"."""
        day = self.day
        return f"{_DAYS[day.weekday()]} {_MONTHS[day.month - 1]} {day:%d %Y}"
