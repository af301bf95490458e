"""One BIOS's turn: keep what is there, send, reset where allowed, see whether it is in force."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import (
    ApplyError,
    BmcRefused,
    BmcSilent,
    Outcome,
    StaleError,
    ToolkitError,
    TransportError,
)
from toolkit.evidence import Evidence
from toolkit.features.bios.plan import Edit, names
from toolkit.features.bios.plan_reading import BiosOutcome, BiosReading, before_of
from toolkit.features.bios.run_look import BiosQuery, BmcLine, Reach, judged
from toolkit.features.bios.run_reset import Consent, Reset, ResetWatch, coming, in_force, wait_until
from toolkit.hosts.host import Host
from toolkit.redfish.client import Answer
from toolkit.redfish.registry import RegistryCache
from toolkit.rollout.events import KEPT
from toolkit.rollout.hooks import Hooks, NotTaken
from toolkit.rollout.journal import Event, Journal
from toolkit.rollout.plan.batches import Phase
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet

ROUNDS = 4  # resets that one change may take, and one for what was pending
APPLY_TIME = "OnReset"  # sent only where the BMC offers it


class BiosWork(Struct, frozen=True):
    """What each turn of one run has in common."""

    fleet: Fleet
    reach: Reach
    asking: BiosQuery
    consent: Consent
    folder: RunFolder
    looked: Mapping[str, Outcome[BiosReading]]  # by host: what was shown and agreed to
    journal: Journal  # a must: what was there is in it before anything is sent
    hooks: Hooks = field(default_factory=Hooks)

    def take_turn(self, host: Host) -> BiosOutcome:
        """The whole turn of one host.

        :raises ToolkitError: what stood in the way; the journal has how far it got.
        """
        transport = self.fleet.connect(host)
        try:
            with BmcLine(host, self.reach) as line:
                return _Turn(self, host, line, transport).go()
        finally:
            transport.close()


class _Turn(Struct):
    work: BiosWork
    host: Host
    line: BmcLine
    transport: Transport
    steps: list[str] = field(default_factory=list)
    sent: dict[str, Edit] = field(default_factory=dict)
    answer: Answer | None = None

    def go(self) -> BiosOutcome:
        agreed = self.work.looked[self.host.name].get()
        hooks = self.work.hooks
        if not agreed.plan.pending or agreed.plan.stopped:
            return BiosOutcome(agreed, agreed)
        if hooks.takes_out:
            try:
                self._hook(Phase.DRAINING)
            except NotTaken:
                self._about_to(Phase.UNTAKEN)
                raise
            self._about_to(Phase.DRAINED)
        try:
            done = self._bring(agreed)
        except ToolkitError as why:
            with suppress(ToolkitError):  # what went wrong before is what is to be told
                hooks.stay_out(self.host, str(why))
            raise
        if hooks.gives_back and done.as_agreed:
            told = self._hook(Phase.UNDRAINING)
        else:
            told = "" if done.as_agreed else hooks.stay_out(self.host, "its BIOS is not as agreed")
        return replace(done, steps=(*done.steps, *([told] if told else [])))

    def _bring(self, agreed: BiosReading) -> BiosOutcome:
        done = BiosOutcome(agreed, agreed)
        now = self._look(agreed, Evidence(), whole=True)
        for _ in range(ROUNDS):
            if now[0].plan.stopped and self.sent:
                return replace(done, after=now[0])  # what was named together goes no further
            if now[0].plan.stopped:
                first = now[0].plan.stopped[0]
                raise StaleError(
                    f"{self.host.name}: {first.wish} is not to be had any more: {first.reason}",
                    hint=f"nothing was sent; look again: bios --hosts {self.host.name}",
                )
            if not now[0].plan.within(agreed.plan):
                raise StaleError(
                    f"{self.host.name}: more is to be done than when the plan was made",
                    hint=f"nothing more was sent; look again: bios --hosts {self.host.name}",
                )
            if now[0].plan.passes and now[0].plan.passes[0]:
                self._send(now[0])
                now = self._look(agreed, now[1])
                self._taken_on(now[0])
            done = replace(done, after=now[0], steps=tuple(self.steps), sent=bool(self.sent))
            if not now[0].plan.pending:
                break
            reset = Reset(
                self.host.name, self.line, self.work.consent, self._reachable(), self._note,
                lambda boot_id: self._about_to(Phase.REBOOTING, boot_id),
            )  # fmt: skip
            allowed = self.work.consent.reboot
            if busy := reset.refused() if allowed else "resets were not allowed: --reboot":
                return replace(done, busy=busy)
            now, missed = self._restarted(reset, agreed, now)
            done = replace(done, after=now[0], steps=tuple(self.steps), resets=done.resets + 1)
            if missed:
                return replace(done, missed=missed)
        return done

    def _look(
        self, agreed: BiosReading, before: Evidence, *, whole: bool = False
    ) -> tuple[BiosReading, Evidence]:
        """:param whole: also the registry, which says anew what can be changed."""
        self._about_to(Phase.LOOKING)
        if whole:
            frames = self.line.ask(lambda bmc: bmc.read(RegistryCache()))
        else:
            frames = self.line.ask(lambda bmc: bmc.active())
        evidence = replace(before.plus(frames), complete=True)
        self.work.folder.keep_evidence(self.host.name, evidence, "bmc-after")
        found = judged(self.host.name, evidence, self.work.asking, agreed.role)
        return replace(found, remarks=agreed.remarks), evidence

    def _send(self, now: BiosReading) -> None:
        """One PATCH, with what was there on disk before it.

        :raises BmcRefused: in the BMC's words; nothing was taken on.
        """
        edits = now.plan.passes[0]
        kept = before_of(now.machine, edits, now.plan.effects)
        self.work.journal.add(
            Event(self.host.name, KEPT, detail=kept.dump()),
            Event(self.host.name, Phase.APPLYING.value),
        )
        self._note(f"sending {len(edits)} settings")
        values = {e.name: v for e in edits if isinstance(v := e.after, str | int | bool)}
        try:
            self.answer = self.line.ask(lambda bmc: bmc.change(values, APPLY_TIME))
        except BmcRefused as why:
            raise ApplyError(str(why), hint=why.hint) from why
        except BmcSilent:
            self._note("it did not answer; looking whether it was taken on")
            self.answer = None
        self.sent |= {each.name: each for each in edits}
        self.steps += [f"sent {each}" for each in edits]

    def _taken_on(self, now: BiosReading) -> None:
        """What was sent is pending, or in force, as the BMC itself tells."""
        lost = [each for each in self.sent.values() if not coming(now, each)]
        if lost and not (self.answer and self.answer.job):
            raise ApplyError(
                f"{self.host.name}: was sent, and is not pending: {names(lost)}",
                hint="the BMC took it on in words alone; look at its own log",
            )

    def _reachable(self) -> Transport | None:
        try:
            self.transport.run("#!/bin/sh\n:\n", limit_s=30)
        except TransportError:
            self.transport.close()
            return None
        return self.transport

    def _restarted(
        self, reset: Reset, agreed: BiosReading, before: tuple[BiosReading, Evidence]
    ) -> tuple[tuple[BiosReading, Evidence], tuple[Edit, ...]]:
        """Reset, wait, read again: as it is then, and what is not in force although it should be.

        :raises NotHeeded, ApplyError, BmcError: it did not come to that.
        """
        due = {**self.sent, **{each.name: each for each in before[0].plan.owed}}
        reset.begin()

        def look() -> BiosReading:
            evidence = before[1].plus(self.line.ask(lambda bmc: bmc.active()))
            return judged(self.host.name, evidence, self.work.asking, before[0].role)

        watch = ResetWatch(
            self.host.name, self.line, reset, self.work.consent, due, look, self.answer, self._note
        )
        consent = self.work.consent
        if not wait_until(watch.stirred, consent.graceful_s, consent.poll_s):
            reset.harder()
        through = wait_until(watch.over, consent.boot_s, consent.poll_s)
        now = self._look(agreed, before[1], whole=True)
        missed = tuple(each for each in due.values() if not in_force(now[0], each))
        if not (through or missed or watch.answers()):
            # A BMC is content long before a system is: firmware alone does not run jobs.
            raise TransportError(
                f"{self.host.name}: was reset, what was sent is in force, and it has not answered "
                f"by SSH within {consent.boot_s:.0f} s since",
                hint=f"look at its console; back to what was there: bios --undo "
                f"{self.work.folder.path.name} --hosts {self.host.name} --apply --reboot "
                "--over-jobs",
            )
        told = f"; not in force: {names(missed)}" if missed else ""
        self.steps.append(f"reset by {reset.kind}{told}")
        return now, missed

    def _about_to(self, phase: Phase, boot_id: str = "") -> None:
        self.work.journal.add(Event(self.host.name, phase.value, boot_id=boot_id))

    def _hook(self, phase: Phase) -> str:
        """Why it stays out of service where it was to be given back; "" otherwise."""
        name = "drain" if phase is Phase.DRAINING else "undrain"
        self._about_to(phase)
        self._note(name)
        if phase is Phase.DRAINING:
            told, out = self.work.hooks.take_out(self.host, self._note), ""
        else:
            told, out = self.work.hooks.give_back(self.host, self._note)
        self.work.folder.keep(f"{self.host.name}.{name}.log", told)
        return out

    def _note(self, text: str) -> None:
        self.work.fleet.access.progress.note(self.host.name, text)
