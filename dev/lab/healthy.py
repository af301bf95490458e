"""A node that has something to say: GPUs, HCAs and their stack, over the tests' golden image.

The kernel enumerates a PCI tree of software; stand-ins of the driver and of OFED hold its functions
and show what the real ones show in /proc and /sys; nvidia-peermem is the vendor's, built by DKMS.
What a site would set is set. ``board/`` has the sources, and ``defect``, which breaks one thing.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

from dev.lab import pcitree
from dev.lab.trees import _boot_loader
from tests.builds.layers import layer
from tests.builds.sandbox import Sandbox
from tests.images import golden
from tests.machine.stack import STUB, stack
from toolkit.checks.kernel.rebuilding import HOOKS, Caller
from toolkit.facts.modules.placed_files import REBUILD
from toolkit.plan.artefacts_dkms import rebuilding
from toolkit.plan.templates import render_text

BOARD = Path(__file__).parent / "board"
PCI = pcitree.named("hgx4")
LIBRARY = "usr/lib/gdr-box"  # of a box: what breaks it, and the table of its tree
_PORTS = ";".join(f"0001:{bus}:0{port}.0" for bus in (12, 16, 82, 86) for port in (0, 1))
_GRUB = (
    'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt'
    f' \\"pci=disable_acs_redir={_PORTS}\\""\n'  # in quotes: a semicolon parts GRUB's commands
)
_SETTINGS = {
    "etc/default/grub.d/50-box.cfg": _GRUB,
    "etc/security/limits.d/rdma.conf": "* soft memlock unlimited\n* hard memlock unlimited\n",
    "etc/systemd/system.conf.d/rdma.conf": "[Manager]\nDefaultLimitMEMLOCK=infinity\n",
    # No udev asks for the HCAs' modules on a machine of the lab.
    "etc/modules-load.d/rdma.conf": "mlx5_ib\nnvidia-peermem\n",
}
# In place of stand-ins that show nothing: OFED's first, for nvidia-peermem rests on it.
_PACKAGES = {
    "mlnx-ofed-kernel": {"mlx5_core.c": "mlx5_core.c", "mlx5_ib.c": "mlx5_ib.c"},
    golden.DRIVER: {"gpus.c": "nvidia/nvidia-stub.c"},
}
_HOOK = f"""#!/bin/sh
[ "$1" != prereqs ] || exit 0
mkdir -p "$DESTDIR/lib/firmware"
cp /{LIBRARY}/pcitree.bin "$DESTDIR/lib/firmware/pcitree.bin"
"""
_EARLY = """#!/bin/sh
[ "$1" != prereqs ] || exit 0
[ -e /sys/module/pcitree ] || modprobe pcitree
"""


def healthy() -> tuple[Path, ...]:
    """Its layers, topmost first; to be read only.

    :raises NotToBeHad: where they cannot be made.
    """
    told = sha256(pcitree.build(PCI).data)
    for path in (*sorted(BOARD.iterdir()), Path(__file__)):
        told.update(path.read_bytes())
    return layer(f"healthy-{told.hexdigest()[:8]}", golden.layers(), _make)


def _make(box: Sandbox) -> None:
    kernel, sources = golden.release(), box.path("usr/src")
    for package, files in _PACKAGES.items():
        [folder] = sources.glob(f"{package}-*")
        version = folder.name.removeprefix(f"{package}-")
        for name, place in files.items():
            text = (BOARD / name).read_text().replace("@VERSION@", version)
            (folder / place).write_text(text.replace("@LICENSE@", "Dual MIT/GPL"))
        box.run("dkms", "install", "--force", f"{package}/{version}", "-k", kernel)
    for name in ("nvidia-smi", "ibv_devinfo", "ofed_info"):
        shutil.copy(BOARD / name, box.path(f"usr/bin/{name}"))
    box.write(f"{LIBRARY}/defect", (BOARD / "defect").read_text(), 0o755)
    box.write(f"{LIBRARY}/nvidia-peermem.ko", (stack()[0] / STUB[1:]).read_bytes())
    box.write(f"{LIBRARY}/pcitree.bin", pcitree.build(PCI).data)
    _set(box)
    box.write("etc/initramfs-tools/hooks/board", _HOOK, 0o755)
    box.write("etc/initramfs-tools/scripts/init-top/zz-board", _EARLY, 0o755)
    box.run("update-initramfs", "-u", "-k", kernel)
    _boot_loader(box)


def _set(box: Sandbox) -> None:
    """What an operator sets on such a node, and what rebuilds nvidia-peermem there."""
    for path, text in _SETTINGS.items():
        box.write(path, text)
    ours = (each for each in HOOKS if not each.families or "debian" in each.families)
    hooks = {each.path for each in ours if each.caller is not Caller.DKMS}
    for each in rebuilding():
        if each.path in {*hooks, REBUILD}:
            box.write(each.path, render_text(each.template, {}), each.mode)
