"""The rules of the gate: each holds one module against the ground, and says what is wrong.

Sources: NVIDIA/open-gpu-kernel-modules kernel-open/nvidia-peermem; kernel include/linux/
vermagic.h, include/linux/license.h, kernel/module/version.c (check_version) and
kernel/module/main.c (resolve_symbol, inherit_taint).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from toolkit.compat.reader import numbers
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.modules.module_file import SHARED, ModuleImage
from toolkit.facts.modules.symvers import Export

REGISTER = "ib_register_peer_memory_client"
P2P = "nvidia_p2p_"
KERNEL = "vmlinux"  # how Module.symvers names the kernel itself
LAYOUT = "module_layout"
RANDSTRUCT = "RANDSTRUCT"
AGAIN = "build it again; the log of the build says what stopped it"
# By the name of a module: how names begin that it imports, unless it is a stub.
IMPORTS = {"nvidia_peermem": (REGISTER, P2P), "nvidia_fs": (P2P,), "gdrdrv": (P2P,)}
LOOKUP = "__symbol_get"  # of a symbol by its name, in place of an import
FIRST = {
    REGISTER: "build or install OFED for that kernel first, then this module",
    P2P: "build it with the driver's Module.symvers, after the driver",
}
# include/linux/license.h, license_is_gpl_compatible.
GPL_COMPATIBLE = frozenset(
    {"GPL", "GPL v2", "GPL and additional rights"}
    | {"Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"}
)


class Refused(StrEnum):
    """Why a module is refused; templates/dkms/gate.sh says the same words."""

    MISSING = "missing"  # the build left no module of that name
    DAMAGED = "damaged"  # the bytes are those of no module, or not all of them
    OTHER_ARCH = "other-arch"
    OTHER_KERNEL = "other-kernel"  # vermagic or module_layout
    STUB = "stub"  # compiled, and imports nothing of what it is for
    NO_PROVIDER = "no-provider"  # nothing exports what it imports
    OTHER_DRIVER = "other-driver"  # built from the source of another driver release
    CRC = "crc"  # built against another version of what it imports
    NO_DEPENDS = "no-depends"  # what it imports from is not recorded
    LICENCE = "licence"
    SIGNATURE = "signature"
    UNKNOWN = "unknown"  # the ground does not tell what to hold it against


Said = tuple[Refused, str, str]  # cause, what was found, what to do


class SymbolProvider(Struct, frozen=True):
    """A module that exports what others of ours import, as it is installed for that kernel.

    Where a part is built in the same run it is that part: see ``gate.built_providers``.
    """

    name: str  # as it calls itself: "nvidia", also where Debian's file is "nvidia-current-open"
    exports: Mapping[str, Export]
    licence: str = ""  # as modinfo has it; "" where not known
    version: str = ""  # of the driver release: "535.261.03"; "" where not known


class WantedSignature(Struct, frozen=True):
    """Which signature a module must have."""

    key: str = ""  # serial number or key id, lower-case hex; "" for: not signed at all
    digest: str = ""  # "sha256"; "" for any


class GateGround(Struct, frozen=True):
    """What modules are held against: the kernel, and what is installed for it."""

    kernel: str  # kernel release
    arch: str  # as uname -m prints it
    flags: frozenset[str] | None  # vermagic behind the release; None where not known
    symbols: Mapping[str, Export]  # the kernel's Module.symvers; at least module_layout
    providers: tuple[SymbolProvider, ...]
    signature: WantedSignature | None = None  # None: whatever it is

    @property
    def versioned(self) -> bool:
        """Whether the kernel was configured with CONFIG_MODVERSIONS."""
        return self.flags is not None and "modversions" in self.flags


class Refusal(Struct, frozen=True):
    """One reason for which one module may not be installed."""

    module: str  # file name: "nvidia-peermem.ko"
    cause: Refused
    found: str  # one sentence
    action: str  # what to do about it

    def __str__(self) -> str:
        return f"{self.module}: {self.found}"


class GateVerdict(Struct, frozen=True):
    """Which modules of a build may be installed."""

    accepted: tuple[str, ...]  # file names
    refusals: tuple[Refusal, ...]  # of each refused module all, the first cause first

    @property
    def passed(self) -> bool:
        return bool(self.accepted) and not self.refusals

    def refused(self, module: str) -> tuple[Refusal, ...]:
        """Why that file is refused; nothing where it is accepted."""
        return tuple(each for each in self.refusals if each.module == module)


class SymbolSource(Struct, frozen=True):
    """Who offers a symbol."""

    module: str  # KERNEL, or as the module calls itself
    export: Export


def sources(symbol: str, ground: GateGround) -> tuple[SymbolSource, ...]:
    """Everybody who offers it: the installed modules, else what the kernel's own table names."""
    offered = [
        SymbolSource(module_name(each.name), each.exports[symbol])
        for each in ground.providers
        if symbol in each.exports
    ]
    if not offered and (row := ground.symbols.get(symbol)) is not None:
        offered.append(SymbolSource(module_name(row.module), row))
    return tuple(offered)


def arch(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    if image.machine != ground.arch:
        yield (
            Refused.OTHER_ARCH,
            f"compiled for {image.machine}, and the kernel is one for {ground.arch}",
            f"build it on a machine or in a tree of {ground.arch}",
        )


def vermagic(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """The kernel refuses another release only without symbol versions; we do in any case."""
    again = f"build it with the headers of {ground.kernel}"
    if image.kernel != ground.kernel:
        told = image.kernel or "no kernel that it names"
        yield Refused.OTHER_KERNEL, f"built for {told}, not for {ground.kernel}", again
        return
    if ground.flags is None:
        yield (
            Refused.UNKNOWN,
            f"the configuration of {ground.kernel} could not be read, so its vermagic is not known",
            "install the headers of that kernel",
        )
        return
    # The seed behind RANDSTRUCT_ stands in the headers alone.
    own = {RANDSTRUCT if flag.startswith(RANDSTRUCT) else flag for flag in image.flags}
    if own != ground.flags:
        found = f"built for a kernel with {_words(own)}; {ground.kernel} has {_words(ground.flags)}"
        yield Refused.OTHER_KERNEL, found, again


def _words(flags: set[str] | frozenset[str]) -> str:
    return " ".join(sorted(flags)) or "no flags"


def layout(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """The version of module_layout stands for the shape of the kernel's own structures."""
    if not ground.versioned or image.kernel != ground.kernel:
        return
    row, told = ground.symbols.get(LAYOUT), image.versions.get(LAYOUT)
    if row is None:
        found = f"the Module.symvers of {ground.kernel} tells no version of module_layout"
        yield Refused.UNKNOWN, found, "install the headers of that kernel anew"
    elif told is None:
        found = "it has no version of module_layout, which the kernel wants"
        yield Refused.CRC, found, f"build it with the whole headers of {ground.kernel}"
    elif told != row.crc:
        found = f"built with headers of another build of {ground.kernel}: module_layout differs"
        yield Refused.OTHER_KERNEL, found, f"build it with the headers of {ground.kernel}"


def stub(image: ModuleImage, ground: GateGround) -> Iterator[Said]:  # noqa: ARG001 - all alike
    """It compiles without what it is for, does nothing, and modprobe says "Invalid argument"."""
    wanted = IMPORTS.get(name_of(image), ())
    if name_of(image) == "nvidia_fs" and LOOKUP in image.imports:
        return  # 2.13 imports nothing of the driver: it looks symbols up once it is loaded
    lacks = [each for each in wanted if not any(one.startswith(each) for one in image.imports)]
    if not lacks:
        return
    names = " and ".join(f"{each}*" if each.endswith("_") else each for each in lacks)
    yield Refused.STUB, f"a stub: it does not import {names}", FIRST[lacks[0]]


def name_of(image: ModuleImage) -> str:
    """As the module calls itself; by its file where it does not, as before kernel 4.13."""
    return module_name(image.info.get("name") or image.path)


def driver(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """How peermem and the driver speak to each other changes without the symbols' versions."""
    if name_of(image) != "nvidia_peermem" or not (own := image.info.get("version", "")):
        return
    for each in ground.providers:
        if module_name(each.name) == "nvidia" and each.version not in ("", own):
            yield (
                Refused.OTHER_DRIVER,
                f"built from driver {own}, and the driver of that kernel is {each.version}",
                f"build it from the source of driver {each.version}",
            )


def provided(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """Somebody exports each shared import, and it is clear who."""
    for symbol in sorted(image.imports):
        offered = sources(symbol, ground)
        if not offered and SHARED.fullmatch(symbol):
            yield (
                Refused.NO_PROVIDER,
                f"nothing that is installed for {ground.kernel} exports {symbol}",
                FIRST[P2P if symbol.startswith(P2P) else REGISTER],
            )
        elif len({each.export.crc for each in offered}) > 1:
            names = " and ".join(each.module for each in offered)
            found = f"{names} both export {symbol}, in versions that differ"
            yield Refused.UNKNOWN, found, "leave one of them installed"


def versions(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """Each import is offered in the version that the module was built against."""
    if not ground.versioned:
        return
    for symbol in sorted(image.imports):
        offered = sources(symbol, ground)
        if len({each.export.crc for each in offered}) == 1:
            yield from _version(symbol, image.versions.get(symbol), offered[0])


def _version(symbol: str, told: int | None, source: SymbolSource) -> Iterator[Said]:
    """0 is the version of a symbol for which the compiler made none; then nobody has one."""
    if told == source.export.crc or (told is None and source.export.crc == 0):
        return
    again = f"build it again after {source.module}, with its Module.symvers"
    if told is None:
        yield Refused.CRC, f"it has no version of {symbol}, which {source.module} exports", again
        return
    found = f"built against another version of {symbol} ({told:#010x}) than that of "
    yield Refused.CRC, f"{found}{source.module} ({source.export.crc:#010x})", again


def depends(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """What modinfo tells of its dependencies, and so depmod's order, names who it needs."""
    recorded = {module_name(each) for each in image.depends}
    for symbol in sorted(image.imports):
        offered = {each.module for each in sources(symbol, ground)} - {KERNEL, name_of(image)}
        if not SHARED.fullmatch(symbol) or not offered or offered & recorded:
            continue
        only = f"only {', '.join(sorted(recorded))}" if recorded else "nothing"
        who = " or ".join(sorted(offered))
        yield (
            Refused.NO_DEPENDS,
            f"it imports {symbol} from {who}, and depends on {only}",
            f"build it with the Module.symvers of {who}, without KBUILD_MODPOST_WARN",
        )
        return


def licence(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    own = image.info.get("license", "")
    if not own:
        yield Refused.LICENCE, "it declares no licence", "take the module from its vendor's source"
        return
    free = own in GPL_COMPATIBLE
    used = {symbol: sources(symbol, ground) for symbol in sorted(image.imports)}
    gpl = [symbol for symbol, offered in used.items() if any(each.export.gpl for each in offered)]
    if gpl and not free:
        found = f'its licence "{own}" does not allow {gpl[0]}, which is for GPL modules only'
        yield Refused.LICENCE, found, "take a newer driver, or its open modules"
    elif gpl and numbers(ground.kernel) >= (5, 9):
        yield from _tainted(gpl[0], image, ground)


def _tainted(gpl: str, image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    """Since 5.9 the kernel refuses GPL-only symbols to modules that use a proprietary one's."""
    for each in ground.providers:
        own = each.licence not in ("", *GPL_COMPATIBLE) and module_name(each.name) != name_of(image)
        if own and image.imports & each.exports.keys():
            found = f'it uses {gpl}, for GPL modules only, and symbols of {each.name}, which is "'
            yield (
                Refused.LICENCE,
                f'{found}{each.licence}"',
                "take the driver's open modules",
            )


def signature(image: ModuleImage, ground: GateGround) -> Iterator[Said]:
    wanted, found = ground.signature, image.signature
    if wanted is None:
        return
    if not wanted.key:
        if found is not None:
            by = found.signer or found.key
            yield Refused.SIGNATURE, f"signed by {by}, and wanted unsigned", "build it unsigned"
        return
    again = "sign it with the key that was named"
    if found is None:
        yield Refused.SIGNATURE, "it is not signed", again
    elif found.key.lstrip("0") != wanted.key.lstrip("0"):
        yield Refused.SIGNATURE, f"signed with key {found.key}, not with {wanted.key}", again
    elif wanted.digest not in ("", found.digest):
        yield Refused.SIGNATURE, f"signed over {found.digest}, not {wanted.digest}", again


# Causes before what follows from them: the first is the one to mend first.
RULES = (
    *(arch, vermagic, layout, licence),
    *(stub, driver, provided, versions, depends, signature),
)
