"""The verb ``report``: its file, its exit code, and what it refuses before any node is asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.unit.fleets import CAPTURES
from toolkit.cli.reporting import report

SCHEMA = Path(__file__).parents[2] / "docs/report.schema.json"


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "saved"
    folder.mkdir()
    for name in ("healthy", "acs"):
        shutil.copy(CAPTURES / f"{name}.txt", folder / f"gpu-{name}.evidence")
    return folder


def test_a_page_is_written_and_the_exit_code_is_doctors(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.html"
    with pytest.raises(Exit) as ended:
        report(Context(), profile="peermem", from_=str(saved), html=str(file), json=True)
    assert ended.value.code == 2
    assert "1 of 2 nodes are ready" in file.read_text()
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert [each["name"] for each in told["hosts"]] == ["gpu-acs", "gpu-healthy"]
    assert [each.name for each in tmp_path.iterdir() if ".html" in each.name] == ["fleet.html"]


def test_a_page_for_others_names_no_node(saved: Path, tmp_path: Path) -> None:
    evidence = saved / "gpu-acs.evidence"
    own = "secret-rack-17"
    evidence.write_text(evidence.read_text().replace("|demo-acs", f"|{own}"))
    evidence.rename(saved / f"{own}.evidence")
    file = tmp_path / "fleet.html"
    with pytest.raises(Exit):
        report(Context(), profile="peermem", from_=str(saved), html=str(file), scrub=True)
    made = file.read_text()
    assert "node001" in made
    assert own not in made
    assert str(saved) not in made


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        pytest.param("", "where to write the page was not said", id="nowhere"),
        pytest.param(".", "is a folder", id="a-folder"),
        pytest.param("no/such/fleet.html", "no such folder", id="no-folder"),
    ],
)
def test_a_place_that_cannot_be_is_refused_first(
    place: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {"html": place} if place else {}
    with pytest.raises(Exit) as ended:
        report(Context(), from_="not-even-looked-at", **words)
    assert ended.value.code == 64
    assert sentence in capsys.readouterr().err
