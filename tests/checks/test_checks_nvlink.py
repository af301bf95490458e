"""The check on the NVLink fabric: what nvidia-smi says of a GPU's place in it."""

from __future__ import annotations

import re

import pytest

from tests.checks.test_checks_gpu import SWITCHED
from tests.evidence.healthy_fabric import smi_q
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name

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
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_nvlink(row: Row) -> None:
    holds(row)
