"""One host's turn in a rollout: take it out of service, bring it, give it back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.check import Status
from toolkit.errors import ExitCode, Outcome, StaleError, ToolkitError, TransportError
from toolkit.groups import Wants
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.rollout.events import HostLedger, Nobody, Witness
from toolkit.rollout.hooks import Hooks, OutOfService
from toolkit.rollout.journal import Journal
from toolkit.rollout.plan.batches import Past, Phase
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.plan import Planned, plan_node
from toolkit.verbs.provision import (
    BETWEEN_LOOKS_S,
    GONE,
    REBOOT_S,
    SETTLE_S,
    NodeRounds,
    Provisioned,
    ProvisionOptions,
    as_wanted,
    within,
)


class TurnWork(Struct, frozen=True):
    """What each turn of one run has in common."""

    fleet: Fleet
    wants: Wants
    today: date
    options: ProvisionOptions
    folder: RunFolder
    planned: Mapping[str, Outcome[Planned]]  # by host: what was shown and agreed to
    journal: Journal | None = None  # None where nothing can be kept, and that was accepted
    hooks: Hooks = field(default_factory=Hooks)
    past: Mapping[str, Past] = field(default_factory=dict)

    def take_turn(self, host: Host) -> Provisioned:
        """The whole turn of one host.

        :raises ToolkitError: what stood in the way; the journal has how far it got.
        """
        past = self.past.get(host.name, Past())
        witness = HostLedger(self.journal, host.name, past) if self.journal else Nobody()
        transport = self.fleet.connect(host)
        try:
            return _Turn(self, host, transport, witness, past).go()
        finally:
            transport.close()


class _Turn(Struct):
    work: TurnWork
    host: Host
    transport: Transport
    witness: Witness
    past: Past

    def go(self) -> Provisioned:
        start = self._start()
        hooks = self.work.hooks
        out = self.past.maybe_out or hooks.has_out(self.host)
        if not start.pending and not out:
            return Provisioned(start.judged, start.judged)
        # A scheduler knows what it did, and others may have been there since: it is asked again.
        if start.pending and hooks.takes_out and (hooks.scheduler or not self.past.drained):
            self._keep("drain", self._service.take())
            out = True
        try:
            done = self._node().bring(start)
        except ToolkitError as why:
            self._stay_out(str(why), out=out)
            raise
        # Out of service until it is as wanted: jobs on a node that is not would fail. And
        # what somebody else has taken out of service is not ours to give back.
        if not as_wanted(done):
            failed = [each.check.id for each in done.after.whole.having(Status.FAIL)]
            unknown = [each.check.id for each in done.after.whole.having(Status.UNKNOWN)]
            said = self._stay_out(", ".join(failed or unknown) or GONE, out=out)
            return replace(done, service=said)
        if hooks.gives_back and (out or not hooks.takes_out):
            done = replace(done, service=self._give_back())
        return done

    def _start(self) -> Planned:
        """What it was planned for; a host that was begun before is looked at first."""
        agreed = self.work.planned[self.host.name]
        if not self.past.begun:
            return agreed.get()
        now = self._settled(self._found_again())
        if agreed.value is not None and not within(now.plan, agreed.value.plan):
            raise StaleError(
                f"{self.host.name}: more is to be done than when the plan was made",
                hint="nothing was touched; resume again, and look at the plan",
            )
        return now

    def _found_again(self) -> Planned:
        """Look; a node that may be booting since a dead controller asked is waited for."""
        end = time.monotonic() + (REBOOT_S if self.past.may_be_booting else 0.0)
        while True:
            try:
                return self._look()
            except TransportError:
                self.transport.close()
                if time.monotonic() >= end:
                    raise
                time.sleep(BETWEEN_LOOKS_S)

    def _settled(self, now: Planned) -> Planned:
        """After a boot nobody saw, GPUs and ports get the time to come up that they always get."""
        end = time.monotonic() + (SETTLE_S if self.past.booted(now.boot_id) else 0.0)
        while now.judged.exit_code is not ExitCode.OK and time.monotonic() < end:
            self._note("waiting for what its boot brings")
            time.sleep(BETWEEN_LOOKS_S)
            now = self._look()
        return now

    def _look(self) -> Planned:
        self.witness.about_to(Phase.LOOKING)
        self._note("looking first: an earlier controller was here")
        evidence = collect(self.transport)
        work = self.work
        work.folder.keep_evidence(self.host.name, evidence, "again")
        options = work.options
        return plan_node(
            self.host.name,
            evidence,
            work.wants.of(self.host.name),
            work.today,
            options.shelf,
            untried=options.untried,
        )

    def _node(self) -> NodeRounds:
        work = self.work
        want = work.wants.of(self.host.name)
        node = NodeRounds(
            self.host, self.transport, work.fleet, want, work.today, work.options, work.folder
        )
        return replace(node, witness=self.witness)

    def _give_back(self) -> str:
        """Why it stays out of service; "" where it does not."""
        told, out = self._service.give_back()
        self._keep("undrain", told)
        return out

    def _stay_out(self, why: str, *, out: bool) -> str:
        return self._service.stay(why) if out else ""

    @property
    def _service(self) -> OutOfService:
        return OutOfService(self.host, self.transport, self.work.hooks, self.witness, self._note)

    def _keep(self, name: str, told: str) -> None:
        self.work.folder.keep(f"{self.host.name}.{name}.log", told)

    def _note(self, text: str) -> None:
        self.work.fleet.access.progress.note(self.host.name, text)
