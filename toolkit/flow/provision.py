"""Bring nodes to the wanted state: plan, apply, reboot where allowed, look again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from toolkit.change.bundle import script
from toolkit.change.plan import Plan
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome
from toolkit.flow.access import Fleet
from toolkit.flow.each import on_each
from toolkit.flow.planning import Planned, plan_node
from toolkit.flow.runs import RunFolder
from toolkit.hosts import Host
from toolkit.reach import deliver
from toolkit.reach.collect import collect
from toolkit.reach.reboot import reboot
from toolkit.reach.transport import Transport
from toolkit.want import Want

ROUNDS = 3  # a plan may show only after a reboot; one that never empties is a bug, not a loop
APPLY_S = 3600.0  # a DKMS build of the driver takes minutes on a slow node
REBOOT_S = 900.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator allows."""

    reboot: bool = False
    lock_s: int = 60  # how long to wait for another run on the same node


@dataclass(frozen=True, slots=True)
class Provisioned:
    """One node's way from what it was to what it is."""

    before: Judged
    after: Judged
    plans: tuple[Plan, ...] = ()  # those that were carried out, in order
    left: Plan | None = None  # what is still to be done: a reboot that was not allowed
    steps: tuple[str, ...] = field(default=())
    rebooted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """What the checks say at the end; a pending change where they are content."""
        if self.after.exit_code is not ExitCode.OK:
            return self.after.exit_code
        return ExitCode.PENDING if self.left is not None else ExitCode.OK

    @property
    def reboot_owed(self) -> bool:
        return self.left is not None and self.left.needs_reboot


def provision(
    fleet: Fleet,
    planned: Sequence[Outcome[Planned]],
    want: Want,
    today: date,
    *,
    options: Options,
    folder: RunFolder,
) -> list[Outcome[Provisioned]]:
    """Carry out the plans; hosts without one, or out of reach, keep what they had.

    :param planned: from ``plan_all``; the node refuses a plan made for another state.
    :returns: one outcome a host of ``planned``, in the same order.
    """
    by_name = {outcome.host: outcome for outcome in planned}
    todo = [h for h in fleet.hosts if (o := by_name[h.name]).value is not None and o.value.pending]

    def work(host: Host, transport: Transport) -> Provisioned:
        start = by_name[host.name].get()
        return _Node(host, transport, fleet, want, today, options, folder).bring(start)

    done = {
        each.host: each
        for each in on_each(fleet, "provisioning", work, hosts=todo, failed=_unhealthy)
    }
    return [done.get(outcome.host) or _untouched(outcome) for outcome in planned]


def _unhealthy(outcome: Outcome[Provisioned]) -> bool:
    """For ``--max-fail``: an error, or a node that is worse off than wanted."""
    return outcome.value is None or outcome.value.after.exit_code is not ExitCode.OK


def _untouched(outcome: Outcome[Planned]) -> Outcome[Provisioned]:
    if outcome.value is None:
        return Outcome(outcome.host, error=outcome.error)
    judged = outcome.value.judged
    return Outcome(outcome.host, Provisioned(judged, judged))


@dataclass(slots=True)
class _Node:
    """The rounds on one node: apply, reboot, look again, until the plan is empty."""

    host: Host
    transport: Transport
    fleet: Fleet
    want: Want
    today: date
    options: Options
    folder: RunFolder

    def bring(self, start: Planned) -> Provisioned:
        state = Provisioned(start.judged, start.judged)
        now = start
        for _ in range(ROUNDS):
            if not now.pending or now.plan == state.left:
                break
            state = self._apply(now, state)
            owed = now.plan.needs_reboot
            if owed and not self.options.reboot:
                now = self._look()
                return replace(state, after=now.judged, left=now.plan if now.pending else None)
            if owed:
                reboot(self.transport, now.boot_id, limit_s=REBOOT_S, note=self._note)
                state = replace(state, rebooted=True)
            now = self._look()
            state = replace(state, after=now.judged)
        return replace(state, left=now.plan if now.pending else None)

    def _apply(self, now: Planned, state: Provisioned) -> Provisioned:
        if now.bundle is None:
            return state
        self._note("applying")
        applied = deliver.apply(
            self.transport,
            script(now.bundle, wait_s=self.options.lock_s),
            limit_s=APPLY_S,
            sink=self._log,
        )
        return replace(
            state,
            plans=(*state.plans, now.plan),
            steps=(*state.steps, *map(str, applied.steps)),
        )

    def _look(self) -> Planned:
        self._note("looking again")
        evidence = collect(self.transport)
        self.folder.keep_evidence(self.host.name, evidence, "after")
        return plan_node(self.host.name, evidence, self.want, self.today)

    def _note(self, text: str) -> None:
        self.fleet.access.progress.note(self.host.name, text)

    def _log(self, line: str) -> None:
        """A frame's header is a step begun; the rest is a build log, a line at a time."""
        self._note(line.lstrip("=| ")[:80])
