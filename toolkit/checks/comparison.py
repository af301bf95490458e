"""Everything that is compared of one node, on one small sheet.

A thousand nodes of one kind say the same almost everywhere, so what was worked out from
some sources is remembered by what they said: see toolkit/facts/recall.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from toolkit.checks.all import ALL
from toolkit.checks.check import Check, Status, number_of
from toolkit.checks.consumers.taken import taken
from toolkit.errors import read_or
from toolkit.evidence import Evidence
from toolkit.facts.comparables import TOPICS, Topic, Trait, layout, traits
from toolkit.facts.node.node import Node
from toolkit.facts.recall import Answers
from toolkit.groups import Wants
from toolkit.want import Want

T = TypeVar("T")
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
    layout: tuple[tuple[str, str], ...] = ()  # address and product of PCI functions, in bus order


class Sheets:
    """Makes sheets of nodes, and remembers what equal sources gave."""

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._topics = {each.name: Answers[Section](_MOST) for each in TOPICS}
        self._statuses = defaultdict[str, Answers[Trait]](lambda: Answers(_MOST))
        self._layouts = Answers[tuple[tuple[str, str], ...]](_MOST)
        self._met: dict[Section, Section] = {}

    def make(self, host: str, evidence: Evidence) -> Sheet:
        """One node's sheet. Not to be called from two threads at once."""
        node = Node(evidence)
        want = taken(node.fresh(), self._wants.of(host))
        wanted = number_of(want)

        def ask(answers: Answers[T], question: Callable[[Node], T], more: object = None) -> T:
            return answers.ask(node.sources, partial(question, node.fresh()), more)

        sections = [
            ask(self._topics[topic.name], partial(self._section, topic)) for topic in TOPICS
        ]
        statuses = tuple(
            ask(self._statuses[each.id], partial(_status, each, want), wanted)
            for each in (*ALL, *want.own)
        )
        sections.append(self._same(Section(VERDICT, statuses)))
        return Sheet(host, tuple(sections), ask(self._layouts, _layout))

    def _section(self, topic: Topic, node: Node) -> Section:
        return self._same(Section(topic.name, traits(node, topic), topic.placed))

    def _same(self, section: Section) -> Section:
        """An equal section is kept once, however many nodes have it."""
        return self._met.setdefault(section, section)


def _status(check: Check, want: Want, node: Node) -> Trait:
    verdict = check(node, want)
    return Trait(check.id, None if verdict.status is Status.UNKNOWN else verdict.status.value)


def _layout(node: Node) -> tuple[tuple[str, str], ...]:
    return read_or(lambda: layout(node), ())
