"""Carry out changes of BIOSes as a rollout: journal, claims, canary, batches; and take one back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Outcome, UsageError
from toolkit.features.bios.plan_reading import (
    BiosOutcome,
    BiosReading,
    KeptBios,
    back,
    joined,
    read_before,
)
from toolkit.features.bios.plan_wishes import BiosWish, BlockKind
from toolkit.features.bios.run_look import BiosQuery, Reach
from toolkit.features.bios.run_reset import Consent
from toolkit.features.bios.run_turn import BiosWork
from toolkit.rollout.events import KEPT
from toolkit.rollout.history import PastRun
from toolkit.rollout.journal import Event, JournalError
from toolkit.rollout.plan.batches import Phase, Standing
from toolkit.rollout.run import Rolled, Rollout, Threads
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.rollout import Agreed, join_budget, keep_journal, roll, write_first

VERB = "bios"


class BiosRun(Struct, frozen=True):
    """What one run of changes has in common."""

    fleet: Fleet
    reach: Reach
    asking: BiosQuery
    consent: Consent
    folder: RunFolder


def roll_out_bios(
    run: BiosRun, looked: Sequence[Outcome[BiosReading]], agreed: Agreed
) -> Rolled[BiosOutcome]:
    """Carry out what was planned, in the agreed terms.

    :returns: an outcome for each of ``looked``.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: there is no journal to be had; nothing was sent.
    """
    fleet, folder = run.fleet, run.folder
    with ExitStack() as stack:
        journal = keep_journal(stack, fleet, folder, agreed.about, alone=True)
        if journal is None:  # never: it is a must
            raise JournalError("no journal can be kept", hint="nothing was sent")
        write_first(journal, agreed, [_planned(each) for each in looked])
        by_name = {each.host: each for each in looked}
        work = BiosWork(
            fleet, run.reach, run.asking, run.consent, folder, by_name, journal, agreed.hooks
        )
        rollout = Rollout(
            agreed.terms,
            Standing(),  # a node whose BMC is out of reach serves as it did
            {host.name: host for host in fleet.hosts},
            Threads(work.take_turn),
            lambda each: each.value is not None and each.value.as_agreed,
            _ended,
            journal,
            agreed.brakes,
            fleet.access.progress,
            join_budget(stack, fleet, journal, agreed),
        )
        rolled = roll(rollout, "changing BIOSes")
    # Of the others nothing was to be done, or could be.
    untouched = (each.map(lambda found: BiosOutcome(found, found)) for each in looked)
    outcomes = {each.host: rolled.outcomes.get(each.host) or each for each in untouched}
    return replace(rolled, outcomes=outcomes)


def kept_by(run: PastRun, hosts: Sequence[str] = ()) -> Mapping[str, tuple[BiosWish, ...]]:
    """By host, the wishes that take a run back.

    :param hosts: only these; all that were changed unless given.
    :raises UsageError: it was no run of this verb, or changed nothing there.
    """
    if run.story.about.verb != VERB:
        raise UsageError(
            f"run {run.id} was {run.story.about.verb}, not {VERB}",
            hint=f"take it back by: undo {run.id}",
        )
    found: dict[str, list[KeptBios]] = {}
    for event in run.story.events:
        if event.phase == KEPT:
            found.setdefault(event.host, []).append(read_before(event.detail))
    if strangers := sorted(set(hosts) - set(found)):
        raise UsageError(
            f"run {run.id} changed no BIOS of {', '.join(strangers)}",
            hint=f"see what it did: runs.show {run.id}",
        )
    chosen = {
        host: back(joined(each)) for host, each in found.items() if not hosts or host in hosts
    }
    if not chosen:
        raise UsageError(f"run {run.id} changed no BIOS", hint="there is nothing to take back")
    return chosen


def _planned(outcome: Outcome[BiosReading]) -> Event:
    if outcome.value is None:
        return Event(outcome.host, Phase.LOST.value, detail=_error(outcome))
    plan = outcome.value.plan
    phase = Phase.PLANNED if plan.pending and not plan.stopped else Phase.NOTHING
    told = {
        "machine": outcome.value.machine,
        "changes": [str(each) for each in (*plan.edits, *plan.owed)],
        "blocked": [f"{each.wish}: {each.reason}" for each in plan.blocked],
    }
    return Event(outcome.host, phase.value, detail=json.dumps(told, ensure_ascii=True))


def _ended(outcome: Outcome[BiosOutcome], well: bool) -> Event:
    phase = (Phase.DONE if well else Phase.FAILED).value
    if outcome.value is None:
        return Event(outcome.host, phase, detail=_error(outcome))
    done = outcome.value
    told = {
        "steps": list(done.steps),
        "missed": [str(each) for each in done.missed],
        "rebooted": done.resets > 0,
        "busy": done.busy,
        "blocked": [
            f"{each.wish}: {each.reason}"
            for each in done.after.plan.blocked
            if each.block is not BlockKind.NOT_EXPOSED
        ],
    }
    return Event(outcome.host, phase, detail=json.dumps(told, ensure_ascii=True))


def _error(outcome: Outcome[BiosReading] | Outcome[BiosOutcome]) -> str:
    error = outcome.error
    told = {"error": str(error), "hint": error.hint if error else ""}
    return json.dumps(told, ensure_ascii=True)
