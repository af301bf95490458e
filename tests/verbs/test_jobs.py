"""Before a reboot: whose job it would end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tests.unit.holdings import UVERBS, user
from toolkit.errors import ExitCode
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import plan_node
from toolkit.verbs.provision import NodeRounds, ProvisionOptions
from toolkit.verbs.reading import InUse, refuse_jobs, who_works
from toolkit.want import PeerPath, Want

CAPTURES = Path(__file__).parents[1] / "evidence"


class Says:
    """A node whose processes are these."""

    name = "gpu01"

    def __init__(self, *users: str, uid: int = 0, state: str = "ok") -> None:
        body = "".join(f"|{line}\n" for each in users for line in each.split("\n")[:-1])
        self.text = (
            f"= begin ok gdr-toolkit/1\n= uid ok id -u\n|{uid}\n= users {state} /proc/*/fd\n"
            f"{body}= accounts ok /etc/passwd\n|root:0\n|alice:1000\n= end ok 3\n"
        )

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        assert script.endswith("occupied\n")
        return Result(0, self.text, "")

    def close(self) -> None:
        """Nothing is open."""


JOB = user(7, "python3", UVERBS, "/dev/nvidia0")


@pytest.mark.parametrize(
    ("users", "said"),
    [
        pytest.param([], "", id="nobody"),
        pytest.param([JOB], "at work: python3, pid 7 of alice", id="a-job"),
        pytest.param([user(8, "train", "/dev/gdrdrv")], "at work: train, pid 8", id="gdrcopy"),
        pytest.param([user(9, "nvidia-persiste", "/dev/nvidia0", uid=0)], "", id="a-daemon"),
        pytest.param([user(9, "ibdiagnet", "/dev/infiniband/umad0", uid=0)], "", id="a-tool"),
        pytest.param(
            [user(pid, "a.out", UVERBS) for pid in range(20, 28)], " and 5 more", id="many"
        ),
    ],
)
def test_jobs_are_named_and_daemons_are_none(users: Sequence[str], said: str) -> None:
    found = who_works(Says(*users))
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        pytest.param(Says(uid=1000), "permission denied", id="not-root"),
        pytest.param(Says(state="absent"), "not there", id="no-awk"),
    ],
)
def test_nobody_seen_is_not_nobody_there(node: Says, why: str) -> None:
    assert "cannot be told whether a job is at work" in who_works(node)
    assert why in who_works(node)


def test_a_reboot_that_is_no_part_of_a_plan_is_refused() -> None:
    refuse_jobs(Says())
    with pytest.raises(InUse, match="gpu01: not rebooted: at work: python3") as found:
        refuse_jobs(Says(JOB))
    assert found.value.exit_code is ExitCode.STOPPED


@pytest.mark.parametrize(
    ("options", "allowed", "busy"),
    [
        pytest.param(ProvisionOptions(), False, False, id="no-reboot-was-allowed"),
        pytest.param(ProvisionOptions(reboot=True), False, True, id="a-job-is-at-work"),
        pytest.param(ProvisionOptions(reboot=True, over_jobs=True), True, False, id="over-it"),
    ],
)
def test_provision_reboots_no_node_under_a_job(
    options: ProvisionOptions, allowed: bool, busy: bool, tmp_path: Path
) -> None:
    fleet = Fleet((Host("gpu01"),), lambda _: Says(JOB), Access())
    folder = RunFolder(tmp_path, "provision", datetime.now(UTC))
    today = date(2026, 1, 1)
    node = NodeRounds(
        Host("gpu01"), Says(JOB), fleet, Want(PeerPath.PEERMEM), today, options, folder
    )
    evidence = Evidence.parse((CAPTURES / "acs.txt").read_text())
    assert node._may_reboot(plan_node("gpu01", evidence, node.want, today)) is allowed
    assert ("python3, pid 7 of alice" in node.busy) is busy
