"""Frames of the healthy node, for the facts of ``node_fabric``."""

from __future__ import annotations

from tests.evidence.board import GPUS
from tests.evidence.frames import ABSENT, Override, failed

DRIVER = "580.126.16"  # as in build.py
LINK_LOCAL = "fe80:0000:0000:0000:a288:c2ff:fe00:0001"


def devinfo(*devices: tuple[str, str], mtu: int = 4096, layer: str = "InfiniBand") -> str:
    """``ibv_devinfo`` of devices with one port each: (name, "PORT_ACTIVE")."""
    code = {1024: 3, 2048: 4, 4096: 5}[mtu]
    return "".join(
        f"hca_id: {name}\n"
        "        transport:                      InfiniBand (0)\n"
        "        fw_ver:                         28.43.2026\n"
        "        vendor_part_id:                 4129\n"
        "        board_id:                       MT_0000000838\n"
        "        phys_port_cnt:                  1\n"
        "                port:   1\n"
        f"                        state:                  {state} (4)\n"
        "                        max_mtu:                4096 (5)\n"
        f"                        active_mtu:             {mtu} ({code})\n"
        f"                        link_layer:             {layer}\n\n"
        for name, state in devices
    )


UP = "PORT_ACTIVE"
DEVINFO = devinfo(("mlx5_0", UP), ("mlx5_1", UP), ("mlx5_2", UP))


def smi_q(
    *,
    name: str = "NVIDIA H100 80GB HBM3",
    mig: tuple[str, str] = ("Disabled", "Disabled"),
    virtualization: str = "None",
    fabric: tuple[str, str] = ("Completed", "Success"),
    cluster: str = "00000000-0000-0000-0000-000000000000",
    health: tuple[tuple[str, str], ...] = (),
    protected: int | None = None,
) -> str:
    """``nvidia-smi -q`` of the board's GPUs, cut down as the probe cuts it."""
    lines = [f"Driver Version                  : {DRIVER}", "Attached GPUs                   : 2"]
    for address in GPUS:
        lines += [
            f"GPU 0000{address.upper()}",
            f"    Product Name                : {name}",
            "    Product Brand               : NVIDIA",
            "    Persistence Mode            : Enabled",
            "    MIG Mode",
            f"        Current                 : {mig[0]}",
            f"        Pending                 : {mig[1]}",
            "    GPU Virtualization Mode",
            f"        Virtualization Mode     : {virtualization}",
            "        Host VGPU Mode          : N/A",
            "    GPU Recovery Action         : None",
            "    PCI",
            "        Device Id               : 0x233010DE",
            "    Clocks Event Reasons",
            "        Idle                    : Active",
            "        HW Slowdown             : Not Active",
            "            HW Thermal Slowdown : Not Active",
            "        SW Thermal Slowdown     : Not Active",
            *(
                ("    Conf Compute Protected Memory Usage", f"        Total : {protected} MiB")
                if protected is not None
                else ()
            ),
            "    FB Memory Usage",
            "        Total                   : 81559 MiB",
            "    BAR1 Memory Usage",
            "        Total                   : 131072 MiB",
            "    ECC Errors",
            "        Volatile",
            "            DRAM Uncorrectable  : 0",
            "        Aggregate",
            "            DRAM Uncorrectable  : 0",
            "    Retired Pages",
            "        Pending Page Blacklist  : N/A",
            "    Remapped Rows",
            "        Pending                 : No",
            "        Remapping Failure Occurred : No",
            "    Temperature",
            "    Fabric",
            f"        State                   : {fabric[0]}",
            f"        Status                  : {fabric[1]}",
            "        CliqueId                : 0",
            f"        ClusterUUID             : {cluster}",
        ]
        lines += ["        Health"] if health else []
        lines += [f"            {key:20s}: {value}" for key, value in health]
        lines.append("    Processes                   : None")
    return "".join(f"{line}\n" for line in lines)


def daemons(*running: tuple[int, str, str]) -> str:
    """Daemons: (pid, name, soft limit)."""
    return "".join(
        f"{pid}/comm:{name}\n{pid}/limits:Max locked memory         {limit:20} unlimited  bytes\n"
        for pid, name, limit in running
    )


SLURMD, PERSISTENCED = (2201, "slurmd", "unlimited"), (1702, "nvidia-persiste", "8388608")
MANAGER = (1811, "nv-fabricmanage", "8388608")

FRAMES: dict[str, Override] = {
    "rdma-gids": (
        f"mlx5_0/ports/1/gids/0:{LINK_LOCAL}\nmlx5_0/ports/1/gid_attrs/types/0:IB/RoCE v1\n"
    ),
    "net-devices": "".join(
        f"{name}/mtu:{mtu}\n{name}/operstate:up\n"
        for name, mtu in (("eno1", 1500), ("ib0", 2044), ("ib1", 2044), ("ib2", 2044))
    ),
    "roce-ecn": "",
    "daemons": daemons(PERSISTENCED, SLURMD),
    "imex-channels": "",
    "container-marks": "",
    "selinux": ABSENT,
    "selinux-denials": ABSENT,
    "virt": failed(1, "none\n"),
    "fabricmanager-version": ABSENT,
    "ibv-devinfo": DEVINFO,
    "mlnx-qos": ABSENT,
}
# It comes last of all: the dearest of the commands that may hang.
SMI_Q = smi_q()
