"""The verb as an operator says it: words, exit codes, the document, and what reaches a BMC."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.simulator import Simulator
from tests.invoked import ROOT, gdr
from toolkit.errors import ExitCode
from toolkit.rollout.journal import Journal

SCHEMA = json.loads((ROOT / "docs/bios.schema.json").read_text())


class Operator:
    """Says ``bios`` about simulated BMCs, gpu1 and on; their nodes do not answer by SSH."""

    def __init__(self, base: Path, *bmcs: Simulator) -> None:
        self.base, self.bmcs = base, bmcs
        lines = [f"gpu{number} {bmc.address}\n" for number, bmc in enumerate(bmcs, 1)]
        (base / "map").write_text("".join(lines))
        (base / "password").write_text(bmcs[0].password)
        (base / "password").chmod(0o600)

    def says(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Say it, and wait."""
        cache = str(self.base / "cache")
        return gdr("bios", *self.options, *words, state=self.base, XDG_CACHE_HOME=cache)

    @property
    def options(self) -> list[str]:
        told = {
            "--bmc-map": self.base / "map",
            "--bmc-user": self.bmcs[0].user,
            "--bmc-password-file": self.base / "password",
            "--bmc-ca": self.bmcs[0].ca,
        }
        return [str(each) for pair in told.items() for each in pair]

    def begins(self, *words: str) -> subprocess.Popen[str]:
        """Say it, as a process that can be sent a signal."""
        state = {"XDG_STATE_HOME": str(self.base), "XDG_CACHE_HOME": str(self.base / "cache")}
        return subprocess.Popen(
            [sys.executable, "-m", "toolkit.cli", "bios", *self.options, *words],
            cwd=ROOT,
            env={**os.environ, **state},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def run(self) -> str:
        """The first run that left a journal."""
        return sorted(self.base.glob("gdr-toolkit/runs/*/journal.sqlite"))[0].parent.name


HPE = ("--hosts", "gpu1", "--role", "bare-metal")


def test_a_change_from_the_first_look_to_its_undo(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("hpe")
    operator = Operator(tmp_path, bmc)
    look = operator.says(*HPE)
    assert look.returncode == ExitCode.FAILED, look.stderr
    assert "AccessControlService  Enabled            off     differs" in look.stdout
    plan = operator.says(*HPE, "--set", "profile", "--json")
    assert plan.returncode == ExitCode.PENDING, plan.stderr
    told = json.loads(plan.stdout)
    jsonschema.validate(told, SCHEMA)
    assert [e["attribute"] for e in told["hosts"][0]["plan"]["passes"][0]] == [
        "AccessControlService"
    ]
    assert not bmc.log.of("PATCH")
    words = ("--apply", "--reboot", "--over-jobs", "--yes", "--json")
    done = operator.says(*HPE, "--set", "profile", *words)
    assert done.returncode == ExitCode.OK, done.stderr
    jsonschema.validate(json.loads(done.stdout), SCHEMA)
    assert f"bios --undo {operator.run} --apply" in done.stderr
    assert bmc.machine.active["AccessControlService"] == "Disabled"
    back = operator.says("--undo", operator.run, *words[:-1])
    assert back.returncode == ExitCode.OK, back.stderr
    assert "sent AccessControlService: Disabled -> Enabled" in back.stdout
    assert (bmc.machine.active["AccessControlService"], bmc.sessions) == ("Enabled", 0)


def test_a_request_that_makes_no_sense_reaches_no_bmc(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("hpe")
    operator = Operator(tmp_path, bmc)
    for words, said in (
        (("--set", "asc=off"), "ats or acs or aspm"),
        (("--set", "acs=off", "--reboot"), "add --apply"),
        (("--set", "acs=off", "--apply"), "--yes"),
    ):
        ended = operator.says(*HPE, *words)
        assert ended.returncode == ExitCode.USAGE, ended.stderr
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
    assert not bmc.log.of("PATCH")


@pytest.mark.parametrize("way", ["environment", "descriptor"])
def test_a_password_is_read_once_from_wherever_it_lies(
    simulate: Simulate, tmp_path: Path, way: str
) -> None:
    bmc = simulate("hpe")
    (tmp_path / "map").write_text(f"gpu1 {bmc.address} sha256:{bmc.fingerprint}\n")
    words = ["--bmc-map", str(tmp_path / "map"), "--bmc-user", bmc.user, *HPE]
    state = {"XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if way == "environment":
        state["GDR_BMC_PASSWORD"] = bmc.password
    else:
        words += ["--bmc-pass-fd", "0"]
    ended = subprocess.run(
        [sys.executable, "-m", "toolkit.cli", "bios", *words],
        cwd=ROOT,
        env={**os.environ, **state},
        input=bmc.password if way == "descriptor" else "",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == ExitCode.FAILED, ended.stderr
    assert "AccessControlService" in ended.stdout


def test_a_host_without_a_bmc_is_not_known_and_the_others_are_read(
    simulate: Simulate, tmp_path: Path
) -> None:
    operator = Operator(tmp_path, simulate("dell"))
    ended = operator.says("--hosts", "gpu[1-2]", "--role", "bare-metal")
    assert ended.returncode == ExitCode.UNKNOWN, ended.stderr
    assert "MmioAbove4Gb" in ended.stdout
    assert "no BMC is given for it" in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_whoever_ends_a_change_leaves_no_session_and_a_journal(
    number: signal.Signals, simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("hpe", post_s=600)
    operator = Operator(tmp_path, bmc)
    words = ("--set", "acs=off", "--apply", "--reboot", "--over-jobs", "--yes")
    running = operator.begins(*HPE, *words)
    _until(lambda: bmc.machine.boots == 1)
    _until(lambda: bmc.sessions == 1)
    running.send_signal(number)
    _until(lambda: not _pending(running.pid, number))  # two that it has not seen yet are one
    time.sleep(1)
    assert running.poll() is None  # the first waits for what is in hand
    running.send_signal(number)
    try:
        _, told = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == ExitCode.INTERRUPTED, told
    assert bmc.sessions == 0
    with Journal.open(tmp_path / "gdr-toolkit/runs" / operator.run) as journal:
        phases = [event.phase for event in journal.story().events]
    assert [each for each in phases if each in {"kept", "applying", "rebooting"}] == [
        "kept", "applying", "rebooting",
    ]  # fmt: skip


def test_a_controller_that_is_killed_leaves_what_the_next_one_finds(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("hpe")
    bmc.fails(Kind.SLOW, "PATCH", slow_s=20)
    operator = Operator(tmp_path, bmc)
    running = operator.begins(*HPE, "--set", "acs=off", "--apply", "--yes")
    _until(lambda: bool(bmc.machine.pending))
    running.kill()
    running.communicate(timeout=60)
    bmc.expire()  # nobody could close it
    found = operator.says(*HPE, "--set", "acs=off")
    assert found.returncode == ExitCode.PENDING, found.stderr
    assert "pending   AccessControlService: Enabled -> Disabled, at the next reset" in found.stdout
    back = operator.says("--undo", operator.run, "--apply", "--yes")
    assert back.returncode == ExitCode.OK, back.stderr
    assert (bmc.machine.pending, bmc.machine.boots) == ({}, 0)


def _pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal was sent to a process, and has not reached it."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = dict(row.split(":\t", 1) for row in rows)
    return bool((int(masks["SigPnd"], 16) | int(masks["ShdPnd"], 16)) >> (number - 1) & 1)


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_wrong_password_is_said_once_and_costs_the_others_nothing(
    simulate: Simulate, tmp_path: Path
) -> None:
    bad, good = simulate("dell"), simulate("hpe")
    bad.fails(Kind.STATUS, "POST", "/Sessions", code=401, times=9)
    operator = Operator(tmp_path, bad, good)
    ended = operator.says("--hosts", "gpu[1-2]", "--role", "bare-metal")
    assert ended.returncode == ExitCode.UNREACHABLE, ended.stderr
    assert "AccessControlService" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert len(bad.log.of("POST")) == 1


def test_two_hosts_with_one_bmc_are_looked_at_and_not_changed(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("hpe")
    operator = Operator(tmp_path, bmc, bmc)
    both = ("--hosts", "gpu[1-2]", "--role", "bare-metal")
    ended = operator.says(*both, "--set", "acs=off", "--apply", "--yes")
    assert ended.returncode == ExitCode.USAGE, ended.stderr
    assert f"gpu1 and gpu2 have one BMC: {bmc.address}" in ended.stderr
    assert not bmc.log.of("PATCH")


def test_a_change_that_stopped_midway_says_how_it_is_taken_back(
    simulate: Simulate, tmp_path: Path
) -> None:
    operator = Operator(tmp_path, simulate("dell", job_fails=True))
    words = ("--set", "sr-iov=on", "--apply", "--reboot", "--over-jobs", "--yes")
    ended = operator.says(*HPE, *words)
    assert ended.returncode == ExitCode.STOPPED, ended.stderr
    assert f"bios --undo {operator.run} --apply" in ended.stderr
