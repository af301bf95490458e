"""A tree that answers as a node on which things depend: an HCA below a bond, a disk below LVM."""

from __future__ import annotations

from pathlib import Path

KERNEL = "6.8.0-45-generic"
HCA = "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0"
DISK = "sys/devices/pci0000:05/0000:06:00.0"
# Two ways out; the answers to our session leave by another interface than it came in.
IP = """#!/bin/sh
case $* in
    '-o addr show to 198.51.100.7')
        echo '2: ens1np0    inet 198.51.100.7/24 scope global ens1np0' ;;
    '-o route get 192.0.2.1') echo '192.0.2.1 via 198.51.100.1 dev bond0 src 198.51.100.7' ;;
    '-o route get 10.0.0.5') echo '10.0.0.5 dev ens1np0 src 198.51.100.7 uid 0' ;;
    '-4 -o route show default')
        printf 'default  proto static %s\tnexthop via 198.51.100.1 dev ens1np0 weight 1 ' '\\'
        printf '%s\tnexthop via 203.0.113.1 dev eno1 weight 1 \n' '\\' ;;
esac
"""
FILES = {
    "bin/ip": IP,
    "bin/id": "#!/bin/sh\necho 0\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n",
    "proc/sys/kernel/random/boot_id": "b\n",
    "proc/sys/kernel/osrelease": f"{KERNEL}\n",
    "proc/modules": "mlx5_core 9 0 - Live 0x0\nnvidia 9 0 - Live 0x0\nnvme 9 1 - Live 0x0\n",
    "proc/swaps": "Filename\tType\tSize\n",
    "proc/self/mountinfo": (
        "22 1 253:0 / / rw,relatime shared:1 - xfs /dev/mapper/rl-root rw,seclabel\n"
        "23 22 0:22 / /proc rw - proc proc rw\n"
        "99 22 0:52 / /home rw shared:9 master:1 - nfs4 files:/home rw,proto=tcp,addr=10.0.0.5\n"
        "100 22 253:0 /var /srv/again rw - xfs /dev/mapper/rl-root rw\n"
    ),
    f"lib/modules/{KERNEL}/modules.dep": (
        "kernel/mlx5_core.ko.zst: kernel/x.ko\nupdates/nvidia.ko:\nkernel/ext4.ko:\n"
        "kernel/nvme.ko:\n"
    ),
    f"lib/modules/{KERNEL}/kernel/mlx5_core.ko.zst": "",
    f"lib/modules/{KERNEL}/kernel/nvme.ko": "",
    f"{HCA}/net/ens1np0/type": "1\n",
    "sys/devices/virtual/net/bond0/type": "1\n",
    "sys/devices/virtual/net/lo/type": "772\n",
    f"{DISK}/nvme/nvme0/nvme0n1/size": "1\n",
    "sys/module/mlx5_core/initstate": "live\n",
    "sys/module/nvme/initstate": "live\n",
}
LINKS = {
    "sys/bus/pci/drivers/mlx5_core/module": "sys/module/mlx5_core",
    "sys/bus/pci/drivers/nvme/module": "sys/module/nvme",
    f"{HCA}/driver": "sys/bus/pci/drivers/mlx5_core",
    f"{DISK}/driver": "sys/bus/pci/drivers/nvme",
    f"{HCA}/net/ens1np0/device": HCA,
    "sys/class/net/ens1np0": f"{HCA}/net/ens1np0",
    "sys/class/net/bond0": "sys/devices/virtual/net/bond0",
    "sys/class/net/lo": "sys/devices/virtual/net/lo",
    "sys/devices/virtual/net/bond0/lower_ens1np0": f"{HCA}/net/ens1np0",
    "sys/devices/virtual/block/dm-0/slaves/nvme0n1": f"{DISK}/nvme/nvme0/nvme0n1",
    "sys/dev/block/253:0": "sys/devices/virtual/block/dm-0",
}


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def make(root: Path) -> Path:
    """The node, with nobody at work on it."""
    for path, text in FILES.items():
        put(root, path, text)
    for command in ("ip", "id"):
        (root / "bin" / command).chmod(0o755)
    for path, target in LINKS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(root / target)
    return root


def process(root: Path, pid: int, name: str, *targets: str, uid: int = 1000) -> None:
    """One process of the node, with files open.

    :param name: as the kernel escapes it.
    """
    ids = f"{uid}\t{uid}\t{uid}\t{uid}"
    put(root, f"proc/{pid}/status", f"Name:\t{name}\nPPid:\t1\nUid:\t{ids}\n")
    put(root, f"proc/{pid}/cgroup", f"0::/system.slice/slurmstepd.scope/job_{pid}/step_0\n")
    for number, target in enumerate(targets):
        link = root / f"proc/{pid}/fd/{number}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
