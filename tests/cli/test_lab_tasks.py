"""The tasks vm.*: what they refuse, and that none leaves a guest behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from dev.lab import tasks
from dev.lab.machine import Guest
from dev.lab.monitor import LabError
from dev.tools import Tool
from tests.builds.mirrors import NotToBeHad
from toolkit.cli.options import VerbTask, signature
from toolkit.errors import ExitCode


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State of our own, and a machine that has all that is needed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(tasks, "missing", lambda _: ())
    return tmp_path / "gdr-toolkit/lab"


def _code(task: object, **given: object) -> ExitCode:
    assert isinstance(task, VerbTask)
    keywords = list(signature(task.options).parameters.values())[1:]  # as Invoke would fill them
    usual = {each.name: each.default for each in keywords}
    try:
        task(Context(), **(usual | given))
    except Exit as end:
        return ExitCode(end.code)
    return ExitCode.OK


def _there(home: Path, name: str) -> Path:
    folder = home / name
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"kernel": "6.1", "iommu": "amd"}))
    return folder


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param({"kernel": "5.10"}, "--kernel 5.10: no such guest", id="kernel"),
        pytest.param({"iommu": "arm"}, "--iommu arm: no such guest", id="iommu"),
        pytest.param({"memory": "64"}, "no guest boots with less than 512 MiB", id="memory"),
        pytest.param({"memory": "much"}, "--memory 'much' is not a whole number", id="no-number"),
        pytest.param({"pci": "no-such"}, "--pci no-such: no such table", id="pci"),
        pytest.param({"name": "../up"}, "--name '../up' is no name for a guest", id="name"),
    ],
)
def test_up_refuses_what_cannot_be(
    given: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert _code(tasks.up, **given) is ExitCode.USAGE
    assert sentence in capsys.readouterr().err
    assert not home.exists()


def test_up_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tasks, "missing", lambda _: (Tool("mmdebstrap", "mmdebstrap"),))
    assert _code(tasks.up) is ExitCode.UNSUPPORTED
    assert "a guest needs mmdebstrap (apt install mmdebstrap)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        pytest.param(NotToBeHad("no network"), ExitCode.UNSUPPORTED, id="no-packages"),
        pytest.param(LabError("no login"), ExitCode.UNREACHABLE, id="no-boot"),
        pytest.param(KeyboardInterrupt(), ExitCode.INTERRUPTED, id="ctrl-c"),
    ],
)
def test_a_guest_that_does_not_come_up_is_not_left_behind(
    trouble: BaseException, code: ExitCode, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def ready(guest: Guest, **_: object) -> None:
        guest.folder.mkdir(parents=True)
        raise trouble

    monkeypatch.setattr(tasks, "ready", ready)
    assert _code(tasks.up) is code
    assert list(home.iterdir()) == []


def test_sigterm_ends_a_start_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def ready(guest: Guest, **_: object) -> None:
        guest.folder.mkdir(parents=True)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(tasks, "ready", ready)
    assert _code(tasks.up) is ExitCode.INTERRUPTED
    assert list(home.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("task", [tasks.ssh, tasks.test, tasks.down], ids=["ssh", "test", "down"])
def test_a_guest_that_is_not_there_is_told_with_those_that_are(
    task: object, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _there(home, "other")
    assert _code(task, name="lab") is ExitCode.USAGE
    said = capsys.readouterr().err
    assert "no guest 'lab'" in said
    assert "guests: other" in said


def test_a_guest_that_has_ended_cannot_be_logged_in_to(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _there(home, "lab")
    assert _code(tasks.ssh) is ExitCode.USAGE
    assert "lab does not run" in capsys.readouterr().err


def test_down_removes_one_or_all_and_list_tells_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two", "three"):
        _there(home, name)
    assert _code(tasks.down, name="two") is ExitCode.OK
    assert _code(tasks.list_) is ExitCode.OK
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [
        ["name", "kernel", "iommu", "state"],
        ["one", "6.1", "amd", "ended"],
        ["three", "6.1", "amd", "ended"],
    ]
    assert _code(tasks.down, all=True) is ExitCode.OK
    assert list(home.iterdir()) == []


def test_a_pid_that_is_another_process_by_now_is_nobody(home: Path) -> None:
    folder = _there(home, "lab")
    (folder / "pid").write_text(f"{os.getpid()}\n")
    guest = Guest("lab", folder)
    assert guest.pid == 0
    guest.stop()  # which would have ended us
