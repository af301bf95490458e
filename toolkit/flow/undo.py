"""Undo a run: each node takes back what it did for that run, newest first.

No plan is carried out: the node has the bytes of before, and compares. A file that was
changed since, by other hands or by a later run, is left as it is, and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.change.rollout import Phase
from toolkit.errors import ApplyError, Outcome, UsageError
from toolkit.flow.access import Fleet
from toolkit.flow.each import on_each
from toolkit.flow.past import Run
from toolkit.flow.provision import REBOOT_S
from toolkit.flow.rollback import RolledBack
from toolkit.hosts import Host
from toolkit.reach import deliver
from toolkit.reach.collect import collect
from toolkit.reach.journal import Event, Journal
from toolkit.reach.reboot import reboot
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
    touched = run.touched()
    if strangers := sorted(set(hosts) - set(touched)):
        raise UsageError(
            f"run {run.id} changed nothing on {', '.join(strangers)}",
            hint=f"see what it did: runs.show {run.id}",
        )
    chosen = [host for host in touched if not hosts or host in hosts]
    if not chosen:
        raise UsageError(f"run {run.id} changed no node", hint="there is nothing to undo")
    return Undoing(run.id, {host: run.node_runs(host) for host in chosen})


def undo(
    fleet: Fleet, what: Undoing, journal: Journal | None, *, allow_reboot: bool
) -> list[Outcome[RolledBack]]:
    """Take it back on the hosts of the fleet, which are those of ``what``."""

    def work(host: Host, transport: Transport) -> RolledBack:
        return _Undo(host, transport, fleet, journal).go(what, allow_reboot)

    return on_each(fleet, "undoing", work)


@dataclass(slots=True)
class _Undo:
    host: Host
    transport: Transport
    fleet: Fleet
    journal: Journal | None

    def go(self, what: Undoing, allow_reboot: bool) -> RolledBack:
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
        rebooted = booting and allow_reboot
        if rebooted:
            self._reboot()
        return RolledBack(steps, rebooted)

    def _take_back(self, name: str) -> deliver.Applied | None:
        self._about_to(Phase.APPLYING)
        try:
            return deliver.rollback(self.transport, name, sink=self._note)
        except UsageError:  # the node's journal has no such run that stands
            return None

    def _reboot(self) -> None:
        boot_id = collect(self.transport).text("boot-id").strip()
        self._about_to(Phase.REBOOTING, boot_id)
        reboot(self.transport, boot_id, limit_s=REBOOT_S, note=self._note)

    def _about_to(self, phase: Phase, boot_id: str = "") -> None:
        if self.journal is not None:
            self.journal.add(Event(self.host.name, phase.value, boot_id=boot_id))

    def _note(self, text: str) -> None:
        self.fleet.access.progress.note(self.host.name, text)
