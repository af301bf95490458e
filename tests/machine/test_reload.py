"""What modules of a real kernel carry: our own session, a job's open device.

A guest that others use too, and no reboot. The HCA is Soft-RoCE over the interface that carries
SSH; the job is a process of ours that has its device open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dev.lab.machine import Guest
from tests.machine.pool import Guests, Ran, gdr
from tests.machine.specs import INTEL, peermem

pytestmark = pytest.mark.machine
BOOTS = 1
JOB = "/tmp/train"  # /run takes no programs
_START = (
    f"cp /bin/sleep {JOB} && {{ (exec 3<>%s; exec {JOB} 3600) >/dev/null 2>&1 </dev/null & }}; "
    "until pidof train; do sleep 0.1; done"
)
# udev asks systemd to load more behind it, some time after its own rules are through; who asks for
# the same waits until that is done.
_ROCE = """modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0
until [ -e /dev/infiniband/uverbs0 ]; do sleep 0.1; done
udevadm settle
systemctl start rdma-load-modules@rdma.service rdma-load-modules@roce.service
:
"""


def _told(ran: Ran) -> dict[str, Any]:
    [host] = json.loads(ran.out)["hosts"]
    found: dict[str, Any] = host["reload"]
    return found


def _modules(guest: Guest) -> set[str]:
    return {line.split()[0] for line in guest.run("cat /proc/modules").out.splitlines()}


@pytest.fixture
def roce(guests: Guests) -> Iterator[Guest]:
    """A guest with one RDMA device, over the interface by which we come."""
    guest = guests.shared(INTEL)
    before = _modules(guest)
    guest.run(_ROCE)
    yield guest
    guest.run("kill $(pidof train) 2>/dev/null; sleep 0.2; rdma link del rxe0; udevadm settle")
    # rdma-core's rules of udev had more loaded than we asked for.
    for _ in range(4):
        more = " ".join(sorted(_modules(guest) - before))
        guest.run(f"for each in {more or 'none'}; do rmmod $each 2>/dev/null; done; :")
    assert _modules(guest) == before


def test_over_the_interface_that_carries_ssh_it_refuses_and_names_it(roce: Guest) -> None:
    before = _modules(roce)
    ran = gdr(roce, "reload", "--what", "virtio_net", "--yes", "--json")
    assert ran.status == 5, ran
    told = _told(ran)
    assert told["result"] == "refused"
    kinds = {(each["kind"], each["over"]) for each in told["obstacles"]}
    assert {("ssh", "ssh:eth0"), ("route", "route:eth0")} <= kinds
    session = next(each["text"] for each in told["obstacles"] if each["kind"] == "ssh")
    assert session == "our SSH session from 10.0.2.2 comes over eth0, which virtio_net drives"
    assert _modules(roce) == before


def test_what_a_job_has_open_stays_and_the_job_is_named(roce: Guest) -> None:
    pid = roce.run(_START % "/dev/infiniband/uverbs0").out.strip()
    before = _modules(roce)
    ran = gdr(roce, "reload", "--what", "ib_uverbs", "--yes", "--json")
    assert ran.status == 5, ran
    [job] = [each for each in _told(ran)["obstacles"] if each["kind"] == "job"]
    assert job["text"] == f"train, pid {pid} of root has /dev/infiniband/uverbs0 open"
    assert job["over"] == "job:train"
    # The kernel has the last word: nobody goes over that.
    ran = gdr(roce, "reload", "--what", "ib_uverbs", "--over", "job:train", "--yes", "--json")
    assert ran.status == 5, ran
    assert {each["kind"] for each in _told(ran)["obstacles"]} == {"kernel"}
    assert _modules(roce) == before


def test_once_the_job_has_ended_the_modules_go_and_come_back(roce: Guest) -> None:
    roce.run(_START % "/dev/infiniband/uverbs0")
    roce.run("kill $(pidof train); while pidof train; do sleep 0.1; done")
    before = _modules(roce)
    ran = gdr(roce, "reload", "--what", "ib_uverbs", "--yes", "--json")
    assert ran.status == 0, ran
    told = _told(ran)
    assert told["unload"][-1] == told["load"][0] == "ib_uverbs"
    assert {"rdma_rxe", "ib_uverbs"} <= set(told["unload"])
    assert told["load"] == told["unload"][::-1]
    assert told["steps"] == [
        *(f"unload {each}: done" for each in told["unload"]),
        *(f"load {each}: done" for each in told["load"]),
    ]
    assert _modules(roce) == before
    log = roce.run("journalctl -q --no-pager -b -o cat -t gdr-toolkit").out
    assert "reload ib_uverbs" in log
    assert " who=" in log
    roce.run(_ROCE)  # as it was found


def test_over_our_own_interface_by_its_name_the_node_comes_back(roce: Guest) -> None:
    boot = roce.boot_id
    roce.run("rdma link del rxe0 && rmmod rdma_rxe")
    words = ("--over", "ssh:eth0", "--over", "route:eth0", "--reboot", "--yes", "--json")
    ran = gdr(roce, "reload", "--what", "virtio_net", *words)
    assert ran.status == 0, ran
    assert _told(ran)["result"] == "reloaded"
    assert roce.boot_id == boot
    assert "virtio_net" in _modules(roce)
    roce.run(_ROCE)


def test_the_vendors_module_goes_over_a_job_by_its_name_alone(guests: Guests) -> None:
    guest = guests.shared(peermem())
    guest.run("modprobe nvidia-peermem; mkdir -p /dev/infiniband; : >/dev/infiniband/uverbs0")
    guest.run(_START % "/dev/infiniband/uverbs0")
    try:
        ran = gdr(guest, "reload", "--yes", "--json")
        assert ran.status == 5, ran
        assert [each["over"] for each in _told(ran)["obstacles"]] == ["job:train"]
        ran = gdr(guest, "reload", "--over", "job:train", "--yes", "--json")
        assert ran.status == 0, ran
        assert _told(ran)["steps"] == ["unload nvidia_peermem: done", "load nvidia_peermem: done"]
        assert guest.run("pidof train").out.strip(), "nobody's job is ended"
    finally:
        guest.run("kill $(pidof train); rm /dev/infiniband/uverbs0; modprobe -r nvidia-peermem")
