"""A journal outlives its writer, at whatever moment that one dies."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.rollout.journal import FILE, About, Event, Journal, JournalError, stamp

ROOT = Path(__file__).parents[2]
ABOUT = About("provision", "op@here", stamp(), "ticket 4711", '{"hosts": "gpu[1-2]"}')


def made(folder: Path) -> Journal:
    journal = Journal.create(folder / "run", ABOUT)
    journal.add_batches([["gpu1"], ["gpu2", "gpu3"]])
    journal.take_turn("op@here")
    return journal


def test_what_was_written_is_read(tmp_path: Path) -> None:
    with made(tmp_path) as journal:
        journal.add(Event("gpu1", "applying", boot_id="b1"), Event("gpu1", "done", detail="well"))
        journal.end_turn("all done", 0)
    with Journal.open(tmp_path / "run") as again:
        story = again.story()
    assert story.about == ABOUT
    assert story.batches == (("gpu1",), ("gpu2", "gpu3"))
    assert [(e.host, e.phase, e.boot_id, e.detail) for e in story.events] == [
        ("gpu1", "applying", "b1", ""),
        ("gpu1", "done", "", "well"),
    ]
    assert [(turn.how, turn.code) for turn in story.turns] == [("all done", 0)]


def test_threads_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    with made(tmp_path) as journal:

        def write(name: str) -> None:
            for number in range(20):
                journal.add(Event(name, str(number)))

        threads = [threading.Thread(target=write, args=(f"n{each}",)) for each in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = journal.story().events
    for number in range(8):
        assert [e.phase for e in events if e.host == f"n{number}"] == [str(n) for n in range(20)]


def test_it_is_read_while_another_process_writes(tmp_path: Path) -> None:
    with made(tmp_path) as journal, Journal.open(tmp_path / "run") as reader:
        for number in range(20):
            journal.add(Event("gpu1", str(number)))
            assert len(reader.story().events) == number + 1


WRITER = """
import sys
from pathlib import Path
from toolkit.rollout.journal import Event, Journal
journal = Journal.open(Path(sys.argv[1]))
for number in range(10**6):
    journal.add(Event("gpu1", str(number)))
    print(number, flush=True)
"""


@pytest.mark.parametrize("moment_s", [0.0, 0.003, 0.011, 0.02, 0.05])
def test_a_writer_killed_at_any_moment_costs_nothing_it_had_said(
    tmp_path: Path, moment_s: float
) -> None:
    made(tmp_path).close()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "run")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline()]
        time.sleep(moment_s)
        writer.kill()
        said += writer.stdout.readlines()
    with Journal.open(tmp_path / "run") as again:
        numbers = [int(event.phase) for event in again.story().events]
        again.add(Event("gpu1", "looking"))
    whole = [int(line) for line in said if line.endswith("\n")]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) - len(whole) in {0, 1}


def test_a_journal_that_was_half_written_is_taken_back_before_it_is_read(tmp_path: Path) -> None:
    """The state on disk amid a transaction: pages changed, and how they were beside them."""
    made(tmp_path).close()
    file = tmp_path / "run" / FILE
    base = sqlite3.connect(file, isolation_level=None)
    base.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the end
    base.execute("BEGIN")
    for number in range(500):
        row = ("t", "gpu1", f"half {number}", "", "x" * 200)
        base.execute("INSERT INTO event (time,host,phase,boot_id,detail) VALUES (?,?,?,?,?)", row)
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "run", killed)
    base.close()
    assert (killed / f"{FILE}-journal").stat().st_size > 0, "no hot journal: the test shows nothing"
    with pytest.raises(sqlite3.OperationalError, match=r"readonly|unable to open"):
        sqlite3.connect(f"{(killed / FILE).as_uri()}?mode=ro", uri=True).execute(
            "SELECT * FROM event"
        )
    with Journal.open(killed) as again:
        assert again.story().events == ()


def test_a_full_disk_is_a_sentence_and_what_was_written_stays(tmp_path: Path) -> None:
    journal = made(tmp_path)
    journal.add(Event("gpu1", "done"))
    pages = journal._base.execute("PRAGMA page_count").fetchone()[0]
    journal._base.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalError, match="database or disk is full") as full:
        journal.add(*(Event("gpu2", "begun", detail="x" * 500) for _ in range(100)))
    assert "--resume run" in full.value.hint
    journal._base.execute("PRAGMA max_page_count = 100000")
    assert journal.story().events[0].phase == "done"
    journal.add(Event("gpu2", "begun"))


def test_what_is_no_journal_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing: no journal of such a run"):
        Journal.open(tmp_path / "nothing")
    (tmp_path / FILE).write_text("not a data base, and longer than its head would be" * 9)
    with pytest.raises(JournalError, match="file is not a database"):
        Journal.open(tmp_path)
    made(tmp_path).close()
    base = sqlite3.connect(tmp_path / "run" / FILE)
    base.execute("PRAGMA user_version = 2")
    base.close()
    with pytest.raises(JournalError, match="is of version 2"):
        Journal.open(tmp_path / "run")
