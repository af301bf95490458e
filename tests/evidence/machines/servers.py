"""Servers that are as their makers describe them."""

from __future__ import annotations

from msgspec.structs import replace

from tests.evidence.board import BRIDGE, ETHERNET, MIB, Board, Fn
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_fabric import daemons
from tests.evidence.machines import boards as b
from tests.evidence.machines.inbox import KERNEL, driven_by, inbox
from tests.evidence.machines.kinds import (
    B200,
    GB200,
    GB300,
    H100,
    H200,
    IMEX,
    L40S,
    MANAGER,
    NEW_DRIVER,
    PERSISTENCED,
    SUBNET_MANAGER,
    dmi,
    hcas,
    lossless,
    on_arm,
    on_xeon,
)
from tests.evidence.machines.making import ETHERNET as ROCE
from tests.evidence.machines.making import Gpus, Hardware, Hca, like, with_board
from toolkit.evidence import Evidence


def dgx_h100_ib() -> Evidence:
    board = b.hgx(b.H100, b.MLX_IB, switches=4)
    return on_xeon(inbox(), board, H100, hcas(board), dmi=dmi("NVIDIA", "DGXH100"))


def hgx_h200_roce() -> Evidence:
    board = b.hgx(b.H200, b.MLX_ROCE, switches=4)
    devices = hcas(board, layer=ROCE)
    told = dmi("Dell Inc.", "PowerEdge XE9680")
    return on_xeon(inbox(), board, H200, devices, dmi=told, **lossless(devices))


def hgx_h200_thor2() -> Evidence:
    board = b.hgx(b.H200, b.Nic(b.THOR2, "bnxt_en"), switches=4)
    devices = hcas(board, "bnxt_re{}", layer=ROCE, kind="bnxt_re", board="", firmware="231.0.153.0")
    told = dmi("Dell Inc.", "PowerEdge XE9680")
    return on_xeon(driven_by("bnxt_en", "bnxt_re"), board, H200, devices, dmi=told)


def hgx_b200_pollara() -> Evidence:
    board = b.hgx(b.B200, b.Nic(b.POLLARA, "ionic"), switches=0)
    devices = hcas(board, "ionic_{}", layer=ROCE, kind="ionic", board="", firmware="1.117.5-a-45")
    start = like(driven_by("ionic", "ionic_rdma"), NEW_DRIVER, (KERNEL, "6.18.0-8-generic"))
    told = dmi("Supermicro", "SYS-A21GE-NBRT")
    running = daemons(PERSISTENCED, MANAGER, SUBNET_MANAGER)
    return on_xeon(start, board, B200, devices, dmi=told, daemons=running)


def l40s(nic: b.Nic) -> Board:
    """Four PCIe switches, each with two L40S and a NIC."""
    found: list[Fn] = []
    for at, bus in enumerate((0x10, 0x30, 0x90, 0xB0)):
        numa, root, up = at // 2, f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        found.append(Fn(root, f"pci0000:{bus:02x}", b.XEON, BRIDGE, numa=numa, acs=0x01))
        found.append(Fn(up, root, b.BROADCOM, BRIDGE, numa=numa, upstream=True))
        for slot in range(3):
            port, here = f"0000:{bus + 2:02x}:{slot:02x}.0", f"0000:{bus + 3 + slot:02x}:00.0"
            found.append(Fn(port, up, b.BROADCOM, BRIDGE, numa=numa, acs=0x01))
            group, width = str(3 * at + slot + 1), ("16.0 GT/s PCIe", 16)
            card = (
                replace(b.gpu(here, port, b.L40S, numa, group), now=width, best=width)
                if slot < 2
                else nic.at(here, port, numa, group)
            )
            found.append(card)
    return Board(tuple(found))


def l40s_irdma() -> Evidence:
    board = l40s(b.Nic(b.E810, "ice"))
    rate = "100 Gb/sec (4X EDR)"
    devices = hcas(board, "rocep{bus}s0", layer=ROCE, kind="irdma", board="", rate=rate)
    start = like(driven_by("ice", "irdma"), daemons=daemons(PERSISTENCED))
    return on_xeon(start, board, L40S, devices, dmi=dmi("Supermicro", "SYS-521GE-TNRT"))


def gb200_nvl72() -> Evidence:
    board = b.gb200()
    start = like(on_arm(inbox(), "NVIDIA", "GB200 NVL"), NEW_DRIVER)
    channels = "/dev/nvidia-caps-imex-channels/channel0\n"
    other: dict[str, Override] = {"imex_channels": channels, "daemons": daemons(PERSISTENCED, IMEX)}
    made = Hardware(board, GB200, hcas(board), "DMA-FQ", "smmu3.0x0000000011000000", other)
    return with_board(start, made)


def gb300_nvl72() -> Evidence:
    board = b.gb300()
    devices = hcas(board, kind="MT4131", firmware="40.46.3048", rate="800 Gb/sec (4X XDR)")
    start = like(
        on_arm(inbox(), "NVIDIA", "GB300 NVL"), NEW_DRIVER, (KERNEL, "6.14.0-1013-nvidia-64k")
    )
    channels = "/dev/nvidia-caps-imex-channels/channel0\n"
    other: dict[str, Override] = {"imex_channels": channels, "daemons": daemons(PERSISTENCED, IMEX)}
    made = Hardware(board, GB300, devices, "DMA-FQ", "smmu3.0x0000000011000000", other)
    return with_board(start, made)


def connectx10() -> Evidence:
    board = b.hgx(b.B200, b.Nic((0x15B3, 0x1027), "mlx5_core", 0x020700), switches=0)
    devices = hcas(
        board,
        kind="MT4135",
        board="MT_0000001310",
        firmware="42.47.1026",
        rate="800 Gb/sec (4X XDR)",
    )
    start = like(inbox(), NEW_DRIVER, (KERNEL, "6.17.0-14-generic"))
    running = daemons(PERSISTENCED, MANAGER, SUBNET_MANAGER)
    told = dmi("Supermicro", "SYS-A21GE-NBRT")
    return on_xeon(start, board, B200, devices, dmi=told, daemons=running)


def mi300x() -> Evidence:
    """Instinct in place of NVIDIA's GPUs, and nothing of NVIDIA's driver."""
    board = b.hgx(b.H100, b.MLX_ROCE, switches=0)
    swapped = tuple(
        replace(each, ids=(0x1002, 0x74A1), klass=0x120000, driver="amdgpu")
        if each.driver == "nvidia"
        else each
        for each in board.functions
    )
    devices = hcas(Board(swapped), layer=ROCE)
    start = inbox()
    modules = [e for e in start.text("modules").split("\n")[:-1] if not e.startswith("nvidia")]
    states = [e for e in start.text("module-state").split("\n")[:-1] if not e.startswith("nvidia")]
    bare = like(
        start,
        modules="".join(
            f"{each}\n" for each in (*modules, "amdgpu 19611648 0 - Live 0x0000000000000000")
        ),
        module_state="".join(f"{each}\n" for each in states),
        daemons="",
        nvidia_version=ABSENT,
        nvidia_params=ABSENT,
    )
    made = on_xeon(bare, Board(swapped), H100, devices, dmi=dmi("Supermicro", "AS-8125GS-TNMR2"))
    return like(made, nvidia_smi=ABSENT, nvidia_topology=ABSENT, nvidia_smi_q=ABSENT)


def spark() -> Evidence:
    """GB10: one memory for both processors, and a ConnectX-7 with two functions on two ports."""
    gpu_port = Fn("000f:00:00.0", "pci000f:00", (0x10DE, 0x22D1), BRIDGE)
    gb10 = b.gpu("000f:01:00.0", gpu_port.address, b.H100, 0, "1")
    found = [gpu_port, replace(gb10, ids=(0x10DE, 0x2E12), klass=0x030000, bars=((0, 64 * MIB),))]
    for at, domain in enumerate(("0000", "0002")):
        port = Fn(f"{domain}:00:00.0", f"pci{domain}:00", (0x10DE, 0x22CE), BRIDGE)
        four = ("32.0 GT/s PCIe", 4)
        found.append(port)
        for nth in range(2):
            here, group = f"{domain}:01:00.{nth}", str(2 + 2 * at + nth)
            found.append(replace(b.MLX_ROCE.at(here, port.address, 0, group), now=four, best=four))
    board = Board(tuple(found))
    names = ("rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1")
    nics = [each for each in found if each.klass == ETHERNET]
    devices = tuple(
        Hca(name, nic.address, f"en{name.removeprefix('roce')}np{at % 2}", layer=ROCE,
            rate="200 Gb/sec (4X HDR)", board="NVD0000000087", address4=f"0a00:{at + 1:04x}")
        for at, (name, nic) in enumerate(zip(names, nics, strict=True))
    )  # fmt: skip
    start = like(
        on_arm(inbox(), "NVIDIA", "NVIDIA_DGX_Spark"), NEW_DRIVER, daemons=daemons(PERSISTENCED)
    )
    told = Gpus("NVIDIA GB10", 0, 0, 0x2E12, fabric=("N/A", "N/A"))
    made = with_board(start, Hardware(board, told, devices, "DMA", "smmu3.0x0000000011000000"))
    return like(made, ("0 MiB", "[N/A]"))
