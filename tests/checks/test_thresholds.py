"""Each threshold of a check at its edge: what still holds there, and what does not one step on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.checks.test_checks_roce import JUMBO, roce
from tests.evidence.board import BOARD, GPUS, Registers
from tests.evidence.build import CPU
from tests.evidence.frames import ABSENT
from tests.evidence.healthy_firmware import X2APIC_OPT_OUT, dmar, setup
from tests.evidence.judging import FAIL, PASS, UNKNOWN, Row, holds, name
from toolkit.checks.check import Status
from toolkit.checks.consumers.chosen_nccl import may_lack_dmabuf
from toolkit.checks.measured import storage
from toolkit.checks.pci.bar import MIB, _alone, _by_memory
from toolkit.checks.rdma.health_hca import _over, _span
from toolkit.checks.rdma.pasted_ports import _ill, _lossy, memlock_told
from toolkit.checks.traffic.collective import _rises, _size
from toolkit.checks.traffic.verdict import Goal, weigh
from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Range
from toolkit.facts.gpu.gds import GdsioRun
from toolkit.facts.nccl.nccl_tests import CollectiveRun
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.firmware_tools import Link
from toolkit.throughput.estimate import Estimate, Layer, estimate
from toolkit.want import Want

SLOW = BOARD.but(GPUS[0], express=Registers(payload=128))
OPT_OUT = dmar(X2APIC_OPT_OUT)
ROWS = [
    Row("50-us", "bios.c_states", PASS, "none deeper than 50 us",
        {"setup": setup(cpu0_cpuidle_state2_latency="50")}),
    Row("51-us", "bios.c_states", PASS, "down to C6",
        {"setup": setup(cpu0_cpuidle_state2_latency="51")}),
    Row("bias-7", "bios.power_profile", PASS, "energy bias 7",
        {"setup": setup(cpu0_power_energy_perf_bias="7")}),
    Row("bias-8", "bios.power_profile", FAIL, "energy bias 8",
        {"setup": setup(cpu0_power_energy_perf_bias="8")}),
    Row("254-that-are-asked-to", "bios.x2apic", PASS, "254 processors do without",
        {"acpi-bytes": OPT_OUT, "setup": setup(online="0-253")}),
    Row("255-that-are-asked-to", "bios.x2apic", FAIL, "with 255 processors",
        {"acpi-bytes": OPT_OUT, "setup": setup(online="0-254")}),
    Row("254-without-it", "bios.x2apic", PASS, "254 processors do without",
        {"cpu": CPU, "setup": setup(online="0-253")}),
    Row("255-without-it", "bios.x2apic", FAIL, "255 are online",
        {"cpu": CPU, "setup": setup(online="0-254")}),
    Row("128-where-all-can-256", "bios.payload", FAIL, "128",
        {}, SLOW.but(GPUS[1], express=Registers(payload_max=256))),
    Row("4200", "rdma.mtu", PASS, "2 ports",
        roce(ibv_devinfo=ABSENT, net_devices=JUMBO.replace("9000", "4200"))),
    Row("4199", "rdma.mtu", FAIL, "2 of 2 ports",
        roce(ibv_devinfo=ABSENT, net_devices=JUMBO.replace("9000", "4199"))),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_a_node_tells(row: Row) -> None:
    holds(row)


def figure(value: float, low: float, high: float) -> Estimate:
    return estimate(Range(value, low, high), "the link", Layer.VERBS, Confidence.HIGH)


FIRM, WIDE = figure(10.0, 9.0, 12.0), figure(10.0, 9.0, 12.1)
SURE, LOOSE = figure(10.0, 9.0, 11.0), figure(10.0, 7.5, 11.0)


@pytest.mark.parametrize(
    ("value", "goal", "status"),
    [
        (8.5, Goal(None, FIRM), PASS),
        (8.49, Goal(None, FIRM), UNKNOWN),
        (8.5, Goal(None, WIDE), UNKNOWN),
        (8.0, Goal(SURE, FIRM), UNKNOWN),
        (7.99, Goal(SURE, FIRM), FAIL),
        (7.5, Goal(LOOSE, FIRM), UNKNOWN),
        (7.49, Goal(LOOSE, FIRM), FAIL),
        (10.2, Goal(None, FIRM, ceiling=10.0), PASS),
        (10.21, Goal(None, FIRM, ceiling=10.0), UNKNOWN),
    ],
)
def test_what_was_measured(value: float, goal: Goal, status: Status) -> None:
    assert weigh(value, "x", goal, short="y").status is status


@pytest.mark.parametrize(
    ("direct", "status"), [(7.99, FAIL), (8.0, UNKNOWN), (11.99, UNKNOWN), (12.0, PASS)]
)
def test_what_storage_carried(direct: float, status: Status) -> None:
    runs = [GdsioRun("READ", way, 4, "1024", got) for way, got in
            (("GPUD", direct), ("CPU_GPU", 10.0))]  # fmt: skip
    assert storage.judge(cast("Node", SimpleNamespace(gdsio_runs=runs)), Want()).status is status


def test_a_larger_message_gets_more_where_it_gets_more_than_a_tenth() -> None:
    for best, rises in ((11.0, False), (11.1, True)):
        rows = tuple(SimpleNamespace(size=n, best=b) for n, b in ((1, 10.0), (2, best)))
        assert _rises(cast("CollectiveRun", SimpleNamespace(rows=rows))) is rises


@pytest.mark.parametrize(
    ("counts", "hours", "told"),
    [
        ({"symbol_error": 36000}, 1.0, []),
        ({"symbol_error": 36001}, 1.0, ["symbol_error 36001 an hour"]),
        ({"link_error_recovery": 600}, 2.0, []),
        ({"link_error_recovery": 602}, 2.0, ["link_error_recovery 301 an hour"]),
        ({"link_downed": 5}, 1.0, []),
        ({"link_downed": 6}, 1.0, ["link_downed 6"]),
        ({"link_downed": 6}, 144.0, []),
        ({"link_downed": 7}, 144.0, ["link_downed 7"]),
    ],
)
def test_what_a_port_counted(counts: dict[str, int], hours: float, told: list[str]) -> None:
    assert _over(counts, hours) == told


@pytest.mark.parametrize(
    ("errors", "minutes", "ill"),
    [(1e-12, 5.0, False), (1.1e-12, 5.0, True), (1.1e-12, 4.9, False)],
)
def test_what_a_link_lost(errors: float, minutes: float, *, ill: bool) -> None:
    assert bool(_ill(Link("Active", errors=errors, minutes=minutes))) is ill


@pytest.mark.parametrize(
    ("lost", "bits", "ill"),
    [(30, 30 * 10**12, False), (31, 30 * 10**12, True), (31, 30 * 10**12 - 1, False)],
)
def test_what_a_driver_counted_as_lost(lost: int, bits: int, *, ill: bool) -> None:
    assert bool(_lossy({"rx_pcs_symbol_err_phy": lost, "rx_bits_phy": bits})) is ill


@pytest.mark.parametrize(
    ("size", "status"), [((1 << 30) - 1, FAIL), (1 << 30, UNKNOWN), (0, FAIL), (-1, UNKNOWN)]
)
def test_what_may_be_locked(size: int, status: Status) -> None:
    limits = [SimpleNamespace(whose="ulimit -l", size=size)]
    found = memlock_told(cast("Node", SimpleNamespace(said_limits=limits)))
    assert found is not None
    assert found.status is status


@pytest.mark.parametrize(
    ("bar", "memory", "status"),
    [(256, 0, FAIL), (257, 257, UNKNOWN), (257, 258, FAIL), (257, 0, UNKNOWN)],
)
def test_what_a_section_of_nvidia_smi_tells_of_bar1(bar: int, memory: int, status: Status) -> None:
    assert _alone(((bar, memory),)).status is status


@pytest.mark.parametrize(("size", "status"), [(100 * MIB, PASS), (100 * MIB - 1, FAIL)])
def test_bar1_beside_the_memory_of_its_gpu(size: int, status: Status) -> None:
    row = SimpleNamespace(address="a", memory_mib=100)
    card = SimpleNamespace(device=0, resizable=tuple)
    tree = SimpleNamespace(functions={"a": card})
    node = SimpleNamespace(gpu_rows=[row], pci=tree, pci_config=tree)
    assert _by_memory(cast("Node", node), {"a": size}).status is status


def test_words_change_with_the_size_of_what_they_say() -> None:
    sizes = {0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1 << 20: "1 MiB", 1 << 30: "1 GiB"}
    assert {each: _size(each) for each in sizes} == sizes
    assert [_span(hours) for hours in (0.5, 1.9, 2.0)] == ["30 min", "114 min", "2 h"]
    shown = {9.99: "9.99", 10.0: "10.0", 99.9: "99.9", 100.0: "100"}
    assert {each: figure(each, each, each).figure for each in shown} == {
        each: f"{said} GB/s" for each, said in shown.items()
    }


def test_nccl_of_cuda_11_may_lack_dmabuf_before_2_22() -> None:
    wheel = "/site-packages/nvidia_nccl_cu{}-2.dist-info"
    assert may_lack_dmabuf("2.21.5", wheel.format(11))
    assert not may_lack_dmabuf("2.22", wheel.format(11))
    assert not may_lack_dmabuf("2.21.5", wheel.format(12))
