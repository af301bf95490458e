"""One host's turn in a rollout: out of service, rounds, back; what is done, and in which order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.evidence.build import node
from tests.rollout.test_hook import Told
from tests.verbs.test_provision_worse import FAIL, NOW, UNKNOWN, WELL, judged
from toolkit.checks.judged import Judged
from toolkit.errors import ApplyError, Outcome, TransportError
from toolkit.groups import SiteWants
from toolkit.hosts.host import Host
from toolkit.plan.artefact import Trigger
from toolkit.plan.plan import Plan
from toolkit.rollout import hooks as site_hooks
from toolkit.rollout.hooks import Hooks
from toolkit.rollout.journal import About, Journal
from toolkit.rollout.plan.batches import Past, Phase, Step
from toolkit.rollout.runs import RunFolder
from toolkit.verbs import provision_node as turns
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import GONE, NodeRounds, Provisioned, ProvisionOptions
from toolkit.verbs.provision_node import TurnWork, _Turn
from toolkit.want import Want

HOST = Host("gpu1")
SOME = Plan(triggers=(Trigger.DEPMOD,))
BARE = replace(WELL, gpus=False)
WAS_OUT = (Phase.BEGUN, Phase.DRAINING, Phase.DRAINED, Phase.APPLYING)
BACK = (*WAS_OUT, Phase.UNDRAINING)  # nobody knows whether it went well
COMMANDS = Hooks(drain="out {host}", undrain="in {host}", limit_s=7.0)
TAKEN = ["closed", "draining", "drain: out {host}", "drained"]
TAKEN_BY_IT = ["closed", "draining", "take out", "drained"]
GIVEN = ["closed", "undraining", "undrain: in {host}"]
GIVEN_BY_IT = ["closed", "undraining", "give back"]


class Node(Told):
    """All of a turn's surroundings in one."""

    holds = False  # the scheduler has it out of service by our doing

    def has_out(self, host: Host) -> bool:
        return self.holds


class TurnCase(Struct):
    """A turn, and what it does."""

    hooks: Hooks | None  # None for a scheduler
    heard: list[str]
    past: tuple[Phase, ...] = ()
    pending: bool = True
    holds: bool = False
    after: Judged = WELL
    service: str = ""
    kept: tuple[str, ...] = ()


BOTH = ("gpu1.drain.log", "gpu1.undrain.log")


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Node:
    """Hears what the site's own commands are, too."""
    told = Node()

    def run_hook(name: str, command: str, host: Host, limit_s: float) -> str:
        assert (host, limit_s) == (HOST, COMMANDS.limit_s)
        told.heard.append(f"{name}: {command}")
        return f"{name} said\n"

    monkeypatch.setattr(site_hooks, "run_hook", run_hook)
    return told


def turn(at: Node, case: TurnCase, runs: Path, *, wants: SiteWants | None = None) -> _Turn:
    at.holds = case.holds
    hooks = Hooks(scheduler=at) if case.hooks is None else case.hooks
    agreed = {"gpu1": Outcome("gpu1", Planned(WELL, SOME if case.pending else NO_CHANGE))}
    fleet = Fleet((HOST,), lambda _: at, Access())
    folder = RunFolder(runs, "provision", datetime.now(UTC))
    work = TurnWork(
        fleet,
        wants or SiteWants(Want()),
        WELL.today,
        ProvisionOptions(),
        folder,
        agreed,
        hooks=hooks,
    )
    return _Turn(work, HOST, at, at, Past(tuple(Step("gpu1", each) for each in case.past)))


@pytest.mark.parametrize(
    "case",
    [
        TurnCase(Hooks(), ["bring"]),
        TurnCase(Hooks(), ["bring"], after=judged(FAIL)),
        TurnCase(Hooks(), [], pending=False),
        TurnCase(COMMANDS, [], pending=False),
        TurnCase(None, [], pending=False),
        TurnCase(COMMANDS, [*TAKEN, "bring", *GIVEN], kept=BOTH),
        TurnCase(replace(COMMANDS, undrain=""), [*TAKEN, "bring"], kept=BOTH[:1]),
        TurnCase(replace(COMMANDS, drain=""), ["bring", *GIVEN], kept=BOTH[1:]),
        TurnCase(None, [*TAKEN_BY_IT, "bring", *GIVEN_BY_IT], kept=BOTH, service="others hold it"),
        TurnCase(COMMANDS, ["bring", *GIVEN], past=WAS_OUT, kept=BOTH[1:]),
        TurnCase(COMMANDS, [*TAKEN, "bring", *GIVEN], past=BACK, kept=BOTH),
        TurnCase(COMMANDS, ["bring", *GIVEN], past=BACK, pending=False, kept=BOTH[1:]),
        TurnCase(
            None,
            [*TAKEN_BY_IT, "bring", *GIVEN_BY_IT],
            past=WAS_OUT,
            kept=BOTH,
            service="others hold it",
        ),
        TurnCase(
            None,
            ["bring", *GIVEN_BY_IT],
            pending=False,
            holds=True,
            kept=BOTH[1:],
            service="others hold it",
        ),
        *(
            TurnCase(
                None,
                [*TAKEN_BY_IT, "bring", "closed", f"stay: {why}"],
                after=after,
                kept=BOTH[:1],
                service="stays",
            )
            for why, after in ((NOW, judged(FAIL)), (NOW, judged(UNKNOWN)), (GONE, BARE))
        ),
        TurnCase(COMMANDS, [*TAKEN, "bring", "closed"], after=judged(FAIL), kept=BOTH[:1]),
        TurnCase(replace(COMMANDS, drain=""), ["bring"], after=judged(FAIL)),
    ],
    ids=[
        "nobody-schedules",
        "nobody-is-told",
        "nothing-to-do",
        "nothing-to-do-commands",
        "nothing-to-do-scheduler",
        "commands",
        "is-not-given-back",
        "is-given-back-alone",
        "scheduler",
        "was-drained-before",
        "may-have-been-given-back",
        "was-brought-before",
        "a-scheduler-is-asked-again",
        "a-scheduler-has-it-out",
        "fails",
        "is-unknown",
        "lost-its-gpus",
        "fails-commands",
        "fails-given-back-alone",
    ],
)
def test_a_node_is_out_of_service_from_before_its_change_until_it_is_as_wanted(
    case: TurnCase, at: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bring(_: NodeRounds, start: Planned) -> Provisioned:
        at.heard.append("bring")
        return Provisioned(start.judged, case.after)

    monkeypatch.setattr(NodeRounds, "bring", bring)
    found = Planned(WELL, SOME if case.pending else NO_CHANGE)
    monkeypatch.setattr(_Turn, "_look", lambda _: found)
    done = turn(at, case, tmp_path).go()
    assert (at.heard, done.service) == (case.heard, case.service)
    assert done.before is WELL
    assert done.after is (case.after if "bring" in case.heard else WELL)
    kept = sorted(tmp_path.glob("*/*"))
    assert tuple(each.name for each in kept) == case.kept
    said = {each.name: each.read_text() for each in kept}
    if case.hooks is None:
        by_it = {"gpu1.drain.log": "taken", "gpu1.undrain.log": "others hold it"}
        assert said.items() <= by_it.items()
    else:
        assert said == {each: f"{each.split('.')[1]} said\n" for each in case.kept}


@pytest.mark.parametrize(
    ("hooks", "heard"),
    [
        (None, [*TAKEN_BY_IT, "closed", "stay: gpu1: it broke"]),
        (COMMANDS, [*TAKEN, "closed"]),
        (Hooks(), []),
        (replace(COMMANDS, drain=""), []),
    ],
)
def test_a_node_that_could_not_be_brought_stays_out_and_its_scheduler_is_told_why(
    hooks: Hooks | None,
    heard: list[str],
    at: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bring(_: NodeRounds, start: Planned) -> Provisioned:
        raise ApplyError("gpu1: it broke")

    monkeypatch.setattr(NodeRounds, "bring", bring)
    with pytest.raises(ApplyError, match="gpu1: it broke"):
        turn(at, TurnCase(hooks, []), tmp_path).go()
    assert at.heard == heard


def test_the_rounds_of_a_turn_have_all_that_the_run_was_told(
    at: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a group its own wishes; the same connection, and the same witness."""
    found: list[NodeRounds] = []

    def bring(rounds: NodeRounds, start: Planned) -> Provisioned:
        found.append(rounds)
        return Provisioned(start.judged, start.judged)

    monkeypatch.setattr(NodeRounds, "bring", bring)
    wish = Want(keep_runs=77)
    wants = SimpleNamespace(of=lambda name: wish if name == "gpu1" else Want())
    case = turn(at, TurnCase(Hooks(), []), tmp_path, wants=wants)  # type: ignore[arg-type] # it asks by a name
    case.go()
    work, (rounds,) = case.work, found
    assert (rounds.host, rounds.transport, rounds.witness) == (HOST, at, at)
    assert rounds.want is wish
    assert (rounds.fleet, rounds.today) == (work.fleet, work.today)
    assert (rounds.options, rounds.folder) == (work.options, work.folder)


@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_turn_has_its_own_connection_and_its_own_past_and_writes_where_a_journal_is(
    journal: bool, fails: bool, at: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past((Step("gpu1", Phase.BEGUN),))

    def go(turn: _Turn) -> Provisioned:
        turn.witness.about_to(Phase.LOOKING)
        assert (turn.host, turn.transport, turn.past) == (HOST, at, past)
        if fails:
            raise TransportError("gpu1: away")
        return Provisioned(WELL, WELL)

    monkeypatch.setattr(_Turn, "go", go)
    work = turn(at, TurnCase(Hooks(), []), tmp_path).work
    with Journal.create(tmp_path / "run", About("provision", "op@here", "")) as book:
        work = replace(work, journal=book if journal else None, past={"gpu1": past})
        if fails:
            with pytest.raises(TransportError):
                work.take_turn(HOST)
        else:
            assert work.take_turn(HOST) == Provisioned(WELL, WELL)
        assert [each.phase for each in book.of("gpu1")] == ["looking"] * journal
    assert at.heard == ["closed"]


def test_a_node_that_an_earlier_controller_left_is_looked_at_and_planned_for_anew(
    at: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, asked = node(), list[tuple[object, ...]]()
    wish, shelf = Want(keep_runs=77), object()

    def plan_node(*words: object, untried: bool) -> Planned:
        asked.append((*words, untried))
        return Planned(WELL, SOME)

    monkeypatch.setattr(turns, "collect", lambda link: evidence if link is at else None)
    monkeypatch.setattr(turns, "plan_node", plan_node)
    case = turn(at, TurnCase(Hooks(), []), tmp_path, wants=SiteWants(wish))
    options = ProvisionOptions(shelf=shelf, untried=True)  # type: ignore[arg-type] # a name for it
    case.work = replace(case.work, options=options)
    assert case._look() == Planned(WELL, SOME)
    assert asked == [("gpu1", evidence, wish, WELL.today, shelf, True)]
    assert at.heard == ["looking"]
    (kept,) = tmp_path.glob("*/gpu1.again.evidence")
    assert kept.read_text() == evidence.dump()


class Clock:
    """Passes as it is waited for, and by a second at each look at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        self.now += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += 50


ILL = judged(FAIL)


@pytest.mark.parametrize(
    ("last", "found", "looks"),
    [
        (Step("gpu1", Phase.REBOOTING, "old"), [ILL, ILL, WELL], 3),
        (Step("gpu1", Phase.REBOOTING, "old"), [WELL], 1),
        (Step("gpu1", Phase.REBOOTING, "old"), [ILL] * 9, 5),
        (Step("gpu1", Phase.REBOOTING, "new"), [ILL, WELL], 1),
        (Step("gpu1", Phase.APPLYING, "old"), [ILL, WELL], 1),
    ],
    ids=["comes-up", "is-up", "never-comes-up", "was-not-booted", "nobody-booted-it"],
)
def test_after_a_boot_that_nobody_saw_a_node_has_time_to_come_up(
    *,
    last: Step,
    found: list[Judged],
    looks: int,
    at: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, left = Clock(), list(found)
    monkeypatch.setattr(turns, "time", clock)
    monkeypatch.setattr(_Turn, "_look", lambda _: Planned(left.pop(0), SOME, boot_id="new"))
    case = turn(at, TurnCase(Hooks(), []), tmp_path)
    case.past = Past((last,))
    assert case._start().judged is found[looks - 1]
    assert (len(found) - len(left), clock.slept) == (looks, [2.0] * (looks - 1))


def test_a_node_that_never_comes_back_from_a_boot_is_not_waited_for_for_ever(
    at: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: _Turn) -> Planned:
        raise TransportError("gpu1: away")

    clock = Clock()
    monkeypatch.setattr(turns, "time", clock)
    monkeypatch.setattr(_Turn, "_look", look)
    case = turn(at, TurnCase(Hooks(), [], past=(Phase.REBOOTING,)), tmp_path)
    with pytest.raises(TransportError):
        case._start()
    assert 900 < clock.now < 1000
    assert at.heard == ["closed"] * (len(clock.slept) + 1)
