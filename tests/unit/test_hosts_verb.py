"""``hosts``: each that is meant, and how it would be reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.cli import main
from toolkit.errors import ExitCode

INVENTORY = "[train]\ngpu001 ansible_host=192.0.2.1 ansible_user=root ansible_port=2222\ngpu002\n"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "hosts.ini"
    file.write_text(INVENTORY)
    return str(file)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["gdr", "hosts", *words])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_each_host_has_its_row(
    inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--inventory", inventory, "--hosts", "@train")
    assert run(monkeypatch, *words) == ExitCode.OK
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "address", "user", "port", "groups"],
        ["gpu001", "192.0.2.1", "root", "2222", "train"],
        ["gpu002", "gpu002", "-", "-", "train"],
    ]
    assert run(monkeypatch, *words, "--json") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told["hosts"]] == ["gpu001", "gpu002"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="none-named"),
        pytest.param(("--hosts", "gpu001", "--limit", "gpu002"), id="none-kept"),
        pytest.param(("--hosts", "gpu[001-002]", "--exclude", "gpu[001-009]"), id="all-left-out"),
    ],
)
def test_no_host_is_no_table(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *words) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert [line[:7] for line in told.err.splitlines()] == ["error: ", " next: "]
