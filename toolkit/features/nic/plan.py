"""Settings in the firmware of HCAs: what is wanted, what is written for it, what waits; pure.

What the next boot has is what counts; what holds now follows with a cold boot. Which value of ATS
is right: linux-rdma/rdma-core kernel-boot/rdma_topo.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from toolkit.compat.nic import number, port_of, setting, without_port
from toolkit.compat.reader import Compat, maker
from toolkit.errors import ExitCode, NoEvidence, Unparsable, UsageError
from toolkit.evidence import Evidence, State
from toolkit.facts.rdma.firmware_tools import Card, FirmwareSetting, parse_mlxconfig
from toolkit.plural import counted
from toolkit.untrusted import read_json
from toolkit.want import Role

PROFILE = "profile"  # as a word of --set: all that role and site ask for
_MELLANOX = 0x15B3
_NO_TOOL = "neither mlxconfig nor mstconfig is there; install mstflint, or mft"
_IB = 1  # of LINK_TYPE


class NicWish(Struct, frozen=True):
    """One setting asked for."""

    name: str  # "ATS_ENABLED"; of an undo the whole name: "LINK_TYPE_P1"
    value: int
    named: bool = True  # by the operator; else by role or site
    card: str = ""  # of an undo: the one that is meant
    ours: int | None = None  # of an undo: what we had written; another value is other hands'

    def __str__(self) -> str:
        return f"{self.name}={self.value}"

    def means(self, name: str) -> bool:
        return self.name in {name, without_port(name)}


class NicEdit(Struct, frozen=True):
    """One setting of one card."""

    card: str  # "0000:19:00.0"
    name: str  # "LINK_TYPE_P1"
    now: int | None  # None where the tool does not tell
    before: int  # what the next boot would have had
    after: int

    def __str__(self) -> str:
        return f"{self.card} {self.name}: {self.before} -> {self.after}"


class NicBlock(Struct, frozen=True):
    """A wish that is not to be had on one card."""

    card: str
    wish: str
    reason: str
    exposed: bool  # the card has the setting
    named: bool

    @property
    def stops(self) -> bool:
        """Whether nothing is written on the node: half of what was named may be worse."""
        return self.named and self.exposed


class NicPlan(Struct, frozen=True):
    """What is to be done on one node."""

    edits: tuple[NicEdit, ...] = ()
    owed: tuple[NicEdit, ...] = ()  # written, and not in force before a cold boot
    blocked: tuple[NicBlock, ...] = ()

    @property
    def ready(self) -> bool:
        return bool(self.edits) and not any(each.stops for each in self.blocked)

    @property
    def words(self) -> tuple[str, ...]:
        """One for each card, as nic.sh takes them."""
        cards: dict[str, list[str]] = {}
        for each in self.edits:
            cards.setdefault(each.card, []).append(f"{each.name}={each.after}")
        return tuple("/".join([card, *pairs]) for card, pairs in cards.items())

    @property
    def kept(self) -> str:
        """What there was, for the journal."""
        rows = [[each.card, each.name, each.before, each.after] for each in self.edits]
        return json.dumps(rows)


class NicReading(Struct, frozen=True):
    """The HCAs of one node, and what is to be done to them."""

    cards: tuple[Card, ...]
    others: tuple[str, ...] = ()  # "0000:31:00.0 Broadcom NetXtreme-E: niccli --list": read alone
    unread: tuple[str, ...] = ()  # cards that did not tell, each with the reason
    plan: NicPlan = field(default_factory=NicPlan)
    role: Role | None = None
    steps: tuple[str, ...] = ()
    failed: str = ""  # what a tool said where it did not write

    @property
    def rebooted(self) -> bool:
        """Never: a cold boot is the operator's."""
        return False

    @property
    def exit_code(self) -> ExitCode:
        """Of a plan, and of what came of it."""
        if self.failed:
            return ExitCode.STOPPED
        if any(each.exposed for each in self.plan.blocked):
            return ExitCode.FAILED
        if self.plan.edits or self.plan.owed:
            return ExitCode.PENDING
        unknown = self.unread or any(each.named for each in self.plan.blocked)
        return ExitCode.UNKNOWN if unknown else ExitCode.OK

    @property
    def shown(self) -> ExitCode:
        """Of a look alone: whether what role and site want is so."""
        if self.plan.edits or any(each.exposed for each in self.plan.blocked):
            return ExitCode.FAILED
        if self.plan.owed:
            return ExitCode.PENDING
        return ExitCode.UNKNOWN if self.unread else ExitCode.OK


def wanted(role: Role | None, site: Mapping[str, int]) -> tuple[NicWish, ...]:
    """What the role wants, and the site, whose word goes first.

    Relaxed order is left to each memory region: NCCL asks for it, and what polls the last byte of
    a message would not stand it. ATS is for hosts of guests alone.
    """
    asked = {"PCI_WR_ORDERING": 0, "ROCE_CC_PRIO_MASK": 255}
    if role is Role.BARE_METAL:
        asked["ATS_ENABLED"] = 0
    elif role is Role.VM_HOST:
        asked |= {"ATS_ENABLED": 1, "SRIOV_EN": 1}
    return tuple(NicWish(name, value, named=False) for name, value in (asked | dict(site)).items())


def read_wishes(text: str) -> tuple[tuple[NicWish, ...], bool]:
    """ "ATS_ENABLED=off,LINK_TYPE=eth,profile": the wishes, and whether the profile's go along.

    :raises UsageError: for a setting or a value that is none, or one that is named twice.
    """
    words = [each.strip() for each in text.split(",") if each.strip()]
    wishes = [NicWish(*_setting(each)) for each in words if each != PROFILE]
    names = [each.name for each in wishes]
    met = (
        each.name for each in wishes if names.count(without_port(each.name)) and port_of(each.name)
    )
    if not words:
        raise UsageError("--set names nothing", hint="--set ATS_ENABLED=off, or --set profile")
    if twice := next((each for each in names if names.count(each) > 1), ""):
        raise UsageError(f"--set names {twice} twice", hint="once will do")
    if both := next(met, ""):
        raise UsageError(
            f"--set names {both} and {without_port(both)}", hint="one of them, or one for each port"
        )
    return tuple(wishes), PROFILE in words


def _setting(text: str) -> tuple[str, int]:
    """ "LINK_TYPE=eth" as ("LINK_TYPE", 2).

    :raises UsageError: for what is no setting that we know, or no value of it.
    """
    name, _, word = (part.strip() for part in text.partition("="))
    try:
        known = setting(name)
        return known, number(known, word)
    except ValueError as why:
        told, _, hint = str(why).partition("; ")
        raise UsageError(f"--set: {told}", hint=hint) from why


def reading(look: Evidence, wishes: Sequence[NicWish], compat: Compat) -> NicReading:
    """What a look tells, with a plan for the wishes."""
    cards, unread, others, without = [], [], [], 0
    for address, vendor, device in _functions(look.text("nics")):
        if vendor != _MELLANOX:
            made = maker(vendor, device)
            row = next((e for e in compat.providers if made and e.id == made.id), None)
            if row is not None:
                others.append(f"{address} {row.name}: {row.tools}")
        elif (frame := look.frames.get(f"nic-{address}")) and frame.state is State.ABSENT:
            without += 1
        elif frame is not None:
            try:
                (card,) = parse_mlxconfig(look.text(f"nic-{address}"))
            except (NoEvidence, Unparsable, ValueError) as why:
                unread.append(f"{address}: {why}")
            else:
                cards.append(Card(address, card.type, card.settings))
    if without:
        unread.append(f"{counted(without, 'card')}: {_NO_TOOL}")
    plan = _plan(cards, wishes)
    return NicReading(tuple(cards), tuple(others), tuple(unread), plan)


def _functions(text: str) -> Iterator[tuple[str, int, int]]:
    for line in text.split("\n"):
        address, _, ids = line.partition(" ")
        vendor, _, device = ids.partition(":")
        try:
            yield address, int(vendor, 16), int(device, 16)
        except ValueError:
            continue  # a function whose ids were not read is no card that we know


def _plan(cards: Sequence[Card], wishes: Sequence[NicWish]) -> NicPlan:
    found: list[NicEdit | NicBlock | None] = []
    said = [each for each in wishes if each.named]
    for card in cards:
        for wish in wishes:
            if wish.card not in {"", card.device}:
                continue
            # What was named goes before what a site or a profile asks, port by port.
            met = [
                each
                for name, each in card.settings.items()
                if wish.means(name) and (wish.named or not any(one.means(name) for one in said))
            ]
            if not met and wish.named:
                reason = "this card has no such setting"
                found.append(NicBlock(card.device, str(wish), reason, False, True))
            found += [_sorted(card, told, wish) for told in met]
    there = {"", *(card.device for card in cards)}
    for wish in (each for each in wishes if each.card not in there):
        found.append(NicBlock(wish.card, str(wish), "this card is not there", False, True))
    edits = [each for each in found if isinstance(each, NicEdit)]
    return NicPlan(
        tuple(each for each in edits if each.before != each.after),
        tuple(each for each in edits if each.before == each.after),
        tuple(each for each in found if isinstance(each, NicBlock)),
    )


def _sorted(card: Card, told: FirmwareSetting, wish: NicWish) -> NicEdit | NicBlock | None:
    """One setting of one card: as wanted, to be written, written already, or not to be had."""
    if not wish.named and wish.name == "ROCE_CC_PRIO_MASK" and not _ethernet(card, told.name):
        return None
    if told.next is None:
        reason = f"{told.name} is {told.word}: no number that could be put back"
        return NicBlock(card.device, str(wish), reason, True, wish.named)
    if wish.ours is not None and told.next not in {wish.ours, wish.value}:
        reason = f"{told.name} is {told.next}, not ours: left as it is"
        return NicBlock(card.device, str(wish), reason, False, False)
    if told.next == wish.value and not told.pending:
        return None
    return NicEdit(card.device, told.name, told.now, told.next, wish.value)


def _ethernet(card: Card, name: str) -> bool:
    """Whether the port of a setting is Ethernet; a card that tells no type has no other."""
    told = card.settings.get(f"LINK_TYPE{port_of(name) or '_P1'}")
    return told is None or told.next != _IB


def _is_row(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 4
        and all(isinstance(each, str) for each in row[:2])
        and all(isinstance(each, int) for each in row[2:])
    )


def wishes_back(kept: Iterable[str]) -> tuple[NicWish, ...]:
    """The wishes that take a run back, from what it kept of one host, oldest first.

    :raises ValueError: for what no run of ours has kept.
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for text in kept:
        rows: object = read_json(text)
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise ValueError("no list of cards, settings and numbers")
        for card, name, before, after in rows:
            first = found.get((str(card), str(name)), (int(before), 0))[0]
            found[str(card), str(name)] = first, int(after)
    return tuple(
        NicWish(name, before, card=card, ours=after)
        for (card, name), (before, after) in found.items()
    )
