"""The simulated nodes themselves: which there are, and making them ill again."""

from __future__ import annotations

from pathlib import Path

from toolkit.demo import fleet
from toolkit.demo.nodes import READY, SMALL
from toolkit.flow.access import state_dir

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
    "demo-initramfs": "the initramfs loads the kernel's own RDMA stack before OFED's",
    "demo-arch": "a distribution without a rule",
}


def demo_folder() -> Path:
    """Where the trees of the nodes lie."""
    return state_dir() / "demo"


def catalogue() -> list[tuple[str, str, bool]]:
    """Name, what ails it, and whether it belongs to ``demo`` or only to ``demo-all``."""
    return [(name, ABOUT.get(name, ""), name in SMALL) for name in READY]


def reset() -> None:
    """Forget the trees: the next run makes them as they were at first."""
    fleet.reset(demo_folder())
