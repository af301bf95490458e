"""A tree that answers as a node on which things depend: an HCA below a bond, a disk below LVM."""

from __future__ import annotations

import os
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
    (root / path).write_text(text, errors="surrogateescape")


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


def first(root: Path) -> str:
    """PATH with the node's own commands before ours: its id says root, whoever runs the tests."""
    return f"{root}/bin:{os.environ['PATH']}"


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


# What a kernel and its tools do with modules, in a tree: who is used stays.
_RMMOD = """#!/bin/sh
cd "$GDR_ROOT" || exit
echo "rmmod $1" >>calls
if grep -qsx "$1" stays; then until [ -e go ]; do sleep 0.05; done; fi
if grep -qsx "$1" refuses; then echo "rmmod: ERROR: Module $1 is in use" >&2; exit 1; fi
if [ -e away ]; then : >gone; fi
grep -v "^$1 " proc/modules >modules.new
mv modules.new proc/modules
"""
_MODPROBE = """#!/bin/sh
cd "$GDR_ROOT" || exit
echo "modprobe $1" >>calls
if grep -qsx "$1" fails; then echo "modprobe: ERROR: could not insert '$1'" >&2; exit 1; fi
echo "$1 9 0 - Live 0x0" >>proc/modules
"""
_IP = """#!/bin/sh
echo "$*" >>"$GDR_ROOT/ip-calls"
case $* in
    'addr replace '*) [ -s "$GDR_ROOT/away" ] || rm -f "$GDR_ROOT/gone" ;;
    '-o addr show to '*)
        [ -e "$GDR_ROOT/gone" ] || echo '2: ens1np0    inet 198.51.100.7/24 scope global ens1np0' ;;
    '-o addr show dev ens1np0 scope global')
        printf '2: ens1np0    inet 198.51.100.7/24 brd 198.51.100.255 scope global ens1np0%s' '\\\\'
        echo '       valid_lft forever preferred_lft forever' ;;
    '-4 route show dev ens1np0')
        echo 'default via 198.51.100.1 proto static '
        echo '198.51.100.0/24 proto kernel scope link src 198.51.100.7 ' ;;
    '-o route get '*) echo "$4 dev ens1np0 src 198.51.100.7" ;;
esac
"""
_SYSTEMCTL = '#!/bin/sh\necho "systemctl $*" >>"$GDR_ROOT/calls"\n'
_LOADED = """nvidia_peermem 9 0 - Live 0x0
nvidia_uvm 9 0 - Live 0x0
nvidia 9 2 nvidia_peermem,nvidia_uvm, Live 0x0
nvme 9 1 - Live 0x0
"""


def reloadable(root: Path) -> Path:
    """The same with the driver's modules, and commands that load and unload."""
    put(root, "proc/modules", _LOADED)
    names = ("nvidia_peermem", "nvidia_uvm", "nvidia", "nvme")
    put(root, f"lib/modules/{KERNEL}/modules.dep", "".join(f"{each}.ko:\n" for each in names))
    for name in names:
        put(root, f"lib/modules/{KERNEL}/{name}.ko", "")
    commands = {"rmmod": _RMMOD, "modprobe": _MODPROBE, "ip": _IP, "systemctl": _SYSTEMCTL}
    for name, text in commands.items():
        put(root, f"bin/{name}", text)
        (root / "bin" / name).chmod(0o755)
    return root
