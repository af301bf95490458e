"""The gate of ours over files of a sandbox: with what that tree has, whoever built it."""

from __future__ import annotations

from lzma import decompress

from tests.builds.sandbox import Sandbox
from tests.builds.stubs import exported
from toolkit.built.plan.gate import (
    GateGround,
    GateVerdict,
    SymbolProvider,
    judge_module,
    vermagic_flags,
)
from toolkit.built.plan.model import BuiltFile
from toolkit.facts.boot.kernel import parse_config
from toolkit.facts.modules.symvers import Export, parse_symvers


def modules_of(box: Sandbox, folder: str) -> tuple[BuiltFile, ...]:
    """The modules of a folder, unpacked, by the names that they give themselves."""
    found = []
    for path in sorted(box.path(folder).glob("*.ko*")):
        data = path.read_bytes()
        plain = decompress(data) if path.suffix == ".xz" else data
        found.append(BuiltFile(path.name.removesuffix(".xz"), plain))
    return tuple(found)


def ground_of(box: Sandbox, kernel: str, modules: tuple[BuiltFile, ...]) -> GateGround:
    """What modules for a kernel are held against: its headers, OFED's rows, and one another."""
    build = f"/usr/src/linux-headers-{kernel}"
    ofed = exported(kernel)
    providers = [_provider(box, each) for each in modules]
    if box.path(ofed).exists():
        rows = parse_symvers(ofed, box.read(ofed))
        for name in dict.fromkeys(each.module for each in rows.values()):
            own = {symbol: each for symbol, each in rows.items() if each.module == name}
            providers.append(SymbolProvider(name, own))
    config = box.read(f"{build}/.config").split("\n")
    options = [line for line in config if line.startswith("CONFIG_")]
    return GateGround(
        kernel,
        "x86_64",
        vermagic_flags(parse_config("\n".join(options)), "x86_64"),
        parse_symvers(build, box.read(f"{build}/Module.symvers")),
        tuple(each for each in providers if each.exports),
    )


def _provider(box: Sandbox, module: BuiltFile) -> SymbolProvider:
    """What a module exports, as kmod tells."""
    path = f"/root/{module.name}"
    box.write(path, module.data)
    shown = box.run("modprobe", "--show-exports", path, check=False)
    assert shown.status in {0, 1}, shown  # 1 where there are none
    name = box.run("modinfo", "-F", "name", path).out.strip()
    version = box.run("modinfo", "-F", "version", path).out.strip()
    licence = box.run("modinfo", "-F", "license", path).out.strip()
    rows = [line.split("\t") for line in shown.out.splitlines() if line.startswith("0x")]
    exports = {symbol: Export(int(crc, 16), name, gpl=False) for crc, symbol in rows}
    return SymbolProvider(name, exports, licence, version)


def judge_files(
    box: Sandbox, kernel: str, modules: tuple[BuiltFile, ...], wanted: str = ""
) -> GateVerdict:
    """Judge the modules in whose name ``wanted`` is, held against them all."""
    ground = ground_of(box, kernel, modules)
    chosen = [each for each in modules if wanted in each.name]
    # A package may rename its files; a module goes by the name within.
    refusals = [refusal for each in chosen for refusal in judge_module(each, ground)]
    refused = {each.module for each in refusals}
    accepted = tuple(each.name for each in chosen if each.name not in refused)
    return GateVerdict(accepted, tuple(refusals))
