"""Whose a node of Slurm's is, and what is said to Slurm about it. Decides; does nothing.

A reason that begins with our name is ours, and no other is:

    gdr-toolkit: 2026-11-22T14-00-00-provision: in hand           a run has it, or died with it
    gdr-toolkit: 2026-11-22T14-00-00-provision: failed: ...       left out of service, on purpose

The first belongs to the run that it names; the second to whoever comes to mend it.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.facts.slurm import SlurmJob, SlurmNode
from toolkit.plural import first_of

NAME = "gdr-toolkit"
IN_HAND = "in hand"
FAILED = "failed"
_LONGEST = 240  # characters of a reason; squeue and sinfo cut it long before
MUTE = "NOT_RESPONDING"  # slurmd: so Slurm says of any node just resumed, see ``unsure``
# No job can begin there, for reasons that are not ours to judge.
_AWAY = frozenset(
    {"DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "INVAL", "INVALID_REG"}
    | {MUTE, "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"}
)
BOOTING = frozenset({"REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT"})


class SlurmStand(StrEnum):
    """Whose a node is."""

    SERVING = "in service"
    OURS = "drained by this run, or left drained by one of ours"
    ANOTHER_RUN = "another run of ours has it"
    THEIRS = "drained by somebody else"
    AWAY = "down"


class Drained(Struct, frozen=True):
    """A reason of ours, taken apart."""

    run: str
    why: str


def drained_by_us(reason: str) -> Drained | None:
    """The run and what it said, of a reason that is ours; None of any other."""
    name, colon, rest = reason.partition(": ")
    if name != NAME or not colon:
        return None
    run, _, why = rest.partition(": ")
    return Drained(run, why)


def reason(run: str, why: str) -> str:
    """What is written beside a drain of ours: one line, and no quotes for scontrol to eat."""
    words = " ".join(why.split()).replace('"', "'")
    return f"{NAME}: {run}: {words}"[:_LONGEST]


def stand(node: SlurmNode, run: str) -> SlurmStand:
    """Whose the node is, for this run."""
    if node.drained:
        ours = drained_by_us(node.reason)
        if ours is None:
            return SlurmStand.THEIRS
        mine = ours.run == run or ours.why.startswith(FAILED)
        return SlurmStand.OURS if mine else SlurmStand.ANOTHER_RUN
    return SlurmStand.AWAY if node.states & (_AWAY | BOOTING) else SlurmStand.SERVING


def unsure(node: SlurmNode) -> bool:
    """Whether it may serve in a moment.

    slurmctld marks whom it resumes as not responding until slurmd has answered its ping: a
    second at most where it has little else to do (measured with 22.05.8).
    """
    return MUTE in node.states and not node.drained and not node.states & (_AWAY - {MUTE} | BOOTING)


def left_alone(node: SlurmNode, run: str) -> str:
    """Why this run keeps its hands off the node, as a clause; "" where it need not."""
    match stand(node, run):
        case SlurmStand.THEIRS:
            by = f" by {node.reason_by} since {node.reason_since}" if node.reason_by else ""
            return f"drained{by}: {node.reason or 'no reason given'}"
        case SlurmStand.ANOTHER_RUN:
            return f"a run has it, or died with it: {node.reason}"
        case SlurmStand.AWAY:
            states = "+".join(sorted(node.states))
            return f"{states}: {node.reason}" if node.reason else states
    return ""


def who_runs(jobs: tuple[SlurmJob, ...]) -> str:
    """The jobs that are waited for, in one clause."""
    shown = first_of([f"{job.id} of {job.user}" for job in jobs], 3)
    left = f", {jobs[0].left} left" if len(jobs) == 1 and jobs[0].left[:1].isdigit() else ""
    word = "job" if len(jobs) == 1 else "jobs"
    return f"{word} {shown}{left}" if jobs else "what its last job left behind"
