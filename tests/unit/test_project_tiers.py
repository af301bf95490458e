"""Tiers of tests: every test in exactly one, and nothing left out in silence."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from dev import run, tiers
from dev.run import ROOT
from dev.tiers import (
    APART,
    CAPTURES,
    NO_TESTS,
    Ended,
    Ending,
    Step,
    Tally,
    Tier,
    choose,
    closing,
    command,
    ending,
    succeeded,
    table,
)
from dev.tools import MARKS, SHELLCHECK, SSH, SSHD, SUPERUSER, Tool, sentence
from toolkit.errors import ExitCode, UsageError

TIERS = table(("a.sh",))
NOWHERE = Tool("no-such-program", "no-such-package")
QUICK = Step("quick", ("true",))
TESTS = Step("tests", ("pytest",), tests=True, parallel=True)


def test_the_tiers_run_from_quick_to_slow() -> None:
    names = ["lint", "unit", "scripts", "modules", "builds"]
    names += ["vagrant", "fleet", "bmc", "kubernetes", "documents", "cluster"]
    names += ["slurm", "pages", "machine", "suites", "wheel"]
    assert [tier.name for tier in TIERS] == names


def test_the_help_of_the_task_names_every_tier() -> None:
    help_of_tier = (ROOT / "tasks.py").read_text()
    assert ",".join(tier.name for tier in TIERS) in help_of_tier


@pytest.mark.parametrize(
    ("marks", "tiers"),
    [
        pytest.param(set[str](), ["unit"], id="plain"),
        pytest.param({"shell"}, ["scripts"], id="shell"),
        pytest.param({"sshd"}, ["fleet"], id="sshd"),
        pytest.param({"sshd", "shell"}, ["fleet"], id="both"),
        pytest.param({"modules"}, ["modules"], id="modules"),
        pytest.param({"modules", "shell"}, ["modules"], id="modules-in-a-shell"),
        pytest.param({"builds"}, ["builds"], id="builds"),
        pytest.param({"builds", "modules", "shell"}, ["builds"], id="builds-and-more"),
        pytest.param({"machine"}, ["machine"], id="machine"),
        pytest.param({"machine", "builds", "shell"}, ["machine"], id="machine-and-more"),
        pytest.param({"builds", "sshd"}, ["fleet"], id="builds-over-ssh"),
    ],
)
def test_every_test_runs_in_exactly_one_tier(marks: set[str], tiers: list[str]) -> None:
    chosen = [tier.name for tier in TIERS for step in tier.steps if _takes(step, marks)]
    assert chosen == tiers


def _takes(step: Step, marks: set[str]) -> bool:
    """Whether a test outside ``APART`` that has ``marks`` is selected."""
    if "tests" not in step.argv:
        return False
    names = {name: name in marks for name in MARKS}
    return bool(eval(step.marks, {}, names))  # noqa: S307 # pytest's expressions are Python's


def test_a_folder_apart_has_a_tier_and_no_other_tier_takes_it() -> None:
    steps = [step for tier in TIERS for step in tier.steps if step.tests]
    for folder in APART:
        assert sum(any(folder in s.argv for s in tier.steps) for tier in TIERS) == 1
        general = [step for step in steps if "tests" in step.argv]
        assert all(f"--ignore={folder}" in step.argv for step in general)


def test_the_steps_of_one_folder_share_its_tests_out() -> None:
    (tier,) = (tier for tier in TIERS if tier.name == "bmc")
    assert [step.marks for step in tier.steps] == ["not bmc", "bmc"]


def test_a_tier_needs_what_the_marks_of_its_tests_stand_for() -> None:
    needs = {tier.name: set(tier.needs) for tier in TIERS}
    assert needs["fleet"] == set(MARKS["sshd"])
    assert needs["scripts"] == set(MARKS["shell"])
    assert needs["modules"] == set(MARKS["modules"])
    assert needs["builds"] == set(MARKS["builds"])
    assert needs["vagrant"] == set(MARKS["vagrant"])
    assert needs["bmc"] == set(MARKS["bmc"])
    assert needs["slurm"] == set(MARKS["slurm"])
    assert needs["unit"] == set()


def test_a_tier_uses_what_few_of_its_tests_need() -> None:
    uses = {tier.name: set(tier.uses) for tier in TIERS}
    assert uses["fleet"] == {*MARKS["sshd"], *MARKS["minisign"], *MARKS["sudo"]}
    assert uses["builds"] == {*MARKS["builds"], *MARKS["packagers"], *MARKS["uefi"]}
    assert uses["lint"] == {SHELLCHECK}


def test_each_tool_that_a_mark_names_is_used_by_a_tier_that_is_installed_for() -> None:
    used = {tool for tier in TIERS for tool in tier.uses}
    assert {tool for tools in MARKS.values() for tool in tools} <= {*used, SUPERUSER}


def test_tiers_are_chosen_by_name_and_keep_their_order() -> None:
    assert [tier.name for tier in choose(TIERS, "fleet, lint")] == ["lint", "fleet"]


def test_a_newcomers_run_is_short_and_says_what_it_left_out() -> None:
    chosen = choose(TIERS, "")
    assert [tier.name for tier in chosen] == ["lint", "unit", "suites", "wheel"]
    told = tiers.left_out(TIERS, chosen, quick=True)
    assert "scripts, modules, builds, fleet, bmc" in told[0]
    assert told[0].endswith("./invokew test --all")
    assert "exhaustive" in told[1]
    assert told[2].endswith("--tier vagrant,cluster")


def test_guests_of_vagrant_and_clusters_are_only_for_who_names_their_tier() -> None:
    chosen = choose(TIERS, "", whole=True)
    left_out = {tier.name for tier in TIERS} - {tier.name for tier in chosen}
    assert left_out == {"vagrant", "cluster"}
    assert [tier.name for tier in choose(TIERS, "machine")] == ["machine"]
    by_night, told = tiers.left_out(TIERS, chosen, quick=False)
    assert told.endswith("--tier vagrant,cluster")
    assert by_night.startswith("left out: ")
    for name in tiers.NIGHTLY:
        assert f"tests/machine/{name}" in by_night
        assert Path("tests/machine", name).exists()
    assert tiers.left_out(TIERS, chosen, quick=False, night=True) == (told,)


def test_all_beside_the_name_of_a_tier_is_refused() -> None:
    with pytest.raises(UsageError, match="--all and --tier"):
        choose(TIERS, "unit", whole=True)


def test_an_unknown_tier_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no tier 'units'") as refused:
        choose(TIERS, "lint,units")
    assert refused.value.hint == (
        "tiers: lint, unit, scripts, modules, builds, vagrant, fleet, bmc, kubernetes, "
        "documents, cluster, slurm, pages, machine, suites, wheel"
    )


def test_a_keyword_leaves_out_what_has_no_tests() -> None:
    assert "lint" not in [tier.name for tier in choose(TIERS, "", keyword="plan")]


def test_keyword_and_jobs_reach_pytest_and_nobody_else() -> None:
    words = ("pytest", "-n", "4", "--dist", "loadfile", "-k", "plan", "-p", "dev.tally")
    assert command(TESTS, keyword="plan", jobs=4) == words
    assert command(TESTS, keyword="", jobs=1) == ("pytest", "-p", "dev.tally")
    assert command(QUICK, keyword="plan", jobs=4) == ("true",)


@pytest.mark.parametrize(
    ("marks", "quick", "words"),
    [
        pytest.param("", False, (), id="all"),
        pytest.param("bmc", False, ("-m", "bmc"), id="all-with-a-mark"),
        pytest.param("", True, ("-m", "not exhaustive"), id="quick"),
        pytest.param("bmc", True, ("-m", "bmc and not exhaustive"), id="quick-with-a-mark"),
    ],
)
def test_a_quick_run_leaves_out_what_is_exhaustive(
    marks: str, quick: bool, words: tuple[str, ...]
) -> None:
    step = Step("tests", ("pytest",), tests=True, marks=marks)
    said = command(step, keyword="", jobs=1, quick=quick)
    assert said == ("pytest", *words, "-p", "dev.tally")


@pytest.mark.parametrize(
    ("step", "status", "keyword", "expected"),
    [
        pytest.param(QUICK, 0, "", Ending.PASSED, id="zero"),
        pytest.param(QUICK, 1, "", Ending.FAILED, id="not-zero"),
        pytest.param(QUICK, NO_TESTS, "plan", Ending.FAILED, id="five-of-another-program"),
        pytest.param(TESTS, NO_TESTS, "", Ending.FAILED, id="a-tier-without-tests"),
        pytest.param(TESTS, NO_TESTS, "plan", Ending.EMPTY, id="nothing-of-that-name"),
        pytest.param(TESTS, -9, "plan", Ending.FAILED, id="killed"),
    ],
)
def test_a_status_means(step: Step, status: int, keyword: str, expected: Ending) -> None:
    assert ending(step, status, keyword=keyword) is expected


@pytest.mark.parametrize(
    ("endings", "strict", "good"),
    [
        pytest.param([Ending.PASSED, Ending.EMPTY], True, True, id="all-passed"),
        pytest.param([Ending.PASSED, Ending.FAILED], False, False, id="one-failed"),
        pytest.param([Ending.PASSED, Ending.NOT_RUN], False, True, id="a-tool-is-missing"),
        pytest.param([Ending.PASSED, Ending.NOT_RUN], True, False, id="a-tool-is-missing-in-ci"),
        pytest.param([Ending.NOT_RUN], False, False, id="nothing-was-run"),
        pytest.param([], False, False, id="nothing-at-all"),
    ],
)
def test_a_run_has_succeeded(endings: list[Ending], strict: bool, good: bool) -> None:
    ended = tuple(Ended("tier", QUICK, each) for each in endings)
    assert succeeded(ended, strict=strict) is good


def test_the_end_tells_time_and_counts_and_then_what_was_not_run() -> None:
    why = sentence([SSHD, SSH])
    tally = Tally(7, 1, (("needs root", 1), ("no xz here", 2)))
    ended = (
        Ended("lint", QUICK, Ending.PASSED, seconds=61.2, spent=100),
        Ended("unit", TESTS, Ending.FAILED, seconds=4.6, tally=tally, spent=8.9),
        Ended("fleet", TESTS, Ending.NOT_RUN, why),
    )
    assert closing(ended, 66).split("\n") == [
        "lint: quick    1:01  passed; 1:40 of processor",
        "unit: tests    0:05  FAILED: 7 passed, 1 failed, 3 not run; 0:09 of processor",
        "fleet: tests  not run",
        "in all         1:06  1:49 of processor",
        "not run: unit: tests: 1 test: needs root",
        "not run: unit: tests: 2 tests: no xz here",
        f"not run: fleet: tests: {why}",
        "install what is missing: ./invokew test --install",
    ]


def test_the_end_tells_which_tests_failed_and_why() -> None:
    """Once more, and not all: where a log is cut, its end is what is left."""
    tally = Tally(0, 12, fell=tuple(f"test_it.py::test_{each}: boom" for each in range(12)))
    told = closing((Ended("unit", TESTS, Ending.FAILED, tally=tally),), 1).split("\n")
    assert told[2:] == [
        *(f"FAILED test_it.py::test_{each}: boom" for each in range(10)),
        "FAILED 2 more",
    ]


def test_a_run_without_the_captures_says_so_loudly_and_last() -> None:
    blind = Tally(1, 0, ((f"{CAPTURES}: no corpus", 40), (f"{CAPTURES}: no table", 2)))
    told = closing((Ended("unit", TESTS, Ending.PASSED, tally=blind),), 1).split("\n")
    assert told[-1].startswith("WARNING: NO VERDICT")
    assert "WARNING" not in closing((Ended("unit", TESTS, Ending.PASSED),), 1)


@pytest.mark.parametrize(
    ("last", "ci", "code"),
    [
        pytest.param(Step("last", ("true",)), "", ExitCode.OK, id="passed"),
        pytest.param(Step("last", ("false",)), "", ExitCode.FAILED, id="failed"),
        pytest.param(Step("last", ("false",), (NOWHERE,)), "", ExitCode.OK, id="missing"),
        pytest.param(Step("last", (), (NOWHERE,)), "true", ExitCode.FAILED, id="missing-in-ci"),
    ],
)
def test_a_run_ends_with(
    last: Step, ci: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(run, "provide", lambda: None)
    assert run.in_order((Tier("one", "", (QUICK, last)),)) is code


COUNTED = """\
import pathlib
import pytest

def test_good(): pass

@pytest.mark.parametrize("number", range(2))
def test_without_its_tool(number): pytest.skip("needs root")

def test_bad():
    with pathlib.Path("ran").open("a") as told: told.write("x")
    assert {good}
"""


@pytest.mark.parametrize(
    ("good", "code", "said"),
    [
        pytest.param(True, ExitCode.OK, "passed: 2 passed, 0 failed, 2 not run", id="passes"),
        pytest.param(False, ExitCode.FAILED, "FAILED: 1 passed, 1 failed, 2 not run", id="fails"),
    ],
)
def test_a_test_runs_once_and_is_counted(
    good: bool, code: ExitCode, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_it.py").write_text(COUNTED.format(good=good))
    (tmp_path / "dev").symlink_to(ROOT / "dev")
    (tmp_path / "toolkit").symlink_to(ROOT / "toolkit")
    monkeypatch.setattr(run, "provide", lambda: None)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    argv = (sys.executable, "-m", "pytest", "-q", "test_it.py")
    step = Step("tests", argv, tests=True, parallel=True)
    with redirect_stderr(io.StringIO()) as told:
        asked = run.Asked(jobs=2)
        assert run.in_order((Tier("one", "", (step,)),), asked, beside=("left out",)) is code
    lines = told.getvalue().strip().split("\n")
    fell = [line for line in lines[-5:] if line.startswith("FAILED ")]
    assert fell == ["FAILED test_it.py::test_bad: assert False"] * (not good)
    assert said in lines[-5 - len(fell)]
    assert lines[-3] == "not run: one: tests: 2 tests: needs root"
    assert lines[-2:] == ["left out", "all passed" if good else "not all passed"]
    assert (tmp_path / "ran").read_text() == "x"


def test_steps_side_by_side_print_whole_and_in_their_order_of_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first ends once the second, which ends by itself, has been printed."""
    told = tmp_path / "told"
    wait = f"echo slow begins; until [ -e {told} ]; do sleep 0.05; done; echo slow ends"
    late, soon = (
        Step(name, ("sh", "-c", line))
        for name, line in (("slow", wait), ("quick", "echo quick; false"))
    )
    tiers_ = (Tier("lint", "", (late, soon), together=True),)
    monkeypatch.setattr(run, "provide", lambda: None)
    say = run.say

    def heard(text: str) -> None:
        say(text)
        if text.endswith("\nquick"):
            told.touch()

    monkeypatch.setattr(run, "say", heard)
    assert run.in_order(tiers_, run.Asked(jobs=2)) is ExitCode.FAILED
    said = capsys.readouterr().err
    assert "slow begins\nslow ends\n" in said
    assert said.index("\nquick\n") < said.index("slow begins\nslow")
    assert said.index("lint: slow ") < said.index("lint: quick ")


def test_what_waits_runs_beside_the_others_and_is_told_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each ends only once the other has begun: one after the other would never end."""
    monkeypatch.setattr(run, "provide", lambda: None)
    wait = "touch {0}; n=0; until [ -e {1} ]; do sleep 0.05; n=$((n + 1)); [ $n -lt 600 ]; done"
    first, second = (
        Step(name, ("sh", "-euc", f"cd {tmp_path}; echo {name} begins; {wait.format(name, other)}"))
        for name, other in (("waiting", "working"), ("working", "waiting"))
    )
    both = (Tier("fleet", "", (first,), waits=True), Tier("unit", "", (second,)))
    assert run.in_order(both, run.Asked(jobs=2)) is ExitCode.OK
    said = capsys.readouterr().err
    assert "-- sh " in said
    assert "\nwaiting begins\n" in said, "held until it ends"
    assert said.index("fleet: waiting ") < said.index("unit: working ")


@pytest.mark.parametrize(
    ("waits", "tests"),
    [
        pytest.param((True, True), False, id="what-waits"),
        pytest.param((False, False), False, id="what-computes"),
        pytest.param((True, False), True, id="what-minds-company"),
    ],
)
def test_one_begins_when_the_other_has_ended(
    waits: tuple[bool, bool], tests: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "provide", lambda: None)
    script = f"cd {tmp_path}; [ ! -e busy ]; touch busy; sleep 0.2; rm busy"
    step = Step("alone", ("sh", "-euc", script, "sh"), tests=tests)
    pair = tuple(Tier(f"of {each}", str(at), (step,), waits=each) for at, each in enumerate(waits))
    assert run.in_order(pair, run.Asked(jobs=2)) is ExitCode.OK


def test_a_dry_run_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "provide", lambda: None)
    assert (
        run.in_order((Tier("one", "", (Step("", ("false",)),)),), run.Asked(dry=True))
        is ExitCode.OK
    )
    assert run.commands((("false",),), dry=True) is ExitCode.OK
    told = capsys.readouterr().err
    assert "-- false" in told
    assert "\nnothing was run: --dry\n" in told
    assert "passed" not in told


def test_commands_stop_at_the_first_that_fails(tmp_path: Path) -> None:
    late = tmp_path / "late"
    assert run.commands((("false",), ("touch", str(late)))) is ExitCode.FAILED
    assert not late.exists()
