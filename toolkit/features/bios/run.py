"""Carry out changes of BIOSes as a rollout: journal, claims, canary, batches; and take one back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TypeVar

from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.checks.role import role as role_of
from toolkit.errors import ApplyError, BmcLogin, NoEvidence, Outcome, ToolkitError, UsageError
from toolkit.evidence import Evidence, State
from toolkit.facts.firmware.redfish_bmc import BmcMachine, Same, same_machine
from toolkit.facts.node.node import Node
from toolkit.features.bios.plan import BiosPlan, plan_bios
from toolkit.features.bios.plan_reading import (
    BiosOutcome,
    BiosReading,
    KeptBios,
    back,
    joined,
    lines_of,
    read_before,
)
from toolkit.features.bios.plan_wishes import BiosRequest, BiosWish, BlockKind
from toolkit.features.bios.run_reset import Consent
from toolkit.features.bios.run_turn import BiosWork
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.redfish.client import Bmc
from toolkit.redfish.registry import RegistryCache
from toolkit.rollout.events import KEPT
from toolkit.rollout.history import PastRun
from toolkit.rollout.journal import Event, JournalError
from toolkit.rollout.plan.batches import Phase, Standing
from toolkit.rollout.run import Rolled, Rollout, Threads
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_hosts
from toolkit.verbs.rollout import Agreed, join_budget, keep_journal, roll, write_first
from toolkit.want import Role, Want

# BIOS: read by its BMC, beside what is wanted and what is asked for; changes nothing.
# A BMC may vanish for a while: it is logged in to while it answers, and again once it does.
T = TypeVar("T")


class LoginRefused(BmcLogin):
    """The password is not the BMC's any more; whoever waits for the BMC waits in vain."""


class BmcLine:
    """One host's BMC. As a block: whichever way it ends, its session is closed."""

    def __init__(self, host: Host, reach: Callable[[Host], Bmc]) -> None:
        self._host, self._reach = host, reach
        self._bmc: Bmc | None = None

    def __enter__(self) -> BmcLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def ask(self, work: Callable[[Bmc], T]) -> T:
        """Do ``work`` on the BMC.

        A BMC that does not answer keeps the session, so we keep it too: left behind, it would
        be one of the few that there are. One that has ended is begun anew the next time.

        :raises LoginRefused: not to be asked again: BMCs lock after a few.
        :raises BmcError: what ``work`` raised.
        """
        if self._bmc is None:
            bmc = self._reach(self._host)
            try:
                bmc.__enter__()
            except BmcLogin as why:
                raise LoginRefused(str(why), hint=why.hint) from why
            self._bmc = bmc
        try:
            return work(self._bmc)
        except BmcLogin:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Log out; once is enough."""
        bmc, self._bmc = self._bmc, None
        if bmc is not None:
            bmc.leave()


Reach = Callable[[Host], Bmc]  # not logged in yet; raises UsageError where a host has no BMC


@dataclass(frozen=True, slots=True)
class BiosQuery:
    """What the operator wants to know, and by what it is judged."""

    want: Want
    asked: BiosRequest | None = None  # None: nothing is to be planned
    back: Mapping[str, tuple[BiosWish, ...]] = field(default_factory=dict)  # by host, of an undo


def look_all(
    fleet: Fleet, reach: Reach, asking: BiosQuery, folder: RunFolder
) -> list[Outcome[BiosReading]]:
    """Read every BMC once, and plan; nothing is sent."""
    known = RegistryCache()  # of this run alone: what can be changed is said anew each time

    def work(host: Host) -> BiosReading:
        with _way(reach, host) as bmc:
            evidence = Evidence({each.key: each for each in bmc.read(known)}, complete=True)
        folder.keep_evidence(host.name, evidence, "bmc")
        if asking.asked is not None or asking.back:
            _refuse_unread_registry(host.name, evidence)
        beside = _beside(fleet, host, asking, Node(evidence).bmc_machine)
        return replace(judged(host.name, evidence, asking, beside.role), remarks=beside.remarks)

    return on_hosts(fleet, "reading BMCs", work)


def _refuse_unread_registry(host: str, evidence: Evidence) -> None:
    """A BIOS may have no registry; one that is there, and not read, makes half a plan a guess.

    :raises NoEvidence: it could not be read.
    """
    frame = evidence.frame("bmc-bios-registry")
    if frame.state not in {State.OK, State.ABSENT}:
        raise NoEvidence(
            f"{host}: the registry of its BIOS was not read ({frame.text.strip()})",
            hint="it tells what depends on what: nothing is planned without it; try again",
        )


def _way(reach: Reach, host: Host) -> Bmc:
    """The way to its BMC. Among many hosts, one without a BMC is not a slip of the whole.

    :raises NoEvidence: none was given.
    """
    try:
        return reach(host)
    except UsageError as why:
        raise NoEvidence(str(why), hint=why.hint) from why


def judged(host: str, evidence: Evidence, asking: BiosQuery, role: Role | None) -> BiosReading:
    """One BMC's evidence beside what is wanted and asked for.

    :raises NoEvidence, Unparsable: what nothing can do without was not read.
    """
    node = Node(evidence)
    wants = wanted(role, dict(asking.want.bios))
    wishes = asking.back.get(host, ()) if asking.back else _wishes(asking, role)
    plan = (
        plan_bios(node.bios, node.bios_settings, wishes, node.bmc_lockdown)
        if wishes
        else BiosPlan()
    )
    return BiosReading(node.bmc, node.bios, lines_of(node.bios_settings, wants), plan, role)


def _wishes(asking: BiosQuery, role: Role | None) -> Sequence[BiosWish]:
    if asking.asked is None:
        return ()
    return asking.asked.on(wanted(role, dict(asking.want.bios)))


@dataclass(frozen=True, slots=True)
class _Beside:
    """What the node itself tells."""

    role: Role | None = None
    remarks: tuple[str, ...] = ()


def _beside(fleet: Fleet, host: Host, asking: BiosQuery, machine: BmcMachine) -> _Beside:
    """The role that was said, else that which the node shows; and whose BMC it is.

    The node is asked where its role was not said, and before anything is planned for it. One
    that does not answer may be down, and is no reason not to plan.

    :raises AnotherMachine: a change was asked for, and the BMC is not this node's.
    """
    role, plans = asking.want.role, asking.asked is not None or bool(asking.back)
    if role is not None and not plans:
        return _Beside(role)
    transport = fleet.connect(host)
    try:
        node = Node(collect(transport))
        found = role or role_of(node, asking.want)
        same, why = same_machine(node.dmi, machine)
    except ToolkitError as error:
        told = str(error).removeprefix(f"{host.name}: ")
        unknown = "" if role else "; its role is not known, so say --role"
        return _Beside(role, (f"the node itself could not be asked ({told}){unknown}",))
    finally:
        transport.close()
    if same is Same.NO and plans:
        raise AnotherMachine(
            f"{host.name}: its BMC sits in another machine: {why}",
            hint="nothing was sent; mend the line in --bmc-map, or bmc= in the inventory",
        )
    return _Beside(found, () if same is Same.YES else (f"whether this BMC is its: {why}",))


class AnotherMachine(ApplyError):
    """The BMC that was given is another machine's; nothing was sent."""


VERB = "bios"


@dataclass(frozen=True, slots=True)
class BiosRun:
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
            _well,
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


def _well(outcome: Outcome[BiosOutcome]) -> bool:
    return outcome.value is not None and outcome.value.as_agreed


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
