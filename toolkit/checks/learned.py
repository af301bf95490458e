"""What most nodes of each kind have, and which nodes have something else.

Nodes are of one kind by what they are: the machine, the model of its GPUs, how many of these and
of HCAs. A node that lost one is no kind of its own: few of a machine's nodes that differ in such
a number are the ones that differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Status
from toolkit.checks.expected import against
from toolkit.checks.expected_items import SEEN, Seen
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.expect import Expect, ExpectKey, Value, link, read_expect, said, size
from toolkit.facts.node.node import Node

T = TypeVar("T")
_SHARE = 0.25  # of the nodes of one machine: so many that differ alike are a kind
_NUMBERS = frozenset({ExpectKey.GPUS, ExpectKey.NVSWITCHES, ExpectKey.HCAS, ExpectKey.PORTS_UP})
# What is met by more: a node has as much as the least of its devices.
_AT_LEAST: dict[ExpectKey, Callable[[str], tuple[float, ...]]] = {
    ExpectKey.RATE: lambda text: (float(text),),
    ExpectKey.BAR1: lambda text: (size(text),),
    ExpectKey.GPU_LINK: link,
    ExpectKey.HCA_LINK: link,
}


class Had(Struct, frozen=True):
    """What one node has; None for what could not be read."""

    host: str
    machine: str  # "" where it is not told
    seen: tuple[tuple[ExpectKey, tuple[Seen, ...] | None], ...]

    def __getitem__(self, key: ExpectKey) -> tuple[Seen, ...] | None:
        return dict(self.seen)[key]

    def number(self, key: ExpectKey) -> int | None:
        found = self[key]
        return int(str(found[0].value)) if found else None

    @property
    def model(self) -> str:
        """PCI ids of its GPUs; "" for none, or not read."""
        return " ".join(sorted({str(e.other or e.value) for e in self[ExpectKey.GPU_MODEL] or ()}))


class Dissent(Struct, frozen=True):
    """Nodes that differ from their kind in the same way."""

    hosts: tuple[str, ...]
    key: ExpectKey
    found: str
    expected: str


class Learned(Struct, frozen=True):
    """One kind of nodes."""

    hosts: tuple[str, ...]
    about: str  # "Dell Inc. PowerEdge XE9680"
    expect: Expect
    dissents: tuple[Dissent, ...] = ()
    open: tuple[tuple[ExpectKey, str], ...] = ()  # keys without a value that most have, and why
    unread: tuple[
        tuple[ExpectKey, tuple[str, ...]], ...
    ] = ()  # what is expected, and not told there


def had(host: str, node: Node) -> Had:
    """All that may be expected, as this node has it."""

    def read(key: ExpectKey) -> tuple[Seen, ...] | None:
        return read_or(lambda: SEEN[key](node), None)

    try:
        dmi = node.dmi
        machine = " ".join(filter(None, (dmi.get("sys_vendor"), dmi.get("product_name"))))
    except (NoEvidence, Unparsable):
        machine = ""
    return Had(host, machine, tuple((key, read(key)) for key in ExpectKey))


def learn(nodes: Sequence[Had], gres: Mapping[str, int] | None = None) -> tuple[Learned, ...]:
    """The kinds of nodes, largest first.

    :param gres: GPUs by host, where a scheduler tells what it gives to jobs: a node has no fewer.
    """
    told = gres or {}
    # Nodes of one machine and one model of GPU; who does not tell joins those that do.
    found = []
    for machine in _by(nodes, lambda each: each.machine):
        groups = _by(machine, lambda each: each.model)
        named = [each for each in groups if each[0].model]
        bare = [each for each in groups if not each[0].model]
        families = [each for each in named if len(each) > 1] or named
        if not families or (bare and _many(bare[0], machine)):
            families += bare
        # One GPU of another model, and nodes that lost all: the largest family's to explain.
        families[0] += [one for each in groups if each not in families for one in each]
        found += families
    kinds = [kind for family in found for kind in _kinds(family, told)]
    return tuple(_learned(kind, told) for kind in sorted(kinds, key=len, reverse=True))


def _by(nodes: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Nodes with equal keys together, the largest group first."""
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for each in nodes:
        groups[key(each)].append(each)
    return sorted(groups.values(), key=len, reverse=True)


def _many(group: Sequence[Had], of: Sequence[Had]) -> bool:
    return len(group) > 1 and len(group) >= _SHARE * len(of)


def _kinds(family: list[Had], gres: Mapping[str, int]) -> list[list[Had]]:
    def numbers(each: Had) -> tuple[int, int]:
        return _gpus(each, gres), each.number(ExpectKey.HCAS) or 0

    groups = _by(family, numbers)
    most = max(groups, key=lambda each: (len(each), numbers(each[0])))
    kinds = [each for each in groups if each is most or _many(each, family)]
    for group in groups:
        if not any(group is each for each in kinds):
            own = numbers(group[0])
            near = min(kinds, key=lambda each: (_apart(numbers(each[0]), own), -len(each)))
            near += group
    return kinds


def _gpus(node: Had, gres: Mapping[str, int]) -> int:
    """How many it should have, by what is found and what Slurm gives; -1 where nobody tells."""
    found = node.number(ExpectKey.GPUS)
    return max(-1 if found is None else found, gres.get(node.host, -1))


def _apart(one: tuple[int, int], other: tuple[int, int]) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _learned(nodes: list[Had], gres: Mapping[str, int]) -> Learned:
    values: dict[ExpectKey, Value] = {}
    unsettled: list[tuple[ExpectKey, str]] = []
    for key in ExpectKey:
        found = [_value(key, each[key]) for each in nodes]
        if key is ExpectKey.GPUS:
            found = [number if (number := _gpus(each, gres)) >= 0 else None for each in nodes]
        value, why = _most(key, found, len(nodes))
        if value is not None:
            values[key] = value
        elif why:
            unsettled.append((key, why))
    expect = Expect(tuple(values.items()))
    dissents, unread = _beside(nodes, expect)
    about = Counter(each.machine for each in nodes).most_common(1)[0][0]
    names = tuple(each.host for each in nodes)
    return Learned(names, about, expect, dissents, tuple(unsettled), unread)


def _most(key: ExpectKey, found: Sequence[Value | None], of: int) -> tuple[Value | None, str]:
    """The value that more than half of the nodes have, else why there is none.

    Of two numbers that are as frequent the larger one: a part is lost more often than found.
    """
    counts = Counter(each for each in found if each is not None).most_common(3)
    if not counts:
        return None, ""
    value, times = counts[0]
    if key in _NUMBERS and 2 * times == of:
        value, times = max((each for each, number in counts if number == times), key=int), of  # type: ignore[arg-type] # numbers
    if 2 * times > of:
        try:
            read_expect({key: dict(value) if isinstance(value, tuple) else value})
        except ValueError as why:
            return None, str(why)
        return value, ""
    shown = ", ".join(f"{said(key, each)} on {number}" for each, number in counts)
    return None, f"{shown} of {of} nodes"


def _value(key: ExpectKey, seen: tuple[Seen, ...] | None) -> Value | None:
    told = [each.value for each in seen or () if each.value is not None]
    if key is ExpectKey.GPU_MODEL:
        # Its name; the PCI id where the name is not told.
        names = {each.value if each.value is not None else each.other for each in (seen or ())}
        return names.pop() if len(names) == 1 else None
    if not seen or len(told) < len(seen):
        return None
    if key is ExpectKey.FIRMWARE:
        return _firmware(seen)
    if key is ExpectKey.MTU and all(isinstance(e.other, int) and e.other > 4096 for e in seen):
        told = [each.other for each in seen]
    if measure := _AT_LEAST.get(key):
        least = min((str(each) for each in told), key=measure)
        if key is ExpectKey.RATE:
            return int(float(least)) if float(least).is_integer() else float(least)
        mib = size(least) >> 20 if key is ExpectKey.BAR1 else 0
        return f"{mib >> 10} GiB" if mib and not mib % 1024 else least
    return told[0] if len(set(told)) == 1 else None


def _firmware(seen: tuple[Seen, ...]) -> Value | None:
    boards: dict[str, set[str]] = defaultdict(set)
    for each in seen:
        boards[str(each.other)].add(str(each.value))
    if len(set().union(*boards.values())) == 1:
        return str(seen[0].value)
    if "" in boards or any(len(each) > 1 for each in boards.values()):
        return None
    return tuple((board, *versions) for board, versions in sorted(boards.items()))  # type: ignore[misc] # one


def _beside(
    nodes: Sequence[Had], expect: Expect
) -> tuple[tuple[Dissent, ...], tuple[tuple[ExpectKey, tuple[str, ...]], ...]]:
    """Who has something else than is expected, by what ``doctor`` says of it; and who is silent."""
    differ: dict[tuple[ExpectKey, str], Dissent] = {}
    silent: dict[ExpectKey, tuple[str, ...]] = defaultdict(tuple)
    for each in nodes:
        for key, expected in expect:
            seen = each[key]
            finding = None if seen is None else against(key, expected, seen)
            if finding is None or finding.status is Status.UNKNOWN:
                silent[key] += (each.host,)
            elif finding.status is Status.FAIL:
                found = finding.found
                known = differ.get((key, found), Dissent((), key, found, finding.expected))
                differ[key, found] = replace(known, hosts=(*known.hosts, each.host))
    return tuple(differ.values()), tuple(silent.items())
