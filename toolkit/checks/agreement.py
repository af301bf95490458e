"""Verdicts on a set of nodes: whether what two of them must have alike is alike.

Each node alone may be as wanted and still not reach the others. What most have is the norm, as in
a comparison; a set of two or more kinds, or of groups that the site's own file tells apart, is
unlike by intent and judged kind by kind. What was not read of a node is neither alike nor not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct, field

from toolkit.checks.check import Impact, Status, number_of
from toolkit.checks.outliers import ABSENT, Comparison, Kind, Section, Sheet, compare, layout_of
from toolkit.evidence import Evidence
from toolkit.facts.comparables import (
    DRIVER,
    FAMILIES,
    FIRMWARE,
    GIDS,
    GPU_RAILS,
    HCA_NAMES,
    LAYERS,
    MTUS,
    NAMED_GIDS,
    NCCL_IB,
    NO_DRIVER,
    NUMA,
    OFED,
    PKEYS,
    QOS,
    RATES,
    SUBNETS,
    Topic,
    traits,
)
from toolkit.facts.node.node import Node
from toolkit.facts.recall import Answers
from toolkit.groups import Wants
from toolkit.hosts.host import fold
from toolkit.plural import first_of

_MANY = 4000  # answers kept of one question


class SetRule(Struct, frozen=True):
    """One question about a set of nodes."""

    id: str  # "between.mtu"
    topic: Topic
    impact: Impact
    title: str
    why: str  # what happens where it is not so, for reports
    bad: Callable[[str, str], bool] = str.__ne__  # whether two values do not go together


def _apart(one: str, other: str) -> bool:
    """Whether two P_Keys keep their ports apart: other partitions, or no full member (bit 15)."""
    if not (one.startswith("0x") and other.startswith("0x")):
        return one != other  # none at that index
    first, second = int(one, 16), int(other, 16)
    return bool((first ^ second) & 0x7FFF) or not (first | second) & 0x8000


RULES = (
    SetRule(
        "between.link-layer", LAYERS, Impact.BROKEN,
        "HCAs at the same place speak one link layer",
        "InfiniBand and Ethernet do not reach each other",
    ),
    SetRule(
        "between.gid-family", FAMILIES, Impact.BROKEN,
        "RoCE v2 GIDs at the same place have a family of addresses in common",
        "a GID of an IPv4 address does not reach one of an IPv6 address",
        lambda one, other: not {*one.split(", ")} & {*other.split(", ")},
    ),
    SetRule(
        "between.gid-index", NAMED_GIDS, Impact.BROKEN,
        "The GID that NCCL_IB_GID_INDEX names is of one RoCE version and one family",
        "RoCE v1, v2 over IPv4 and v2 over IPv6 do not reach each other: ibv_modify_qp fails",
    ),
    SetRule(
        "between.pkey", PKEYS, Impact.BROKEN,
        "InfiniBand ports are in one partition, and of two one at least is a full member",
        "packets of another P_Key are dropped, and so are those between two limited members",
        _apart,
    ),
    SetRule(
        "between.subnet", SUBNETS, Impact.SLOW,
        "HCAs at the same place are in one InfiniBand subnet",
        "only an InfiniBand router joins two subnets; or rails are cabled crosswise",
    ),
    SetRule(
        "between.rate", RATES, Impact.SLOW,
        "HCAs at the same place run at one rate",
        "the slowest port holds up every ring that it is part of",
    ),
    SetRule(
        "between.mtu", MTUS, Impact.SLOW,
        "HCAs at the same place have one MTU",
        "the smaller one counts; what does not ask for it loses packets",
    ),
    SetRule(
        "between.qos", QOS, Impact.SLOW,
        "RoCE ports trust alike and pause the same priorities",
        "a priority that is lossless at one end alone drops at the other",
    ),
    SetRule(
        "between.gpu-rail", GPU_RAILS, Impact.SLOW,
        "Each GPU has its nearest HCA at the same distance",
        "rings of one rail take a longer way through such a node",
    ),
    SetRule(
        "between.numa", NUMA, Impact.SLOW,
        "GPUs and HCAs at the same place are of one NUMA node",
        "ranks are bound alike on all nodes: on such a node they cross sockets",
    ),
    SetRule(
        "between.gid", GIDS, Impact.FRAGILE,
        "The same kind of GID stands at each index",
        "a job names one index for all nodes: on such a node it means another GID",
    ),
    SetRule(
        "between.nccl", NCCL_IB, Impact.FRAGILE,
        "Settings of NCCL's InfiniBand transport are the same",
        "ranks of one job then choose HCAs, GIDs or traffic classes of their own",
    ),
    SetRule(
        "between.hca-name", HCA_NAMES, Impact.FRAGILE,
        "HCAs at the same place have one name",
        "NCCL_IB_HCA and UCX_NET_DEVICES name HCAs: on such a node they mean another rail",
    ),
    SetRule(
        "between.driver", DRIVER, Impact.FRAGILE,
        "The nodes have one NVIDIA driver",
        "known breakages are bound to versions: such a node has those of another",
        lambda one, other: one != other and NO_DRIVER not in {one, other},  # its own checks tell
    ),
    SetRule(
        "between.firmware", FIRMWARE, Impact.FRAGILE,
        "HCAs of one board have one firmware",
        "known breakages are bound to versions: such a node has those of another",
    ),
    SetRule(
        "between.ofed", OFED, Impact.FRAGILE,
        "The nodes have one RDMA stack",
        "known breakages are bound to versions: such a node has those of another",
    ),
)  # fmt: skip


class Disagreement(Struct, frozen=True):
    """Nodes that have something else than most."""

    hosts: tuple[str, ...]
    items: tuple[str, ...]  # "0000:19:00.0"; none where the topic says it all
    value: str
    norm: str

    @property
    def found(self) -> str:
        """ "0000:19:00.0: 1500; the others: 4200"."""
        where = first_of(self.items, 1 if len(self.items) > 2 else 2)
        return f"{where and f'{where}: '}{self.value}; the others: {self.norm}"


class SetVerdict(Struct, frozen=True):
    """What came of one rule."""

    rule: SetRule
    status: Status
    found: str
    differing: tuple[Disagreement, ...] = ()
    unread: tuple[str, ...] = ()  # hosts of which nothing is said


def verdicts(sets: Sequence[Sequence[Sheet]]) -> tuple[SetVerdict, ...]:
    """One of each rule, over sets that are each compared by itself."""
    compared = [compare(sheets) for sheets in sets]
    alone = [[*chain.from_iterable(_alike_and_apart(rule, one) for one in sets)] for rule in RULES]
    return tuple(_verdict(*each, compared) for each in zip(RULES, alone, strict=True))


def _alike_and_apart(rule: SetRule, sheets: Sequence[Sheet]) -> Iterator[Disagreement]:
    """Nodes that have the same, where that does not even go together with itself."""
    having: dict[tuple[str, str], list[str]] = {}
    at = RULES.index(rule)  # of its section in each small sheet
    for sheet in sheets if rule.bad is not str.__ne__ else ():
        for trait in sheet.sections[at].traits or ():
            if trait.value and rule.bad(trait.value, trait.value):
                having.setdefault((trait.item, trait.value), []).append(sheet.host)
    for (item, value), hosts in having.items():
        if len(hosts) > 1:
            yield Disagreement(tuple(hosts), (item,), value, value)


def _verdict(rule: SetRule, alone: list[Disagreement], sets: list[Comparison]) -> SetVerdict:
    kinds = [kind for each in sets for kind in each.kinds]
    found = alone + [
        one
        for kind in kinds
        for one in _of_kind(rule.topic.name, kind)
        if rule.bad(one.value, one.norm)
    ]
    unread = tuple(
        host
        for kind in kinds
        for odd in kind.odd
        if rule.topic.name in odd.unread
        for host in odd.hosts
    )
    marks = {
        f"{fold(kind.hosts)}: {mark.value}"
        for kind in kinds
        for mark in kind.marks
        if mark.topic == rule.topic.name and ABSENT not in {mark.value, mark.norm}
    }
    if found:
        hosts = fold({host for one in found for host in one.hosts})
        return SetVerdict(rule, Status.FAIL, hosts, tuple(found), unread)
    total = sum(len(kind.hosts) for kind in kinds)
    if marks:
        told = f"two kinds or more, each alike: {'; '.join(sorted(marks))}"
        return SetVerdict(rule, Status.NA, told, (), unread)
    if len(unread) > total - 2:
        return SetVerdict(rule, Status.UNKNOWN, "read of fewer than two nodes", (), unread)
    return SetVerdict(rule, Status.PASS, f"alike on {total - len(unread)} nodes", (), unread)


def _of_kind(topic: str, kind: Kind) -> Iterator[Disagreement]:
    """What differs from most; nothing where there is no value that most have."""
    alike: dict[tuple[tuple[str, ...], str, str], list[str]] = {}
    for odd in kind.odd:
        for one in odd.differences:
            # What is missing is another matter: the device's, which the node's own checks tell.
            if one.topic == topic and ABSENT not in {one.value, one.norm}:
                alike.setdefault((odd.hosts, one.value, one.norm), []).append(one.item)
    differ = {host for hosts, _, _ in alike for host in hosts}
    if len(kind.hosts) > 2 and len(differ) * 2 >= len(kind.hosts):
        return
    same: dict[tuple[tuple[str, ...], str, str], list[str]] = {}
    for (hosts, value, norm), items in alike.items():
        same.setdefault((tuple(filter(None, items)), value, norm), []).extend(hosts)
    for (places, value, norm), names in same.items():
        yield Disagreement(tuple(names), places, value, norm)


class SmallSheets(Struct):
    """Makes sheets of what nodes have between them, and no more."""

    _topics: dict[str, Answers[Section]] = field(
        default_factory=lambda: {rule.id: Answers(_MANY) for rule in RULES}
    )
    _layouts: Answers[tuple[tuple[str, str], ...]] = field(default_factory=lambda: Answers(_MANY))
    _met: dict[Section, Section] = field(default_factory=dict)

    def make(self, host: str, evidence: Evidence) -> Sheet:
        """One node's. Not to be called from two threads at once."""
        node = Node(evidence)
        sections = tuple(
            self._topics[rule.id].ask(node.sources, partial(self._section, rule, node.fresh()))
            for rule in RULES
        )
        return Sheet(
            host, sections, self._layouts.ask(node.sources, partial(layout_of, node.fresh()))
        )

    def _section(self, rule: SetRule, node: Node) -> Section:
        found = Section(rule.topic.name, traits(node, rule.topic), rule.topic.placed)
        return self._met.setdefault(found, found)


class Agreement(Struct):
    """Gathers small sheets of nodes, one after the other, and judges them together."""

    wants: Wants
    _sheets: dict[int, list[Sheet]] = field(default_factory=dict)  # by what is wanted of a group

    def take(self, sheet: Sheet) -> None:
        """One node's. Not to be called from two threads at once."""
        self._sheets.setdefault(number_of(self.wants.of(sheet.host)), []).append(sheet)

    def verdicts(self) -> tuple[SetVerdict, ...]:
        """None where there are not two nodes of one group."""
        sets = [sheets for sheets in self._sheets.values() if len(sheets) > 1]
        return verdicts(sets) if sets else ()
