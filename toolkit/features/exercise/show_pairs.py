"""Exercise: pairs of a set, planned and run, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from toolkit.checks.check import Status
from toolkit.features.exercise.plan_bisect import NamedPart, PairLedger, possible
from toolkit.features.exercise.plan_judge import JudgedTest, shown
from toolkit.features.exercise.plan_pairs import Ends, PairRun, RanPair
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.document import Json, picked
from toolkit.report.table import Ink, Painter, clean, columns, wrapped
from toolkit.throughput.estimate import Estimate

_SHOWN = 20  # lines of a table, unless all are asked for


class PairsReport(Struct, frozen=True):
    """What came of pairs."""

    way: str  # "bisect"; "" where an earlier run is judged again
    nodes: int  # that took part
    runs: tuple[RanPair, ...]
    ledger: PairLedger
    left: Mapping[str, str] = field(default_factory=dict)  # by host, why it took no further part

    @property
    def named(self) -> list[NamedPart]:
        return self.ledger.named()

    @property
    def ends(self) -> int:
        return len({end for run in self.ledger.runs for end in run.ends})

    @property
    def rounds(self) -> int:
        return max((run.round for run in self.runs), default=0)

    @property
    def counted(self) -> str:
        """How many runs were needed, of how many there could be."""
        made, most = len(self.ledger.runs), possible(self.ends, self.nodes)
        what = f"{counted(self.nodes, 'node')}, {counted(self.ends, 'HCA')}"
        rounds = f" in {counted(self.rounds, 'round')}" if self.rounds else ""
        return f"{what}: {counted(made, 'run')}{rounds}, of {max(made, most)} possible"


def planned_pairs_lines(
    first: Sequence[tuple[Ends, Estimate | None]],
    runs: int,
    rounds: int,
    way: str,
    *,
    verbose: bool,
) -> list[str]:
    """What would be run, and of the pairs that are known beforehand what is predicted."""
    rows = [
        (f"{one} - {other}", told.figure if told else "-", told.limit if told else "nothing")
        for (one, other), told in first
    ]
    what = f"{counted(runs, 'run')} in {counted(rounds, 'round')}"
    what += ", then what falls short, with partners that do well" * (way == "bisect")
    lines = [what, "", *_cut(columns([("between", "predicted", "limited by"), *rows]), verbose)]
    return [clean(line) for line in lines]


def pair_lines(report: PairsReport, paint: Painter, *, verbose: bool = False) -> list[str]:
    """How many runs; which parts were named, and by what; what is open."""
    ledger, named = report.ledger, report.named
    lines = [report.counted]
    for name, share, count in ledger.norms.whole(ledger.threshold):
        told = f"{name}: most of {count} HCAs reach {share:.2f} of what is predicted"
        lines += wrapped(f"{told}; each is held to that", rest="   ")
    for part in named:
        lines += ["", paint(f"{part.kind} {part.name}", Ink.RED)]
        held = f"{part.share:.2f} of what it should reach, in {counted(part.runs, 'run')}"
        lines += wrapped(f"reaches    {held}{_beside(part)}", first="   ", rest="   " + 11 * " ")
        if suspect := _suspect(part, report.runs):
            lines += wrapped(f"suspect    {suspect}", first="   ", rest="   " + 11 * " ")
    lines += _pairs("falls short, and no part is known", ledger.open(named), ledger)
    lines += _pairs("fell short, and came right when run again", ledger.unsteady(named), ledger)
    lines += _pairs("came to no result", ledger.void, ledger)
    lines += left_lines(report.left)
    rows = [_row(each, ledger) for each in report.runs if verbose or _told(each.run, ledger)]
    if rows:
        head = ("run", "between", "worst test", "measured", "predicted", "share")
        lines += ["", *_cut(columns([head, *rows]), verbose)]
    return [clean(line) if not line.startswith("\x1b") else line for line in lines]


def _told(run: PairRun, ledger: PairLedger) -> bool:
    share = ledger.norms.worst(run)
    return share is None or share < ledger.threshold


def _beside(part: NamedPart) -> str:
    if len(part.ends) == 1:
        return " with ends that do well with others"
    hosts = {end.host for end in part.ends}
    more = f" of {fold(hosts)}" if len(hosts) > 1 else ""
    return f": all {len(part.ends)} HCAs{more}"


def _suspect(part: NamedPart, runs: Sequence[RanPair]) -> str:
    """What most tests of it say by themselves; of those without a result what was found."""
    ends = set(part.ends)
    told = Counter(
        each.suspect or each.found
        for run in runs
        if ends.intersection(run.ends)
        for each in run.results
        if each.suspect or each.value is None
    )
    return next((words for words, _ in told.most_common(1)), "")


def _pairs(title: str, runs: Iterable[PairRun], ledger: PairLedger) -> list[str]:
    found = {f"{run.ends[0]} with {run.ends[1]}": run for run in runs}
    rows = [(name, _share(ledger.norms.worst(run))) for name, run in sorted(found.items())]
    return ["", f"{title}:", *_cut([f"   {line}" for line in columns(rows)], False)] if rows else []


def left_lines(left: Mapping[str, str]) -> list[str]:
    whys: dict[str, list[str]] = {}
    for host, why in left.items():
        whys.setdefault(why, []).append(host)
    lines = [
        line
        for why, hosts in sorted(whys.items())
        for line in wrapped(f"left out   {fold(hosts)}: {why}", rest=11 * " ")
    ]
    return ["", *lines] if lines else []


def _cut(lines: list[str], verbose: bool) -> list[str]:
    if verbose or len(lines) <= _SHOWN:
        return lines
    return [*lines[: _SHOWN - 1], f"and {len(lines) - _SHOWN + 1} more: --verbose"]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _row(ran: RanPair, ledger: PairLedger) -> tuple[str, ...]:
    worst = worst_of(ran.results)
    share = _share(ledger.norms.worst(ran.run))
    name = f"{ran.ends[0]} - {ran.ends[1]}"
    if worst is None:
        return (str(ran.number), name, "-", "-", "-", share)
    told = worst.expected.estimate if worst.expected else None
    memory = "GPU" if worst.test.gpu else "host"
    value = shown(worst.value, worst.unit) if worst.value is not None else "-"
    predicted = shown(told.value, worst.unit) if told else "-"
    return (str(ran.number), name, f"{memory}, {worst.test.kind}", value, predicted, share)


def worst_of(results: Sequence[JudgedTest]) -> JudgedTest | None:
    """The test that is the least of what is predicted; one that failed is less."""

    def rank(each: JudgedTest) -> tuple[bool, float]:
        return each.status is not Status.FAIL, 9.0 if each.ratio is None else each.ratio

    return min(results, key=rank, default=None)


def pairs_json(report: PairsReport) -> dict[str, Json]:
    """The part ``pairs`` of the document (docs/exercise.schema.json)."""
    ledger, named = report.ledger, report.named
    return {
        "way": report.way,
        "nodes": report.nodes,
        "ends": report.ends,
        "rounds": report.rounds,
        "possible": max(len(ledger.runs), possible(report.ends, report.nodes)),
        "runs": [
            {
                **picked(ran, "number round"),
                "ends": [dict(picked(end, "host hca gpu")) for end in ran.ends],
                "tests": [each.test.number for each in ran.results],
                "share": ledger.norms.worst(ran.run),
                "host_share": ledger.norms.worst(ran.run, gpu=False),
            }
            for ran in report.runs
        ],
        "named": [
            {
                **picked(part, "kind name share runs"),
                "ends": [str(end) for end in part.ends],
                "suspect": _suspect(part, report.runs),
            }
            for part in named
        ],
        "open": _both(ledger.open(named)),
        "unsteady": _both(ledger.unsteady(named)),
        "no_result": _both(ledger.void),
        "left": dict(report.left),
    }


def _both(runs: Iterable[PairRun]) -> list[Json]:
    found = {tuple(map(str, run.ends)) for run in runs}
    return [list(ends) for ends in sorted(found)]
