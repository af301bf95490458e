"""A site's command for one host: what it is told, and how its failure is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.hosts.host import Host
from toolkit.rollout.hooks import HookError, Hooks, OutOfService, Say, check_hook, run_hook
from toolkit.rollout.plan.batches import Phase
from toolkit.ssh.transport import Result, Sink, quiet

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


def test_what_takes_too_long_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "pid"
    wait = subprocess.Popen.wait

    def up(child: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        """The time is up as soon as both run."""
        if timeout is None:
            return wait(child)
        until(lambda: started.exists() and started.read_text().endswith("\n"))
        raise subprocess.TimeoutExpired(child.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", up)
    with pytest.raises(HookError, match=r"was not done within 2 s"):
        run_hook("drain", f"sleep 100 & echo $! >{started}; sleep 100", GPU, 2)
    until(lambda: not _runs(int(started.read_text())))  # killed, and not gone yet


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether it is there, and no zombie."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


class Told:
    """A transport, a witness and a drainer in one: what is done, in order."""

    name = "gpu07"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None:
        self.heard.append("closed")

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        self.heard.append(phase.value)

    def ran(self, run: str) -> None: ...

    def keep(self, before: str) -> None: ...

    def booted(self, boot_id: str) -> bool:
        return False

    def has_out(self, host: Host) -> bool:
        return False

    def take_out(self, host: Host, say: Say) -> str:
        self.heard.append("take out")
        return "taken"

    def give_back(self, host: Host, say: Say) -> str:
        self.heard.append("give back")
        return "others hold it"

    def stay_out(self, host: Host, why: str) -> str:
        self.heard.append(f"stay: {why}")
        return "stays"


def test_our_way_to_a_node_is_closed_before_a_scheduler_may_wait_for_it() -> None:
    told, said = Told(), list[str]()
    way = OutOfService(GPU, told, Hooks(scheduler=told), told, said.append)
    assert way.take() == "taken"
    assert told.heard == ["closed", "draining", "take out", "drained"]
    told.heard.clear()
    assert way.give_back() == ("others hold it", "others hold it")
    assert told.heard == ["closed", "undraining", "give back"]
    told.heard.clear()
    assert way.stay("rdma.port") == "stays"
    assert told.heard == ["closed", "stay: rdma.port"]
    assert said == ["drain", "undrain"]


@pytest.mark.parametrize("command", ["drain-all --now", "echo 'x"])
def test_a_command_that_cannot_serve_each_host_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match="--drain"):
        check_hook("--drain", command)


@pytest.mark.parametrize("command", ["", "drain {host}", "/site/drain", 'f "$GDR_HOST"'])
def test_a_command_that_can_is_not(command: str) -> None:
    check_hook("--drain", command)
