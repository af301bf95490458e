"""A site's command for one host: what it is told, and how its failure is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.hosts.host import Host
from toolkit.rollout.hooks import HookError, check_hook, run_hook

GPU = Host("gpu07", address="10.0.0.7")


def test_it_is_told_the_host() -> None:
    told = run_hook("drain", 'echo {host} "$GDR_HOST" "$GDR_ADDRESS"', GPU, 10)
    assert told == "gpu07 gpu07 10.0.0.7\n"


def test_a_hosts_name_is_data_not_shell(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert run_hook("drain", "echo {host}", Host(f"x; touch {mark}"), 10).startswith("x; touch")
    assert not mark.exists()


def test_a_failure_has_its_last_words() -> None:
    with pytest.raises(HookError, match=r"gpu07: drain ended with status 3\nno such node"):
        run_hook("drain", "echo no such node; exit 3", GPU, 10)


def test_what_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(HookError, match=r"was not done within 2 s"):
        run_hook("drain", f"sleep 100 & echo $! >{started}; sleep 100", GPU, 2)
    while _runs(int(started.read_text())):  # killed, and not gone yet
        assert time.monotonic() - begun < 50
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether it is there, and no zombie."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("command", ["drain-all --now", "echo 'x"])
def test_a_command_that_cannot_serve_each_host_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match="--drain"):
        check_hook("--drain", command)


@pytest.mark.parametrize("command", ["", "drain {host}", "/site/drain", 'f "$GDR_HOST"'])
def test_a_command_that_can_is_not(command: str) -> None:
    check_hook("--drain", command)
