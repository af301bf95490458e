"""Tiers of tests: every test in exactly one, and nothing left out in silence."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from dev import run, tiers
from dev.run import ROOT, scripts
from dev.tiers import (
    APART,
    FEW,
    NO_TESTS,
    Ended,
    Ending,
    Step,
    Tier,
    choose,
    closing,
    command,
    ending,
    succeeded,
    table,
)
from dev.tools import MARKS, SSH, SSHD, Tool, sentence
from toolkit.errors import ExitCode, ToolkitError, UsageError

TIERS = table(("a.sh",))
NOWHERE = Tool("no-such-program", "no-such-package")
QUICK = Step("quick", ("true",))
TESTS = Step("tests", ("pytest",), tests=True, parallel=True)


def test_the_tiers_run_from_quick_to_slow() -> None:
    names = ["lint", "unit", "scripts", "modules", "builds"]
    names += ["machine", "vagrant", "fleet", "bmc", "kubernetes", "documents", "cluster"]
    names += ["slurm", "pages", "suites", "wheel"]
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
    words = step.argv[step.argv.index("-m", 3) + 1]
    names = {name: name in marks for name in MARKS}
    return bool(eval(words, {}, names))  # noqa: S307 # pytest's expressions are Python's


def test_a_folder_apart_has_a_tier_and_no_other_tier_takes_it() -> None:
    steps = [step for tier in TIERS for step in tier.steps if step.tests]
    for folder in APART:
        assert sum(any(folder in s.argv for s in tier.steps) for tier in TIERS) == 1
        general = [step for step in steps if "tests" in step.argv]
        assert all(f"--ignore={folder}" in step.argv for step in general)


def test_the_steps_of_one_folder_share_its_tests_out() -> None:
    (tier,) = (tier for tier in TIERS if tier.name == "bmc")
    words = [step.argv[step.argv.index("-m", 3) + 1] for step in tier.steps]
    assert words == ["not bmc", "bmc"]


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


def test_tiers_are_chosen_by_name_and_keep_their_order() -> None:
    assert [tier.name for tier in choose(TIERS, "fleet, lint")] == ["lint", "fleet"]


def test_guests_boot_only_for_who_names_their_tier() -> None:
    left_out = {tier.name for tier in TIERS} - {tier.name for tier in choose(TIERS, "")}
    assert left_out == {"vagrant", "cluster"}
    assert [tier.name for tier in choose(TIERS, "machine")] == ["machine"]
    assert "--tier vagrant,cluster" in tiers.left_out(TIERS)


def test_an_unknown_tier_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no tier 'units'") as refused:
        choose(TIERS, "lint,units")
    assert refused.value.hint == (
        "tiers: lint, unit, scripts, modules, builds, machine, vagrant, fleet, bmc, kubernetes, "
        "documents, cluster, slurm, pages, suites, wheel"
    )


def test_a_keyword_leaves_out_what_has_no_tests() -> None:
    assert "lint" not in [tier.name for tier in choose(TIERS, "", keyword="plan")]


def test_keyword_and_jobs_reach_pytest_and_nobody_else() -> None:
    words = ("pytest", "-n", "4", "--dist", "loadfile", "-k", "plan")
    noted = ("-o", "cache_dir=.pytest_cache/tests")
    assert command(TESTS, keyword="plan", jobs=4) == (*words, *noted)
    assert command(TESTS, keyword="", jobs=1) == ("pytest", *noted)
    assert command(QUICK, keyword="plan", jobs=4) == ("true",)


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


def test_what_was_not_run_is_named_last_with_what_to_install() -> None:
    why = sentence([SSHD, SSH])
    ended = (Ended("fleet", TESTS, Ending.NOT_RUN, why), Ended("lint", QUICK, Ending.PASSED))
    assert closing(ended).split("\n") == [
        "lint   quick: passed",
        "fleet  tests: not run: needs sshd, ssh (apt install openssh-server openssh-client)",
        "install what is missing: ./invokew test --install",
    ]


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


UNSTEADY = """\
import pathlib
import pytest

def test_steady(): pass

@pytest.mark.parametrize("number", range({count}))
def test_unsteady(number):
    ran = pathlib.Path(f"ran-{{number}}")
    with ran.open("a") as told: told.write("x")
    assert len(ran.read_text()) > {wanted}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, for steps that run pytest."""
    monkeypatch.setattr(run, "provide", lambda: None)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return tmp_path


def ended(project: Path, text: str) -> ExitCode:
    """How a run ends whose only step has these tests."""
    (project / "test_it.py").write_text(text)
    step = Step("tests", (sys.executable, "-m", "pytest", "-q", "test_it.py"), tests=True)
    return run.in_order((Tier("one", "", (step,)),))


@pytest.mark.parametrize(
    ("count", "wanted", "code", "last"),
    [
        pytest.param(2, 0, ExitCode.OK, "passed", id="passes"),
        pytest.param(2, 1, ExitCode.OK, "passed, but for tests that failed once: ", id="second"),
        pytest.param(2, 2, ExitCode.FAILED, "FAILED", id="fails-twice"),
        pytest.param(4, 1, ExitCode.FAILED, "FAILED", id="too-many-for-an-accident"),
    ],
)
def test_a_few_that_fail_get_one_more_attempt_and_are_named(
    count: int,
    wanted: int,
    code: ExitCode,
    last: str,
    project: Path,
) -> None:
    with redirect_stderr(io.StringIO()) as told:
        assert ended(project, UNSTEADY.format(count=count, wanted=wanted)) is code
    said = told.getvalue().strip().split("\n")[-1]
    assert said.startswith(f"one  tests: {last}")
    names = [f"test_it.py::test_unsteady[{number}]" for number in range(count)]
    assert [name in said for name in names] == ["once" in last] * count
    attempts = 2 if wanted and count <= FEW else 1
    assert len((project / "ran-0").read_text()) == attempts


def test_a_run_that_broke_off_has_no_second_attempt(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(project, "import there_is_no_such_module\n") is ExitCode.FAILED
    assert "once more" not in capsys.readouterr().err


def test_a_dry_run_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "provide", lambda: None)
    assert run.in_order((Tier("one", "", (Step("", ("false",)),)),), dry=True) is ExitCode.OK
    assert run.commands((("false",),), dry=True) is ExitCode.OK
    assert "-- false" in capsys.readouterr().err


def test_commands_stop_at_the_first_that_fails(tmp_path: Path) -> None:
    late = tmp_path / "late"
    assert run.commands((("false",), ("touch", str(late)))) is ExitCode.FAILED
    assert not late.exists()


def test_development_packages_come_by_the_wrapper_that_made_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gdr.root").touch()
    wrapper = tmp_path / "invokew"
    wrapper.write_text('#!/bin/sh\necho "$GDR_DEV $*" >"${0%/*}/said"\nexit 69\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    with pytest.raises(ToolkitError, match="the development packages are not there"):
        run.provide()
    assert (tmp_path / "said").read_text() == "1 --version\n"


def test_shellcheck_reads_every_script_whatever_its_name() -> None:
    found = scripts()
    assert {"invokew", ".ci/run", "toolkit/reach/probe.sh", "toolkit/demo/bin/modprobe"} <= set(
        found
    )
    assert "tasks.py" not in found


def test_a_benchmark_is_a_module_that_is_there() -> None:
    for words in run.benchmarks(64, 3):
        assert words[1] == "-m"
        assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
