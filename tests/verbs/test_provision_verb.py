"""``provision`` as it is typed: what it plans with, whom it asks, what the rollout is handed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.invoked import here
from tests.unit.judged import SICK, judged
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.facts.slurm import SlurmConfig
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run.nodes import Site
from toolkit.hosts.host import Host, select
from toolkit.node.audit import of_run
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Act
from toolkit.plan.plan import Plan
from toolkit.rollout.journal import About, Event, Journal
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import NotBegun
from toolkit.upgrade import Upgrade
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import provision as verb
from toolkit.verbs.cli.session import Session
from toolkit.verbs.cli.upgrade import with_packages
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import Provisioned, ProvisionOptions, untouched

KERNEL = "6.8.0-90-generic"
CHANGE = Plan(triggers=(Trigger.DEPMOD,))
BOOT = Plan(triggers=(Trigger.REBOOT,))
INSTALL = Plan(
    triggers=(Trigger.INSTALL_PACKAGES,),
    acts=(Act(Trigger.INSTALL_PACKAGES, ("apt-get", "-y", "linux=1")),),
)
AWAY = TransportError("gpu9: away")
SLURM = Site(cast("Slurm", None), cast("SlurmConfig", None), {})


@dataclass
class Link:
    """A way to a node, of which is told when it is let go."""

    name: str
    did: list[str]

    def close(self) -> None:
        self.did.append(f"close {self.name}")


@dataclass
class World:
    """Nodes with their plans, and all that was done, in its order."""

    demo: bool = False
    slurm: Site | None = None
    drained: Sequence[str] = ()  # by a run of ours
    plans: dict[str, Plan | Exception] = field(default_factory=dict)
    ends: dict[str, Provisioned] = field(default_factory=dict)  # else a node ends as it was
    halt: str = ""
    did: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    planning: Any = None  # what it was handed, as what follows
    rolling: Any = None
    lines: Any = None

    @contextmanager
    def fleet(self, said: Said) -> Iterator[Fleet]:
        self.said.append(said)
        hosts = tuple(select(said.text("hosts")))
        yield Fleet(hosts, self.connect, Access(), demo=self.demo, slurm=self.slurm)

    def connect(self, host: Host) -> Any:
        return Link(host.name, self.did)

    def plan_all(self, fleet: Fleet, *told: object, **more: object) -> list[Outcome[Planned]]:
        outcomes: list[Outcome[Planned]] = []
        for host in fleet.hosts:
            if self.slurm is None:
                fleet.leave(host, fleet.connect(host))
            plan = self.plans.get(host.name, NO_CHANGE)
            if isinstance(plan, Plan):
                outcomes.append(Outcome(host.name, Planned(judged(host.name), plan)))
            else:
                outcomes.append(Outcome(host.name, error=cast("TransportError", plan)))
        self.planning = SimpleNamespace(fleet=fleet, told=told, more=more, planned=outcomes)
        return outcomes

    def roll_out(self, fleet: Fleet, planned: Any, *told: object, **more: Any) -> Any:
        self.did.append("roll")
        self.rolling = SimpleNamespace(fleet=fleet, planned=planned, told=told, **more)
        outcomes = {each.host: untouched(each) for each in planned}
        outcomes |= {host: Outcome(host, each) for host, each in self.ends.items()}
        return Rolled(outcomes, self.halt)

    def service(self, site: Site, run: str) -> SimpleNamespace:
        assert site is self.slurm
        assert run.endswith("-provision")
        return SimpleNamespace(has_out=lambda host: host.name in self.drained)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("fleet", "plan_all", "roll_out"):
        monkeypatch.setattr(verb, name, getattr(made, name))
    monkeypatch.setattr(verb, "SlurmService", made.service)
    monkeypatch.setattr(verb, "consent", lambda asked, _: made.did.append(asked))
    monkeypatch.setattr(verb, "shelf_of", lambda _: "shelf")
    return made


@dataclass
class Run:
    """The verb, on so many nodes as there are plans."""

    world: World
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, words: str, *plans: Plan | Exception) -> int:
        self.world.plans = {f"gpu{at}": each for at, each in enumerate(plans, start=1)}
        return here(
            self.monkeypatch, "provision", "--hosts", f"gpu[1-{len(plans)}]", *words.split()
        )


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(world, monkeypatch)


@pytest.mark.parametrize(
    ("words", "plans", "asked"),
    [
        pytest.param("--reboot", (CHANGE,), "change 1 node?", id="none-boots"),
        pytest.param("", (BOOT, BOOT), "change 2 nodes?", id="none-may-boot"),
        pytest.param(
            "--reboot", (BOOT, CHANGE, NO_CHANGE), "change 2 nodes, reboot 1 of them?", id="boots"
        ),
        pytest.param(
            f"--reboot --kernel {KERNEL}",
            (INSTALL, CHANGE),
            "change 2 nodes, reboot 1 of them?",
            id="boots-the-kernel-that-is-installed",
        ),
        pytest.param("--reboot", (INSTALL,), "change 1 node?", id="installs-no-kernel"),
        pytest.param(
            "--serial 1", (CHANGE, NO_CHANGE, CHANGE), "change 2 nodes, in batches of 1, 1?",
            id="batches-of-those-that-change",
        ),
        pytest.param(
            "--serial 1,2 --reboot",
            (BOOT, CHANGE, BOOT),
            "change 3 nodes, reboot 2 of them, in batches of 1, 2?",
            id="all-of-it",
        ),
        pytest.param("--serial 3", (CHANGE,), "change 1 node?", id="one-batch-is-none"),
    ],
)  # fmt: skip
def test_who_agrees_is_told_how_many_change_boot_and_in_which_batches(
    run: Run, world: World, words: str, plans: tuple[Plan, ...], asked: str
) -> None:
    run(words, *plans)
    assert [each for each in world.did if not each.startswith("close")] == [asked, "roll"]


def test_nobody_is_asked_where_nothing_changes_or_the_nodes_are_simulated(
    run: Run, world: World
) -> None:
    run("", NO_CHANGE, AWAY)
    world.demo = True
    run("", BOOT, NO_CHANGE)
    assert [each for each in world.did if "close" not in each] == ["roll", "roll"]
    assert world.rolling.options.reboot, "simulated nodes always may"


@pytest.mark.parametrize(
    ("plans", "drained", "asked", "turns"),
    [
        ((NO_CHANGE, NO_CHANGE), "gpu2", "give 1 node back to service if as wanted?", ("gpu2",)),
        ((CHANGE, NO_CHANGE), "gpu2", "change 1 node?", ("gpu1", "gpu2")),
        ((CHANGE, AWAY), "gpu1 gpu2", "change 1 node?", ("gpu1",)),
        ((NO_CHANGE, AWAY), "gpu2", "", ()),
    ],
    ids=["gives-back", "and-changes", "only-changes", "neither"],
)
def test_a_node_that_a_run_of_ours_left_drained_has_its_turn_though_nothing_changes(
    run: Run,
    world: World,
    *,
    plans: tuple[Plan, ...],
    drained: str,
    asked: str,
    turns: Sequence[str],
) -> None:
    world.slurm, world.drained = SLURM, drained.split()
    run("", *plans)
    assert world.did == [*filter(None, [asked]), "roll"]
    agreed = world.rolling.agreed
    assert agreed.terms.batches == ((turns,) if turns else ())
    assert agreed.hooks.scheduler.site is SLURM


def test_without_slurm_no_node_is_out_of_service_by_it(run: Run, world: World) -> None:
    world.drained = ["gpu1"]
    run("", NO_CHANGE)
    assert world.did == ["close gpu1", "roll"]


@pytest.mark.parametrize(
    ("words", "upgrade", "allowed"),
    [
        ("", Upgrade(), {}),
        (
            f"--reboot --over-jobs --boot-without-trial --kernel {KERNEL} --reason why",
            Upgrade(kernel=KERNEL),
            {"reboot": True, "over_jobs": True, "untried": True},
        ),
        ("--driver 595.58 --ofed 26.04", Upgrade("595.58", "26.04-1.0.0"), {}),
    ],
    ids=["plain", "all-of-it", "packages"],
)
def test_planning_and_rollout_are_handed_what_was_said(
    run: Run, world: World, words: str, upgrade: Upgrade, allowed: dict[str, bool]
) -> None:
    run(words, CHANGE, NO_CHANGE)
    looked, rolled = world.planning, world.rolling
    wants, today, folder, shelf = looked.told
    assert (wants.common.upgrade, shelf) == (upgrade, "shelf")
    assert looked.more["untried"] is allowed.get("untried", False)
    more = looked.more["more"]
    if upgrade == Upgrade():
        assert more is None, "no repository is asked for what nobody wants"
    else:
        assert isinstance(more, partial)
        assert (more.func, more.args) == (with_packages, (upgrade,))
    assert rolled.planned is looked.planned
    assert rolled.fleet is looked.fleet
    assert (rolled.told[0].common, rolled.told[1]) == (wants.common, today)
    assert rolled.folder is folder
    reason = "why" if allowed else ""
    audit = of_run(folder.path.name, reason)
    assert rolled.options == ProvisionOptions(shelf=cast("Any", "shelf"), audit=audit, **allowed)
    about = rolled.agreed.about
    assert (about.verb, about.reason, rolled.agreed.terms.batches) == (
        "provision", reason, (("gpu1",),),
    )  # fmt: skip


def test_the_links_to_nodes_that_change_are_kept_for_it(run: Run, world: World) -> None:
    run("", CHANGE, NO_CHANGE)
    assert world.did == ["close gpu2", "change 1 node?", "roll", "close gpu1"]


def test_who_only_looks_is_told_the_plan(
    run: Run, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--check", CHANGE, NO_CHANGE) == ExitCode.PENDING
    assert sorted(world.did) == ["close gpu1", "close gpu2"]
    assert "as wanted gpu2" in capsys.readouterr().out


def test_a_look_that_was_broken_off_changes_nothing(run: Run, world: World) -> None:
    assert run("", CHANGE, NotBegun("gpu2: not begun")) == ExitCode.STOPPED
    assert world.did == ["close gpu2", "close gpu1"]


@pytest.mark.parametrize("diff", [True, False])
def test_what_is_found_and_planned_is_told_before_anybody_agrees(
    run: Run,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    diff: bool,
) -> None:
    def lines(plans: object, _: object, **more: Any) -> list[str]:
        world.did.append("told")
        judgements = {host: each.host for host, each in more["judged"].items()}
        assert (plans, more["diffs"]) == ([("gpu1", CHANGE), ("gpu2", NO_CHANGE)], diff)
        assert judgements == {"gpu1": "gpu1", "gpu2": "gpu2"}
        return ["the plan"]

    monkeypatch.setattr(verb, "plan_lines", lines)
    run("--diff" * diff, CHANGE, NO_CHANGE, AWAY)
    assert [each for each in world.did if "close" not in each] == [
        "told", "change 1 node?", "roll",
    ]  # fmt: skip
    out = capsys.readouterr().out
    before, _, after = out.partition("\nafter\n\n")
    assert before.startswith("before\n\n")
    assert before.endswith("\n\nthe plan")
    assert "out of reach  gpu3\n" in before
    assert after


@pytest.mark.parametrize(
    ("ends", "code", "healed"),
    [
        ({}, ExitCode.OK, ["gpu1 gpu2"]),
        ({"gpu2": Provisioned(SICK, judged("gpu2"), plans=(CHANGE,))}, ExitCode.OK, []),
        ({"gpu2": Provisioned(SICK, SICK)}, ExitCode.FAILED, []),
        ({"gpu2": Provisioned(SICK, judged("gpu2"), left=BOOT)}, ExitCode.PENDING, []),
    ],
    ids=["nothing-done", "done", "fails", "owes-a-boot"],
)
def test_the_code_is_of_the_end_and_who_did_nothing_hears_who_did(
    run: Run,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ends: dict[str, Provisioned],
    code: ExitCode,
    healed: list[str],
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Session, "healed", lambda _, hosts: told.append(" ".join(hosts)))
    world.ends = ends
    assert run("", NO_CHANGE, NO_CHANGE) == code
    assert told == healed


@pytest.mark.parametrize("halt", ["", "1 failed"])
def test_of_a_rollout_that_stopped_it_is_said_how_it_goes_on(
    run: Run, world: World, capsys: pytest.CaptureFixture[str], halt: str
) -> None:
    world.halt = halt
    run("", CHANGE)
    name = world.rolling.folder.path.name
    told = f" next: invoke runs.show {name}; invoke provision --resume {name}"
    assert (told in capsys.readouterr().err.split("\n")) is bool(halt)


def test_the_document_has_both_ends_the_plan_and_the_steps(
    run: Run, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    well = judged("gpu1")
    world.ends = {
        "gpu1": Provisioned(SICK, well, plans=(CHANGE, BOOT), steps=("one",), rebooted=True),
        "gpu2": Provisioned(SICK, well, plans=(CHANGE,), left=INSTALL, pruned=("old",)),
        "gpu3": Provisioned(SICK, well),
    }
    run("--json", CHANGE, NO_CHANGE, NO_CHANGE)
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["hosts"]}
    triggers = {host: each["plan"] and each["plan"]["triggers"] for host, each in found.items()}
    assert triggers == {"gpu1": ["reboot"], "gpu2": ["install packages"], "gpu3": None}
    assert [found["gpu1"]["steps"], found["gpu2"]["steps"]] == [["one"], ["pruned: old"]]
    assert [found[host]["rebooted"] for host in ("gpu1", "gpu2")] == [True, False]
    states = [{each["status"] for each in found["gpu1"][at]} for at in ("before", "verdicts")]
    assert states == [{"pass", "fail"}, {"pass"}]


@pytest.mark.parametrize("late", [True, False])
def test_a_run_is_gone_on_with_in_its_folder_by_its_words_and_without_who_ended(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, late: bool
) -> None:
    folder = tmp_path / "state/gdr-toolkit/runs/2026-11-21T22-00-00-provision"
    words = json.dumps({"hosts": "gpu[1-5]", "reboot": True, "profile": "peermem"})
    about = About("provision", "op@here", "2026-11-21T22:00:00+00:00", "ticket", words)
    with Journal.create(folder, about) as journal:
        journal.add_batches([["gpu1", "gpu2"], ["gpu3"]])
        journal.add(*(Event(f"gpu{at}", "planned") for at in range(1, 5)))
        journal.add(Event("gpu1", "begun"), Event("gpu1", "done"))
    world.plans = {"gpu2": BOOT, "gpu3": CHANGE, "gpu4": CHANGE if late else NO_CHANGE}
    here(monkeypatch, "provision", "--resume", folder.name, "--yes")
    rolled = world.rolling
    assert (rolled.folder.path, world.planning.told[2].path) == (folder, folder)
    assert [host.name for host in world.planning.fleet.hosts] == ["gpu2", "gpu3", "gpu4"]
    assert rolled.fleet is world.planning.fleet
    assert rolled.options.reboot
    assert rolled.agreed.terms.batches == (
        ("gpu1", "gpu2"), ("gpu3",), *[("gpu4",)] * late,
    )  # fmt: skip
    assert sorted(rolled.agreed.past) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert world.said[0].flag("yes")
