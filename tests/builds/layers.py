"""What many tests begin with, made once: layers over a tree, kept between runs as trees are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tests.builds import sources, stubs
from tests.builds.grounds import kept, tree
from tests.builds.sandbox import Sandbox

_HERE = Path(__file__).parent
_VARIANTS = ("-rt-amd64", "-cloud-amd64")


def layer(name: str, below: tuple[Path, ...], make: Callable[[Sandbox], None]) -> tuple[Path, ...]:
    """``below`` with a layer on top that ``make`` filled; its name is to tell one from another.

    Made anew whenever the stubs, their sources or what lies below have changed.
    """
    digest = sha256()
    own = ("stubs.py", "sources.py", "layers.py")
    files = (*sorted(_HERE.glob("source/**/*")), *(_HERE / name for name in own))
    for path in files:
        digest.update(path.read_bytes() if path.is_file() else path.name.encode())
    for path in below:
        digest.update(path.name.encode() if path.name != "up" else bytes(path))

    def fill(folder: Path) -> None:
        with Sandbox(below) as box:
            make(box)
            # cp keeps what overlayfs notes of removed files: devices 0/0 and attributes.
            words = ("cp", "-a", f"{box.upper}/.", str(folder))
            subprocess.run(words, check=True, capture_output=True)

    return (kept(f"layer-{name}-{digest.hexdigest()[:12]}", fill), *below)


def stack(name: str, *, peermem: bool = False) -> Sandbox:
    """A sandbox where the stubs of OFED and of the driver are installed by DKMS.

    Packages: mlnx-ofed-kernel/25.10 and nvidia-current-open/535.261.03, the second with the
    vendor's nvidia-peermem sources; kernels: the plain ones (6.1 and 6.12 in bookworm).

    :param name: "bookworm" or "trixie".
    :param peermem: whether the driver's package builds nvidia-peermem, as the real one does.
    """
    open_535 = sources.source("nvidia-open")

    def make(box: Sandbox) -> None:
        kernels = [each for each in box.kernels if not each.endswith(_VARIANTS)]
        stubs.install(box, stubs.ofed(box), *kernels)
        given = (open_535, None) if peermem else (None, open_535)
        driver = stubs.driver(box, open_535.version, peermem=given[0], beside=given[1])
        stubs.install(box, driver, *kernels)

    return Sandbox(layer(f"stack{'-peermem' * peermem}", (tree(name),), make))
