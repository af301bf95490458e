"""Scripts by srun: in a job of ours on a node in service, and into one that this run drained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from toolkit.errors import ToolkitError, TransportError
from toolkit.facts.slurm import SlurmConfig
from toolkit.features.slurm.io import Slurm, SlurmError
from toolkit.features.slurm.plan import IN_HAND, reason
from toolkit.features.slurm.run import nodes as flow_slurm
from toolkit.features.slurm.run import srun
from toolkit.features.slurm.run.nodes import Site, SlurmHeld
from toolkit.features.slurm.run.srun import SrunTransport, job_name, tidy
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.ssh.become import Become
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.slurm_service import Scheduled, held_elsewhere, kept_off

RUN, OTHER = "2026-11-22T14-00-00-provision", "2026-11-21T09-00-00-provision"
GPU = Host("root@gpu1")
OURS = job_name(RUN, "gpu1")
Look = tuple[set[str], str]


@dataclass
class Node(Slurm):
    """One node, the jobs in Slurm's queue, the reservations; and all that is asked for."""

    states: set[str] = field(default_factory=lambda: {"IDLE"})
    why: str = ""
    parts: str = "gpu,debug"
    queue: dict[str, list[str]] = field(default_factory=dict)  # id: user, name, states to come
    kept: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    comes: tuple[str, ...] = ("PENDING", "RUNNING")  # what a job that is submitted becomes
    looks: list[Look] = field(default_factory=list)  # one a look, before those of the node

    def nodes(self, names: str = "") -> str:
        states, why = self.looks.pop(0) if self.looks else (self.states, self.why)
        told = f" Reason={why} [bob@2026-11-22T14:00:00]" if why else ""
        parts = f" Partitions={self.parts}" if self.parts else ""
        return f"NodeName=gpu1 State={'+'.join(sorted(states))}{parts}{told}\n"

    def jobs(self, form: str, *, node: str = "", name: str = "") -> str:
        told = []
        for job, (user, its, *states) in self.queue.items():
            if name in ("", its) and node in ("", "gpu1"):
                told.append(f"{job}|{user}|{states[0]}|5:00|None|{its}\n")
                if len(states) > 1 and name:
                    del self.queue[job][2]
        return "".join(told)

    def drain(self, node: str, reason: str) -> None:
        self.asked.append(f"drain {node}")
        self.states, self.why = self.states | {"DRAIN"}, reason

    def resume(self, node: str) -> None:
        self.asked.append(f"resume {node}")
        self.states, self.why = {"IDLE"}, ""

    def reserve(self, name: str, node: str, user: str) -> None:
        self.asked.append(f"reserve {name == OURS} {node} {bool(user)}")
        self.kept.add(name)

    def reservations(self) -> str:
        return "".join(f"ReservationName={each} StartTime=now\n" for each in sorted(self.kept))

    def unreserve(self, name: str) -> None:
        self.asked.append(f"unreserve {name == OURS}")
        self.kept.remove(name)

    def hold(
        self, node: str, name: str, seconds: int, *, partition: str, reservation: str = ""
    ) -> str:
        within = "reserved" if reservation == OURS else reservation or "open"
        self.asked.append(f"hold {node} {name} {seconds} {partition or '-'} {within}")
        if self.comes:
            self.queue["41"] = ["us", name, *self.comes]
        return "41"

    def cancel(self, job: str) -> None:
        self.asked.append(f"cancel {job}")
        self.queue.pop(job, None)


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Nothing is waited for, and srun is a shell here; which job and node it was told."""
    told: list[tuple[str, str]] = []

    def step(job: str, node: str, command: str) -> list[str]:
        told.append((job, node))
        return ["sh", "-c", command]

    monkeypatch.setattr(srun, "step", step)
    monkeypatch.setattr(srun, "_POLL_S", 0.0)
    monkeypatch.setattr(srun, "_END_S", 0.02)
    monkeypatch.setattr(srun, "_START_S", 0.02)
    monkeypatch.setattr(flow_slurm, "_FRESH_S", 0.0)
    return told


def way(node: Node, owner: str = "", say: Callable[[str], None] = lambda _: None) -> SrunTransport:
    site = Site(node, SlurmConfig(), {})
    made = SrunTransport(Host("root@gpu1"), site, Become(wanted=False), 0.02, say)
    if owner:  # as kept_off gives it
        made.owner = owner
    return made


def mine(*, resumed: bool = False, **more: object) -> Node:
    """A node that this run has drained; or had, when its controller died after the resume."""
    states, why = ({"IDLE"}, "") if resumed else ({"IDLE", "DRAIN"}, reason(RUN, IN_HAND))
    return Node(states, why, **more)  # type: ignore[arg-type] # as the rows have them


def test_a_script_runs_in_a_job_that_has_the_node_to_itself(
    steps: list[tuple[str, str]],
) -> None:
    node, heard = Node(), list[str]()
    transport = way(node)
    assert transport.name == "root@gpu1"
    ended = transport.run("echo one; echo two >&2; exit 3", sink=heard.append)
    assert (ended.exit, ended.stdout, ended.stderr) == (3, "one\n", "two\n")
    assert heard == ["one"]
    assert transport.run("echo again").stdout == "again\n"  # in the same job
    transport.close()
    transport.close()
    assert node.asked == ["hold gpu1 gdr-toolkit-reads-gpu1 900 gpu open", "cancel 41"]
    assert steps == [("41", "gpu1")] * 2


def test_a_node_of_no_partition_is_asked_for_in_none() -> None:
    node = Node(parts="")
    way(node).run("true")
    assert node.asked == ["hold gpu1 gdr-toolkit-reads-gpu1 900 - open"]


def test_who_is_waited_for_is_said_once_and_no_job_is_left() -> None:
    node, said = Node(comes=("PENDING",)), list[str]()
    node.queue["7"] = ["alice", "train", "RUNNING"]
    with pytest.raises(
        TransportError, match=r"no room for our job within 0\.02 s: jobs 7 of alice"
    ):
        way(node, say=said.append).run("true")
    assert said == ["waiting for room: jobs 7 of alice, 41 of us"]
    assert node.asked[-1] == "cancel 41"


@pytest.mark.parametrize(
    ("comes", "told"),
    [
        pytest.param(("FAILED",), "job 41 of ours ended at once: FAILED", id="ended"),
        pytest.param((), "job 41 of ours is not known to Slurm any more", id="gone"),
    ],
)
@pytest.mark.parametrize("owner", ["", RUN])
def test_a_job_that_does_not_begin_is_told(comes: tuple[str, ...], told: str, owner: str) -> None:
    node = mine(comes=comes) if owner else Node(comes=comes)
    with pytest.raises(SlurmError, match=f"^root@gpu1: {told}$"):
        way(node, owner).run("true")
    assert node.asked[-1] == ("drain gpu1" if owner else "cancel 41")
    assert ("DRAIN" in node.states) is bool(owner)


def test_into_a_drained_node_by_a_reservation_and_it_stays_drained() -> None:
    node = mine()
    transport = way(node, RUN)
    assert transport.run("echo in").stdout == "in\n"
    assert node.asked == [
        "reserve True gpu1 True",
        f"hold gpu1 {OURS} 86400 gpu reserved",
        "resume gpu1",
        "drain gpu1",
    ]
    assert node.why == reason(RUN, IN_HAND)


def test_what_a_controller_that_died_left_is_used_and_not_asked_for_again() -> None:
    running = mine(kept={OURS}, queue={"40": ["us", OURS, "RUNNING"]})
    transport = way(running, RUN)
    assert transport.run("true").exit == 0
    transport.close()
    assert running.asked == ["cancel 40"]

    pending = mine(kept={OURS}, queue={"40": ["us", OURS, "PENDING"]})
    way(pending, RUN).run("true")
    assert pending.asked[0] == f"hold gpu1 {OURS} 86400 gpu reserved"

    resumed = mine(resumed=True, kept={OURS})
    way(resumed, RUN).run("true")
    assert resumed.asked[0] == "drain gpu1"  # before anything else
    assert resumed.asked[-2:] == ["resume gpu1", "drain gpu1"]
    assert resumed.why == reason(RUN, IN_HAND)


@pytest.mark.parametrize("owner", ["", RUN])
def test_a_reservation_of_another_run_is_no_business_of_ours(owner: str) -> None:
    node = mine(resumed=True, kept={job_name(OTHER, "gpu1")})
    way(node, owner).run("true")
    assert node.asked == ["hold gpu1 gdr-toolkit-reads-gpu1 900 gpu open"]


def test_one_that_only_reads_is_not_misled_by_a_reservation_without_an_owner() -> None:
    node = Node(kept={job_name("", "gpu1")})
    way(node).run("true")
    assert node.asked == ["hold gpu1 gdr-toolkit-reads-gpu1 900 gpu open"]


@pytest.mark.parametrize(
    ("states", "why", "owner", "error", "told"),
    [
        ({"IDLE", "DRAIN"}, "bad dimm", RUN, SlurmHeld, "drained by bob .*: bad dimm"),
        ({"IDLE", "DRAIN"}, reason(OTHER, IN_HAND), RUN, SlurmHeld, "a run has it"),
        ({"DOWN"}, "", RUN, SlurmHeld, "DOWN"),
        ({"IDLE", "DRAIN"}, reason(OTHER, "failed: x"), "", SlurmHeld, "Slurm runs no job there"),
        ({"IDLE", "DRAIN", "REBOOT_ISSUED"}, reason(RUN, IN_HAND), RUN, TransportError, "reboot"),
    ],
)
def test_what_others_have_is_not_entered(
    states: set[str], why: str, owner: str, error: type[ToolkitError], told: str
) -> None:
    node = Node(states, why)
    with pytest.raises(error, match=told):
        way(node, owner).run("true")
    assert node.asked == []


def test_a_drain_of_others_that_came_meanwhile_is_left_on() -> None:
    before = ({"IDLE", "DRAIN"}, reason(RUN, IN_HAND))
    theirs = ({"IDLE", "DRAIN"}, "bad dimm")
    node = Node(*theirs, looks=[before, theirs])
    with pytest.raises(SlurmHeld, match="others have it since a moment ago"):
        way(node, RUN).run("true")
    assert node.asked[-1] == "cancel 41"
    assert "resume gpu1" not in node.asked

    later = Node(*before, looks=[before, before, theirs])
    way(later, RUN).run("true")
    assert later.asked[-1] == "resume gpu1"  # theirs is on: ours is not put over it


def test_a_job_that_does_not_begin_in_its_reservation_is_ended_and_the_node_drained() -> None:
    node = mine(comes=("PENDING",))
    with pytest.raises(SlurmError, match="job 41 of ours does not begin in its reservation"):
        way(node, RUN).run("true")
    assert node.asked[-3:] == ["resume gpu1", "cancel 41", "drain gpu1"]
    assert node.why == reason(RUN, IN_HAND)


def test_a_script_that_takes_too_long_or_never_begins_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TransportError, match=r"no answer within 0\.05 s while the script ran"):
        way(Node()).run("sleep 9", limit_s=0.05)

    refused = Node()
    monkeypatch.setattr(srun, "step", lambda *_: ["sh", "-c", "echo no step >&2; exit 1"])
    with pytest.raises(SlurmError, match=r"^root@gpu1: no step$"):
        way(refused).run("true")
    assert refused.asked[-1] == "cancel 41"

    monkeypatch.setattr(srun, "step", lambda *_: ["/nowhere/srun"])
    with pytest.raises(TransportError, match="srun cannot be started: No such file"):
        way(Node()).run("true")

    monkeypatch.setattr(srun, "step", lambda *_: ["sh", "-c", "exit 1"])
    silent = Node()
    with pytest.raises(TransportError, match="the connection was lost") as error:
        way(silent).run("true")
    assert not isinstance(error.value, SlurmError)


def test_srun_sees_no_job_that_we_may_be_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    told = way(Node()).run('echo "${SLURM_JOB_ID-none} $SLURM_TIME_FORMAT"').stdout
    assert told == "none standard\n"


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"])
def test_tidying_up_ends_the_job_then_its_reservation_and_leaves_the_drain(state: str) -> None:
    others = {"7": ["us", "train", "RUNNING"]}
    node = mine(kept={OURS}, queue={"40": ["us", OURS, state], **others})
    tidy(Site(node, SlurmConfig(), {}), RUN, "gpu1")
    assert node.asked == ["cancel 40", "unreserve True"]
    assert (node.queue, "DRAIN" in node.states) == (others, True)


def test_tidying_up_where_nothing_is_left_asks_for_nothing() -> None:
    node = mine(queue={"40": ["us", OURS, "COMPLETED"]})
    tidy(Site(node, SlurmConfig(), {}), RUN, "gpu1")
    assert node.asked == []


def test_a_job_that_does_not_end_keeps_its_reservation() -> None:
    class Stuck(Node):
        def cancel(self, job: str) -> None:
            self.asked.append(f"cancel {job}")

    node = Stuck(kept={OURS}, queue={"40": ["us", OURS, "COMPLETING"]})
    with pytest.raises(SlurmError, match=r"^gpu1: job 40 of ours does not end$"):
        tidy(Site(node, SlurmConfig(), {}), RUN, "gpu1")
    assert set(node.asked) == {"cancel 40"}


class Wire:
    """A way to a node that only remembers what it heard."""

    name = "root@gpu1"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        self.heard.append(f"{script} {limit_s:g} {sink is not quiet}")
        return Result(0, "said", "")

    def close(self) -> None:
        self.heard.append("close")


def reached(node: Node, transport: Transport) -> Fleet:
    return Fleet((GPU,), lambda _: transport, Access(), slurm=Site(node, SlurmConfig(), {}))


def test_a_fleet_is_kept_off_what_is_not_this_run_s() -> None:
    wire = Wire()
    for states, why in (({"IDLE", "DRAIN"}, "bad dimm"), ({"DOWN"}, "")):
        with pytest.raises(SlurmHeld):
            kept_off(reached(Node(states, why), wire), RUN).connect(GPU)
    ours = kept_off(reached(mine(), wire), RUN).connect(GPU)
    assert ours.name == "root@gpu1"
    assert ours.run("x", limit_s=7, sink=print).stdout == "said"
    ours.close()
    assert wire.heard == ["x 7 True", "close"]


def test_a_fleet_without_slurm_is_left_as_it_is() -> None:
    fleet = Fleet((GPU,), lambda _: Wire(), Access())
    assert kept_off(fleet, RUN) is fleet


def test_by_srun_a_run_enters_what_it_drained_and_a_reboot_ends_its_job_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[tuple[str, bool]] = []

    def restart(inner: Transport, boot_id: str, *, wait_s: int, by_itself: bool = True) -> None:
        said.append((f"{inner.name} {boot_id} {wait_s}", by_itself))

    monkeypatch.setattr(deliver, "restart", restart)

    class Rebooting(Node):
        def reboot(self, node: str, reason: str) -> None:
            self.asked.append(f"reboot {node}: {reason}")

    node = Rebooting({"IDLE", "DRAIN"}, reason(RUN, IN_HAND))
    transport = way(node)
    fleet = reached(node, transport)
    assert fleet.slurm is not None
    fleet.slurm.config = SlurmConfig("/sbin/reboot")
    scheduled = kept_off(fleet, RUN).connect(GPU)
    assert isinstance(scheduled, Scheduled)
    assert transport.owner == RUN
    scheduled.run("true")
    node.asked.clear()
    scheduled.restart("boot-1", 60)
    assert said == [("root@gpu1 boot-1 60", False)]
    assert node.asked == ["cancel 41", f"reboot gpu1: {reason(RUN, f'{IN_HAND}, rebooting')}"]


def test_whom_slurm_has_out_of_service_for_others_is_told_as_it_goes_on() -> None:
    assert held_elsewhere(None, RUN)() == {}
    node = Node({"IDLE", "DRAIN"}, "bad dimm")
    ask = held_elsewhere(Site(node, SlurmConfig(), {}), RUN)
    [(name, told)] = ask().items()
    assert (name, told[:23]) == ("gpu1", "Slurm has it drained by")
    node.states, node.why = {"IDLE"}, ""
    assert ask() == {}
