"""Each exit code, one by one, from the command line as an operator types it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import invoked
from tests.fleet.links import Mute
from tests.fleet.nodes import LOCKING
from toolkit.cli.options import Said
from toolkit.cli.verb import guarded
from toolkit.errors import ExitCode
from toolkit.verbs.access import demo_folder

LONG = True
ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gdr(tmp_path: Path) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return invoked.gdr(*words, state=tmp_path, cwd=tmp_path)

    return run


def test_0_when_every_node_is_as_wanted(gdr: Run) -> None:
    ended = gdr("doctor", "--hosts", "demo-healthy")
    assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr


def test_2_when_a_check_fails(gdr: Run) -> None:
    assert gdr("doctor", "--hosts", "demo-iommu,demo-healthy").returncode == ExitCode.FAILED


def test_2_when_the_next_kernel_would_lose_something(gdr: Run) -> None:
    ended = gdr("doctor", "--hosts", "demo-kernel,demo-healthy", "--next-boot")
    assert ended.returncode == ExitCode.FAILED, ended.stdout + ended.stderr
    assert "1 of 2 nodes would lose nothing." in ended.stdout


def test_3_when_the_kernel_is_not_installed_yet(gdr: Run) -> None:
    ended = gdr("doctor", "--hosts", "demo-healthy", "--kernel", "6.99.0-1-generic")
    assert ended.returncode == ExitCode.UNKNOWN, ended.stdout + ended.stderr
    assert "6.99.0-1-generic is not installed there" in ended.stdout


@pytest.mark.exhaustive  # it waits until the node is abandoned; tests/suites waits for one too
def test_3_when_only_unknowns_remain(gdr: Run) -> None:
    ended = gdr("doctor", "--hosts", "demo-hang")
    assert ended.returncode == ExitCode.UNKNOWN, ended.stdout
    assert "no answer in time" in ended.stdout


def test_4_when_a_host_is_out_of_reach_and_the_others_are_told_of(gdr: Run) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound and not listening: refused
        port = silent.getsockname()[1]
        ended = gdr("doctor", "--hosts", f"root@127.0.0.1:{port}", "--json")
    assert ended.returncode == ExitCode.UNREACHABLE
    assert json.loads(ended.stdout)["hosts"][0]["state"] == "out of reach"


def test_5_when_apply_stops_and_it_says_what_stands(gdr: Run, tmp_path: Path) -> None:
    gdr("capture", "--hosts", "demo-iommu", "--out", str(tmp_path / "out"))  # makes its tree
    nodes = tmp_path / "gdr-toolkit/demo" / demo_folder().name / "nodes"
    for file in LOCKING:
        (nodes / "demo-iommu/tree" / file).unlink()
    limits = nodes / "demo-iommu/tree/etc/security/limits.d"
    limits.rmdir()
    limits.write_text("in the way\n")
    ended = gdr("provision", "--hosts", "demo-iommu")
    assert ended.returncode == ExitCode.STOPPED, ended.stdout + ended.stderr
    assert "limits.d" in ended.stdout
    assert "stand" in ended.stdout
    assert "rollback" in ended.stdout


def test_6_when_there_is_no_rule_for_the_distribution(gdr: Run) -> None:
    ended = gdr("provision", "--hosts", "demo-arch")
    assert ended.returncode == ExitCode.UNSUPPORTED, ended.stdout + ended.stderr
    assert "arch" in ended.stdout


def test_7_when_changes_are_pending(gdr: Run) -> None:
    assert gdr("plan", "--hosts", "demo-iommu").returncode == ExitCode.PENDING
    assert gdr("provision", "--hosts", "demo-iommu", "--check").returncode == ExitCode.PENDING
    assert gdr("plan", "--hosts", "demo-healthy").returncode == ExitCode.OK


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(("doctor", "--nope"), "--nope", id="mistyped-flag"),
        pytest.param(("doctro",), "doctro", id="mistyped-verb"),
        pytest.param(("doctor",), "no hosts named", id="no-hosts"),
        pytest.param(("doctor", "--hosts", "a!a"), "empty", id="empty-set"),
        pytest.param(("doctor", "--hosts", "n[1-501]"), "501", id="over-500"),
        pytest.param(("doctor", "--hosts", "@train"), "train", id="unknown-group"),
        pytest.param(
            ("doctor", "--hosts", "-oProxyCommand=x"), "not the name of a host", id="hostile-name"
        ),
        pytest.param(("doctor", "--hosts", "a", "--profile", "no"), "no profile", id="profile"),
        pytest.param(("doctor", "--hosts", "a", "--transport", "tin"), "tin", id="transport"),
        pytest.param(("doctor", "--hosts", "a", "--fanout", "0"), "fanout 0", id="fanout-0"),
        pytest.param(("doctor", "--hosts", "a", "--fanout", "many"), "many", id="fanout-word"),
        pytest.param(("doctor", "--from", "/nowhere"), "/nowhere", id="no-evidence"),
        pytest.param(("explain", "peermem.stubb"), "peermem.stubb", id="unknown-check"),
        pytest.param(("doctor", "--inventory", "/nowhere"), "/nowhere", id="no-inventory"),
    ],
)
def test_64_for_what_makes_no_sense_in_a_sentence(
    gdr: Run, words: tuple[str, ...], told: str
) -> None:
    ended = gdr(*words)
    assert ended.returncode == ExitCode.USAGE, ended.stdout + ended.stderr
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_70_for_a_bug_of_ours_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def body(_: Said) -> ExitCode:
        raise KeyError("never caught")

    assert guarded(body, Said({})) is ExitCode.BUG
    told = capsys.readouterr().err
    assert told.startswith("error: a bug in the toolkit: KeyError: 'never caught'\n next: attach ")
    trace = Path(told.split("attach ")[1].split(" to a bug")[0])
    assert "never caught" in trace.read_text()
    trace.unlink()


def test_130_after_ctrl_c_with_the_results_so_far(tmp_path: Path) -> None:
    with Mute() as mute, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound and not listening: refused
        hosts = f"root@127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{mute.port}"
        one_by_one = ("--hosts", hosts, "--fanout", "1", "--json")
        with subprocess.Popen(
            [sys.executable, "-m", "toolkit.cli", "doctor", *one_by_one],
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as controller:
            assert mute.wait_for_client(60)  # and the other host has been refused
            controller.send_signal(signal.SIGINT)
            out, _ = controller.communicate(timeout=60)
    assert controller.returncode == ExitCode.INTERRUPTED
    states = [host["state"] for host in json.loads(out)["hosts"]]
    assert states == ["out of reach", "error"]
