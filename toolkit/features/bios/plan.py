"""BIOS: what is to be changed, in which order, and what stands in the way; pure.

passes      what is sent at once, one attribute an edit; what only a reset opens waits for it
owed        asked for, and pending already: nothing is to be sent, a reset makes it so
effects     what follows by itself, as the registry's dependencies tell
strangers   pending by other hands, and made so by the same reset
blocked     asked for, and not to be had: named, with the reason
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from toolkit.compat.bios import BiosRole
from toolkit.facts.firmware.bios_setting import Exposed
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_depends import closed, current_values, effects
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Condition
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan_wishes import (
    BiosTarget,
    BiosWish,
    BlockedWish,
    BlockKind,
    allowed,
    satisfied,
    targets_of,
    value_for,
)


class Edit(Struct, frozen=True):
    """One attribute that is to be sent."""

    name: str  # as a PATCH must have it
    before: Raw  # what holds now
    pending: Raw  # what the next reset would have made it; None where nothing was
    after: Raw
    wish: str  # "acs=off"
    display: str = ""  # as the BIOS's own screens call it
    setting: BiosRole | None = None
    named: bool = True  # by the operator, not by a profile

    def __str__(self) -> str:
        coming = (
            "" if self.pending in (None, self.before) else f" (pending {words_of(self.pending)})"
        )
        return f"{self.name}: {words_of(self.before)}{coming} -> {words_of(self.after)}"


class Effect(Struct, frozen=True):
    """What follows from the edits without being asked for."""

    name: str
    text: str  # "becomes read-only", "Enabled -> Disabled"
    before: Raw = None
    after: Raw = None  # None where its value stays


class BiosPlan(Struct, frozen=True):
    """What is to be done to one BIOS."""

    passes: tuple[tuple[Edit, ...], ...] = ()  # the first is empty where a reset comes first
    owed: tuple[Edit, ...] = ()
    effects: tuple[Effect, ...] = ()
    strangers: tuple[Edit, ...] = ()
    blocked: tuple[BlockedWish, ...] = ()
    asked: int = 0  # wishes
    content: int = 0  # of these, attributes that are as asked already

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(edit for each in self.passes for edit in each)

    @property
    def pending(self) -> bool:
        """Whether anything is left to do: to send, or a reset for what was sent."""
        return bool(self.passes or self.owed)

    @property
    def stopped(self) -> tuple[BlockedWish, ...]:
        """Why nothing is sent; () where it may be."""
        return tuple(each for each in self.blocked if each.stops)

    @property
    def resets(self) -> int:
        """How many resets it takes."""
        return max(len(self.passes), int(bool(self.owed)))

    def within(self, agreed: BiosPlan) -> bool:
        """Whether it sends nothing that the agreed one does not."""
        return _pairs(self.edits) <= _pairs((*agreed.edits, *agreed.owed)) and _pairs(
            self.strangers
        ) <= _pairs((*agreed.strangers, *agreed.edits, *agreed.owed))


def _pairs(edits: Sequence[Edit]) -> set[tuple[str, str]]:
    return {(each.name, words_of(each.after)) for each in edits}


def names(edits: Iterable[Edit]) -> str:
    """The attributes, for a sentence."""
    return ", ".join(each.name for each in edits)


PASSES = 3  # resets that one change may take


class _Sorted(Struct):
    """What becomes of each target."""

    edits: list[Edit] = field(default_factory=list)
    owed: list[Edit] = field(default_factory=list)
    blocked: list[BlockedWish] = field(default_factory=list)
    content: int = 0


def plan_bios(
    bios: Bios,
    exposed: Mapping[BiosRole, Sequence[Exposed]],
    wishes: Sequence[BiosWish],
    lockdown: str = "",
) -> BiosPlan:
    """What is to be sent for the wishes, and what is not to be had.

    :param exposed: of ``bios_setting.match``.
    :param lockdown: why the BMC takes no change at all, as a clause; "" where it does.
    """
    found = _Sorted()
    targets = tuple(targets_of(bios, exposed, wishes, found.blocked))
    named = {each.attribute.name for each in targets if not each.wish.profile}
    for target in targets:
        if not (target.wish.profile and target.attribute.name in named):
            _sort(target, found)
    if bios.locked:
        lockdown = lockdown or "every attribute is read-only at once, as under a lockdown"
    passes, contrary = _passes(bios, found, lockdown)
    touched = {each.name for each in (*found.edits, *found.owed)}
    return BiosPlan(
        passes,
        tuple(found.owed),
        tuple(_effects(bios, passes, touched)),
        tuple(
            Edit(each.name, each.current, each.pending, each.pending, "", each.display_name)
            for each in bios.changing
            if each.name not in touched
        ),
        (*found.blocked, *contrary),
        len(wishes),
        found.content,
    )


def _sort(target: BiosTarget, found: _Sorted) -> None:
    wish, attribute, row = target.wish, target.attribute, target.row
    now, coming = attribute.current, attribute.pending if attribute.changing else None
    if coming is None and satisfied(attribute, now, wish, row):
        found.content += 1
        return
    then = now if coming is None else coming
    if wish.ours is not None and not (same(then, wish.ours) or same(then, wish.exact)):
        reason = f"{attribute.name} is {words_of(then)}, not ours"
        found.blocked.append(BlockedWish(str(wish), BlockKind.CHANGED, reason, "left as it is"))
        return
    after = value_for(attribute, wish, row)
    if coming is not None and satisfied(attribute, now, wish, row):
        after = now  # what would end it is pending by other hands
    if after is None:
        reason = f"{attribute.name} takes {allowed(attribute)}"
        hint = "one of these, or leave it as it is"
        blocked = BlockedWish(str(wish), BlockKind.NO_VALUE, reason, hint, not wish.profile)
        found.blocked.append(blocked)
        return
    owed = coming is not None and satisfied(attribute, coming, wish, row)
    edit = Edit(
        attribute.name,
        now,
        coming,
        coming if owed else after,
        str(wish),
        attribute.display_name,
        wish.setting,
        not wish.profile,
    )
    (found.owed if owed else found.edits).append(edit)


def _passes(
    bios: Bios, found: _Sorted, lockdown: str
) -> tuple[tuple[tuple[Edit, ...], ...], list[BlockedWish]]:
    """The edits in passes: what a reset opens comes after it. And what never opens."""
    edits = found.edits
    if lockdown:
        hint = "lift the lockdown at the BMC first, and set it again afterwards"
        return (), [_blocked(each, BlockKind.LOCKED, lockdown, hint) for each in edits]
    passes: list[tuple[Edit, ...]] = []
    left, done = list(edits), dict[str, Raw]()
    while left and len(passes) < PASSES:
        now = world(bios, done)
        left = [each for each in left if each.name not in now.forced or not _holds(now, each)]
        ready = [each for each in left if each.name not in now.closed]
        ready = _without_followers(bios, done, ready)
        owed = [] if passes else found.owed  # the first reset brings these as well
        if not ready and not owed:
            break
        passes.append(tuple(ready))
        done |= {each.name: each.after for each in (*ready, *owed)}
        left = [each for each in left if each not in ready]
    end = world(bios, done)
    blocked = [_closed(bios, end, each) for each in left if not _holds(end, each)]
    contrary = [each for each in edits if each.name in done and not _holds(end, each)]
    for each in contrary:
        reason = f"another change makes {each.name} {words_of(end.values[each.name])}"
        blocked.append(_blocked(each, BlockKind.CONTRARY, reason, "ask for one of the two"))
    passes = [tuple(each for each in group if each not in contrary) for group in passes]
    while passes and not passes[-1]:
        passes.pop()
    return tuple(passes), blocked


def _blocked(edit: Edit, block: BlockKind, reason: str, hint: str) -> BlockedWish:
    return BlockedWish(edit.wish, block, reason, hint, edit.named)


def _holds(now: World, edit: Edit) -> bool:
    return same(now.values.get(edit.name), edit.after)


def _without_followers(bios: Bios, done: Mapping[str, Raw], ready: list[Edit]) -> list[Edit]:
    """Those that another one of them sets by a rule, and closes, are not to be sent beside it."""
    then = world(bios, {**done, **{each.name: each.after for each in ready}})
    kept = []
    for each in ready:
        others = {e.name: e.after for e in ready if e.name != each.name}
        without = world(bios, {**done, **others})
        if each.name in then.closed and _holds(without, each) and others:
            continue
        kept.append(each)
    return kept


def _closed(bios: Bios, now: World, edit: Edit) -> BlockedWish:
    """Why an attribute cannot be changed, and what would open it."""
    conditions = now.closed.get(edit.name, ())
    if not conditions:
        hint = "in the BIOS's own screens, if anywhere"
        return _blocked(edit, BlockKind.READ_ONLY, f"{edit.name} is read-only", hint)
    keys = dict.fromkeys(each.attribute for each in conditions)
    because = ", ".join(f"{key} is {words_of(now.values.get(key))}" for key in keys)
    first = next((bios.attributes[key] for key in keys if key in bios.attributes), None)
    hint = f"{first.name} takes {allowed(first)}: raw:{first.name}=VALUE" if first else ""
    reason = f"{edit.name} is read-only while {because}"
    return _blocked(edit, BlockKind.READ_ONLY, reason, hint)


def _effects(bios: Bios, passes: Sequence[Sequence[Edit]], touched: set[str]) -> Iterable[Effect]:
    sets = {edit.name: edit.after for group in passes for edit in group}
    if not sets:
        return
    before, after = world(bios, {}), world(bios, sets)
    for name, value in after.forced.items():
        if name not in touched:
            was = bios.attributes[name].current
            yield Effect(name, f"{words_of(was)} -> {words_of(value)}", was, value)
    for name in bios.attributes:
        if name not in touched and (name in after.closed) is not (name in before.closed):
            yield Effect(
                name, "becomes read-only" if name in after.closed else "can be changed then"
            )


# What a BIOS would be once attributes are set: by the rules of its registry, told at the reset.
#
# Rules are carried out in ``firmware.redfish_depends``; here they are seen from what holds now,
# since a BMC takes no change of an attribute that only a pending value would open.


class World(Struct, frozen=True):
    """A BIOS as it would be."""

    values: Mapping[str, Raw]
    closed: Mapping[str, tuple[Condition, ...]]  # read-only, and what makes it so; () for good
    forced: Mapping[str, Raw]  # set by a rule, besides what was asked for


def world(bios: Bios, sets: Mapping[str, Raw]) -> World:
    """What would be once ``sets`` holds: values that follow, and what can be changed then."""
    made = effects(bios, sets, current_values(bios))
    return World(
        made.values,
        {
            name: tuple(each for rule in rules for each in rule.conditions)
            for name, rules in closed(bios, made.values).items()
        },
        {each.attribute: each.after for each in made.changed},
    )


def same(one: Raw, other: Raw) -> bool:
    """Whether two values are one: registries write "true" where resources have true."""
    return words_of(one).casefold() == words_of(other).casefold()
