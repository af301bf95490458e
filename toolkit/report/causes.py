"""Causes for a person: one block each, with what follows from it in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.breakages import KnownBreakage
from toolkit.checks.check import Gap, Impact, Status, Tense, Verdict
from toolkit.checks.consumers.chosen import ASKED, Chosen, Way
from toolkit.checks.consumers.consumers import NAMES
from toolkit.checks.judged import Cause, Judged, causes
from toolkit.facts.nccl.nccl_log import Direction
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.table import WIDTH, Ink, Painter, clean, labelled, wrapped

_INDENT, _LONG = " " * 9, 40
_FEW = 4  # details of a cause, which --verbose shows in full
_IMPACTS = list(Impact)  # worst first
_INK = {Way.DMABUF: Ink.GREEN, Way.PEERMEM: Ink.GREEN, Way.NONE: Ink.RED}
_NODE = re.compile(r"\bNODE\b")  # that a command is to be told
_MEANT = re.compile(r"(?<=--hosts )NODE\b|(?<=\bon )NODE(?=:)")
Line = tuple[str, str]


class _Block(Struct):
    """Hosts that have one cause."""

    root: Verdict  # of the first of them
    waived: bool
    known: tuple[KnownBreakage, ...]
    hosts: list[str] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)  # of these; the others differ in details
    follows: dict[str, None] = field(default_factory=dict)  # ids of checks, on any of them
    impact: Impact = Impact.FRAGILE  # the worst of what fails
    fewer: bool = False  # on some of them not all of these follow
    of_text: bool = False  # one of them is a text, whose node nobody named


def behind(one: Judged, verdict: Verdict) -> tuple[KnownBreakage, ...]:
    """The breakages that explain a failure; a pass needs no explanation."""
    if verdict.status is not Status.FAIL:
        return ()
    return tuple(each for each in one.known if verdict.check.id in each.checks)


def cause_lines(judged: Sequence[Judged], paint: Painter) -> list[str]:
    """A block for each cause, folded by who has it; then what a boot would lose besides, in a line.

    What is open for a gap that many checks share is told elsewhere, in one paragraph.
    """
    blocks: dict[tuple[object, ...], _Block] = {}
    besides: dict[str, list[str]] = {}
    order: dict[str, int] = {}
    for one in judged:
        order |= {each.check.id: at for at, each in enumerate(one.verdicts)}
        found = causes(one)
        for cause in (*found, *map(Cause, one.waived)):
            if cause.root.finding.gap is not Gap.NONE:
                continue
            if _minor(cause, found) and not cause.root.waived(one.today):
                besides.setdefault(cause.root.check.id, []).append(one.host)
            else:
                _fold(blocks, one, cause)
    lines = []
    for each in sorted(blocks.values(), key=lambda each: _place(each, order)):
        lines += _lines(each, paint)
    lines += _besides(besides, order, paint)
    return [*lines, ""] if lines else []


def _place(block: _Block, order: dict[str, int]) -> tuple[object, ...]:
    """What fails stands before what is not known, whichever would be worse."""
    root = block.root
    return (root.status is not Status.FAIL, order[root.check.id], block.hosts)


def _minor(cause: Cause, found: Sequence[Cause]) -> bool:
    """It is of the next boot alone, nothing follows from it, and another cause is worse."""

    def impact(each: Cause) -> int:
        failing = each.root.status is Status.FAIL
        return _IMPACTS.index(each.root.check.impact) if failing else len(_IMPACTS)

    check, failing = cause.root.check, cause.root.status is Status.FAIL
    return (
        (failing and not cause.follows)
        and (check.impact, check.tense) == (Impact.FRAGILE, Tense.AT_BOOT)
        and any(impact(each) < impact(cause) or each.follows for each in found)
    )


def _fold(blocks: dict[tuple[object, ...], _Block], one: Judged, cause: Cause) -> None:
    root, waived, known = cause.root, cause.root.waived(one.today), behind(one, cause.root)
    key = (root.check.id, replace(root.finding, details=()), waived, known)
    new = key not in blocks
    block = blocks.setdefault(key, _Block(root, waived, known))
    follows = {each.check.id: None for each in cause.follows}
    block.fewer |= not new and follows.keys() != block.follows.keys()
    block.follows |= follows
    failing = [each.check.impact for each in (root, *cause.follows) if each.status is Status.FAIL]
    block.impact = min([block.impact, *failing], key=_IMPACTS.index)
    block.hosts.append(one.host)
    block.of_text |= one.text
    if root.finding.details == block.root.finding.details:
        block.alike.append(one.host)


def _lines(each: _Block, paint: Painter) -> list[str]:
    check, finding = each.root.check, each.root.finding
    lines = _head(each, paint)
    lines += _details(finding.details, finding.found)
    if len(each.alike) < len(each.hosts):
        so = f"so on {clean(fold(each.alike))}, and otherwise on the others (--verbose)"
        lines += labelled("", so)
    if finding.status is Status.FAIL:
        fix = finding.hint or check.fix
        if each.of_text and _NODE.search(fix):
            fix += "; NODE is the machine that the text is of"
        lines += labelled("fix", fix if each.of_text else addressed(fix, each.hosts))
    else:
        lines += labelled("next", finding.hint)
    lines += known_lines(each.known)
    if each.waived and each.root.waiver:
        lines += labelled("waived", f"until {each.root.waiver.until}: {each.root.waiver.reason}")
    return lines + _follows(each)


def addressed(fix: str, hosts: Sequence[str]) -> str:
    """A repair to be copied as it stands: NODE is these hosts, unless that is a long list."""
    names = clean(fold(hosts))
    return fix if len(names) > _LONG else _MEANT.sub(lambda _: names, fix)


def _head(each: _Block, paint: Painter) -> list[str]:
    check, finding = each.root.check, each.root.finding
    word, ink = each.impact.value, Ink.RED
    if each.waived:
        word, ink = "waived", Ink.YELLOW
    elif finding.status is not Status.FAIL:
        word, ink = finding.status.value, Ink.YELLOW
    elif each.impact is Impact.SICK:
        ink = Ink.MAGENTA
    names = clean(fold(each.hosts))
    name = f"{check.id} ".ljust(24)
    plain = f"{word.ljust(8)} {name}"
    first, *rest = wrapped(
        f"{names}: {finding.found}" if len(names) <= _LONG else names, first=plain, rest=_INDENT
    )
    painted = f"{paint(word.ljust(8), ink)} {paint(name, Ink.BOLD)}"
    lines = [painted + first.removeprefix(plain), *rest]
    return lines if len(names) <= _LONG else [*lines, *labelled("found", finding.found)]


def _details(details: tuple[str, ...], found: str) -> list[str]:
    """A few; none of many that tell no more than addresses of what was found and counted."""
    rests = [each.partition(": ")[2] for each in details]
    if len(details) > _FEW and all(rest and rest in found for rest in rests):
        return []
    shown = details if len(details) <= _FEW + 1 else details[:_FEW]
    left = len(details) - len(shown)
    lines = [line for detail in shown for line in labelled("", detail)]
    return lines + (labelled("", f"and {left} more (--verbose)") if left else [])


def _follows(each: _Block) -> list[str]:
    if not each.follows:
        return []
    count = counted(len(each.follows), "check")
    verb = "follows" if len(each.follows) == 1 else "follow"
    text = f"{_INDENT}{'up to ' if each.fewer else ''}{count} {verb}: "
    names = list(each.follows)
    whole = text + ", ".join(names)
    while len(whole) > WIDTH and names:
        names.pop()
        whole = text + ", ".join([*names, "..."])
    return [whole]


def _besides(found: dict[str, list[str]], order: dict[str, int], paint: Painter) -> Iterator[str]:
    told = "; ".join(
        f"{name} on {clean(fold(found[name]))}" for name in sorted(found, key=order.__getitem__)
    )
    if told:
        plain = Impact.FRAGILE.value.ljust(9)
        first, *rest = wrapped(f"at boot, besides: {told}", first=plain, rest=_INDENT)
        yield f"{paint(plain, Ink.RED)}{first.removeprefix(plain)}"
        yield from rest


def known_lines(known: Iterable[KnownBreakage]) -> list[str]:
    """What is known of the cause, below the finding that it explains."""
    lines = []
    for each in known:
        lines += labelled("known", f"{each.id}: {each.title} ({each.found})")
        lines += labelled("", f"way out: {each.action}")
    return lines


def chosen_lines(judged: Sequence[Judged], paint: Painter, *, verbose: bool) -> list[str]:
    """One paragraph for each choice, folded by who makes it.

    Unless ``verbose``, only what was asked for, and libraries that would take no path.
    """
    groups: dict[tuple[str, Way, tuple[Line, ...]], list[str]] = {}
    for one in judged:
        for each in one.chosen:
            if verbose or (
                each.origin == ASKED or (each.way is Way.NONE and each.consumer in NAMES)
            ):
                key = (
                    f"{NAMES.get(each.consumer, each.consumer)} {each.version}".strip(),
                    each.way,
                    _told(each),
                )
                groups.setdefault(key, []).append(one.host)
    lines: list[str] = []
    for (name, way, told), hosts in groups.items():
        painted = paint(way.value.ljust(10), _INK.get(way, Ink.YELLOW))
        head = f"{paint('path'.ljust(8), Ink.BOLD)} {paint(clean(name).ljust(23), Ink.BOLD)}"
        lines.append(f"{head}{painted}{clean(fold(hosts))}".rstrip())
        for label, text in told:
            lines += labelled(label, text)
        lines.append("")
    return lines


def _told(one: Chosen) -> tuple[Line, ...]:
    """What is said below the head: labels with texts, nothing of one node alone if possible."""
    # The other pairs, where it does something else for them.
    near = set(one.nearest)
    others = (
        f"{each.way}: {each.why}"
        for each in one.groups
        if each.way is not one.way and set(each.pairs) - near
    )
    far = [("farther", each) for each in dict.fromkeys(others)]
    lines = [*_near(one), *far]
    lines += [("otherwise", one.otherwise)] if one.otherwise else []
    lines += [("set", f"{each.name}={each.value} in {each.file}") for each in one.settings]
    lines += [("not known", each) for each in one.not_known]
    lines += [("library", one.origin)] if one.origin.startswith("/") else []
    return tuple(lines)


def _near(one: Chosen) -> list[Line]:
    """The GPUs with their nearest HCAs: in one line where all are alike."""
    near, count = set(one.nearest), len(one.nearest)
    if one.way is Way.MIXED:
        return [
            (
                "pairs",
                f"{each.way}: {len(near & set(each.pairs))} of {count} GPUs with their nearest "
                f"HCA, {' and '.join(_WORDS[way] for way in each.directions)}: {each.why}",
            )
            for each in one.near
        ]
    whole = f"all {count} GPUs with their nearest HCA" if count > 1 else "with the nearest HCA"
    lines = [("pairs", f"{whole}, sending and receiving")] if near else []
    return [*lines, ("why", "; ".join(one.reasons))]


_WORDS = {Direction.SEND: "sending", Direction.RECEIVE: "receiving"}
