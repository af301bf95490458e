"""The verbs that plan, take back and prove: what each hands on, and what it tells."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest

from tests.evidence.build import node
from tests.invoked import here
from tests.unit.judged import HEALTHY
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, ToolkitError, TransportError
from toolkit.facts.slurm import SlurmConfig
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run.nodes import Site
from toolkit.hosts.host import select
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Blocked
from toolkit.plan.plan import Plan
from toolkit.rollout.journal import About, Journal, stamp
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import NotBegun
from toolkit.suites import run as suite
from toolkit.suites.run import Case, SuiteResult
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import plan as verbs
from toolkit.verbs.cli.plan import as_reached, shelf_of
from toolkit.verbs.cli.session import Session
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.rollback import RolledBack, Undoing

DOCS = Path(__file__).parents[2] / "docs"
CHANGE = Plan(triggers=(Trigger.DEPMOD,))
STUCK = Plan(
    triggers=CHANGE.triggers, blocked=(Blocked("boot.arguments", "cannot be read", "look"),)
)
AWAY = TransportError("gpu3: away", hint="switch it on")
SLURM = Site(cast("Slurm", None), cast("SlurmConfig", None), {})


@dataclass
class World:
    """Whoever is reached, asked and told, in order."""

    demo: bool = False
    slurm: Site | None = None
    rolled: dict[str, RolledBack | ToolkitError] = field(default_factory=dict)
    halt: str = ""
    did: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    handed: Any = None

    @contextmanager
    def fleet(self, said: Said) -> Iterator[Fleet]:
        self.said.append(said)
        hosts = tuple(select(said.text("hosts")))
        yield Fleet(
            hosts,
            lambda _: pytest.fail("it is reached"),
            Access(fanout=7),
            demo=self.demo,
            slurm=self.slurm,
        )
        self.did.append("closed")

    def take_back(self, fleet: Fleet, what: object, *told: object, **more: object) -> Any:
        self.did.append("take back")
        self.handed = SimpleNamespace(fleet=fleet, what=what, told=told, **more)
        outcomes = {
            host: Outcome(host, error=each)
            if isinstance(each, ToolkitError)
            else Outcome(host, each)
            for host, each in self.rolled.items()
        }
        return Rolled(outcomes, self.halt)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(verbs, "fleet", made.fleet)
    monkeypatch.setattr(verbs, "rollback_nodes", made.take_back)
    monkeypatch.setattr(verbs, "undo_nodes", made.take_back)
    monkeypatch.setattr(verbs, "consent", lambda asked, _: made.did.append(asked))
    return made


@pytest.mark.parametrize("demo", [True, False])
@pytest.mark.parametrize(
    ("words", "run", "reboot", "over"),
    [
        ("", "last", False, False),
        ("--run all --reboot", "all", True, False),
        ("--run a-run --over-jobs", "a-run", False, True),
    ],
)
def test_a_rollback_is_agreed_to_and_then_handed_what_was_said(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *,
    demo: bool,
    words: str,
    run: str,
    reboot: bool,
    over: bool,
) -> None:
    world.demo = demo
    world.rolled = {"gpu1": RolledBack([], rebooted=False)}
    here(monkeypatch, "rollback", "--hosts", "gpu[1-2]", *words.split())
    asked = [] if demo else [f"take back run {run!r} on 2 nodes?"]
    assert world.did == [*asked, "take back", "closed"]
    handed = world.handed
    assert (handed.what, handed.allow_reboot, handed.over_jobs) == (run, reboot or demo, over)
    assert [host.name for host in handed.fleet.hosts] == ["gpu1", "gpu2"]
    (counting,) = handed.told
    assert counting.agreed.about.verb == "rollback"
    assert counting.agreed.terms.batches == (("gpu1", "gpu2"),)


def test_what_was_taken_back_is_told_of_each_node_and_who_was_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.halt = "1 failed"
    world.rolled = {
        "gpu1": RolledBack(["one", "two"], rebooted=True),
        "gpu2": RolledBack([], rebooted=False),
        "gpu3": AWAY,
        "gpu4": NotBegun("gpu4: not begun"),
    }
    assert here(monkeypatch, "rollback", "--hosts", "gpu[1-4]") == ExitCode.STOPPED
    seen = capsys.readouterr()
    lines = seen.out.split("\n")
    assert lines[:2] == ["gpu1: one; two; rebooted", "gpu2: nothing to take back"]
    assert [line.split() for line in lines if line.startswith("error")] == [
        ["error", "gpu3"], ["error", "gpu4"],
    ]  # fmt: skip
    assert "stopped: 1 failed; not begun: gpu4" in seen.err
    here(monkeypatch, "rollback", "--hosts", "gpu[1-4]", "--json")
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((DOCS / "report.schema.json").read_text()))
    assert [each.get("steps", []) for each in told["hosts"]] == [["one", "two"], [], [], []]


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run on four nodes, of which two have something to take back; its name."""
    folder = tmp_path / "state/gdr-toolkit/runs/2026-11-21T22-00-00-provision"
    words = {"hosts": "gpu[1-4]", "profile": "peermem", "quiet": False, "user": "ops"}
    words |= {"stop_file": "/old", "json": True, "junit": "/old.xml", "max_unavailable": "3"}
    Journal.create(folder, About("provision", "op@here", stamp(), "", json.dumps(words))).close()
    return folder.name


@pytest.mark.parametrize(
    ("words", "only", "demo", "reboot", "over"),
    [
        ("", [], False, False, False),
        ("--hosts gpu[1,3] --reboot --over-jobs", ["gpu1", "gpu3"], False, True, True),
        ("", [], True, True, False),
    ],
)
def test_an_undo_reaches_nodes_as_their_run_did_and_takes_back_what_it_changed(
    world: World,
    past: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: str,
    only: list[str],
    demo: bool,
    reboot: bool,
    over: bool,
) -> None:
    def undoing(run: Any, hosts: list[str]) -> Undoing:
        assert (run.id, hosts) == (past, only)
        return Undoing(run.id, {"gpu1": ("a",), "gpu3": ("b",)})

    monkeypatch.setattr(verbs, "undoing", undoing)
    world.demo, world.slurm = demo, SLURM
    world.rolled = {"gpu1": RolledBack([], rebooted=False)}
    more = ("--reason", "a ticket", "--job-timeout", "5")
    assert here(monkeypatch, "undo", past, *words.split(), *more) == ExitCode.OK
    asked = [] if demo else [f"take back run {past} on 2 nodes?"]
    assert world.did == [*asked, "take back", "closed"]
    assert (world.said[0].text("user"), world.said[0].flag("json")) == ("ops", False)
    handed = world.handed
    assert [host.name for host in handed.fleet.hosts] == ["gpu1", "gpu3"]
    assert handed.what.node_runs == {"gpu1": ("a",), "gpu3": ("b",)}
    assert (handed.allow_reboot, handed.over_jobs) == (reboot, over)
    folder, agreed = handed.told
    assert folder.path.name.endswith("-undo")
    assert agreed.alone
    assert (agreed.hooks.scheduler.site, agreed.hooks.scheduler.jobs_s) == (SLURM, 5.0)
    about = agreed.about
    assert (about.verb, about.reason, about.undoes) == ("undo", "a ticket", past)
    assert agreed.terms.batches == (("gpu1", "gpu3"),)
    judged = handed.judge("gpu1", node())
    assert (judged.host, judged.exit_code) == ("gpu1", ExitCode.OK)


def test_how_a_run_was_to_be_told_of_is_not_how_its_undo_is(past: str, tmp_path: Path) -> None:
    runs = tmp_path / "state/gdr-toolkit/runs"
    with Journal.open(runs / past) as journal:
        story = journal.story()
    plain = as_reached(Said({"json": False, "quiet": True}), story).values
    assert "junit" not in plain
    told = {name: plain.get(name) for name in ("json", "quiet", "stop_file", "user", "hosts")}
    assert told == {
        "json": False,
        "quiet": True,
        "stop_file": "",
        "user": "ops",
        "hosts": "gpu[1-4]",
    }
    own = as_reached(Said({"stop_file": "/new", "max_unavailable": "1"}), story).values
    assert (own["stop_file"], own["max_unavailable"]) == ("/new", "1")


@dataclass
class Planning:
    """What plan and bundle are to find on their nodes."""

    outcomes: list[Outcome[Planned]]
    monkeypatch: pytest.MonkeyPatch
    untried: list[bool] = field(default_factory=list)

    def __call__(self, *words: str) -> int:
        def planning(_w: object, _t: object, shelf: object, *, untried: bool) -> str:
            assert shelf is None
            self.untried.append(untried)
            return "work"

        def each_node(session: Session, work: object, *, title: str) -> object:
            assert (session.verb, work, title) == (words[0], "work", "planning")
            return list(self.outcomes)

        self.monkeypatch.setattr(verbs, "planning", planning)
        self.monkeypatch.setattr(verbs, "each_node", each_node)
        return here(self.monkeypatch, *words, "--hosts", "gpu[1-4]")


@pytest.fixture
def planned(world: World, monkeypatch: pytest.MonkeyPatch) -> Planning:
    assert not world.did
    outcomes: list[Outcome[Planned]] = [
        Outcome("gpu1", Planned(HEALTHY, CHANGE)),
        Outcome("gpu2", Planned(HEALTHY, STUCK)),
        Outcome("gpu3", error=AWAY),
        Outcome("gpu4", Planned(HEALTHY, NO_CHANGE)),
    ]
    return Planning(outcomes, monkeypatch)


@pytest.mark.parametrize(
    ("left", "code"),
    [
        ("gpu1 gpu4", ExitCode.OK),
        ("gpu1 gpu2", ExitCode.UNKNOWN),
        ("gpu2 gpu3", ExitCode.UNREACHABLE),
    ],
)
def test_a_bundle_is_written_untried_and_what_is_not_in_it_is_named(
    planned: Planning,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    left: str,
    code: ExitCode,
) -> None:
    def write(outcomes: list[Outcome[Planned]], out: Path) -> object:
        assert out == tmp_path / "out"
        return outcomes, {"gpu1": out / "gpu1"} if "gpu1" in left else {}

    monkeypatch.setattr(verbs, "write_bundles", write)
    planned.outcomes = [each for each in planned.outcomes if each.host in left]
    assert planned("bundle", "--out", str(tmp_path / "out")) == code
    assert planned.untried == [True], "nobody would judge a trial where it is carried out"
    lines = capsys.readouterr().out.split("\n")
    assert (lines[0] == f"{tmp_path}/out/gpu1") is ("gpu1" in left)
    text = "\n".join(lines)
    assert ("cannot be read" in text) is ("gpu2" in left)
    assert ("switch it on" in text) is ("gpu3" in left)
    assert "depmod" not in text, "what is in it stands there to be read"
    planned("bundle", "--out", str(tmp_path / "out"), "--json")
    hosts = json.loads(capsys.readouterr().out)["hosts"]
    written = {each["name"]: each.get("written", []) for each in hosts}
    assert written == {
        host: [f"{tmp_path}/out/gpu1"] if host == "gpu1" else [] for host in left.split()
    }


def test_a_plan_tells_errors_and_may_have_a_trial(
    planned: Planning, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned("plan") == ExitCode.UNREACHABLE
    assert planned.untried == [False]
    out = capsys.readouterr().out
    assert "cannot be read" in out
    assert "switch it on" in out
    assert "as wanted gpu4" in out


@pytest.mark.parametrize("diff", [True, False])
def test_the_lines_that_change_are_shown_to_who_asks(
    planned: Planning, monkeypatch: pytest.MonkeyPatch, diff: bool
) -> None:
    def lines(plans: list[tuple[str, Plan]], _: object, **more: Any) -> list[str]:
        assert [host for host, _ in plans] == sorted(more["judged"]) == ["gpu1", "gpu2", "gpu4"]
        seen.append(more["diffs"])
        return []

    seen: list[bool] = []
    monkeypatch.setattr(verbs, "plan_lines", lines)
    planned("plan", *["--diff"] * diff)
    assert seen == [diff]


@pytest.mark.parametrize("named", [True, False])
def test_modules_are_delivered_from_the_cache_that_is_named(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "usual"))
    monkeypatch.setattr(verbs, "signing_of", lambda session: session.said.text("sign_key"))
    (site := tmp_path / "site.toml").write_text('modules = "built"\n')
    words = {"profile": "peermem", "site": str(site), "sign_key": "k"}
    cache = {"cache": str(tmp_path / "own")} if named else {}
    shelf = shelf_of(Session.begin("plan", Said({**words, **cache})))
    assert shelf is not None
    assert shelf.store.folder.is_relative_to(tmp_path / ("own" if named else "usual"))
    assert shelf.signing == cast("Any", "k")
    site.write_text("")
    assert shelf_of(Session.begin("plan", Said({**words, "sign_key": ""}))) is None


CASES = (Case("gpu1", "test_node", "peermem.loaded", "pass"),)
Verify = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verify(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Verify:
    """The verb over a suite that ends so: the code, standard output and error."""

    def run(code: ExitCode, *words: str) -> tuple[int, str, str]:
        def run_suite(access: Access, wants: Any, *, checks: Any, verbose: bool) -> SuiteResult:
            print("pytest says")
            assert checks is wants.common.checks
            world.handed = (access.hosts, wants.common.path, bool(checks.only), verbose)
            return SuiteResult(code, CASES, (("gpu1", code),), "<xml/>")

        monkeypatch.setattr(suite, "run_suite", run_suite)
        ended = here(monkeypatch, "verify", "--hosts", "gpu1", "--profile", "peermem", *words)
        sys.stdout.flush()
        seen = capsys.readouterr()
        return ended, seen.out, seen.err

    return run


@pytest.mark.parametrize("code", [ExitCode.OK, ExitCode.FAILED, ExitCode.UNREACHABLE])
def test_a_proof_is_told_by_pytest_or_as_one_document(
    verify: Verify, world: World, tmp_path: Path, code: ExitCode
) -> None:
    assert verify(code)[:2] == (code, "pytest says\n")
    assert world.handed[0] == "gpu1"
    assert world.handed[2:] == (False, False)
    ended, out, err = verify(code, "--json", "--verbose", "--only", "peermem")
    assert (ended, err.startswith("pytest says\n")) == (code, True)
    told = json.loads(out)
    jsonschema.validate(told, json.loads((DOCS / "verify.schema.json").read_text()))
    assert (told["profile"], told["exit_code"], len(told["cases"])) == ("peermem", code, 1)
    assert told["checks"]["only"] == ["peermem"]
    assert world.handed[2:] == (True, True)
    kept = [*(tmp_path / "state").rglob("verify.xml")]
    assert {each.read_text() for each in kept} == {"<xml/>"}


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.BUG])
def test_a_proof_that_was_none_has_no_document(verify: Verify, code: ExitCode) -> None:
    assert verify(code, "--json")[:2] == (code, "")


def test_how_far_a_proof_goes_is_told_as_is_whom_it_fails_on(verify: Verify) -> None:
    _, out, err = verify(ExitCode.FAILED, "--skip", "rdma")
    assert out.split("\n")[1].endswith("checks judged, as --skip says")
    assert "something fails on gpu1" in err
