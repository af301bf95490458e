"""What a compiler answered, kept between builds: see compiler.c.

NVIDIA's conftest and Kbuild ask the same questions at every build: they do here too, as DKMS, the
vendor's Makefile and all that compiles or links is what a node has. Four fifths of a build's work
are answers that the compiler gave before, of the very same headers; those come from here. What it
compiled of the same text, words, headers, compiler and folder comes from ccache.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.builds.grounds import kept

TOLD = "dev/gdr-conftest"  # in a sandbox, where the answers are mounted
_SOURCE = Path(__file__).with_name("compiler.c")
_PLACE = "usr/local/bin"  # before /usr/bin in every PATH that the tests and the toolkit give


@dataclass(frozen=True, slots=True)
class Remembering:
    """One tree's."""

    layer: Path  # to lie under all others: our program before each compiler of the tree
    answers: Path  # a file each; for all sandboxes over that tree


def remembering(lower: tuple[Path, ...]) -> Remembering | None:
    """What a sandbox over these needs.

    None where the lowest has no compiler that kernels name, or this machine has none that makes
    static programs: then each build asks for itself, and takes longer.
    """
    base = lower[-1]
    # Debian's kernels name gcc-12 (bookworm) or x86_64-linux-gnu-gcc-14 (trixie).
    found = (base / "usr/bin").glob("*gcc-[0-9]*")
    names = sorted(each.name for each in found)
    if not names:
        return None
    # A tree that was made anew under the same name has other packages.
    born = (base / "usr/bin").stat().st_mtime_ns
    digest = sha256(f"{base} {born} {names}".encode() + _SOURCE.read_bytes()).hexdigest()[:12]

    def make(folder: Path) -> None:
        for each in (folder / "layer" / _PLACE, folder / "answers"):
            each.mkdir(parents=True)
        first, *others = (folder / "layer" / _PLACE / name for name in names)
        words = ("gcc", "-static", "-O2", "-Wall", "-o", str(first), str(_SOURCE))
        subprocess.run(words, check=True, capture_output=True)
        for each in others:
            shutil.copy(first, each)

    try:
        made = kept(f"conftest-{base.name}-{digest}", make)
    except (OSError, subprocess.CalledProcessError):
        return None
    return Remembering(made / "layer", made / "answers")
