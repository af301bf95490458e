"""Stand-ins of our own for what nvidia-peermem rests on, as DKMS packages of the real names."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.builds.sandbox import Sandbox
from tests.builds.sources import Source, place_peermem

SOURCE = Path(__file__).parent / "source"
_MAKE = '"make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build"'
# As the vendor's own: what it says there reaches its Makefile, not Kbuild.
_VENDORS_MAKE = (
    '"env NV_VERBOSE=1 make ${parallel_jobs+-j$parallel_jobs} modules KERNEL_UNAME=${kernelver}"'
)


class Shape(StrEnum):
    """Of the structure that a provider's symbols are about: the versions of the two differ."""

    PLAIN = ""
    OTHER = "-DOTHER_SHAPE"


@dataclass(frozen=True, slots=True)
class Stub:
    """A DKMS package that lies below /usr/src of a sandbox; DKMS has not been told of it."""

    package: str
    version: str

    @property
    def name(self) -> str:
        """As DKMS's commands take it."""
        return f"{self.package}/{self.version}"


def driver(
    box: Sandbox,
    version: str = "535.261.03",
    *,
    shape: Shape = Shape.PLAIN,
    package: str = "nvidia-current-open",
    licence: str = "Dual MIT/GPL",
    peermem: Source | None = None,
    beside: Source | None = None,
) -> Stub:
    """nvidia.ko: exports nvidia_p2p_*; named as Debian does it for the packages nvidia-current*.

    :param peermem: the vendor's sources: the package then builds nvidia-peermem too, by the
        vendor's own Makefile, conftest and Kbuild, as the whole driver does.
    :param beside: the same, but the package does not build it: it lies there for whoever does.
    """
    stub = Stub(package, version)
    folder = box.path(f"usr/src/{package}-{version}")
    values = {"VERSION": version, "SHAPE": shape, "LICENSE": licence}
    _lay("driver/nvidia-stub.c", folder / "nvidia/nvidia-stub.c", values)
    _lay("driver/p2p.h", folder / "nvidia/p2p.h", {})
    _lay("driver/nvidia.Kbuild", folder / "nvidia/nvidia.Kbuild", values)
    modules = ["nvidia"]
    make = _VENDORS_MAKE
    vendors = peermem or beside
    if vendors:
        place_peermem(vendors, folder)
        modules += ["nvidia-peermem"] * bool(peermem)
        make = make if peermem else f'{make[:-1]} NV_KERNEL_MODULES=nvidia"'
    else:
        _lay("driver/Kbuild", folder / "Kbuild", {})
        make = _MAKE
    lines = ['BUILD_EXCLUSIVE_CONFIG="!CONFIG_PREEMPT_RT"']
    for number, module in enumerate(modules):
        if package.startswith("nvidia-current"):
            renamed = module.replace("nvidia", package, 1)
            lines.append(f'DEST_MODULE_NAME[{number}]="{renamed}"')
    _configure(folder, stub, modules, make, lines)
    return stub


def ofed(
    box: Sandbox,
    version: str = "25.10",
    *,
    shape: Shape = Shape.PLAIN,
    package: str = "mlnx-ofed-kernel",
) -> Stub:
    """ib_core.ko and ib_uverbs.ko: the second exports ib_(un)register_peer_memory_client.

    As OFED's own package, 25.10: ib_core rests on mlx_compat, and none of them has a version; irdma
    is empty, and there where the kernel has one; dkms.conf is a script; configure chooses for the
    kernel that runs unless KVERSION says otherwise; what others build against goes to
    /usr/src/ofa_kernel-dkms, with a link to it below /usr/src/ofa_kernel and an alternative.
    """
    stub = Stub(package, version)
    folder = box.path(f"usr/src/{package}-{version}")
    values = {"PACKAGE": package, "VERSION": version, "SHAPE": shape}
    for path in (SOURCE / "ofed").rglob("*"):
        if path.is_file():
            _lay(str(path.relative_to(SOURCE)), folder / path.relative_to(SOURCE / "ofed"), values)
    if package.startswith("mlnx-"):  # else DKMS leaves the kernel's own, of the same version: none
        box.write(f"/usr/share/dkms/modules_to_force_install/{package}.force", f"{package}\n")
    return stub


def add_drivers(box: Sandbox, ofed: Stub) -> None:
    """The HCAs' drivers and rdma_cm in OFED's package: they do nothing, for there is no HCA."""
    folder = box.path(f"usr/src/{ofed.package}-{ofed.version}")
    for name in ("mlx5_core", "mlx5_ib", "rdma_cm"):
        lines = ["#include <linux/module.h>", 'MODULE_LICENSE("Dual BSD/GPL");']
        if name == "mlx5_core":  # the one module of OFED's that tells its release
            lines.append(f'MODULE_VERSION("{ofed.version}-1.7.1");')
        (folder / f"{name}.c").write_text("\n".join(lines) + "\n")
    with (folder / "Makefile").open("a") as file:
        file.write("obj-m += mlx5_core.o mlx5_ib.o rdma_cm.o\n")
    with (folder / "dkms.conf").open("a") as file:
        file.write(
            "for name in mlx5_core mlx5_ib rdma_cm; do\n"
            '    BUILT_MODULE_NAME+=("$name") BUILT_MODULE_LOCATION+=("")\n'
            '    DEST_MODULE_LOCATION+=("/kernel/drivers/infiniband")\n'
            "done\n"
        )


def exported(kernel: str) -> str:
    """Where OFED's Module.symvers lies, through no link: those lead out of a sandbox."""
    return f"/usr/src/ofa_kernel-dkms/x86_64/{kernel}/Module.symvers"


def gdrdrv(box: Sandbox, version: str = "2.4.4", *, package: str = "gdrdrv") -> Stub:
    """gdrdrv.ko: imports nvidia_p2p_*, from whichever driver is there when it is built."""
    stub = Stub(package, version)
    folder = box.path(f"usr/src/{package}-{version}")
    for name in ("gdrdrv.c", "Kbuild", "find-symvers.sh"):
        _lay(f"gdrdrv/{name}", folder / name, {"VERSION": version})
    build = "${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build"
    make = f'{_MAKE[:-1]} KBUILD_EXTRA_SYMBOLS={build}/driver.symvers"'
    lines = ['PRE_BUILD="find-symvers.sh ${dkms_tree} ${kernelver}"']
    _configure(folder, stub, ["gdrdrv"], make, lines)
    return stub


def install(box: Sandbox, stub: Stub, *kernels: str) -> None:
    """Have DKMS add, build and install it for these kernels."""
    box.run("dkms", "add", stub.name)
    for kernel in kernels:
        done = box.run("dkms", "install", "--force", stub.name, "-k", kernel, check=False)
        log = box.path(f"var/lib/dkms/{stub.name}/build/make.log")
        assert not done.status, done.out + (log.read_text() if log.exists() else "")


def _lay(name: str, target: Path, values: dict[str, str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCE / name, target)
    text = target.read_text()
    target.write_text(re.sub(r"@([A-Z]+)@", lambda found: values.get(found[1], found[0]), text))


def _configure(folder: Path, stub: Stub, modules: list[str], make: str, extra: list[str]) -> None:
    lines = [
        f'PACKAGE_NAME="{stub.package}"',
        f'PACKAGE_VERSION="{stub.version}"',
        'AUTOINSTALL="yes"',
        f"MAKE[0]={make}",
        'CLEAN="true"',
        *extra,
    ]
    for number, module in enumerate(modules):
        lines.append(f'BUILT_MODULE_NAME[{number}]="{module}"')
        lines.append(f'DEST_MODULE_LOCATION[{number}]="/updates/dkms"')
    (folder / "dkms.conf").write_text("\n".join(lines) + "\n")
