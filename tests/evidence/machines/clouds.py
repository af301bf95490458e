"""Instances of clouds, guests, and nodes of Kubernetes."""

from __future__ import annotations

from msgspec.structs import replace

from tests.evidence.board import BRIDGE, ETHERNET, Board, Fn
from tests.evidence.frames import Override
from tests.evidence.healthy_consumers import nccl
from tests.evidence.healthy_fabric import daemons
from tests.evidence.machines import boards as b
from tests.evidence.machines.inbox import driven_by, inbox
from tests.evidence.machines.kinds import (
    B200,
    GB300,
    H100,
    H200,
    IMEX,
    KUBERNETES,
    MANAGER,
    NEW_DRIVER,
    NO_FIRMWARE,
    PERSISTENCED,
    SUBNET_MANAGER,
    dmi,
    guest,
    hcas,
    lossless,
    on_arm,
    on_xeon,
)
from tests.evidence.machines.making import ETHERNET as ROCE
from tests.evidence.machines.making import Gpus, Hardware, like, with_board
from tests.evidence.machines.servers import dgx_h100_ib, gb200_nvl72
from toolkit.evidence import Evidence


def _aws(board: Board, gpus: Gpus, product: str, rate: str, **other: Override) -> Evidence:
    what = {"kind": "", "board": "", "firmware": NO_FIRMWARE, "node": "7: unspecified"}
    devices = tuple(
        replace(each, net="")
        for each in hcas(board, "rdmap{bus}s0", rate=rate, layer="Unknown", **what)
    )
    start = guest(driven_by("efa", "efa"), "Amazon EC2", product, "amazon")
    return with_board(like(start, **other), Hardware(board, gpus, devices))


def p5() -> Evidence:
    board = b.aws(b.H100, b.EFA_P5, 4, switches=4)
    return _aws(board, H100, "p5.48xlarge", "100 Gb/sec (4X EDR)")


def p5en() -> Evidence:
    board = b.aws(b.H200, b.EFA_P5EN, 2, switches=4)
    return _aws(board, H200, "p5en.48xlarge", "200 Gb/sec (4X HDR)")


def p6_b200() -> Evidence:
    board = b.aws(b.B200, b.EFA_P5EN, 1, switches=0)
    running = daemons(PERSISTENCED, MANAGER, SUBNET_MANAGER)
    return _aws(board, B200, "p6-b200.48xlarge", "400 Gb/sec (4X NDR)", daemons=running)


AZURE_NCCL = "NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml\nNCCL_IB_PCI_RELAXED_ORDERING=1\n"


def nd_h100_v5() -> Evidence:
    board = b.azure(b.H100, 8, b.VF_IB, switches=4)
    start = guest(inbox(), "Microsoft Corporation", "Virtual Machine", "microsoft")
    return with_board(
        like(start, nccl_conf=AZURE_NCCL), Hardware(board, H100, hcas(board, kind="MT4126"))
    )


def nd_gb300_v6() -> Evidence:
    board = b.azure(b.GB300, 4, b.VF_IB, switches=0)
    arm = like(on_arm(inbox(), "Microsoft Corporation", "Virtual Machine"), NEW_DRIVER)
    start = like(
        arm,
        virt="microsoft\n",
        acpi_tables="",
        imex_channels="/dev/nvidia-caps-imex-channels/channel0\n",
    )
    devices = hcas(board, kind="MT4126", firmware="40.46.3048", rate="800 Gb/sec (4X XDR)")
    running = daemons(PERSISTENCED, IMEX)
    return with_board(like(start, daemons=running), Hardware(board, GB300, devices))


def _gcp(board: Board, gpus: Gpus, start: Evidence) -> Evidence:
    devices = hcas(board, "rocep{bus}s0", layer=ROCE, kind="MT4126")
    made = guest(start, "Google", "Google Compute Engine", "google")
    return with_board(like(made, daemons=daemons(PERSISTENCED)), Hardware(board, gpus, devices))


def a3_ultra() -> Evidence:
    return _gcp(b.gcp(b.H200), H200, inbox())


def a4() -> Evidence:
    return _gcp(b.gcp(b.B200), B200, like(inbox(), NEW_DRIVER))


def a3_mega() -> Evidence:
    """gVNIC alone: no device for RDMA, and no module of it."""
    board = b.gcp(b.H100)
    gvnic = b.Nic((0x1AE0, 0x0042), "gve")
    swapped = tuple(
        gvnic.at(each.address, each.parent, each.numa) if each.klass == ETHERNET else each
        for each in board.functions
    )
    rdma = ("ib_", "iw_", "mlx5", "rdma_")
    start = guest(inbox(), "Google", "Google Compute Engine", "google")
    modules = [e for e in start.text("modules").split("\n")[:-1] if not e.startswith(rdma)]
    states = [e for e in start.text("module-state").split("\n")[:-1] if not e.startswith(rdma)]
    bare = like(
        start,
        daemons=daemons(PERSISTENCED),
        modules="".join(f"{each}\n" for each in modules),
        module_state="".join(f"{each}\n" for each in states),
        kallsyms="ffffffffc0a3e5b0 T nvidia_p2p_get_pages\t[nvidia]\n",
    )
    return like(with_board(bare, Hardware(Board(swapped), H100, ())), rdma_nodes="")


def h100_device_plugin() -> Evidence:
    board = b.hgx(b.H100, b.MLX_ROCE, switches=4)
    devices = tuple(replace(each, address4="") for each in hcas(board, layer=ROCE))
    told = dmi("Supermicro", "SYS-821GE-TNHR")
    return on_xeon(inbox(), board, H100, devices, dmi=told, **KUBERNETES, **lossless(devices))


def gb200_dra() -> Evidence:
    """The daemon of a domain runs in a pod while a job does: none now, and no channel."""
    running = daemons(PERSISTENCED)
    return like(gb200_nvl72(), imex_channels="", daemons=running, **KUBERNETES)


def _guest_board(flat: bool) -> Board:
    """Two GPUs with an HCA each, below switches of QEMU's, or all on the root bus."""
    found: list[Fn] = []
    for at in range(2):
        bus = 0x10 + 0x10 * at
        root, up = f"0000:00:{at + 2:02x}.0", f"0000:{bus:02x}:00.0"
        ports = [f"0000:{bus + 1:02x}:{slot:02x}.0" for slot in range(2)]
        found += [] if flat else [
            Fn(root, "pci0000:00", (0x1B36, 0x000C), BRIDGE),
            Fn(up, root, (0x104C, 0x8232), BRIDGE, upstream=True),
            *(Fn(port, up, (0x104C, 0x8233), BRIDGE) for port in ports),
        ]  # fmt: skip
        above = ["pci0000:00", "pci0000:00"] if flat else ports
        where = [f"0000:00:{at + 5:02x}.0", f"0000:00:{at + 8:02x}.0"]
        here = where if flat else [f"0000:{bus + 2:02x}:00.0", f"0000:{bus + 3:02x}:00.0"]
        found += [b.gpu(here[0], above[0], b.H100), b.MLX_IB.at(here[1], above[1])]
    return Board(tuple(found))


def _kvm(flat: bool) -> Evidence:
    board = _guest_board(flat)
    start = guest(inbox(), "QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm")
    alone = replace(H100, name="NVIDIA H100 PCIe", fabric=("N/A", "N/A"))
    # NCCL lies there, and the report says which way it takes.
    with_nccl = like(start, daemons=daemons(PERSISTENCED), libraries=nccl("2.27.3"))
    return with_board(with_nccl, Hardware(board, alone, hcas(board)))


def guest_tree() -> Evidence:
    return _kvm(flat=False)


def guest_flat() -> Evidence:
    return _kvm(flat=True)


def mig_fleet() -> Evidence:
    """Every GPU of the node is cut up, as its site wants it."""
    start = dgx_h100_ib()
    whole = start.text("nvidia-smi-q")
    return like(start, nvidia_smi_q=whole.replace("Disabled", "Enabled"))
