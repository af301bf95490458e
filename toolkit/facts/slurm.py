"""What Slurm says of its nodes and jobs.

Source: scontrol(1) of Slurm 22.05, ``show --oneliner node``, and ``src/api/node_info.c``. That
text is read rather than JSON: ``scontrol --json`` came with 23.02 and its fields are renamed by
nearly every release, while these words have stood since 2.x and only grown in number:

    NodeName=gpu01 ... NodeAddr=10.0.0.11 NodeHostName=gpu01 ... OS=Linux 6.1.0 #1 SMP ...
        State=MIXED+DRAIN ... Partitions=gpu,debug  BootTime=2026-11-22T07:05:52 ...
        Reason=bad dimm [bob@2026-11-22T14:40:35] Comment=... Extra=...

A state is a word and flags; "*" behind it means that the node does not respond. A reason may
hold anything, also " State=IDLE": what stands behind it is never read for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from toolkit.errors import Unparsable

JOB_FORMAT = "%i|%u|%T|%L|%r|%j"  # of squeue; the name comes last, for it may hold a bar
_FIRST = "NodeName="
_REASON = " Reason="
# "[user@time]" is set behind the first line of a reason; the time is ISO unless told otherwise.
_SIGNED = re.compile(
    r"^(?P<text>.*?) ?\[(?P<user>[^\s@\[\]]+)@(?P<since>[0-9TZ:-]+)\](?P<rest>.*)$"
)
_AFTER = re.compile(r" (?:Comment|Extra|InstanceId|InstanceType|ResvName|Topology)=")
# What one character behind a state means: slurm.h, node_state_flag_string_single.
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


class SlurmNode(Struct, frozen=True):
    """One node, as slurmctld has it."""

    name: str
    address: str = ""  # NodeAddr: where slurmd listens
    hostname: str = ""  # NodeHostName
    states: frozenset[str] = frozenset()  # "IDLE", "DRAIN", ...: the state and its flags
    partitions: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()  # active ones, and those that it could have
    reason: str = ""
    reason_by: str = ""  # "bob"
    reason_since: str = ""  # "2026-11-22T14:40:35"
    cpus_taken: int = 0  # by jobs
    gpus: int | None = None  # of its Gres; None where that tells no number of whole GPUs

    @property
    def drained(self) -> bool:
        """It is to take no further job; those that run may go on."""
        return "DRAIN" in self.states

    @property
    def working(self) -> bool:
        """Jobs run on it, or are being cleared away."""
        return self.cpus_taken > 0 or bool(
            self.states & {"ALLOCATED", "MIXED", "COMPLETING", "BLOCKED"}
        )


class SlurmJob(Struct, frozen=True):
    """One job on a node."""

    id: str
    user: str
    state: str  # "RUNNING"
    left: str  # of its time: "1-02:30:00", "UNLIMITED"
    why: str  # it is pending
    name: str


class SlurmConfig(Struct, frozen=True):
    """What of a site's settings concerns us."""

    reboot_program: str = ""  # "" where Slurm reboots no node
    file: str = ""  # where slurm.conf was read from
    version: str = ""


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """The nodes of ``scontrol show --oneliner node``.

    :raises Unparsable: a line without a name or a state.
    """
    lines: list[str] = []
    for raw in text.split("\n"):
        if raw.startswith(_FIRST) or not lines:
            lines.append(raw)
        else:  # a reason of several lines
            lines[-1] += f" {raw.strip()}"
    return tuple(
        _node(line.strip(), number) for number, line in enumerate(lines, start=1) if line.strip()
    )


def _node(line: str, number: int) -> SlurmNode:
    head, _, told = line.partition(_REASON)
    name, states = _value(head, "NodeName"), _value(head, "State")
    if not line.startswith(_FIRST) or not name or not states:
        raise Unparsable("scontrol show node", line, number)
    reason, user, since = _reason(told)
    # Whole GPUs of a node's Gres; those of each type together.
    found = _GPUS.findall(_value(head, "Gres"))
    whole = bool(found) and not any(re.search(r"\d+g\.\d+gb", kind) for kind, _ in found)
    gpus = sum(int(count) for _, count in found) if whole else None
    return SlurmNode(
        name=name,
        address=_value(head, "NodeAddr"),
        hostname=_value(head, "NodeHostName"),
        states=frozenset(_states(states)),
        partitions=_listed(_value(head, "Partitions")),
        features=frozenset(
            (*_listed(_value(head, "AvailableFeatures")), *_listed(_value(head, "ActiveFeatures")))
        ),
        reason=reason,
        reason_by=user,
        reason_since=since,
        cpus_taken=int(taken) if (taken := _value(head, "CPUAlloc")).isdigit() else 0,
        gpus=gpus,
    )


# gres.conf(5) and scontrol: "gpu:8", "gpu:h100:8(S:0-1)"; a type may be a MIG profile's.
_GPUS = re.compile(r"(?:^|,)gpu(?::([^:,()]+))?:(\d{1,4})(?=[(,]|$)")


def _value(head: str, key: str) -> str:
    """The first value of that name; none of those that we ask for has a space in it."""
    found = re.search(rf"(?:^| ){key}=(\S*)", head)
    return "" if found is None or found[1] in {"(null)", "N/A"} else found[1]


def _listed(value: str) -> tuple[str, ...]:
    return tuple(each for each in value.split(",") if each)


def _states(text: str) -> Iterator[str]:
    for word in text.split("+"):
        bare = word.rstrip("".join(_MARKS))
        yield bare.upper()
        yield from (_MARKS[mark] for mark in word[len(bare) :])


def _reason(told: str) -> tuple[str, str, str]:
    signed = _SIGNED.match(told)
    if signed is None:
        return _AFTER.split(told, maxsplit=1)[0].strip(), "", ""
    more = _AFTER.split(signed["rest"], maxsplit=1)[0].split()
    return " ".join((signed["text"], *more)).strip(), signed["user"], signed["since"]


def parse_jobs(text: str) -> tuple[SlurmJob, ...]:
    """What ``squeue --noheader --format JOB_FORMAT`` says.

    :raises Unparsable: a line of another shape.
    """
    jobs = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        words = line.split("|", 5)
        if len(words) != 6 or not words[0][:1].isdigit():
            raise Unparsable("squeue", line, number)
        jobs.append(SlurmJob(*(word.strip() for word in words)))
    return tuple(jobs)


def parse_config(text: str) -> SlurmConfig:
    """What ``scontrol show config`` says."""
    found = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            found[key.strip()] = value.strip()
    program = found.get("RebootProgram", "")
    return SlurmConfig(
        reboot_program="" if program == "(null)" else program,
        file=found.get("SLURM_CONF", ""),
        version=found.get("SLURM_VERSION", ""),
    )


def parse_nodesets(text: str) -> dict[str, tuple[str, str]]:
    """The ``NodeSet=NAME Nodes=LIST Feature=NAME`` lines of slurm.conf: nodes and feature by name.

    Nothing that Slurm prints has them: its daemons unfold them as they read their partitions.
    """
    joined = re.sub(r"\\\n", " ", text)
    found = {}
    for raw in joined.split("\n"):
        line = raw.partition("#")[0].strip()
        pairs = (each.partition("=") for each in line.split())
        words = {key.lower(): value for key, _, value in pairs}
        if line.lower().startswith("nodeset=") and words["nodeset"]:
            found[words["nodeset"]] = (words.get("nodes", ""), words.get("feature", ""))
    return found
