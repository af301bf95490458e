"""What machines of one kind share: their GPUs, a guest, an Arm processor, Kubernetes."""

from __future__ import annotations

from typing import Any

from tests.evidence.board import ETHERNET, Board, Fn
from tests.evidence.frames import Override
from tests.evidence.machines.inbox import DRIVER
from tests.evidence.machines.making import ETHERNET as ROCE
from tests.evidence.machines.making import Gpus, Hardware, Hca, like, with_board
from toolkit.evidence import Evidence, Frame, State

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
NO_FIRMWARE = ".".join("0000")  # what EFA says
KUBERNETES: dict[str, Override] = {
    "containers": "runtime:containerd\nmemlock/containerd:unlimited\nkubelet:yes\n",
    "limits": "",
    "service_limits": "",
}


QOS = (
    "DCBX mode: OS controlled\nPriority trust state: dscp\nPFC configuration:\n"
    "\tpriority    0   1   2   3   4   5   6   7\n"
    "\tenabled     0   0   0   1   0   0   0   0\n"
    "\tbuffer      0   0   0   1   0   0   0   0\n"
)


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
        "devices/system/node/node0/cpulist:0-71\ndevices/system/node/node1/cpulist:72-143\n"
        "package/node0:0 \npackage/node1:1 \n",
    )


def hcas(tree: Board, name: str = "mlx5_{}", **what: Any) -> tuple[Hca, ...]:
    """An RDMA device for each network function of the board."""
    nics = [each for each in tree.functions if each.klass in {0x020700, ETHERNET}]
    return tuple(
        Hca(
            name.format(at, bus=int(nic.address[-7:-5], 16)),
            nic.address,
            f"{'ens' if what.get('layer') == ROCE else 'ibp'}{_place(nic)}",
            address4=f"0a00:{at + 1:04x}" if what.get("layer") == ROCE else "",
            **what,
        )
        for at, nic in enumerate(nics)
    )


def _place(nic: Fn) -> str:
    """The end of an interface's name: domain, bus and slot, as udev puts them."""
    domain, bus, slot = (int(each, 16) for each in nic.address[:-2].split(":"))
    return f"{f'P{domain}p' if domain else ''}{bus}s{slot}"


def on_xeon(
    start: Evidence, board: Board, gpus: Gpus, devices: tuple[Hca, ...], **other: Override | Frame
) -> Evidence:
    """On an x86 server of two sockets, with the IOMMU in passthrough."""
    return with_board(start, Hardware(board, gpus, devices, "identity", other=other))


def lossless(devices: tuple[Hca, ...]) -> dict[str, Override | Frame]:
    """PFC on one priority, trust by DSCP, both ends of DCQCN on: each port was asked."""
    ecn = "".join(f"{e.net}/ecn/roce_{end}/enable/3:1\n" for e in devices for end in ("np", "rp"))
    keys = ["mlnx-qos", *(f"mlnx-qos-{at}" for at in range(2, len(devices) + 1))]
    asked = {
        key.replace("-", "_"): Frame(key, State.OK, f"mlnx_qos -i {each.net}", QOS)
        for key, each in zip(keys, devices, strict=True)
    }
    return {"roce_ecn": ecn, **asked}
