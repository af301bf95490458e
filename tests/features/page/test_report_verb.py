"""The verb ``report``: its file, its exit code, and what it refuses before any node is asked."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import cast

import jsonschema
import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.evidence.build import node
from tests.unit.fleets import CAPTURES
from toolkit import DEFAULT_PROFILE
from toolkit.cli.options import Said
from toolkit.errors import TransportError
from toolkit.features.page import cli
from toolkit.features.page.cli import _command, look_at_scrubbed, report
from toolkit.features.page.show.seen import SeenNode
from toolkit.groups import numbered
from toolkit.verbs.access import Access, Fleet
from toolkit.want import PROFILES

SCHEMA = Path(__file__).parents[3] / "docs/report.schema.json"


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


def test_a_page_for_others_has_none_of_the_sites_own_words(saved: Path, tmp_path: Path) -> None:
    profile = tmp_path / "acme-corp.toml"
    profile.write_text((PROFILES / "peermem.toml").read_text())
    site = tmp_path / "site.toml"
    site.write_text(
        '[[waivers]]\ncheck = "acs.redirect"\nreason = "rack17 is to go"\nuntil = 9999-01-01\n'
    )
    file = tmp_path / "fleet.html"
    said = {"profile": str(profile), "site": str(site), "html": str(file)}
    report(Context(), from_=str(saved), **said, scrub=True)
    made = file.read_text()
    assert "until 9999-01-01: the reason is hidden" in made
    assert "rack17" not in made
    assert "acme-corp" not in made
    report(Context(), from_=str(saved), **said)
    assert "rack17 is to go" in file.read_text()


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


def test_a_file_that_cannot_be_written_leaves_nothing_behind_and_the_code_stands(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    file = tmp_path / "fleet.html"
    with pytest.raises(Exit) as ended:
        report(Context(), profile="peermem", from_=str(saved), html=str(file))
    assert ended.value.code == 2
    assert f"note: --html {file} was not written: No space" in capsys.readouterr().err
    assert {each.name for each in tmp_path.iterdir()} == {"saved", "state"}


def test_a_page_of_an_installed_toolkit_names_the_command_that_was_called(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/v/bin/gdr", "report"])
    monkeypatch.setattr("toolkit.package_data.PACKAGE", tmp_path / "toolkit")
    page, list_ = tmp_path / "fleet.html", tmp_path / "found.sarif"
    said = {"from_": str(saved), "profile": "peermem"}
    with pytest.raises(Exit):
        report(Context(), html=str(page), sarif=str(list_), **said)
    made = page.read_text()
    assert f"Made by <code>gdr report --from {saved}" in made
    assert "gdr provision --hosts gpu-acs" in made
    assert "invokew" not in made + list_.read_text()


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ({"hosts": "gpu[1-2]"}, "report --hosts 'gpu[1-2]'"),
        ({"from_": "a b", "hosts": ""}, "report --from 'a b'"),
        ({"hosts": "a", "profile": "dmabuf"}, "report --hosts a --profile dmabuf"),
        ({"hosts": "a", "profile": "dmabuf", "scrub": True}, "report --scrub"),
    ],
)
def test_the_command_that_made_a_page_makes_it_again(
    said: dict[str, str | int | bool], typed: str
) -> None:
    """But where names are hidden: it would say them."""
    assert _command(Said({"profile": DEFAULT_PROFILE, **said})).endswith(f" {typed}")


def test_of_a_page_for_others_errors_and_names_are_hidden_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = TransportError("secret7: no route to secret7", hint="is secret7 up?")
    found = {"secret6": node(), "secret7": away}
    monkeypatch.setattr(cli, "gather", lambda _: found)
    fleet = Fleet((), lambda _: pytest.fail("it is asked twice"), Access())
    looked = look_at_scrubbed(fleet, lambda name, _: cast("SeenNode", name))
    assert [each.host for each in looked] == [numbered(1), numbered(2)]
    assert str(looked[0].value) == numbered(1)
    why = looked[1].error
    assert isinstance(why, TransportError)
    assert "secret7" not in f"{why} {why.hint}"
    assert "no route to" in str(why)
    assert (str(away), away.hint) == ("secret7: no route to secret7", "is secret7 up?")
