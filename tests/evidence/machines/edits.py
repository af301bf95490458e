"""Machines as edits of one evidence: what differs there, frame by frame, line by line.

    = infiniband ok /sys/class/infiniband
    @49
    -mlx5_0/ports/1/rate:400 Gb/sec (4X NDR)
    +mlx5_0/ports/1/rate:10 Gb/sec (4X SDR)
    = openibd absent systemctl is-enabled openibd

A header takes the place of the frame's own, "@49" goes to the frame's line 49, "-" drops the
line there, which has to be the one that is named, and "+" puts one in. A frame of which the
base has none is all "+". What stands before the first header says where the edits come from.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path

from toolkit.evidence import GRAMMAR, Evidence, Frame

HERE = Path(__file__).parent
_END = "= end ok 0\n"


def edited(base: Evidence, edits: str) -> Evidence:
    """The base with these edits."""
    frames = dict(base.frames)
    for part in f"\n{edits}".split("\n= ")[1:]:
        head, *lines = part.removesuffix("\n").split("\n")
        ((key, bare),) = Evidence.parse(f"= begin ok {GRAMMAR}\n= {head}\n{_END}").frames.items()
        old = frames[key].text.split("\n")[:-1] if key in frames else []
        text = "".join(f"{line}\n" for line in _edited(key, old, lines))
        frames[key] = Frame(key, bare.state, bare.source, text, bare.exit)
    return Evidence(frames, base.complete)


def _edited(key: str, old: list[str], edits: list[str]) -> list[str]:
    new, at = list[str](), 0
    for edit in edits:
        sign, line = edit[:1], edit[1:]
        if sign == "+":
            new.append(line)
        elif sign == "@":
            new += old[at : int(line) - 1]
            at = int(line) - 1
        else:
            assert edit == f"-{old[at]}", f"{key}, line {at + 1} is {old[at]!r}, not {line!r}"
            at += 1
    return new + old[at:]


def edits_between(base: Evidence, other: Evidence) -> str:
    """The edits that make ``other`` of the base, which lacks no frame of it."""
    return "".join(
        _edits(base.frames.get(key), frame)
        for key, frame in other.frames.items()
        if base.frames.get(key) != frame
    )


def _edits(before: Frame | None, after: Frame) -> str:
    bare = Evidence({after.key: Frame(after.key, after.state, after.source, "", after.exit)})
    head = bare.dump().split("\n")[1]
    old = before.text.split("\n")[:-1] if before else []
    new = after.text.split("\n")[:-1]
    lines = [head]
    for what, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        if what != "equal":
            lines += [f"@{start + 1}", *(f"-{each}" for each in old[start:end])]
            lines += [f"+{each}" for each in new[first:last]]
    return "\n".join(lines) + "\n"
