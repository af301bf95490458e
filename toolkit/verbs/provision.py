"""Bring nodes to the wanted state: plan, apply, reboot where allowed, look again."""

from __future__ import annotations

import time
from datetime import date

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.built.delivery_cache import Shelf
from toolkit.checks.check import Status, Tense
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, StaleError, TransportError
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.node.collect import collect
from toolkit.node.deliver import heard
from toolkit.node.reboot import note, reboot
from toolkit.plan.bundle import script
from toolkit.plan.plan import Plan
from toolkit.rollout.events import Nobody, Witness
from toolkit.rollout.plan.batches import Phase
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.plan import Planned, plan_node, sealed
from toolkit.verbs.reading import who_works
from toolkit.verbs.trial import Hands, attempt
from toolkit.want import Want

ROUNDS = 6  # a plan may show only after a reboot; one that never empties is a bug, not a loop
APPLY_S = 3600.0  # a DKMS build of the driver takes minutes on a slow node
REBOOT_S = 900.0
SETTLE_S = 180.0  # from the first answer of SSH to GPUs, ports and services in place
GONE = "no GPU is on its bus any more"
LOOKS, BETWEEN_LOOKS_S = 8, 2.0  # after another run was found to be at work
FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN


class ProvisionOptions(Struct, frozen=True):
    """What the operator allows."""

    reboot: bool = False
    over_jobs: bool = False  # also where a job has a GPU or an HCA open
    lock_s: int = 60  # how long to wait for another run on the same node
    shelf: Shelf | None = None  # modules that were built elsewhere, and may be delivered
    audit: str = ""  # who has it done, and why: for the node's own journal
    untried: bool = False  # a changed command line becomes the default without a trial


class Provisioned(Struct, frozen=True):
    """One node's way from what it was to what it is."""

    before: Judged
    after: Judged
    plans: tuple[Plan, ...] = ()  # those that were carried out, in order
    left: Plan | None = None  # what is still to be done: a reboot that was not allowed
    steps: tuple[str, ...] = field(default=())
    pruned: tuple[str, ...] = ()  # what older runs on the node keep no longer
    rebooted: bool = False
    busy: str = ""  # whose job kept it from being rebooted
    service: str = ""  # how a scheduler has it, where that is not in service

    @property
    def exit_code(self) -> ExitCode:
        """What the checks say at the end; a pending change where they are content."""
        if self.after.exit_code is not ExitCode.OK:
            return self.after.exit_code
        if harm(self):
            return ExitCode.FAILED
        return ExitCode.PENDING if self.left is not None else ExitCode.OK

    @property
    def lost_gpus(self) -> bool:
        """It had GPUs, and has none now: then no check applies to it, and none fails."""
        return self.before.gpus and not self.after.gpus

    @property
    def reboot_owed(self) -> bool:
        return self.left is not None and self.left.needs_reboot


def within(plan: Plan, agreed: Plan) -> bool:
    """Whether a plan does nothing that the agreed one does not."""
    paths = {change.path for change in agreed.changes}
    return {change.path for change in plan.changes} <= paths and set(plan.triggers) <= set(
        agreed.triggers
    )


def _worse(found: Planned, start: Planned) -> set[str]:
    """What fails and did not, and what is unknown and was known; cut evidence counts too.

    A trial's next boot is the old entry, as it should be: checks of that boot say nothing of it.
    """
    now, then = found.judged.whole, start.judged.whole
    failed, unknown = _ids(now, FAIL), _ids(now, UNKNOWN)
    were_unknown = _ids(then, UNKNOWN)
    worse = (failed - _ids(then, FAIL) - were_unknown) | (unknown - were_unknown)
    if found.lines.trial:
        worse -= {v.check.id for v in now.verdicts if v.check.tense is Tense.AT_BOOT}
    worse |= {GONE} if then.gpus and not now.gpus else set()
    return worse if now.complete else worse | {"the end of the evidence"}


def _ids(judged: Judged, status: Status) -> set[str]:
    return {verdict.check.id for verdict in judged.having(status)}


def as_wanted(done: Provisioned) -> bool:
    """Every check is content at the end, those beside the named ones too: it may serve."""
    return done.after.whole.exit_code is ExitCode.OK and not done.lost_gpus


def done_well(outcome: Outcome[Provisioned]) -> bool:
    """For canary and limits: one with an error has not, nor one that was kept from serving."""
    done = outcome.value
    if done is None or (done.service and not as_wanted(done)):
        return False
    return done.after.exit_code is ExitCode.OK and not harm(done)


def harm(done: Provisioned) -> str:
    """What fails on the node and did not before, in a clause; "" where nothing does."""
    if done.lost_gpus:
        return GONE
    then = done.before.whole
    worse = _ids(done.after.whole, FAIL) - _ids(then, FAIL) - _ids(then, UNKNOWN)
    return f"worse than before: {', '.join(sorted(worse))}" if worse else ""


def untouched(outcome: Outcome[Planned]) -> Outcome[Provisioned]:
    """What came of a host for which nothing was to be done, or could be."""
    if outcome.value is None:
        return Outcome(outcome.host, error=outcome.error)
    judged = outcome.value.judged
    return Outcome(outcome.host, Provisioned(judged, judged))


class NodeRounds(Struct):
    """The rounds on one node: apply, reboot, look again, until the plan is empty."""

    host: Host
    transport: Transport
    fleet: Fleet
    want: Want
    today: date
    options: ProvisionOptions
    folder: RunFolder
    witness: Witness = field(default_factory=Nobody)
    busy: str = ""

    def bring(self, start: Planned) -> Provisioned:
        """Carry out the plan, and those that follow from it.

        :raises ToolkitError: what stood in the way; what the witness heard last was tried.
        """
        state = Provisioned(start.judged, start.judged)
        now = start
        for _ in range(ROUNDS):
            if not now.pending or now.plan in state.plans:
                break  # what was carried out once and is still to be done will stay so
            try:
                if now.plan.trial is not None and self._may_reboot(now):
                    now = attempt(self._hands(start), now, now.plan.trial)
                    state = replace(state, after=now.judged, rebooted=True)
                    continue
                state = self._apply(now, state)
            except StaleError:
                now = self._look_after_others(start)
                state = replace(state, after=now.judged)
                continue
            owed = now.plan.needs_reboot
            # What was not tried just now is not asked for again: a job may have ended meanwhile,
            # and a boot without the trial brings nothing.
            if owed and (now.plan.trial is not None or not self._may_reboot(now)):
                now = self._look()
                state = replace(state, after=now.judged, busy=self.busy)
                return replace(state, left=now.plan if now.pending else None)
            if owed:
                self.witness.about_to(Phase.REBOOTING, now.boot_id)
                state = self._reboot(now, state)
            now = self._look_settled(start) if owed else self._look()
            state = replace(state, after=now.judged)
        return replace(state, left=now.plan if now.pending else None)

    def _reboot(self, now: Planned, state: Provisioned) -> Provisioned:
        wait_s = self.options.lock_s
        reboot(self.transport, now.boot_id, wait_s=wait_s, limit_s=REBOOT_S, note=self._note)
        return replace(state, rebooted=True)

    def _hands(self, start: Planned) -> Hands:
        return Hands(
            name=self.host.name,
            transport=self.transport,
            witness=self.witness,
            lock_s=self.options.lock_s,
            reboot_s=REBOOT_S,
            audit=self.options.audit,
            say=self._note,
            log=self._log,
            look=self._look,
            settle=lambda: self._look_settled(start),
            busy=lambda: "" if self.options.over_jobs else who_works(self.transport),
            worse=lambda now: _worse(now, start),
        )

    def _may_reboot(self, now: Planned) -> bool:
        """Whether the operator allows it, it was not done already, and nobody is at work.

        What was tried already is known to the node itself, whoever booted it since.
        """
        if not self.options.reboot:
            return False
        if now.plan.trial is None and self.witness.booted(now.boot_id):
            return False
        self.busy = "" if self.options.over_jobs else who_works(self.transport)
        return not self.busy

    def _apply(self, now: Planned, state: Provisioned) -> Provisioned:
        if now.bundle is None:
            return state
        self.witness.about_to(Phase.APPLYING, now.boot_id)
        self._note("applying")
        applied = deliver.apply(
            self.transport,
            script(sealed(now.bundle), wait_s=self.options.lock_s),
            limit_s=APPLY_S,
            sink=self._log,
            audit=self.options.audit,
        )
        if now.lines.trial:  # of a run that died; what it tried is the default now
            note(self.transport, now.lines.trial, "")
        return replace(
            state,
            plans=(*state.plans, now.plan),
            steps=(*state.steps, *map(str, applied.steps)),
            pruned=(*state.pruned, *applied.pruned),
        )

    def _look_settled(self, start: Planned) -> Planned:
        """Look until the node is no worse than before, or has had time enough.

        After a boot SSH answers before GPUs are initialised and ports are up: what passed
        before and does not now is given time, what failed before is not waited for.
        """
        end = time.monotonic() + SETTLE_S
        while True:
            now = self._look()
            worse = _worse(now, start)
            if not worse or time.monotonic() > end:
                return now
            self._note(f"waiting for {', '.join(sorted(worse))}"[:80])
            time.sleep(BETWEEN_LOOKS_S)

    def _look_after_others(self, start: Planned) -> Planned:
        """Another run has been here since the plan was made: look, and plan again.

        It may be at work still, and the node amid a boot: so look more than once.

        :raises StaleError: what is left to do is more than what was shown and agreed to.
        :raises TransportError: the node cannot be reached any more.
        """
        for look in range(LOOKS):
            try:
                now = self._look_settled(start)
                if within(now.plan, start.plan):
                    return now
            except TransportError:
                self.transport.close()
                if look == LOOKS - 1:
                    raise
            self._note("another run is at work here")
            time.sleep(BETWEEN_LOOKS_S)
        raise StaleError(
            f"{self.host.name}: another run changed the node, and more is to be done now",
            hint=f"nothing was touched; look again: plan --hosts {self.host.name}",
        )

    def _look(self) -> Planned:
        self.witness.about_to(Phase.LOOKING)
        self._note("looking again")
        evidence = collect(self.transport)
        self.folder.keep_evidence(self.host.name, evidence, "after")
        return plan_node(
            self.host.name,
            evidence,
            self.want,
            self.today,
            self.options.shelf,
            untried=self.options.untried,
        )

    def _note(self, text: str) -> None:
        self.fleet.access.progress.note(self.host.name, text)

    def _log(self, line: str) -> None:
        """Pass on what the node does: each step that ended, each line of a build's log."""
        words = line.split(" ", 3)
        if words[:3] == ["=", "run", "ok"] and len(words) == 4:
            self.witness.ran(words[3])
        elif told := heard(line):
            self._note(told)
