"""The suite as its users run it: pytest in a folder of theirs, against nodes reached by SSH."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dev.run import ROOT
from toolkit.checks.all import ALL

FOLDER = (str(ROOT / "toolkit" / "suites"),)


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of pytest ended with, and what became of each case: "" is passed."""

    status: int
    output: str
    cases: dict[str, tuple[str, str]]  # id: ("failure", "error", "skipped" or "", its text)

    def case(self, host: str, check: str) -> tuple[str, str]:
        return self.cases[f"test_node[toolkit://{host}-{check}]"]


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite(tmp_path_factory.mktemp("suite"))


class Suite:
    """Runs the shipped suite in a folder without a checkout or a configuration of ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.on = cache(self._on)

    def _on(self, *words: str, at: tuple[str, ...] = ("--pyargs", "toolkit.suites")) -> Ran:
        report = self._folder / "report.xml"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", *at, "-p", "no:cacheprovider"),
                *("--junitxml", str(report), *words),
            ],
            cwd=self._folder,
            env=os.environ
            | {"XDG_STATE_HOME": str(self._folder / "state"), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout + done.stderr, _cases(report))


def _cases(report: Path) -> dict[str, tuple[str, str]]:
    if not report.exists():
        return {}
    found = {}
    for case in ET.parse(report).iter("testcase"):
        (ended, text) = next(((each.tag, _text(each)) for each in case), ("", ""))
        found[case.get("name", "")] = (ended, text)
    return found


def _text(element: ET.Element) -> str:
    return f"{element.get('message', '')}\n{element.text or ''}"


def test_a_healthy_node_passes(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-healthy")
    assert (ran.status, {ended for ended, _ in ran.cases.values()}) == (0, {"", "skipped"})


def test_there_is_one_case_for_each_host_and_check_with_an_id_that_stays(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-healthy,demo-stub")
    names = [name for name in ran.cases if name.startswith("test_node[")]
    assert sorted(names) == sorted(
        f"test_node[toolkit://{host}-{check.id}]"
        for host in ("demo-healthy", "demo-stub")
        for check in ALL
    )


def test_a_failure_says_what_was_found_and_what_to_do(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-healthy,demo-stub")
    ended, text = ran.case("demo-stub", "peermem.stub")
    assert (ran.status, ended) == (1, "failure")
    assert "a stub: it imports nothing" in text
    assert "./invokew provision --hosts NODE, then on NODE: /usr/lib/gdr-toolkit/rebuild" in text
    assert "Traceback" not in text


def test_one_ill_node_says_nothing_about_the_other(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-healthy,demo-stub")
    well = [ended for name, (ended, _) in ran.cases.items() if "demo-healthy" in name]
    assert set(well) == {"", "skipped"}


def test_what_could_not_be_read_fails(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-hang")
    ended, text = ran.case("demo-hang", "pcie.bar1")
    assert (ran.status, ended) == (1, "failure")
    assert "no answer in time" in text


def test_what_does_not_apply_is_skipped_with_its_reason(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-nogpu")
    ended, text = ran.case("demo-nogpu", "peermem.loaded")
    assert (ran.status, ended) == (0, "skipped")
    assert "no NVIDIA GPU on the PCI bus" in text


def test_a_node_that_cannot_be_asked_is_an_error_with_a_hint(suite: Suite) -> None:
    ran = suite.on("--hosts", "demo-noroot")
    ended, text = ran.case("demo-noroot", "peermem.loaded")
    assert (ran.status, ended) == (1, "error")
    assert "sudo wants a password" in text
    assert "--ask-become-pass" in text


def test_without_hosts_it_says_so_in_a_sentence(suite: Suite) -> None:
    ran = suite.on()
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: no hosts named\n next: pytest --pyargs" in ran.output
    assert "Traceback" not in ran.output


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(
            ("-p", "gdr_toolkit.pytest_plugin", "--pyargs", "toolkit.suites"), id="package"
        ),
        pytest.param(("-p", "gdr_toolkit.pytest_plugin", *FOLDER), id="folder"),
    ],
)
def test_our_own_options_are_taken(suite: Suite, at: tuple[str, ...]) -> None:
    """An installed toolkit registers them; in a checkout -p names them."""
    ran = suite.on("--hosts", "demo-healthy", "--gdr-profile", "nope", at=at)
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert "no profile 'nope'" in ran.output
    assert "Traceback" not in ran.output
