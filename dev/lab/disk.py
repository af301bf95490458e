"""A disk that a BIOS boots: a partition with the system, GRUB before it; no loop device needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dev.lab.trees import ROOT_UUID, system
from tests.builds.grounds import kept
from tests.builds.guest import alone
from tests.builds.mirrors import NotToBeHad
from tests.builds.sandbox import Sandbox

SIZE_MB = 3072  # sparse: what is empty takes no room
_START = 2048  # first sector of the partition, where every tool puts it
_GRUB = Path("/usr/lib/grub/i386-pc")
_MODULES = ("biosdisk", "part_msdos", "ext2", "normal", "search", "search_fs_uuid")


def disk(
    kernel: str,
    layers: tuple[Path, ...] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """A raw disk, made once; to be read only.

    :param kernel: "6.1" or "6.12".
    :param layers: what lies over the system, topmost first, as overlayfs keeps it.
    :raises NotToBeHad: where it cannot be made.
    """
    lower = (*layers, *system(kernel, tell))
    names = "\n".join((*(each.name for each in lower), Path(__file__).read_text()))

    def make(folder: Path) -> None:
        tell("making the disk")
        with Sandbox(lower) as box:
            _fill(folder / "disk.raw", box.root)

    digest = sha256(names.encode()).hexdigest()[:12]
    return kept(f"lab-disk-{kernel}-{digest}", make) / "disk.raw"


def _fill(image: Path, root: Path) -> None:
    image.touch()
    os.truncate(image, SIZE_MB << 20)
    _call("sfdisk", "-q", "--label", "dos", image, text=f"{_START},,83,*\n")
    # No journal: nothing of a guest outlives it. No checksums: GRUB writes to grubenv.
    kind = ("-q", "-F", "-t", "ext4", "-O", "^has_journal,^metadata_csum")
    named = ("-L", "root", "-U", ROOT_UUID)
    where = f"offset={_START * 512},root_owner=0:0"
    with alone(root) as view:
        _call("mke2fs", *kind, *named, "-E", where, "-d", view, image, f"{SIZE_MB - 2}M")
    core = image.with_name("core.img")
    _call("grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", core, *_MODULES)
    with image.open("r+b") as file:
        file.write((_GRUB / "boot.img").read_bytes()[:440])  # what follows is the partition table
        file.seek(512)
        file.write(core.read_bytes())
    core.unlink()


def _call(*words: str | Path, text: str = "") -> None:
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            [str(word) for word in words],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as why:
        raise NotToBeHad(f"{words[0]}: {why}") from why
    if done.returncode:
        raise NotToBeHad(f"{words[0]}: {done.stderr.strip()[-600:]}")
