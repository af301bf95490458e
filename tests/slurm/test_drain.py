"""Nodes of a real Slurm: taken out under their jobs, changed, proven, given back."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster, until, wait_for
from toolkit.errors import ExitCode

pytestmark = pytest.mark.slurm

OURS = "gdr-toolkit: "


def touched(slurm: Cluster, name: str) -> bool:
    return (slurm.tree(name) / "var/lib/gdr-toolkit/journal").exists()


def at_work(slurm: Cluster, name: str) -> tuple[str, Path]:
    """A job on the node that ends once a file is there."""
    go = slurm.folder / f"go-{name}"
    job = slurm.submit(name, f"until [ -e {go} ]; do sleep 0.2; done")
    wait_for(lambda: slurm.job(job) == "RUNNING")
    return job, go


def newest(slurm: Cluster) -> dict[str, Any]:
    listed = slurm.plain("runs", "--json")
    found: dict[str, Any] = json.loads(listed.stdout)["runs"][0]
    return found


def lose_the_ports(slurm: Cluster, name: str) -> list[Path]:
    """Cables that no file can mend. Nodes share their files' bytes: each gets one of its own."""
    files = list((slurm.tree(name) / "sys/devices").rglob("infiniband/*/ports/1/state"))
    for file in files:
        file.unlink()
        file.write_text("1: DOWN\n")
    assert files
    return files


def test_a_node_at_work_is_drained_changed_once_its_job_has_ended_proven_and_resumed(
    slurm: Cluster,
) -> None:
    name = "demo004"
    job, go = at_work(slurm, name)
    running = slurm.begin("provision", "--hosts", name, "--yes")
    until(lambda: "DRAIN" in slurm.state(name), running)
    assert slurm.reason(name).startswith(OURS)
    assert slurm.job(job) == "RUNNING"
    assert not touched(slurm, name)
    go.touch()
    stdout, stderr = running.communicate(timeout=240)
    assert running.returncode == ExitCode.OK, stdout + stderr
    assert "1 of 1 node is ready" in stdout
    assert slurm.job(job) == "COMPLETED"
    assert touched(slurm, name)
    assert slurm.state(name) == {"IDLE"}
    assert slurm.reason(name) == "none"


def test_a_node_that_fails_stays_drained_with_our_reason_until_it_is_mended(
    slurm: Cluster,
) -> None:
    name = "demo014"
    ports = lose_the_ports(slurm, name)
    done = slurm.run("provision", "--hosts", name, "--yes")
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    assert slurm.state(name) == {"IDLE", "DRAIN"}
    assert slurm.reason(name).startswith(OURS)
    assert slurm.reason(name).endswith("failed: rdma.port")
    assert f"{name}: stays drained: {slurm.reason(name)}" in done.stdout
    for file in ports:  # somebody plugs the cables in; no file is to be changed any more
        file.write_text("4: ACTIVE\n")
    done = slurm.run("provision", "--hosts", name, "--yes")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert slurm.state(name) == {"IDLE"}


def test_a_node_that_somebody_else_has_drained_is_left_alone_and_named(slurm: Cluster) -> None:
    theirs, ours = "demo024", "demo034"
    slurm.slurm("scontrol", "update", f"nodename={theirs}", "state=drain", "reason=bob: bad dimm")
    done = slurm.run("provision", "--hosts", f"{theirs},{ours}", "--yes")
    assert done.returncode == ExitCode.UNREACHABLE, done.stdout + done.stderr
    assert "left alone: drained by" in done.stdout
    assert "bob: bad dimm" in done.stdout
    assert slurm.reason(theirs) == "bob: bad dimm"
    assert slurm.state(theirs) == {"IDLE", "DRAIN"}
    assert not touched(slurm, theirs)
    assert slurm.state(ours) == {"IDLE"}
    assert touched(slurm, ours)
    # Read it may be: whoever drained it wants to know what ails it.
    assert slurm.run("doctor", "--hosts", theirs).returncode == ExitCode.FAILED
    slurm.slurm("scontrol", "update", f"nodename={theirs}", "state=resume")


def test_what_somebody_drains_while_ours_is_on_is_theirs_from_then_on(slurm: Cluster) -> None:
    name = "demo024"
    _, go = at_work(slurm, name)
    running = slurm.begin("provision", "--hosts", name, "--yes")
    until(lambda: slurm.reason(name).startswith(OURS), running)
    slurm.slurm("scontrol", "update", f"nodename={name}", "state=drain", "reason=bob: bad dimm")
    stdout, stderr = running.communicate(timeout=240)
    go.touch()
    assert running.returncode == ExitCode.UNREACHABLE, stdout + stderr
    assert "others saw to it: drained by" in stdout
    assert slurm.reason(name) == "bob: bad dimm"
    assert "DRAIN" in slurm.state(name)
    assert not touched(slurm, name)


def test_jobs_that_do_not_end_in_time_keep_their_node_and_it_serves_on(slurm: Cluster) -> None:
    name = "demo044"
    job, go = at_work(slurm, name)
    done = slurm.run("provision", "--hosts", name, "--yes", "--job-timeout", "1")
    assert done.returncode == ExitCode.STOPPED, done.stdout + done.stderr
    assert f"job {job} of" in done.stdout
    assert slurm.job(job) == "RUNNING"
    assert slurm.state(name) == {"MIXED"}
    assert not touched(slurm, name)
    assert name not in slurm.plain("budget", "--json").stdout  # it serves: nobody has to release it
    go.touch()


def test_a_controller_that_was_killed_is_followed_by_one_that_knows_what_we_drained(
    slurm: Cluster,
) -> None:
    name = "demo054"
    _, go = at_work(slurm, name)
    running = slurm.begin("provision", "--hosts", name, "--yes")
    until(lambda: slurm.reason(name).startswith(OURS), running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    run = newest(slurm)["id"]
    assert run in slurm.reason(name)
    # Another run keeps off, and says whose it is.
    other = slurm.run("provision", "--hosts", name, "--yes")
    assert other.returncode == ExitCode.UNREACHABLE, other.stdout + other.stderr
    assert f"provision --resume {run}" in other.stdout
    assert not touched(slurm, name)
    go.touch()
    done = slurm.plain("provision", "--resume", run, "--yes")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert touched(slurm, name)
    assert slurm.state(name) == {"IDLE"}


def test_slurm_reboots_a_node_and_no_job_gets_in_before_it_is_as_wanted(slurm: Cluster) -> None:
    name = "demo002"
    running = slurm.begin("provision", "--hosts", name, "--yes", "--reboot")
    until(lambda: "DRAIN" in slurm.state(name), running)
    seen = slurm.folder / "seen"
    line = slurm.tree(name) / "proc/cmdline"
    job = slurm.submit(name, f"cat {line} >{seen}")
    stdout, stderr = running.communicate(timeout=480)
    assert running.returncode == ExitCode.OK, stdout + stderr
    assert slurm.boots == [name]
    wait_for(lambda: slurm.job(job) == "COMPLETED")
    assert "iommu=pt" in seen.read_text()
    # slurmctld's own words, in its order: states that pass within a second are missed by who asks.
    told = [line for line in slurm.log() if name in line]
    order = ("state set to DRAINED", "reboot request", "returned to service", "set to IDLE")
    at = [next(n for n, line in enumerate(told) if words in line) for words in order]
    at += [n for n, line in enumerate(told) if f"Allocate JobId={job} " in line]
    assert at == sorted(at), told
    assert len(at) == len(order) + 1, told


def test_a_run_is_taken_back_on_a_drained_node_that_stays_drained_where_it_is_not_as_wanted(
    slurm: Cluster,
) -> None:
    name = "demo004"
    (run,) = (
        each["id"]
        for each in json.loads(slurm.plain("runs", "--json").stdout)["runs"]
        if any(host["name"] == name for host in each["hosts"])
    )
    done = slurm.plain("undo", run, "--yes")
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    assert slurm.state(name) == {"IDLE", "DRAIN"}
    assert "-undo: failed: taken back, and not as wanted: peermem" in slurm.reason(name)
    assert f"stays drained: {slurm.reason(name)}" in done.stdout
    assert "out of service" in slurm.plain("budget").stdout


def test_hosts_are_what_slurm_says(slurm: Cluster) -> None:
    done = slurm.run("hosts", "--hosts", "@feature:h100&@nodeset:pair!demo014", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["name"] == "demo004"
    refused = slurm.run("hosts", "--hosts", "demo999")
    assert refused.returncode == ExitCode.USAGE
    assert "Slurm has no node demo999" in refused.stderr
