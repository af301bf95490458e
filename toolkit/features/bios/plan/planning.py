"""From wishes and a BIOS to a plan: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from toolkit.compat.bios import BiosRole, BiosRow
from toolkit.facts.firmware.bios_setting import Exposed
from toolkit.facts.firmware.redfish_bios import Attribute, Bios
from toolkit.facts.firmware.redfish_depends import closed, current_values, effects
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Condition
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan.plan import BiosPlan, Block, Blocked, Edit, Effect
from toolkit.features.bios.plan.values import allowed, satisfied, value_for
from toolkit.features.bios.plan.wishes import Wish

PASSES = 3  # resets that one change may take


@dataclass(frozen=True, slots=True)
class _Target:
    """One attribute that a wish means."""

    wish: Wish
    attribute: Attribute
    row: BiosRow | None = None


@dataclass(slots=True)
class _Sorted:
    """What becomes of each target."""

    edits: list[Edit] = field(default_factory=list)
    owed: list[Edit] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    content: int = 0


def plan_bios(
    bios: Bios,
    exposed: Mapping[BiosRole, Sequence[Exposed]],
    wishes: Sequence[Wish],
    lockdown: str = "",
) -> BiosPlan:
    """What is to be sent for the wishes, and what is not to be had.

    :param exposed: of ``bios_setting.match``.
    :param lockdown: why the BMC takes no change at all, as a clause; "" where it does.
    """
    found = _Sorted()
    targets = tuple(_targets(bios, exposed, wishes, found.blocked))
    named = {each.attribute.name for each in targets if not each.wish.profile}
    for target in targets:
        if not (target.wish.profile and target.attribute.name in named):
            _sort(target, found)
    passes, contrary = _passes(bios, found, lockdown or _locked(bios))
    touched = {each.name for each in (*found.edits, *found.owed)}
    return BiosPlan(
        passes,
        tuple(found.owed),
        tuple(_effects(bios, passes, touched)),
        tuple(_strangers(bios, touched)),
        (*found.blocked, *contrary),
        len(wishes),
        found.content,
    )


def _targets(
    bios: Bios,
    exposed: Mapping[BiosRole, Sequence[Exposed]],
    wishes: Sequence[Wish],
    blocked: list[Blocked],
) -> Iterable[_Target]:
    for wish in wishes:
        if wish.setting is None:
            yield from _named(bios, exposed, wish, blocked)
            continue
        every = [each for each in exposed.get(wish.setting, ()) if each.part != "status"]
        meant = meant_of(every, wish.part)
        if wish.profile and not every:
            continue
        if meant:
            yield from (_Target(wish, each.attribute, each.row) for each in meant)
        elif every and not wish.part:
            blocked.append(_ambiguous(wish, every))
        else:
            blocked.append(_not_exposed(wish, every))


def meant_of(every: Sequence[Exposed], part: str = "") -> Sequence[Exposed]:
    """The attributes of a setting that are meant where ``part`` is said, or none is.

    Without a part the setting's own switch is meant, where it has one beside its parts.
    """
    meant = [each for each in every if each.part == part]
    if meant or part or len({each.part for each in every}) > 1:
        return meant
    return every


def _ambiguous(wish: Wish, every: Sequence[Exposed]) -> Blocked:
    parts = " or ".join(sorted({f"{wish.setting}.{each.part}" for each in every}))
    reason = f"{wish.setting} is {', '.join(each.name for each in every)} here"
    return Blocked(str(wish), Block.AMBIGUOUS, reason, f"say which: {parts}")


def _not_exposed(wish: Wish, every: Sequence[Exposed]) -> Blocked:
    reason, hint = "this BIOS offers no such setting to its BMC", ""
    if every:
        known = {
            f"{wish.setting}.{each.part}" if each.part else str(wish.setting) for each in every
        }
        reason, hint = f"it has no part {wish.part!r}", f"there is {', '.join(sorted(known))}"
    return Blocked(str(wish), Block.NOT_EXPOSED, reason, hint)


def _named(
    bios: Bios,
    exposed: Mapping[BiosRole, Sequence[Exposed]],
    wish: Wish,
    blocked: list[Blocked],
) -> Iterable[_Target]:
    attribute = bios.attributes.get(wish.attribute)
    if attribute is None:
        near = get_close_matches(wish.attribute, bios.attributes, n=3, cutoff=0.6)
        hint = (
            f"is it {' or '.join(near)}?" if near else "bios --verbose lists those that there are"
        )
        reason = "this BIOS has no such attribute"
        blocked.append(Blocked(str(wish), Block.NOT_EXPOSED, reason, hint))
        return
    every = (each for group in exposed.values() for each in group)
    row = next((each.row for each in every if each.name == wish.attribute), None)
    yield _Target(wish, attribute, row)


def _sort(target: _Target, found: _Sorted) -> None:
    wish, attribute, row = target.wish, target.attribute, target.row
    now, coming = attribute.current, attribute.pending if attribute.changing else None
    if coming is None and satisfied(attribute, now, wish, row):
        found.content += 1
        return
    if _others(wish, now if coming is None else coming):
        reason = f"{attribute.name} is {words_of(now if coming is None else coming)}, not ours"
        found.blocked.append(Blocked(str(wish), Block.CHANGED, reason, "left as it is"))
        return
    after = value_for(attribute, wish, row)
    if coming is not None and satisfied(attribute, now, wish, row):
        after = now  # what would end it is pending by other hands
    if after is None:
        reason = f"{attribute.name} takes {allowed(attribute)}"
        hint = "one of these, or leave it as it is"
        blocked = Blocked(str(wish), Block.NO_VALUE, reason, hint, not wish.profile)
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


def _others(wish: Wish, value: Raw) -> bool:
    """Of an undo: whether the value is neither what we set nor what it goes back to."""
    return wish.ours is not None and not (same(value, wish.ours) or same(value, wish.exact))


def _locked(bios: Bios) -> str:
    return "every attribute is read-only at once, as under a lockdown" if bios.locked else ""


def _passes(
    bios: Bios, found: _Sorted, lockdown: str
) -> tuple[tuple[tuple[Edit, ...], ...], list[Blocked]]:
    """The edits in passes: what a reset opens comes after it. And what never opens."""
    edits = found.edits
    if lockdown and edits:
        hint = "lift the lockdown at the BMC first, and set it again afterwards"
        return (), [_blocked(each, Block.LOCKED, lockdown, hint) for each in edits]
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
        blocked.append(_blocked(each, Block.CONTRARY, reason, "ask for one of the two"))
    passes = [tuple(each for each in group if each not in contrary) for group in passes]
    while passes and not passes[-1]:
        passes.pop()
    return tuple(passes), blocked


def _blocked(edit: Edit, block: Block, reason: str, hint: str) -> Blocked:
    return Blocked(edit.wish, block, reason, hint, edit.named)


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


def _closed(bios: Bios, now: World, edit: Edit) -> Blocked:
    """Why an attribute cannot be changed, and what would open it."""
    conditions = now.closed.get(edit.name, ())
    if not conditions:
        hint = "in the BIOS's own screens, if anywhere"
        return _blocked(edit, Block.READ_ONLY, f"{edit.name} is read-only", hint)
    keys = dict.fromkeys(each.attribute for each in conditions)
    because = ", ".join(f"{key} is {words_of(now.values.get(key))}" for key in keys)
    first = next((bios.attributes[key] for key in keys if key in bios.attributes), None)
    hint = f"{first.name} takes {allowed(first)}: raw:{first.name}=VALUE" if first else ""
    reason = f"{edit.name} is read-only while {because}"
    return _blocked(edit, Block.READ_ONLY, reason, hint)


def _effects(bios: Bios, passes: Sequence[Sequence[Edit]], touched: set[str]) -> Iterable[Effect]:
    """What follows without being asked for."""
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


def _strangers(bios: Bios, touched: set[str]) -> Iterable[Edit]:
    for each in bios.changing:
        if each.name not in touched:
            yield Edit(each.name, each.current, each.pending, each.pending, "", each.display_name)


# What a BIOS would be once attributes are set: by the rules of its registry, told at the reset.
#
# Rules are carried out in ``firmware.redfish_depends``; here they are seen from what holds now,
# since a BMC takes no change of an attribute that only a pending value would open.


@dataclass(frozen=True, slots=True)
class World:
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
