"""The machine behind a simulated BMC: power, values in force, values that wait for a boot.

Nothing runs in the background: whoever asks first settles what the time since has done.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from tests.bmc.persona import Manners, Persona
from tests.bmc.rules import Refusal, Resource, Values, applied, refusals

_BOOTS = {"On", "ForceOn", "ForceRestart", "GracefulRestart", "PowerCycle"}
_ASKS = {"GracefulRestart", "GracefulShutdown"}  # what an operating system must heed
_HALTS = {"ForceOff", "GracefulShutdown"}


class JobState(StrEnum):
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    COMPLETED_WITH_ERRORS = "CompletedWithErrors"


@dataclass(slots=True)
class Job:
    """One of Dell's: it carries pending values over a boot."""

    number: str
    state: JobState = JobState.SCHEDULED

    @property
    def open(self) -> bool:
        return self.state in {JobState.SCHEDULED, JobState.RUNNING}


class Machine:
    """State of one machine; its caller holds the lock.

    ``active`` and ``pending`` may be looked at, and set, by tests; pending has only what is
    to change.
    """

    def __init__(self, persona: Persona, manners: Manners) -> None:
        self.manners = manners
        self.registry: Resource = persona.tree.get(persona.registry, {})
        self.active: Values = dict(persona.tree[persona.bios]["Attributes"])
        held = persona.tree[persona.waiting].get("Attributes", {})
        self.pending: Values = {key: v for key, v in held.items() if self.active.get(key) != v}
        self.power = "On"
        self.boots = 0
        self.jobs: dict[str, Job] = {}
        self.last: tuple[Refusal, ...] = ()  # what the last boot did not take over
        self._ready_at = 0.0  # 0: no boot under way

    @property
    def posting(self) -> bool:
        """Whether a boot is under way: between a reset and the end of POST."""
        return self._ready_at > time.monotonic()

    def come_up(self) -> None:
        """Now, for a test: the boot under way is over, however long it was to take."""
        assert self.posting
        self._ready_at = time.monotonic()

    @property
    def scheduled(self) -> Job | None:
        return next((job for job in self.jobs.values() if job.open), None)

    def settle(self) -> None:
        """Carry out what the time since has brought: the end of a boot."""
        if self._ready_at and not self.posting:
            self._ready_at = 0.0
            self._take_over()

    def wrong(self, wanted: Values) -> tuple[Refusal, ...]:
        """What a PATCH of these would be refused for."""
        holding = self.active | (wanted if self.manners.unlocks_together else {})
        return refusals(self.registry, holding, self.active, wanted)

    def store(self, wanted: Values) -> None:
        """Let values wait; those that hold already wait no more."""
        self.pending |= wanted
        self.pending = {k: v for k, v in self.pending.items() if self.active.get(k) != v}

    def schedule(self) -> Job:
        job = Job(f"JID_{len(self.jobs) + 1:012}")
        self.jobs[job.number] = job
        return job

    def forget(self) -> None:
        """Clear what waits, with the jobs that would have carried it."""
        self.pending.clear()
        self.jobs = {number: job for number, job in self.jobs.items() if not job.open}

    def reset(self, kind: str) -> bool:
        """Carry out a reset; False where the state of the machine does not allow it."""
        off = self.power == "Off"
        if off != (kind in {"On", "ForceOn"}) and kind != "PushPowerButton":
            return False
        if kind in _ASKS and self.manners.deaf:
            return True
        if kind in _HALTS or (kind == "PushPowerButton" and not off):
            self.power, self._ready_at = "Off", 0.0
        elif kind in _BOOTS or kind == "PushPowerButton":
            self._boot()
        return True

    def _boot(self) -> None:
        self.power = "On"
        self.boots += 1
        self._ready_at = time.monotonic() + self.manners.post_s
        if job := self.scheduled:
            job.state = JobState.RUNNING

    def _take_over(self) -> None:
        """The end of POST: what waits is in force, as far as firmware goes along."""
        job = self.scheduled
        if self.manners.jobs and job is None:
            return  # values without a job wait on
        failed = bool(job) and self.manners.job_fails
        left = {name: value for name, value in self.pending.items() if name in self.manners.drops}
        taken = {} if failed else {k: v for k, v in self.pending.items() if k not in left}
        if taken:
            self.active = applied(self.registry, self.active | taken)
        text = "The property {} was not taken over."
        self.last = tuple(Refusal("PropertyNotUpdated", text.format(k), k) for k in left)
        self.pending.clear()
        if job:
            done = JobState.COMPLETED_WITH_ERRORS if left else JobState.COMPLETED
            job.state = JobState.FAILED if failed else done
