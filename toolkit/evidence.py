"""All that was read from one node at one moment, kept word for word.

The wire format is what the three node scripts print:

    = begin ok gdr-toolkit/1
    = kernel-release ok /proc/sys/kernel/osrelease
    |6.8.0-45-generic
    = ofed-info absent ofed_info -s
    = dkms-status failed:4 dkms status
    |dkms: command broken
    = nvidia-smi timeout nvidia-smi -q
    = end ok 4

A header at column 0 names the key, the state and the source; content stands behind a
bar. Whatever precedes ``begin`` (a login banner) or follows ``end`` is not evidence.
The end frame counts the frames between. A frame counts as read only once the next
header has arrived: one that was cut is dropped, and without the end frame nothing may
be concluded from what is missing. Noise between the lines does not count, unless it may
have swallowed one of them: then the frame that was open is dropped too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import CutOff, NeedsRoot, NoEvidence, NotCollected, Unparsable

GRAMMAR = "gdr-toolkit/1"
_HEADER = re.compile(r"= ([!-~]+) (ok|absent|denied|timeout|failed:[0-9]{1,3})(?: (.*))?")
# Noise that may hold a line of ours: glued to a message, or of a state that we do not know.
_SWALLOWED = re.compile(r"\||= [!-~]+ [a-z]+")
# How tools refuse a user who is not root, each with a status of its own.
_REFUSED = re.compile(
    r"operation not permitted|permission denied|insufficient permissions"
    r"|(?:must|need to|has to) be (?:run as |the )?root|root (?:privileges|permissions) required",
    re.IGNORECASE,
)
_MOST = 20_000  # frames; a large node has 500, and each costs us more than its bytes
_BEGIN = "= begin ok "
# What runs the job: this frame says what it is, those below "inside/" were read there.
INSIDE = "inside"
# Libraries and settings: a job in it has its own, and none of the node's.
_WITHIN = frozenset(
    {"consumer-settings", "libraries", "nccl-conf", "nccl-topology", "perftest", "registration"}
    | {"ucx-info", "verbs-libraries"}
)
# Lines behind a bar, most by far, and the one line of another kind that ends them.
_RUN = re.compile(r"((?:\|.*\n)*)((?!\|).*\n|\Z)")


class State(StrEnum):
    """How reading one source went. Four kinds of "no", which are different answers."""

    OK = "ok"
    ABSENT = "absent"  # no such file or command
    DENIED = "denied"  # there, and not for us to read
    FAILED = "failed"  # the command ended with another status than 0
    TIMEOUT = "timeout"  # abandoned while it hung


class Frame(Struct, frozen=True):
    """One collected source."""

    key: str  # "dkms-status"
    state: State
    source: str  # "dkms status": the path or command, as an operator would type it
    text: str = ""  # the content, newline-ended lines, word for word
    exit: int = 0  # the command's status where state is FAILED

    @property
    def refused(self) -> bool:
        """Whether it was there and not for us to read: a command says so in words."""
        return self.state is State.DENIED or (
            self.state is State.FAILED and _REFUSED.search(self.text) is not None
        )

    @property
    def trouble(self) -> str:
        """Why nothing can rest on this frame; "" when it was read in full."""
        if self.refused:
            return f"{self.source}: permission denied"
        return {
            State.OK: "",
            State.ABSENT: f"{self.source}: not there",
            State.FAILED: f"{self.source}: ended with status {self.exit}",
            State.TIMEOUT: f"{self.source}: no answer in time, abandoned",
        }[self.state]


class Evidence(Struct, frozen=True):
    """The frames of one node. ``complete`` only when the end frame arrived and counts right."""

    frames: dict[str, Frame] = field(default_factory=dict)
    complete: bool = False

    def frame(self, key: str) -> Frame:
        """The frame, whatever its state.

        :raises CutOff: when the node never got to it, or its tail was cut off.
        :raises NotCollected: when the evidence is whole and has no such source.
        """
        found = self.frames.get(key)
        if found is not None:
            return found
        hint = "collect the evidence again"
        if self.complete:
            raise NotCollected(f"{key}: not part of this evidence", hint=hint)
        raise CutOff(f"{key}: cut off before it was read", hint=hint)

    def text(self, key: str) -> str:
        """The content of a source that was read in full.

        :raises NoEvidence: when it was absent, refused, failed, timed out or cut off; of
            these NeedsRoot says that it was refused.
        """
        found = self.frame(key)
        if found.refused:
            raise NeedsRoot(found.trouble)
        if found.state is not State.OK:
            raise NoEvidence(found.trouble)
        return found.text

    def plus(self, frames: Iterable[Frame]) -> Evidence:
        """The same with further sources, which take the place of those of their keys."""
        return Evidence({**self.frames, **{each.key: each for each in frames}}, self.complete)

    def within(self) -> Evidence:
        """The same to whoever runs in a container that was looked into.

        Its libraries and settings stand in place of the node's: what of these was not read
        there is not known, whatever the node has.
        """
        if INSIDE not in self.frames:
            return self
        kept = {key: each for key, each in self.frames.items() if key not in _WITHIN}
        read = {key: self.frames.get(f"{INSIDE}/{key}") for key in sorted(_WITHIN)}
        return Evidence(
            kept | {key: replace(each, key=key) for key, each in read.items() if each is not None},
            self.complete,
        )

    @classmethod
    def parse(cls, text: str) -> Evidence:
        """Read what a node script printed.

        :param text: the whole output, banners included; lines are split at newlines alone,
            since content may hold form feeds and U+2028.
        :raises Unparsable: when ``begin`` names a grammar that is not ours, or there are more
            frames than any node has.
        """
        reader = _Reader()
        # What follows the last newline is a cut line, or nothing.
        for found in _RUN.finditer(text, 0, text.rfind("\n") + 1):
            reader.content(found[1])
            reader.line(found[2][:-1])
            if reader.ended:
                break
        return cls(reader.frames, reader.complete)

    def dump(self) -> str:
        """The wire format again: parsing it gives an equal value."""
        head = [f"= begin ok {GRAMMAR}"]
        tail = [f"= end ok {len(self.frames)}"] if self.complete else ["= cut ok evidence"]
        return "\n".join([*head, *map(_render, self.frames.values()), *tail]) + "\n"


class _Reader:
    """The state between lines: the frame that is open, and those that are closed."""

    def __init__(self) -> None:
        self.frames: dict[str, Frame] = {}
        self.complete = False
        self.ended = False
        self._begun = False
        self._head: Frame | None = None
        self._body: list[str] = []

    def content(self, lines: str) -> None:
        """Take in whole lines that stand behind bars, or nothing."""
        if self._head is not None and lines:
            self._body.append(lines[1:-1].replace("\n|", "\n"))
        elif not self._begun:
            for line in lines.split("\n")[:-1]:
                self.line(line)

    def line(self, line: str) -> None:
        """Take in a header, or noise."""
        if not self._begun:
            self._begin(line)
            return
        header = _HEADER.fullmatch(line)
        if header is None:
            if _SWALLOWED.search(line):
                # What follows may belong to another frame: neither counts, nor does the end.
                self._head, self._body = None, []
            return
        if len(self.frames) > _MOST:
            raise Unparsable("evidence", f"more than {_MOST} frames")
        key, state, source = header.groups(default="")
        if self._head is not None:
            text = "\n".join([*self._body, ""])
            self.frames[self._head.key] = replace(self._head, text=text)
        self._head, self._body = None, []
        if key == "end":
            self.ended = True
            self.complete = source == str(len(self.frames))
        elif key == "cut":
            self.ended = True
        else:
            name, _, status = state.partition(":")
            self._head = Frame(key, State(name), source, exit=int(status or 0))

    def _begin(self, line: str) -> None:
        # A login that prints without a newline leaves its words before ours.
        _, begin, grammar = line.partition(_BEGIN)
        if not begin:
            return
        if grammar != GRAMMAR:
            raise Unparsable("evidence", begin + grammar)
        self._begun = True


def _render(frame: Frame) -> str:
    state = f"failed:{frame.exit}" if frame.state is State.FAILED else frame.state.value
    lines = frame.text.split("\n")[:-1]
    return "\n".join([f"= {frame.key} {state} {frame.source}", *("|" + line for line in lines)])
