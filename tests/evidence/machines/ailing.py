"""Machines that have lost something."""

from __future__ import annotations

from tests.evidence.board import BRIDGE, Board, Fn
from tests.evidence.frames import failed
from tests.evidence.healthy_fabric import daemons
from tests.evidence.machines import boards as b
from tests.evidence.machines.inbox import inbox
from tests.evidence.machines.kinds import (
    GH200,
    L40S,
    PERSISTENCED,
    dmi,
    hcas,
    on_arm,
    on_xeon,
)
from tests.evidence.machines.making import Hardware, like, with_board
from tests.evidence.machines.servers import dgx_h100_ib, hgx_h200_roce, l40s
from toolkit.evidence import Evidence

COUNTERS = (
    "counters/symbol_error",
    "counters/link_downed",
    "counters/link_error_recovery",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_rcv_errors",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/out_of_sequence",
)


def _fallen(start: Evidence, address: str, error: str) -> Evidence:
    """A GPU that answers no more: all ones from its config space, Xid 79, and NVML's words."""
    blocks = start.text("pci-config").split("@")
    ones = f"{address}\n000000{' ff' * 16}\n*\n001000\n"
    space = "@".join(ones if each.startswith(address) else each for each in blocks)
    place = address.removesuffix(".0")
    line = (
        f"[ 9123.111111] NVRM: Xid (PCI:{place}): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.\n"
    )
    smi = failed(15, error)
    return like(
        start,
        pci_config=space,
        dmesg=start.text("dmesg") + line,
        nvidia_smi=smi,
        nvidia_topology=smi,
        nvidia_smi_q=smi,
    )


def lost_hgx_h100() -> Evidence:
    error = "Unable to determine the device handle for GPU0000:CA:00.0: Unknown Error\n"
    return _fallen(dgx_h100_ib(), "0000:ca:00.0", error)


def _card_in(start: Evidence, port: str) -> Evidence:
    """A port with a slot whose pins tell of a card: Slot Implemented, Presence Detect State."""
    blocks = start.text("pci-config").split("@")
    at = next(nth for nth, each in enumerate(blocks) if each.startswith(port))
    rows = blocks[at].split("\n")
    for nth, row in enumerate(rows):
        cells = row.split(" ")
        if cells[0] == "000040":
            cells[1 + 3] = "01"  # PCI Express Capabilities, bit 8
        elif cells[0] == "000050":
            cells[1 + 10] = "40"  # Slot Status, bit 6
        rows[nth] = " ".join(cells)
    blocks[at] = "\n".join(rows)
    return like(start, pci_config="@".join(blocks))


def lost_l40s() -> Evidence:
    """After a reboot: a card is in the slot, nothing answers, and the slots beside are filled."""
    board = l40s(b.MLX_IB).without("0000:93:00.0")
    empty = board.but("0000:92:00.0", now=("2.5 GT/s PCIe", 0))
    start = like(inbox(), daemons=daemons(PERSISTENCED))
    told = dmi("Supermicro", "SYS-521GE-TNRT")
    return _card_in(on_xeon(start, empty, L40S, hcas(empty), dmi=told), "0000:92:00.0")


def _gh200() -> Evidence:
    port = Fn("0009:00:00.0", "pci0009:00", b.GRACE, BRIDGE, acs=b.TRANSLATING)
    other = Fn("0000:00:00.0", "pci0000:00", b.GRACE, BRIDGE, acs=b.TRANSLATING)
    card = b.gpu("0009:01:00.0", port.address, b.GH200, 0, "1")
    board = Board((port, card, other, b.MLX_IB.at("0000:01:00.0", other.address, 0, "2")))
    start = like(on_arm(inbox(), "Supermicro", "ARS-111GL-NHR"), daemons=daemons(PERSISTENCED))
    return with_board(
        start, Hardware(board, GH200, hcas(board), "DMA-FQ", "smmu3.0x0000000011000000")
    )


def lost_gh200() -> Evidence:
    error = (
        "Unable to determine the device handle for GPU0009:01:00.0: GPU is lost.  "
        "Reboot the system to recover this GPU\n"
    )
    return _fallen(_gh200(), "0009:01:00.0", error)


def flapping_port() -> Evidence:
    """One cable of eight: the link has gone and come fourteen times within an hour."""
    start = hgx_h200_roce()
    lines = "".join(
        f"[{40000 + 240 * at}.{at:06d}] mlx5_core 0000:2a:00.0 ens42s0: Link down\n"
        f"[{40009 + 240 * at}.{at:06d}] mlx5_core 0000:2a:00.0 ens42s0: Link up\n"
        for at in range(14)
    )
    counters = "".join(
        f"mlx5_{at}/ports/1/{name}:{14 if (at, name) == (1, 'counters/link_downed') else 0}\n"
        for at in range(8)
        for name in COUNTERS
    )
    dmesg, ports = start.text("dmesg") + lines, start.text("infiniband") + counters
    return like(start, dmesg=dmesg, infiniband=ports)
