"""One host's turn in a rollout: take it out of service, bring it, give it back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from toolkit.change.rollout import Phase
from toolkit.change.rollout_past import Past
from toolkit.errors import ExitCode, Outcome, StaleError, TransportError
from toolkit.flow.access import Fleet
from toolkit.flow.ledger import Ledger
from toolkit.flow.planning import Planned, plan_node
from toolkit.flow.provision import (
    BETWEEN_LOOKS_S,
    REBOOT_S,
    SETTLE_S,
    Node,
    Options,
    Provisioned,
    as_wanted,
    within,
)
from toolkit.flow.runs import RunFolder
from toolkit.flow.witness import Nobody, Witness
from toolkit.hosts import Host
from toolkit.reach.collect import collect
from toolkit.reach.hook import run_hook
from toolkit.reach.journal import Journal
from toolkit.reach.transport import Transport
from toolkit.want import Want


@dataclass(frozen=True, slots=True)
class Hooks:
    """Commands of the site's; "" for none."""

    drain: str = ""
    undrain: str = ""
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Work:
    """What each turn of one run has in common."""

    fleet: Fleet
    want: Want
    today: date
    options: Options
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
        witness = Ledger(self.journal, host.name, past) if self.journal else Nobody()
        transport = self.fleet.connect(host)
        try:
            return _Turn(self, host, transport, witness, past).go()
        finally:
            transport.close()


@dataclass(slots=True)
class _Turn:
    work: Work
    host: Host
    transport: Transport
    witness: Witness
    past: Past

    def go(self) -> Provisioned:
        start = self._start()
        hooks, out = self.work.hooks, self.past.maybe_out
        if not start.pending and not out:
            return Provisioned(start.judged, start.judged)
        if start.pending and hooks.drain and not self.past.drained:
            self._hook(Phase.DRAINING, hooks.drain)
            self.witness.about_to(Phase.DRAINED)
            out = True
        done = self._node().bring(start)
        # Out of service until it is as wanted: jobs on a node that is not would fail. And
        # what somebody else has taken out of service is not ours to give back.
        if hooks.undrain and as_wanted(done) and (out or not hooks.drain):
            self._hook(Phase.UNDRAINING, hooks.undrain)
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
            work.want,
            work.today,
            options.shelf,
            untried=options.untried,
        )

    def _node(self) -> Node:
        work = self.work
        node = Node(
            self.host, self.transport, work.fleet, work.want, work.today, work.options, work.folder
        )
        return replace(node, witness=self.witness)

    def _hook(self, phase: Phase, command: str) -> None:
        name = "drain" if phase is Phase.DRAINING else "undrain"
        self.witness.about_to(phase)
        self._note(name)
        told = run_hook(name, command, self.host, self.work.hooks.limit_s)
        self.work.folder.keep(f"{self.host.name}.{name}.log", told)

    def _note(self, text: str) -> None:
        self.work.fleet.access.progress.note(self.host.name, text)
