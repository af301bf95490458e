"""Scripts on a node by srun, in a job of ours that has the node to itself.

A node in service is read as any job runs there: one that holds the whole node, so that every
GPU is seen, begins once there is room, and ends with the reading. A drained node takes no job,
not even root's; where the drain is ours, this is the way in:

    a reservation (maint) for our user   from now on nobody else's job begins there
    a job of ours in it, pending         the drain keeps it so
    resume                               nobody's job but ours can begin
    it runs; drain again                 what runs on a drained node may go on, with its steps
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct, field

from toolkit.errors import TransportError
from toolkit.facts.slurm import JOB_FORMAT, SlurmJob, SlurmNode, parse_jobs
from toolkit.features.slurm.io import SlurmError, settings, step
from toolkit.features.slurm.plan import (
    BOOTING,
    IN_HAND,
    NAME,
    SlurmStand,
    left_alone,
    reason,
    stand,
    who_runs,
)
from toolkit.features.slurm.run.nodes import Site, SlurmHeld, node_name
from toolkit.hosts.host import Host
from toolkit.package_data import user_name
from toolkit.ssh import transport_errors
from toolkit.ssh.become import Become, read_marks
from toolkit.ssh.limits import ROOM_S, Hearing
from toolkit.ssh.local import run_child
from toolkit.ssh.stream import Lines, conclude, decode
from toolkit.ssh.transport import Result, Sink, quiet

_READING_S = 900  # a job that only reads ends by itself, should we die before it
_HOLDING_S = 86400  # one on a node that is drained anyway may be long: modules are built there
_START_S = 120.0  # on a node that nobody else can use: the next turn of the scheduler
_END_S = 60.0
_POLL_S, _LONGEST_S = 0.5, 10.0
_ALIVE = frozenset({"PENDING", "CONFIGURING", "RUNNING"})


def job_name(run: str, node: str) -> str:
    """Of a job that holds a drained node, and of its reservation."""
    return f"{NAME}-{run}-{node}"


def tidy(site: Site, run: str, node: str) -> None:
    """End the job that holds a node, and then its reservation; the drain stays.

    :raises SlurmError: Slurm refuses.
    """
    name = job_name(run, node)
    end = time.monotonic() + _END_S
    while alive := [job for job in _named(site, name) if job.state in {*_ALIVE, "COMPLETING"}]:
        for job in alive:
            site.commands.cancel(job.id)
        if time.monotonic() > end:
            raise SlurmError(
                f"{node}: job {alive[0].id} of ours does not end",
                hint="look at it: squeue; end it with scancel, and run again",
            )
        time.sleep(_POLL_S)
    if _reserved(site, name):
        site.commands.unreserve(name)


def _named(site: Site, name: str) -> tuple[SlurmJob, ...]:
    return parse_jobs(site.commands.jobs(JOB_FORMAT, name=name))


def _reserved(site: Site, name: str) -> bool:
    return f"ReservationName={name} " in site.commands.reservations()


class SrunTransport(Struct):
    """See ``Transport`` for what it promises. The job ends when it is closed."""

    host: Host
    site: Site
    become: Become
    room_s: float = ROOM_S
    say: Callable[[str], None] = lambda _: None
    hearing: Hearing = field(default_factory=lambda: Hearing("the node"))
    owner: str = ""  # the run whose drained nodes may be entered; "" for one that only reads
    _job: str = ""

    @property
    def name(self) -> str:
        return self.host.name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        node = node_name(self.host)
        if not self._job:
            self._job = self._enter(node)
        lines = Lines(sink, self.hearing)
        words = step(self._job, node, self.become.command)
        feed = self.become.feed(script)
        try:
            ended = run_child(words, feed, limit_s=limit_s, lines=lines, settings=settings())
        except OSError as why:
            raise TransportError(
                f"{self.name}: srun cannot be started: {why.strerror}",
                hint="is Slurm installed here, and in PATH?",
            ) from why
        if ended.late:
            raise transport_errors.late(self.name, limit_s, "the script ran")
        stdout, told = lines.end(), read_marks(decode(ended.stderr))
        if not told.begun and (said := told.noise.strip()):
            self.close()
            raise SlurmError(
                f"{self.name}: {said[-300:]}", hint=f"try it by hand: srun -w {node} true"
            )
        return conclude(self.name, stdout, ended.stderr)

    def close(self) -> None:
        if self._job:
            job, self._job = self._job, ""
            self.site.commands.cancel(job)

    def _enter(self, node: str) -> str:
        """A running job of ours that has the node to itself.

        :raises Held: others have it, or it is down.
        """
        seen = self.site.look(node)
        whose = stand(seen, self.owner)
        if whose is SlurmStand.SERVING:
            if not self.owner or not _reserved(self.site, job_name(self.owner, node)):
                return self._read(seen)
            self._drain_again(node)  # a controller of this run died between resume and drain
            return self._hold(seen)
        if whose is not SlurmStand.OURS or not self.owner:
            raise SlurmHeld(
                f"{self.name}: Slurm runs no job there: {left_alone(seen, self.owner)}",
                hint="by SSH it can be read all the same: leave out --transport srun",
            )
        if seen.states & BOOTING:
            raise TransportError(
                f"{self.name}: is being rebooted by Slurm",
                hint="wait until it is back, and run again",
            )
        return self._hold(seen)

    def _read(self, node: SlurmNode) -> str:
        name = f"{NAME}-reads-{node.name}"
        job = self._submit(node, name, _READING_S)
        said, pause = "", _POLL_S
        end = time.monotonic() + self.room_s
        try:
            while not self._runs(name, job):
                others = who_runs(parse_jobs(self.site.commands.jobs(JOB_FORMAT, node=node.name)))
                if time.monotonic() > end:
                    raise TransportError(
                        f"{self.name}: no room for our job within {self.room_s:g} s: {others}",
                        hint="later; or by SSH, beside the jobs: leave out --transport srun",
                    )
                if others != said:
                    self.say(f"waiting for room: {others}")
                    said = others
                time.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_S)  # slurmctld has others to answer
        except BaseException:
            self.site.commands.cancel(job)
            raise
        return job

    def _hold(self, node: SlurmNode) -> str:
        """Into a node that we drained; see the head of this file."""
        name = job_name(self.owner, node.name)
        running = [job for job in _named(self.site, name) if job.state == "RUNNING"]
        if running:  # of a controller that died
            return running[0].id
        if not _reserved(self.site, name):
            self.site.commands.reserve(name, node.name, user_name())
        job = self._submit(node, name, _HOLDING_S, reservation=name)
        if stand(self.site.look(node.name), self.owner) is not SlurmStand.OURS:
            self.site.commands.cancel(job)
            raise SlurmHeld(f"{self.name}: others have it since a moment ago", hint="see: sinfo -R")
        self.site.commands.resume(node.name)
        try:
            end = time.monotonic() + _START_S
            while not self._runs(name, job):
                if time.monotonic() > end:
                    self.site.commands.cancel(job)
                    raise SlurmError(
                        f"{self.name}: job {job} of ours does not begin in its reservation",
                        hint=f"see why: squeue -j {job}; or leave out --transport srun",
                    )
                time.sleep(_POLL_S)
        finally:
            self._drain_again(node.name)
        return job

    def _drain_again(self, node: str) -> None:
        """Unless somebody else has drained it in that moment."""
        if not self.site.look(node).drained:
            self.site.commands.drain(node, reason(self.owner, IN_HAND))

    def _submit(self, node: SlurmNode, name: str, seconds: int, *, reservation: str = "") -> str:
        partition = node.partitions[0] if node.partitions else ""
        return self.site.commands.hold(
            node.name, name, seconds, partition=partition, reservation=reservation
        )

    def _runs(self, name: str, job: str) -> bool:
        """:raises SlurmError: it ended before it began."""
        for each in _named(self.site, name):
            if each.id == job and each.state not in _ALIVE:
                raise SlurmError(
                    f"{self.name}: job {job} of ours ended at once: {each.state}",
                    hint="look at it: sacct, and slurmd's log on the node",
                )
            if each.id == job:
                return each.state == "RUNNING"
        raise SlurmError(
            f"{self.name}: job {job} of ours is not known to Slurm any more",
            hint="look at it: sacct; then run again",
        )
