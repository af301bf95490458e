"""The rooms of the toolkit, which mutants a seed chooses of each, and the score. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from msgspec import Struct

from tests.mutants.sites import Site, differs, sites

CORE = "core"  # the files at the toolkit's top
# They have tiers of their own, and nothing of them runs in "unit": suites, and what runs on nodes.
APART = ("toolkit/suites/", "toolkit/node/scripts/")


class Fate(StrEnum):
    KILLED = "killed"
    HUNG = "killed by time"  # a test ran on for ever
    SURVIVED = "survived"
    UNSEEN = "no test executes it"
    DOUBTED = "its test falls without it, too"  # this says nothing of the mutant


@dataclass(frozen=True, slots=True)
class Mutant:
    path: str  # "toolkit/facts/pci/acs.py"
    site: Site

    def __str__(self) -> str:
        return f"{self.path}:{self.site.line} ({self.site.kind}): {change(self.site)}"


class Ended(Struct, frozen=True):
    """What came of one mutant."""

    mutant: Mutant
    fate: Fate
    by: str = ""  # the test that failed
    tests: int = 0  # how many ran, at most
    left: int = 0  # how many more execute the line, and did not run for want of time

    @property
    def killed(self) -> bool:
        return self.fate in {Fate.KILLED, Fate.HUNG}


def room(path: str) -> str:
    """The room of one module; "" for one that has none."""
    parts = PurePosixPath(path).parts
    if path.startswith(APART):
        return ""
    return CORE if len(parts) == 2 else parts[1]


def change(site: Site) -> str:
    """Before and after, without what both share at their ends, on one short line."""
    return f"{_short(site.before)}  ->  {_short(site.after)}"


def choose(sources: Mapping[str, str], count: int, seed: int, least: int) -> list[Mutant]:
    """Mutants by room, in proportion to its lines that can change; each line counts alike.

    :param sources: path to text, of all modules.
    :param least: so many of each room, where its share would be fewer.
    """
    lines: dict[str, list[tuple[str, list[Site]]]] = {}
    for path, source in sorted(sources.items()):
        here: dict[int, list[Site]] = {}
        for site in sites(source) if room(path) else ():
            here.setdefault(site.line, []).append(site)
        lines.setdefault(room(path), []).extend((path, each) for each in here.values())
    lines.pop("", None)
    whole = sum(map(len, lines.values()))
    chosen = []
    for name, some in sorted(lines.items()):
        fate = random.Random(f"{seed} {name}")  # noqa: S311 # no secret: the same seed, the same mutants
        share = max(least, round(count * len(some) / whole)) if count else 0
        chosen += _some(some, sources, share, fate)
    return chosen


def _some(
    lines: Sequence[tuple[str, list[Site]]],
    sources: Mapping[str, str],
    share: int,
    fate: random.Random,
) -> list[Mutant]:
    found: list[Mutant] = []
    for path, here in fate.sample(lines, len(lines)):
        if len(found) == share:
            break
        site = fate.choice(here)
        if differs(sources[path], site):
            found.append(Mutant(path, site))
    return found


def score(ended: Iterable[Ended]) -> dict[str, tuple[int, int]]:
    """Room to how many were killed, of how many."""
    rooms: dict[str, tuple[int, int]] = {}
    for each in ended:
        if each.fate is Fate.DOUBTED:
            continue
        killed, whole = rooms.get(room(each.mutant.path), (0, 0))
        rooms[room(each.mutant.path)] = (killed + each.killed, whole + 1)
    return rooms


def table(ended: Sequence[Ended]) -> str:
    """The score by room, and who survived."""
    rooms = score(ended)
    whole = (sum(k for k, _ in rooms.values()), sum(n for _, n in rooms.values()))
    rows = [f"{'room':<10} killed   of    %"]
    for name, (killed, count) in [*sorted(rooms.items()), ("all", whole)]:
        rows.append(f"{name:<10} {killed:>6} {count:>4} {100 * killed / max(count, 1):>4.0f}")
    for each in ended:
        if not each.killed:
            more = f"; {each.left} more execute it" if each.left else ""
            rows.append(f"{each.mutant}\n    {each.fate}: {each.tests} tests ran{more}")
    return "\n".join(rows)


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:60]} ... {text[-36:]}"
