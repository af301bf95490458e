"""What an initramfs holds of the RDMA stack and the driver.

Sources: lsinitramfs(8), which lists names; lsinitrd(1), which lists them as ``ls -l`` does. The
probe adds "newer PATH" for each module of OFED on disk that was written after the image was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MODULE = re.compile(r"(?:usr/)?lib/modules/([^/]+)/(\S*?)([^/\s]+)\.ko(?:\.\w+)?$")
_DEP = re.compile(r"(?:usr/)?lib/modules/([^/]+)/modules\.dep$")
_NEWER = "newer "


@dataclass(frozen=True, slots=True)
class Initramfs:
    """One image; it holds the modules of one kernel."""

    kernel: str  # kernel release; "" where no path in it tells
    modules: dict[str, str]  # name with underscores, path below /lib/modules/RELEASE
    configs: tuple[str, ...]  # names of files in its /etc/modprobe.d
    newer: frozenset[str] = frozenset()  # modules whose file on disk is younger than the image

    def inbox(self, names: tuple[str, ...]) -> list[str]:
        """Those of ``names`` that it holds in the kernel's own build."""
        return [name for name in names if self.modules.get(name, "").startswith("kernel/")]


def parse_initramfs(text: str) -> Initramfs:
    """Read the listing; what names no module and no configuration is passed over."""
    kernel, modules, configs, newer = "", {}, [], set()
    for line in text.split("\n"):
        if line.startswith(_NEWER):
            if found := _MODULE.fullmatch(line.removeprefix(_NEWER).lstrip("/")):
                newer.add(found[3].replace("-", "_"))
            continue
        path = line.partition(" -> ")[0].rpartition(" ")[2].lstrip("./")
        if found := _MODULE.fullmatch(path):
            kernel = found[1]
            modules[found[3].replace("-", "_")] = f"{found[2]}{found[3]}"
        elif dep := _DEP.fullmatch(path):
            kernel = dep[1]
        elif path.startswith("etc/modprobe.d/"):
            configs.append(path.rpartition("/")[2])
    return Initramfs(kernel, modules, tuple(configs), frozenset(newer))
