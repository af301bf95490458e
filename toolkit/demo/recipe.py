"""What a simulated node is like, in a few words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.demo.machine import Machine
from toolkit.demo.software import DemoPackage, nvidia_package, ofed_package

UBUNTU_KERNEL, UBUNTU_NEWER = "6.8.0-60-generic", "6.8.0-64-generic"
ROCKY_KERNEL = "5.14.0-503.40.1.el9_5.x86_64"
ARCH_KERNEL = "6.12.4-arch1-1"


class DemoFamily(StrEnum):
    """The distributions that simulated nodes run."""

    UBUNTU = "ubuntu"
    ROCKY = "rocky"
    ARCH = "arch"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A kind of node. The defaults make a healthy one."""

    kind: str  # "iommu"; names the template that nodes are cloned from
    family: DemoFamily = DemoFamily.UBUNTU
    machine: Machine = field(default_factory=Machine)
    kernels: tuple[str, ...] = (UBUNTU_KERNEL,)  # installed ones; the last is booted
    built_for: tuple[str, ...] = (UBUNTU_KERNEL,)  # those that DKMS has built modules for
    arguments: tuple[str, ...] = ("iommu=pt",)  # on the kernel command line
    stub: bool = False  # nvidia-peermem was built without OFED in sight
    proprietary: bool = False  # the driver, which exports no dma-buf then
    autoload: bool = True  # nvidia-peermem is in modules-load.d
    early: tuple[str, ...] = ()  # modules of the kernel's own that its initramfs holds
    hooks: bool = True  # provision was here before: what rebuilds nvidia-peermem is there
    memlock: bool = True  # locked memory is unlimited, for logins and services
    user: str = "root"  # who logs in
    job: bool = False  # somebody's job is at work, with a GPU and an HCA open
    hangs: tuple[str, ...] = ()  # commands that never answer
    logged: tuple[str, ...] = ()  # what the kernel says once its modules are loaded

    @property
    def kernel(self) -> str:
        """The kernel that is booted by default."""
        return self.kernels[-1]

    @property
    def packages(self) -> tuple[DemoPackage, ...]:
        """What DKMS knows of, in the order in which ``dkms status`` lists it."""
        if self.family is DemoFamily.ARCH:
            return ()
        if self.family is DemoFamily.ROCKY:
            ofed, driver = (
                ofed_package("mlnx-ofa_kernel", "25.10.OFED.25.10.1.7.1.1"),
                nvidia_package("nvidia-open", self.proprietary),
            )
        else:
            ofed, driver = (
                ofed_package("mlnx-ofed-kernel", "24.10.OFED.24.10.2.1.8.1"),
                nvidia_package("nvidia", self.proprietary),
            )
        return (ofed, driver) if self.machine.gpus else (ofed,)

    @property
    def ofed_info(self) -> str:
        """What ``ofed_info -s`` prints; "" where there is no OFED."""
        return {
            DemoFamily.UBUNTU: "MLNX_OFED_LINUX-24.10-2.1.8.0:",
            DemoFamily.ROCKY: "OFED-internal-25.10-1.7.1:",
            DemoFamily.ARCH: "",
        }[self.family]

    @property
    def module_folder(self) -> str:
        """Where DKMS installs, below /lib/modules/KERNEL."""
        return "extra" if self.family is DemoFamily.ROCKY else "updates/dkms"

    @property
    def vermagic(self) -> str:
        """What follows the kernel release in the vermagic of every module."""
        return "SMP preempt mod_unload modversions"
