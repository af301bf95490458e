"""What nvidia-smi says of health, and the counters of ports."""

from __future__ import annotations

import pytest

from tests.evidence.build import INFINIBAND, node
from toolkit.facts.gpu.smi_health import parse_smi_said
from toolkit.facts.gpu.smi_query import parse_smi_query
from toolkit.facts.node.node import Node

HEAD = "Driver Version : 470.1\nAttached GPUs : 1\nGPU 00000000:18:00.0\n    Product Name : X\n"


@pytest.mark.parametrize(
    ("line", "address"),
    [
        (
            "Unable to determine the device handle for GPU 0000:CA:00.0: GPU is lost.  Reboot the "
            "system to recover this GPU",
            "0000:ca:00.0",
        ),
        (
            "Unable to determine the device handle for GPU0000:91:00.0: Unknown Error",
            "0000:91:00.0",
        ),
        (
            "Unable to determine the device handle for GPU7: 0000:CA:00.0: GPU is lost.",
            "0000:ca:00.0",
        ),
        ("00000000:CA:00.0, [GPU is lost], 580.1, [GPU is lost], [N/A]", "0000:ca:00.0"),
    ],
)
def test_nvidia_smi_names_the_gpu_that_is_lost(line: str, address: str) -> None:
    said = parse_smi_said(f"{line}\n{line}\n")
    assert said.lost == (line,)
    assert said.addresses == (address,)


@pytest.mark.parametrize(
    "line",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "Failed to initialize NVML: Unknown Error",
        "No devices were found",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
)
def test_nvidia_smi_says_that_nvml_does_not_answer(line: str) -> None:
    assert parse_smi_said(f"{line}\n").silent == (line,)


def test_an_answer_says_none_of_it() -> None:
    said = parse_smi_said("00000000:18:00.0, NVIDIA H100 80GB HBM3, 580.1, 81559 MiB, Enabled\n")
    assert (said.lost, said.reset, said.silent) == ((), (), ())


def test_before_ampere_errors_are_counted_by_bits() -> None:
    text = (
        f"{HEAD}    ECC Errors\n        Volatile\n            Single Bit\n"
        "                Total : 9\n            Double Bit\n                Device Memory : 2\n"
        "                Total : 2\n        Aggregate\n            Double Bit\n"
        "                Total : 5\n    Retired Pages\n        Pending Page Blacklist : Yes\n"
    )
    [gpu] = parse_smi_query(text).gpus
    assert gpu.health.errors == (("Double Bit Total", "2"),)
    assert gpu.health.lifetime == (("Double Bit Total", "5"),)
    assert gpu.health.repairs == (("Retired Pages, Pending Page Blacklist", "Yes"),)


def test_what_a_gpu_has_not_is_told_apart_from_what_was_cut() -> None:
    [has_not] = parse_smi_query(f"{HEAD}    Remapped Rows : N/A\n").gpus
    [cut] = parse_smi_query(HEAD).gpus
    assert has_not.health.sections == {"Remapped Rows"}
    assert cut.health.sections == frozenset()


def test_counters_stand_beside_the_state_of_their_port() -> None:
    told = Node(node({"infiniband": f"{INFINIBAND}mlx5_0/ports/1/counters/symbol_error:3\n"}))
    assert told.port_errors["mlx5_0", 1]["symbol_error"] == 3
    assert told.rdma_devices == Node(node()).rdma_devices
