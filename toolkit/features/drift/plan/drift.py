"""What a node should have, what it has on disk, and what is in effect: three columns.

A property has no second definition here: what is so is said by the checks, now and at the next
boot, and by the plan. A property whose checks pass is as wanted, by whatever hands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import ExitCode


class Standing(StrEnum):
    """How one column stands to what is wanted; the worst first."""

    DRIFT = "drift"
    UNKNOWN = "unknown"  # could not be read; never as wanted
    WAIVED = "waived"  # it has drifted, and the site lives with it for a while
    SAME = "as wanted"
    NONE = "-"  # this column has nothing to say


_ORDER = tuple(Standing)


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one property."""

    text: str = ""  # in one line, what is there
    standing: Standing = Standing.NONE


class Topic(StrEnum):
    """What kind of thing it is, as machines want to know it."""

    PROPERTY = "property"  # judged by checks
    ARGUMENT = "argument"  # one word of the kernel's command line
    FILE = "file"  # one file of ours
    WORK = "work"  # what should be done and is not, or cannot be


@dataclass(frozen=True, slots=True)
class Line:
    """One property of one node, in three columns."""

    topic: Topic
    name: str  # "IOMMU domains of HCAs", "iommu=pt", "/etc/modules-load.d/gdr-toolkit.conf"
    wanted: str
    on_disk: Cell  # what the next boot, or the next load, will take
    in_effect: Cell
    hint: str = ""  # what to do about it

    @property
    def standing(self) -> Standing:
        return worse(self.on_disk.standing, self.in_effect.standing)

    @property
    def means(self) -> str:
        """What kind of drift it is, in a few words; "" where there is none."""
        if self.standing is not Standing.DRIFT:
            return ""
        if self.in_effect.standing is Standing.SAME:
            return "in effect, and lost at the next boot or load"
        if self.on_disk.standing is Standing.SAME:
            return "written, and not in effect"
        return "not as wanted"


def worse(*standings: Standing) -> Standing:
    """The worst of them."""
    return min(standings, key=_ORDER.index, default=Standing.NONE)


@dataclass(frozen=True, slots=True)
class Drift:
    """One node, laid beside what it should be."""

    lines: tuple[Line, ...] = ()
    complete: bool = True  # False when the evidence was cut off
    gpus: bool = True  # False when the node is known to have none: nothing is wanted there
    reboot_owed: bool = False  # the next boot brings what is written

    def having(self, standing: Standing) -> tuple[Line, ...]:
        return tuple(each for each in self.lines if each.standing is standing)

    @property
    def state(self) -> str:
        """In one or two words."""
        if not self.complete:
            return "cut off"
        if not self.gpus:
            return "no GPU"
        worst = worse(*(each.standing for each in self.lines))
        return worst.value if worst in {Standing.DRIFT, Standing.UNKNOWN} else "as wanted"

    @property
    def exit_code(self) -> ExitCode:
        """As of a failing check: drift is not a change that somebody has asked about."""
        codes = {
            "cut off": ExitCode.UNREACHABLE,
            "drift": ExitCode.FAILED,
            "unknown": ExitCode.UNKNOWN,
        }
        return codes.get(self.state, ExitCode.OK)


def told(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Those that somebody has to look at."""
    return tuple(each for each in lines if each.standing in {Standing.DRIFT, Standing.UNKNOWN})
