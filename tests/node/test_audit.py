"""Who did it is the kernel's word, and what was written of it cannot be changed unseen."""

from __future__ import annotations

import json
import os
import pwd
import sqlite3
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.invoked import ROOT, here
from toolkit.node import audit
from toolkit.rollout.history import Unread, Vouched, verify_runs
from toolkit.rollout.journal import FILE, About, Event, Journal
from toolkit.verbs import rollout

BEGAN = "2026-11-21T22:00:00+00:00"
RUN = "2026-11-21T22-00-00-provision"


def journal(runs: Path, name: str = RUN, *, ends: bool = True) -> Path:
    with Journal.create(runs / name, About("provision", "op@here", BEGAN, "ticket 4711")) as made:
        made.take_turn("op@here")
        made.add_batches([["gpu1"], ["gpu2", "gpu3"]])
        made.add(*(Event(f"gpu{n}", "planned") for n in (1, 2, 3)))
        made.add(Event("gpu1", "done", detail="one"))
        made.add(Event("gpu2", "failed", detail="two"))
        if ends:
            made.end_turn("ended", 2)
    return runs / name / FILE


def only(runs: Path) -> Vouched:
    (found,) = verify_runs(runs)
    assert isinstance(found, Vouched)
    return found


def test_a_journal_is_as_it_was_written(tmp_path: Path) -> None:
    journal(tmp_path)
    assert only(tmp_path) == Vouched(RUN)


def test_one_that_is_gone_on_with_is_too(tmp_path: Path) -> None:
    journal(tmp_path, ends=False)
    with Journal.open(tmp_path / RUN) as again:
        again.take_turn("other@here")
        again.add(Event("gpu3", "done"))
        again.end_turn("ended", 0)
    assert only(tmp_path) == Vouched(RUN)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("UPDATE event SET detail = 'x' WHERE seq = 4", ["event 4 is not as it was written"]),
        ("UPDATE event SET phase = 'done' WHERE seq = 5", ["event 5 is not as it was written"]),
        ("UPDATE run SET who = 'else'", ["the row of the run is not as it was written"]),
        ("UPDATE run SET reason = ''", ["the row of the run is not as it was written"]),
        ("UPDATE host SET name = 'gpu9' WHERE at = 2", ["host 2 is not as it was written"]),
        ("UPDATE turn SET code = 0", ["the end of turn 1 is not as it was written"]),
        ("UPDATE turn SET who = 'else'", ["turn 1 is not as it was written"]),
        ("DELETE FROM event WHERE seq = 4", ["event 4 is gone"]),
        (
            "DELETE FROM event WHERE seq = 5; DELETE FROM chain WHERE kind = 'event' AND row = 5",
            ["links 10 to 10 of the chain are gone"],
        ),
        (
            "DELETE FROM chain WHERE seq = 11;"
            "UPDATE turn SET ended = NULL, how = NULL, code = NULL",
            ["the last 1 links of the chain are gone"],
        ),
        (
            "INSERT INTO event VALUES (NULL, '', 'x', 'done', '', '')",
            ["event 6 was added by other hands"],
        ),
        (
            "UPDATE event SET seq = 9 WHERE seq = 4; UPDATE event SET seq = 4 WHERE seq = 5;"
            "UPDATE event SET seq = 5 WHERE seq = 9",
            ["event 4 is not as it was written", "event 5 is not as it was written"],
        ),
    ],
)
def test_what_other_hands_did_is_named(tmp_path: Path, harm: str, told: list[str]) -> None:
    file = journal(tmp_path)
    with sqlite3.connect(file) as base:
        base.executescript(harm)
    assert list(only(tmp_path).broken) == told


def test_a_crash_is_no_tampering(tmp_path: Path) -> None:
    """Killed in the midst of a write: what SQLite has beside is taken back, and told of."""
    file = journal(tmp_path, ends=False)
    assert only(tmp_path).broken == ()
    assert "its controller died" in only(tmp_path).note
    child = os.fork()
    if not child:
        base = sqlite3.connect(file, isolation_level=None)
        base.execute("PRAGMA cache_spill = 1")
        base.execute("PRAGMA cache_size = 1")
        base.execute("BEGIN IMMEDIATE")
        for _ in range(2000):  # more than its cache: part of it is in the file
            base.execute("INSERT INTO event VALUES (NULL, ?, 'x', 'done', '', '')", ("x" * 99,))
        os._exit(0)
    os.waitpid(child, 0)
    found = only(tmp_path)
    assert (found.broken, found.note) == (
        (), "its last write was cut off by a crash, and is taken back"
    )  # fmt: skip
    assert "its controller died" in only(tmp_path).note


def test_a_journal_of_an_older_version_is_told_as_such(tmp_path: Path) -> None:
    file = journal(tmp_path)
    with sqlite3.connect(file) as base:
        base.execute("DROP TABLE chain")
    assert only(tmp_path).note == "an older version wrote it, which vouched for nothing"
    with Journal.open(tmp_path / RUN) as again:
        again.add(Event("gpu3", "done"))


def test_the_verb_ends_with_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs = tmp_path / "gdr-toolkit/runs"
    journal(runs)
    assert here(monkeypatch, "runs", "--verify") == 0
    assert capsys.readouterr().out == f"{RUN}: as it was written\n"
    bad = journal(runs, RUN.replace("21T", "22T"))
    with sqlite3.connect(bad) as base:
        base.execute("UPDATE event SET detail = '' WHERE seq = 4")
    assert here(monkeypatch, "runs", "--verify") == 2
    first, second, _ = capsys.readouterr().out.split("\n", 2)
    assert (first, second) == (
        f"{bad.parent.name}: changed by other hands", "  event 4 is not as it was written"
    )  # fmt: skip
    assert here(monkeypatch, "runs", "--verify", "--json") == 2
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads((ROOT / "docs/runs.schema.json").read_text()))
    assert document["verified"] == [
        {
            "id": bad.parent.name,
            "intact": False,
            "broken": ["event 4 is not as it was written"],
            "note": "",
        },
        {"id": RUN, "intact": True, "broken": [], "note": ""},
    ]
    bad.write_bytes(b"nothing of SQLite's" * 99)
    assert here(monkeypatch, "runs", "--verify") == 3
    capsys.readouterr()
    assert here(monkeypatch, "runs", "--verify", "--json") == 3
    assert [each["id"] for each in json.loads(capsys.readouterr().out)["unread"]] == [
        bad.parent.name
    ]
    assert isinstance(next(verify_runs(runs)), Unread)


def test_who_it_is_does_not_hang_on_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    names = {each.pw_uid: each.pw_name for each in pwd.getpwall()}
    own = names.get(os.getuid(), str(os.getuid()))  # a user without an entry, too
    assert audit.operator() == own
    monkeypatch.setenv("SUDO_USER", "alice\nroot")
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 51234 192.0.2.1 22")
    assert audit.operator() == f"{own} (sudo alice_root, ssh 192.0.2.7)"
    assert audit.whoami().startswith(f"{own}@")
    assert vars(rollout)["whoami"] is audit.whoami, "by which claims and journals name us"


def test_a_machine_without_a_log_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    audit.tell_system("run it")


def test_the_systems_log_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger, told = tmp_path / "logger", tmp_path / "told"
    logger.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{told}\nexit 3\n")
    logger.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(audit, "_LOG", tmp_path)
    audit.tell_system("run it\nby root")
    assert told.read_text() == "-t\ngdr-toolkit\n--\nrun it by root\n"
    audit.tell_system("x" * 5000)
    assert len(told.read_text()) == len("-t\ngdr-toolkit\n--\n") + 1000 + 1


@pytest.mark.parametrize(("root", "told"), [("", "reload a who=root run=x\n"), ("/image", "")])
def test_a_nodes_own_log_is_told_who_and_an_images_builders_log_is_not(
    tmp_path: Path, root: str, told: str
) -> None:
    logger, seen = tmp_path / "logger", tmp_path / "seen"
    logger.write_text(f"#!/bin/sh\nprintf '%s\n' \"$4\" >{seen}\n")
    logger.chmod(0o755)
    script = (
        audit.before_script("who=root run=x") + (ROOT / "toolkit/node/scripts/lock.sh").read_text()
    )
    subprocess.run(
        ["sh", "-s"],
        input=f"root={root}\n{script}\ntold_of 'reload a'\n",
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        text=True,
        check=True,
    )
    assert (seen.read_text() if seen.exists() else "") == told
