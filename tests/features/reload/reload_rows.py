"""Nodes on which something depends on the modules, and what has to be told of it."""

from __future__ import annotations

from tests.unit.holdings import FILES, UVERBS, modules, user
from toolkit.features.reload.plan_obstacles import ObstacleKind as Kind

# Name, what is to be reloaded, the frames that differ, the obstacles.
ROWS: list[tuple[str, str, dict[str, str], list[tuple[Kind, str]]]] = [
    ("nothing", "rdma", {}, []),
    ("ssh", "rdma", {"ways": "session 192.0.2.1 ens1np0\n"}, [(Kind.SSH, "ens1np0")]),
    ("ssh-elsewhere", "driver", {"ways": "session 192.0.2.1 ens1np0\n"}, []),
    (
        "ssh-by-its-answers",
        "rdma",
        {"ways": "session 192.0.2.1 eno1\nsession 192.0.2.1 ens1np0\n"},
        [(Kind.SSH, "ens1np0")],
    ),
    (
        "ssh-over-a-vlan-of-a-bond",
        "rdma",
        {
            "ways": "session 192.0.2.1 bond0.7\n",
            "nets": "ens1np0 1 mlx5_core -\neno1 1 i40e -\nbond0 1 - ens1np0,eno1\n"
            "bond0.7 1 - bond0\n",
        },
        [(Kind.SSH, "bond0.7")],
    ),
    (
        "ssh-over-ip-over-infiniband",
        "ib_ipoib",
        {
            "ways": "session 192.0.2.1 ib0\n",
            "nets": "ib0 32 mlx5_core -\n",
            "modules": modules(ib_ipoib=(0, "-")),
            "module_files": FILES + "/lib/modules/6.8.0/ib_ipoib.ko\n",
        },
        [(Kind.SSH, "ib0")],
    ),
    ("session-unknown", "rdma", {"ways": "route default eno1\n"}, [(Kind.UNKNOWN, "")]),
    ("session-unknown-is-nothing-to-peermem", "peermem", {"ways": ""}, []),
    ("session-by-nobody-knows", "rdma", {"ways": "session 192.0.2.1 ?\n"}, [(Kind.UNKNOWN, "")]),
    ("session-through-a-tunnel", "rdma", {"ways": "session 10.8.0.1 wg0\n"}, [(Kind.UNKNOWN, "")]),
    (
        "session-through-a-ring",
        "rdma",
        {
            "ways": "session 192.0.2.1 br0\n",
            "nets": "ens1np0 1 mlx5_core -\nbr0 1 - bond0\nbond0 1 - br0\n",
        },
        [(Kind.UNKNOWN, "")],
    ),
    ("session-at-home", "rdma", {"ways": "session 127.0.0.1 lo\n"}, []),
    (
        "route",
        "rdma",
        {"ways": "session 192.0.2.1 eno1\nroute default ens1np0\n"},
        [(Kind.ROUTE, "ens1np0")],
    ),
    (
        "nfs-by-rdma",
        "rdma",
        {
            "mounts": "nfs4 0:52 /home s:/h rw,proto=rdma,addr=10.0.0.5\n",
            "ways": "session 192.0.2.1 eno1\nserver 10.0.0.5 eno1\n",
            "modules": modules(
                rpcrdma=(0, "-"),
                rdma_cm=(2, "rdma_ucm,rpcrdma,"),
                ib_core=(5, "rpcrdma,rdma_ucm,rdma_cm,mlx5_ib,ib_uverbs,"),
            ),
            "module_files": FILES + "/lib/modules/6.8.0/rpcrdma.ko\n",
        },
        [(Kind.MOUNT, "/home")],
    ),
    (
        "nfs-over-the-hca",
        "rdma",
        {
            "mounts": "nfs4 0:52 /home s:/h rw,proto=tcp,addr=10.0.0.5\n",
            "ways": "session 192.0.2.1 eno1\nserver 10.0.0.5 ens1np0\n",
        },
        [(Kind.MOUNT, "/home")],
    ),
    (
        "nfs-elsewhere",
        "rdma",
        {
            "mounts": "nfs4 0:52 /home s:/h rw,proto=tcp,addr=10.0.0.5\n",
            "ways": "session 192.0.2.1 eno1\nserver 10.0.0.5 eno1\n",
        },
        [],
    ),
    (
        "a-server-that-came-in-itself",
        "rdma",
        {
            "mounts": "nfs4 0:52 /home s:/h rw,proto=tcp,addr=10.0.0.5\n",
            "ways": "session 10.0.0.5 ens1np0\nserver 10.0.0.5 eno1\nserver 10.0.0.6 ens1np0\n",
        },
        [(Kind.SSH, "ens1np0")],
    ),
    (
        "the-first-of-two-modules-is-named",
        "rdma",
        {
            "nets": "eno1 1 i40e -\nib0 32 mlx5_core -\n",
            "ways": "session 192.0.2.1 ib0\nroute default ib0\nserver 10.0.0.5 ib0\n",
            "mounts": "nfs4 0:52 /home s:/h rw,addr=10.0.0.5\nxfs 8:1 /data /dev/sdb1 rw\n",
            "disks": "8:1 /dev/sdb1 mlx5_core,ib_srp\n",
            "remote_disks": "nvme1/transport:tcp\nnvme1/address:traddr=10.0.0.5,trsvcid=4420\n"
            "nvme2/transport:tcp\nnvme2/address:traddr=10.0.0.7,trsvcid=4420\n",
            "modules": modules(
                ib_ipoib=(0, "-"),
                ib_srp=(0, "-"),
                ib_core=(6, "ib_ipoib,ib_srp,rdma_ucm,rdma_cm,mlx5_ib,ib_uverbs,"),
            ),
            "module_files": FILES
            + "".join(f"/lib/modules/6.8.0/{name}.ko\n" for name in ("ib_ipoib", "ib_srp")),
        },
        [
            (Kind.SSH, "ib0"),
            (Kind.ROUTE, "ib0"),
            (Kind.MOUNT, "/home"),
            (Kind.MOUNT, "/data"),
            (Kind.MOUNT, "nvme1"),
        ],
    ),
    (
        "lustre-over-the-hca",
        "rdma",
        {
            "mounts": "lustre 0:61 /work 10.0.0.9@tcp:/fs rw\n",
            "ways": "session 192.0.2.1 eno1\nserver 10.0.0.9 ens1np0\n",
        },
        [(Kind.MOUNT, "/work")],
    ),
    (
        "a-file-system-that-tells-nothing",
        "rdma",
        {"mounts": "beegfs 0:60 /scratch beegfs_nodev rw\n"},
        [(Kind.MOUNT, "/scratch")],
    ),
    (
        "a-disk-of-a-server-not-mounted",
        "rdma",
        {
            "remote_disks": "nvme1/transport:rdma\n",
            "modules": modules(
                nvme_rdma=(0, "-"),
                rdma_cm=(2, "rdma_ucm,nvme_rdma,"),
                ib_core=(5, "nvme_rdma,rdma_ucm,rdma_cm,mlx5_ib,ib_uverbs,"),
            ),
            "module_files": FILES + "/lib/modules/6.8.0/nvme_rdma.ko\n",
        },
        [(Kind.MOUNT, "nvme1")],
    ),
    ("the-root-disk", "nvme", {"modules": modules(nvme=(0, "-")), "module_files": FILES
      + "/lib/modules/6.8.0/nvme.ko\n"}, [(Kind.MOUNT, "/")]),
    (
        "a-disk-of-no-bus",
        "rdma",
        {"mounts": "xfs 43:0 /data /dev/nbd0 rw\n", "disks": "43:0 /dev/nbd0 -\n"},
        [(Kind.UNKNOWN, "")],
    ),
    ("job", "peermem", {"users": user(7, "python3", UVERBS)}, [(Kind.JOB, "python3")]),
    ("job-of-the-gpu-alone", "peermem", {"users": user(7, "python3", "/dev/nvidia0")}, []),
    (
        "daemon",
        "driver",
        {
            "users": user(7, "nvidia-persiste", "/dev/nvidia0", uid=0),
            "modules": modules(nvidia=(3, "nvidia_peermem,nvidia_uvm,")),
        },
        [(Kind.DAEMON, "nvidia-persiste"), (Kind.KERNEL, "nvidia")],
    ),
    (
        "in-use-by-nobody-we-see",
        "driver",
        {"modules": modules(nvidia_uvm=(2, "-"))},
        [(Kind.KERNEL, "nvidia_uvm")],
    ),
    (
        "permanent",
        "i40e",
        {"modules": modules(i40e=(1, "[permanent],")), "ways": "session 127.0.0.1 lo\n"},
        [(Kind.KERNEL, "i40e")],
    ),
    (
        "half-loaded",
        "gdrdrv",
        {
            "modules": modules() + "gdrdrv 1 0 - Unloading 0x0\n",
            "module_files": FILES + "/lib/modules/6.8.0/gdrdrv.ko\n",
        },
        [(Kind.KERNEL, "gdrdrv")],
    ),
    (
        "file-gone",
        "peermem",
        {"module_files": FILES.replace("peermem.ko.zst", "peermem.ko.zst gone")},
        [(Kind.KERNEL, "nvidia_peermem")],
    ),
    ("no-file-known", "peermem", {"module_files": ""}, [(Kind.KERNEL, "nvidia_peermem")]),
    (
        "a-holder-that-we-do-not-know",
        "driver",
        {
            "modules": modules(weka=(0, "-"), nvidia=(3, "nvidia_peermem,nvidia_uvm,weka,")),
            "module_files": FILES + "/lib/modules/6.8.0/weka.ko\n",
        },
        [(Kind.HOLDER, "weka")],
    ),
    ("guests", "rdma", {"guests": "0000:19:00.2\n"}, [(Kind.GUEST, "0000:19:00.2")]),
    ("guests-are-nothing-to-peermem", "peermem", {"guests": "0000:19:00.2\n"}, []),
    ("a-way-nobody-knows-is-nothing-to-peermem", "peermem",
     {"ways": "session 192.0.2.1 ?\nroute default wg0\n"}, []),
    ("a-mount-nobody-knows-is-nothing-to-peermem", "peermem",
     {"mounts": "beegfs 0:60 /scratch x rw\nxfs 43:0 /data /dev/nbd0 rw\n",
      "disks": "43:0 /dev/nbd0 -\n"}, []),
    ("route-through-a-tunnel", "rdma",
     {"ways": "session 192.0.2.1 eno1\nroute default wg0\n"}, [(Kind.UNKNOWN, "")]),
    ("the-session-before-the-route", "rdma",
     {"ways": "route default ens1np0\nsession 192.0.2.1 ens1np0\n"},
     [(Kind.SSH, "ens1np0"), (Kind.ROUTE, "ens1np0")]),
    ("windows-files-by-rdma", "rdma",
     {"mounts": "cifs 0:52 /win //s/h rw,rdma\nsmb3 0:53 /w3 //s/h rdma,rw\n"},
     [(Kind.MOUNT, "/win"), (Kind.MOUNT, "/w3")]),
    ("windows-files-elsewhere", "rdma",
     {"mounts": "cifs 0:52 /win //s/h rw,nordma,addr=10.0.0.5\n",
      "ways": "session 192.0.2.1 eno1\nserver 10.0.0.5 eno1\n"}, []),
    ("lustre-by-infiniband", "rdma",
     {"mounts": "lustre 0:61 /work 10.0.0.9@o2ib:/fs rw\n",
      "modules": modules(ko2iblnd=(0, "-"),
                         ib_core=(5, "ko2iblnd,rdma_ucm,rdma_cm,mlx5_ib,ib_uverbs,")),
      "module_files": FILES + "/lib/modules/6.8.0/ko2iblnd.ko\n"}, [(Kind.MOUNT, "/work")]),
    ("nfs-whose-own-module-stays", "rdma",
     {"mounts": "nfs4 0:52 /home s:/h rw,proto=rdma,addr=10.0.0.5\n"}, []),
    ("swap-over-the-hca", "rdma",
     {"mounts": "swap 8:1 /dev/sdb1 /dev/sdb1 rw\n", "disks": "8:1 /dev/sdb1 mlx5_core\n"},
     [(Kind.MOUNT, "/dev/sdb1")]),
]  # fmt: skip

# What the operator reads of each, in the order of the rows: sentence, and what to do about it.
_SSH = "our SSH session from 192.0.2.1 comes over {0}, which {1} drives"
_COME = "come by another interface, or reboot it; or --over ssh:{} --reboot"
_REBOOT = "reboot it in place of a reload"
_END, _FILE = "end what uses it, or reboot it", "install it for the running kernel first"
_BESIDE = "the kernel would not unload {} to it beside modules"
TOLD: dict[str, list[tuple[str, str]]] = {
    "ssh": [(_SSH.format("ens1np0", "mlx5_core"), _COME.format("ens1np0"))],
    "ssh-by-its-answers": [(_SSH.format("ens1np0", "mlx5_core"), _COME.format("ens1np0"))],
    "ssh-over-a-vlan-of-a-bond": [(_SSH.format("bond0.7", "mlx5_core"), _COME.format("bond0.7"))],
    "ssh-over-ip-over-infiniband": [(_SSH.format("ib0", "ib_ipoib"), _COME.format("ib0"))],
    "session-unknown": [
        ("the node does not tell by which interface our SSH session comes", _REBOOT)
    ],
    "session-by-nobody-knows": [
        ("nobody can tell what carries ?, where our SSH session comes in", _REBOOT)
    ],
    "session-through-a-tunnel": [
        ("nobody can tell what carries wg0, where our SSH session comes in", _REBOOT)
    ],
    "session-through-a-ring": [
        ("nobody can tell what carries br0, where our SSH session comes in", _REBOOT)
    ],
    "route": [("the default route leads over ens1np0, which mlx5_core drives", "")],
    "nfs-by-rdma": [("/home is mounted (nfs4) over rpcrdma", "umount /home")],
    "nfs-over-the-hca": [("/home is mounted (nfs4) over mlx5_core", "umount /home")],
    "lustre-over-the-hca": [("/work is mounted (lustre) over mlx5_core", "umount /work")],
    "a-server-that-came-in-itself": [
        (
            "our SSH session from 10.0.0.5 comes over ens1np0, which mlx5_core drives",
            _COME.format("ens1np0"),
        )
    ],
    "the-first-of-two-modules-is-named": [
        (_SSH.format("ib0", "ib_ipoib"), _COME.format("ib0")),
        ("the default route leads over ib0, which ib_ipoib drives", ""),
        ("/home is mounted (nfs4) over ib_ipoib", "umount /home"),
        ("/data is mounted (xfs) over ib_srp", "umount /data"),
        ("nvme1 is a disk of a server (nvme_tcp), over ib_ipoib", "disconnect it first"),
    ],
    "a-file-system-that-tells-nothing": [
        ("/scratch (beegfs) is mounted, and nobody can tell over what", "umount /scratch")
    ],
    "a-disk-of-a-server-not-mounted": [
        ("nvme1 is a disk of a server (nvme_rdma), over nvme_rdma", "disconnect it first")
    ],
    "the-root-disk": [("/ is mounted (ext4) over nvme", "umount /")],
    "a-disk-of-no-bus": [("nobody can tell what /dev/nbd0, mounted at /data, is", _REBOOT)],
    "job": [(f"python3, pid 7 of alice has {UVERBS} open", "let it end, or drain the node")],
    "daemon": [
        ("nvidia-persiste, pid 7 of root has /dev/nvidia0 open", "stop its service first"),
        (_BESIDE.format("nvidia: 1 reference"), _END),
    ],
    "in-use-by-nobody-we-see": [(_BESIDE.format("nvidia_uvm: 2 references"), _END)],
    "permanent": [("i40e cannot be unloaded at all", "reboot it")],
    "half-loaded": [("gdrdrv is half loaded or half unloaded", "reboot it")],
    "file-gone": [("nvidia_peermem could not be loaded again: its file is gone", _FILE)],
    "no-file-known": [
        ("nvidia_peermem could not be loaded again: modules.dep has no file of it", _FILE)
    ],
    "a-holder-that-we-do-not-know": [
        ("weka uses nvidia, and is not known to come back as it went", "")
    ],
    "route-through-a-tunnel": [("nobody can tell what carries wg0, the default route", _REBOOT)],
    "the-session-before-the-route": [
        (_SSH.format("ens1np0", "mlx5_core"), _COME.format("ens1np0")),
        ("the default route leads over ens1np0, which mlx5_core drives", ""),
    ],
    "windows-files-by-rdma": [
        ("/win is mounted (cifs) over ib_core", "umount /win"),
        ("/w3 is mounted (smb3) over ib_core", "umount /w3"),
    ],
    "lustre-by-infiniband": [("/work is mounted (lustre) over ko2iblnd", "umount /work")],
    "swap-over-the-hca": [("/dev/sdb1 is swap space over mlx5_core", "swapoff /dev/sdb1")],
    "guests": [
        ("virtual functions are lent to guests: 0000:19:00.2", "shut the guests down first")
    ],
}
