"""A Debian 12 that is to become an image: bootable, with compilers, and the vendor's sources.

Two trees of mmdebstrap under one roof: the lab's system (kernel 6.1, initramfs, systemd, sshd) over
the builder's (DKMS, gcc, headers). OFED's ib_core and the driver's nvidia.ko are stubs of ours,
nvidia-peermem is the vendor's sources; DKMS has been told of none of it, so that all that is built
is built by the verb.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from dev.lab.trees import releases, system
from tests.builds import stubs
from tests.builds.grounds import tree
from tests.builds.layers import layer
from tests.builds.remembering import TOLD
from tests.builds.sandbox import Sandbox
from tests.builds.sources import source

DRIVER = "nvidia"
_OTHERS = re.compile(r"linux-(?:headers|image|kbuild)-|libc6-dbg")


def release() -> str:
    """The kernel that the image has."""
    return releases()["6.1"]


def layers() -> tuple[Path, ...]:
    """What it is made of, topmost first; to be read only.

    :raises NotToBeHad: where it cannot be made.
    """
    below = (*system("6.1"), tree("bookworm"))
    edition = sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    return layer(f"golden-{edition}", below, _make)


def golden(target: Path) -> Path:
    """Lay the root at ``target``: a copy of one's own, as an operator's would be.

    :raises NotToBeHad: where it cannot be made.
    """
    with Sandbox(layers()) as box:
        for name in ("proc", TOLD, "dev"):
            subprocess.run(("umount", box.path(name)), check=True)
        subprocess.run(("cp", "-a", "-T", str(box.root), str(target)), check=True)
    return target


def _make(box: Sandbox) -> None:
    kernel = release()
    for folder in ("lib/modules", "usr/src"):
        for each in box.path(folder).iterdir():
            if re.search(r"\d", each.name) and not _of(each.name, kernel):
                shutil.rmtree(each, ignore_errors=True)
    for each in (*box.path("boot").glob("*6.12*"), *box.path("boot").glob("*.old")):
        each.unlink()
    # OFED brings all of these; where some are inbox and some are not, none would load.
    for name in ("drivers/infiniband", "drivers/net/ethernet/mellanox"):
        shutil.rmtree(box.path(f"lib/modules/{kernel}/kernel/{name}"))
    box.run("depmod", kernel)
    # No disk yet, so no boot menu: whoever makes the disk makes both.
    box.path("boot/grub/grub.cfg").unlink()
    _merge_packages(box)
    vendors = source("nvidia-open")
    ofed = stubs.ofed(box)
    stubs.add_drivers(box, ofed)
    main = stubs.driver(box, vendors.version, package=DRIVER, peermem=vendors)
    for stub in (ofed, main):
        box.run("dkms", "add", stub.name)
    # What the lab has for its own convenience, and no golden image should.
    for name in ("root/.ssh/authorized_keys", "etc/ssh/ssh_host_ed25519_key", "etc/resolv.conf"):
        box.path(name).unlink(missing_ok=True)
    box.write("etc/machine-id", "")


def _of(name: str, kernel: str) -> bool:
    """Whether a folder of modules or sources belongs to the kernel that stays."""
    short = kernel.removesuffix("-amd64")
    return name in {kernel, f"linux-headers-{kernel}", f"linux-headers-{short}-common"} or (
        name.startswith("linux-kbuild-6.1")
    )


def _merge_packages(box: Sandbox) -> None:
    """dpkg's list names the packages of both trees, and no other kernel's."""
    path = "var/lib/dpkg/status"
    stanzas: dict[str, str] = {}
    for below in reversed(box.lower):
        status = below / path
        if status.exists():
            for text in status.read_text().strip().split("\n\n"):
                stanzas[_field(text, "Package")] = text
    kernel = release()
    kept = (
        text
        for name, text in sorted(stanzas.items())
        if not _OTHERS.match(name) or kernel.removesuffix("-amd64") in name or "kbuild-6.1" in name
    )
    box.write(path, "\n\n".join(kept) + "\n")


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)$", text, re.M)
    return found[1] if found else ""


def environment(state: Path) -> dict[str, str]:
    """Ours, with a state folder of the test's own."""
    return {**os.environ, "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state / "cache")}
