"""The check on the NVLink fabric: what nvidia-smi says of a GPU's place in it."""

from __future__ import annotations

import re

import pytest

from tests.checks.test_checks_fabric import nvlinks
from tests.checks.test_checks_gpu import NO_FABRIC, SWITCHED, of
from tests.evidence.frames import Override
from tests.evidence.healthy_fabric import smi_q
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name

APART: dict[str, Override] = {"nvidia-smi-q": smi_q(fabric=NO_FABRIC)}
GONE = "nvidia-fabricmanager.service not-found inactive dead nvidia-fabricmanager.service\n"
NO_UNIT: dict[str, Override] = {"systemctl-status": GONE}
WAITING = smi_q(fabric=("In Progress", "N/A"))
GUESTS = SWITCHED.but("0000:b0:00.0", driver="vfio-pci")
UP_ONCE = "Successfully configured all the available GPUs and NVSwitches to route NVLink traffic."
OTHER = "77777777-1111-2222-3333-444444444444"
ROWS = [
    *(
        Row(
            f"completed-{status}",
            "nvidia.fabric_state",
            FAIL,
            f"Completed {status}",
            {"nvidia-smi-q": smi_q(fabric=("Completed", status))},
        )
        for status in ("No Partition", "Insufficient Resources", "Unknown Error", "Timeout")
    ),
    Row(
        "status-not-told",
        "nvidia.fabric_state",
        UNKNOWN,
        "its status is N/A",
        {"nvidia-smi-q": smi_q(fabric=("Completed", "N/A"))},
    ),
    Row(
        "one-has-no-part-in-it",
        "nvidia.fabric_state",
        FAIL,
        "1 of 2 GPUs: not part",
        {"nvidia-smi-q": ": N/A".join(smi_q().split(": Completed", 1))},
    ),
    *(
        Row(
            f"{name}-{value}",
            "nvidia.fabric_state",
            status,
            name,
            {"nvidia-smi-q": smi_q(health=((name, value),))},
        )
        for name, value, status in (
            ("Summary", "Limited Capacity", FAIL),
            ("Summary", "Unknown Error", UNKNOWN),
            ("Route Recovery in progress", "True", FAIL),
            ("Access Timeout Recovery", "True", FAIL),
            ("Incorrect Configuration", "Incorrect SysGUID", FAIL),
            ("Incorrect Configuration", "No Partition", FAIL),
            ("Incorrect Configuration", "Unknown Error", UNKNOWN),
            ("Bandwidth", "Half", UNKNOWN),
        )
    ),
    Row(
        "well-configured",
        "nvidia.fabric_state",
        PASS,
        "joined",
        {"nvidia-smi-q": smi_q(health=(("Incorrect Configuration", "None"),))},
    ),
    Row(
        "in-two-domains",
        "nvidia.fabric_state",
        FAIL,
        "different NVLink domains",
        {"nvidia-smi-q": re.sub("(ClusterUUID +: ).*", rf"\g<1>{OTHER}", smi_q(), count=1)},
    ),
    Row(
        "told-by-none",
        "nvidia.fabric_state",
        UNKNOWN,
        "a fabric that this board has",
        {"nvidia-smi-q": smi_q(fabric=("N/A", "N/A"))},
        SWITCHED,
    ),
    Row(
        "of-an-older-driver",
        "nvidia.fabric_state",
        NA,
        "no GPU",
        {"nvidia-smi-q": re.sub(" +(Fabric|State|Status|ClusterUUID).*\n", "", smi_q())},
        SWITCHED,
    ),
    Row("before-hopper", "nvidia.fabric_state", NA, "no GPU", APART, of(0x20B0, SWITCHED)),
    Row("of-nobody-s-making", "nvidia.fabric_state", NA, "no GPU", APART, of(0x0001)),
    Row("of-a-rack", "nvidia.fabric_state", NA, "no GPU", APART, of(0x2941)),
    Row("of-b200", "nvidia.fabric_state", UNKNOWN, "this board has", APART, of(0x2901)),
    Row("of-hopper-alone", "nvidia.fabric_state", NA, "no GPU", APART),
    Row(
        "unlike",
        "nvlink.links",
        UNKNOWN,
        "GPUs with 2 and 10 links",
        {"nvlink-status": f"{nvlinks('X', 10)['nvlink-status']}{nvlinks('X', 2)['nvlink-status']}"},
    ),
    Row(
        "up-once-and-gone",
        "nvidia.fabricmanager",
        FAIL,
        "does not run",
        {"fabricmanager-log": f"[Jan 30 2025 10:15:30] [INFO] [tid 1] {UP_ONCE}\n"},
        SWITCHED,
    ),
    Row("no-unit-and-joined", "nvidia.fabricmanager", UNKNOWN, "2 GPUs have joined", NO_UNIT),
    Row(
        "no-unit-and-waiting",
        "nvidia.fabricmanager",
        FAIL,
        "GPUs that have not joined",
        {**NO_UNIT, "nvidia-smi-q": WAITING},
    ),
    Row(
        "no-unit-and-one-waits",
        "nvidia.fabricmanager",
        FAIL,
        "GPUs that have not joined",
        {**NO_UNIT, "nvidia-smi-q": smi_q().replace(": Completed", ": In Progress", 1)},
    ),
    Row(
        "no-unit-nor-fabric",
        "nvidia.fabricmanager",
        UNKNOWN,
        "whether there are NVSwitches",
        {**NO_UNIT, **APART},
    ),
    Row(
        "no-unit-and-switches",
        "nvidia.fabricmanager",
        FAIL,
        "NVSwitches on the PCI bus",
        {**NO_UNIT, **APART},
        SWITCHED,
    ),
    Row(
        "no-unit-and-switches-of-guests",
        "nvidia.fabricmanager",
        UNKNOWN,
        "whether there are",
        {**NO_UNIT, **APART},
        GUESTS,
    ),
    Row(
        "no-unit-and-a-driver-that-logged",
        "nvidia.fabricmanager",
        FAIL,
        "in the kernel log",
        {**NO_UNIT, **APART, "dmesg": "[    5.1] nvidia-nvswitch0: open (major=509)\n"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_nvlink(row: Row) -> None:
    holds(row)
