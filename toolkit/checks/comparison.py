"""Everything that is compared of one node, on one small sheet.

A thousand nodes of one kind say the same almost everywhere, so what was worked out from
some sources is remembered by what they said: see toolkit/facts/recall.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from toolkit.checks.all import ALL
from toolkit.checks.check import Status, Verdict
from toolkit.checks.consumers.taken import taken
from toolkit.errors import read_or
from toolkit.evidence import Evidence
from toolkit.facts.comparables import TOPICS, Topic, Trait, layout, traits
from toolkit.facts.node.node import Node
from toolkit.facts.recall import Answers
from toolkit.groups import Wants

T = TypeVar("T")
Layout = tuple[tuple[str, str], ...]
VERDICT = "check"
_MOST = 4000  # answers kept of one question


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
    layout: Layout = ()  # address and product of PCI functions, in bus order


class Sheets:
    """Makes sheets of nodes, and remembers what equal sources gave."""

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._topics = {each.name: Answers[Section](_MOST) for each in TOPICS}
        self._layouts = Answers[Layout](_MOST)
        self._parts = Answers[tuple[tuple[Section, ...], Layout]](_MOST)
        self._met: dict[Section, Section] = {}

    def make(self, host: str, evidence: Evidence) -> Sheet:
        """One node's sheet. Not to be called from two threads at once."""
        node = Node(evidence)
        want = taken(node.fresh(), self._wants.of(host))
        return self.of(host, node, [check(node, want) for check in (*ALL, *want.own)])

    def of(self, host: str, node: Node, verdicts: Iterable[Verdict]) -> Sheet:
        """The same of one that was judged, by every check. Likewise not from two threads."""
        statuses = tuple((each.check.id, each.status) for each in verdicts)
        sections = partial(self._sections, node, statuses)
        return Sheet(host, *self._parts.ask(node.sources, sections, statuses))

    def _sections(
        self, node: Node, statuses: tuple[tuple[str, Status], ...]
    ) -> tuple[tuple[Section, ...], Layout]:
        def ask(answers: Answers[T], question: Callable[[Node], T]) -> T:
            return answers.ask(node.sources, partial(question, node.fresh()))

        topics = [ask(self._topics[topic.name], partial(self._section, topic)) for topic in TOPICS]
        verdicts = tuple(
            Trait(name, None if status is Status.UNKNOWN else status.value)
            for name, status in statuses
        )
        return (*topics, self._same(Section(VERDICT, verdicts))), ask(self._layouts, _layout)

    def _section(self, topic: Topic, node: Node) -> Section:
        return self._same(Section(topic.name, traits(node, topic), topic.placed))

    def _same(self, section: Section) -> Section:
        """An equal section is kept once, however many nodes have it."""
        return self._met.setdefault(section, section)


def _layout(node: Node) -> Layout:
    return read_or(lambda: layout(node), ())
