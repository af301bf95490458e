"""Verdicts of a fleet, folded by who says the same: what a page shows once, and of whom."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.breakages import KnownBreakage
from toolkit.checks.check import Check, Finding, Gap, Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.features.page.show.seen import Excerpt, SeenNode
from toolkit.hosts.host import fold
from toolkit.package_data import as_called
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.report.pages import plain

BRIEF = 160  # characters of names, where they are not the point
GROUPS = 40  # findings of one check, of one status, that are told in full
DETAILS = 6  # places of one finding that are listed
ROOM = 6_000_000  # characters of all excerpts together
VARIANTS = 8  # wordings of one source that are shown behind one finding
_OURS = re.compile(
    r"(?:\./invokew|/usr/lib/gdr-toolkit/[^\s,;()]+)(?: [^,;()]*)?|modprobe [\w.-]+$"
)
# A hint may hold what a node said of itself, so nothing is offered that a shell would expand.
_HARMLESS = re.compile(r"[\w ./:=@%+-]+")
_MENDED = frozenset(proof for each in ARTEFACTS for proof in each.proofs)


class Who(Struct, frozen=True):
    """Some nodes of the fleet, by their numbers."""

    numbers: tuple[int, ...]
    names: str  # folded: "gpu[001-004]"

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def ranges(self) -> str:
        """ "0-3,7": for scripts, and short."""
        runs: list[list[int]] = []
        for each in self.numbers:
            if runs and each == runs[-1][1] + 1:
                runs[-1][1] = each
            else:
                runs.append([each, each])
        return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)

    @property
    def brief(self) -> str:
        """The names, of a long list the first ones."""
        if len(self.names) <= BRIEF:
            return self.names
        cut = self.names[:BRIEF].rpartition(",")[0] or self.names[:BRIEF]
        return f"{cut}, \u2026"


class Wording(Struct, frozen=True):
    """What one source said on some nodes."""

    who: Who
    excerpt: Excerpt


class FoldedSource(Struct, frozen=True):
    """One source that a finding rests on, in the words of all its nodes."""

    key: str
    source: str
    wordings: tuple[Wording, ...]  # most frequent first
    left: Who | None = None  # nodes whose words are not shown: there are too many


class Fold(Struct, frozen=True):
    """Nodes about which one check says the same; they may differ in details, as addresses do."""

    number: int
    check: Check
    finding: Finding
    who: Who
    waived: str  # until when, and why; "" where it is not
    known: tuple[KnownBreakage, ...]
    details: tuple[tuple[Who, tuple[str, ...]], ...] = ()  # DETAILS of them, and one for "more"
    commands: tuple[str, ...] = ()
    sources: tuple[FoldedSource, ...] = ()

    @property
    def word(self) -> str:
        """The class of its colour: an impact, "unknown", or "ready" for a pass."""
        if self.finding.status is Status.FAIL and not self.waived:
            return self.check.impact.value
        return "ready" if self.finding.status is Status.PASS else "unknown"

    @property
    def fix(self) -> str:
        failed = self.finding.status is Status.FAIL
        return as_called(self.finding.hint or (self.check.fix if failed else ""))


# Nodes, by number, about which one check says the same.
Group = list[tuple[int, Verdict]]


class Folder:
    """Folds the verdicts of nodes that are given in the order of their numbers."""

    def __init__(
        self,
        seen: Sequence[SeenNode | None],
        passing: dict[tuple[str, Finding], tuple[Excerpt, ...]],
    ) -> None:
        """:param seen: by number of the node; None for one that gave no evidence."""
        self._seen = seen
        self._passing = passing
        self._behind = [dict(each.behind) if each else {} for each in seen]
        self._names = [each.judged.host if each else "" for each in seen]
        self._who: dict[tuple[int, ...], Who] = {}
        self._room = ROOM

    def who(self, numbers: Iterable[int]) -> Who:
        """The nodes of these numbers; many findings are of the same ones."""
        key = tuple(numbers)
        if key not in self._who:
            names = [self._names[each] for each in key]
            # To fold one name is work for nothing, and a fleet of unlike nodes has many of them.
            self._who[key] = Who(key, plain(fold(names) if len(names) != 1 else names[0]))
        return self._who[key]

    def folds(self) -> tuple[list[Fold], list[Fold]]:
        """All verdicts, in the order of the checks, the most frequent finding first.

        :returns: what is shown once for all, where beyond ``GROUPS`` findings of one kind the
            rest is one; and each of them, for the nodes' own parts, with the numbers of those.
        """
        shown: list[Fold] = []
        rest: dict[tuple[str, Status, Gap], list[Group]] = {}
        placed: Counter[tuple[str, Status, Gap]] = Counter()
        for group in self._groups():
            _, first = group[0]
            kind = (first.check.id, first.status, first.finding.gap)
            placed[kind] += 1
            if placed[kind] > GROUPS:
                rest.setdefault(kind, []).append(group)
            else:
                shown.append(self._fold(len(shown), group))
        every = list(shown)
        for groups in rest.values():
            number = len(shown)
            shown.append(self._rest(number, groups))
            every += [self._bare(number, group) for group in groups]
        return shown, every

    def _groups(self) -> list[Group]:
        """Who says the same, but for details."""
        groups: dict[tuple[int, tuple[KnownBreakage, ...]], Group] = {}
        order: dict[str, int] = {}
        words: dict[tuple[object, ...], int] = {}
        keys: dict[int, int] = {}  # in words; nodes share equal verdicts
        for number, seen in enumerate(self._seen):
            for verdict in seen.judged.verdicts if seen else ():
                order.setdefault(verdict.check.id, len(order))
                if id(verdict) not in keys:
                    finding = replace(verdict.finding, details=())
                    said = (verdict.check.id, finding, verdict.waiver)
                    keys[id(verdict)] = words.setdefault(said, len(words))
                known = _known(seen.judged, verdict) if seen else ()
                groups.setdefault((keys[id(verdict)], known), []).append((number, verdict))
        return sorted(groups.values(), key=lambda g: (order[g[0][1].check.id], -len(g)))

    def _fold(self, at: int, group: Group) -> Fold:
        bare = self._bare(at, group)
        by_details: dict[tuple[str, ...], list[int]] = {}
        for each, verdict in group:
            by_details.setdefault(verdict.finding.details, []).append(each)
        ranked = sorted(by_details.items(), key=lambda each: -len(each[1]))
        told = ((self.who(numbers), lines) for lines, numbers in ranked[: DETAILS + 1] if lines)
        return replace(
            bare,
            details=tuple(told),
            commands=() if bare.waived else commands(group[0][1], bare.who),
            sources=tuple(self._sources(group)),
        )

    def _bare(self, at: int, group: Group) -> Fold:
        """What is found, and where; no more."""
        number, first = group[0]
        seen, waiver = self._seen[number], first.waiver
        waived = seen is not None and first.waived(seen.judged.today)
        return Fold(
            at,
            first.check,
            first.finding,
            self.who(each for each, _ in group),
            f"until {waiver.until}: {waiver.reason}" if waived and waiver else "",
            _known(seen.judged, first) if seen else (),
        )

    def _rest(self, at: int, groups: list[Group]) -> Fold:
        number, first = groups[0][0]
        who = self.who(sorted(number for group in groups for number, _ in group))
        found = f"{len(groups)} more findings, each of few nodes: see those"
        finding = replace(first.finding, found=found, expected="", hint="", details=())
        return replace(self._bare(at, [(number, first)]), finding=finding, who=who, known=())

    def _sources(self, group: Group) -> Iterator[FoldedSource]:
        """By source, what it said: of passes in the words of one node, else of each."""
        _, first = group[0]
        words: dict[str, dict[Excerpt, list[int]]] = {}
        if first.status is Status.PASS:
            words = {
                each.key: {each: [number for number, _ in group]}
                for each in self._passing.get((first.check.id, first.finding), ())
            }
        elif first.finding.gap is Gap.NONE:
            for number, _ in group:
                for each in self._behind[number].get(first.check.id, ()):
                    words.setdefault(each.key, {}).setdefault(each, []).append(number)
        for key, said in words.items():
            ranked = sorted(said.items(), key=lambda each: -len(each[1]))
            most = VARIANTS if self._room > 0 else 0
            shown = [Wording(self.who(numbers), text) for text, numbers in ranked[:most]]
            self._room -= sum(len(each.excerpt.text) for each in shown)
            left = sorted(number for _, numbers in ranked[most:] for number in numbers)
            source = next((each.source for each in said if each.source), "")
            yield FoldedSource(key, source, tuple(shown), self.who(left) if left else None)


def _known(judged: Judged, verdict: Verdict) -> tuple[KnownBreakage, ...]:
    """The breakages that explain a failure; a pass needs no explanation."""
    if verdict.status is not Status.FAIL:
        return ()
    return tuple(each for each in judged.known if verdict.check.id in each.checks)


def commands(verdict: Verdict, who: Who) -> tuple[str, ...]:
    """What can be typed to mend a failure, with the nodes that have it; quoted for a shell."""
    if verdict.status is not Status.FAIL:
        return ()
    hosts = shlex.quote(who.names)
    said = _OURS.findall(verdict.finding.hint or verdict.check.fix)
    harmless = [each.strip() for each in said if _HARMLESS.fullmatch(each)]
    one = len(who) == 1  # what is done on one host is no command for many
    told = [each.replace("NODE", hosts) for each in harmless if one or "--on " not in each]
    ours = [each for each in told if " --hosts " in each]
    if verdict.check.id in _MENDED and not ours:
        told = [f"./invokew {verb} --hosts {hosts}" for verb in ("plan", "provision")] + told
    return tuple(dict.fromkeys(as_called(_complete(each, hosts)) for each in told))


def _complete(command: str, hosts: str) -> str:
    """Prose after a command's options is no part of it; the hosts are, and stand last."""
    if re.fullmatch(r"\./invokew \w+", command):
        return f"{command} --hosts {hosts}"
    named = rf" (--hosts {re.escape(hosts)})((?: --[\w-]+ \S+)*).*"
    return re.sub(named, r"\2 \1", command)
