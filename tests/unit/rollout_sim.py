"""A rollout over simulated nodes, from its first controller to its last; the laws of a fleet."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache, partial
from random import Random

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import node
from tests.evidence.healthy_boot import grub
from tests.unit.planning import NO_PT, TRANSLATED, frames, placed
from tests.unit.rollout_trials import TRIAL_FAULTS, TrialNode, TrialWire, planned_trial
from tests.unit.rollout_world import FAULTS, NEVER, Killed, Node, Wire, World, hold
from toolkit.cli.options import Said
from toolkit.errors import Outcome, TransportError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.node import collect, deliver, reboot
from toolkit.plan.bundle import Bundle
from toolkit.report.table import Painter
from toolkit.rollout import hooks
from toolkit.rollout.events import steps_of
from toolkit.rollout.hooks import HookError
from toolkit.rollout.journal import FILE, Event, Journal
from toolkit.rollout.plan.batches import Phase, pasts
from toolkit.rollout.run import HostWorkers
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.pool import attempt
from toolkit.verbs import provision, provision_node
from toolkit.verbs.access import Access, Fleet, state_dir
from toolkit.verbs.cli.rollout import Resumed, agreed_of, resumption
from toolkit.verbs.cli.session import Session
from toolkit.verbs.plan import Planned, plan_node
from toolkit.verbs.provision import Provisioned, ProvisionOptions
from toolkit.verbs.rollout import roll_out
from toolkit.want import Want

TODAY = date(2026, 11, 22)
ID = "a-run"
ENOUGH = 60  # controllers; by then the faults have ended


@cache
def plans() -> dict[str, Planned]:
    """What is planned, by the real checks, for each state that a simulated node can be in."""
    plan = partial(plan_node, "x", want=Want(), today=TODAY, untried=True)
    old = plan(node(frames(TRANSLATED)))
    ours = placed({each.path: each.text for each in old.plan.changes})
    entry = {"boot-entries": grub(f"{NO_PT} iommu=pt")}
    return {
        "old": old,
        "written": plan(node(frames(TRANSLATED, ours, entry))),
        "new": plan(node(frames(ours))),
        "sick": plan(node(frames(ours), board=BOARD.but(GPUS[0], driver=""))),
    }


def planned(host: str, evidence: Evidence, *_: object, **__: object) -> Planned:
    """In place of ``plan_node``: judged once a state, not once a look."""
    known = plans()[evidence.text("sim").strip()]
    boot_id = evidence.text("boot-id").strip()
    bundle = Bundle((), (f"expect boot-id {boot_id}",), "{}", "") if known.bundle else None
    judged = replace(known.judged, host=host)
    return replace(known, judged=judged, boot_id=boot_id, bundle=bundle)


@dataclass
class Fleetful:
    """The nodes, and what was said of the rollout."""

    seed: int
    count: int
    rate: float
    kills: bool = True
    trials: bool = False  # changed command lines are tried by one boot
    nodes: dict[str, Node] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # hosts that a controller has called done
    turns: int = 0

    def __post_init__(self) -> None:
        dice = Random(self.seed)  # noqa: S311 chance, not secrecy
        self.world = World(dice, self.rate, faults=TRIAL_FAULTS if self.trials else FAULTS)
        make = TrialNode if self.trials else Node
        self.nodes = {f"n{at:03d}": make(f"n{at:03d}") for at in range(self.count)}
        self.said: dict[str, str | int | bool] = {
            "profile": "peermem",
            "serial": dice.choice(["1,10%,50%", "2,25%", "5%", "1,100%"]),
            "max_unavailable": dice.choice(["8", "10%", "25%", "100%"]),
            "max_fail": dice.choice(["3", "10%", "50%", "100%"]),
            "drain": dice.choice(["drain {host}", ""]),
        }
        self.said["undrain"] = "undrain {host}" if self.said["drain"] else ""

    @property
    def planned(self) -> Callable[..., Planned]:
        """In place of ``plan_node``."""
        return planned_trial if self.trials else planned

    @property
    def hosts(self) -> tuple[Host, ...]:
        return tuple(map(Host, self.nodes))

    def fleet(self) -> Fleet:
        hooks = bool(self.said["drain"])
        wire = TrialWire if self.trials else Wire
        wires = {name: wire(self.world, node, hooks=hooks) for name, node in self.nodes.items()}
        return Fleet(self.hosts, lambda host: wires[host.name], Access())


class Inline(HostWorkers[Provisioned]):
    """Each host's turn is worked through when it begins, on a clock of its own, and handed
    over when that clock says so; a controller that dies has cut them all at that moment."""

    def __init__(self, of: Fleetful, budget: int, canary: tuple[str, ...]) -> None:
        self._of, self._budget, self._canary = of, budget, canary
        self._ends: list[tuple[float, str, Outcome[Provisioned]]] = []
        self._cut: set[str] = set()
        self.work: Callable[[Host], Provisioned]

    def begin(self, host: Host) -> None:
        world, now = self._of.world, self._of.world.local
        self._hold(host.name, now)
        try:
            outcome = attempt(host, self.work)
            heapq.heappush(self._ends, (world.local, host.name, outcome))
        except Killed:
            self._cut.add(host.name)
        world.local = now

    def next(self, limit_s: float) -> Outcome[Provisioned] | None:
        world = self._of.world
        end, _, outcome = heapq.heappop(self._ends) if self._ends else (NEVER, "", None)
        if end >= world.dies_at or outcome is None:
            world.local = world.dies_at
            raise Killed
        world.local = end
        return outcome

    def _hold(self, name: str, now: float) -> None:
        """The laws of a fleet, as the nodes are: not as the controller thinks they are."""
        nodes = self._of.nodes
        hold(name not in self._of.told, f"{name} was done, and begun again")
        if name not in self._canary:
            bad = [each for each in self._canary if not nodes[each].as_wanted]
            hold(not bad, f"{name} was begun though the canary {bad} had not succeeded")
        in_hand = {each for _, each, _ in self._ends} | self._cut
        away = {each for each, node in nodes.items() if not node.serves(now)} | in_hand
        if name not in away:
            hold(len(away) < self._budget, f"{len(away)} of {self._budget} were away at {name}")


def patch(monkeypatch: pytest.MonkeyPatch, of: Fleetful) -> None:
    """Time, hooks, jobs, plans and the disk are the world's; everything else is real."""
    world = of.world
    for module in (provision, provision_node, reboot):
        monkeypatch.setattr(module, "time", world)
    monkeypatch.setattr(provision, "plan_node", of.planned)
    monkeypatch.setattr(provision_node, "plan_node", of.planned)
    monkeypatch.setattr(collect, "probe_script", lambda *_, **__: "probe")
    monkeypatch.setattr(deliver, "engine", lambda: "")

    def hook(name: str, command: str, host: Host, limit_s: float) -> str:
        node, fault = of.nodes[host.name], world.fault(name)
        hold(name == "drain" or node.as_wanted, f"{host.name} was given back as it is")
        if fault != "fails":
            node.drained = name == "drain"
        world.pass_time(limit_s if fault == "hangs" else 2.0)
        if fault:
            raise HookError(f"{host.name}: {name} {fault}")
        return ""

    def who_works(wire: Wire) -> str:
        world.pass_time(0.5)
        fault = world.fault("jobs")
        if fault == "refused":
            raise TransportError(f"{wire.name}: {fault}")
        return fault

    monkeypatch.setattr(provision, "who_works", who_works)
    real_add = Journal.add

    def add(journal: Journal, *events: Event) -> None:
        world.pass_time(0.0)  # the dead write nothing
        if world.dice.random() < world.rate / 200:
            world.counts["journal: disk full"] += 1
            ((pages,),) = journal._rows("PRAGMA page_count")
            journal._rows(f"PRAGMA max_page_count = {pages}")
        real_add(journal, *events)

    monkeypatch.setattr(hooks, "run_hook", hook)
    monkeypatch.setattr(Journal, "add", add)


def run_to_the_end(of: Fleetful) -> None:
    """Controllers, one after the other, until every node is as wanted."""
    while len(of.told) < of.count:
        left = sorted({n.state(NEVER) for k, n in of.nodes.items() if k not in of.told})
        hold(of.turns < ENOUGH, f"seed {of.seed}: no end after {of.turns} controllers: {left}")
        of.turns += 1
        if of.turns > ENOUGH // 2:
            of.world.rate, of.kills = 0.0, False
        _turn(of)
        for each in of.nodes.values():
            if of.world.dice.random() < 0.7:
                each.repair(of.world.local)


def _turn(of: Fleetful) -> None:
    """One controller, from its start to its end or its death."""
    world = of.world
    if of.kills and world.dice.random() < 0.6:
        world.dies_at = world.local + world.dice.expovariate(1 / 3000)
    try:
        _controller(of)
    except Killed:
        world.counts["controller: SIGKILL"] += 1
    world.dies_at = NEVER
    if (state_dir() / "runs" / ID / FILE).exists():
        _hold_the_journal(of)
    world.local += world.dice.uniform(60, 7200)


def _controller(of: Fleetful) -> None:
    folder = RunFolder.again(state_dir() / "runs" / ID)
    known = (folder.path / FILE).exists()
    earlier: Resumed | None = resumption(Said({"resume": ID})) if known else None
    said = earlier.said if earlier else Said(of.said)
    session = Session("provision", said, datetime.now(UTC), folder, Painter(False))
    fleet = earlier.left(of.fleet()) if earlier else of.fleet()
    rate = of.world.rate
    of.world.rate = rate / 8  # or more are out of reach at each start than any budget allows
    looked = [attempt(host, partial(_look, of, fleet)) for host in fleet.hosts]
    of.world.rate = rate
    pending = [each.host for each in looked if each.value and each.value.pending]
    agreed = agreed_of(session, pending, earlier)
    hands = Inline(of, agreed.terms.budget, agreed.terms.canary)

    def make_hands(work: Callable[[Host], Provisioned]) -> Inline:
        hands.work = work
        return hands

    roll_out(
        fleet,
        looked,
        Want(),
        TODAY,
        options=ProvisionOptions(reboot=True, untried=not of.trials),
        folder=folder,
        agreed=agreed,
        make_hands=make_hands,
    )


def _look(of: Fleetful, fleet: Fleet, host: Host) -> Planned:
    return of.planned(host.name, collect.collect(fleet.connect(host)))


def _hold_the_journal(of: Fleetful) -> None:
    """What a controller has left on disk is what its nodes are."""
    with Journal.open(state_dir() / "runs" / ID) as journal:
        events = journal.story().events
    acts = {(event.host, event.phase) for event in events}
    for name, past in pasts(steps_of(events)).items():
        node_, last = of.nodes[name], past.last
        if last is Phase.DONE:
            hold(node_.as_wanted and not node_.drained, f"{name} is called done, and is not")
            of.told.add(name)
        if node_.half:
            hold(past.begun, f"{name} is half changed, and was left as {last}")
        hold(not node_.files or (name, "applying") in acts, f"{name} was changed unwritten")
        hold(not node_.booted_by_us or (name, "rebooting") in acts, f"{name}: boot unwritten")
