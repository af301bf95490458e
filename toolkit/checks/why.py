"""Why a check says what it says on a node: the way from it to the cause, word for word."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import date

from msgspec import Struct

from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status, Verdict
from toolkit.checks.follows import Step
from toolkit.checks.judged import Cause, Judged, causes, judge_node
from toolkit.checks.kernel.build_failures import cause_of
from toolkit.compat.reader import Failure, FailureKind
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.text.dressed import undressed
from toolkit.want import PeerPath, Want

_FRAMES, _LINES = 3, 2  # quoted of one verdict, and of one frame
_FOUND, _DETAIL = 1000, 10  # weights of words
_SHORT = 3  # characters of the shortest word that names anything
# What names one thing: a module, an address, a version, a kernel, a path, an argument.
_WORD = re.compile(r"[A-Za-z0-9/][\w./:+-]*[\w+]")
_TELLS = re.compile(r"[\d_./:-]")
_UNIMPORTANT = re.compile(r"\d{1,2}|n/a|see|and/or|[a-z]+\.[a-z_]+", re.ASCII)
_PEERMEM, _LOADABLE = re.compile(r"nvidia[_-]peermem|nv_peer_mem"), "peermem.loadable"
# Where a line of a log may stand in evidence.
_LOGS = ("dmesg", "modprobe-said", "nccl-log")
_NO_DAY = date.min  # no waiver is asked about


class Quote(Struct, frozen=True):
    """What one frame says of a finding; no line where it says nothing of it."""

    frame: Frame
    lines: tuple[str, ...]
    lacks: tuple[str, ...] = ()  # what was looked for, and is in none of its lines


class Link(Struct, frozen=True):
    """One verdict on the way, and by what it follows from the next."""

    verdict: Verdict
    quotes: tuple[Quote, ...]
    step: Step | None = None  # None at the cause


class Matched(Struct, frozen=True):
    """What a line of a log tells by itself."""

    line: str
    checks: tuple[str, ...]  # that read such lines, or that the table's row names
    row: Failure | None = None  # of the table of causes
    quotes: tuple[Quote, ...] = ()  # where this very line stands in the node's evidence


def chain(judged: Judged, evidence: Evidence, check: str) -> tuple[Link, ...]:
    """From a check to its cause, that last; one link for a verdict that follows from nothing."""
    verdicts = {each.check.id: each for each in judged.verdicts}
    steps = {each.check: each for each in judged.steps}
    links: list[Link] = []
    seen: set[str] = set()
    while check not in seen:
        seen.add(check)
        step = steps.get(check)
        beside = verdicts[step.after].cited if step is not None else ()
        links.append(Link(verdicts[check], quotes(evidence, verdicts[check], beside), step))
        check = step.after if step is not None else check
    return tuple(links)


def cause(judged: Judged, check: str) -> Cause | None:
    """The cause that a check belongs to; None where it neither fails nor is unknown."""
    for each in causes(judged):
        if check in {each.root.check.id, *(one.check.id for one in each.follows)}:
            return each
    return None


def quotes(evidence: Evidence, verdict: Verdict, beside: Collection[str] = ()) -> tuple[Quote, ...]:
    """The lines of the cited frames that name what was found; frames that were not read.

    :param beside: frames that what it follows from cites: where none has such a line, theirs is
        the silence that tells.
    """
    weights = _weights(verdict)
    frames = [evidence.frames[key] for key in verdict.cited if key in evidence.frames]
    unread = [
        _first(each) if each.state is State.FAILED else Quote(each, ())
        for each in frames
        if each.state is not State.OK
    ][:_FRAMES]
    read = [each for each in frames if each.state is State.OK]
    scores = {each.key: _score(each.text, weights) for each in read}
    least = max(scores.values(), default=0) / 2
    ranked = sorted(read, key=lambda each: -scores[each.key])
    telling = [
        Quote(each, _lines(each.text, weights))
        for each in ranked
        if 0 < least <= scores[each.key]
    ][:_FRAMES]  # fmt: skip
    if telling or not any(each > 1 for each in weights.values()):
        return (*telling, *unread) or tuple(_first(each) for each in read[:_FRAMES])
    words = tuple(word for word, weight in weights.items() if weight > _DETAIL)
    silence = [each for each in read if each.key in beside] or read
    silent = (Quote(each, (), words) for each in silence[: _FRAMES - 1])
    return (*silent, *unread)


def _first(frame: Frame) -> Quote:
    return Quote(frame, tuple(frame.text.split("\n")[:-1][:_LINES]))


def _weights(verdict: Verdict) -> dict[str, int]:
    """What names the finding: its own words before those of details, plain ones where no other."""
    finding = verdict.finding
    found, details = _telling((finding.found,)), _telling(finding.details)
    weights = {**dict.fromkeys(details, _DETAIL), **dict.fromkeys(found, _FOUND)}
    return weights or dict.fromkeys(re.findall(r"[a-z]{6,}", finding.found), 1)


def _telling(texts: Iterable[str]) -> list[str]:
    found = (word.strip(".:") for text in texts for word in _WORD.findall(text))
    return [
        word
        for word in dict.fromkeys(found)
        if len(word) >= _SHORT and _TELLS.search(word) and not _UNIMPORTANT.fullmatch(word)
    ]


def _plain(text: str) -> str:
    """The kernel writes nvidia_peermem where packages write nvidia-peermem."""
    return text.lower().replace("-", "_")


def _score(text: str, weights: dict[str, int]) -> int:
    plain = _plain(text)
    return sum(weight for word, weight in weights.items() if _plain(word) in plain)


def _lines(text: str, weights: dict[str, int]) -> tuple[str, ...]:
    """Those with most of the words, in the frame's own order."""
    lines = text.split("\n")[:-1]
    scores = [_score(line, weights) for line in lines]
    best = sorted(range(len(lines)), key=lambda at: -scores[at])[:_LINES]
    return tuple(lines[at] for at in sorted(best) if scores[at])


def matching(line: str, evidence: Evidence, want: Want) -> Matched:
    """What reads such a line: each check that it alone makes fail, and the table of causes.

    :param line: one, or several as they were copied: what any of them tells is told.
    """
    text = undressed(line).strip("\n") + "\n"
    lines = text.split("\n")[:-1]
    found: dict[str, None] = {}
    for key in _LOGS:
        alone = Evidence({key: Frame(key, State.OK, "a line", text)}, complete=True)
        for path in PeerPath:
            judged = judge_node("line", alone, Want(path=path), _NO_DAY)
            found |= {each.check.id: None for each in judged.having(Status.FAIL)}
    matched = cause_of(lines, want.compat)
    row = matched[0] if matched is not None else None
    for each in (cause_of([one], want.compat) for one in lines):
        if each is not None:
            found |= dict.fromkeys(_named(each[0], each[1]))
    words = [each.strip() for each in lines if len(each.strip()) >= _SHORT]
    where = (Quote(e, _holding(e.text, words)) for e in evidence.frames.values())
    return Matched(line, tuple(found), row, tuple(each for each in where if each.lines)[:_FRAMES])


def _named(row: Failure, line: str) -> Iterator[str]:
    """The checks that a row of the table sends its reader to."""
    words = re.findall(r"[a-z0-9_]+(?:\.[a-z0-9_]+)+", f"{row.cause} {row.action}")
    yield from (each for each in words if each in BY_ID)
    if row.kind is FailureKind.LOADING and _PEERMEM.search(line):
        yield _LOADABLE  # whatever stands in its way here


def _holding(text: str, words: Collection[str]) -> tuple[str, ...]:
    if not any(each in text for each in words):
        return ()
    lines = text.split("\n")
    return tuple(each for each in lines if any(one in each for one in words))[:_LINES]
