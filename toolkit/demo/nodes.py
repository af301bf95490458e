"""What a simulated node is like, the ready-made ones, and the expressions that name fleets."""

from __future__ import annotations

import re
from enum import StrEnum

from ClusterShell.NodeSet import NodeSet, NodeSetException
from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.demo.machine import Machine
from toolkit.demo.pci import ACS_REDIRECT
from toolkit.demo.software import DemoPackage, nvidia_package, ofed_package
from toolkit.errors import UsageError

UBUNTU_KERNEL, UBUNTU_NEWER = "6.8.0-60-generic", "6.8.0-64-generic"
ROCKY_KERNEL = "5.14.0-503.40.1.el9_5.x86_64"
ARCH_KERNEL = "6.12.4-arch1-1"


class DemoFamily(StrEnum):
    """The distributions that simulated nodes run."""

    UBUNTU = "ubuntu"
    ROCKY = "rocky"
    ARCH = "arch"


class Recipe(Struct, frozen=True):
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
            ofed = ofed_package("mlnx-ofa_kernel", "25.10.OFED.25.10.1.7.1.1")
            driver = nvidia_package("nvidia-open", self.proprietary)
        else:
            ofed = ofed_package("mlnx-ofed-kernel", "24.10.OFED.24.10.2.1.8.1")
            driver = nvidia_package("nvidia", self.proprietary)
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
    def offered(self) -> str:
        """The kernel that its repository has beside those that are installed; "" for none."""
        return {
            DemoFamily.UBUNTU: "6.8.0-90-generic",
            DemoFamily.ROCKY: "5.14.0-570.62.1.el9_6.x86_64",
        }.get(self.family, "")

    @property
    def module_folder(self) -> str:
        """Where DKMS installs, below /lib/modules/KERNEL."""
        return "extra" if self.family is DemoFamily.ROCKY else "updates/dkms"

    @property
    def vermagic(self) -> str:
        """What follows the kernel release in the vermagic of every module."""
        return "SMP preempt mod_unload modversions"


_HEALTHY = Recipe("healthy")
_IOMMU = Recipe("iommu", arguments=())
_STUB = Recipe("stub", stub=True, proprietary=True, autoload=False, hooks=False)
_KERNEL = Recipe(
    "kernel", kernels=(UBUNTU_KERNEL, UBUNTU_NEWER), built_for=(UBUNTU_KERNEL,), hooks=False
)
_ROCKY = Recipe(
    "rocky",
    family=DemoFamily.ROCKY,
    kernels=(ROCKY_KERNEL,),
    built_for=(ROCKY_KERNEL,),
    arguments=("intel_iommu=on",),
    autoload=False,
    hooks=False,
    machine=Machine(vendor="Dell Inc.", product="PowerEdge XE9680"),
)
_BY_NAME = (  # not part of "demo"
    Recipe("acs", machine=Machine(acs=ACS_REDIRECT)),
    Recipe("nogpu", machine=Machine(gpus=False, pairs=2, nvswitches=0)),
    Recipe("hang", hangs=("nvidia-smi",), job=True),
    Recipe("noroot", user="ops"),
    # A GPU whose memory fails: no setting mends it.
    Recipe(
        "sick",
        logged=(
            "NVRM: Xid (PCI:0000:18:00): 48, pid='<unknown>', name=<unknown>, DBE",
            "NVRM: Xid (PCI:0000:18:00): 95, pid=4711, name=python3, Uncontained: LTC TAG",
        ),
    ),
    # OFED was installed, and nobody made the initramfs anew: it loads the kernel's own stack.
    Recipe("initramfs", early=("mlx5_core", "ib_core", "ib_uverbs", "mlx5_ib")),
    Recipe(
        "arch",
        family=DemoFamily.ARCH,
        kernels=(ARCH_KERNEL,),
        built_for=(),
        autoload=False,
        memlock=False,
        machine=Machine(pairs=2, nvswitches=0),
    ),
)
_HEALABLE = (_HEALTHY, _IOMMU, _STUB, _KERNEL, _ROCKY)

READY = {f"demo-{each.kind}": each for each in (*_HEALABLE, *_BY_NAME)}
SMALL = tuple(f"demo-{each.kind}" for each in _HEALABLE)  # what "demo" means
EVERY = tuple(READY)  # what "demo-all" means
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

# Larger fleets: smaller machines, six in ten of them healthy.
_CYCLE = (
    *(_HEALTHY, _IOMMU, _HEALTHY, _STUB, _HEALTHY),
    *(_KERNEL, _HEALTHY, _ROCKY, _HEALTHY, _HEALTHY),
)
_NUMBERED = re.compile(r"demo(\d+)")
_WORDS = (("demo-all", EVERY), ("demo", SMALL))


def fleet_names(expression: str) -> tuple[str, ...] | None:
    """The demo nodes that a host expression names, in ClusterShell's order.

    :returns: None where the expression names other hosts, or nothing that can be parsed.
    :raises UsageError: when it names demo nodes and other hosts, or unknown demo nodes.
    """
    text = expression
    for word, names in _WORDS:
        text = re.sub(rf"(?<![\w.@\[-]){word}(?![\w.\[@:-])", ",".join(names), text)
    try:
        found = [str(name) for name in NodeSet(text, resolver=None)]
    except NodeSetException:
        return None
    known = [name for name in found if is_node(name)]
    if not known:
        return None
    others = [name for name in found if name not in set(known)]
    if others:
        raise UsageError(
            f"{expression}: demo nodes cannot be mixed with {others[0]}",
            hint=f"demo nodes: {', '.join(EVERY)}, demo[001-200]",
        )
    if expression.strip() in dict(_WORDS):
        return dict(_WORDS)[expression.strip()]
    return tuple(found)


def catalogue() -> list[tuple[str, str, bool]]:
    """Name, what ails it, and whether it belongs to ``demo`` or only to ``demo-all``."""
    return [(name, ABOUT[name], name in SMALL) for name in READY]


def is_node(name: str) -> bool:
    return name in READY or _NUMBERED.fullmatch(name) is not None


def recipe_of(name: str) -> Recipe:
    """The recipe of a demo node; numbered ones go round in a cycle of kinds."""
    if name in READY:
        return READY[name]
    number = _NUMBERED.fullmatch(name)
    if number is None:
        raise UsageError(f"{name}: no such demo node", hint=f"demo nodes: {', '.join(EVERY)}")
    kind = _CYCLE[(int(number[1]) - 1) % len(_CYCLE)]
    return replace(
        kind, kind=f"small-{kind.kind}", machine=replace(kind.machine, pairs=2, nvswitches=0)
    )
