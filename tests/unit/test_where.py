"""Where our files are, and where the user has ours."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from toolkit.errors import ToolkitError, UsageError
from toolkit.where import from_home, kept, playbooks, templates, user_name
from toolkit.words import counted


def test_inside_the_package_goes_before_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "toolkit"
    package.mkdir()
    for find, name in ((templates, "templates"), (playbooks, "playbooks")):
        with pytest.raises(ToolkitError, match=f"this installation has no folder {name}"):
            find(package)
        (tmp_path / name).mkdir()
        assert find(package) == tmp_path / name
        (package / name).mkdir()
        assert find(package) == package / name
        assert find().is_dir()


@pytest.mark.parametrize(
    ("given", "folder"),
    [(None, "/home/jo/.state"), ("", "/home/jo/.state"), ("/x", "/x"), ("~/y", "/home/jo/y")],
)
def test_the_users_folder_of_ours(
    monkeypatch: pytest.MonkeyPatch, given: str | None, folder: str
) -> None:
    monkeypatch.setenv("HOME", "/home/jo")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if given is not None:
        monkeypatch.setenv("XDG_STATE_HOME", given)
    assert kept("XDG_STATE_HOME", "~/.state") == Path(folder) / "gdr-toolkit"
    assert from_home("~/a") == Path("/home/jo/a")


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: Path) -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", none)
    with pytest.raises(UsageError, match=r"~/\.state: this user has no home folder") as raised:
        kept("XDG_STATE_HOME", "~/.state")
    assert "set XDG_STATE_HOME " in raised.value.hint


@pytest.mark.parametrize("why", [KeyError("x"), OSError("x")])
def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch, why: Exception) -> None:
    def none() -> str:
        raise why

    monkeypatch.setattr(getpass, "getuser", lambda: "jo")
    assert user_name() == "jo"
    monkeypatch.setattr(getpass, "getuser", none)
    assert user_name() == str(os.geteuid())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((1, "node", "owes", "owe"), "1 node owes"),
        ((3, "node", "owes", "owe"), "3 nodes owe"),
        ((0, "node"), "0 nodes"),
        ((1, "node"), "1 node"),
    ],
)
def test_words_that_count(words: tuple[int, str], text: str) -> None:
    assert counted(*words) == text
