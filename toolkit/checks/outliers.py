"""Which nodes of a fleet are unlike the others, and in what.

What most nodes have is the norm. A property in which every node is different from every
other tells nothing and is left out; one that could not be read on a node is neither equal
nor different there. A fleet of two or more kinds is told as kinds, each with its own norm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.all import ALL
from toolkit.checks.check import Status, Verdict
from toolkit.checks.consumers.chosen import taken
from toolkit.errors import read_or
from toolkit.evidence import Evidence
from toolkit.facts.comparables import TOPICS, Topic, Trait, layout, same_products, traits
from toolkit.facts.node.node import Node
from toolkit.facts.recall import Answers
from toolkit.groups import Wants
from toolkit.plural import counted

# Everything that is compared of one node, on one small sheet.
# A thousand nodes of one kind say the same almost everywhere, so what was worked out from
# some sources is remembered by what they said: see toolkit/facts/recall.py.
T = TypeVar("T")
Layout = tuple[tuple[str, str], ...]
VERDICT = "check"
_MOST = 4000  # answers kept of one question


class Section(Struct, frozen=True):
    """The traits of one topic; None where it was not read."""

    name: str
    traits: tuple[Trait, ...] | None
    placed: bool = False  # its items are PCI addresses


class Sheet(Struct, frozen=True):
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
        return (*topics, self._same(Section(VERDICT, verdicts))), ask(self._layouts, layout_of)

    def _section(self, topic: Topic, node: Node) -> Section:
        return self._same(Section(topic.name, traits(node, topic), topic.placed))

    def _same(self, section: Section) -> Section:
        """An equal section is kept once, however many nodes have it."""
        return self._met.setdefault(section, section)


def layout_of(node: Node) -> Layout:
    """Address and product of PCI functions, in bus order; () where they were not read."""
    return read_or(lambda: layout(node), ())


ABSENT = "not there"  # the topic was read, and has no such item
ADDRESSES, DEVICES = "PCI addresses", "PCI device"
_CLEAR = 0.25  # the second value of a property must have this share to make a kind
_COVER = 0.8  # and the first two together this one
_KIND = 0.1  # a kind is no smaller than this share of the fleet


class Difference(Struct, frozen=True):
    topic: str  # "ACS control"
    item: str  # "0000:17:00.0"; "" where the topic says it all
    value: str
    norm: str  # what the others have


class Odd(Struct, frozen=True):
    """Nodes that differ from their kind in the same way."""

    hosts: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    unread: tuple[str, ...] = ()  # topics, or checks, that could not be read


class Kind(Struct, frozen=True):
    """Nodes that are measured by the same norm."""

    hosts: tuple[str, ...]
    identical: tuple[str, ...]
    odd: tuple[Odd, ...] = ()
    marks: tuple[Difference, ...] = ()  # what makes it a kind; none where there is one kind


class Comparison(Struct, frozen=True):
    kinds: tuple[Kind, ...]
    ignored: tuple[str, ...] = ()  # properties in which each node is unlike every other
    products: dict[str, str] = field(default_factory=dict)  # "GPU 10de:2330" by PCI address

    @property
    def identical(self) -> bool:
        """Whether all nodes are of one kind and nothing is different; what was not read aside."""
        return len(self.kinds) == 1 and not any(odd.differences for odd in self.kinds[0].odd)

    @property
    def unread(self) -> bool:
        return any(odd.unread for kind in self.kinds for odd in kind.odd)


Key = tuple[str, str]  # topic and item
# By key: the value, None where it was not read. An absent key is an item that is not there.
Row = dict[Key, str | None]


class _Host(Struct, frozen=True):
    name: str
    row: Row
    read: frozenset[str]  # topics that were read
    unread: tuple[str, ...]  # those that were not, or not all of which were

    def value(self, key: Key) -> str | None:
        if key in self.row:
            return self.row[key]
        return ABSENT if key[0] in self.read else None


def compare(sheets: Sequence[Sheet]) -> Comparison:
    """Lay sheets side by side.

    :param sheets: of two nodes or more, in the order in which hosts are to be told.
    """
    norm = Counter(sheet.layout for sheet in sheets if sheet.layout).most_common(1)
    places = norm[0][0] if norm else ()
    # Nodes whose sheets say the same share one row: a large fleet has few of them.
    known: dict[tuple[int, ...], _Host] = {}
    hosts = []
    for sheet in sheets:
        same = (*map(id, sheet.sections), id(sheet.layout))
        if same not in known:
            known[same] = _host(sheet, places)
        hosts.append(replace(known[same], name=sheet.host))
    keys = _in_order(dict.fromkeys(key for host in hosts for key in host.row))
    columns = {key: [host.value(key) for host in hosts] for key in keys}
    varying = {key: column for key, column in columns.items() if len({*column}) > 1}
    own = {key for key, column in varying.items() if _of_each_its_own(column)}
    told = [key for key in varying if key not in own]
    marks, members = _kinds(hosts, {key: varying[key] for key in told})
    kinds = tuple(_kind(group, told, marks, members) for group in members)
    return Comparison(kinds, tuple(sorted({_named(key) for key in own})), dict(places))


def _in_order(keys: Iterable[Key]) -> list[Key]:
    """Topic by topic, whichever node was the first to have an item."""
    order: dict[str, int] = {}
    return sorted(keys, key=lambda key: order.setdefault(key[0], len(order)))


def _named(key: Key) -> str:
    return " ".join(filter(None, key))


def _host(sheet: Sheet, norm: tuple[tuple[str, str], ...]) -> _Host:
    """One node's values by key; its devices at the norm's addresses where they moved together."""
    moved = _moved(sheet.layout, norm)
    row: Row = {}
    unread = []
    for section in sheet.sections:
        if section.traits is None:
            unread.append(section.name)
        for trait in section.traits or ():
            item = moved.get(trait.item, trait.item) if section.placed else trait.item
            row[section.name, item] = trait.value
            if trait.value is None:
                unread.append(
                    _named((section.name, item)) if section.name == VERDICT else section.name
                )
    if sheet.layout:
        count = sum(old != new for old, new in moved.items())
        row[ADDRESSES, ""] = (
            f"{counted(count, 'device', 'stands', 'stand')} elsewhere"
            if count
            else "the usual ones"
        )
    read = {section.name for section in sheet.sections if section.traits is not None}
    read |= {ADDRESSES} if sheet.layout else set()
    return _Host(sheet.host, row, frozenset(read), tuple(dict.fromkeys(unread)))


def _moved(
    layout: tuple[tuple[str, str], ...], norm: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """The norm's address for each address of a machine whose buses were numbered anew.

    Firmware numbers all buses anew when one card is added or a slot is left empty: then the
    n-th of each product stands for the n-th. Nothing is mapped where most devices are at
    their usual places, so that one that is missing is missed at its own.
    """
    if layout == norm or len({*layout} & {*norm}) * 2 >= len(norm):
        return {}
    if not same_products(layout, norm):
        return {}
    waiting: dict[str, list[str]] = defaultdict(list)
    for address, product in reversed(norm):
        waiting[product].append(address)
    return {address: waiting[product].pop() for address, product in layout}


def _of_each_its_own(column: list[str | None]) -> bool:
    """Whether no two nodes agree: then it is a name, not a difference."""
    read = [value for value in column if value is not None]
    return len(read) > 2 and len({*read}) == len(read)


def _kinds(
    hosts: list[_Host], varying: dict[Key, list[str | None]]
) -> tuple[list[Key], list[list[_Host]]]:
    """The properties that split the fleet into large parts, and these parts, largest first."""
    splitting = [key for key, column in varying.items() if _splits(column)]
    parts: dict[tuple[str | None, ...], list[_Host]] = {}
    for host in hosts:
        parts.setdefault(tuple(host.value(key) for key in splitting), []).append(host)
    least = max(2, _KIND * len(hosts))
    large = {mark: part for mark, part in parts.items() if len(part) >= least and None not in mark}
    if len(large) < 2:
        return [], [hosts]
    for mark, part in parts.items():
        if mark not in large:
            nearest = max(
                large,
                key=lambda other: sum(one == two for one, two in zip(mark, other, strict=True)),
            )
            large[nearest] = [*large[nearest], *part]
    order = {id(host): at for at, host in enumerate(hosts)}
    members = sorted(large.values(), key=len, reverse=True)
    return splitting, [sorted(part, key=lambda host: order[id(host)]) for part in members]


def _splits(column: list[str | None]) -> bool:
    read = Counter(value for value in column if value is not None)
    top = [count for _, count in read.most_common(2)]
    total = read.total()
    return len(top) == 2 and top[1] >= max(2, _CLEAR * total) and sum(top) >= _COVER * total


def _kind(
    group: list[_Host], keys: list[Key], marks: list[Key], members: list[list[_Host]]
) -> Kind:
    norms = _norms(group, keys)
    alike: dict[tuple[tuple[Difference, ...], tuple[str, ...]], list[str]] = {}
    identical = []
    for host in group:
        found = _differences(host, norms), host.unread
        if found == ((), ()):
            identical.append(host.name)
        else:
            alike.setdefault(found, []).append(host.name)
    odd = tuple(Odd(tuple(names), *found) for found, names in alike.items())
    others = [other for other in members if other is not group]
    told = tuple(
        Difference(
            *key, norms[key], " or ".join(dict.fromkeys(_norms(o, [key])[key] for o in others))
        )
        for key in marks
    )
    return Kind(tuple(host.name for host in group), tuple(identical), odd, told)


def _norms(group: list[_Host], keys: list[Key]) -> dict[Key, str]:
    """What most have; of values that are equally frequent, the one that comes first."""
    norms = {}
    for key in keys:
        values = Counter(value for host in group if (value := host.value(key)) is not None)
        norms[key] = values.most_common(1)[0][0] if values else ""
    return norms


def _differences(host: _Host, norms: dict[Key, str]) -> tuple[Difference, ...]:
    found = [
        Difference(*key, value, norm)
        for key, norm in norms.items()
        if (value := host.value(key)) is not None and value != norm
    ]
    return tuple(_once(_of_devices_that_are_there(found), host))


def _of_devices_that_are_there(found: list[Difference]) -> list[Difference]:
    """Without what follows from a device that is missing, or that only this node has."""
    alone = {
        each.item for each in found if each.topic == DEVICES and ABSENT in (each.value, each.norm)
    }
    return [each for each in found if each.topic == DEVICES or each.item not in alone]


def _once(found: list[Difference], host: _Host) -> Iterator[Difference]:
    """A topic of which the node has nothing at all, as where no driver is loaded, in one line."""
    has = {topic for topic, _ in host.row}
    for topic, group in groupby(found, key=lambda each: each.topic):
        differences = list(group)
        if topic not in has and len(differences) > 1:
            yield Difference(topic, "", "none at all", f"{len(differences)} of them")
        else:
            yield from differences
