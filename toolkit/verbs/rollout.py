"""Begin a rollout, or go on with one that broke off: journal, claims, and who is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, ToolkitError, TransportError, worst
from toolkit.groups import Wants
from toolkit.hosts.host import Host, fold
from toolkit.node.audit import tell_system, whoami
from toolkit.rollout.budget import Budget, Unavailable, nobody
from toolkit.rollout.claims import claim
from toolkit.rollout.events import Value
from toolkit.rollout.hooks import Hooks
from toolkit.rollout.journal import FILE, About, Event, Journal, JournalError
from toolkit.rollout.plan.batches import NO_LIMIT, Past, Phase, Terms, standing
from toolkit.rollout.run import Brakes, HostWorkers, Rolled, Rollout, T, Threads
from toolkit.rollout.runs import DEMO, RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.plan import Planned
from toolkit.verbs.provision import Provisioned, ProvisionOptions, done_well, harm, untouched
from toolkit.verbs.provision_node import TurnWork

MakeHands = Callable[[Callable[[Host], Provisioned]], HostWorkers[Provisioned]]


class Agreed(Struct, frozen=True):
    """What was said of how to go about it."""

    terms: Terms
    about: About
    brakes: Brakes = field(default_factory=Brakes)
    hooks: Hooks = field(default_factory=Hooks)
    alone: bool = False  # a rollout: nobody else may touch its hosts, and its journal is a must
    past: Mapping[str, Past] | None = None  # by host, of the run that is resumed
    reported: Unavailable = nobody  # what a scheduler holds out of service beside our runs


def roll_out(
    fleet: Fleet,
    planned: Sequence[Outcome[Planned]],
    wants: Wants,
    today: date,
    *,
    options: ProvisionOptions,
    folder: RunFolder,
    agreed: Agreed,
    make_hands: MakeHands = Threads,
) -> Rolled[Provisioned]:
    """Carry out what was planned, in the agreed terms.

    :param planned: one a host of the fleet; what is done already is not among them.
    :returns: an outcome for each of ``planned``.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: there is no journal to be had, and none was to be done without.
    """
    past = dict(agreed.past or {})
    with ExitStack() as stack:
        alone, again = agreed.alone, agreed.past is not None
        journal = keep_journal(stack, fleet, folder, agreed.about, alone=alone, again=again)
        by_name = {each.host: each for each in planned}
        write_first(journal, agreed, [planned_event(each) for each in planned])
        hooks = agreed.hooks
        work = TurnWork(fleet, wants, today, options, folder, by_name, journal, hooks, past)
        hands = make_hands(work.take_turn)
        rolled = roll(_rollout(stack, fleet, planned, agreed, journal, hands=hands), "provisioning")
        outcomes = {
            each.host: rolled.outcomes.get(each.host) or untouched(each) for each in planned
        }
    return replace(rolled, outcomes=outcomes)


def _rollout(
    stack: ExitStack,
    fleet: Fleet,
    planned: Sequence[Outcome[Planned]],
    agreed: Agreed,
    journal: Journal | None,
    *,
    hands: HostWorkers[Provisioned],
) -> Rollout[Provisioned]:
    """Where its hosts stand, who works on them, and what there is to heed."""
    content = [each.host for each in planned if each.value and _content(each.value)]
    gone = [each.host for each in planned if isinstance(each.error, TransportError)]
    return Rollout(
        agreed.terms,
        standing(dict(agreed.past or {}), gone),
        {host.name: host for host in fleet.hosts},
        hands,
        done_well,
        ended_event,
        journal,
        agreed.brakes,
        fleet.access.progress,
        join_budget(stack, fleet, journal, agreed, lost=gone, well=content),
        harm,
    )


def roll(rollout: Rollout[T], title: str) -> Rolled[T]:
    """Carry out a rollout, with progress, and write how it ended as its journal's last words."""
    rollout.progress.begin(title, sum(map(len, rollout.terms.batches)))
    try:
        rolled = rollout.roll()
    finally:
        rollout.progress.finish()
    _last_words(rollout.journal, rolled)
    return rolled


def keep_journal(
    stack: ExitStack,
    fleet: Fleet,
    folder: RunFolder,
    about: About,
    *,
    alone: bool,
    again: bool = False,
) -> Journal | None:
    """A journal in the run's folder, with the hosts claimed, until the stack is left.

    :param alone: nobody else may touch the hosts, and the journal is a must.
    :param again: the folder is that of an earlier run.
    :returns: None where nothing can be kept of an ordinary run.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: there is none to be had.
    """
    file = folder.file(FILE)
    if file is None:
        if alone:
            raise JournalError(
                f"no journal can be kept: {folder.trouble}",
                hint="nothing was touched; make room, or name another XDG_STATE_HOME",
            )
        return None
    place, who = file.parent, whoami()
    keys = [_key(host) for host in fleet.hosts]
    stack.enter_context(claim(place.parent, place.name, who, keys, alone=alone))
    journal = Journal.open(place) if again else Journal.create(place, about)
    stack.enter_context(journal)
    journal.take_turn(who)
    if fleet.demo:
        return journal  # no node of the site's
    why = f", {about.reason}" if about.reason else ""
    hosts = fold(host.name for host in fleet.hosts)
    tell_system(f"run {place.name}: {about.verb} on {hosts} by {who}{why}")
    return journal


def join_budget(
    stack: ExitStack,
    fleet: Fleet,
    journal: Journal | None,
    agreed: Agreed,
    *,
    lost: Sequence[str] = (),
    well: Sequence[str] = (),
) -> Budget | None:
    """The run's part in the budget that it shares with others, until the stack is left.

    :param lost: hosts that cannot be reached.
    :param well: hosts that were found as wanted.
    :returns: None for simulated nodes, and where nothing can be kept.
    :raises BudgetError: its books cannot be used.
    """
    if journal is None or fleet.demo:
        return None
    place = journal.file.parent
    budget = Budget.open(
        place.parent,
        place.name,
        agreed.terms.budget if agreed.terms.budget < NO_LIMIT else None,
        lost=lost,
        reported=agreed.reported,
    )
    stack.enter_context(budget).well(well)
    return budget


def _content(found: Planned) -> bool:
    return not found.pending and found.judged.whole.exit_code is ExitCode.OK


def _key(host: Host) -> str:
    """By which any controller knows the same node, as far as names tell."""
    return f"{host.address or host.name.rpartition('@')[2]}:{host.port}"


def write_first(journal: Journal | None, agreed: Agreed, planned: Sequence[Event]) -> None:
    """The batches, and what is to be done on whom, one event a host."""
    if journal is None:
        return
    known = set(journal.story().hosts)
    fresh = [[h for h in batch if h not in known] for batch in agreed.terms.batches]
    first = len(journal.story().batches)
    journal.add_batches([batch for batch in fresh if batch], first=first)
    journal.add(*(event for event in planned if event.host not in (agreed.past or {})))


def _last_words(journal: Journal | None, rolled: Rolled[T]) -> None:
    if journal is None:
        return
    codes = [e.error.exit_code if e.error else e.get().exit_code for e in rolled.outcomes.values()]
    if rolled.interrupted:
        codes.append(ExitCode.INTERRUPTED)
    try:
        code = int(worst(codes))
        journal.end_turn(rolled.halt or "ended", code)
        place = journal.file.parent
        if not (place / DEMO).exists():
            tell_system(f"run {place.name}: exit {code}, chain {journal.head()}")
    except JournalError:
        return  # it was told of already: that is why the rollout was halted


def planned_event(outcome: Outcome[Planned]) -> Event:
    """What is to be done on a host, and why; or why there is nothing."""
    if outcome.value is None:
        return Event(outcome.host, Phase.LOST.value, detail=_error(outcome.error))
    found = outcome.value
    phase = Phase.PLANNED if found.pending else Phase.NOTHING
    changes = [f"{each.action.value} {each.path}" for each in found.plan.changes]
    triggers = [trigger.name for trigger in found.plan.triggers]
    told = {"fails": _fails(found.judged), "changes": changes, "triggers": triggers}
    return Event(outcome.host, phase.value, boot_id=found.boot_id, detail=_json(told))


def ended_event(outcome: Outcome[Provisioned], well: bool) -> Event:
    """How a host's turn ended."""
    phase = (Phase.DONE if well else Phase.FAILED).value
    if outcome.value is None:
        return Event(outcome.host, phase, detail=_error(outcome.error))
    done = outcome.value
    told: dict[str, Value] = {"fails": _fails(done.after), "steps": done.steps}
    told |= {"rebooted": done.rebooted, "left": done.left is not None}
    return Event(outcome.host, phase, detail=_json(told))


def _fails(judged: Judged) -> list[str]:
    return [each.check.id for each in judged.having(Status.FAIL)]


def _error(error: ToolkitError | None) -> str:
    return _json({"error": str(error), "hint": error.hint if error else ""})


def _json(told: Mapping[str, Value]) -> str:
    return json.dumps(told, ensure_ascii=True)
