"""What shows that a machine starts again, and that its start is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolkit.errors import ApplyError, BmcError, BmcRefused
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan.plan import Edit
from toolkit.features.bios.plan.result import Looked
from toolkit.features.bios.run.line import Line, LoginRefused
from toolkit.features.bios.run.reset import Consent, Reset
from toolkit.redfish.client import Answer, JobState


@dataclass(slots=True)
class Watch:
    """What shows that a machine starts again, and that its start is over."""

    name: str
    line: Line
    reset: Reset
    consent: Consent
    due: Mapping[str, Edit]  # what is to be in force then
    look: Callable[[], Looked]  # the values of now
    answer: Answer | None  # of the latest change; None for what was pending before
    say: Callable[[str], None]
    back_at: float = field(default=0.0, init=False)  # when it showed that the start is over

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

    def _changed(self, now: Looked) -> bool:
        """Whether what was pending is so no longer."""
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


def in_force(now: Looked, edit: Edit) -> bool:
    """Whether it holds since the last start."""
    found = now.bios.attributes.get(edit.name)
    return found is not None and words_of(found.current) == words_of(edit.after)


def pending(now: Looked, edit: Edit) -> bool:
    """Whether the next start makes it so."""
    found = now.bios.attributes.get(edit.name)
    return found is not None and found.changing and words_of(found.pending) == words_of(edit.after)


def coming(now: Looked, edit: Edit) -> bool:
    """Either."""
    return in_force(now, edit) or pending(now, edit)
