"""The folder of a run: whole files, no collision, no harm from names, no loss of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.evidence.build import node
from toolkit.errors import UsageError
from toolkit.rollout.runs import RunFolder, safe_name
from toolkit.verbs.saved import read_saved

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def test_a_run_that_keeps_nothing_makes_no_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path, "doctor", NOW)
    assert list(tmp_path.iterdir()) == []


def test_two_runs_within_one_second_get_a_folder_each(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path, "doctor", NOW) for _ in range(2)]
    for folder in folders:
        folder.keep("a", "text\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "2026-11-21T12-30-00-doctor",
        "2026-11-21T12-30-00-doctor-1",
    ]


def test_a_settled_name_is_the_run_s_own_from_then_on(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path, "provision", NOW) for _ in range(2)]
    names = [folder.settle() for folder in folders]
    folders[1].keep("a", "text\n")
    assert names == [folder.path.name for folder in folders]
    assert len(set(names)) == 2


def test_what_was_kept_is_judged_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "doctor", NOW)
    folder.keep_evidence("gpu07", node())
    assert list(read_saved(folder.path)) == [("gpu07", node())]
    assert list(read_saved(folder.path / "gpu07.evidence")) == [("gpu07", node())]


def test_a_disk_that_is_full_costs_the_record_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = RunFolder(tmp_path / "file", "doctor", NOW)
    folder.keep("a", "text\n")
    assert "Not a directory" in folder.trouble


def test_what_is_kept_in_parts_is_handed_on_and_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "doctor", NOW)
    keeping = folder.kept("report.json", iter("abc"))
    assert next(keeping) == "a"
    assert not (folder.path / "report.json").exists(), "half a report is none"
    assert list(keeping) == ["b", "c"]
    assert (folder.path / "report.json").read_text() == "abc"


def test_parts_are_handed_on_though_the_disk_is_full(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    folder = RunFolder(tmp_path / "in the way", "doctor", NOW)
    assert list(folder.kept("report.json", iter("abc"))) == ["a", "b", "c"]
    assert "Not a directory" in folder.trouble


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        pytest.param("root@gpu07:22", "root@gpu07:22", id="ordinary"),
        pytest.param("../../etc/passwd", "_.._etc_passwd", id="climbing"),
        pytest.param(".", "_", id="dot"),
        pytest.param("a\nb\x00c", "a_b_c", id="control-characters"),
        pytest.param("x" * 300, "x" * 200, id="long"),
    ],
)
def test_a_hosts_name_does_no_harm_as_a_files(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_what_is_no_evidence_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.evidence").write_text("hello\n")
    with pytest.raises(UsageError, match=r"a\.evidence: is no evidence"):
        list(read_saved(tmp_path))
    with pytest.raises(UsageError, match="No such file"):
        list(read_saved(tmp_path / "nowhere"))
