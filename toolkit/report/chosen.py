"""For a person: which path each library would take, and the known breakages behind a finding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.checks.breakages import Known
from toolkit.checks.consumers.chosen import ASKED, Chosen, Group, Way
from toolkit.checks.judged import Judged
from toolkit.facts.nccl.nccl_log import Direction
from toolkit.hosts.host import fold
from toolkit.report.table import Ink, Painter, clean, labelled

_SHOWN = {"nccl": "NCCL", "ucx": "UCX", "nvshmem": "NVSHMEM", "nixl": "NIXL"}
_INK = {Way.DMABUF: Ink.GREEN, Way.PEERMEM: Ink.GREEN, Way.NONE: Ink.RED}
Line = tuple[str, str]


def known_lines(known: Iterable[Known]) -> list[str]:
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
            if verbose or _worth_telling(each):
                key = (_named(each), each.way, _told(each))
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


def _worth_telling(each: Chosen) -> bool:
    return each.origin == ASKED or (each.way is Way.NONE and each.consumer in _SHOWN)


def _named(each: Chosen) -> str:
    """ "NCCL 2.27"; "perftest --use_cuda"."""
    return f"{_SHOWN.get(each.consumer, each.consumer)} {each.version}".strip()


def _told(one: Chosen) -> tuple[Line, ...]:
    """What is said below the head: labels with texts, nothing of one node alone if possible."""
    lines = [*_near(one), *_far(one)]
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
                f"{each.way}: {_count(each, near)} of {count} GPUs with their nearest HCA, "
                f"{_directions(each)}: {each.why}",
            )
            for each in one.near
        ]
    whole = f"all {count} GPUs with their nearest HCA" if count > 1 else "with the nearest HCA"
    lines = [("pairs", f"{whole}, sending and receiving")] if near else []
    return [*lines, ("why", "; ".join(one.reasons))]


def _count(group: Group, near: set[tuple[str, str]]) -> int:
    return len(near & set(group.pairs))


_WORDS = {Direction.SEND: "sending", Direction.RECEIVE: "receiving"}


def _directions(group: Group) -> str:
    return " and ".join(_WORDS[each] for each in group.directions)


def _far(one: Chosen) -> list[Line]:
    """The other pairs, where it does something else for them."""
    near = set(one.nearest)
    others = (
        f"{each.way}: {each.why}"
        for each in one.groups
        if each.way is not one.way and set(each.pairs) - near
    )
    return [("farther", each) for each in dict.fromkeys(others)]
