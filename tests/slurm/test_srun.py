"""Nodes that are reached by Slurm alone: the probe and the bundle in jobs of ours."""

from __future__ import annotations

import json
import signal

import pytest

from tests.slurm.cluster import Cluster, until, wait_for
from toolkit.errors import ExitCode

pytestmark = pytest.mark.slurm

BY_SRUN = ("--transport", "srun")


def nothing_of_ours(slurm: Cluster, name: str) -> bool:
    """Neither job nor reservation: a job that was ended may take a moment to be gone."""
    wait_for(lambda: not slurm.slurm("squeue", "-h", "-w", name))
    return "gdr-toolkit" not in slurm.slurm("scontrol", "show", "-o", "reservation")


def verdicts(text: str) -> dict[str, str]:
    (host,) = json.loads(text)["hosts"]
    return {each["check"]: each["status"] for each in host["verdicts"]}


def test_what_a_job_reads_is_what_a_login_reads(slurm: Cluster) -> None:
    name = "demo001"
    read = [slurm.run("doctor", "--hosts", name, "--json", *way) for way in ((), BY_SRUN)]
    assert [done.returncode for done in read] == [ExitCode.OK, ExitCode.OK], read[1].stderr
    by_login, by_job = (verdicts(done.stdout) for done in read)
    assert by_job == by_login
    assert len(by_job) > 100
    assert slurm.state(name) <= {"IDLE", "COMPLETING"}
    assert nothing_of_ours(slurm, name)


def test_a_node_is_changed_rebooted_and_proven_without_a_login_and_no_job_gets_between(
    slurm: Cluster,
) -> None:
    name = "demo012"
    running = slurm.begin("provision", "--hosts", name, "--yes", "--reboot", *BY_SRUN)
    until(lambda: "DRAIN" in slurm.state(name), running)
    seen = slurm.folder / f"seen-{name}"
    line = slurm.tree(name) / "proc/cmdline"
    job = slurm.submit(name, f"cat {line} >{seen}")  # by the same user, and not in our reservation
    stdout, stderr = running.communicate(timeout=300)
    assert running.returncode == ExitCode.OK, stdout + stderr
    assert "1 of 1 node is ready" in stdout
    assert name in slurm.boots
    wait_for(lambda: slurm.job(job) == "COMPLETED")
    assert "iommu=pt" in seen.read_text()
    assert nothing_of_ours(slurm, name)
    wait_for(lambda: slurm.state(name) == {"IDLE"})


def test_a_controller_that_was_killed_amid_its_job_is_followed_by_one_that_ends_it(
    slurm: Cluster,
) -> None:
    name = "demo064"
    running = slurm.begin("provision", "--hosts", name, "--yes", *BY_SRUN)

    def holds() -> bool:
        jobs = slurm.slurm("squeue", "-h", "-w", name, "-t", "running", "-o", "%j")
        return "DRAIN" in slurm.state(name) and "-provision-" in jobs

    until(holds, running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    run = json.loads(slurm.plain("runs", "--json").stdout)["runs"][0]["id"]
    assert run in slurm.reason(name)
    # It might have died amid the moment in which our job gets in: reserved, and not drained.
    slurm.slurm("scontrol", "update", f"nodename={name}", "state=resume")
    done = slurm.plain("provision", "--resume", run, "--yes")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert nothing_of_ours(slurm, name)
    wait_for(lambda: slurm.state(name) == {"IDLE"})


def test_a_node_without_room_is_not_read_and_its_job_goes_on(slurm: Cluster) -> None:
    name = "demo074"
    go = slurm.folder / f"go-{name}"
    job = slurm.submit(name, f"until [ -e {go} ]; do sleep 0.2; done")
    wait_for(lambda: slurm.job(job) == "RUNNING")
    done = slurm.run("provision", "--hosts", name, "--yes", "--job-timeout", "1", *BY_SRUN)
    assert done.returncode == ExitCode.UNREACHABLE, done.stdout + done.stderr
    assert f"no room for our job within 1 s: job {job} of" in done.stdout
    assert slurm.job(job) == "RUNNING"
    assert "DRAIN" not in slurm.state(name)
    go.touch()
    assert nothing_of_ours(slurm, name)


def test_srun_is_for_nodes_of_slurm(slurm: Cluster) -> None:
    refused = slurm.plain("doctor", "--hosts", "demo001", *BY_SRUN)
    assert refused.returncode == ExitCode.USAGE
    assert "--via slurm" in refused.stderr
