"""Out of service and back by Slurm, and reboots that it knows of.

Three things are never done: a drain of others' is not replaced, not taken away, and not
overlooked when it came while ours was on.
"""

from __future__ import annotations

import time

from msgspec import Struct

from toolkit.errors import ApplyError, TransportError
from toolkit.facts.slurm import JOB_FORMAT, SlurmNode, parse_jobs
from toolkit.features.slurm.plan import (
    BOOTING,
    FAILED,
    IN_HAND,
    MUTE,
    SlurmStand,
    drained_by_us,
    left_alone,
    reason,
    stand,
    unsure,
    who_runs,
)
from toolkit.features.slurm.run.nodes import Site, SlurmHeld, node_name
from toolkit.features.slurm.run.srun import tidy
from toolkit.hosts.host import Host
from toolkit.rollout.hooks import NotTaken, Say

JOBS_S = 3600.0  # how long a node's jobs are waited for
_BACK_S = 300.0  # from SSH's first answer until slurmd has registered: services may hang before it
_ANSWER_S = 30.0  # from a resume until slurmd has answered slurmctld's ping
_POLL_S, _LONGEST_S = 0.5, 10.0


class JobsRemain(ApplyError, NotTaken):
    """The node's jobs did not end in time: it was not touched, and serves as it did."""


class Others(SlurmHeld, NotTaken):
    """Somebody else has the node, or gave it back, before it was touched."""


class Mute(TransportError):
    """The node is as wanted, and Slurm hears nothing of it: it stays drained, in our name."""


class SlurmService(Struct, frozen=True):
    """Drains and resumes for one run."""

    site: Site
    run: str
    jobs_s: float = JOBS_S

    def has_out(self, host: Host) -> bool:
        """See ``Drainer``."""
        return stand(self.site.glance(node_name(host)), self.run) is SlurmStand.OURS

    def take_out(self, host: Host, say: Say) -> str:
        """See ``Drainer``."""
        name = node_name(host)
        node = self.site.settled(self.site.look(name))
        refuse(host, node, self.run)
        self._let_go(name)
        mine = drained_by_us(node.reason)
        if not node.drained or mine is None or mine.run != self.run:
            self.site.commands.drain(name, reason(self.run, IN_HAND))
        since = time.monotonic()
        try:
            self._wait(host, since, say)
        except JobsRemain:
            # Nothing was changed, so nothing keeps it from serving.
            self._resume(name)
            raise
        return f"drained: {reason(self.run, IN_HAND)}\n"

    def _wait(self, host: Host, since: float, say: Say) -> None:
        """Until no job runs on the drained node."""
        name, pause, said = node_name(host), _POLL_S, ""
        while True:
            node = self.site.glance(name, since)
            if stand(node, self.run) is not SlurmStand.OURS:
                raise Others(
                    f"{host.name}: while its jobs were waited for, others saw to it: "
                    f"{left_alone(node, self.run) or 'it was given back to service'}",
                    hint="nothing was touched; run again when they are through",
                )
            if not node.working:
                return
            jobs = who_runs(parse_jobs(self.site.commands.jobs(JOB_FORMAT, node=name)))
            if time.monotonic() - since > self.jobs_s:
                raise JobsRemain(
                    f"{host.name}: after {self.jobs_s:g} s {jobs} still runs",
                    hint="nothing was touched, and it was given back; wait longer: --job-timeout",
                )
            if jobs != said:
                say(f"drained, waiting for {jobs}")
                said = jobs
            time.sleep(min(pause, max(0.0, since + self.jobs_s - time.monotonic()) + _POLL_S))
            pause = min(pause * 1.5, _LONGEST_S)

    def give_back(self, host: Host, say: Say) -> str:
        """See ``Drainer``."""
        name = node_name(host)
        node = self._registered(host, say)
        self._let_go(name)
        if self._asleep(node):
            booted = node.states & BOOTING
            why = "slurmd has not come back after the boot" if booted else "slurmd does not answer"
            raise Mute(
                f"{host.name}: as wanted, and not back in service: {self.stay_out(host, why)}",
                hint="once slurmd runs there: run again, and it is given back",
            )
        return self._resume(name)

    def _registered(self, host: Host, say: Say) -> SlurmNode:
        """The node, once slurmd has told slurmctld of its boot, and answers it.

        Resumed before, it would be set down for having booted unexpectedly.
        """
        end, name = time.monotonic() + _BACK_S, node_name(host)
        while True:
            node = self.site.look(name)
            if not self._asleep(node) or time.monotonic() > end:
                return node
            say("waiting for slurmd to register")
            time.sleep(1.0)

    def _asleep(self, node: SlurmNode) -> bool:
        """Whether it is on its way through a boot, or ours and not heard of."""
        mute = MUTE in node.states and stand(node, self.run) is SlurmStand.OURS
        return mute or bool(node.states & BOOTING)

    def _let_go(self, name: str) -> None:
        """Of a job and a reservation of ours, also those of a controller that died."""
        if self.site.carries:
            tidy(self.site, self.run, name)

    def _resume(self, name: str) -> str:
        """Resume what is ours still; a clause where it does not serve then: who has it.

        Between the look and the word lies a moment, no more. Then slurmctld asks slurmd; until
        that has answered the node takes no job, and its share of a budget is not free.
        """
        node = self.site.look(name)
        if not node.drained or stand(node, self.run) is not SlurmStand.OURS:
            others = left_alone(node, self.run)
            return f"left out of service: {others}" if others else ""
        self.site.commands.resume(name)
        if unsure(self.site.settled(self.site.look(name), _ANSWER_S)):
            return f"resumed, and slurmd has not answered within {_ANSWER_S:g} s"
        return ""

    def stay_out(self, host: Host, why: str) -> str:
        """See ``Drainer``."""
        name = node_name(host)
        node = self.site.look(name)
        self._let_go(name)
        if stand(node, self.run) is SlurmStand.OURS:
            self.site.commands.drain(name, reason(self.run, f"{FAILED}: {why}"))
            return f"stays drained: {reason(self.run, f'{FAILED}: {why}')}"
        others = left_alone(node, self.run)
        return f"left out of service: {others}" if others else "others gave it back to service"


def refuse_serving(host: Host, node: SlurmNode) -> None:
    """For what changes nodes and drains none: only where somebody has drained it, and it is idle.

    :raises Others: jobs run on it, or may begin.
    """
    if node.drained and not node.working:
        return
    raise Others(
        f"{host.name}: left alone: it serves Slurm's jobs, and this verb drains no node",
        hint=f"scontrol update nodename={node.name} state=drain reason=...; or undo RUN, by which "
        "it is drained",
    )


def refuse(host: Host, node: SlurmNode, run: str) -> None:
    """:raises Others: the node is not this run's to take."""
    if why := left_alone(node, run):
        resume = drained_by_us(node.reason)
        raise Others(
            f"{host.name}: left alone: {why}",
            hint=f"go on with that run: provision --resume {resume.run}"
            if resume
            else f"whoever has it gives it back: scontrol update nodename={node.name} state=resume",
        )
