"""The guests that tests share. Each further one costs a boot and a disk: prefer these."""

from __future__ import annotations

from dev.lab import pcitree
from dev.lab.qemu import Spec
from tests.machine.stack import stack

HGX = pcitree.named("hgx")
# As HGX numbers them: the path of the first GPU, and what lies beside it.
GPU, HCA, OTHER_GPU, OTHER_HCA = "0001:13:00.0", "0001:14:00.0", "0001:83:00.0", "0001:84:00.0"
GPU_PORT, HCA_PORT, BESIDE_PORT = "0001:12:00.0", "0001:12:01.0", "0001:12:02.0"

INTEL = Spec(iommu="intel", pci=HGX)
AMD = Spec(iommu="amd", pci=HGX)  # begins with a boot: QEMU cannot write its IOMMU down
NEWER = Spec(kernel="6.12", iommu="intel", pci=HGX)


def peermem() -> Spec:
    """INTEL with the path's modules in place, none of them loaded; see stack.py."""
    return Spec(iommu="intel", pci=HGX, layers=stack())
