"""Everything that is compared of one node, on one small sheet.

A thousand nodes of one kind say the same almost everywhere, so what was worked out from
some sources is remembered by what they said. This rests on a law that is tested of every
check: a verdict names each source that it rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from toolkit.checks.all import ALL
from toolkit.checks.check import Check, Status
from toolkit.checks.taken import taken
from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence, Frame
from toolkit.facts.fact import Known
from toolkit.facts.node import Node
from toolkit.facts.traits import TOPICS, Topic, Trait, layout, traits
from toolkit.groups import Wants
from toolkit.want import Want

T = TypeVar("T")
VERDICT = "check"
# Every check rests on these: does the node have a GPU, and was it read by root?
_ALWAYS = ("uid", "pci", "pci-links", "pci-resources")
# Answers kept of one question, and of one fact, which may be large: memory stays flat.
_MOST, _FEW = 4000, 8


@dataclass(frozen=True, slots=True)
class Section:
    """The traits of one topic; None where it was not read."""

    name: str
    traits: tuple[Trait, ...] | None
    placed: bool = False  # its items are PCI addresses


@dataclass(frozen=True, slots=True)
class Sheet:
    host: str
    sections: tuple[Section, ...]
    layout: tuple[tuple[str, str], ...] = ()  # address and product of PCI functions, in bus order


class _Answers(Generic[T]):
    """What one question was answered, by the sources that the answer rests on."""

    def __init__(self, most: int = _MOST) -> None:
        self.most = most
        self.by_sources: dict[tuple[str, ...], dict[tuple[int | None, ...], T]] = {}

    def recall(self, prints: dict[str, int], shape: int) -> T | None:
        for keys, answers in self.by_sources.items():
            found = answers.get((shape, *map(prints.get, keys)))
            if found is not None:
                return found
        return None

    def keep(self, cited: tuple[str, ...], prints: dict[str, int], shape: int, answer: T) -> None:
        answers = self.by_sources.setdefault(cited, {})
        if len(answers) >= self.most:
            answers.clear()
        answers[(shape, *map(prints.get, cited))] = answer


class Sheets:
    """Makes sheets of nodes, and remembers what equal sources gave."""

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._asked: dict[int, Want] = {}  # those judged by, which stay: their id is in the shape
        self._topics: dict[str, _Answers[Section]] = {each.name: _Answers() for each in TOPICS}
        self._statuses: dict[str, _Answers[Trait]] = {each.id: _Answers() for each in ALL}
        self._layouts: _Answers[tuple[tuple[str, str], ...]] = _Answers()
        self._takings: _Answers[Want] = _Answers()
        self._facts: dict[str, _Answers[Known]] = {}
        self._met: dict[Section, Section] = {}

    def make(self, host: str, evidence: Evidence) -> Sheet:
        """One node's sheet. Not to be called from two threads at once."""
        node = Node(evidence)
        frames = evidence.frames
        prints = {key: hash((_said(each), each.exit)) for key, each in frames.items()}
        # Which sources there are, and how reading each one went, may decide as well.
        want = self._wants.of(host)  # one for all hosts that are to be alike
        states = ((key, each.state) for key, each in frames.items())
        self._asked[id(want)] = want
        shape = hash((id(want), evidence.complete, *states))

        self._recall_facts(node, prints, shape)

        def ask(answers: _Answers[T], question: Callable[[Node], T], shape: int = shape) -> T:
            known = answers.recall(prints, shape)
            if known is not None:
                return known
            fresh = node.fresh()
            answer = question(fresh)
            cited = tuple(dict.fromkeys((*fresh.cited, *_ALWAYS)))
            answers.keep(cited, prints, shape, answer)
            return answer

        resolved = ask(self._takings, partial(taken, want=want))
        on_path = hash((shape, resolved.path))

        sections = [
            ask(self._topics[topic.name], partial(self._section, topic)) for topic in TOPICS
        ]
        statuses = tuple(
            ask(self._statuses[each.id], partial(self._status, each, resolved), on_path)
            for each in ALL
        )
        sections.append(self._same(Section(VERDICT, statuses)))
        sheet = Sheet(host, tuple(sections), ask(self._layouts, _layout))
        self._keep_facts(node, prints, shape)
        return sheet

    def _recall_facts(self, node: Node, prints: dict[str, int], shape: int) -> None:
        """What a question asks anew begins with what an earlier node's frames gave."""
        for name, answers in self._facts.items():
            known = answers.recall(prints, shape)
            if known is not None:
                node.memo[name] = known

    def _keep_facts(self, node: Node, prints: dict[str, int], shape: int) -> None:
        for name, known in node.memo.items():
            answers = self._facts.setdefault(name, _Answers(_FEW))
            answers.keep(tuple(dict.fromkeys(known[2])), prints, shape, known)

    def _status(self, check: Check, want: Want, node: Node) -> Trait:
        verdict = check(node, want)
        node.cited.extend(verdict.cited)
        open_ = verdict.status is Status.UNKNOWN
        return Trait(check.id, None if open_ else verdict.status.value)

    def _section(self, topic: Topic, node: Node) -> Section:
        return self._same(Section(topic.name, traits(node, topic), topic.placed))

    def _same(self, section: Section) -> Section:
        """An equal section is kept once, however many nodes have it."""
        return self._met.setdefault(section, section)


def _said(frame: Frame) -> str:
    """A frame's text but for the names in it that no trait and no check reads."""
    if frame.key != "infiniband":
        return frame.text
    return "".join(line for line in frame.text.splitlines(True) if "/node_guid:" not in line)


def _layout(node: Node) -> tuple[tuple[str, str], ...]:
    try:
        return layout(node)
    except (NoEvidence, Unparsable):
        return ()
