"""What the running system shows of its firmware: tables, windows, regions, links, processors."""

from __future__ import annotations

import struct

import pytest

from tests.evidence.board import BOARD, GIB, GPUS, MIB, space
from tests.evidence.build import node
from tests.evidence.healthy_firmware import DMA_OPT_IN, IOMEM, X2APIC_OPT_OUT, dmar, ivrs, setup
from toolkit.errors import NeedsRoot, NoEvidence, Unparsable
from toolkit.facts.firmware.cpu_setup import IdleState, parse_setup
from toolkit.facts.node.node import Node
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.iommu import IommuTable, parse_iommu_table
from toolkit.facts.pci.pcie_caps import LinkControl, Sriov, read_link_control, read_sriov
from toolkit.facts.pci.windows import Region, parse_iomem, parse_regions

# --- the table of IOMMUs ---


@pytest.mark.parametrize(
    ("text", "table"),
    [
        pytest.param("", None, id="offers-none"),
        pytest.param(dmar(), IommuTable("DMAR", True, False, False, True), id="intel"),
        pytest.param(dmar(0, ats=False), IommuTable("DMAR", False, False, False, False), id="bare"),
        pytest.param(
            dmar(X2APIC_OPT_OUT | DMA_OPT_IN),
            IommuTable("DMAR", False, True, True, True),
            id="intel-flags",
        ),
        pytest.param(ivrs(), IommuTable("IVRS", None, None, False, None), id="amd"),
        pytest.param(ivrs(0x2), IommuTable("IVRS", None, None, True, None), id="amd-opt-in"),
    ],
)
def test_what_the_firmware_says_of_its_iommus(text: str, table: IommuTable | None) -> None:
    assert parse_iommu_table(text) == table


def test_root_ports_are_unknown_where_the_table_was_cut() -> None:
    lines = dmar().split("\n")
    cut = "\n".join([*lines[:5], f"{0x40:06x}", ""])
    table = parse_iommu_table(cut)
    assert table is not None
    assert table.ats is None


@pytest.mark.parametrize("text", ["@DMAR\n", "@DMAR\n000000\n", "@IVRS\n"])
def test_a_table_without_a_byte_was_refused(text: str) -> None:
    with pytest.raises(NeedsRoot, match="for root alone"):
        parse_iommu_table(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(dmar().replace("@DMAR", "@IVRS"), id="of-another-name"),
        pytest.param("@DMAR\n000000 44 4d 41 52\n000004\n", id="only-its-name"),
        pytest.param(dmar().replace("02 00 08 00", "02 00 00 00"), id="structure-of-no-size"),
        pytest.param("nonsense\n", id="nonsense"),
    ],
)
def test_a_table_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_iommu_table(text)


# --- windows and regions ---


def test_windows_are_those_of_host_bridges_alone() -> None:
    windows = parse_iomem(IOMEM)
    assert [each.bus for each in windows] == ["0000:05", "0000:05", "0000:15", "0000:97"]
    assert [each.high for each in windows] == [False, True, True, True]
    assert windows[2].size == 1536 * GIB


def test_a_window_within_a_reserved_range_stands_deeper_and_counts() -> None:
    deeper = "  90000000-9fffffff : PCI Bus 0000:00\n"
    assert len(parse_iomem(deeper)) == 1


def test_addresses_of_zero_are_those_that_root_alone_may_see() -> None:
    hidden = "00000000-00000000 : PCI Bus 0000:00\n  00000000-00000000 : PCI Bus 0000:01\n"
    with pytest.raises(NeedsRoot, match="shown to root alone"):
        parse_iomem(hidden)
    assert parse_iomem("") == ()


@pytest.mark.parametrize("line", ["PCI Bus 0000:00", "0-g : PCI Bus 0000:00", "0-1 : PCI Bus 0"])
def test_a_window_of_another_shape_is_refused(line: str) -> None:
    with pytest.raises(Unparsable, match="/proc/iomem: cannot read line 1"):
        parse_iomem(f"{line}\n")


def _resource(*rows: tuple[int, int, int]) -> str:
    return "".join(f"0000:18:00.0/resource:0x{a:x} 0x{b:x} 0x{c:x}\n" for a, b, c in rows)


@pytest.mark.parametrize(
    ("row", "regions"),
    [
        pytest.param((0x1000, 0x1FFF, 0x40200), (Region(0, 0x1000, 4096, True),), id="placed"),
        pytest.param((0, 0xFFFFFFF, 0x14220C), (Region(0, 0, 256 * MIB, False),), id="from-zero"),
        pytest.param(
            (0x1000, 0x1FFF, 0x20040200), (Region(0, 0x1000, 4096, False),), id="marked-as-unset"
        ),
        pytest.param((0x1000, 0x107F, 0x40101), (), id="ports-are-no-memory"),
        pytest.param((0, 0, 0), (), id="none"),
    ],
)
def test_a_region_has_a_place_or_has_none(
    row: tuple[int, int, int], regions: tuple[Region, ...]
) -> None:
    assert parse_regions(_resource(row)) == {"0000:18:00.0": regions}


def test_regions_of_virtual_functions_are_told_apart_and_the_rom_is_none() -> None:
    rows = [(0x1000 * (index + 1), 0x1000 * (index + 1) + 0xFFF, 0x40200) for index in range(13)]
    found = parse_regions(_resource(*rows))["0000:18:00.0"]
    assert [each.index for each in found] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert [each.index for each in found if each.of_virtual] == [7, 8, 9, 10, 11, 12]


def test_a_resource_of_another_shape_is_refused() -> None:
    with pytest.raises(Unparsable, match="resources of 0000:18:00"):
        parse_regions("0000:18:00.0/resource:0x0 0x0\n")


# --- links and virtual functions ---


def _space(**changes: int) -> ConfigSpace:
    """The GPU's config space; keywords are offsets of 16-bit registers: at_50=2."""
    gpu = next(each for each in BOARD.functions if each.address == GPUS[0])
    data = bytearray(space(gpu))
    for name, value in changes.items():
        struct.pack_into("<H", data, int(name.removeprefix("at_"), 16), value)
    return ConfigSpace(GPUS[0], bytes(data))


@pytest.mark.parametrize(
    ("changes", "control"),
    [
        pytest.param({"at_70": 5}, LinkControl("", 32.0, 32.0), id="rests-never"),
        pytest.param({"at_50": 1, "at_70": 5}, LinkControl("L0s", 32.0, 32.0), id="L0s"),
        pytest.param({"at_50": 2, "at_70": 3}, LinkControl("L1", 32.0, 8.0), id="L1-and-held"),
        pytest.param({"at_50": 3, "at_70": 0}, LinkControl("L0s and L1", 32.0, 0.0), id="both"),
        pytest.param({"at_42": 1, "at_70": 3}, LinkControl("", 32.0, 0.0), id="version-1"),
        pytest.param({"at_06": 0}, None, id="conventional"),
    ],
)
def test_how_a_port_was_told_to_run_its_link(
    changes: dict[str, int], control: LinkControl | None
) -> None:
    assert read_link_control(_space(**changes)) == control


def test_virtual_functions_of_a_physical_one() -> None:
    assert read_sriov(_space()) is None
    able = {"at_148": 0x10, "at_14a": 1, "at_156": 16, "at_158": 4}
    at = {"at_100": 1, "at_102": 2 | 0x148 << 4}
    assert read_sriov(_space(**at, **able)) == Sriov(16, 0)
    assert read_sriov(_space(**at, **able, at_150=1)) == Sriov(16, 4)


def test_what_was_not_readable_is_not_known() -> None:
    short = ConfigSpace(GPUS[0], _space().data[:64])
    for read in (read_link_control, read_sriov):
        with pytest.raises(NeedsRoot):
            read(short)
    with pytest.raises(NoEvidence):
        read_sriov(ConfigSpace(GPUS[0], _space().data[:256]))


# --- processors ---


def test_how_processors_are_set_up() -> None:
    said = parse_setup(setup())
    assert (said.online, said.smt, said.sockets) == (224, "on", 2)
    assert said.idle[2] == IdleState("C6", 290, False)
    assert (said.idle_driver, said.clock_driver, said.governor) == (
        "intel_idle",
        "intel_pstate",
        "performance",
    )
    assert (said.energy_bias, said.turbo, said.aspm_policy) == (0, True, "default")


def test_what_a_kernel_does_not_tell_stays_empty() -> None:
    said = parse_setup("")
    assert (said.online, said.smt, said.idle, said.sockets) == (0, "", (), 0)
    assert (said.energy_bias, said.turbo, said.aspm_policy) == (None, None, "")


@pytest.mark.parametrize(
    ("text", "turbo"),
    [
        pytest.param("devices/system/cpu/intel_pstate/no_turbo:1\n", False, id="intel-off"),
        pytest.param("devices/system/cpu/cpufreq/boost:1\n", True, id="amd-on"),
        pytest.param("devices/system/cpu/cpufreq/boost:0\n", False, id="amd-off"),
    ],
)
def test_turbo_is_named_in_opposite_ways(text: str, turbo: bool) -> None:
    assert parse_setup(text).turbo is turbo


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\n",
        "devices/system/cpu/online:many\n",
        "package/node0:x\n",
        "devices/system/cpu/cpu0/cpuidle/state0/latency:long\n",
        "devices/system/cpu/cpu0/power/energy_perf_bias:normal\n",
    ],
)
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_setup(text)


def test_a_node_reads_them_all_and_says_where_from() -> None:
    seen = Node(node())
    assert seen.setup.online == 224
    assert len(seen.windows) == 4
    assert seen.iommu_table is not None
    assert seen.regions[GPUS[0]][1].size == 128 * GIB
    assert (seen.cpu.address_bits, seen.cpu.x2apic) == (46, True)
    assert (seen.cpu.threads, seen.cpu.cores) == (112, 56)
    assert seen.cited == ["setup", "iomem", "acpi-bytes", "pci-resources", *["cpu"] * 4]
