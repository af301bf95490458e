"""A rollout without a journal begins no host; an ordinary run goes on without one."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolkit.cli.options import Said
from toolkit.errors import ExitCode
from toolkit.hosts.host import Host
from toolkit.rollout.journal import About, JournalError, stamp
from toolkit.rollout.plan.batches import terms_of
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli.rollout import agreed_of, counting
from toolkit.verbs.cli.session import Session
from toolkit.verbs.provision import ProvisionOptions
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
    words = Said({"site": str(site), "max_unavailable": said, "stop_file": "halt"})
    session = Session.begin("reload", words)
    hosts = tuple(map(Host, ("gpu01", "gpu02", "gpu03")))
    agreed = counting(session, replace(FLEET, hosts=hosts), undoes="run").agreed
    assert (min(agreed.terms.budget, 3), agreed.alone) == (budget, bool(said or of_site))
    assert agreed.brakes.stop_files == (Path("halt"), session.folder.path / "stop")
    assert (agreed.about.verb, agreed.about.undoes) == ("reload", "run")
