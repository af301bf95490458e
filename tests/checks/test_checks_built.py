"""The checks on what a machine is built of: what its tree or its kind tells to be missing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.checks.test_checks_inventory import (
    AZURE,
    BUSES,
    CARDS,
    COUNT,
    GPU,
    GUEST,
    HGX,
    SWITCH,
    SWITCHES,
    of,
    row,
    silent,
)
from tests.evidence.board import BRIDGE, GPU_CLASS, Board, Fn, hca, switch
from tests.evidence.frames import ABSENT
from tests.evidence.judging import FAIL, NA, PASS, Row, holds, name

NVIDIA = "sys_vendor:NVIDIA\nproduct_name:{} NVL\n"
ROOT, DOWN = (0x8086, 0x352A), (0x1000, 0xC030)


def carved(device: int, *addresses: str) -> Board:
    """The same for a guest, which sees no port of what it was not given."""
    board = of(device, *addresses)
    up = {each.parent for each in board.functions}
    return board.without(
        *(e.address for e in board.functions if e.klass == BRIDGE and e.address not in up)
    )


def tray(gpu: int, chip: int, count: int) -> Board:
    """Four GPUs and some of their HCAs on root ports of Grace, and two BlueField-3 for storage."""
    found: list[Fn] = []
    for at in range(10):
        port, here = f"{at:04x}:00:00.0", f"{at:04x}:01:00.0"
        found.append(Fn(port, f"pci{at:04x}:00", (0x10DE, 0x22B1), BRIDGE, numa=at % 2))
        if at < 4:
            ids = (0x10DE, gpu)
            found.append(Fn(here, port, ids, GPU_CLASS, "nvidia", str(10 + at), at % 2))
        elif at < 4 + count:
            found.append(replace(hca(here, port, numa=at % 2), ids=(0x15B3, chip)))
        elif at >= 8:
            found.append(replace(hca(here, port, numa=at % 2), ids=(0x15B3, 0xA2DC)))
    return Board(tuple(found))


# Four switches with two GPUs and two HCAs each, of which one HCA is gone and its port is there.
PAIRED = Board(
    tuple(
        each
        for at, bus in enumerate(BUSES[:4])
        for each in (
            *switch(bus, bus, at // 2, at),
            Fn(f"0000:{bus + 2:02x}:02.0", f"0000:{bus + 1:02x}:00.0", DOWN, BRIDGE),
            Fn(f"0000:{bus + 2:02x}:03.0", f"0000:{bus + 1:02x}:00.0", DOWN, BRIDGE),
            Fn(
                f"0000:{bus + 5:02x}:00.0",
                f"0000:{bus + 2:02x}:02.0",
                (0x10DE, 0x2330),
                GPU_CLASS,
                "nvidia",
            ),
            *([] if at == 3 else [hca(f"0000:{bus + 6:02x}:00.0", f"0000:{bus + 2:02x}:03.0")]),
        )
    )
)
# Three GPUs share an HCA below one switch; a fourth is on a root port, as it was built.
ONE_APART = Board(
    (
        *switch(0x10, 0x10, 0, 0),
        *(Fn(f"0000:12:{at:02x}.0", "0000:11:00.0", DOWN, BRIDGE) for at in (2, 3)),
        *(
            Fn(f"0000:{13 + at}:00.0", f"0000:12:{at:02x}.0", (0x10DE, 0x26B9), GPU_CLASS, "nvidia")
            for at in (2, 3)
        ),
        Fn("0000:10:02.0", "pci0000:10", ROOT, BRIDGE),
        Fn("0000:18:00.0", "0000:10:02.0", (0x10DE, 0x26B9), GPU_CLASS, "nvidia"),
    )
).but("0000:13:00.0", ids=(0x10DE, 0x26B9))
# Switches of the same model for storage, without a drive.
STORAGE = carved(0x20B2, *GPU[:4]).plus(
    Fn("0000:f1:01.0", "pci0000:f1", ROOT, BRIDGE),
    Fn("0000:f2:00.0", "0000:f1:01.0", DOWN, BRIDGE, upstream=True),
    Fn("0000:f3:00.0", "0000:f2:00.0", DOWN, BRIDGE),
)

ROWS = [
    row("half-of-a-board", COUNT, FAIL, "4 of 8 GPUs", of(0x20B2, *GPU[:4])),
    row("a-board-of-four", COUNT, PASS, "4 GPUs, all in", carved(0x20B2, *GPU[:4])),
    row(
        "a-guest-that-was-given-three",
        COUNT,
        PASS,
        "3 GPUs, all in",
        carved(0x2330, *GPU[:3]),
        **GUEST,
    ),
    row(
        "google-carves",
        COUNT,
        PASS,
        "2 GPUs, all",
        carved(0x2330, *GPU[:2]),
        dmi="sys_vendor:Google\nproduct_name:Google Compute Engine\n",
        **GUEST,
    ),
    row("a-guest-whose-tree-has-more", COUNT, FAIL, "3 of 8", of(0x2330, *GPU[:3]), **GUEST),
    row("a-guest-of-half-a-b200", COUNT, PASS, "4 GPUs, all", carved(0x2901, *GPU[:4]), **GUEST),
    row("half-of-a-b200", COUNT, FAIL, "4 of 8", of(0x2901, *GPU[:4])),
    row("half-of-a-b200-on-bare-metal", COUNT, FAIL, "4 of 8", carved(0x2901, *GPU[:4])),
    row(
        "half-of-a-b200-and-no-dmi",
        COUNT,
        PASS,
        "4 GPUs, all",
        carved(0x2901, *GPU[:4]),
        dmi=ABSENT,
    ),
    row("half-of-a-b200-by-its-ports", COUNT, FAIL, "4 of 8", of(0x2901, *GPU[:4]), dmi=ABSENT),
    row("a-quarter-of-a-b300", COUNT, FAIL, "2 of 8", carved(0x3182, *GPU[:2])),
    row("one-of-a-gb200-tray", COUNT, FAIL, "1 of 2", carved(0x2941, GPU[0])),
    row("two-gb200", COUNT, PASS, "2 GPUs, all", carved(0x2941, *GPU[:2])),
    row("one-gh200", COUNT, PASS, "1 GPU, all", carved(0x2342, GPU[0])),
    row("storage-switches-have-empty-ports", COUNT, PASS, "4 GPUs, all", STORAGE),
    row(
        "one-of-a-whole-azure-is-gone",
        SWITCH,
        FAIL,
        "3 of 4",
        HGX.without(SWITCHES[0].address),
        dmi=AZURE,
        **GUEST,
    ),
    *(
        row(
            f"one-without-an-answer-{len(more)}",
            SWITCH,
            FAIL,
            "1 of 4 NVSwitches on the bus without",
            HGX,
            pci_config=silent(HGX, SWITCHES[0].address),
            **more,
        )
        for more in ({}, GUEST)
    ),
    row("a-card-of-two-below-a-switch-is-gone", CARDS, FAIL, "1 HCA lost", PAIRED),
    row("a-root-port-has-no-switch", CARDS, NA, "not known", ONE_APART),
    *(
        row(f"a-{kind}-tray-of-{count}", CARDS, status, found, tray(gpu, chip, count),
            dmi=NVIDIA.format(kind))
        for kind, gpu, chip in (("GB200", 0x2941, 0x1021), ("GB300", 0x31C2, 0x1023))
        for count, status, found in ((4, PASS, "4 HCAs"), (3, FAIL, "3 of 4 HCAs"))
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_built(row: Row) -> None:
    holds(row)
