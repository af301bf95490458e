"""A reboot in place of a reload: never under somebody's job, and proven by the boot id."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.holdings import evidence, user
from toolkit.errors import Outcome, TransportError
from toolkit.evidence import Evidence
from toolkit.facts.modules.module_users import parse_holding
from toolkit.features.reload import run as flow
from toolkit.features.reload.io import Done, ReloadAct, ReloadStep, carry_out
from toolkit.features.reload.plan import Reload, Reloading, ReloadResult, read_over, read_what
from toolkit.features.reload.run import ReloadReading, ReloadRequest, look, reload_nodes
from toolkit.hosts.host import Host
from toolkit.progress import Silent as Quiet
from toolkit.rollout.budget import books_of
from toolkit.rollout.history import read_run
from toolkit.rollout.journal import About, stamp
from toolkit.rollout.plan.batches import terms_of
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.budget_run import Counting
from toolkit.verbs.rollout import Agreed

OVER_HCA = {"ways": "session 192.0.2.1 ens1np0\n"}
JOB = {"users": user(7, "python3", "/dev/infiniband/uverbs0")}


class Silent:
    """A transport that nobody runs anything on."""

    name = "gpu01"

    def run(self, script: str, **_: object) -> None:
        raise AssertionError(script)

    def close(self) -> None:
        """Nothing is open."""


class World:
    """One node that says ``texts``; what is done to it is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
        self.runs = runs
        self.written: list[str] = []
        self.texts: dict[str, str] = {}
        self.rebooted: list[str] = []
        self.ran: list[str] = []
        self.lost = False
        self.fleet = Fleet((Host("gpu01"),), lambda _: Silent(), Access())  # type: ignore[arg-type,return-value] # never asked
        monkeypatch.setattr(flow, "ask", lambda _: self.says())
        monkeypatch.setattr(flow, "reboot", lambda _, boot, **__: self.rebooted.append(boot))
        monkeypatch.setattr(
            "toolkit.features.reload.run.reach.carry_out",
            lambda _, text, **__: self.carry_out(text),
        )
        monkeypatch.setattr("toolkit.features.reload.run.time.sleep", lambda _: None)

    def says(self) -> Evidence:
        return evidence(self.texts)

    def carry_out(self, text: str) -> tuple[Done, Evidence]:
        self.ran.append(text)
        if self.lost:
            raise TransportError("gpu01: gone")
        return Done((), frozenset(self.says().text("modules").split())), self.says()

    def bring(self, what: str, over: str = "", *, reboot: bool) -> ReloadResult:
        asked = ReloadRequest(read_what(what), read_over(over), reboot)
        return self.reload(look(self.fleet, asked), asked).get().result

    def reload(
        self, looked: list[Outcome[ReloadReading]], asked: ReloadRequest
    ) -> Outcome[Reloading]:
        """A run of its own; what its journal has is in ``written``."""
        folder = RunFolder(self.runs, "reload", datetime.now(UTC))
        agreed = Agreed(terms_of(["gpu01"]), About("reload", "op@here", stamp()))
        [outcome] = reload_nodes(
            self.fleet, looked, asked, Counting(folder, agreed)
        ).outcomes.values()
        if folder.path.exists():  # not where nothing was to be done
            run = read_run(self.runs, folder.path.name)
            self.written = [each.phase for each in run.story.events]
        return outcome


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_a_refused_node_reboots_where_that_was_said(world: World) -> None:
    world.texts = OVER_HCA
    assert world.bring("rdma", reboot=False) is ReloadResult.REFUSED
    assert world.rebooted == []
    assert world.bring("rdma", reboot=True) is ReloadResult.REBOOTED
    assert world.rebooted == ["11111111-2222-3333-4444-555555555555"]
    assert world.ran == []


def test_a_node_with_a_job_does_not(world: World) -> None:
    world.texts = OVER_HCA | JOB
    assert world.bring("rdma", reboot=True) is ReloadResult.REFUSED
    assert world.rebooted == []


def test_nor_one_with_a_job_that_has_nothing_to_do_with_the_modules(world: World) -> None:
    world.texts = OVER_HCA | {"users": user(8, "train", "/dev/nvidia0")}
    assert world.bring("rdma", reboot=True) is ReloadResult.REFUSED
    assert world.bring("rdma", "job:train", reboot=True) is ReloadResult.REBOOTED
    assert world.written == ["planned", "begun", "rebooting", "done"]


def test_nor_one_where_a_job_begins_while_we_ask(world: World) -> None:
    world.texts = OVER_HCA
    asked = ReloadRequest(read_what("rdma"), reboot=True)
    looked = look(world.fleet, asked)
    world.texts = OVER_HCA | JOB
    assert world.reload(looked, asked).get().result is ReloadResult.REFUSED
    assert world.rebooted == []
    assert world.written == ["planned", "begun", "done"]


def test_nor_one_whose_devices_guests_have(world: World) -> None:
    world.texts = {"guests": "0000:19:00.2\n"}
    assert world.bring("rdma", reboot=True) is ReloadResult.REFUSED


def test_unless_the_job_was_named(world: World) -> None:
    world.texts = OVER_HCA | JOB
    assert world.bring("rdma", "job:python3", reboot=True) is ReloadResult.REBOOTED


def test_a_node_that_can_be_reloaded_is_not_rebooted(world: World) -> None:
    assert world.bring("rdma", reboot=True) is ReloadResult.RELOADED
    assert world.rebooted == []
    assert world.written == ["planned", "begun", "applying", "done"]


def test_over_our_own_interface_the_node_is_waited_for(world: World) -> None:
    world.texts, world.lost = OVER_HCA, True
    assert world.bring("rdma", "ssh:ens1np0", reboot=True) is ReloadResult.RELOADED
    assert len(world.ran) == 1
    assert " ens1np0 end\n" in world.ran[0]


def test_a_connection_lost_elsewhere_is_an_error(world: World) -> None:
    world.lost = True
    with pytest.raises(TransportError, match="gone"):
        world.bring("rdma", reboot=True)
    assert books_of(world.runs).nodes == {"gpu01"}, "left midway: nobody knows what it has"


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        pytest.param(["all"], 1, id="at-once"),
        pytest.param(["gone", "none", "all"], 3, id="by-and-by"),
    ],
)
def test_a_node_is_waited_for_until_it_answers_with_its_modules(
    world: World, monkeypatch: pytest.MonkeyPatch, answers: list[str], asked: int
) -> None:
    left, closed, told = list(answers), list[int](), world.says()

    def ask(_: object) -> Evidence:
        now = left.pop(0)
        if now == "gone":
            raise TransportError("gpu01: no route")
        return told if now == "all" else evidence({**OVER_HCA, "modules": "ext4 1 0 - Live 0x0\n"})

    class Wire(Silent):
        def close(self) -> None:
            closed.append(1)

    found = Reload(("mlx5_ib",), ("mlx5_ib",), ())
    monkeypatch.setattr(flow, "ask", ask)
    done = flow._after_silence(Wire(), found)  # type: ignore[arg-type] # never asked
    assert done == Done((), frozenset(parse_holding(told).modules))
    assert (len(closed), left) == (asked, [])


def test_a_node_that_does_not_come_back_in_time_is_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "BACK_S", 0.0)
    found = Reload(("mlx5_ib",), ("mlx5_ib",), ())
    bare = evidence({"modules": "ext4 1 0 - Live 0x0\n"})
    monkeypatch.setattr(flow, "ask", lambda _: bare)
    done = flow._after_silence(Silent(), found)  # type: ignore[arg-type] # never asked
    assert "mlx5_ib" not in done.loaded

    def gone(_: object) -> Evidence:
        raise TransportError("gpu01: no route")

    monkeypatch.setattr(flow, "ask", gone)
    with pytest.raises(TransportError, match="no route"):
        flow._after_silence(Silent(), found)  # type: ignore[arg-type] # never asked


@pytest.mark.parametrize(
    ("ok", "loaded", "rebooting", "result", "missing"),
    [
        (True, {"nvidia_peermem"}, False, ReloadResult.RELOADED, ()),
        (True, set(), False, ReloadResult.FAILED, ("nvidia_peermem",)),
        (False, {"nvidia_peermem"}, False, ReloadResult.FAILED, ()),
        (False, set(), True, ReloadResult.REBOOTED, ("nvidia_peermem",)),
    ],
)
def test_a_reload_is_done_where_each_step_went_well_and_all_is_there(
    ok: bool, loaded: set[str], rebooting: bool, result: ReloadResult, missing: tuple[str, ...]
) -> None:
    before = Reloading(
        ReloadResult.READY, Reload((), ("nvidia_peermem",), ()), parse_holding(evidence())
    )
    step = ReloadStep(ReloadAct.LOAD, "nvidia_peermem", ok)
    told = flow._told(before, Done((step,), frozenset(loaded), rebooting))
    assert (told.result, told.missing) == (result, missing)
    assert told.rebooted is rebooting


class Says(Silent):
    """A node that answers with this text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def run(self, script: str, **_: object) -> Result:  # type: ignore[override] # it answers
        return Result(9, self.text, "")


BEGUN = "= begin ok gdr-toolkit/1\n"
AFTER = "= modules-after ok x\n|nvidia 1 0 -\n|\n"


def test_of_each_step_the_last_words_are_told() -> None:
    words = "".join(f"|{number}\n" for number in range(9))
    steps = (
        f"= 1.unload ok rmmod a\n= 2.load failed:1 modprobe b\n{words}"
        "= 3.load timeout modprobe c\n|x\n= 4.other failed:1 d\n= x.load failed:1 e\n"
    )
    done, _ = carry_out(Says(f"{BEGUN}{steps}{AFTER}= end ok 6\n"), "")
    assert [str(each) for each in done.steps] == [
        "unload a: done",
        "load b: failed: 3; 4; 5; 6; 7; 8",
        "load c: failed: no answer in time, abandoned",
    ]
    assert (done.loaded, done.rebooting) == (frozenset({"nvidia"}), False)


@pytest.mark.parametrize(
    "text",
    ["", BEGUN, f"{BEGUN}{AFTER}", f"{BEGUN}{AFTER}= more ok x\n|y\n", f"{BEGUN}= end ok 0\n"],
)
def test_a_script_that_broke_off_is_no_reload(text: str) -> None:
    with pytest.raises(TransportError, match="gpu01: the script broke off, with status 9"):
        carry_out(Says(text), "")


def test_each_step_is_noted_as_it_ends_and_nothing_else(world: World) -> None:
    class Heard(Quiet):
        def __init__(self) -> None:
            self.notes: list[tuple[str, str]] = []

        def note(self, host: str, text: str) -> None:
            self.notes.append((host, text))

    heard = Heard()
    fleet = replace(world.fleet, access=Access(progress=heard))
    log = flow._log(fleet, Host("gpu01"))
    for line in ("= 1 ok modprobe -r mlx5_ib", "= begin ok gdr", "|1 2 3 4", "= 2 ok", ""):
        log(line)
    log(f"= 2 ok {'x' * 90}")
    assert heard.notes == [("gpu01", "modprobe -r mlx5_ib"), ("gpu01", "x" * 80)]
    flow._note(fleet, Host("gpu01"))("so")
    assert heard.notes[-1] == ("gpu01", "so")
