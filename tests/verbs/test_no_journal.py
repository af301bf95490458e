"""A rollout without a journal begins no host; an ordinary run goes on without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.facts.slurm import SlurmConfig
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run.nodes import Site
from toolkit.features.slurm.run.service import SlurmService
from toolkit.hosts.host import Host
from toolkit.rollout.hooks import Hooks
from toolkit.rollout.journal import About, JournalError, stamp
from toolkit.rollout.plan.batches import NO_LIMIT, Terms, terms_of
from toolkit.rollout.run import Rolled
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.pool import NotBegun
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli.rollout import agreed_of, counting, tell_halt
from toolkit.verbs.cli.session import Session
from toolkit.verbs.provision import Provisioned, ProvisionOptions
from toolkit.verbs.rollout import Agreed, keep_journal, roll_out
from toolkit.want import Want

ABOUT = About("provision", "op@here", stamp(), "", "{}")
FLEET = Fleet((Host("gpu01"),), lambda _: pytest.fail("it was reached"), Access())


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Where nothing can be kept."""
    (tmp_path / "runs").write_text("a file where a folder should be\n")
    return RunFolder(tmp_path / "runs", "provision", datetime.now(UTC))


def test_a_rollout_that_cannot_be_remembered_is_not_begun(folder: RunFolder) -> None:
    """After a crash nobody could tell which nodes it has left midway, or resume it."""
    with ExitStack() as stack, pytest.raises(JournalError, match="no journal can be kept") as why:
        keep_journal(stack, FLEET, folder, ABOUT, alone=True)
    assert why.value.exit_code is ExitCode.STOPPED
    assert "nothing was touched" in why.value.hint


def test_an_ordinary_run_goes_on_without(folder: RunFolder) -> None:
    with ExitStack() as stack:
        assert keep_journal(stack, FLEET, folder, ABOUT, alone=False) is None


@pytest.mark.parametrize("alone", [True, False])
def test_provision_begins_its_rollout_after_that(folder: RunFolder, alone: bool) -> None:
    agreed = Agreed(terms_of([]), ABOUT, alone=alone)
    options, want, today = ProvisionOptions(), Want(), date(2026, 11, 22)
    if alone:
        with pytest.raises(JournalError):
            roll_out(FLEET, [], want, today, options=options, folder=folder, agreed=agreed)
    else:
        rolled = roll_out(FLEET, [], want, today, options=options, folder=folder, agreed=agreed)
        assert rolled.outcomes == {}


@pytest.mark.parametrize(
    ("words", "alone"),
    [
        ({}, False),
        ({"fanout": "4", "max_fail": "3", "reason": "a ticket"}, False),
        ({"serial": "1,10%"}, True),
        ({"max_unavailable": "4"}, True),
        ({"drain": "/bin/true"}, True),
        ({"undrain": "/bin/true"}, True),
        ({"window": "4h"}, True),
    ],
)
def test_what_makes_a_run_a_rollout(
    words: dict[str, str | int | bool],
    alone: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = Session.begin("provision", Said({"profile": "peermem", **words}))
    assert agreed_of(session, ["gpu01"]).alone is alone


def test_a_budget_of_the_sites_makes_every_run_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    site = tmp_path / "site.toml"
    site.write_text("[rollout]\nmax_unavailable = 4\n")
    session = Session.begin("provision", Said({"profile": "peermem", "site": str(site)}))
    assert agreed_of(session, ["gpu01"]).alone


@pytest.mark.parametrize(
    ("words", "of_site", "terms"),
    [
        ({}, "", Terms((("a", "b", "c"),), NO_LIMIT, 3, 64)),
        ({"serial": "1,2", "fanout": "5"}, "", Terms((("a",), ("b", "c")), NO_LIMIT, 0, 5)),
        ({"max_unavailable": "2", "max_fail": "1"}, "", Terms((("a", "b", "c"),), 2, 1, 64)),
        ({"max_unavailable": "2"}, "1", Terms((("a", "b", "c"),), 1, 3, 64)),
        ({"max_unavailable": "1"}, "2", Terms((("a", "b", "c"),), 1, 3, 64)),
        ({"max_fail_percentage": "67"}, "2", Terms((("a", "b", "c"),), 2, 2, 64)),
    ],
)
def test_the_terms_are_as_was_said_and_within_the_sites_budget(
    words: dict[str, str | int | bool],
    of_site: str,
    terms: Terms,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (site := tmp_path / "site.toml").write_text(
        f"[rollout]\nmax_unavailable = {of_site}\n" if of_site else ""
    )
    session = Session.begin(
        "provision", Said({"profile": "auto", "site": str(site), "reason": "why", **words})
    )
    agreed = agreed_of(session, ["a", "b", "c"])
    assert agreed.terms == terms
    assert (agreed.about.verb, agreed.about.reason, agreed.past) == ("provision", "why", None)
    assert json.loads(agreed.about.words)["site"] == str(site)


@pytest.mark.parametrize(
    ("said", "of_site", "budget"),
    [("", "", 3), ("2", "", 2), ("", "1", 1), ("2", "1", 1), ("1", "2", 1)],
)
def test_what_changes_hosts_without_a_plan_keeps_the_least_budget_and_its_own_stop_files(
    said: str, of_site: str, budget: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (site := tmp_path / "site.toml").write_text(
        f"[rollout]\nmax_unavailable = {of_site}\n" if of_site else ""
    )
    words = Said({"site": str(site), "max_unavailable": said, "stop_file": "halt", "max_fail": "1"})
    session = Session.begin("reload", words)
    hosts = tuple(map(Host, ("gpu01", "gpu02", "gpu03")))
    fleet = replace(FLEET, hosts=hosts, access=Access(fanout=7))
    agreed = counting(session, fleet, undoes="run").agreed
    assert (min(agreed.terms.budget, 3), agreed.alone) == (budget, bool(said or of_site))
    assert agreed.brakes.stop_files == (Path("halt"), session.folder.path / "stop")
    assert (agreed.terms.failures, agreed.terms.at_once) == (1, 7)
    assert (agreed.about.verb, agreed.about.reason, agreed.about.undoes) == ("reload", "", "run")
    assert counting(session, fleet).agreed.about.undoes == ""


def test_a_budget_of_the_profile_holds_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (profile := tmp_path / "own.toml").write_text("[rollout]\nmax_unavailable = 1\n")
    session = Session.begin("reload", Said({"profile": str(profile)}))
    assert counting(session, FLEET).agreed.alone


@pytest.fixture
def provisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """A session of provision that was told this."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def told(**words: str | int | bool) -> Session:
        return Session.begin("provision", Said({"profile": "peermem", **words}))

    return told


def test_by_slurm_nodes_are_drained_by_it_alone(provisions: Callable[..., Session]) -> None:
    """Or two would say when a node is out of service, and give it back."""
    slurm = Site(cast("Slurm", None), cast("SlurmConfig", None), {})
    session = provisions(job_timeout=5, hook_timeout=6)
    hooks = agreed_of(session, ["gpu01"], slurm=slurm).hooks
    run = session.folder.path.name
    assert hooks == Hooks(limit_s=6.0, scheduler=SlurmService(slurm, run, 5.0))
    session = provisions()
    assert agreed_of(session, ["gpu01"], slurm=slurm).hooks == Hooks(
        limit_s=600.0, scheduler=SlurmService(slurm, session.folder.path.name, 3600.0)
    )
    for name in ("drain", "undrain"):
        with pytest.raises(UsageError, match="--via slurm drains and resumes by itself"):
            agreed_of(provisions(**{name: "do {host}"}), ["gpu01"], slurm=slurm)
        with pytest.raises(UsageError, match=f"--{name} 'do it' names no host"):
            agreed_of(provisions(**{name: "do it"}), ["gpu01"])


def test_while_a_stop_file_is_there_nothing_begins_and_all_may_look(
    provisions: Callable[..., Session], tmp_path: Path
) -> None:
    (own := tmp_path / "halt").touch()
    with pytest.raises(UsageError, match=f"nothing may begin now: the stop file {own} is there"):
        agreed_of(provisions(stop_file=str(own)), ["gpu01"])
    looks = agreed_of(provisions(stop_file=str(own), check=True), ["gpu01"])
    everyones = tmp_path / "gdr-toolkit/stop"
    assert looks.brakes.stop_files[0] == own
    assert looks.brakes.stop_files[-1] == everyones
    everyones.parent.mkdir(exist_ok=True)
    everyones.touch()
    with pytest.raises(UsageError, match=f"the stop file {everyones} is there"):
        agreed_of(provisions(), ["gpu01"])


def test_whom_a_halt_left_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    left: Outcome[Provisioned] = Outcome("gpu02", error=NotBegun("gpu02: not begun"))
    failed: Outcome[Provisioned] = Outcome("gpu01", error=UsageError("gpu01: it fails"))
    outcomes = {each.host: each for each in (failed, left)}
    tell_halt(Rolled(outcomes))
    assert capsys.readouterr().err == ""
    tell_halt(Rolled(outcomes, halt="1 failed"))
    assert capsys.readouterr().err == "stopped: 1 failed; not begun: gpu02\n"
