"""What tests of packages are made of: real modules as DKMS signed them, and a small system."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.features.builds.plan.packages import Making

MAKING = Making(maintainer="GPU team <gpu@site.example>")
# What the guest's disk, and nothing else, needs: depmod is slow there.
_NEEDED = ("arch", "crypto", "drivers", "drivers/block", "drivers/virtio", "fs", "lib")
_DKMS_TREE = "var/lib/dkms"


@dataclass(frozen=True, slots=True)
class Modules:
    kernel: str
    builts: tuple[Built, ...]  # as DKMS signed them
    unsigned: tuple[Built, ...]  # the same without signatures: other bytes, the same modules


def make_modules() -> Modules:
    """Stubs of OFED and the driver, and beside them the vendor's nvidia-peermem; by real DKMS."""
    builts = []
    with stack("bookworm", peermem=True) as box:
        kernel = box.kernel("6.1.")
        for part, name in ((Part.OFED, "mlnx-ofed-kernel"), (Part.DRIVER, "nvidia-current-open")):
            [tree] = box.path(_DKMS_TREE).glob(f"{name}/*/{kernel}/x86_64/module")
            version = tree.parents[2].name
            files = [BuiltFile(each.name, each.read_bytes()) for each in sorted(tree.glob("*.ko"))]
            inputs = Inputs(part, name, version, kernel, "x86_64", "s", "h", "gcc", "", "", "r")
            builts.append(Built(inputs, tuple(files)))
    return Modules(kernel, tuple(builts), tuple(_unsigned(each) for each in builts))


def _unsigned(built: Built) -> Built:
    mark = b"~Module signature appended~\n"
    files = []
    for each in built.files:
        assert each.data.endswith(mark)
        size = int.from_bytes(each.data[-len(mark) - 4 : -len(mark)], "big")
        files.append(BuiltFile(each.name, each.data[: -len(mark) - 12 - size]))
    return replace(built, files=tuple(files))


def only_what_a_disk_needs(made: Sandbox) -> None:
    """Take away the modules that a disk does without: depmod would read them each time."""
    for kernel in made.path("lib/modules").iterdir():
        for folder in (kernel / "kernel", kernel / "kernel/drivers"):
            for each in folder.iterdir():
                if str(each.relative_to(kernel / "kernel")) not in _NEEDED:
                    shutil.rmtree(each)
        made.run("depmod", "-a", kernel.name)


def put(box: Sandbox, *packages: Path) -> list[str]:
    names = []
    for each in packages:
        shutil.copy(each, box.path("root") / each.name)
        names.append(f"/root/{each.name}")
    return names


def state(box: Sandbox, kernel: str) -> str:
    """Every file but those of dpkg's own book-keeping, and depmod's lists with their hashes."""
    return box.shell(
        "find / -xdev \\( -path /root -o -path /proc -o -path /dev -o -path /var/lib/dpkg "
        "-o -path /var/log -o -path /var/cache \\) -prune -o -print | LC_ALL=C sort; "
        "ls /var/lib/dpkg/info | grep gdr- || :; "
        'sha256sum /lib/modules/"$K"/modules.*',
        K=kernel,
    ).out
