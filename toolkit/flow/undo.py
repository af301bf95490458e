"""Undo a run: each node takes back what it did for that run, newest first.

No plan is carried out: the node has the bytes of before, and compares. A file that was
changed since, by other hands or by a later run, is left as it is, and named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from toolkit.change.rollout import Phase, Standing
from toolkit.errors import ApplyError, Outcome, UsageError
from toolkit.flow.access import Fleet
from toolkit.flow.heard import heard
from toolkit.flow.jobs import refuse_jobs
from toolkit.flow.past import Run
from toolkit.flow.rollback import RolledBack, booted_back
from toolkit.flow.rolling import Agreed, join_budget, keep_journal, roll
from toolkit.flow.rollout import Rolled, Rollout
from toolkit.flow.runs import RunFolder
from toolkit.hosts import Host
from toolkit.reach import deliver
from toolkit.reach.hands import Threads
from toolkit.reach.journal import Event, Journal, JournalError
from toolkit.reach.transport import Transport


@dataclass(frozen=True, slots=True)
class Undoing:
    """What is to be taken back: the names that nodes gave to our runs, newest first."""

    run: str
    node_runs: Mapping[str, Sequence[str]]  # by host


def undoing(run: Run, hosts: Sequence[str] = ()) -> Undoing:
    """What undoing a run means.

    :param hosts: only these; all that were touched unless given.
    :raises UsageError: nothing was touched, or a host was not.
    """
    if run.story.about.verb != "provision":
        raise UsageError(
            f"run {run.id} was {run.story.about.verb}, which is not undone",
            hint=f"bios --undo {run.id}"
            if run.story.about.verb == "bios"
            else "bring the nodes where they were: provision --hosts ...",
        )
    touched = run.touched()
    if strangers := sorted(set(hosts) - set(touched)):
        raise UsageError(
            f"run {run.id} changed nothing on {', '.join(strangers)}",
            hint=f"see what it did: runs.show {run.id}",
        )
    chosen = [host for host in touched if not hosts or host in hosts]
    if not chosen:
        raise UsageError(f"run {run.id} changed no node", hint="there is nothing to undo")
    told = run.node_runs()
    return Undoing(run.id, {host: told.get(host, ()) for host in chosen})


def undo(
    fleet: Fleet,
    what: Undoing,
    folder: RunFolder,
    agreed: Agreed,
    *,
    allow_reboot: bool,
    over_jobs: bool = False,
) -> Rolled[RolledBack]:
    """Take it back on the hosts of the fleet, which are those of ``what``; a run of its own.

    :param agreed: its terms are of the fleet's hosts, and it tells which run is taken back.
    :param over_jobs: a reboot may end somebody's job.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: what is done cannot be written down, so nothing was.
    """
    with ExitStack() as stack:
        journal = keep_journal(stack, fleet, folder, agreed.about, alone=True)
        if journal is None:  # never: it is a must
            raise JournalError("no journal can be kept", hint="nothing was touched")
        journal.add_batches(agreed.terms.batches)
        hosts = {host.name: host for host in fleet.hosts}
        journal.add(*(Event(name, Phase.PLANNED.value) for name in hosts))

        def work(host: Host) -> RolledBack:
            transport = fleet.connect(host)
            try:
                node = _Undo(host, transport, fleet, journal)
                return node.go(what, allow_reboot=allow_reboot, over_jobs=over_jobs)
            finally:
                transport.close()

        rollout = Rollout(
            agreed.terms,
            Standing(),
            hosts,
            Threads(work),
            lambda outcome: outcome.ok,
            lambda outcome, _: _ended(outcome),
            journal,
            agreed.brakes,
            fleet.access.progress,
            join_budget(stack, fleet, journal, agreed),
        )
        return roll(rollout, "undoing")


def _ended(outcome: Outcome[RolledBack]) -> Event:
    if outcome.error is not None:
        told = {"error": str(outcome.error), "hint": outcome.error.hint}
        return Event(outcome.host, Phase.FAILED.value, detail=json.dumps(told))
    told_steps = {"steps": list(outcome.get().steps), "rebooted": outcome.get().rebooted}
    return Event(outcome.host, Phase.DONE.value, detail=json.dumps(told_steps))


@dataclass(slots=True)
class _Undo:
    host: Host
    transport: Transport
    fleet: Fleet
    journal: Journal

    def go(self, what: Undoing, *, allow_reboot: bool, over_jobs: bool) -> RolledBack:
        names = what.node_runs[self.host.name]
        if not names:
            raise ApplyError(
                f"{self.host.name}: run {what.run} was at work here, and was never told "
                "what the node calls it",
                hint="look at the node's own journal, /var/lib/gdr-toolkit/journal, "
                f"then: rollback --hosts {self.host.name} --run NAME",
            )
        steps: list[str] = []
        booting = False
        for name in names:
            done = self._take_back(name)
            if done is None:
                steps.append(f"{name}: was taken back before")
                continue
            steps += map(str, done.steps)
            booting = booting or done.needs_reboot
        if not booting or not allow_reboot:
            return RolledBack(steps, False)
        if not over_jobs:
            refuse_jobs(self.transport)
        booted = booted_back(self.transport, self._note, self._about_to_reboot)
        return RolledBack((*steps, booted), True)

    def _take_back(self, name: str) -> deliver.Applied | None:
        self._about_to(Phase.APPLYING)
        try:
            return deliver.rollback(self.transport, name, sink=self._log)
        except UsageError:  # the node's journal has no such run that stands
            return None

    def _about_to_reboot(self, boot_id: str) -> None:
        self._about_to(Phase.REBOOTING, boot_id)

    def _about_to(self, phase: Phase, boot_id: str = "") -> None:
        self.journal.add(Event(self.host.name, phase.value, boot_id=boot_id))

    def _log(self, line: str) -> None:
        if told := heard(line):
            self._note(told)

    def _note(self, text: str) -> None:
        self.fleet.access.progress.note(self.host.name, text)
