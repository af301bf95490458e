"""Kernels: options, what is installed for each, its initramfs; how far the live one is locked."""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import blocks, rows

_SET = re.compile(r"(CONFIG_\w+)=(.*)")
_PART = re.compile(r"(.*) (present|missing)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")


class InstalledKernel(Struct, frozen=True):
    """One directory below /lib/modules."""

    release: str
    image: bool  # a vmlinuz to boot it
    headers: bool  # a build link that resolves to a Makefile
    modules: tuple[str, ...]  # paths of the NVIDIA, peer-memory and RDMA core modules in it

    def has(self, module: str) -> bool:
        """Whether it holds ``module`` ("nvidia", "nvidia-peermem"), under any packager's name."""
        return any(module_name(path) == module.replace("-", "_") for path in self.modules)


def module_name(path: str) -> str:
    """The module that a file provides: Debian's "nvidia-current-open-peermem.ko.xz" too."""
    stem = path.rpartition("/")[2].split(".ko", 1)[0].replace("-", "_")
    return re.sub(r"^nvidia(_current|_tesla(_\d+)?|_legacy_\w+?)?(_open)?(?=$|_)", "nvidia", stem)


def parse_kernels(text: str) -> tuple[InstalledKernel, ...]:
    """Read the probe's list: a heading per kernel, then "image", "headers" and module paths.

    :raises Unparsable: at a line that is none of these.
    """
    kernels = []
    for release, lines in blocks(text, "/lib/modules"):
        paths = tuple(line for line in lines if line.startswith("/"))
        for line in lines:
            if line not in {"image", "headers", *paths}:
                raise Unparsable(f"/lib/modules/{release}", line)
        kernels.append(InstalledKernel(release, "image" in lines, "headers" in lines, paths))
    return tuple(kernels)


def parse_config(text: str) -> dict[str, str]:
    """Kernel options: "y", "m", a value, or "n" for those said to be not set.

    :raises Unparsable: at a line that is neither.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        if found := _SET.fullmatch(line):
            options[found[1]] = found[2].strip('"')
        elif unset := _UNSET.fullmatch(line):
            options[unset[1]] = "n"
        else:
            raise Unparsable("kernel config", line, number)
    return options


def parse_lockdown(text: str) -> str:
    """The bracketed word of /sys/kernel/security/lockdown: "none [integrity] confidentiality".

    :raises Unparsable: where no word is bracketed.
    """
    found = re.search(r"\[(\w+)\]", text)
    if found is None:
        raise Unparsable("lockdown", text.strip())
    return found[1]


def parse_headers(text: str) -> dict[str, bool]:
    """Parts of a kernel's build folder, and whether each is there and not empty."""
    return {part[1]: part[2] == "present" for part in rows(text, _PART, "kernel headers")}


# What an initramfs holds of the RDMA stack and the driver.
# Sources: lsinitramfs(8), which lists names; lsinitrd(1), which lists them as ``ls -l`` does. The
# probe adds "newer PATH" for each module of OFED on disk that was written after the image was.
_MODULE = re.compile(r"(?:usr/)?lib/modules/([^/]+)/(\S*?)([^/\s]+)\.ko(?:\.\w+)?$")
_DEP = re.compile(r"(?:usr/)?lib/modules/([^/]+)/modules\.dep$")
_NEWER = "newer "


class Initramfs(Struct, frozen=True):
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
