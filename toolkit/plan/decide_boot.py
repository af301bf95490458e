"""What a changed file of kernel arguments calls for: a trial, a reboot, or no boot at all."""

from __future__ import annotations

from msgspec.structs import replace

from toolkit.built.plan.model import Built
from toolkit.checks.check import Tense
from toolkit.errors import NoEvidence, Unparsable, Unsupported, read_or
from toolkit.facts.boot.next_boot import TrialOutcome
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact, Delivered, Told, Trigger
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.artefacts_boot import given_up
from toolkit.plan.boot_arguments import arguments_in, bare, needed
from toolkit.plan.change import Action, Blocked, Change
from toolkit.plan.node_state import Situation
from toolkit.plan.trial import Trial, lines_of, trial_of
from toolkit.want import Want

FORGET = "to try it again, remove its line from /var/lib/gdr-toolkit/trials on the node"


def with_arguments(artefact: Artefact, told: Told, here: Situation) -> Artefact:
    """The row with the arguments that this node needs: what it holds, and what proves it.

    What only a trial has told the running kernel works now, and is lacking all the same.
    """
    wanted = tuple(a for each in artefact.asking for a in each.gather(here.node, here.want))
    old = here.node.placed.get(artefact.path)
    words = () if old is None else _words_of(artefact.path, here)
    tried: set[str] = set()
    if here.node.live and here.node.trial:
        tried = {*map(bare, here.node.cmdline.words)} - {*lines_of(here.node).usual}
    lacking = {a for a in wanted if here.failing(a.proofs) or here.unknown(a.proofs)}
    lacking |= {a for a in wanted if a.word in tried}
    found = needed(wanted, words, lacking.__contains__)
    proofs = tuple(dict.fromkeys(proof for each in found for proof in each.proofs))

    def chosen(node: Node, _want: Want, _builts: tuple[Built, ...]) -> Delivered | None:
        new = old is None and any(each.word in tried for each in found)
        why = ("this boot tries it, and the default lacks it",) if new else ()
        return Delivered(told(node, found), b"", artefact.then, why) if found else None

    return replace(artefact, proofs=proofs, chosen=chosen)


def _words_of(path: str, here: Situation) -> tuple[str, ...]:
    """What our file holds; a word that is no argument where its text was not read."""
    return arguments_in(read_or(lambda: here.node.ours.get(path, ""), "")) or ("-",)


def decide_boot(here: Situation, *, untried: bool) -> Trial | None:
    """The trial that the change of the command line calls for; None where it calls for none.

    A change that cannot be tried, or was given up, is blocked.

    :param untried: the operator has the default written without a trial.
    """
    row, change = _change(here)
    if row is None or change is None or not here.node.live:
        return None
    new = () if change.action is Action.REMOVE else arguments_in(change.text)
    gone = tuple(word for word in arguments_in(change.old_text or "") if word not in new)
    try:
        running = {bare(word) for word in here.node.cmdline.words}
    except NoEvidence as why:
        _block(change, str(why), why.own_hint, here)
        return None
    if running.issuperset(new) and running.isdisjoint(gone):
        _already(row, change, new, here)
        return None
    if untried or Trigger.UPDATE_BOOTLOADER not in change.triggers:
        return None  # the next boot has it, whoever saw to that: only the reboot is owed
    words = tuple(word for word in new if word not in running)
    try:
        return untried_yet(trial_of(here.node, here.family, words, gone), here.node)
    except (NoEvidence, Unparsable, Unsupported) as why:
        _block(change, str(why), why.own_hint, here)
    return None


def untried_yet(trial: Trial, node: Node) -> Trial:
    """:raises Unsupported: where the same was tried, and did not become the default.

    One that could not be read is tried once more: the link may have been the cause.
    """
    tried = node.trials.get(trial.id)
    if tried is None:
        return trial
    if tried.outcome is TrialOutcome.UNREAD:
        return replace(trial, last=True)
    if tried.outcome is TrialOutcome.OPEN and tried.why == node.boot_id:
        return trial  # who was to ask for its boot died before the node went down
    end = tried.why if tried.outcome is TrialOutcome.GIVEN_UP else "nobody was told how it ended"
    raise Unsupported(
        f"{trial.told} was tried at {tried.when}, and is not tried again: {end}", hint=FORGET
    )


def _change(here: Situation) -> tuple[Artefact | None, Change | None]:
    rows = {each.id: each for each in ARTEFACTS if each.asking}
    for change in here.changes:
        if change.artefact in rows:
            return rows[change.artefact], change
    return None, None


def _already(row: Artefact, change: Change, new: tuple[str, ...], here: Situation) -> None:
    """The running kernel was told so: what does not work now will not work after a boot."""
    asked = [a for each in row.asking if new for a in each.gather(here.node, here.want)]
    proofs = tuple(dict.fromkeys(p for a in asked if a.word in new for p in a.proofs))
    now = tuple(
        each for each in here.failing(proofs) if here.verdicts[each].check.tense is Tense.NOW
    )
    if now:
        said = "; ".join(here.found(now))
        reason = f"the running kernel was told {' '.join(new)}, and still {said}"
        hint = "another argument overrides it, or somebody changed it since the boot"
        _block(change, reason, hint, here)
        return
    if reason := given_up(here.node):
        _block(change, reason, f"reboot it, and it has its old command line; {FORGET}", here)
        return
    rest = tuple(each for each in change.triggers if each is not Trigger.REBOOT)
    here.changes[here.changes.index(change)] = replace(change, triggers=rest)


def _block(change: Change, reason: str, hint: str, here: Situation) -> None:
    here.changes.remove(change)
    here.blocked.append(Blocked(change.artefact, reason, hint))
