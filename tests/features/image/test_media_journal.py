"""What replaces a mounted image file by file, stopped behind every step and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import ApplyError, UsageError
from toolkit.features.image.io import tree as file_journal
from toolkit.features.image.io.index import differences, look
from toolkit.features.image.io.tree import APPLY, carry_out, mend, prepare


class Here:
    """A room without walls."""

    def call(self, *words: str | Path) -> str:
        return subprocess.run(
            [str(word) for word in words], check=True, capture_output=True, text=True
        ).stdout


def kinds(root: Path, beside: Path) -> None:
    """A file, a link and a folder, each of which becomes something else."""
    for name in ("file", "link", "folder", "deep/gone", "deep/stays"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "file").write_text("was a file\n")
    (root / "link").symlink_to(beside)
    (root / "folder/child").mkdir(parents=True)
    (root / "folder/child/one").write_text("1\n")
    (root / "other").mkdir()
    (root / "other/child").write_text("2\n")
    (root / "deep/gone").write_text("3\n")
    (root / "deep/stays").write_text("4\n")


def changed(copy: Path, beside: Path) -> None:
    (copy / "file").unlink()
    (copy / "file").symlink_to("deep/stays")
    (copy / "link").unlink()
    (copy / "link/below").mkdir(parents=True)
    (copy / "link/below/new").write_text("new\n")
    subprocess.run(("rm", "-r", copy / "folder", copy / "other"), check=True)
    (copy / "folder").symlink_to(beside)
    (copy / "other").write_text("now a file\n")
    (copy / "deep/gone").unlink()
    (copy / "deep/stays").write_text("5\n")


class Stopped(Exception):
    """The process was killed here."""


def stopping(after: int) -> Callable[[Path, file_journal._Step], None]:
    real, done = file_journal._do, 0

    def step(root: Path, each: file_journal._Step) -> None:
        nonlocal done
        if done == after:
            raise Stopped
        real(root, each)
        done += 1

    return step


def test_stopped_behind_any_step_it_is_gone_on_with_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after, stopped = 0, True
    while stopped:
        home = tmp_path / str(after)
        root, copy, beside = home / "root", home / "copy", home / "beside"
        (beside / "child").mkdir(parents=True)
        (beside / "child/one").write_text("another's\n")
        kinds(root, beside)
        kinds(copy, beside)
        before = look(copy)
        changed(copy, beside)
        prepare(Here(), root, copy, differences(before, look(copy)))  # type: ignore[arg-type] # of a Room it calls this alone
        with monkeypatch.context() as patched:
            patched.setattr(file_journal, "_do", stopping(after))
            try:
                carry_out(root)
                stopped = False
            except Stopped:
                pass
        mend(root)
        assert differences(look(copy), look(root)) == (), after
        assert (beside / "child/one").read_text() == "another's\n", after
        after += 1
    assert after > 12


@pytest.mark.parametrize("path", ["../victim", "/victim", "etc/../../victim"])
def test_a_list_that_names_what_lies_outside_is_not_followed(tmp_path: Path, path: str) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    root.mkdir()
    victim.write_text("mine\n")
    path = str(victim) if path.startswith("/") else path
    (root / APPLY).write_text(
        json.dumps({"act": "remove", "path": path, "owner": [0, 0]}) + "\nend\n"
    )
    with pytest.raises(UsageError, match="names what is not in the image") as told:
        mend(root)
    assert victim.read_text() == "mine\n"
    assert told.value.hint


def test_nothing_is_removed_or_placed_through_a_link(tmp_path: Path) -> None:
    root, beside = tmp_path / "root", tmp_path / "beside"
    root.mkdir()
    beside.mkdir()
    (beside / "one").write_text("mine\n")
    (root / "out").symlink_to(beside)
    (root / "new").write_text("theirs\n")
    remove = {"act": "remove", "path": "out/one", "owner": [0, 0]}
    place = {"act": "place", "path": "out/one", "new": "new", "owner": [0, 0]}
    (root / APPLY).write_text(f"{json.dumps(remove)}\n{json.dumps(place)}\nend\n")
    with pytest.raises(ApplyError, match="stopped in the midst of it"):
        mend(root)
    assert (beside / "one").read_text() == "mine\n"


def test_what_stops_it_again_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_root: Path, _step: file_journal._Step) -> None:
        raise OSError(16, os.strerror(16), "etc/sub")

    (tmp_path / APPLY).write_text('{"act": "remove", "path": "etc/sub", "owner": [0, 0]}\nend\n')
    monkeypatch.setattr(file_journal, "_do", busy)
    with pytest.raises(ApplyError, match=r"stopped in the midst of it: .*busy.*: etc/sub") as told:
        mend(tmp_path)
    assert "what was begun is finished first" in told.value.hint
    assert (tmp_path / APPLY).exists()


def test_steps_that_a_killed_run_wrote_down_are_read_by_the_next_toolkit() -> None:
    words = {"REMOVE": "remove", "NO_FOLDER": "no-folder", "ONLY_FOLDER": "only-folder"}
    words |= {"FOLDER": "folder", "PLACE": "place"}
    assert {each.name: str(each) for each in file_journal._Act} == words
    names = (file_journal.PREPARE, file_journal.APPLY, file_journal._NEW)
    assert names == (".gdr-image.prepare", ".gdr-image.apply", ".gdr-image.new-")
