"""What holding.sh says of a node with one HCA and one management NIC, frame by frame."""

from __future__ import annotations

from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.modules.module_users import Holding, parse_holding

UVERBS = "/dev/infiniband/uverbs0"
BOOT = "11111111-2222-3333-4444-555555555555"
# name, references, users
LOADED: dict[str, tuple[int, str]] = {
    "nvidia_peermem": (0, "-"),
    "nvidia_uvm": (0, "-"),
    "nvidia": (2, "nvidia_peermem,nvidia_uvm,"),
    "rdma_ucm": (0, "-"),
    "rdma_cm": (1, "rdma_ucm,"),
    "mlx5_ib": (0, "-"),
    "ib_uverbs": (3, "nvidia_peermem,rdma_ucm,mlx5_ib,"),
    "ib_core": (4, "rdma_ucm,rdma_cm,mlx5_ib,ib_uverbs,"),
    "mlx5_core": (1, "mlx5_ib,"),
    "i40e": (0, "-"),
}


def modules(**changes: tuple[int, str]) -> str:
    loaded = LOADED | changes
    return "".join(
        f"{name} 65536 {refs} {users} Live 0x0000000000000000\n"
        for name, (refs, users) in loaded.items()
    )


def user(pid: int, name: str, *devices: str, uid: int = 1000, group: str = "0::/user") -> str:
    """One process as holding.sh tells of it."""
    held = "".join(f"Device:\t{device}\n" for device in devices)
    status = f"Name:\t{name}\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
    return f"@{pid}\n{status}Cgroup:\t{group}\n{held}"


FILES = "".join(f"/lib/modules/6.8.0/updates/dkms/{name}.ko.zst\n" for name in LOADED)
TEXTS = {
    "uid": "0\n",
    "boot-id": f"{BOOT}\n",
    "modules": modules(),
    "users": "",
    "accounts": "root:0\nalice:1000\n",
    "guests": "",
    "nets": "eno1 1 i40e,builtin -\nens1np0 1 mlx5_core,builtin -\n",
    "remote-disks": "host0/proc_name:ahci\n",
    "mounts": "ext4 259:2 / /dev/nvme0n1p2 rw\n",
    "disks": "259:2 /dev/nvme0n1p2 nvme,builtin\n",
    "ways": "session 192.0.2.1 eno1\nroute default eno1\n",
    "module-files": FILES,
}


def evidence(texts: dict[str, str] | None = None) -> Evidence:
    """:param texts: frames that differ; their keys have underscores or dashes."""
    told = TEXTS | {key.replace("_", "-"): text for key, text in (texts or {}).items()}
    return Evidence(
        {key: Frame(key, State.OK, key, text) for key, text in told.items()}, complete=True
    )


def holding(**texts: str) -> Holding:
    return parse_holding(evidence(texts))
