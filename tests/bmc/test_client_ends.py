"""The command, ended amid its work: one word to the operator, and no session on any BMC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from toolkit.errors import ExitCode

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_a_verb_that_is_ended_leaves_no_session(
    simulate: Simulate, tmp_path: Path, ends: signal.Signals
) -> None:
    bmcs = [simulate("dell"), simulate("hpe")]
    for each in bmcs:
        each.fails(Kind.HANG, "GET", "ios", times=99)
    lines = [f"gpu{n} {each.address} {each.fingerprint}\n" for n, each in enumerate(bmcs, 1)]
    (tmp_path / "map").write_text("".join(lines))
    words = ["--hosts", "gpu[1-2]", "--bmc-map", str(tmp_path / "map"), "--bmc-user", bmcs[0].user]
    secret = {"GDR_BMC_PASSWORD": bmcs[0].password, "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "toolkit.cli", "bios", *words, "--bmc-timeout", "600"],
        cwd=ROOT,
        env={**os.environ, **secret, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        end = time.monotonic() + 120
        while [each.sessions for each in bmcs] != [1, 1]:
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(ends)
        _, told = process.communicate(timeout=120)
    assert process.returncode == ExitCode.INTERRUPTED, told
    assert "Traceback" not in told
    assert [each.sessions for each in bmcs] == [0, 0]
    assert bmcs[0].log.writes == bmcs[1].log.writes == ()
