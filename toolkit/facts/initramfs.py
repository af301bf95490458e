"""What an initramfs holds of the RDMA stack and the driver.

Sources: lsinitramfs(8), which lists names; lsinitrd(1), which lists them as ``ls -l`` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MODULE = re.compile(r"(?:usr/)?lib/modules/([^/]+)/(\S*?)([^/\s]+)\.ko(?:\.\w+)?$")
_DEP = re.compile(r"(?:usr/)?lib/modules/([^/]+)/modules\.dep$")


@dataclass(frozen=True, slots=True)
class Initramfs:
    """One image; it holds the modules of one kernel."""

    kernel: str  # kernel release; "" where no path in it tells
    modules: dict[str, str]  # name with underscores, path below /lib/modules/RELEASE
    configs: tuple[str, ...]  # names of files in its /etc/modprobe.d

    def inbox(self, names: tuple[str, ...]) -> list[str]:
        """Those of ``names`` that it holds in the kernel's own build."""
        return [name for name in names if self.modules.get(name, "").startswith("kernel/")]


def parse_initramfs(text: str) -> Initramfs:
    """Read the listing; what names no module and no configuration is passed over."""
    kernel, modules, configs = "", {}, []
    for line in text.split("\n"):
        path = line.partition(" -> ")[0].rpartition(" ")[2].lstrip("./")
        if found := _MODULE.fullmatch(path):
            kernel = found[1]
            modules[found[3].replace("-", "_")] = f"{found[2]}{found[3]}"
        elif dep := _DEP.fullmatch(path):
            kernel = dep[1]
        elif path.startswith("etc/modprobe.d/"):
            configs.append(path.rpartition("/")[2])
    return Initramfs(kernel, modules, tuple(configs))
