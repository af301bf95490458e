"""Kernel modules and the packages that bring them, as data.

Kernel modules are real, tiny ELF objects that carry no code. Their layout is fixed, so that the
nodes' own ``dkms`` can write one from sh: 512 bytes of headers that are the same in every module,
then ``.modinfo``, then ``__ksymtab_strings`` (the names that the module exports), then
``__versions`` (the names that it imports, each with its checksum), all filled up with zeroes. See
elf(5) and scripts/mod/modpost.c.
"""

from __future__ import annotations

import hashlib
import struct

from msgspec import Struct

P2P_SYMBOLS = ("nvidia_p2p_get_pages", "nvidia_p2p_put_pages", "nvidia_p2p_get_pages_persistent")
PEER_SYMBOLS = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")
DRIVER = "570.124.06"
HEAD_BYTES = 512
MODINFO_BYTES = 1024
KSYMTAB_BYTES = 256
VERSIONS_BYTES = 1024
_PARTS = {  # behind the headers, in this order
    b".modinfo": MODINFO_BYTES,
    b"__ksymtab_strings": KSYMTAB_BYTES,
    b"__versions": VERSIONS_BYTES,
}
_NAMES = b"\0.shstrtab\0.modinfo\0__ksymtab_strings\0__versions\0"
_NAMES_AT = 64 + 5 * 64  # behind the ELF header and five section headers
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _STRTAB = 1, 3
_ALLOC = 2


def head() -> bytes:
    """The first 512 bytes of every module: ELF header, section headers, section names."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian, version 1
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, _RELOCATABLE, _X86_64, 1, 0, 0, 64, 0, 64, 0, 0, 64, 5, 1
    )
    sections = _section(0, 0, 0, 0, 0)
    sections += _section(_NAMES.index(b".shstrtab"), _STRTAB, 0, _NAMES_AT, len(_NAMES))
    at = HEAD_BYTES
    for name, size in _PARTS.items():
        sections += _section(_NAMES.index(name), _PROGBITS, _ALLOC, at, size)
        at += size
    return (header + sections + _NAMES).ljust(HEAD_BYTES, b"\0")


def _section(name: int, kind: int, flags: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, 0, 0, 1, 0)


def checksum(name: str) -> int:
    """The version of a symbol on every simulated node: what cksum(1) makes of its name."""
    crc = 0
    for byte in name.encode() + len(name).to_bytes((len(name).bit_length() + 7) // 8, "little"):
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ 0x104C11DB7 if crc & 0x80000000 else crc << 1
    return crc ^ 0xFFFFFFFF


def module_file(
    info: tuple[tuple[str, str], ...], exports: tuple[str, ...] = (), imports: tuple[str, ...] = ()
) -> bytes:
    """One .ko file.

    :param info: the lines of ``modinfo``, in order: ("license", "GPL"), ...
    :param exports: names of exported symbols.
    :param imports: names of imported ones, beside what every module imports.
    """
    strings = b"".join(f"{key}={value}".encode() + b"\0" for key, value in info)
    symbols = b"".join(name.encode() + b"\0" for name in exports)
    needed = ("module_layout", *imports)
    versions = b"".join(struct.pack("<Q56s", checksum(name), name.encode()) for name in needed)
    parts = list(zip((strings, symbols, versions), _PARTS.values(), strict=True))
    if any(len(part) > room for part, room in parts):
        raise ValueError("the module has more to say than its file has room for")
    return head() + b"".join(part.ljust(room, b"\0") for part, room in parts)


class Module(Struct, frozen=True):
    """One kernel module, as its source describes it."""

    name: str  # as its file is called: "nvidia-uvm"
    license: str
    version: str = ""
    depends: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    alias: str = ""
    folder: str = ""  # inbox: below kernel/

    def source(self) -> str:
        """The C file that the nodes' ``dkms`` compiles."""
        lines = [f"/* {self.name}: what a build needs to know of it, and no code */"]
        lines += [f'#include "{each}.h"' for each in self.depends]
        lines += [f'MODULE_LICENSE("{self.license}");']
        lines += [f'MODULE_VERSION("{self.version}");'] if self.version else []
        lines += [f'MODULE_ALIAS("{self.alias}");'] if self.alias else []
        lines += [f"EXPORT_SYMBOL({each});" for each in self.exports]
        return "\n".join(lines) + "\n"

    def file(self, kernel: str, magic: str, depends: tuple[str, ...] | None = None) -> bytes:
        """The module file that building the source gives.

        :param kernel: kernel release to build for.
        :param magic: the rest of vermagic: "SMP preempt mod_unload modversions".
        :param depends: instead of what the source says.
        """
        needs = ",".join(self.depends if depends is None else depends)
        info = [("license", self.license)]
        info += [("version", self.version)] if self.version else []
        info += [("alias", self.alias)] if self.alias else []
        info += [
            ("srcversion", self.srcversion(needs)),
            ("depends", needs),
            ("retpoline", "Y"),
            ("name", self.name.replace("-", "_")),
            ("vermagic", f"{kernel} {magic} "),
        ]
        # A stub asks for nothing; the real one asks the driver and the RDMA core.
        real = self.name == "nvidia-peermem" and needs
        return module_file(tuple(info), self.exports, P2P_SYMBOLS + PEER_SYMBOLS if real else ())

    def srcversion(self, needs: str) -> str:
        """The hash that modpost makes of the sources; here, of the source and its headers."""
        text = f"{self.source()}{needs}\n".encode()
        return hashlib.md5(text, usedforsecurity=False).hexdigest()[:23].upper()


class DemoPackage(Struct, frozen=True):
    """A DKMS package: its modules are built for each kernel."""

    name: str
    version: str
    modules: tuple[Module, ...]


def nvidia_package(name: str, proprietary: bool = False) -> DemoPackage:
    """The driver, open unless it is said to be proprietary, as the distribution calls it."""
    terms = "NVIDIA" if proprietary else "Dual MIT/GPL"

    def module(file: str, depends: tuple[str, ...] = (), exports: tuple[str, ...] = ()) -> Module:
        return Module(file, terms, DRIVER, depends, exports)

    return DemoPackage(
        name,
        DRIVER,
        (
            module("nvidia", (), P2P_SYMBOLS),
            module("nvidia-uvm", ("nvidia",)),
            module("nvidia-modeset", ("nvidia",)),
            module("nvidia-drm", ("nvidia-modeset",)),
            # Its further dependency is decided at build time: see the nodes' dkms.
            Module("nvidia-peermem", "Dual BSD/GPL", DRIVER, ("nvidia",)),
        ),
    )


def ofed_package(name: str, version: str) -> DemoPackage:
    """The kernel part of MLNX_OFED or DOCA-OFED.

    :param version: as DKMS has it: "24.10.OFED.24.10.2.1.8.1".
    """
    release = version.partition("OFED.")[2].rpartition(".")[0]
    major, minor, rest = release.split(".", 2)
    compat = Module("mlx_compat", "Dual BSD/GPL")
    stack = tuple(
        Module(
            each.name,
            each.license,
            f"{major}.{minor}-{rest}" if each.name == "mlx5_core" else "",  # as OFED's own
            (*each.depends, "mlx_compat"),
            PEER_SYMBOLS + each.exports if each.name == "ib_uverbs" else each.exports,
        )
        for each in inbox_rdma()
    )
    return DemoPackage(name, version, (compat, *stack))


def inbox_rdma() -> tuple[Module, ...]:
    """The RDMA stack of the kernel itself, without the peer-memory interface."""
    core, hw = "drivers/infiniband/core", "drivers/infiniband/hw/mlx5"

    def module(
        name: str, depends: tuple[str, ...] = (), exports: tuple[str, ...] = (), folder: str = core
    ) -> Module:
        return Module(name, "Dual BSD/GPL", "", depends, exports, folder=folder)

    return (
        module("ib_core"),
        module("ib_uverbs", ("ib_core",), ("ib_umem_dmabuf_get",)),
        module("ib_umad", ("ib_core",)),
        module("ib_cm", ("ib_core",)),
        module("iw_cm", ("ib_core",)),
        module("rdma_cm", ("ib_cm", "iw_cm", "ib_core")),
        module("rdma_ucm", ("rdma_cm", "ib_uverbs")),
        module("ib_ipoib", ("ib_cm", "ib_core"), folder="drivers/infiniband/ulp/ipoib"),
        module("mlx5_core", folder="drivers/net/ethernet/mellanox/mlx5/core"),
        module("mlx5_ib", ("mlx5_core", "ib_uverbs", "ib_core"), folder=hw),
    )


def inbox_other() -> tuple[Module, ...]:
    """Drivers of the kernel that have nothing to do with RDMA."""
    return (
        Module("nvme-core", "GPL", "1.0", folder="drivers/nvme/host"),
        Module("nvme", "GPL", "1.0", ("nvme-core",), folder="drivers/nvme/host"),
        Module("i40e", "GPL v2", "", folder="drivers/net/ethernet/intel/i40e"),
    )
