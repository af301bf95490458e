"""Rollouts over real sshd: a controller that dies, a canary that fails, two at once, undo."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd
LONG = True

NAMES = ("demo-iommu", "demo-rocky", "demo-stub")  # in the order of their batches


@pytest.fixture
def nodes(tmp_path: Path, keys: Keys) -> Iterator[Nodes]:
    with served(tmp_path, NAMES, keys) as made:
        yield made


def begun(nodes: Nodes, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        nodes.command("provision", "--yes", "--reboot", "--serial", "1", *words),
        env=nodes.environment,
        cwd=nodes.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(nodes: Nodes) -> dict[str, Any]:
    """The newest run, as a machine is told of it."""
    listed = nodes.gdr("runs", "--json")
    assert listed.returncode == ExitCode.OK, listed.stderr
    newest: dict[str, Any] = json.loads(listed.stdout)["runs"][0]
    return newest


def phases(run: dict[str, Any]) -> dict[str, str]:
    return {host["name"]: host["phase"] for host in run["hosts"]}


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not what():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.1)


def boots(nodes: Nodes, name: str) -> str:
    return (nodes.tree(name) / "proc/sys/kernel/random/boot_id").read_text()


def changed(nodes: Nodes, name: str) -> bool:
    return (nodes.tree(name) / "var/lib/gdr-toolkit/journal").exists()


def test_a_controller_killed_in_its_second_batch_is_followed_by_one_that_goes_on(
    nodes: Nodes,
) -> None:
    log = nodes.folder / "hooks.log"
    hooks = [
        "--drain",
        f"echo drain {{host}} >>{log}",
        "--undrain",
        f"echo undrain {{host}} >>{log}",
    ]
    with begun(nodes, *hooks, "--reason", "ticket 4711") as controller:
        wait_for(lambda: changed(nodes, NAMES[1]))
        controller.send_signal(signal.SIGKILL)
    nodes.wait_for_boots()
    broken = told(nodes)
    assert broken["state"] == "broken off"
    assert phases(broken)[NAMES[0]] == "done"
    assert phases(broken)[NAMES[2]] == "planned"
    assert not changed(nodes, NAMES[2])
    first = boots(nodes, NAMES[0])

    ended = nodes.gdr("provision", "--resume", broken["id"], "--yes")
    assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr
    after = told(nodes)
    assert (after["id"], after["state"], after["reason"]) == (broken["id"], "ended", "ticket 4711")
    assert set(phases(after).values()) == {"done"}
    assert len(after["turns"]) == 2
    assert boots(nodes, NAMES[0]) == first, "the host that was done was rebooted again"
    acts = log.read_text().split("\n")
    assert acts.count(f"undrain {NAMES[0]}") == 1
    assert [acts.count(f"drain {name}") for name in NAMES] == [1, 1, 1]
    assert acts.count(f"undrain {NAMES[1]}") == 1
    again = nodes.run("provision", "--check")
    assert again.returncode == ExitCode.OK, again.stdout


def test_a_canary_that_fails_stops_everything_and_undo_leaves_nothing(nodes: Nodes) -> None:
    before = nodes.digest()
    with begun(nodes, "--drain", "false # {host}") as refused:
        out, said = refused.communicate(timeout=300)
    assert refused.returncode == ExitCode.STOPPED, out + said
    assert f"stopped: the canary {NAMES[0]} failed" in said
    assert nodes.digest() == before, "a node was touched though its drain had failed"

    with begun(nodes, "--undrain", "false # {host}") as second:
        out, said = second.communicate(timeout=300)
    assert second.returncode == ExitCode.STOPPED, out + said
    assert [changed(nodes, name) for name in NAMES] == [True, False, False]
    run = told(nodes)
    assert phases(run) == dict(zip(NAMES, ["failed", "planned", "planned"], strict=True))
    assert run["state"] == "stopped"

    undone = nodes.gdr("undo", run["id"], "--yes", "--reboot")
    assert undone.returncode == ExitCode.OK, undone.stdout + undone.stderr
    assert nodes.digest() == before
    assert told(nodes)["undoes"] == run["id"]
    history = nodes.gdr("history", "--hosts", NAMES[0])
    assert history.stdout.count(NAMES[0]) == 3, history.stdout


def test_a_second_rollout_is_told_who_is_at_work_and_ctrl_c_finishes_the_node(
    nodes: Nodes,
) -> None:
    go = nodes.folder / "go"  # the first node is not given back before that
    with begun(nodes, "--undrain", f"until [ -e {go} ]; do sleep 0.1; done # {{host}}") as first:
        wait_for(lambda: changed(nodes, NAMES[0]))
        with begun(nodes) as second:
            _, said = second.communicate(timeout=300)
        first.send_signal(signal.SIGINT)
        go.touch()
        out, stopped = first.communicate(timeout=300)
    assert second.returncode == ExitCode.STOPPED, said
    assert f"{told(nodes)['id']} of " in said or "is at work on" in said
    assert first.returncode == ExitCode.INTERRUPTED, out + stopped
    run = next(each for each in json.loads(nodes.gdr("runs", "--json").stdout)["runs"])
    assert "Traceback" not in stopped
    assert "stopped: interrupted; not begun:" in stopped
    assert phases(run)[NAMES[0]] == "done"
    assert not changed(nodes, NAMES[2])
