"""The checks on health: what nvidia-smi and the counters of ports say of failing hardware."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.build import INFINIBAND, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_fabric import SMI_Q
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.laws import tried
from toolkit.checks.all import BY_ID
from toolkit.facts.node.node import Node
from toolkit.want import Want

MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"
)
NO_DRIVER: dict[str, Override] = {"nvidia-version": ABSENT}
HANGS: dict[str, Override] = {"nvidia-smi-q": TIMEOUT}
ACTION = "    GPU Recovery Action         : None\n"
BEFORE = "    GPU Reset Status\n        Reset Required : Yes\n"
LIFE = "Aggregate\n            DRAM Uncorrectable  : "
NO_ECC = SMI_Q.replace(" : 0\n", " : N/A\n").replace(" : No\n", " : N/A\n")
UNCOUNTED = "".join(e for e in INFINIBAND.splitlines(True) if "counters/" not in e)


def smi(old: str, new: str) -> dict[str, Override]:
    assert old in SMI_Q
    return {"nvidia-smi-q": SMI_Q.replace(old, new, 1)}


def every(old: str, new: str) -> dict[str, Override]:
    assert old in SMI_Q
    return {"nvidia-smi-q": SMI_Q.replace(old, new)}


def ports(line: str, hours: int = 100) -> dict[str, Override]:
    folder = "hw_counters" if line.startswith("local_ack") else "counters"
    told = f"{INFINIBAND}mlx5_0/ports/1/{folder}/{line}\n"
    return {"infiniband": told, "aer": f"uptime:{hours * 3600}\nfunctions:13\n"}


ROWS = [
    Row("none", "gpu.reset", PASS, "none on 2 GPUs"),
    Row("a-reset", "gpu.reset", FAIL, "on 1 GPU", smi("Action         : None", "Action : Reset")),
    Row(
        "before-branch-560",
        "gpu.reset",
        FAIL,
        "on 1 GPU",
        smi(ACTION, BEFORE),
    ),
    Row(
        "in-place-of-a-value",
        "gpu.reset",
        FAIL,
        "asked for",
        {"nvidia-smi": "00000000:18:00.0, X, 580.1, [GPU requires reset], Enabled\n"},
    ),
    Row("of-one-gpu-not-told", "gpu.reset", UNKNOWN, "1 of 2", smi(ACTION, "")),
    Row("it-hangs", "gpu.reset", UNKNOWN, "no answer", HANGS),
    Row("older-driver", "gpu.reset", NA, "tells nothing", every("GPU Recovery Action", "X")),
    Row("not-loaded", "gpu.reset", NA, "no NVIDIA driver", NO_DRIVER),
    Row("none", "gpu.ecc", PASS, "none on 2 GPUs"),
    Row(
        "uncorrected",
        "gpu.ecc",
        FAIL,
        "on 1 GPU",
        smi("DRAM Uncorrectable  : 0", "DRAM Uncorrectable  : 2"),
    ),
    Row(
        "of-its-life-alone",
        "gpu.ecc",
        PASS,
        "none",
        smi(f"{LIFE}0", f"{LIFE}7"),
    ),
    Row(
        "a-row-waits",
        "gpu.ecc",
        FAIL,
        "1 GPU",
        smi("Pending                 : No", "Pending : Yes"),
    ),
    Row("a-page-waits", "gpu.ecc", FAIL, "1 GPU", smi("Blacklist  : N/A", "Blacklist  : Yes")),
    Row("repair-failed", "gpu.ecc", FAIL, "1 GPU", smi("Occurred : No", "Occurred : Yes")),
    Row(
        "no-value",
        "gpu.ecc",
        UNKNOWN,
        "ERR!",
        smi("DRAM Uncorrectable  : 0", "DRAM Uncorrectable  : ERR!"),
    ),
    Row("it-hangs", "gpu.ecc", UNKNOWN, "no answer", HANGS),
    Row(
        "without-ecc",
        "gpu.ecc",
        NA,
        "tells nothing",
        {"nvidia-smi-q": NO_ECC},
    ),
    Row("not-loaded", "gpu.ecc", NA, "no NVIDIA driver", NO_DRIVER),
    Row("none", "gpu.throttle", PASS, "none on 2 GPUs"),
    Row(
        "by-heat",
        "gpu.throttle",
        FAIL,
        "1 GPU",
        smi("HW Thermal Slowdown : Not Active", "HW Thermal Slowdown : Active"),
    ),
    Row("it-hangs", "gpu.throttle", UNKNOWN, "no answer", HANGS),
    Row("older-names", "gpu.throttle", PASS, "2", every("Clocks Event", "Clocks Throttle")),
    Row("not-told", "gpu.throttle", NA, "nothing", every("Clocks Event", "Other")),
    Row("not-loaded", "gpu.throttle", NA, "no NVIDIA driver", NO_DRIVER),
    Row("it-answers", "nvidia.nvml", PASS, "it answers for 2 GPUs"),
    Row(
        "updated-below",
        "nvidia.nvml",
        FAIL,
        "version mismatch",
        {"nvidia-smi": failed(18, MISMATCH)},
    ),
    Row(
        "finds-none",
        "nvidia.nvml",
        FAIL,
        "No devices were found",
        {"nvidia-smi": failed(6, "No devices were found\n")},
    ),
    Row(
        "it-hangs",
        "nvidia.nvml",
        UNKNOWN,
        "no answer",
        {"nvidia-smi": TIMEOUT, "nvidia-smi-q": TIMEOUT},
    ),
    Row("it-lists-none", "nvidia.nvml", UNKNOWN, "lists no GPU", {"nvidia-smi": ""}),
    Row("not-installed", "nvidia.nvml", NA, "not installed", {"nvidia-smi": ABSENT}),
    Row("not-loaded", "nvidia.nvml", NA, "no NVIDIA driver", NO_DRIVER),
    Row("none", "port.errors", PASS, "none of note on 4 ports in 100 h"),
    Row("flaps", "port.errors", FAIL, "1 of 4 ports", ports("link_downed:412")),
    Row("went-down-with-its-switch", "port.errors", PASS, "none", ports("link_downed:4")),
    Row("once-a-month", "port.errors", PASS, "none", ports("link_downed:9", hours=7000)),
    Row("symbols", "port.errors", FAIL, "1 of 4", ports("symbol_error:9000000")),
    Row("a-few-symbols", "port.errors", PASS, "none", ports("symbol_error:90000")),
    Row("overrun", "port.errors", FAIL, "1 of 4", ports("excessive_buffer_overrun_errors:1")),
    *(
        Row(
            f"full-{each}",
            "port.errors",
            UNKNOWN,
            f"{each.replace(':', ' ')} is all that it can",
            ports(each, hours=9000),
        )
        for each in (
            "symbol_error:65535",
            "link_downed:255",
            "link_error_recovery:255",
            "port_rcv_errors:65535",
        )
    ),
    Row("full-in-an-hour", "port.errors", FAIL, "1 of 4", ports("link_downed:255")),
    Row("all-ones", "port.errors", FAIL, "1 of 4", ports(f"symbol_error:{2**32 - 1}", hours=9000)),
    Row("uptime-not-told", "port.errors", PASS, "none", {**ports("link_downed:9"), "aer": ABSENT}),
    Row("uptime-not-read", "port.errors", UNKNOWN, "permission", {"aer": DENIED}),
    Row("of-the-other-end", "port.errors", PASS, "none", ports("local_ack_timeout_err:5000000")),
    Row("no-number", "port.errors", PASS, "none", ports("symbol_error:N/A (no PMA)")),
    Row("older-probe", "port.errors", NA, "no counters", {"infiniband": UNCOUNTED}),
    Row("refused", "port.errors", UNKNOWN, "permission", {"infiniband": DENIED}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_health(row: Row) -> None:
    holds(row)


@tried(40)
@given(st.integers(0, SMI_Q.count("\n")))
def test_a_cut_answer_of_nvidia_smi_never_passes_a_count(kept: int) -> None:
    cut = "".join(f"{line}\n" for line in SMI_Q.split("\n")[:kept])
    whole = Node(node())
    for check in ("gpu.ecc", "gpu.reset", "gpu.throttle"):
        said = BY_ID[check](Node(node({"nvidia-smi-q": cut})), Want()).finding
        assert said.status is not PASS or said == BY_ID[check](whole, Want()).finding, check
