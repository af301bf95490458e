"""The task vm.box, without making a box: where it puts one, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.lab import boxing
from tests.builds.mirrors import NotToBeHad
from toolkit.cli.options import Said
from toolkit.cli.verb import guarded
from toolkit.errors import ExitCode


def run(values: dict[str, str | int | bool], *, dry: bool = False) -> ExitCode:
    return guarded(boxing.put, Said(values, dry=dry))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A box that is there already; every tool is."""
    file = tmp_path / "made"
    file.write_bytes(b"box")
    monkeypatch.setattr(boxing, "box", lambda _, __: file)
    monkeypatch.setattr(boxing, "exported", lambda _, __, ___: file)
    monkeypatch.setattr(boxing, "login", lambda: file)
    monkeypatch.setattr(boxing, "missing", lambda _: ())
    return file


def test_the_box_is_put_where_it_was_asked_for(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my.box"
    assert run({"out": str(out)}) is ExitCode.OK
    assert out.read_bytes() == b"box"
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".part")] == []
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    assert f"vagrant box add --force --name gdr-toolkit/debian12 {out}" in said.err


def test_another_form_comes_with_the_key_to_log_in_by(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made.chmod(0o600)
    out = tmp_path / "acs.ova"
    assert run({"name": "acs", "form": "ova", "out": str(out)}) is ExitCode.OK
    key = tmp_path / "acs.ova.key"
    assert (out.read_bytes(), key.read_bytes()) == (b"box", b"box")
    assert key.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().out == f"{out}\n"


def test_a_form_that_there_is_not_is_told_with_those_there_are(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run({"form": "vdi"}) is ExitCode.USAGE
    assert "forms: vagrant, ova, oci, qcow2" in capsys.readouterr().err


def test_a_dry_run_makes_nothing(made: Path, tmp_path: Path) -> None:
    assert run({"out": str(tmp_path / "my.box")}, dry=True) is ExitCode.OK
    assert not (tmp_path / "my.box").exists()


def test_a_place_that_cannot_be_written_is_told(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run({"out": str(tmp_path / "no" / "my.box")}) is ExitCode.USAGE
    assert "my.box: No such file or directory" in capsys.readouterr().err


def test_a_box_that_cannot_be_made_is_told_in_a_sentence(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(name: str, tell: object) -> Path:
        raise NotToBeHad("mmdebstrap: no network")

    monkeypatch.setattr(boxing, "box", fails)
    assert run({"out": str(tmp_path / "my.box")}) is ExitCode.UNSUPPORTED
    assert "error: no box: mmdebstrap: no network" in capsys.readouterr().err


def test_a_name_that_no_box_has_is_told_with_those_there_are(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run({"name": "helthy"}) is ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--name helthy: no such box" in said
    assert "boxes: debian12, healthy, acs" in said
