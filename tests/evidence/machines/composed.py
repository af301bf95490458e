"""Machines that no expert has handed us: what the probe prints on them, from what vendors say.

Sources stand in ``machines.toml``, with the verdicts. What a source leaves open is as on the
machine that the evidence was made from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.evidence.board import ETHERNET, Board, Fn
from tests.evidence.frames import Override, failed
from tests.evidence.healthy_fabric import daemons
from tests.evidence.machines import boards as b
from tests.evidence.machines.inbox import DRIVER, KERNEL, driven_by, inbox
from tests.evidence.machines.making import (
    ABSENT,
    ETHERNET as ROCE,
    Gpus,
    Hardware,
    Hca,
    like,
    with_board,
)
from toolkit.evidence import Evidence

NEW_DRIVER = (DRIVER, "580.95.05")
H100, H200 = Gpus(), Gpus("NVIDIA H200", 143771, 262144, 0x2335)
B200 = Gpus("NVIDIA B200", 183359, 262144, 0x2901)
TRAY = "7b2c1de4-3c1a-4f0e-9d55-2f1b6a7790ce"  # the NVLink domain of a rack
GB200 = Gpus("NVIDIA GB200", 189471, 262144, 0x2941, cluster=TRAY)
GB300 = Gpus("NVIDIA GB300", 284208, 524288, 0x31C2, cluster=TRAY)
GH200 = Gpus("NVIDIA GH200 480GB", 97871, 131072, 0x2342, fabric=("N/A", "N/A"))
L40S = Gpus("NVIDIA L40S", 46068, 65536, 0x26B9, fabric=("N/A", "N/A"))
PERSISTENCED, MANAGER = (1702, "nvidia-persiste", "8388608"), (1811, "nv-fabricmanage", "8388608")
SUBNET_MANAGER, IMEX = (1815, "nvlsm", "8388608"), (1820, "nvidia-imex", "8388608")
KUBERNETES: dict[str, Override] = {
    "containers": "runtime:containerd\nmemlock/containerd:unlimited\nkubelet:yes\n",
    "limits": "",
    "service-limits": "",
}


def dmi(vendor: str, product: str) -> str:
    return f"sys_vendor:{vendor}\nproduct_name:{product}\n"


def guest(start: Evidence, vendor: str, product: str, virt: str) -> Evidence:
    """The same in a virtual machine, without an IOMMU of its own."""
    return like(
        start,
        ("flags\t\t: fpu", "flags\t\t: fpu hypervisor"),
        dmi=dmi(vendor, product),
        virt=f"{virt}\n",
        acpi_tables="",
        acpi_bytes="",
    )


def on_arm(start: Evidence, vendor: str, product: str) -> Evidence:
    """The same on Grace: its SMMU translates, and needs no argument to be right."""
    return like(
        start,
        ("x86_64", "aarch64"),
        (" iommu=pt", ""),
        ("DMAR: IOMMU enabled", "arm-smmu-v3 arm-smmu-v3.0.auto: ias 48-bit, oas 48-bit"),
        ("Passthrough (set via kernel command line)", "Translated"),
        arch="aarch64\n",
        cpu="processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n",
        dmi=dmi(vendor, product),
        acpi_tables="/sys/firmware/acpi/tables/IORT\n",
        acpi_bytes="",
        setup="devices/system/cpu/online:0-143\n"
        "devices/system/cpu/cpu0/cpufreq/scaling_driver:cppc_cpufreq\n"
        "devices/system/cpu/cpu0/cpufreq/scaling_governor:performance\n"
        "devices/system/node/node0/cpulist:0-71\ndevices/system/node/node1/cpulist:72-143\n",
    )


def hcas(tree: Board, name: str = "mlx5_{}", **what: str) -> tuple[Hca, ...]:
    """An RDMA device for each network function of the board."""
    nics = [each for each in tree.functions if each.klass in {0x020700, ETHERNET}]
    return tuple(
        Hca(
            name.format(at, bus=int(nic.address[-7:-5], 16)),
            nic.address,
            f"{'ens' if what.get('layer') == ROCE else 'ibp'}{int(nic.address[-7:-5], 16)}s0",
            address4=f"0a00:{at + 1:04x}" if what.get("layer") == ROCE else "",
            **what,
        )
        for at, nic in enumerate(nics)
    )


def _hgx(
    start: Evidence, board: Board, gpus: Gpus, devices: tuple[Hca, ...], **other: Override
) -> Evidence:
    """On an x86 server of two sockets, with the IOMMU in passthrough."""
    frames = {key.replace("_", "-"): value for key, value in other.items()}
    return with_board(start, Hardware(board, gpus, devices, "identity", other=frames))


def dgx_h100_ib() -> Evidence:
    board = b.hgx(b.H100, 128, b.MLX_IB, switches=4)
    return _hgx(inbox(), board, H100, hcas(board), dmi=dmi("NVIDIA", "DGXH100"))


def hgx_h200_roce() -> Evidence:
    board = b.hgx(b.H200, 256, b.MLX_ROCE, switches=4)
    devices = hcas(board, layer=ROCE)
    told = dmi("Dell Inc.", "PowerEdge XE9680")
    return _hgx(inbox(), board, H200, devices, dmi=told, **_lossless(devices))


def _lossless(devices: tuple[Hca, ...]) -> dict[str, Override]:
    """PFC on one priority, trust by DSCP, both ends of DCQCN on."""
    ecn = "".join(f"{e.net}/ecn/roce_{end}/enable/3:1\n" for e in devices for end in ("np", "rp"))
    return {
        "roce_ecn": ecn,
        "mlnx_qos": "DCBX mode: OS controlled\nPriority trust state: dscp\nPFC configuration:\n"
        "\tpriority    0   1   2   3   4   5   6   7\n"
        "\tenabled     0   0   0   1   0   0   0   0\n"
        "\tbuffer      0   0   0   1   0   0   0   0\n",
    }


def hgx_h200_thor2() -> Evidence:
    board = b.hgx(b.H200, 256, b.Nic(b.THOR2, "bnxt_en"), switches=4)
    devices = hcas(board, "bnxt_re{}", layer=ROCE, kind="bnxt_re", board="", firmware="231.0.153.0")
    told = dmi("Dell Inc.", "PowerEdge XE9680")
    return _hgx(driven_by("bnxt_en", "bnxt_re"), board, H200, devices, dmi=told)


def hgx_b200_pollara() -> Evidence:
    board = b.hgx(b.B200, 256, b.Nic(b.POLLARA, "ionic"), switches=0)
    devices = hcas(board, "ionic_{}", layer=ROCE, kind="ionic", board="", firmware="1.117.5-a-45")
    start = like(driven_by("ionic", "ionic_rdma"), NEW_DRIVER, (KERNEL, "6.18.0-8-generic"))
    told = dmi("Supermicro", "SYS-A21GE-NBRT")
    running = daemons(PERSISTENCED, MANAGER, SUBNET_MANAGER)
    return _hgx(start, board, B200, devices, dmi=told, daemons=running)


def _l40s(nic: b.Nic) -> Board:
    """Four PCIe switches, each with two L40S and a NIC."""
    found: list[Fn] = []
    for at, bus in enumerate((0x10, 0x30, 0x90, 0xB0)):
        numa, root, up = at // 2, f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        found.append(Fn(root, f"pci0000:{bus:02x}", b.XEON, b.BRIDGE, numa=numa, acs=0x01))
        found.append(Fn(up, root, b.BROADCOM, b.BRIDGE, numa=numa, upstream=True))
        for slot in range(3):
            port, here = f"0000:{bus + 2:02x}:{slot:02x}.0", f"0000:{bus + 3 + slot:02x}:00.0"
            found.append(Fn(port, up, b.BROADCOM, b.BRIDGE, numa=numa, acs=0x01))
            group, width = str(3 * at + slot + 1), ("16.0 GT/s PCIe", 16)
            card = (
                replace(b.gpu(here, port, b.L40S, 64, numa, group), now=width, best=width)
                if slot < 2
                else nic.at(here, port, numa, group)
            )
            found.append(card)
    return Board(tuple(found))


def l40s_irdma() -> Evidence:
    board = _l40s(b.Nic(b.E810, "ice"))
    rate = "100 Gb/sec (4X EDR)"
    devices = hcas(board, "rocep{bus}s0", layer=ROCE, kind="irdma", board="", rate=rate)
    start = like(driven_by("ice", "irdma"), daemons=daemons(PERSISTENCED))
    return _hgx(start, board, L40S, devices, dmi=dmi("Supermicro", "SYS-521GE-TNRT"))


def _aws(board: Board, gpus: Gpus, product: str, rate: str, **other: Override) -> Evidence:
    what = {"kind": "", "board": "", "firmware": "0.0.0.0", "node": "7: unspecified"}
    devices = tuple(
        replace(each, net="") for each in hcas(board, "rdmap{bus}s0", rate=rate, layer="Unknown", **what)
    )
    start = guest(driven_by("efa", "efa"), "Amazon EC2", product, "amazon")
    return with_board(like(start, **other), Hardware(board, gpus, devices))


def p5() -> Evidence:
    board = b.aws(b.H100, 128, b.EFA_P5, 4, switches=4)
    return _aws(board, H100, "p5.48xlarge", "100 Gb/sec (4X EDR)")


def p5en() -> Evidence:
    board = b.aws(b.H200, 256, b.EFA_P5EN, 2, switches=4)
    return _aws(board, H200, "p5en.48xlarge", "200 Gb/sec (4X HDR)")


def p6_b200() -> Evidence:
    board = b.aws(b.B200, 256, b.EFA_P5EN, 1, switches=0)
    running = daemons(PERSISTENCED, MANAGER, SUBNET_MANAGER)
    return _aws(board, B200, "p6-b200.48xlarge", "400 Gb/sec (4X NDR)", daemons=running)


def gb200_nvl72() -> Evidence:
    board = b.gb200()
    start = like(on_arm(inbox(), "NVIDIA", "GB200 NVL"), NEW_DRIVER)
    channels = "/dev/nvidia-caps-imex-channels/channel0\n"
    other: dict[str, Override] = {"imex-channels": channels, "daemons": daemons(PERSISTENCED, IMEX)}
    made = Hardware(board, GB200, hcas(board), "DMA-FQ", "smmu3.0x0000000011000000", other)
    return with_board(start, made)


def gb200_dra() -> Evidence:
    """The daemon of a domain runs in a pod while a job does; none does now, and no channel is there."""
    running = daemons(PERSISTENCED)
    frames = {key.replace("-", "_"): value for key, value in KUBERNETES.items()}
    return like(gb200_nvl72(), imex_channels="", daemons=running, **frames)


def gb300_nvl72() -> Evidence:
    board = b.gb300()
    devices = hcas(board, kind="MT4131", firmware="40.46.3048", rate="800 Gb/sec (4X XDR)")
    start = like(on_arm(inbox(), "NVIDIA", "GB300 NVL"), NEW_DRIVER, (KERNEL, "6.14.0-1013-nvidia-64k"))
    channels = "/dev/nvidia-caps-imex-channels/channel0\n"
    other: dict[str, Override] = {"imex-channels": channels, "daemons": daemons(PERSISTENCED, IMEX)}
    made = Hardware(board, GB300, devices, "DMA-FQ", "smmu3.0x0000000011000000", other)
    return with_board(start, made)


AZURE_NCCL = "NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml\nNCCL_IB_PCI_RELAXED_ORDERING=1\n"


def nd_h100_v5() -> Evidence:
    board = b.azure(b.H100, 128, 8, b.VF_IB, switches=4)
    start = guest(inbox(), "Microsoft Corporation", "Virtual Machine", "microsoft")
    return with_board(like(start, nccl_conf=AZURE_NCCL), Hardware(board, H100, hcas(board, kind="MT4126")))


def nd_gb300_v6() -> Evidence:
    board = b.azure(b.GB300, 512, 4, b.VF_IB, switches=0)
    arm = like(on_arm(inbox(), "Microsoft Corporation", "Virtual Machine"), NEW_DRIVER)
    start = like(arm, virt="microsoft\n", acpi_tables="", imex_channels="/dev/nvidia-caps-imex-channels/channel0\n")
    devices = hcas(board, kind="MT4126", firmware="40.46.3048", rate="800 Gb/sec (4X XDR)")
    running = daemons(PERSISTENCED, IMEX)
    return with_board(like(start, daemons=running), Hardware(board, GB300, devices))


def _gcp(board: Board, gpus: Gpus, start: Evidence) -> Evidence:
    devices = hcas(board, "rocep{bus}s0", layer=ROCE, kind="MT4126")
    made = guest(start, "Google", "Google Compute Engine", "google")
    return with_board(like(made, daemons=daemons(PERSISTENCED)), Hardware(board, gpus, devices))


def a3_ultra() -> Evidence:
    return _gcp(b.gcp(b.H200, 256), H200, inbox())


def a4() -> Evidence:
    return _gcp(b.gcp(b.B200, 256), B200, like(inbox(), NEW_DRIVER))


def a3_mega() -> Evidence:
    """gVNIC alone: no device for RDMA, and no module of it."""
    board = b.gcp(b.H100, 128)
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
    board = b.hgx(b.H100, 128, b.MLX_ROCE, switches=4)
    devices = tuple(replace(each, address4="") for each in hcas(board, layer=ROCE))
    frames = {key.replace("-", "_"): value for key, value in KUBERNETES.items()}
    told = dmi("Supermicro", "SYS-821GE-TNHR")
    return _hgx(inbox(), board, H100, devices, dmi=told, **frames, **_lossless(devices))


def _guest_board(flat: bool) -> Board:
    """Two GPUs with an HCA each, below switches of QEMU's, or all on the root bus."""
    found: list[Fn] = []
    for at in range(2):
        bus = 0x10 + 0x10 * at
        root, up = f"0000:00:{at + 2:02x}.0", f"0000:{bus:02x}:00.0"
        ports = [f"0000:{bus + 1:02x}:{slot:02x}.0" for slot in range(2)]
        found += [] if flat else [
            Fn(root, "pci0000:00", (0x1B36, 0x000C), b.BRIDGE),
            Fn(up, root, (0x104C, 0x8232), b.BRIDGE, upstream=True),
            *(Fn(port, up, (0x104C, 0x8233), b.BRIDGE) for port in ports),
        ]  # fmt: skip
        above = ["pci0000:00", "pci0000:00"] if flat else ports
        where = [f"0000:00:{at + 5:02x}.0", f"0000:00:{at + 8:02x}.0"]
        here = where if flat else [f"0000:{bus + 2:02x}:00.0", f"0000:{bus + 3:02x}:00.0"]
        found += [b.gpu(here[0], above[0], b.H100, 128), b.MLX_IB.at(here[1], above[1])]
    return Board(tuple(found))


def _kvm(flat: bool) -> Evidence:
    board = _guest_board(flat)
    start = guest(inbox(), "QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm")
    alone = replace(H100, name="NVIDIA H100 PCIe", fabric=("N/A", "N/A"))
    made = with_board(like(start, daemons=daemons(PERSISTENCED)), Hardware(board, alone, hcas(board)))
    return made


def guest_tree() -> Evidence:
    return _kvm(flat=False)


def guest_flat() -> Evidence:
    return _kvm(flat=True)


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


def lost_l40s() -> Evidence:
    """After a reboot: the slot is empty, and those beside it are filled."""
    board = _l40s(b.MLX_IB).without("0000:93:00.0")
    empty = board.but("0000:92:00.0", now=("2.5 GT/s PCIe", 0))
    start = like(inbox(), daemons=daemons(PERSISTENCED))
    return _hgx(start, empty, L40S, hcas(empty), dmi=dmi("Supermicro", "SYS-521GE-TNRT"))


def _gh200() -> Evidence:
    port = Fn("0009:00:00.0", "pci0009:00", b.GRACE, b.BRIDGE, acs=b.TRANSLATING)
    other = Fn("0000:00:00.0", "pci0000:00", b.GRACE, b.BRIDGE, acs=b.TRANSLATING)
    card = b.gpu("0009:01:00.0", port.address, b.GH200, 128, 0, "1")
    board = Board((port, card, other, b.MLX_IB.at("0000:01:00.0", other.address, 0, "2")))
    start = like(on_arm(inbox(), "Supermicro", "ARS-111GL-NHR"), daemons=daemons(PERSISTENCED))
    return with_board(start, Hardware(board, GH200, hcas(board), "DMA-FQ", "smmu3.0x0000000011000000"))


def lost_gh200() -> Evidence:
    error = "Unable to determine the device handle for GPU0009:01:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    return _fallen(_gh200(), "0009:01:00.0", error)


def flapping_port() -> Evidence:
    """One cable of eight: the link has gone and come fourteen times within an hour."""
    start = hgx_h200_roce()
    lines = "".join(
        f"[{40000 + 240 * at}.{at:06d}] mlx5_core 0000:2a:00.0 ens42s0: Link down\n"
        f"[{40009 + 240 * at}.{at:06d}] mlx5_core 0000:2a:00.0 ens42s0: Link up\n"
        for at in range(14)
    )
    return like(start, dmesg=start.text("dmesg") + lines)


def connectx10() -> Evidence:
    board = b.hgx(b.B200, 256, b.Nic((0x15B3, 0x1027), "mlx5_core", 0x020700), switches=0)
    devices = hcas(board, kind="MT4135", board="MT_0000001310", firmware="42.47.1026", rate="800 Gb/sec (4X XDR)")
    start = like(inbox(), NEW_DRIVER, (KERNEL, "6.17.0-14-generic"))
    running = daemons(PERSISTENCED, MANAGER, SUBNET_MANAGER)
    told = dmi("Supermicro", "SYS-A21GE-NBRT")
    return _hgx(start, board, B200, devices, dmi=told, daemons=running)


def mi300x() -> Evidence:
    """Instinct in place of NVIDIA's GPUs, and nothing of NVIDIA's driver."""
    board = b.hgx(b.H100, 128, b.MLX_ROCE, switches=0)
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
        modules="".join(f"{each}\n" for each in (*modules, "amdgpu 19611648 0 - Live 0x0000000000000000")),
        module_state="".join(f"{each}\n" for each in states),
        daemons="",
        nvidia_version=ABSENT,
        nvidia_params=ABSENT,
    )
    made = _hgx(bare, Board(swapped), H100, devices, dmi=dmi("Supermicro", "AS-8125GS-TNMR2"))
    return like(made, nvidia_smi=ABSENT, nvidia_topology=ABSENT, nvidia_smi_q=ABSENT)


def mig_fleet() -> Evidence:
    """Every GPU of the node is cut up, as its site wants it."""
    start = dgx_h100_ib()
    whole = "Current                           : Disabled\n        Pending                           : Disabled"
    return like(start, (whole, whole.replace("Disabled", "Enabled")))


def spark() -> Evidence:
    """GB10: one memory for both processors, and a ConnectX-7 with two functions on two ports."""
    gpu_port = Fn("000f:00:00.0", "pci000f:00", (0x10DE, 0x22D1), b.BRIDGE)
    gb10 = b.gpu("000f:01:00.0", gpu_port.address, (0x10DE, 0x2E12), 16, 0, "1")
    found = [gpu_port, replace(gb10, bars=())]
    for at, domain in enumerate(("0000", "0002")):
        port = Fn(f"{domain}:00:00.0", f"pci{domain}:00", (0x10DE, 0x22CE), b.BRIDGE)
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
    start = like(on_arm(inbox(), "NVIDIA", "NVIDIA_DGX_Spark"), NEW_DRIVER, daemons=daemons(PERSISTENCED))
    told = Gpus("NVIDIA GB10", 0, 0, 0x2E12, fabric=("N/A", "N/A"))
    made = with_board(start, Hardware(board, told, devices, "DMA", "smmu3.0x0000000011000000"))
    return like(made, ("0 MiB", "[N/A]"))


COMPOSED: dict[str, Callable[[], Evidence]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        dgx_h100_ib,
        hgx_h200_roce,
        hgx_h200_thor2,
        hgx_b200_pollara,
        l40s_irdma,
        p5,
        p5en,
        p6_b200,
        gb200_nvl72,
        gb300_nvl72,
        nd_h100_v5,
        nd_gb300_v6,
        a3_mega,
        a3_ultra,
        a4,
        h100_device_plugin,
        gb200_dra,
        guest_tree,
        guest_flat,
        lost_hgx_h100,
        lost_l40s,
        lost_gh200,
        flapping_port,
        connectx10,
        mi300x,
        mig_fleet,
        spark,
    )
}
