"""Frames of the healthy node, for the facts of ``node_companions``.

Nothing stands beside but a container runtime: every companion has its own rows.
"""

from __future__ import annotations

from tests.evidence.frames import ABSENT, Override

FRAMES: dict[str, Override] = {
    "gdrcopy": "",
    "gds": "sys/module/nvme_core/parameters/multipath:Y\n",
    "cufile": "",
    "companion-modinfo": "@gdrdrv\n@nvidia-fs\n",
    "companion-files": "",
    "containers": (
        "runtime:containerd\n"
        "sys/module/ib_core/parameters/netns_mode:Y\n"
        "memlock/containerd:unlimited\n"
    ),
    "ompi-info": ABSENT,
    "mpiname": ABSENT,
    "dcgm": "2 GPUs found.\n",
}
