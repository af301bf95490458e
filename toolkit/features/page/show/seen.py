"""What a page of a fleet keeps of each node: verdicts, what they rest on, pairs, what they carry.

A page shows the words behind a verdict, not all that was read: of a long text the lines that
name what the finding names, and how many were left out. What equal nodes say is held once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.check import Finding, Gap, Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.checks.outliers import Sheet, Sheets
from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.perftest import SIMULATED, MeasuredPair
from toolkit.facts.recall import Answers
from toolkit.facts.text.scrub import hide_secrets
from toolkit.features.predict.plan.totals import Prediction, predict
from toolkit.features.topology.show.view import TopologyView, view
from toolkit.groups import Wants
from toolkit.report.pages import plain
from toolkit.throughput.inputs import NOT_TOLD
from toolkit.verbs.each import Alike


class Path(Struct, frozen=True):
    """Pairs of which the same is predicted."""

    pairs: tuple[tuple[str, str], ...]  # GPU's address, HCA's name
    now: str  # as it stands: "48.2 GB/s (44-50)"
    limit: str
    ring: str  # of a collective between nodes
    without: str  # through host memory
    blocked: str  # what keeps GPUDirect from working; "" where nothing does


class Carry(Struct, frozen=True):
    """Of one node: each GPU with the HCAs that none is nearer than, and all together."""

    paths: tuple[Path, ...]
    total: str  # "94.6 GB/s (82-100), limited by 2 HCAs of wire"; "" where not told
    without: str  # the same through host memory
    notes: tuple[str, ...]


def carry(told: Prediction) -> Carry | None:
    """The table of one node; None where nothing tells of a pair."""
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for pair in told.nearest:
        alike.setdefault(
            (
                pair.now.figure,
                pair.now.limit,
                f"{pair.collective.figure}, limited by {pair.collective.limit}",
                pair.without_gdr.figure,
                pair.blocked,
            ),
            [],
        ).append((pair.gpu, pair.name or pair.hca))
    if not alike:
        return None
    paths = tuple(Path(tuple(pairs), *figures) for figures, pairs in alike.items())
    total = told.total
    return Carry(
        paths,
        total.with_gdr.said if total else "",
        total.without_gdr.said if total else "",
        told.notes,
    )


def in_short(path: Path, figures: Iterable[MeasuredPair]) -> str:
    """What was measured over the pairs of a path, in a few words; "" where nothing was."""
    mine = [each for each in figures if (each.gpu, each.hca) in path.pairs]
    if not mine:
        return ""
    values = [each.value for each in mine]
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    span = f"{low} GB/s" if low == high else f"{low}-{high} GB/s"
    times = f", {len(mine)} times" if len(mine) > 1 else ""
    return span + times + SIMULATED * any(each.tool.endswith(SIMULATED) for each in mine)


LINES, WIDE = 30, 240  # of one excerpt, and of one of its lines
FEW = 12  # lines of a text behind a verdict that calls for nothing
_KINDS = 256  # of nodes, by what is drawn of them
_AROUND = 2  # lines shown after one that is named: registers stand below their function
# What is worth looking for: addresses, versions, files and devices have a digit or a slash.
_NAMES = re.compile(r"[\w./:@+-]{4,}")

T = TypeVar("T", bound=Hashable)
PassingKey = tuple[str, Finding]  # a check's id, and what it found


class Excerpt(Struct, frozen=True):
    """What one source said, as far as it is shown."""

    key: str  # "module-state"
    source: str  # "/proc/modules"
    trouble: str  # why nothing rests on it; "" where it was read in full
    text: str
    left: int = 0  # lines that are not shown


class SeenNode(Struct, frozen=True):
    """One node."""

    judged: Judged
    sheet: Sheet
    heat: Heat | None = None
    no_heat: str = ""  # why there is none
    carry: Carry | None = None
    # What open verdicts rest on, by check; of those that pass, see ``Seeing.passing``.
    behind: tuple[tuple[str, tuple[Excerpt, ...]], ...] = ()


class Seeing(Struct, dict=True):
    """Looks at nodes one after the other. May be called from many threads."""

    wants: Wants
    passing: dict[PassingKey, tuple[Excerpt, ...]] = field(default_factory=dict)
    _drawn: Answers[tuple[Heat | None, str, Carry | None]] = field(
        default_factory=lambda: Answers(_KINDS)
    )
    _alike: Alike = field(default_factory=Alike)
    _known: dict[Hashable, Hashable] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _sheets(self) -> Sheets:
        return Sheets(self.wants)

    def see(self, judged: Judged, evidence: Evidence, node: Node | None = None) -> SeenNode:
        """All that a page needs of this node; the evidence itself may be let go.

        :param node: of this evidence, as it was judged.
        """
        node = node or Node(evidence)
        drawn = self._drawn.ask(node.sources, partial(self._draw, node.fresh()))
        with self._turn:
            sheet = self._sheets.of(judged.host, node, judged.verdicts)
            behind = tuple(self._behind(judged, evidence))
            return SeenNode(judged, sheet, *drawn, behind)

    def take(
        self, seen: SeenNode, passing: Iterable[tuple[PassingKey, tuple[Excerpt, ...]]]
    ) -> SeenNode:
        """A node that was seen by another process, with what it was the first to tell there."""
        for key, excerpts in passing:
            self.passing.setdefault(key, excerpts)
        alike, sheet = self._alike, seen.sheet
        return replace(
            seen,
            judged=alike.judged(seen.judged),
            sheet=Sheet(sheet.host, alike.each(sheet.sections), alike.once(sheet.layout)),
            heat=alike.once(seen.heat),
            carry=alike.once(seen.carry),
            behind=tuple(map(alike.once, seen.behind)),
        )

    def _draw(self, node: Node) -> tuple[Heat | None, str, Carry | None]:
        """The grid of a node, or why there is none, and what its paths carry."""
        told = predict(node)
        try:
            shown, why = heat(view("", node.sources), told), ""
        except (NoEvidence, Unparsable) as missing:
            shown, why = None, str(missing)
        return self._once(shown), why, self._once(carry(told))

    def _behind(
        self, judged: Judged, evidence: Evidence
    ) -> Iterator[tuple[str, tuple[Excerpt, ...]]]:
        for verdict in judged.verdicts:
            finding = verdict.finding
            if finding.status is Status.PASS:
                key = (verdict.check.id, finding)
                if key not in self.passing:
                    self.passing[key] = self._excerpts(verdict, evidence, FEW)
            elif finding.status is not Status.NA and finding.gap is Gap.NONE:
                yield verdict.check.id, self._once(self._excerpts(verdict, evidence, LINES))

    def _excerpts(self, verdict: Verdict, evidence: Evidence, most: int) -> tuple[Excerpt, ...]:
        finding = verdict.finding
        names = named(" ".join((finding.found, *finding.details)))
        return tuple(self._once(excerpt(evidence, key, names, most)) for key in verdict.cited)

    def _once(self, value: T) -> T:
        return cast("T", self._known.setdefault(value, value))


def named(text: str) -> frozenset[str]:
    """The words of a finding that are worth looking for in what it rests on."""
    words = (each.strip(".:/-") for each in _NAMES.findall(text))
    return frozenset(each for each in words if len(each) > 3 and re.search(r"[\d/]", each))


def excerpt(evidence: Evidence, key: str, names: frozenset[str], most: int = LINES) -> Excerpt:
    """What the frame of this key says: all of it where it is short, else what is named.

    :param most: lines.
    """
    frame = evidence.frames.get(key)
    if frame is None:
        why = "not part of this evidence" if evidence.complete else "cut off before it was read"
        return Excerpt(key, "", why, "")
    lines = _lines(frame.text)
    kept = _chosen(lines, names, most)
    shown = "\n".join(_joined(lines, kept))
    return Excerpt(key, plain(frame.source), plain(frame.trouble), shown, len(lines) - len(kept))


@lru_cache(maxsize=32)  # several verdicts rest on one source, and nodes say the same
def _lines(text: str) -> tuple[str, ...]:
    """What may be shown of a source."""
    return tuple(plain(hide_secrets(text)).rstrip("\n").split("\n"))


def _chosen(lines: Sequence[str], names: frozenset[str], most: int) -> list[int]:
    """The numbers of the lines that are shown, rising."""
    if len(lines) <= most:
        return list(range(len(lines)))
    hits = [at for at, line in enumerate(lines) if any(name in line for name in names)]
    near = dict.fromkeys(
        each for at in hits for each in range(at, min(at + 1 + _AROUND, len(lines)))
    )
    return sorted(list(near)[:most]) or list(range(most))


def _joined(lines: Sequence[str], kept: list[int]) -> Iterator[str]:
    """The lines, and a mark wherever some are passed over."""
    before = -1
    for at in kept:
        if at > before + 1:
            yield "\u22ef"
        line = lines[at]
        yield line if len(line) <= WIDE else f"{line[:WIDE]} \u2026"
        before = at
    if kept and kept[-1] < len(lines) - 1:
        yield "\u22ef"


# The classes of nvidia-smi topo -m, and the shades of base.css that stand for them.
_SHADES = {
    **dict.fromkeys(("C2C", "PIX"), "near"),
    "PXB": "close",
    **dict.fromkeys(("P2C", "PHB"), "middle"),
    **dict.fromkeys(("NODE", "NODE or SYS"), "far"),
    "SYS": "apart",
}


class HeatSpot(Struct, frozen=True):
    """One GPU with one HCA."""

    distance: str  # "PIX"; "?" where not told
    gigabytes: float  # of the narrowest link, GB/s one way; 0 where not told
    limit: str  # that link: "32 GT/s x16"
    at: str  # the address of its lower end
    redirects: tuple[str, ...] | None  # bridges that send peer traffic up; None: not known
    predicted: str  # "48 GB/s", as it stands; "" where nothing is predicted
    nearest: bool
    why: str

    @property
    def shade(self) -> str:
        return _SHADES.get(self.distance, "unknown")

    @property
    def told(self) -> str:
        """All of it in one sentence."""
        parts = [self.distance]
        if self.predicted:
            parts.append(f"predicted {self.predicted}")
        if self.limit:
            parts.append(f"narrowest link {self.limit} ({self.gigabytes:g} GB/s) at {self.at}")
        if self.redirects is None:
            parts.append("ACS not known")
        elif self.redirects:
            parts.append(f"redirected at {', '.join(self.redirects)}")
        return "; ".join(parts)


class Heat(Struct, frozen=True):
    """GPUs down, HCAs across."""

    source: str  # "PCI tree"
    gpus: tuple[str, ...]
    hcas: tuple[str, ...]
    rows: tuple[tuple[HeatSpot | None, ...], ...]  # by GPU, then by HCA; None where not told
    notes: tuple[str, ...] = ()

    @property
    def redirects(self) -> tuple[str, ...]:
        """The bridges that send peer traffic up to the root complex, with the bits that do."""
        spots = (spot for row in self.rows for spot in row if spot is not None)
        return tuple(dict.fromkeys(each for spot in spots for each in spot.redirects or ()))


def heat(view: TopologyView, told: Prediction) -> Heat:
    """The grid of one node."""
    carried = {
        (each.gpu, hca): f"{each.now.value:.0f} {each.now.unit}"
        for each in told.pairs
        for hca in (each.hca, each.name)
    }
    spots = {
        (way.gpu, way.hca): HeatSpot(
            way.distance,
            way.gigabytes,
            way.limit,
            way.limited_at,
            way.redirects,
            carried.get((way.gpu, way.hca), ""),
            way.nearest,
            way.why,
        )
        for way in view.ways
    }
    rows = tuple(tuple(spots.get((gpu, hca)) for hca in view.hcas) for gpu in view.gpus)
    untold = any(each.untold for each in told.pairs)
    notes = (*view.notes, *((f"{NOT_TOLD}: predicted is what it would carry",) if untold else ()))
    return Heat(view.source, view.gpus, view.hcas, rows, notes)
