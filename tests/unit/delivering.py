"""Nodes that are given modules as they were built elsewhere, and what is at hand for them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from tests.evidence.build import (
    DRIVER,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    UPDATES,
    kernel_block,
    modinfo,
    node,
    without_module,
)
from tests.evidence.frames import Override, failed
from tests.evidence.healthy_boot import grub
from tests.evidence.healthy_builds import built as modules_of
from tests.evidence.healthy_files import KERNELS_OWN, P2P, PEERS, elf, exported
from tests.evidence.modules import ko
from tests.unit.planning import frames, placed
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.checks.all import ALL
from toolkit.facts.node.node import Node
from toolkit.plan.plan import Plan, make_plan
from toolkit.want import Modules, Want

BUILT = Want(modules=Modules.BUILT)
PLACE = f"/lib/modules/{KERNEL}/updates/gdr-toolkit/nvidia-peermem.ko"
SYMBOLS = {**KERNELS_OWN, **P2P, **PEERS}


def module(
    kernel: str = KERNEL,
    *,
    version: str = DRIVER,
    flags: str = "SMP mod_unload modversions",
    symbols: Mapping[str, int] = SYMBOLS,
    depends: str = "nvidia,ib_uverbs",
    name: str = "nvidia_peermem",
    signature: bytes = b"",
) -> bytes:
    """One module file, by default an nvidia-peermem that fits the healthy node."""
    info = {"version": version, "license": "Dual BSD/GPL", "depends": depends, "name": name}
    info |= {"srcversion": "B" * 23, "vermagic": f"{kernel} {flags} "}
    return ko(info, symbols, signature=signature)


def build(
    data: bytes | None = None,
    *,
    kernel: str = KERNEL,
    arch: str = "x86_64",
    version: str = DRIVER,
    part: Part = Part.PEERMEM,
    name: str = "nvidia-peermem.ko",
) -> Built:
    """A build as the cache gives it."""
    inputs = Inputs(part, name.removesuffix(".ko"), version, kernel, arch, *[""] * 6)
    return Built(inputs, (BuiltFile(name, module(kernel) if data is None else data),))


def without_peermem(*more: Mapping[str, Override]) -> dict[str, Override]:
    """A node with a driver from packages, OFED by DKMS, and no nvidia-peermem."""
    told = "".join(
        f"filename:{rest}"
        for rest in modules_of().split("filename:")[1:]
        if "nvidia-peermem" not in rest
    )
    own: dict[str, Override] = {
        "dkms-confs": "",
        "dkms-status": f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n",
        "kernels": kernel_block(KERNEL, peermem=False),
        "all-modinfo": told,
        "peermem-files": "",
        "peermem-modinfo": "",
        "peermem-resolve": failed(1, "modprobe: FATAL: Module nvidia-peermem not found\n"),
        "peermem-elf": "",
        "module-state": without_module("nvidia_peermem"),
    }
    return frames(own, *more)


def with_delivered(data: bytes | None = None) -> dict[str, Override]:
    """The same node once the module has been delivered."""
    data = module() if data is None else data
    info = modinfo(PLACE, depends="nvidia,ib_uverbs", version=DRIVER, srcversion="B" * 23)
    listed = f"{sha256(data).hexdigest()} 644 0 0 {PLACE}\n"
    state = without_module("nvidia_peermem").replace("holder:nvidia_uvm", "holder:nvidia_uvm")
    state += "nvidia/holder:nvidia_peermem\nib_uverbs/holder:nvidia_peermem\n"
    state += f"nvidia_peermem/version:{DRIVER}\nnvidia_peermem/srcversion:{'B' * 23}\n"
    state += "nvidia_peermem/initstate:live\nnvidia_peermem/refcnt:0\n"
    return without_peermem(
        {
            "kernels": kernel_block(KERNEL, peermem=False) + PLACE + "\n",
            "all-modinfo": str(without_peermem()["all-modinfo"]) + info.partition("\n")[2],
            "peermem-files": PLACE + "\n",
            "peermem-modinfo": info,
            "peermem-resolve": f"insmod {UPDATES}/nvidia.ko\ninsmod {PLACE}\n",
            "peermem-elf": elf(path=PLACE),
            "module-state": state,
        },
        placed({}),
        {"placed": listed, "owned": PLACE + "\n"},
    )


def two_kernels(*, exports: bool = True) -> dict[str, Override]:
    """A node whose next boot takes another kernel, with driver and OFED, without nvidia-peermem."""
    here = with_delivered()
    info = str(without_peermem()["all-modinfo"]).replace(KERNEL, NEXT_KERNEL)
    ofed = f"mlnx-ofed-kernel/{OFED}, {NEXT_KERNEL}, x86_64: installed\n"
    return here | {
        "dkms-status": str(here["dkms-status"]) + ofed,
        "kernels": str(here["kernels"]) + kernel_block(NEXT_KERNEL, peermem=False),
        "boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL)),
        "all-modinfo": str(here["all-modinfo"]) + info,
        "exports": exported() + (exported().replace(KERNEL, NEXT_KERNEL) if exports else ""),
        "kernel-configs": f"@{KERNEL}\nCONFIG_SMP=y\n@{NEXT_KERNEL}\nCONFIG_SMP=y\n",
    }


def plan_with(changed: Mapping[str, Override], *builts: Built, want: Want = BUILT) -> Plan:
    """The plan for that node, with these builds at hand."""
    here = Node(node(changed))
    return make_plan(here, {each.id: each(here, want) for each in ALL}, want, builts=builts)


def blocked(plan: Plan, artefact: str = "modules.peermem") -> str:
    """Why the artefact is blocked, and what to do; "" where it is not."""
    found = (each for each in plan.blocked if each.artefact == artefact)
    return next((f"{each.reason}; {each.hint}" for each in found), "")


def paths(plan: Plan) -> list[str]:
    """Where the plan would place modules."""
    return [each.path for each in plan.changes if each.artefact.startswith("modules.")]
