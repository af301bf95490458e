"""The checks on firmware by what the running system shows alone."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS, MIB, PORTS, Board, Registers
from tests.evidence.build import CPU, GUEST_CPU, gpu_rows, node
from tests.evidence.frames import DENIED, MISSING, Override
from tests.evidence.healthy_firmware import (
    DMA_OPT_IN,
    INTR_REMAP,
    dmar,
    ivrs,
    setup,
)
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.evidence.platforms import INLINE
from toolkit.checks.all import ALL, BY_ID
from toolkit.checks.firmware.bios import check_id
from toolkit.compat.bios import BiosRole
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

HOST = Want(role=Role.VM_HOST)
OFF: dict[str, Override] = {"iommu-units": "", "iommu-groups": ""}
MANY, FEW = setup(), setup(online="0-63")
LOW = "80000000-9fffffff : PCI Bus 0000:15\n"
NO_SPACE = (
    "[    2.1] pci 0000:18:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space\n"
)
PLACED = (
    "[    2.2] pci 0000:18:00.0: BAR 1 [mem 0x62000000000-0x63fffffffff 64bit pref]: assigned\n"
)
LOOSE: dict[str, Override] = dict.fromkeys(
    ("pci", "pci-links", "pci-resources", "pci-config"), MISSING
)


def regions(address: str = GPUS[0], *, index: int = 2, row: str, board: Board = BOARD) -> str:
    """The frame "pci-resources" with one region changed."""
    lines = board.frames()["pci-resources"].split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{address}/resource:"))
    lines[at + index] = f"{address}/resource:{row}"
    return "\n".join(lines)


HOMELESS = regions(row="0x0 0x1fffffffff 0x14220c")
FORGOTTEN = regions(row="0x0 0x0 0x0")
BELOW = regions(row="0xa0000000 0xafffffff 0x14220c")
SMALL = BOARD.but(GPUS[1], bars=((0, 16 * MIB),)).but(GPUS[0], bars=((0, 16 * MIB),))


def address_space() -> list[Row]:
    four, window = "bios.above_4g", "bios.mmio_window"
    return [
        Row("above", four, PASS, "above 4 GiB on 2 GPUs"),
        Row("no-address", four, FAIL, "1 of 2 GPUs have no address", {"pci-resources": HOMELESS}),
        Row("forgotten", four, FAIL, "1 of 2 GPUs have no address", {"pci-resources": FORGOTTEN}),
        Row("both", four, FAIL, "2 of 2 GPUs", board=SMALL),
        Row("log-of-what-came-right", four, PASS, "above", {"dmesg": NO_SPACE + PLACED}),
        Row("log-alone", four, FAIL, "1 function has no", {**LOOSE, "dmesg": NO_SPACE}),
        Row("log-alone-right", four, UNKNOWN, "no memory", {**LOOSE, "dmesg": NO_SPACE + PLACED}),
        Row(
            "low-and-no-window",
            four,
            FAIL,
            "no host bridge",
            {"pci-resources": BELOW, "iomem": LOW},
        ),
        Row("low-by-choice", four, PASS, "1 GPU lies below", {"pci-resources": BELOW}),
        Row("low-unread", four, UNKNOWN, "denied", {"pci-resources": BELOW, "iomem": DENIED}),
        Row("low-none-told", four, UNKNOWN, "no window", {"pci-resources": BELOW, "iomem": ""}),
        Row("guest", four, NA, "not judged on a vm", {"cpu": GUEST_CPU}),
        Row("room", window, PASS, "3 windows of 3584 GiB in all, up to 0x273fffffffff"),
        Row(
            "beyond-the-processor",
            window,
            FAIL,
            "1 window ends beyond the processor's 44 address bits",
            {"cpu": CPU + "address sizes\t: 44 bits physical, 48 bits virtual\n"},
        ),
        Row("no-room", window, FAIL, "1 of 2 GPUs found no room", {"pci-resources": HOMELESS}),
        Row("none-high", window, NA, "see bios.above_4g", {"iomem": LOW}),
        Row(
            "too-small",
            window,
            FAIL,
            "1 window holds less than the BARs below",
            {"iomem": "54000000000-540ffffffff : PCI Bus 0000:15\n"},
        ),
        Row("no-bits", window, PASS, "address bits not told", {"cpu": CPU}),
        Row(
            "hidden",
            window,
            UNKNOWN,
            "shown to root alone",
            {"iomem": "00000000-00000000 : PCI Bus 0000:00\n"},
        ),
    ]


def _rebar(now: int, most: int) -> Board:
    return BOARD.but(GPUS[0], express=Registers(rebar=(now * MIB, most * MIB)))


def resizing() -> list[Row]:
    bar, virtual = "bios.resizable_bar", "bios.sr_iov"
    rows = {"nvidia-smi": gpu_rows("65536 MiB")}
    offering = BOARD.but(HCAS[0], express=Registers(vfs=8), bars=((0, 32 * MIB), (7, 64 * MIB)))
    lacking = regions(HCAS[0], index=7, row="0x0 0x3ffffff 0x14220c", board=offering)
    forgotten = regions(HCAS[0], index=7, row="0x0 0x0 0x0", board=offering)
    return [
        Row("none-to-resize", bar, NA, "no GPU here has a BAR that can be resized"),
        Row("small", bar, FAIL, "not resized on 1 of 2 GPUs", board=_rebar(256, 131072)),
        Row("full", bar, PASS, "resized on 1 GPU,", board=_rebar(131072, 131072)),
        Row("enough-for-its-memory", bar, PASS, "1 GPU,", rows, _rebar(65536, 131072)),
        Row("64-bytes", bar, UNKNOWN, "only 64", board=BOARD.but(GPUS[0], readable=64)),
        Row("bare-metal", virtual, NA, "no guests here"),
        Row("not-offered", virtual, NA, "mlxconfig SRIOV_EN", want=HOST),
        Row("room", virtual, PASS, "on 1 HCA", board=offering, want=HOST),
        Row("no-room", virtual, FAIL, "on 1 of 1", {"pci-resources": lacking}, offering, HOST),
        Row("forgotten", virtual, FAIL, "on 1 of 1", {"pci-resources": forgotten}, offering, HOST),
        Row("64-bytes", virtual, UNKNOWN, "only 64", {}, BOARD.but(HCAS[0], readable=64), HOST),
    ]


def tables() -> list[Row]:
    unit, dma, ats = "bios.iommu", "bios.dma_protection", "bios.ats"
    none: dict[str, Override] = {"acpi-tables": "", "acpi-bytes": ""}
    opt_in: dict[str, Override] = {"acpi-bytes": dmar(INTR_REMAP | DMA_OPT_IN)}
    return [
        Row("published", unit, PASS, "published: DMAR"),
        Row("none-on-bare-metal", unit, PASS, "bare metal needs none", none),
        Row("none-on-a-host", unit, FAIL, "no table offers an IOMMU", none, want=HOST),
        Row("not-read", unit, UNKNOWN, "denied", {"acpi-tables": DENIED}),
        Row("clear", dma, PASS, "not asked for in DMAR"),
        Row("asked-for", dma, FAIL, "DMAR asks for protection", opt_in),
        Row("asked-for-by-amd", dma, FAIL, "IVRS asks", {"acpi-bytes": ivrs(2)}),
        Row("asked-for-on-a-host", dma, PASS, "translates anyway", opt_in, want=HOST),
        Row("no-table", dma, PASS, "so nothing is asked", none),
        Row("refused", dma, UNKNOWN, "for root alone", {"acpi-bytes": "@DMAR\n000000\n"}),
        Row("old-evidence", dma, UNKNOWN, "not part of this evidence", {"acpi-bytes": MISSING}),
        Row("bare-metal", ats, NA, "no guests here"),
        Row("named", ats, PASS, "names root ports", want=HOST),
        Row("not-named", ats, FAIL, "no root port", {"acpi-bytes": dmar(ats=False)}, want=HOST),
        Row("amd", ats, NA, "IVRS does not tell", {"acpi-bytes": ivrs()}, want=HOST),
        Row("no-table", ats, NA, "no DMAR", none, want=HOST),
        Row("not-read", ats, UNKNOWN, "denied", {"acpi-bytes": DENIED}, want=HOST),
    ]


def bridges() -> list[Row]:
    check = "bios.acs"
    fenced = BOARD.but(PORTS[0], acs=0x1D)
    all_fenced = fenced.but(PORTS[1], acs=0x1D).but(PORTS[2], acs=0x1D).but(PORTS[3], acs=0x1D)
    return [
        Row("clear", check, PASS, "no redirect on 4 bridges"),
        Row("by-the-kernel", check, NA, "the kernel does itself while an IOMMU is on", {}, fenced),
        Row("by-the-firmware", check, FAIL, "1 of 4 bridges redirect", OFF, fenced),
        Row("host", check, PASS, "redirect on 4", {}, all_fenced, HOST),
        Row("host-taken-away", check, NA, "taken away since", want=HOST),
        Row("host-without-iommu", check, FAIL, "no redirect on 4 of 4", OFF, want=HOST),
        Row("in-a-table", check, NA, "see acs.mask", {"infiniband": ""}, INLINE),
        Row("64-bytes", check, UNKNOWN, "only 64", {}, BOARD.but(PORTS[0], readable=64)),
    ]


ROWS = [
    *address_space(),
    *resizing(),
    *tables(),
    *bridges(),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_firmware(row: Row) -> None:
    holds(row)


def test_every_setting_has_its_check_and_no_check_is_without_setting() -> None:
    ids = {each.id for each in ALL if each.id.startswith("bios.")}
    assert ids == {check_id(each) for each in BiosRole}


def test_a_failure_shows_the_log_as_a_hint_and_never_rests_on_it() -> None:
    bad = node({"pci-resources": HOMELESS, "dmesg": NO_SPACE})
    finding = BY_ID["bios.above_4g"](Node(bad), Want()).finding
    assert any("can't assign" in each for each in finding.details)
    came_right = Node(node({"pci-resources": HOMELESS, "dmesg": NO_SPACE + PLACED}))
    assert "assign" not in str(BY_ID["bios.above_4g"](came_right, Want()).finding.details)
    without = BY_ID["bios.above_4g"](
        Node(node({"pci-resources": HOMELESS, "dmesg": DENIED})), Want()
    )
    assert without.status is FAIL


def test_a_base_that_the_processor_cannot_address_is_told_by_the_log_alone() -> None:
    """The kernel leaves such a window out of /proc/iomem."""
    said = (
        "[    0.9] acpi PNP0A08:05: host bridge window [mem 0x380000000000-0x39ffffffffff window]"
        " (ignored, not CPU addressable)\n"
    )
    for log, hint in ((said, "a lower MMIO base"), ("", "a larger MMIO window")):
        bad = Node(node({"pci-resources": HOMELESS, "dmesg": log}))
        finding = BY_ID["bios.mmio_window"](bad, Want()).finding
        assert (finding.status, finding.hint.startswith(hint)) == (FAIL, True), finding
