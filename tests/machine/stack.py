"""The path's modules on a guest, built by DKMS for its kernel: a layer over the system.

mlnx-ofed-kernel (ib_core, ib_uverbs) and nvidia are stubs of ours, nvidia-peermem is the vendor's,
from the sources of Debian's package. DKMS runs in the tree that has compilers, as it would in an
image: under emulation the same takes minutes. What it left (its tree, the sources, the modules,
dkms itself) is the guest's, so that what reads DKMS there reads the truth.

There too: /opt/stub/nvidia-peermem.ko, the same sources compiled where no OFED was, and
/opt/stub/nvidia.ko for it; such a module loads nothing and has no dependency on ib_uverbs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from dev.lab.trees import releases, system
from tests.builds import stubs
from tests.builds.layers import layer
from tests.builds.sandbox import Sandbox
from tests.builds.sources import source

DRIVER = "nvidia"
STUB = "/opt/stub/nvidia-peermem.ko"
_KEPT = (
    *("etc/dkms", "usr/lib/dkms", "var/lib/dkms", "usr/src/ofa_kernel", "usr/src/ofa_kernel-dkms"),
    *("etc/alternatives/ofa_kernel_headers", "var/lib/dpkg/alternatives/ofa_kernel_headers"),
)


def stack(kernel: str = "6.1") -> tuple[Path, ...]:
    """For Spec.layers.

    :raises NotToBeHad: where Debian's packages cannot be fetched.
    """
    vendors = source("nvidia-open")
    release = releases()[kernel]

    def make(box: Sandbox) -> None:
        with Sandbox.of("bookworm") as builder:
            main = stubs.driver(builder, vendors.version, package=DRIVER, peermem=vendors)
            builder.run("dkms", "add", main.name)
            builder.run("dkms", "build", main.name, "-k", release)
            made = builder.path(f"var/lib/dkms/{main.name}/{release}/x86_64/module")
            box.write(STUB, next(made.glob("nvidia-peermem.ko*")).read_bytes())
        with Sandbox.of("bookworm") as builder:
            ofed = stubs.ofed(builder)
            stubs.install(builder, ofed, release)
            main = stubs.driver(builder, vendors.version, package=DRIVER, peermem=vendors)
            stubs.install(builder, main, release)
            sources = (f"usr/src/{each.package}-{each.version}" for each in (ofed, main))
            modules = f"lib/modules/{release}/updates"
            for name in (*_KEPT, *sources, modules, "usr/sbin/dkms"):
                _copy(builder, box, name)
        box.run("depmod", release)

    found = layer(f"lab-stack-{kernel}", system(kernel), make)
    return found[:1]


def _copy(builder: Sandbox, box: Sandbox, name: str) -> None:
    target = box.path(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ("cp", "-a", "-T", str(builder.path(name)), str(target))
    subprocess.run(words, check=True, capture_output=True)
