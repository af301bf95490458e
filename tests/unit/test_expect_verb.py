"""The verb expect, and the file that it writes, in the hands of every verb that judges."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

import pytest

from tests.invoked import gdr
from tests.unit.fleets import capture
from toolkit.checks.agreement import Agreement
from toolkit.errors import ExitCode
from toolkit.evidence import Evidence
from toolkit.features.compare.cli import sheeting
from toolkit.features.drift.cli import drifting
from toolkit.features.kubernetes.run import plan_for_pods
from toolkit.features.page.cli import looking
from toolkit.features.page.show.seen import Seeing
from toolkit.verbs.cli.forecast import foreseeing
from toolkit.verbs.doctor import examine_saved
from toolkit.verbs.each import on_saved
from toolkit.verbs.plan import planning
from toolkit.want import Want

TODAY = date(2026, 11, 22)
CAPTURES = Path(__file__).parents[1] / "evidence"
Saved = Iterable[tuple[str, Evidence]]


class Asked:
    """Wants that keep the names that they were asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def of(self, host: str) -> Want:
        self.names.append(host)
        return Want()


@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(lambda saved, wants: examine_saved(saved, wants, TODAY), id="doctor"),
        pytest.param(lambda saved, wants: on_saved(saved, foreseeing(wants, TODAY, "")), id="boot"),
        pytest.param(lambda saved, wants: on_saved(saved, planning(wants, TODAY)), id="plan"),
        pytest.param(lambda saved, wants: on_saved(saved, drifting(wants, TODAY)), id="drift"),
        pytest.param(lambda saved, wants: plan_for_pods(saved, wants, TODAY, None), id="pods"),
        pytest.param(
            lambda saved, wants: on_saved(saved, sheeting(wants, Agreement(wants))), id="compare"
        ),
        pytest.param(
            lambda saved, wants: on_saved(saved, looking(Seeing(wants), TODAY)), id="report"
        ),
    ],
)
def test_each_host_is_judged_by_what_it_should_be(
    flow: Callable[[Saved, Asked], list[object]],
) -> None:
    wants = Asked()
    flow([("gpu1", capture("healthy")), ("gpu2", capture("stub"))], wants)
    assert list(dict.fromkeys(wants.names)) == ["gpu1", "gpu2"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "evidence"
    folder.mkdir()
    for name in ("healthy", "acs"):
        (folder / f"{name}.evidence").write_text((CAPTURES / f"{name}.txt").read_text())
    return folder


def test_what_expect_writes_is_what_the_nodes_have(saved: Path, tmp_path: Path) -> None:
    told = gdr("expect", "--from", str(saved), state=tmp_path / "state")
    assert told.returncode == ExitCode.OK, told.stderr
    (group,) = tomllib.loads(told.stdout)["group"]
    assert group["hosts"] == "acs,healthy"
    assert group["expect"]["gpus"] == 2
    site = tmp_path / "site.toml"
    site.write_text(told.stdout)
    words = ("--from", str(saved / "healthy.evidence"), "--site", str(site))
    judged = gdr("doctor", *words, state=tmp_path / "state")
    assert judged.returncode == ExitCode.OK, judged.stdout


def failing(document: str) -> dict[str, set[str]]:
    hosts = json.loads(document)["hosts"]
    return {
        each["name"]: {
            one["check"]
            for one in each["verdicts"]
            if one["status"] == "fail" and one["check"].startswith("expect.")
        }
        for each in hosts
    }


def test_a_group_holds_its_hosts_alone(saved: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('[expect]\ngpus = 2\n[[group]]\nhosts = "acs"\nexpect = { gpus = 8 }\n')
    words = ("--from", str(saved), "--site", str(site), "--json")
    told = gdr("doctor", *words, state=tmp_path / "state")
    assert failing(told.stdout) == {"acs": {"expect.gpus"}, "healthy": set()}


def test_nodes_whose_names_are_hidden_are_judged_by_their_own(saved: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('[[group]]\nhosts = "acs"\nexpect = { gpus = 8 }\n')
    page = ("--scrub", "--html", str(tmp_path / "page.html"))
    words = ("--from", str(saved), "--site", str(site), "--json", *page)
    told = gdr("report", *words, state=tmp_path / "state")
    assert failing(told.stdout) == {"node001": {"expect.gpus"}, "node002": set()}


def test_groups_that_contradict_one_another_are_told_before_anything_is_judged(
    saved: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site.toml"
    rows = [f'[[group]]\nhosts = "acs"\nexpect.gpus = {number}\n' for number in (8, 4)]
    site.write_text("".join(rows))
    told = gdr("doctor", "--from", str(saved), "--site", str(site), state=tmp_path / "state")
    assert told.returncode == ExitCode.USAGE
    assert "contradict one another on acs: expect, gpus 8 and 4" in told.stderr
