"""Work that changes hosts without a plan: written down, claimed, and part of the one budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeVar

from msgspec import Struct

from toolkit.errors import ExitCode, Outcome
from toolkit.features.slurm.run.nodes import node_name
from toolkit.features.slurm.run.service import refuse_serving
from toolkit.hosts.host import Host
from toolkit.rollout.events import HostLedger, Nobody, Witness
from toolkit.rollout.journal import Event, Journal
from toolkit.rollout.plan.batches import Past, Phase, Standing
from toolkit.rollout.run import Rolled, Rollout, Threads
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.rollout import Agreed, join_budget, keep_journal, roll


class CountedOutcome(Protocol):
    """What came of one host."""

    @property
    def exit_code(self) -> ExitCode: ...

    @property
    def steps(self) -> Sequence[str]: ...

    @property
    def rebooted(self) -> bool: ...


C = TypeVar("C", bound=CountedOutcome)
Work = Callable[[Host, Transport, Witness], C]


class Counting(Struct, frozen=True):
    """How the work is gone about."""

    folder: RunFolder
    agreed: Agreed  # its terms are of the hosts that are meant


def on_each_counted(
    fleet: Fleet,
    title: str,
    work: Work[C],
    how: Counting,
    *,
    well: Callable[[C], bool] = lambda _: True,
    harm: Callable[[C], str] = lambda _: "",
) -> Rolled[C]:
    """Do ``work`` on the hosts of the fleet, each as soon as the budget has a share for it.

    :param work: tells its witness of each act before it begins it.
    :param well: whether a node serves as it should after it.
    :param harm: in a clause, what is worse on a node than before; "" for nothing.
    :returns: an outcome for each of them, whatever happened.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: nothing can be written down where that is a must.
    """
    agreed = how.agreed
    with ExitStack() as stack:
        journal = keep_journal(stack, fleet, how.folder, agreed.about, alone=agreed.alone)
        hosts = {host.name: host for host in fleet.hosts}
        if journal is not None:
            journal.add_batches(agreed.terms.batches)
            journal.add(*(Event(name, Phase.PLANNED.value) for name in hosts))
        rollout = Rollout(
            agreed.terms,
            Standing(),
            hosts,
            Threads(lambda host: _turn(fleet, agreed, journal, host, work)),
            lambda outcome: outcome.ok and well(outcome.get()),
            _ended,
            journal,
            agreed.brakes,
            fleet.access.progress,
            join_budget(stack, fleet, journal, agreed),
            harm,
        )
        return roll(rollout, title)


def _turn(fleet: Fleet, agreed: Agreed, journal: Journal | None, host: Host, work: Work[C]) -> C:
    """What is done on one host, over a connection of its own."""
    witness = HostLedger(journal, host.name, Past()) if journal else Nobody()
    if fleet.slurm is not None and agreed.hooks.scheduler is None:
        refuse_serving(host, fleet.slurm.look(node_name(host)))
    transport = fleet.connect(host)
    try:
        return work(host, transport, witness)
    finally:
        transport.close()


def _ended(outcome: Outcome[C], well: bool) -> Event:
    phase = (Phase.DONE if well else Phase.FAILED).value
    if outcome.error is not None:
        told = {"error": str(outcome.error), "hint": outcome.error.hint}
        return Event(outcome.host, phase, detail=json.dumps(told))
    done = outcome.get()
    steps = {"steps": list(done.steps), "rebooted": done.rebooted}
    return Event(outcome.host, phase, detail=json.dumps(steps))
