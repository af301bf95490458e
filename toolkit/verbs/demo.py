"""The simulated nodes themselves: which there are, and making them ill again."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.demo import fleet
from toolkit.demo.nodes import READY, SMALL
from toolkit.verbs.access import demo_folder

ABOUT = {
    "demo-healthy": "an 8-GPU HGX node on which all is well",
    "demo-iommu": "the IOMMU translates, locked memory is limited",
    "demo-stub": "nvidia-peermem is an empty stub since an OFED update",
    "demo-kernel": "a kernel update came without modules built for it",
    "demo-rocky": "RHEL family: the IOMMU translates, nothing loads nvidia-peermem",
    "demo-acs": "ACS redirect is on at the switches",
    "demo-nogpu": "no GPU at all",
    "demo-hang": "nvidia-smi never answers",
    "demo-noroot": "sudo refuses",
    "demo-sick": "the memory of a GPU fails",
    "demo-initramfs": "the initramfs loads the kernel's own RDMA stack before OFED's",
    "demo-arch": "a distribution without a rule",
}


def catalogue() -> list[tuple[str, str, bool]]:
    """Name, what ails it, and whether it belongs to ``demo`` or only to ``demo-all``."""
    return [(name, ABOUT.get(name, ""), name in SMALL) for name in READY]


def put_right(names: Iterable[str]) -> list[str]:
    """Those of the nodes on which a run has changed something since they were made."""
    nodes = demo_folder() / "nodes"
    return [name for name in names if (nodes / name / "tree/var/lib/gdr-toolkit/journal").exists()]


def reset() -> None:
    """Forget the trees: the next run makes them as they were at first."""
    fleet.reset(demo_folder())
