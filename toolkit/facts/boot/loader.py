"""Which boot loader a node has, and what was tried with it.

Sources: the firmware variables LoaderInfo and StubInfo (systemd-boot(7), systemd-stub(7)),
/run/ostree-booted, /proc/mounts; /var/lib/gdr-toolkit/trials, which is ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable

MARK = "gdr_toolkit.trial"  # on the command line of a trial; the kernel knows no such module


class Loader(StrEnum):
    """What says which command line the next boot has."""

    GRUB = "GRUB"
    SYSTEMD_BOOT = "systemd-boot"
    UKI = "a unified kernel image"  # the command line is part of one signed file
    OSTREE = "ostree"
    TRANSACTIONAL = "transactional-update"  # the root is read-only
    OTHER = "no boot loader that we know"


def parse_loader(text: str) -> Loader:
    """Read the probe's lines; what stands above the loader comes before it."""
    lines = [line.split(" ", 1) for line in text.split("\n") if line]
    told = {words[0]: words[-1] for words in lines}
    if "ostree" in told:
        return Loader.OSTREE
    if "read-only" in told:
        return Loader.TRANSACTIONAL
    if "StubInfo" in told:
        return Loader.UKI
    if told.get("LoaderInfo", "").startswith("systemd-boot"):
        return Loader.SYSTEMD_BOOT
    return Loader.GRUB if "grub" in told else Loader.OTHER


class TrialOutcome(StrEnum):
    """How a trial ended, as far as the node was told."""

    OPEN = "open"  # its boot was asked for, and nobody has said yet what came of it
    GIVEN_UP = "given-up"
    UNREAD = "unread"  # no reading of its boot was whole; it may be tried once more


@dataclass(frozen=True, slots=True)
class Tried:
    """One line that a trial left on the node."""

    id: str
    outcome: TrialOutcome
    when: str  # "2026-11-22T08:10:00Z"
    why: str  # one sentence; "" while it is open


_LINE = re.compile(r"(\w+) (open|given-up|unread) (\S+) ?(.*)")


def parse_trials(text: str) -> dict[str, Tried]:
    """Read "ID OUTCOME TIME WHY" lines, by id.

    :raises Unparsable: at a line that is not of this form.
    """
    found: dict[str, Tried] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        words = _LINE.fullmatch(line)
        if words is None:
            raise Unparsable("trials", line, number)
        found[words[1]] = Tried(words[1], TrialOutcome(words[2]), words[3], words[4])
    return found
