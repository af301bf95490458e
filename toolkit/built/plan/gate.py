"""Whether what was built may be installed: each module is judged from its own bytes.

A build that "succeeds" proves nothing: nvidia-peermem compiles without OFED, never loads, and
takes the place of the one that worked. So a module passes here, or is refused with a cause;
what could not be read is refused too. Whether the bytes of a signature are right is not seen
here: the kernel, or the holder of the certificate, tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from toolkit.built.plan.gate_rules import (
    AGAIN,
    RANDSTRUCT,
    REGISTER,
    RULES,
    GateGround,
    GateVerdict,
    Refusal,
    Refused,
    SymbolProvider,
    WantedSignature,
)
from toolkit.built.plan.model import Built, BuiltFile, Part
from toolkit.errors import Unparsable
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.modules.module_file import read_image
from toolkit.facts.modules.symvers import Export, parse_symvers

__all__ = [
    "REGISTER",
    "GateGround",
    "GateVerdict",
    "Refusal",
    "Refused",
    "SymbolProvider",
    "WantedSignature",
    "built_providers",
    "judge_module",
    "judge_modules",
    "vermagic_flags",
]

SYMVERS = "Module.symvers"
# What each part is for, by the name of its module; OFED has many, and is known by an export.
MODULES = {
    Part.DRIVER: "nvidia",
    Part.PEERMEM: "nvidia_peermem",
    Part.NVIDIA_FS: "nvidia_fs",
    Part.GDRDRV: "gdrdrv",
}


def judge_modules(built: Built, ground: GateGround) -> GateVerdict:
    """Judge each module of a build; a build that lacks the module it is for is refused too."""
    refusals: list[Refusal] = []
    own: tuple[SymbolProvider, ...] = ()
    try:
        own = built_providers(built)
    except Unparsable as why:
        refusals.append(Refusal(SYMVERS, Refused.DAMAGED, str(why), AGAIN))
    refusals += _lacking(built, own)
    # What is built takes the place of what is installed under the same name.
    names = {each.name for each in own}
    others = tuple(each for each in ground.providers if module_name(each.name) not in names)
    whole = replace(ground, providers=(*own, *others))
    accepted = []
    for file in built.modules:
        against = judge_module(file, whole)
        refusals += against
        if not against:
            accepted.append(file.name)
    return GateVerdict(tuple(accepted), tuple(refusals))


def judge_module(file: BuiltFile, ground: GateGround) -> tuple[Refusal, ...]:
    """Why one module may not be installed: nothing where it may."""
    try:
        image = read_image(file.name, file.data)
    except Unparsable as why:
        return (Refusal(file.name, Refused.DAMAGED, str(why), AGAIN),)
    return tuple(
        Refusal(file.name, cause, found, action)
        for rule in RULES
        for cause, found, action in rule(image, ground)
    )


def _lacking(built: Built, own: tuple[SymbolProvider, ...]) -> Iterator[Refusal]:
    """What the build is for, and did not leave."""
    part = built.inputs.part
    if part is Part.OFED:
        if not any(REGISTER in each.exports for each in own):
            found = f"the build exports no {REGISTER}"
            yield Refusal(SYMVERS, Refused.MISSING, found, "take an OFED with peer memory")
        return
    if MODULES[part] not in {module_name(each.name) for each in built.modules}:
        name = f"{MODULES[part].replace('_', '-')}.ko"
        yield Refusal(name, Refused.MISSING, "the build left no such module", AGAIN)


def built_providers(built: Built) -> tuple[SymbolProvider, ...]:
    """The modules of a build as providers for those that rest on it.

    :raises Unparsable: where its Module.symvers has another shape.
    """
    file = built.file(SYMVERS)
    rows = parse_symvers(SYMVERS, "" if file is None else file.data.decode("utf-8", "replace"))
    exports: dict[str, dict[str, Export]] = {}
    for symbol, row in rows.items():
        exports.setdefault(module_name(row.module), {})[symbol] = row
    info = {module_name(each.name): _info(each) for each in built.modules}
    none: Mapping[str, str] = {}
    return tuple(
        SymbolProvider(
            name,
            MappingProxyType(offered),
            info.get(name, none).get("license", ""),
            info.get(name, none).get("version", ""),
        )
        for name, offered in sorted(exports.items())
    )


def _info(file: BuiltFile) -> Mapping[str, str]:
    try:
        return read_image(file.name, file.data).info
    except Unparsable:
        return {}  # it is refused for itself


def vermagic_flags(config: Mapping[str, str], arch: str) -> frozenset[str]:
    """The words behind the release in the vermagic of a kernel with that configuration.

    :param config: kernel options as ``toolkit.facts.boot.kernel.parse_config`` reads them.
    """
    on = {name.removeprefix("CONFIG_") for name, value in config.items() if value == "y"}
    preempt_built, real_time = "PREEMPT_BUILD" in on, "PREEMPT_RT" in on
    words = {
        "SMP": "SMP" in on,
        # Kernels before 5.16 have no PREEMPT_BUILD.
        "preempt": preempt_built or ("PREEMPT" in on and not real_time),
        "preempt_rt": real_time and not preempt_built,
        "mod_unload": "MODULE_UNLOAD" in on,
        "modversions": "MODVERSIONS" in on,
        "aarch64": arch == "aarch64",
        RANDSTRUCT: bool({"RANDSTRUCT", "GCC_PLUGIN_RANDSTRUCT"} & on),  # the second up to 5.18
    }
    return frozenset(word for word, there in words.items() if there)
