"""Out of service and back: what is ours is drained and resumed, what is others' never is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from toolkit.errors import ApplyError, TransportError
from toolkit.facts.slurm import SlurmConfig
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.plan import drained_by_us, reason
from toolkit.features.slurm.run import nodes as flow_slurm
from toolkit.features.slurm.run import service as slurm_service
from toolkit.features.slurm.run.nodes import Site, SlurmHeld
from toolkit.features.slurm.run.service import JobsRemain, SlurmService
from toolkit.hosts.host import Host
from toolkit.rollout.hooks import NotTaken
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.slurm_service import Scheduled

RUN, OTHER = "2026-11-22T14-00-00-provision", "2026-11-21T09-00-00-provision"
GPU = Host("root@gpu1")


@dataclass
class Fake(Slurm):
    """One node's state, who says what of it, and what is asked for."""

    states: set[str] = field(default_factory=lambda: {"IDLE"})
    why: str = ""
    asked: list[str] = field(default_factory=list)
    meanwhile: list[tuple[set[str], str]] = field(default_factory=list)  # one a look

    def nodes(self, names: str = "") -> str:
        if self.meanwhile:
            self.states, self.why = self.meanwhile.pop(0)
        told = f" Reason={self.why} [bob@2026-11-22T14:00:00]" if self.why else ""
        return f"NodeName=gpu1 State={'+'.join(sorted(self.states))} Partitions=gpu{told}\n"

    def jobs(self, form: str, *, node: str = "", name: str = "") -> str:
        return "7|alice|RUNNING|5:00|None|train\n"

    def drain(self, node: str, reason: str) -> None:
        self.asked.append(f"drain {node}")
        self.states, self.why = self.states | {"DRAIN"}, reason

    def resume(self, node: str) -> None:
        self.asked.append(f"resume {node}")
        self.states, self.why = {"IDLE"}, ""

    def reboot(self, node: str, reason: str) -> None:
        self.asked.append(f"reboot {node}")


class Wire:
    """Hears scripts; says what apply.sh says of a reboot."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    name = "gpu1"

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        self.heard.append(script)
        return Result(0, "= begin ok gdr-toolkit/1\n= restart ok x\n= end ok 1\n", "")

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _ask_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_slurm, "_FRESH_S", 0.0)
    monkeypatch.setattr(flow_slurm, "_POLL_S", 0.01)
    monkeypatch.setattr(flow_slurm, "_PING_S", 0.3)


def service(fake: Fake, jobs_s: float = 30.0) -> SlurmService:
    return SlurmService(Site(fake, SlurmConfig(), {}), RUN, jobs_s)


def say(text: str) -> None: ...


def test_a_node_in_service_is_drained_in_our_name_and_given_back() -> None:
    fake = Fake()
    ours = service(fake)
    ours.take_out(GPU, say)
    mine = drained_by_us(fake.why)
    assert mine is not None
    assert mine.run == RUN
    assert ours.has_out(GPU)
    assert ours.give_back(GPU, say) == ""
    assert fake.asked == ["drain gpu1", "resume gpu1"]


def test_what_was_drained_is_not_drained_again_by_a_run_that_goes_on() -> None:
    fake = Fake({"IDLE", "DRAIN"}, reason(RUN, "in hand"))
    service(fake).take_out(GPU, say)
    assert fake.asked == []


def test_what_others_gave_back_meanwhile_is_left_as_it_is() -> None:
    fake = Fake()
    assert service(fake).give_back(GPU, say) == ""
    assert service(fake).stay_out(GPU, "rdma.port") == "others gave it back to service"
    assert fake.asked == []


def test_a_node_that_is_mute_in_the_hands_of_others_is_not_waited_for() -> None:
    fake = Fake({"IDLE", "DRAIN", "NOT_RESPONDING"}, "bad dimm")
    heard: list[str] = []
    assert "left out of service: drained by bob" in service(fake).give_back(GPU, heard.append)
    assert heard == []


def test_what_a_run_of_ours_left_as_failed_is_taken_over_in_the_name_of_this_run() -> None:
    fake = Fake({"IDLE", "DRAIN"}, reason(OTHER, "failed: rdma.port"))
    service(fake).take_out(GPU, say)
    mine = drained_by_us(fake.why)
    assert mine is not None
    assert mine.run == RUN


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ({"IDLE", "DRAIN"}, "bad dimm"),
        ({"IDLE", "DRAIN"}, reason(OTHER, "in hand")),
        ({"DOWN"}, "Not responding"),
        ({"IDLE", "DRAIN"}, ""),
    ],
)
def test_what_others_hold_is_neither_drained_nor_resumed_nor_renamed(
    states: set[str], why: str
) -> None:
    fake = Fake(states, why)
    with pytest.raises(SlurmHeld, match="left alone") as error:
        service(fake).take_out(GPU, say)
    assert isinstance(error.value, TransportError)  # it counts as unavailable
    assert isinstance(error.value, NotTaken)  # by whoever has it, not by us
    assert "left out of service" in service(fake).give_back(GPU, say)
    assert "left out of service" in service(fake).stay_out(GPU, "rdma.port")
    assert not service(fake).has_out(GPU)
    assert fake.asked == []
    assert fake.why == why


def test_a_drain_of_others_that_came_while_ours_was_on_is_respected() -> None:
    fake = Fake()
    ours = service(fake)
    ours.take_out(GPU, say)
    fake.why = "bad dimm"
    assert "bad dimm" in ours.give_back(GPU, say)
    assert fake.asked == ["drain gpu1"]


def test_a_drain_of_others_that_came_a_moment_before_the_resume_is_respected() -> None:
    mine = {"IDLE", "DRAIN"}, reason(RUN, "in hand")
    fake = Fake(meanwhile=[mine, ({"IDLE", "DRAIN"}, "bad dimm")])
    assert "bad dimm" in service(fake).give_back(GPU, say)
    assert fake.asked == []


class Pinging(Fake):
    """Marks whom it resumes as not responding until slurmd has answered, as slurmctld does."""

    looks = 2  # until it has

    def resume(self, node: str) -> None:
        super().resume(node)
        self.meanwhile = [({"IDLE", "NOT_RESPONDING"}, "")] * self.looks + [({"IDLE"}, "")]


def test_a_node_is_given_back_once_slurmd_has_answered() -> None:
    fake = Pinging({"IDLE", "DRAIN"}, reason(RUN, "in hand"))
    assert service(fake).give_back(GPU, say) == ""
    assert (fake.states, fake.meanwhile) == ({"IDLE"}, [])


def test_a_slurmd_that_does_not_answer_after_the_resume_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm_service, "_ANSWER_S", 0.0)
    fake = Pinging({"IDLE", "DRAIN"}, reason(RUN, "in hand"))
    assert "slurmd has not answered" in service(fake).give_back(GPU, say)


@pytest.mark.parametrize("mark", ["NOT_RESPONDING", "REBOOT_ISSUED"])
def test_a_node_that_slurm_hears_nothing_of_stays_drained_and_is_no_success(
    monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.setattr(slurm_service, "_BACK_S", 0.0)
    fake = Fake({"IDLE", "DRAIN", mark}, reason(RUN, "in hand"))
    with pytest.raises(TransportError, match=r"stays drained: .*: slurmd"):
        service(fake).give_back(GPU, say)
    assert fake.asked == ["drain gpu1"]
    assert fake.why.startswith(f"gdr-toolkit: {RUN}: failed: slurmd")


def test_a_node_that_somebody_has_just_resumed_is_not_taken_for_down() -> None:
    just = {"IDLE", "NOT_RESPONDING"}
    fake = Fake(meanwhile=[(just, ""), (just, ""), ({"IDLE"}, "")])
    service(fake).take_out(GPU, say)
    assert fake.asked == ["drain gpu1"]
    mute = Fake(just)
    with pytest.raises(SlurmHeld, match=r"left alone: IDLE\+NOT_RESPONDING"):
        service(mute).take_out(GPU, say)


def test_jobs_that_do_not_end_in_time_leave_the_node_serving_and_untouched() -> None:
    fake = Fake({"MIXED"})
    with pytest.raises(JobsRemain, match="job 7 of alice, 5:00 left still runs") as error:
        service(fake, jobs_s=0.1).take_out(GPU, say)
    assert isinstance(error.value, NotTaken)  # it serves, so it is nobody's share
    assert fake.asked == ["drain gpu1", "resume gpu1"]


@dataclass
class Clock:
    """In place of the module time: nobody waits."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        self.now += 0.001  # so that who forgets to sleep comes to an end, too
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_jobs_are_looked_at_ever_more_seldom_and_not_past_the_time_that_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(slurm_service, "time", clock)
    with pytest.raises(JobsRemain):
        service(Fake({"MIXED"}), jobs_s=64.0).take_out(GPU, say)
    *growing, last = clock.slept
    assert growing[:3] == [0.5, 0.75, 1.125]
    assert growing == sorted(growing)
    assert max(growing) == 10.0
    assert last < 10.0
    assert 64.0 < sum(clock.slept) < 65.0


def test_who_has_just_resumed_a_node_is_asked_now_and_then_until_slurmd_would_have_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(flow_slurm, "time", clock)
    mute = Fake({"IDLE", "NOT_RESPONDING"})
    with pytest.raises(SlurmHeld):
        service(mute).take_out(GPU, say)
    assert 20 <= len(clock.slept) <= 30
    assert set(clock.slept) == {0.01}


def test_a_node_that_others_drain_or_resume_while_jobs_are_waited_for_is_theirs() -> None:
    mine = reason(RUN, "in hand")
    for states, why, told in (
        ({"MIXED", "DRAIN"}, "bad dimm", "bad dimm"),
        ({"MIXED"}, "", "given back to service"),
    ):
        fake = Fake(meanwhile=[({"MIXED"}, ""), ({"MIXED", "DRAIN"}, mine), (states, why)])
        with pytest.raises(SlurmHeld, match=told) as error:
            service(fake).take_out(GPU, say)
        assert isinstance(error.value, NotTaken)
        assert fake.asked == ["drain gpu1"]


def test_a_node_that_fails_stays_drained_and_its_reason_says_what_failed() -> None:
    fake = Fake({"IDLE", "DRAIN"}, reason(RUN, "in hand"))
    told = service(fake).stay_out(GPU, "rdma.port")
    assert fake.why == f"gdr-toolkit: {RUN}: failed: rdma.port"
    assert fake.why in told


def test_slurm_reboots_where_it_can_and_the_node_itself_where_not() -> None:
    for program, asked, itself in (("/sbin/reboot", ["reboot gpu1"], False), ("", [], True)):
        fake, wire = Fake({"IDLE", "DRAIN"}, reason(RUN, "in hand")), Wire()
        site = Site(fake, SlurmConfig(program), {})
        Scheduled(wire, GPU, site, RUN).restart("boot-1", 60)
        assert fake.asked == asked
        assert ("going_down() { :; }" in wire.heard[0]) is not itself


def test_a_node_that_others_have_taken_meanwhile_is_not_rebooted() -> None:
    for states, why in (({"IDLE", "DRAIN"}, "bad dimm"), ({"IDLE"}, "")):
        fake, wire = Fake(states, why), Wire()
        with pytest.raises(SlurmHeld, match="not rebooted"):
            Scheduled(wire, GPU, Site(fake, SlurmConfig("/sbin/reboot"), {}), RUN).restart("b", 60)
        assert (fake.asked, wire.heard) == ([], [])


def test_a_reboot_that_slurm_refuses_gives_the_node_s_lock_back() -> None:
    class Refusing(Fake):
        def reboot(self, node: str, reason: str) -> None:
            raise ApplyError("no")

    fake, wire = Refusing({"IDLE", "DRAIN"}, reason(RUN, "in hand")), Wire()
    with pytest.raises(ApplyError):
        Scheduled(wire, GPU, Site(fake, SlurmConfig("/x"), {}), RUN).restart("boot-1", 60)
    assert "rebooting for" in wire.heard[-1]
    assert len(wire.heard) == 2
