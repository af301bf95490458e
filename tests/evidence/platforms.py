"""Boards of the platforms that rdma-core's rdma_topo tells apart, each as it should be.

inline          RP ── CX-8 switch ─┬─ port ── NIC (two functions)
                                   └─ port ── switch ── port ── GPU
data-direct     Grace RP ── CX-8 switch ─┬─ port ── DMA function
                                         └─ port ── switch ── port ── GPU
                Grace RP ── NIC
NUMA-attached   Grace or Vera RP ── GPU;  RP ── NIC
"""

from __future__ import annotations

from msgspec.structs import replace

from tests.evidence.board import BRIDGE, ETHERNET, GIB, GPU_CLASS, MIB, Board, Fn

CX_SWITCH, CX8, CX_DMA = (0x15B3, 0x197C), (0x15B3, 0x1023), (0x15B3, 0x2100)
GRACE_PORT, VERA_PORT, XEON_PORT = (0x10DE, 0x22B1), (0x10DE, 0x2F95), (0x8086, 0x352A)
GB300, B300, GH200 = (0x10DE, 0x31C2), (0x10DE, 0x3182), (0x10DE, 0x2342)
ALTRA_PORT, L40S = (0x1DEF, 0xE110), (0x10DE, 0x26B9)
ISOLATED, ISOLATED_VERA = 0x1D, 0x15  # what the kernel sets when an IOMMU asks for ACS

ROOT, UP = "0000:20:00.0", "0000:21:00.0"
TO_NIC, TO_GPU = "0000:22:00.0", "0000:22:01.0"
INNER_UP, INNER_DOWN = "0000:24:00.0", "0000:25:00.0"
NIC, NIC2, GPU = "0000:23:00.0", "0000:23:00.1", "0000:26:00.0"
DMA = "0000:23:00.0"  # the place of the NIC on a data-direct board


def gpu(address: str, parent: str, ids: tuple[int, int], group: str) -> Fn:
    bars = ((0, 16 * MIB), (2, 256 * GIB))
    return Fn(address, parent, ids, GPU_CLASS, "nvidia", group, bars=bars)


def nic(address: str, parent: str, group: str, *, ats: bool | None = None) -> Fn:
    return Fn(address, parent, CX8, ETHERNET, "mlx5_core", group, bars=((0, 32 * MIB),), ats=ats)


def _switches(root: tuple[int, int], ports: tuple[int, int, int], inner: int) -> tuple[Fn, ...]:
    """A root port with the two nested switches; ACS of root, of both ports, of the inner one."""
    return (
        Fn(ROOT, "pci0000:20", root, BRIDGE, acs=ports[0]),
        Fn(UP, ROOT, CX_SWITCH, BRIDGE),
        Fn(TO_NIC, UP, CX_SWITCH, BRIDGE, acs=ports[1]),
        Fn(TO_GPU, UP, CX_SWITCH, BRIDGE, acs=ports[2]),
        Fn(INNER_UP, TO_GPU, CX_SWITCH, BRIDGE),
        Fn(INNER_DOWN, INNER_UP, CX_SWITCH, BRIDGE, acs=inner),
    )


INLINE = Board(
    (
        *_switches(XEON_PORT, (0x00, 0x00, 0x00), 0x00),
        nic(NIC, TO_NIC, "7"),
        nic(NIC2, TO_NIC, "7"),
        gpu(GPU, INNER_DOWN, B300, "7"),
    )
)
INLINE_HOST = Board(
    (
        *_switches(XEON_PORT, (ISOLATED, 0x5D, ISOLATED), ISOLATED),
        nic(NIC, TO_NIC, "7", ats=False),
        nic(NIC2, TO_NIC, "8", ats=False),
        replace(gpu(GPU, INNER_DOWN, B300, "9"), driver="vfio-pci"),
    )
)
DATA_DIRECT = Board(
    (
        Fn("0000:01:00.0", "pci0000:01", GRACE_PORT, BRIDGE, acs=ISOLATED),
        nic("0000:02:00.0", "0000:01:00.0", "3"),
        *_switches(GRACE_PORT, (0x1C, 0x19, 0x15), ISOLATED),
        Fn(DMA, TO_NIC, CX_DMA, 0x080100, "mlx5_ib", "7"),
        gpu(GPU, INNER_DOWN, GB300, "7"),
    )
)


def coherent(
    port: tuple[int, int], gpu_ids: tuple[int, int], acs: int, *, ats: bool | None = None
) -> Board:
    """Two root ports of one processor, a GPU below one and a NIC below the other."""
    return Board(
        (
            Fn("0000:01:00.0", "pci0000:01", port, BRIDGE, acs=acs),
            gpu("0000:02:00.0", "0000:01:00.0", gpu_ids, "1"),
            Fn("0001:01:00.0", "pci0001:01", port, BRIDGE, acs=acs),
            nic("0001:02:00.0", "0001:01:00.0", "2", ats=ats),
            nic("0001:02:00.1", "0001:01:00.0", "3", ats=ats),
        )
    )


GRACE = coherent(GRACE_PORT, GH200, ISOLATED)
VERA = coherent(VERA_PORT, GH200, ISOLATED_VERA)
ALTRA = coherent(ALTRA_PORT, L40S, 0x00)
