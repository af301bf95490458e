"""BIOS: have a BMC reset its machine, not under a job and no harder than agreed; watch it start.

What is pending in a BIOS takes effect at the next start, whoever asks for that. A graceful reset
lets the system end by itself; one that does not heed it is reset hard only where that was said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct

from toolkit.errors import ApplyError, BmcError, BmcRefused, BmcSilent, TransportError, UsageError
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan import Edit
from toolkit.features.bios.plan_reading import BiosReading
from toolkit.features.bios.run_look import BmcLine, LoginRefused
from toolkit.node.deliver import release, restart
from toolkit.node.reboot import boot_id_of
from toolkit.redfish.client import Answer, JobState
from toolkit.ssh.transport import Transport
from toolkit.verbs.reading import InUse, who_works

GRACEFUL, SHUTDOWN, ON = "GracefulRestart", "GracefulShutdown", "On"
HARD = ("ForceRestart", "PowerCycle", "FullPowerCycle")  # the first that is offered


class Consent(Struct, frozen=True):
    """What the operator allows, and how long anything may take, in seconds."""

    reboot: bool = False
    over_jobs: bool = False  # also where a job is at work, or nobody can tell
    force: bool = False  # a hard reset where a graceful one is not offered, or not heeded
    lock_s: int = 60  # for another run on the same node
    graceful_s: float = 300.0  # until a graceful reset must have shown
    boot_s: float = 1200.0  # from the reset until all is in force
    settle_s: float = 90.0  # from the system's first answer until what is not in force is missed
    poll_s: float = 5.0


class NotHeeded(ApplyError):
    """The machine did not start again; what is pending stays pending."""


class Reset(Struct):
    """One machine's reset. ``node`` answers by SSH, or is None where it does not."""

    name: str
    line: BmcLine
    consent: Consent
    node: Transport | None
    say: Callable[[str], None]
    before_reset: Callable[[str], None]  # told the boot id that is to end, before it is ended
    boot_id: str = ""  # "" where SSH does not answer
    kind: str = ""  # what was sent last

    def refused(self) -> str:
        """Why it may not be reset now, as a clause; "" where it may."""
        if self.line.ask(lambda bmc: bmc.power()) == "Off":
            return ""
        if self.node is None:
            why = "it does not answer by SSH, so nobody can tell whether a job is at work"
        else:
            try:
                why = who_works(self.node)
            except TransportError as error:
                why = f"whether a job is at work cannot be asked ({error})"
        return "" if self.consent.over_jobs else why

    def begin(self) -> None:
        """Send the reset.

        :raises InUse: a job is at work.
        :raises LockedError: another run is at work on the node.
        :raises ApplyError: the BMC offers none that was agreed to.
        :raises BmcError: it cannot be asked.
        """
        if why := self.refused():
            raise InUse(
                f"{self.name}: not reset: {why}",
                hint="the settings are pending; drain it, or --over-jobs",
            )
        off = self.line.ask(lambda bmc: bmc.power()) == "Off"
        kind = ON if off else self._gentlest()
        if self.node is not None and not off:
            self.boot_id = boot_id_of(self.node)
        self.before_reset(self.boot_id)
        if self.node is not None and self.boot_id:
            wait_s = self.consent.lock_s
            restart(self.node, self.boot_id, wait_s=wait_s, by_itself=False)
            self.node.close()
        try:
            self._send(kind)
        except BaseException:
            self._let_go()
            raise

    def harder(self) -> None:
        """A graceful reset was not heeded: a hard one where that was agreed to.

        :raises NotHeeded: it was not.
        """
        kind = self._hard() if self.consent.force else ""
        if not kind or self.kind == kind:
            self._let_go()
            raise NotHeeded(
                f"{self.name}: {self.kind} was accepted {self.consent.graceful_s:.0f} s ago, "
                "and the machine has not started again",
                hint="the settings are pending; reboot it by hand, or allow --force-reset",
            )
        self._send(kind)

    def shut_down(self) -> bool:
        """Whether it was only shut down so far; then it is switched on.

        :raises BmcError: it cannot be asked.
        """
        if self.kind != SHUTDOWN or self.line.ask(lambda bmc: bmc.power()) != "Off":
            return False
        self._send(ON)
        return True

    def back(self) -> bool:
        """Whether the system answers in another boot than before; False where it cannot tell."""
        if self.node is None or not self.boot_id:
            return False
        try:
            now = boot_id_of(self.node)
        except TransportError:
            self.node.close()
            return False
        return now not in {"", self.boot_id}

    def _gentlest(self) -> str:
        offered = self.line.ask(lambda bmc: bmc.resets())
        for kind in (GRACEFUL, SHUTDOWN):
            if kind in offered or (kind == GRACEFUL and not offered):
                return kind
        hard = self._hard()
        if not (hard and self.consent.force):
            raise ApplyError(
                f"{self.name}: its BMC offers no graceful reset: {', '.join(offered)}",
                hint="the settings are pending; reboot it by hand, or allow --force-reset",
            )
        return hard

    def _hard(self) -> str:
        offered = self.line.ask(lambda bmc: bmc.resets())
        return next((kind for kind in HARD if kind in offered), "")

    def _send(self, kind: str) -> None:
        self.kind = kind
        self.say(f"reset: {kind}")
        try:
            self.line.ask(lambda bmc: bmc.reset(kind))
        except BmcSilent:  # whoever watches it sees whether it starts again
            self.say("it did not answer; looking whether it starts again")
        except (BmcRefused, UsageError) as why:
            raise ApplyError(
                f"{self.name}: its BMC refuses to reset it: {why}",
                hint="the settings are pending; reboot it by hand",
            ) from why

    def _let_go(self) -> None:
        if self.node is not None and self.boot_id:
            with suppress(TransportError):
                release(self.node)


def wait_until(done: Callable[[], bool], limit_s: float, poll_s: float) -> bool:
    """Ask until it is so, or the time is over: whether it is so.

    A BMC that does not answer meanwhile is asked again: they vanish at starts.
    """
    end = time.monotonic() + limit_s
    while True:
        try:
            if done():
                return True
        except LoginRefused:
            raise
        except BmcError:
            if time.monotonic() >= end:
                raise
        if time.monotonic() >= end:
            return False
        time.sleep(poll_s)


class ResetWatch(Struct):
    """What shows that a machine starts again, and that its start is over."""

    name: str
    line: BmcLine
    reset: Reset
    consent: Consent
    due: Mapping[str, Edit]  # what is to be in force then
    look: Callable[[], BiosReading]  # the values of now
    answer: Answer | None  # of the latest change; None for what was pending before
    say: Callable[[str], None]
    back_at: float = 0.0  # when it showed that the start is over

    def stirred(self) -> bool:
        """Whether the machine has begun to start again: power, BMC, job, values or boot id tell."""
        if self.reset.back():
            return True
        try:
            now = self.look()
            power = self.line.ask(lambda bmc: bmc.power())
            self.reset.shut_down()
        except (BmcRefused, LoginRefused):
            raise
        except BmcError:  # BMCs vanish while their machine starts
            return True
        return power not in {"On", ""} or self._changed(now) or self._job() is JobState.RUNNING

    def over(self) -> bool:
        """Whether all is in force, or will not be.

        :raises ApplyError: the BMC says that its job failed.
        """
        self.reset.shut_down()
        state = self._job()
        now = self.look()
        if all(in_force(now, each) for each in self.due.values()):
            return self.answers()
        if state is JobState.RUNNING:
            return False
        # What is pending may be gone as a start begins, minutes before the values are in force.
        told = self._blind and (self._changed(now) or state is JobState.DONE)
        if told or self.reset.back():
            self.back_at = self.back_at or time.monotonic()
        settle_s = self.consent.settle_s
        return bool(self.back_at) and time.monotonic() - self.back_at > settle_s

    def answers(self) -> bool:
        """A node that answered by SSH before is waited for: it is given back to jobs next."""
        return self._blind or self.reset.back()

    @property
    def _blind(self) -> bool:
        """Whether the system cannot tell: it did not answer before either."""
        return self.reset.node is None or not self.reset.boot_id

    def _changed(self, now: BiosReading) -> bool:
        return not any(pending(now, each) for each in self.due.values())

    def _job(self) -> JobState:
        answer = self.answer
        if answer is None:
            return JobState.NONE
        found = self.line.ask(lambda bmc: bmc.job(answer))
        if found.state is JobState.FAILED:
            raise ApplyError(
                f"{self.name}: its BMC failed to apply the settings: {found.text}",
                hint="what holds now: bios --hosts " + self.name,
            )
        if found.text and found.percent >= 0:
            self.say(f"{found.text} {found.percent} %"[:80])
        return found.state


def in_force(now: BiosReading, edit: Edit) -> bool:
    """Whether it holds since the last start."""
    found = now.bios.attributes.get(edit.name)
    return found is not None and words_of(found.current) == words_of(edit.after)


def pending(now: BiosReading, edit: Edit) -> bool:
    """Whether the next start makes it so."""
    found = now.bios.attributes.get(edit.name)
    return found is not None and found.changing and words_of(found.pending) == words_of(edit.after)


def coming(now: BiosReading, edit: Edit) -> bool:
    """Either."""
    return in_force(now, edit) or pending(now, edit)
