"""The checks on ACS: on the path, and by the table of platforms."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, HCAS, PORTS, REDIRECTS, Board, Fn
from tests.evidence.build import GUEST_CPU
from tests.evidence.frames import ABSENT, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.evidence.platforms import (
    DATA_DIRECT,
    DMA,
    GPU,
    GRACE,
    INLINE,
    INLINE_HOST,
    INNER_DOWN,
    ISOLATED,
    ROOT,
    TO_GPU,
    TO_NIC,
    VERA,
)
from toolkit.want import Role, Want

HOST = Want(role=Role.VM_HOST)
BARE = Want(role=Role.BARE_METAL)
LOOSE_RDMA: dict[str, Override] = {"infiniband": ""}  # the board's own HCAs, by their ids


def redirect() -> list[Row]:
    check = "acs.redirect"
    fenced = BOARD.but(PORTS[0], acs=REDIRECTS)
    return [
        Row("SrcValid-alone", check, PASS, "clear on 4 bridges of 2 GPU-HCA paths"),
        Row("redirects", check, FAIL, "1 of 4 bridges", board=fenced),
        Row("completions-alone", check, FAIL, "1 of 4", board=BOARD.but(PORTS[3], acs=0x08)),
        Row("egress-alone", check, FAIL, "1 of 4", board=BOARD.but(PORTS[3], acs=0x20)),
        Row("UpstreamFwd-alone", check, PASS, "clear", board=BOARD.but(PORTS[3], acs=0x10)),
        Row("no-capability", check, PASS, "clear", board=BOARD.but(PORTS[3], acs=None)),
        Row(
            "root-port-above-the-switch",
            check,
            PASS,
            "clear",
            board=BOARD.but("0000:15:01.0", acs=REDIRECTS),
        ),
        Row("iommu=pt-does-not-help", check, FAIL, "1 of 4", {"cmdline": "iommu=pt\n"}, fenced),
        Row("guest", check, NA, "on a vm", {"cpu": GUEST_CPU}, fenced),
        Row("host-of-guests", check, NA, "vm-host", {}, fenced, Want(role=Role.VM_HOST)),
        Row(
            "data-direct",
            check,
            NA,
            "table of its own",
            board=fenced.plus(Fn("0000:1a:00.0", PORTS[1], (0x15B3, 0x2100), 0x080100, "")),
        ),
        Row("inline-has-a-table", check, NA, "see acs.mask", LOOSE_RDMA, INLINE),
        Row("grace-has-a-table", check, NA, "see acs.mask", LOOSE_RDMA, GRACE),
        Row("no-common-switch", check, NA, "no GPU shares", board=fenced.without(*HCAS[:2])),
        Row(
            "64-bytes-for-ordinary-users",
            check,
            UNKNOWN,
            "only 64 bytes are readable",
            board=BOARD.but(PORTS[0], readable=64),
        ),
        Row(
            "256-bytes-without-mmconfig",
            check,
            UNKNOWN,
            "only 256 bytes are readable",
            board=BOARD.but(PORTS[0], readable=256),
        ),
        Row("no-od", check, UNKNOWN, "not there", {"pci-config": ABSENT}),
        Row(
            "one-bridge-not-captured",
            check,
            UNKNOWN,
            "config space of 0000:99:01.0: not part of this evidence",
            {"pci-config": BOARD.without(PORTS[3]).frames()["pci-config"]},
        ),
    ]


def mask() -> list[Row]:
    check = "acs.mask"

    def on(claim: str, status: Row, found: str, board: Board, want: Want = BARE) -> Row:
        return Row(claim, check, status.status, found, LOOSE_RDMA, board, want)

    good, bad, not_ours = (Row("", "", each, "") for each in (PASS, FAIL, NA))
    return [
        on("ordinary-switches", not_ours, "see acs.redirect", BOARD),
        on("guest", not_ours, "does not see the bridges", INLINE, Want(role=Role.VM)),
        on("inline", good, "inline on bare-metal: 4 bridges", INLINE),
        on("inline-without-iommu", good, "groups fit", _ungrouped(INLINE)),
        on("inline-srcvalid-counts", bad, "1 of 4 bridges", INLINE.but(TO_NIC, acs=0x01)),
        on("inline-kernel-default", bad, "1 of 4", INLINE.but(ROOT, acs=ISOLATED)),
        on("inline-inner-switch", bad, "1 of 4", INLINE.but(INNER_DOWN, acs=ISOLATED)),
        on("inline-port-without-acs", good, "fit", INLINE.but(TO_GPU, acs=None)),
        on("inline-two-groups", bad, "2 IOMMU groups", INLINE.but(GPU, group="8")),
        on("inline-one-in-no-group", bad, "2 IOMMU groups", INLINE.but(GPU, group="")),
        on("inline-host", good, "inline on vm-host: 4 bridges", INLINE_HOST, HOST),
        on("inline-host-told-by-vfio", good, "on vm-host", INLINE_HOST, Want()),
        on("inline-host-without-dt", bad, "1 of 4", INLINE_HOST.but(TO_NIC, acs=0x1D), HOST),
        on("inline-host-one-group", bad, "1 IOMMU", INLINE_HOST.but(GPU, group="8"), HOST),
        on("inline-host-gpu-in-none", bad, "2 IOMMU", INLINE_HOST.but(GPU, group=""), HOST),
        on("inline-host-no-groups", bad, "2 IOMMU", _ungrouped(INLINE_HOST), HOST),
        on("inline-all-off-on-a-host", bad, "4 of 4 bridges", INLINE, HOST),
        on("inline-isolated-on-bare-metal", bad, "4 of 4 bridges", INLINE_HOST, BARE),
        on("data-direct", good, "data-direct on bare-metal: 5", DATA_DIRECT),
        on("data-direct-host", good, "data-direct on vm-host", DATA_DIRECT, HOST),
        on("data-direct-all-off", bad, "5 of 5 bridges", _all_off(DATA_DIRECT)),
        on("data-direct-dma-port", bad, "1 of 5", DATA_DIRECT.but(TO_NIC, acs=ISOLATED)),
        on("data-direct-gpu-port", bad, "1 of 5", DATA_DIRECT.but(TO_GPU, acs=0x19)),
        on("data-direct-root-srcvalid", bad, "1 of 5", DATA_DIRECT.but(ROOT, acs=ISOLATED)),
        on("data-direct-other-port", bad, "1 of 5", DATA_DIRECT.but("0000:01:00.0", acs=0)),
        on("data-direct-two-groups", bad, "1 IOMMU groups", DATA_DIRECT.but(DMA, group="8")),
        on("data-direct-no-groups", bad, "1 IOMMU groups", _ungrouped(DATA_DIRECT)),
        on(
            "data-direct-without-acs",
            bad,
            "1 of 4",
            DATA_DIRECT.but(INNER_DOWN, acs=None).but(TO_NIC, acs=None),
        ),
        Row(
            "data-direct-laid-out-otherwise",
            check,
            UNKNOWN,
            "with 0 GPUs beside it",
            LOOSE_RDMA,
            DATA_DIRECT.but(GPU, parent="0000:01:00.0"),
        ),
        on("grace", good, "NUMA-attached on bare-metal: 2 bridges", GRACE),
        on("grace-host", good, "NUMA-attached on vm-host", GRACE, HOST),
        on("grace-all-off", bad, "2 of 2 bridges", _all_off(GRACE)),
        on("grace-one-group", bad, "1 IOMMU groups", GRACE.but("0001:02:00.0", group="1")),
        on("grace-no-groups", bad, "3 IOMMU groups", _ungrouped(GRACE)),
        on("vera-cannot-redirect-completions", good, "2 bridges", VERA),
        on("grace-must-redirect-them", bad, "1 of 2", GRACE.but("0000:01:00.0", acs=0x15)),
        Row(
            "64-bytes",
            check,
            UNKNOWN,
            "only 64 bytes",
            LOOSE_RDMA,
            INLINE.but(TO_NIC, readable=64),
        ),
    ]


def _ungrouped(board: Board) -> Board:
    return Board(tuple(replace(each, group="") for each in board.functions))


def _all_off(board: Board) -> Board:
    off = (replace(f, acs=None if f.acs is None else 0) for f in board.functions)
    return Board(tuple(off))


ROWS = [
    *redirect(),
    *mask(),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_acs(row: Row) -> None:
    holds(row)


def test_redirecting_bridges_are_named_with_their_bits() -> None:
    board = BOARD.but(PORTS[0], acs=REDIRECTS).but(PORTS[2], acs=0x20)
    assert judged(Row("", "acs.redirect", FAIL, "", board=board)).finding.details == (
        "0000:17:00.0: ReqRedir CmpltRedir (ACSCtl 001d)",
        "0000:99:00.0: EgressCtrl (ACSCtl 0020)",
        'named by "pci=disable_acs_redir=0000:17:00.0;0000:99:00.0"',
    )
