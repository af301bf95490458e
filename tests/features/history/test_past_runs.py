"""Runs of the past are told as their journals have them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tests.invoked import gdr
from toolkit.cli.options import Said
from toolkit.errors import UsageError
from toolkit.features.history.cli import history_table, row_of, run_lines, runs_document, runs_table
from toolkit.report.table import Painter
from toolkit.rollout.claims import claim
from toolkit.rollout.history import (
    PastRun,
    RunState,
    Unread,
    history_of,
    read_run,
    read_runs,
    verify_runs,
)
from toolkit.rollout.journal import FILE, About, Event, Journal
from toolkit.verbs.cli.plan import as_reached
from toolkit.verbs.rollback import Undoing, undoing

ROOT = Path(__file__).parents[3]
PLAIN = Painter(False)
ID = "2026-11-21T22-00-00-provision"
BEGAN = "2026-11-21T22:00:00.000+00:00"
LONG = "ticket 4711, the third attempt at bringing rack seven to the new kernel"


def write(
    runs: Path,
    *events: Event,
    name: str = ID,
    ended: str = "",
    verb: str = "provision",
    words: str = '{"hosts": "gpu[1-4]"}',
) -> None:
    about = About(verb, "operator@administration-01.example", BEGAN, LONG, words)
    with Journal.create(runs / name, about) as journal:
        journal.take_turn("operator@administration-01.example")
        journal.add_batches([["gpu1"], ["gpu2", "gpu3"]])
        journal.add(*(Event(f"gpu{number}", "planned") for number in (1, 2, 3)), *events)
        if ended:
            journal.end_turn(ended, 5)


FAILED = json.dumps(
    {"error": "gpu2: place /etc/x ended with status 1\nno space", "hint": "go back"}
)
EVENTS = (
    Event("gpu4", "nothing to do"),
    Event("gpu1", "begun"),
    Event("gpu1", "applying", boot_id="b1"),
    Event("gpu1", "run", detail="20261121T220001Z-77"),
    Event("gpu1", "applying", boot_id="b1"),
    Event("gpu1", "run", detail="20261121T220009Z-78"),
    Event("gpu1", "done"),
    Event("gpu2", "begun"),
    Event("gpu2", "applying"),
    Event("gpu2", "failed", detail=FAILED),
)


@pytest.fixture
def run(tmp_path: Path) -> PastRun:
    write(tmp_path, *EVENTS, ended="1 host has failed")
    return read_run(tmp_path, ID)


def test_hosts_are_where_they_were_left(run: PastRun) -> None:
    assert (run.done, run.failed, run.left, run.open) == (("gpu1",), ("gpu2",), ("gpu3",), ())
    assert run.state is RunState.STOPPED


def test_a_run_whose_controller_died_is_broken_off_and_one_that_lives_is_running(
    tmp_path: Path,
) -> None:
    write(tmp_path, *EVENTS, Event("gpu3", "begun"))
    died = read_run(tmp_path, ID)
    assert (died.state, died.open, died.left) == (RunState.BROKEN_OFF, ("gpu3",), ())
    with claim(tmp_path, ID, "op@here", ["gpu1"], alone=True):
        assert read_run(tmp_path, ID).state is RunState.RUNNING


def test_a_run_has_ended_when_every_host_had_its_turn(tmp_path: Path) -> None:
    write(tmp_path, *EVENTS, Event("gpu3", "done"), ended="ended")
    assert read_run(tmp_path, ID).state is RunState.ENDED


def test_tables_are_read_at_a_hundred_columns(run: PastRun) -> None:
    row = row_of(run)
    lines = [
        *runs_table([row], PLAIN),
        *run_lines(row, PLAIN),
        *history_table([("gpu2", row)], PLAIN),
    ]
    assert max(map(len, lines)) <= 100, max(lines, key=len)
    phases = {each.name: each.phase for each in row.hosts}
    assert phases["gpu2"] != phases["gpu1"]
    assert f" {phases['gpu2']} " in history_table([("gpu2", row)], PLAIN)[1]
    text = "\n".join(lines)
    assert "batch 2   planned        1      gpu3" in text
    assert "place /etc/x ended with status 1" in text
    assert "no space" in text


def test_a_bios_that_failed_tells_what_was_missed_and_why_it_was_not_reset(
    tmp_path: Path,
) -> None:
    told = {"steps": [], "missed": ["A: on -> off"], "busy": "at work: python3"}
    told["blocked"] = ["aspm=off: PcieAspmL1 is read-only"]
    write(tmp_path, Event("gpu2", "failed", detail=json.dumps(told)), verb="bios")
    text = "\n".join(run_lines(row_of(read_run(tmp_path, ID)), PLAIN))
    assert "A: on -> off" in text
    assert "at work: python3" in text
    assert "PcieAspmL1 is read-only" in text


def test_the_document_keeps_its_schema(run: PastRun) -> None:
    document = json.loads(json.dumps(runs_document([row_of(run)], {"x": "damaged"})))
    jsonschema.validate(document, json.loads((ROOT / "docs/runs.schema.json").read_text()))
    assert document["runs"][0]["words"] == {"hosts": "gpu[1-4]"}


def test_a_damaged_journal_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    write(tmp_path, *EVENTS)
    broken = tmp_path / "2026-11-22T08-00-00-provision"
    broken.mkdir()
    (broken / FILE).write_text("no data base at all, whatever its name may say" * 9)
    first, second = read_runs(tmp_path)
    assert isinstance(first, Unread)
    assert "file is not a database" in first.why
    assert isinstance(second, PastRun)


def test_the_history_of_a_host_has_the_runs_it_was_part_of(tmp_path: Path) -> None:
    write(tmp_path, *EVENTS)
    write(tmp_path, name="2026-11-22T08-00-00-provision")
    assert [each.id for each in history_of(tmp_path, ["gpu4"])] == [ID]
    assert len(list(history_of(tmp_path, ["gpu1", "gpu4"]))) == 2
    assert list(history_of(tmp_path, ["gpu9"])) == []
    for day in (28, 23, 25, 24, 27):
        write(tmp_path, name=f"2026-11-{day}T08-00-00-provision")
    for told in (list(read_runs(tmp_path)), list(verify_runs(tmp_path))):
        assert [each.id[8:10] for each in told] == ["28", "27", "25", "24", "23", "22", "21"]


def test_the_verbs_tell_of_as_many_runs_and_of_the_hosts_that_are_asked_for(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "gdr-toolkit/runs"
    for day in (21, 23, 22):
        write(runs, *EVENTS, name=f"2026-11-{day}T22-00-00-provision")
    (runs / "2026-11-20T22-00-00-provision").mkdir()
    (runs / "2026-11-20T22-00-00-provision" / FILE).write_text("none " * 99)
    two = gdr("runs", "--count", "2", state=tmp_path).stdout
    assert re.findall(r"2026-11-(\d\d)T", two) == ["23", "22"]
    every = gdr("runs", "--count", "0", state=tmp_path)
    assert re.findall(r"2026-11-(\d\d)T", every.stdout) == ["23", "22", "21"]
    assert every.stderr.startswith("note: 2026-11-20T22-00-00-provision: ")
    told = json.loads(gdr("runs", "--json", state=tmp_path).stdout)
    assert ([each["id"][8:10] for each in told["runs"]], len(told["unread"])) == (
        ["23", "22", "21"],
        1,
    )
    (run,) = json.loads(gdr("runs.show", ID, "--json", state=tmp_path).stdout)["runs"]
    assert [each["name"] for each in run["hosts"]] == ["gpu1", "gpu2", "gpu3", "gpu4"]
    past = json.loads(gdr("history", "--hosts", "gpu2", "--json", state=tmp_path).stdout)
    assert [[host["name"] for host in each["hosts"]] for each in past["runs"]] == [["gpu2"]] * 3
    lines = gdr("history", "--hosts", "gpu2", state=tmp_path).stdout.split("\n")
    assert [line.split()[0] for line in lines[1:-1]] == ["gpu2"] * 3
    assert "no run has seen" in gdr("history", "--hosts", "gpu9", state=tmp_path).stdout


def test_undoing_takes_back_newest_first_and_only_what_was_touched(run: PastRun) -> None:
    what = undoing(run)
    assert what.node_runs == {
        "gpu1": ("20261121T220009Z-78", "20261121T220001Z-77"),
        "gpu2": (),  # it was at work there, and the node's name for it never arrived
    }
    with pytest.raises(UsageError, match=r"changed nothing on gpu3, gpu4$"):
        undoing(run, ["gpu4", "gpu1", "gpu3"])
    assert undoing(run, ["gpu1"]) == Undoing(ID, {"gpu1": what.node_runs["gpu1"]})


def test_where_nothing_was_touched_there_is_nothing_to_undo(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UsageError, match=f"run {ID} changed no node"):
        undoing(read_run(tmp_path, ID))


def test_an_undo_reaches_nodes_as_that_run_did_and_tells_of_them_as_it_is_asked_to(
    tmp_path: Path,
) -> None:
    write(tmp_path, words='{"user": "ops", "json": true, "junit": "old.xml", "quiet": true}')
    said = Said({"run": ID, "json": False, "user": ""})
    again = as_reached(said, read_run(tmp_path, ID).story)
    assert again.text("user") == "ops"
    assert not again.flag("json")
    assert not again.flag("quiet")
    assert again.text("junit") == ""


@pytest.mark.parametrize(
    ("verb", "hint"),
    [
        ("undo", "provision --hosts ..."),
        ("bios", f"bios --undo {ID}"),
        ("nic", f"nic --hosts SET --undo {ID}"),
    ],
)
def test_what_is_not_undone_here_says_how_it_is(verb: str, hint: str, tmp_path: Path) -> None:
    write(tmp_path, *EVENTS, verb=verb)
    with pytest.raises(UsageError, match=f"was {verb}, which is not undone") as refused:
        undoing(read_run(tmp_path, ID))
    assert refused.value.hint.endswith(hint)


def test_a_name_that_climbs_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no journal of such a run"):
        read_run(tmp_path / "runs", "../../etc")
