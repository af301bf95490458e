"""Which of the modules that were built elsewhere fits a node, for one of its kernels.

A build fits where the gate lets it in on that very node: the kernel and its flags, the
driver's version, and the symbol versions that the node's own providers export. Nothing is
compiled for a node that has a fitting build, and nothing is placed that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from toolkit.built.plan.gate import GateGround, SymbolProvider, judge_module
from toolkit.built.plan.model import PEERMEM, Built, BuiltFile, Part
from toolkit.checks.modules.fixes import files_of
from toolkit.errors import NoEvidence, Unsupported, read_or
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.modules.module_file import Exports
from toolkit.facts.modules.symvers import Export
from toolkit.facts.node.node import Node

FOLDER = "updates/gdr-toolkit"  # below /lib/modules/KERNEL; depmod searches updates first
LAYOUT = "module_layout"
_RANDSTRUCT = "RANDSTRUCT"


class Fit(Struct, frozen=True):
    """A module of a build that may be installed on the node."""

    built: Built
    file: BuiltFile


def ground_of(node: Node, kernel: str) -> GateGround:
    """What modules for one kernel of the node are held against, as its evidence has it.

    :raises NoEvidence: where the evidence has nothing of that kernel's modules.
    """
    exports = node.exports_for(kernel)
    if not exports and kernel != node.kernel:
        raise NoEvidence(
            f"what the driver and OFED export for {kernel} was not read",
            hint="only the running kernel's modules are, and those of the newest other one",
        )
    providers = [_provider(node, kernel, each) for each in exports if each.crcs]
    layout = _layout(node, kernel, exports)
    symbols = {} if layout is None else {LAYOUT: Export(layout, "vmlinux", gpl=False)}
    offered = {name for each in providers for name in each.exports}
    for path, crcs in node.symbol_versions.items():
        if f"/{kernel}/" not in path:
            continue
        exporter = module_name(node.symvers.get(path, "") or "nvidia")
        rows = {s: Export(crc, exporter, gpl=False) for s, crc in crcs.items() if s not in offered}
        if path.startswith("/lib/modules/"):  # the kernel's own
            symbols |= rows
        elif rows and not any(module_name(each.name) == exporter for each in providers):
            providers.append(SymbolProvider(exporter, rows))
    return GateGround(kernel, node.arch, _flags(node, kernel), symbols, tuple(providers))


def _provider(node: Node, kernel: str, exports: Exports) -> SymbolProvider:
    name = module_name(exports.path)
    plain = exports.path.removeprefix("/usr")
    known = {each.filename.removeprefix("/usr"): each for each in files_of(node, kernel)}
    file = known.get(plain)
    rows = {symbol: Export(crc, name, gpl=False) for symbol, crc in exports.crcs.items()}
    return SymbolProvider(name, rows, version=file.version if file else "")


def _layout(node: Node, kernel: str, exports: Iterable[Exports]) -> int | None:
    """The one version of module_layout that modules of that kernel agree on, or None.

    The kernel's own speak first: others may have been built against headers that differ.
    """
    built_for = {each.filename.removeprefix("/usr") for each in files_of(node, kernel)
                 if each.kernel == kernel}  # fmt: skip
    told = [
        (each.path, each.layout)
        for each in exports
        if each.layout and each.path.removeprefix("/usr") in built_for
    ]
    inbox = {layout for path, layout in told if "/kernel/" in path}
    found = inbox or {layout for _, layout in told}
    return found.pop() if len(found) == 1 else None


def _flags(node: Node, kernel: str) -> frozenset[str] | None:
    """vermagic behind the release, from any module of that kernel; None where none tells."""
    told = [each for each in files_of(node, kernel) if each.kernel == kernel]
    told.sort(key=lambda each: each.origin != "inbox")
    if not told:
        return None
    words = told[0].vermagic.split()[1:]
    return frozenset(_RANDSTRUCT if each.startswith(_RANDSTRUCT) else each for each in words)


def driver_version(node: Node, kernel: str) -> str:
    """Of the driver that kernel would load; of the loaded one where that is not told.

    :raises NoEvidence: where there is no driver at all.
    """
    found = [each.version for each in files_of(node, kernel, "nvidia") if each.version]
    if kernel == node.kernel and node.driver is not None:
        return str(node.driver.version)
    if found:
        return found[0]
    raise NoEvidence(f"no driver for {kernel}: which nvidia-peermem it wants is not known")


def choose(part: Part, builts: Iterable[Built], node: Node, kernel: str, *, at: str = "") -> Fit:
    """The build whose module fits that kernel of the node.

    :param at: where the module would lie; what lies there already and fits is preferred.
    :raises NoEvidence: where the node does not tell what it has to fit.
    :raises Unsupported: where none fits, with the command that builds one.
    """
    driver = driver_version(node, kernel)
    right = [
        (built, file)
        for built in sorted(builts, key=lambda each: each.inputs.digest)
        if (built.inputs.kernel, built.inputs.arch) == (kernel, node.arch)
        and (file := _module(built, part)) is not None
        and (part is not Part.PEERMEM or built.inputs.version == driver)
    ]
    what = f"{_name(part)} for {kernel}"
    if not right:
        raise Unsupported(
            f"no build of {what} and driver {driver} is in the cache",
            hint=build_command(node, part, kernel, driver),
        )
    ground = ground_of(node, kernel)
    judged = [(built, file, judge_module(file, ground)) for built, file in right]
    fits = [Fit(built, file) for built, file, refusals in judged if not refusals]
    if not fits:
        reason = judged[0][2][0]
        raise Unsupported(
            f"no build of {what} fits this node: {reason.found}",
            hint=build_command(node, part, kernel, driver),
        )
    old = node.placed.get(at)
    there = [each for each in fits if old is not None and old.sha256 == each.file.sha256]
    return (there or fits)[0]


def _module(built: Built, part: Part) -> BuiltFile | None:
    """Its module of that part: a build of the whole driver has an nvidia-peermem too."""
    if built.inputs.part is not part and (part, built.inputs.part) != (Part.PEERMEM, Part.DRIVER):
        return None
    wanted = _name(part).replace("-", "_")
    return next((each for each in built.modules if module_name(each.name) == wanted), None)


def _name(part: Part) -> str:
    return PEERMEM if part is Part.PEERMEM else part.value


def build_command(node: Node, part: Part, kernel: str, driver: str) -> str:
    """The command that builds what is lacking."""
    words = f"./invokew build --kernel {kernel} --driver {driver} --part {part}"
    return f"{words} --on {read_or(lambda: node.hostname, '') or 'HOST'}"
