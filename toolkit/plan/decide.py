"""For each artefact that a node should have: what is there, what its proofs say, what follows.

    ours on the node            its proofs      plan
    any                         one is unknown  blocked
    none                        all pass        nothing: other hands have seen to it
    none                        one fails       place it, run its triggers
    differs                     any             place it, run its triggers: we own this file
    same                        one fails       triggers only: written, not in effect
    same                        all pass        nothing
    present, no longer wanted   any             remove it, run its triggers
    no rule for this family     one fails       blocked

A proof that does not apply to the node counts as one that passes. A module that is delivered
may have reasons that are no proofs: what the next boot would lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from msgspec.structs import replace

from toolkit.checks.check import Tense
from toolkit.errors import NoEvidence, Unparsable, Unsupported, read_or
from toolkit.facts.distros import Family
from toolkit.facts.modules.placed_files import Placed
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact, Delivered, Trigger
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.artefacts_modules import held_early, still_of_use
from toolkit.plan.change import Action, Blocked, Change, Wanted
from toolkit.plan.decide_boot import with_arguments
from toolkit.plan.node_state import Situation, refuse, topics
from toolkit.plan.templates import render_path, render_text

_OF_THE_IMAGE = topics(ARTEFACTS)


def decide(here: Situation) -> None:
    """Fill in changes and what is blocked, artefact by artefact."""
    for artefact in filter(here.asks_for, _rows(here.family)):
        (_derive if artefact.derived else _decide)(artefact, here)
    for artefact, path in here.idle:
        failing = here.failing(artefact.proofs)
        if not here.mended.issuperset(failing):
            reason = f"{path} is as it should be, and still {'; '.join(here.found(failing))}"
            here.blocked.append(Blocked(artefact.id, reason, hint="something else overrides it"))
    _removals(here)
    here.changes = left_for_boot(here.changes, here.node)


def _rows(family: Family) -> Iterator[Artefact]:
    """The rows of a family; where none of them leads to an end, one of those that do elsewhere."""
    led = {each.title for each in ARTEFACTS if each.families(family)}
    told: set[tuple[str, ...]] = set()
    for each in ARTEFACTS:
        if each.families(family):
            yield each
        elif each.title not in led and each.proofs not in told:
            told.add(each.proofs)  # one sentence, however many files would have served them
            yield each


def _ruled(artefact: Artefact, content: Delivered, family: Family) -> None:
    """:raises Unsupported: for a row that is none of this family's."""
    if not artefact.families(family):
        words = content.values.get("arguments")
        raise Unsupported(
            f"no rule for {family.name}: {artefact.title}",
            hint=f"add {words} to the kernel's command line where this node keeps it, and reboot"
            if words
            else f"see to it by hand, until {'; '.join(artefact.proofs)} passes",
        )


def _decide(artefact: Artefact, here: Situation) -> None:
    failing, unknown = here.failing(artefact.proofs), here.unknown(artefact.proofs)
    try:
        if artefact.told is not None:
            artefact = with_arguments(artefact, artefact.told, here)
            failing, unknown = here.failing(artefact.proofs), here.unknown(artefact.proofs)
        content = _content(artefact, here)
        if content is None:
            return
        _ruled(artefact, content, here.family)
        path = render_path(artefact.path, content.values)
        here.kept[path] = _wanted(artefact, path, content)
        refuse(artefact, _OF_THE_IMAGE, here.node)
        if unknown:
            why = "; ".join(here.found(unknown))
            here.blocked.append(Blocked(artefact.id, f"cannot be known: {why}", here.hint(unknown)))
            return
        change = _change(artefact, path, content, failing, here)
    except (NoEvidence, Unparsable, Unsupported) as why:
        here.unsure.add(artefact.id)
        if failing or unknown or not artefact.proofs:
            here.blocked.append(Blocked(artefact.id, str(why), why.own_hint))
        return
    if change is None or not _unblocked(artefact, here):
        return
    if change.action is Action.TRIGGER and not change.triggers:
        here.idle.append((artefact, path))
        return
    here.changes.append(change)
    here.mended.update(artefact.proofs)


def _derive(artefact: Artefact, here: Situation) -> None:
    """The system's own file is made again where a proof fails that nothing else here mends.

    What fails of the present, and not of the next boot, is mended by that boot alone.
    """
    failing = tuple(each for each in here.failing(artefact.proofs) if each not in here.mended)
    values = artefact.values(here.node, here.want) if failing else None
    if values is None:
        return
    try:
        refuse(artefact, _OF_THE_IMAGE, here.node)
    except Unsupported as why:
        here.blocked.append(Blocked(artefact.id, str(why), why.own_hint))
        return
    tenses = {here.verdicts[each].check.tense for each in failing}
    change = Change(
        artefact=artefact.id,
        title=artefact.title,
        path=render_path(artefact.path, values),
        action=Action.TRIGGER,
        triggers=(
            *(artefact.then if Tense.AT_BOOT in tenses else ()),
            *((Trigger.REBOOT,) if Tense.NOW in tenses else ()),
        ),
        why=here.found(failing),
        values=values,
    )
    here.changes.append(change)
    here.mended.update(failing)


def _content(artefact: Artefact, here: Situation) -> Delivered | None:
    if artefact.chosen is not None:
        return artefact.chosen(here.node, here.want, here.builts)
    values = artefact.values(here.node, here.want)
    return None if values is None else Delivered(values, b"", artefact.then)


def _wanted(artefact: Artefact, path: str, content: Delivered) -> Wanted:
    data = content.data or _text(artefact, content).encode()
    words = tuple(content.values.get("arguments", "").split())
    digest = sha256(data).hexdigest()
    return Wanted(artefact.id, artefact.title, path, digest, artefact.proofs, words)


def _text(artefact: Artefact, content: Delivered) -> str:
    return render_text(artefact.template, content.values) if artefact.template else ""


def _unblocked(artefact: Artefact, here: Situation) -> bool:
    lacking = tuple(each for each in here.lacking(artefact.needs) if each not in here.mended)
    if lacking:
        why = "; ".join(here.found(lacking))
        here.blocked.append(Blocked(artefact.id, f"nothing in this plan mends {why}"))
    return not lacking


def _change(
    artefact: Artefact, path: str, content: Delivered, failing: tuple[str, ...], here: Situation
) -> Change | None:
    """The row of the table.

    :raises Unsupported: where somebody else's file lies at the place.
    """
    reasons = (*here.found(failing), *content.why)
    old = here.node.placed.get(path)
    if old is not None and not (path in here.node.owned or "gdr-toolkit" in path):
        if not failing:
            return None
        raise Unsupported(
            f"{path} is somebody else's file, and is not overwritten",
            hint=f"add by hand what ours would say, or move it away: {artefact.title}",
        )
    change = Change(
        artefact=artefact.id,
        title=artefact.title,
        path=path,
        action=Action.PLACE,
        text=_text(artefact, content),
        mode=artefact.mode,
        old=old,
        old_text=read_or(lambda: here.node.ours.get(path), None) if old else None,
        triggers=_then(artefact, content.then, here),
        why=reasons,
        values=content.values,
        data=content.data,
    )
    if old is None:
        reasons = reasons or reason_unseen(artefact, here.node)
        return replace(change, why=reasons) if reasons else None
    if differs := _difference(change, old, here.node):
        return replace(change, why=(differs, *change.why))
    return _not_in_effect(change, artefact, here) if reasons else None


def _then(
    artefact: Artefact, triggers: tuple[Trigger, ...], here: Situation
) -> tuple[Trigger, ...]:
    """A module cannot be loaded into a stack that lacks its symbols, and a stack in use
    cannot be exchanged under its users: then only the next boot brings both. And what an
    initramfs holds of the modules that are made anew would be loaded before them.
    """
    if artefact.modules and held_early(here.node, artefact.modules):
        triggers = tuple(sorted({*triggers, Trigger.REBUILD_INITRAMFS}))
    if Trigger.RELOAD_MODULES in triggers and here.fails("ib.peer_symbol"):
        rest = set(triggers) - {Trigger.RELOAD_MODULES} | {Trigger.REBOOT}
        return tuple(sorted(rest))
    return triggers


def _not_in_effect(change: Change, artefact: Artefact, here: Situation) -> Change:
    booted = Trigger.REBOOT in change.triggers and here.next_boot_has(artefact)
    then = (Trigger.REBOOT,) if booted else change.triggers
    return replace(change, action=Action.TRIGGER, triggers=then)


def _difference(change: Change, old: Placed, node: Node) -> str:
    if old.sha256 != change.sha256:
        return "its text differs"
    if old.mode != change.mode:
        return f"its mode is {old.mode:o}, not {change.mode:o}"
    # Who is not root cannot give files away, and owns what he placed (images, simulations).
    if node.root and (old.uid, old.gid) != (0, 0):
        return f"it belongs to {old.uid}:{old.gid}, not to root"
    return ""


def _removals(here: Situation) -> None:
    if not here.node.owned:
        return
    try:
        placed = here.node.placed
    except (NoEvidence, Unparsable) as why:
        here.blocked.append(Blocked("", str(why), why.own_hint))
        return
    for path in sorted(here.node.owned & placed.keys() - here.kept.keys()):
        owners = [each for each in ARTEFACTS if each.owns(path)]
        owners.sort(key=lambda each: not each.families(here.family))
        artefact = owners[0] if owners else None
        if here.want.checks and not (artefact and here.asks_for(artefact)):
            continue
        if artefact is None:
            here.blocked.append(
                Blocked(
                    "",
                    f"{path} was placed by another version of the toolkit",
                    hint="roll back with that version, or remove it by hand",
                )
            )
        elif artefact.id not in here.unsure and not still_of_use(path, here.node, here.want):
            _remove(artefact, path, placed[path], here)


def _remove(artefact: Artefact, path: str, old: Placed, here: Situation) -> None:
    text = read_or(lambda: here.node.ours.get(path), None)
    if (here.family.grubby or here.family.pbl) and artefact.asking and text is None:
        reason = f"{path}: its text was not read, so what to take back is not known"
        here.blocked.append(Blocked(artefact.id, reason, hint="collect the evidence again"))
        return
    here.changes.append(
        Change(
            artefact=artefact.id,
            title=artefact.title,
            path=path,
            action=Action.REMOVE,
            mode=old.mode,
            old=old,
            old_text=text,
            triggers=artefact.removed,
            why=("no longer wanted",),
        )
    )


# What a plan for an image leaves out: an image does not run.
#
# Services are not started and modules not loaded: what is placed does that at the first boot. The
# boot menu is made anew only where there is one; an image that has none gets one when it is
# installed, and its system reads our file then.

OF_FILES = frozenset(
    {Trigger.BUILD_DKMS, Trigger.DEPMOD, Trigger.REBUILD_INITRAMFS, Trigger.UPDATE_BOOTLOADER}
)
UNSEEN = "an image: whether it is needed shows only once it runs"


def reason_unseen(artefact: Artefact, node: Node) -> tuple[str, ...]:
    """Why a file is placed in an image though none of its proofs can be asked there."""
    return (UNSEEN,) if artefact.in_images and not node.live else ()


def left_for_boot(changes: list[Change], node: Node) -> list[Change]:
    """The changes with what an image can be given of their work; all of it on a live node."""
    if node.live:
        return changes
    made = OF_FILES if node.boot_entries else OF_FILES - {Trigger.UPDATE_BOOTLOADER}
    kept = [
        replace(each, triggers=tuple(trigger for trigger in each.triggers if trigger in made))
        for each in changes
    ]
    return [each for each in kept if each.triggers or each.action is not Action.TRIGGER]
