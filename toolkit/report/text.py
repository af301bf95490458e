"""Verdicts for a person: folded by who says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.breakages import KnownBreakage
from toolkit.checks.check import Gap, Impact, Status, Verdict
from toolkit.checks.judged import (
    ASSUMED,
    ELSEWHERE,
    NOT_READ,
    OTHERS,
    PASSES,
    UNVERIFIED,
    WITHOUT,
    Judged,
    causes,
)
from toolkit.errors import Outcome, ToolkitError
from toolkit.facts.text.foreign import Foreign
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.causes import behind, cause_lines, chosen_lines, known_lines
from toolkit.report.foreign import foreign_lines, shown_lines
from toolkit.report.table import Ink, Painter, clean, columns, labelled, unjudged

_INK = {
    Status.PASS: Ink.GREEN,
    Status.FAIL: Ink.RED,
    Status.UNKNOWN: Ink.YELLOW,
    Status.NA: Ink.GREY,
}
_STATE_INK = {
    "sick": Ink.MAGENTA,
    "ready": Ink.GREEN,
    PASSES: Ink.GREEN,
    "no GPU": Ink.GREY,
    WITHOUT: Ink.GREY,
    "unknown": Ink.YELLOW,
}
MANY_DETAILS = 8


class Folded(Struct, frozen=True):
    """Hosts about which one verdict says the same."""

    verdict: Verdict  # of the first of them
    hosts: tuple[str, ...]
    alike: tuple[str, ...] = ()  # of these hosts; the others differ in details, as addresses do
    waived: bool = False
    known: tuple[KnownBreakage, ...] = ()  # breakages that explain it
    after: str = ""  # id of the check that it follows from


def fold_verdicts(
    judged: Sequence[Judged], keep: Callable[[Verdict], bool], *, details: bool = True
) -> list[Folded]:
    """Group equal findings of the same check, in the order of the checks.

    :param details: whether findings that differ in their details alone are told apart.
    """
    groups: dict[tuple[object, ...], list[tuple[Judged, Verdict]]] = {}
    for one in judged:
        for verdict in one.verdicts:
            if keep(verdict):
                key = (
                    verdict.check.id,
                    verdict.finding if details else replace(verdict.finding, details=()),
                    verdict.waived(one.today),
                    behind(one, verdict),
                    _after(one, verdict),
                )
                groups.setdefault(key, []).append((one, verdict))
    order = {verdict.check.id: at for one in judged for at, verdict in enumerate(one.verdicts)}
    folded = [
        Folded(
            said[0][1],
            tuple(one.host for one, _ in said),
            tuple(o.host for o, v in said if v.finding.details == said[0][1].finding.details),
            said[0][1].waived(said[0][0].today),
            behind(*said[0]),
            _after(*said[0]),
        )
        for said in groups.values()
    ]
    return sorted(folded, key=lambda each: (order[each.verdict.check.id], each.hosts))


def _after(one: Judged, verdict: Verdict) -> str:
    return next((each.after for each in one.steps if each.check == verdict.check.id), "")


def findings(
    judged: Sequence[Judged], paint: Painter, *, verbose: bool = False, asked: Collection[str] = ()
) -> list[str]:
    """A block for each cause; each group of equal findings, passes too, when ``verbose``.

    :param asked: ids of checks that were asked for, which are told whatever they find.

    What is open for one reason that has nothing to do with the property, such as not being
    root, is folded into one paragraph unless ``verbose``.
    """

    def told(verdict: Verdict) -> bool:
        passes = verdict.status in {Status.PASS, Status.NA}
        return verbose or (passes and verdict.check.id in asked)

    lines: list[str] = []
    for each in fold_verdicts(judged, told, details=verbose):
        lines += [*_finding(each, paint, verbose), ""]
    return lines if verbose else lines + cause_lines(judged, paint) + _gaps(judged, paint)


def _gaps(judged: Sequence[Judged], paint: Painter) -> list[str]:
    groups: dict[tuple[int, str, str], list[str]] = {}
    gaps = [(one, _unexplained(one)) for one in judged]
    for gap in (Gap.LOST, Gap.ROOT, Gap.NOT_COLLECTED, Gap.LOG, Gap.PATH):
        for one, open_ in gaps:
            ids = [each.check.id for each in open_ if each.finding.gap is gap]
            if ids:
                groups.setdefault((len(ids), *_gap(gap, ids, one)), []).append(one.host)
    lines: list[str] = []
    for (count, found, cure), hosts in groups.items():
        word = paint(Status.UNKNOWN.value.ljust(8), _INK[Status.UNKNOWN])
        checks = paint(f"{count} check{'s' if count > 1 else ''}".ljust(33), Ink.BOLD)
        lines.append(f"{word} {checks}{clean(fold(hosts))}")
        lines += labelled("found", found)
        lines += labelled("next", cure)
        lines.append("")
    return lines


def _unexplained(one: Judged) -> list[Verdict]:
    """What has a gap, without those that follow from a cause, whose block tells of them."""
    gaps = [each for each in one.verdicts if each.finding.gap is not Gap.NONE]
    if not gaps:
        return []
    blocks = (each for each in causes(one) if each.root.finding.gap is Gap.NONE)
    told = {each.check.id for block in blocks for each in block.follows}
    return [each for each in gaps if each.check.id not in told]


def _gap(gap: Gap, ids: list[str], one: Judged) -> tuple[str, str]:
    if gap is Gap.ROOT:
        hints = dict.fromkeys(e.finding.hint for e in one.verdicts if e.check.id in ids)
        said = "; ".join(filter(None, hints)) if one.text else ""
        cure = said or "log in as root, or become root by sudo (--become)"
        return f"{gap}: {', '.join(ids)}", cure
    if gap is Gap.PATH:
        return f"not judged: {gap}", ""
    if gap is Gap.LOST:
        return f"{gap}: {', '.join(ids)}", ""
    found = f"not judged: what they rest on is {gap} (--verbose)"
    assumed = gap is Gap.NOT_COLLECTED and dict(one.about).get("role", "").endswith(ASSUMED)
    return found, "taken as bare metal; --site says otherwise (role)" if assumed else ""


def _finding(each: Folded, paint: Painter, verbose: bool) -> list[str]:
    check, finding = each.verdict.check, each.verdict.finding
    word = "waived" if each.waived else finding.status.value
    ink = Ink.YELLOW if each.waived else _INK[finding.status]
    impact = check.impact.value if finding.status is Status.FAIL else ""
    names = clean(fold(each.hosts))
    name = paint(f"{check.id} ".ljust(24), Ink.BOLD)
    head = f"{paint(word.ljust(8), ink)} {name}{impact.ljust(9)}{names}"
    lines = [head.rstrip(), *labelled("found", finding.found)]
    if finding.details:
        lines += _details(finding.details, verbose)
    if len(each.alike) < len(each.hosts):
        so = f"so on {clean(fold(each.alike))}, and otherwise on the others (--verbose)"
        lines += labelled("", so)
    lines += labelled("expected", finding.expected)
    if finding.status is Status.FAIL:
        lines += labelled("fix", finding.hint or check.fix)
    else:
        lines += labelled("next", finding.hint)
    lines += labelled("follows", f"from {each.after}") if each.after else []
    lines += known_lines(each.known)
    if each.waived and each.verdict.waiver:
        waiver = each.verdict.waiver
        lines += labelled("waived", f"until {waiver.until}: {waiver.reason}")
    return lines


def _details(details: tuple[str, ...], verbose: bool) -> list[str]:
    shown = details if verbose else details[:MANY_DETAILS]
    lines = [line for detail in shown for line in labelled("", detail)]
    left = len(details) - len(shown)
    return lines + (labelled("", f"and {left} more (--verbose)") if left else [])


def summary(outcomes: Sequence[Outcome[Judged]], paint: Painter) -> list[str]:
    """One row per group of hosts that stand alike, and a last line that counts."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        rows.setdefault(_row(outcome), []).append(outcome.host)
    head = ("pass", "fail", "unknown", "n/a", "state", "nodes")
    table = columns([head, *((*row, clean(fold(hosts))) for row, hosts in rows.items())])
    lines = [paint(table[0], Ink.GREY)]
    for line, row in zip(table[1:], rows, strict=True):
        state = row[-1]
        lines.append(
            line.replace(f" {state} ", f" {paint(state, _STATE_INK.get(state, Ink.RED))} ", 1)
        )
    texts = [each.value for each in outcomes if each.value and each.value.text]
    nodes = [each for each in outcomes if not (each.value and each.value.text)]
    last = ["", count_line(nodes)] if nodes or not texts else []
    last = last or ["", texts[0].partial] * bool(texts[0].partial)
    return [*lines, *shown_lines(texts, paint), *last]


def _row(outcome: Outcome[Judged]) -> tuple[str, ...]:
    if outcome.value is None:
        return ("-", "-", "-", "-", unjudged(outcome.error))
    one = outcome.value
    counts = {status: len(one.having(status)) for status in Status}
    return (
        str(counts[Status.PASS]),
        str(counts[Status.FAIL]),
        str(counts[Status.UNKNOWN]),
        str(counts[Status.NA]),
        one.state,
    )


def count_line(outcomes: Sequence[Outcome[Judged]]) -> str:
    """ "3 of 5 nodes are ready."; of what passes some checks alone, nothing that others decide."""
    states = [outcome.value.state if outcome.value else "out of reach" for outcome in outcomes]
    ready, total = states.count("ready"), len(states)
    nodes = "node is" if total == 1 else "nodes are"
    bare = states.count("no GPU")
    rest = f" {bare} without GPUs." if bare else ""
    reasons = Counter(e.value.without for e in outcomes if e.value and e.value.state == WITHOUT)
    for why, count in reasons.items():
        rest += f" {count} without it, {why.removeprefix('not supported ')}."
    if sick := states.count(Impact.SICK):
        rest += " 1 is sick: drain it." if sick == 1 else f" {sick} are sick: drain them."
    told = f"{rest}{_others(outcomes)}"
    if part := next((e.value.partial for e in outcomes if e.value and e.value.partial), ""):
        them = counted(total, "node", "passes", "pass")
        return f"{part}: {states.count(PASSES)} of {them} these.{told}"
    return f"{ready} of {total} {nodes} ready for GPUDirect RDMA.{told}"


def _others(outcomes: Sequence[Outcome[Judged]]) -> str:
    """The nodes that have GPUs of another maker: they are not taken for nodes without any."""
    having: dict[str, list[str]] = {}
    for each in outcomes:
        if each.value and not each.value.gpus and (said := dict(each.value.about).get(OTHERS)):
            having.setdefault(said, []).append(each.host)
    return "".join(f" {clean(fold(hosts))}: {said}." for said, hosts in having.items())


def errors(failed: Iterable[tuple[str, ToolkitError | None]], paint: Painter) -> list[str]:
    """Hosts that gave no value, folded by the sentence that says why.

    :param failed: host and error; None is passed over.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for host, error in failed:
        if error is not None:
            why = str(error).removeprefix(f"{host}: ")
            groups.setdefault((why, error.hint), []).append(host)
    lines: list[str] = []
    for (why, hint), hosts in groups.items():
        lines.append(f"{paint('error'.ljust(8), Ink.RED)} {paint(clean(fold(hosts)), Ink.BOLD)}")
        first, *rest = why.split("\n")
        lines += labelled("found", first)
        lines += [line for each in rest for line in labelled("", each)]
        lines += labelled("next", hint)
        lines.append("")
    return lines


def report(
    outcomes: Sequence[Outcome[Judged]],
    paint: Painter,
    *,
    verbose: bool = False,
    asked: Collection[str] = (),
    aside: Sequence[Foreign] = (),
    between: Sequence[str] = (),
) -> str:
    """What ``doctor`` prints.

    :param asked: ids of checks that were asked for, which are told whatever they find.
    :param aside: files that were not understood.
    :param between: lines about what the nodes have between them.
    """
    judged = [outcome.value for outcome in outcomes if outcome.value is not None]
    failed = ((each.host, each.error) for each in outcomes)
    lines = findings(judged, paint, verbose=verbose, asked=asked)
    lines += [*chosen_lines(judged, paint, verbose=verbose), *between, *errors(failed, paint)]
    lines += bmc_lines(judged, paint) + foreign_lines(aside, paint, verbose=verbose)
    return "\n".join([*lines, *summary(outcomes, paint)])


def verdict_text(host: str, verdict: Verdict) -> str:
    """One verdict without colour, for a test report."""
    return "\n".join(_finding(Folded(verdict, (host,), (host,)), Painter(False), True))


# BMCs that were not read, are another machine's, or were read without a certificate check.

_ANYBODY = "with any certificate (--bmc-insecure): what they say, anybody may have said"


def _remarks(told: str, *, some: bool) -> Iterator[tuple[str, str]]:
    """Title and words of what there is to be told.

    :param some: whether any host has a BMC: who gave one for some may have meant all.
    """
    if not told and some:
        yield "no BMC given", "judged by what the system shows alone"
    elif told.startswith(NOT_READ):
        yield "BMC not read", told.removeprefix(NOT_READ)
    elif ELSEWHERE in told:
        why = told.partition(ELSEWHERE)[2].removesuffix(UNVERIFIED)
        yield "BMC of another machine", f"{why}; left out: look at the inventory, or --bmc-map"
    if told.endswith(UNVERIFIED):
        yield "BMC not verified", _ANYBODY


def bmc_lines(judged: Sequence[Judged], paint: Painter) -> list[str]:
    """A paragraph for the hosts whose BMC has the same to be told of; [] for none."""
    abouts = {one.host: dict(one.about).get("bmc", "") for one in judged}
    groups: dict[tuple[str, str], list[str]] = {}
    for host, told in abouts.items():
        for each in _remarks(told, some=any(abouts.values())):
            groups.setdefault(each, []).append(host)
    lines: list[str] = []
    for (title, text), hosts in groups.items():
        lines.append(f"{paint(title.ljust(33), Ink.YELLOW)} {clean(fold(hosts))}")
        lines += [*labelled("found", clean(text)), ""]
    return lines
