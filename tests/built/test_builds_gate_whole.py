"""The gate over whole builds, and what it holds signatures, rows and flags against."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.built.gating import (
    DRIVER,
    GROUND,
    INFO,
    INPUTS,
    NEEDS,
    UVERBS,
    exports,
    peermem,
)
from tests.evidence.healthy_files import KERNELS_OWN, P2P, PEERS
from tests.evidence.modules import ko, signed
from toolkit.built.plan.gate import (
    Refused,
    SymbolProvider,
    WantedSignature,
    built_providers,
    judge_module,
    judge_modules,
    vermagic_flags,
)
from toolkit.built.plan.model import Built, BuiltFile, Part
from toolkit.errors import Unparsable
from toolkit.facts.modules.symvers import Export, parse_symvers

# --- signatures

SIGNED = peermem(signature=signed("Site", serial=b"\x00\x12\x34"))
UNNAMED = peermem(signature=signed("", serial=b"\x00\x12\x34"))


@pytest.mark.parametrize(
    ("file", "wanted", "found"),
    [
        (SIGNED, None, ""),
        (peermem(), None, ""),
        (peermem(), WantedSignature(), ""),
        (SIGNED, WantedSignature("1234"), ""),
        (SIGNED, WantedSignature("0001234"), ""),
        (UNNAMED, WantedSignature(), "signed by 001234, and wanted unsigned"),
        (SIGNED, WantedSignature("1234", "sha512"), ""),
        (SIGNED, WantedSignature(), "signed by Site, and wanted unsigned"),
        (peermem(), WantedSignature("1234"), "it is not signed"),
        (SIGNED, WantedSignature("99"), "signed with key 001234, not with 99"),
        (SIGNED, WantedSignature("1234", "sha256"), "signed over sha512, not sha256"),
    ],
)
def test_a_signature_is_the_one_that_was_wanted(
    file: BuiltFile, wanted: WantedSignature | None, found: str
) -> None:
    refusals = judge_module(file, replace(GROUND, signature=wanted))
    assert [(each.cause, each.found) for each in refusals] == (
        [(Refused.SIGNATURE, found)] if found else []
    )


# --- whole builds


def symvers(crcs: Mapping[str, int], module: str) -> bytes:
    rows = (f"{crc:#010x}\t{name}\t{module}\tEXPORT_SYMBOL\t\n" for name, crc in crcs.items())
    return "".join(rows).encode()


def whole_driver(*, with_ofed: bool = True) -> Built:
    """The driver with nvidia-peermem in one build; a stub where OFED was not seen."""
    own = {**INFO, "license": "Dual MIT/GPL", "depends": "", "name": "nvidia"}
    versions = NEEDS if with_ofed else {**KERNELS_OWN}
    files = (
        BuiltFile("Module.symvers", symvers(P2P, "/var/lib/dkms/nvidia/build/nvidia")),
        BuiltFile("nvidia-peermem.ko", ko(INFO, versions)),
        BuiltFile("nvidia.ko", ko(own, KERNELS_OWN)),
    )
    return Built(replace(INPUTS, part=Part.DRIVER, package="nvidia"), files)


def test_a_driver_is_the_provider_for_the_peermem_that_is_built_with_it() -> None:
    """Not the driver that happens to be installed: the new one will take its place."""
    old = SymbolProvider("nvidia", exports(dict.fromkeys(P2P, 1), "nvidia"), version="470.1")
    verdict = judge_modules(whole_driver(), replace(GROUND, providers=(old, UVERBS)))
    assert verdict.passed, verdict.refusals


def test_a_driver_whose_peermem_is_a_stub_is_told_module_by_module() -> None:
    verdict = judge_modules(whole_driver(with_ofed=False), GROUND)
    assert not verdict.passed
    assert verdict.accepted == ("nvidia.ko",)
    assert [each.cause for each in verdict.refused("nvidia-peermem.ko")] == [Refused.STUB]
    assert verdict.refused("nvidia.ko") == ()


def test_a_build_as_provider_tells_licence_and_version() -> None:
    [found] = built_providers(whole_driver())
    assert (found.name, found.licence, found.version) == ("nvidia", "Dual MIT/GPL", DRIVER)
    assert {name: each.crc for name, each in found.exports.items()} == P2P


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (Part.PEERMEM, "nvidia-peermem.ko"),
        (Part.DRIVER, "nvidia.ko"),
        (Part.NVIDIA_FS, "nvidia-fs.ko"),
        (Part.GDRDRV, "gdrdrv.ko"),
        (Part.OFED, "Module.symvers"),
    ],
)
def test_a_build_without_the_module_that_it_is_for_is_refused(part: Part, missing: str) -> None:
    other = ko({**INFO, "name": "other", "depends": ""}, KERNELS_OWN)
    built = Built(replace(INPUTS, part=part), (BuiltFile("other.ko", other),))
    [refusal] = judge_modules(built, GROUND).refusals
    assert (refusal.module, refusal.cause) == (missing, Refused.MISSING)
    assert not judge_modules(built, GROUND).passed
    assert not judge_modules(replace(built, files=()), GROUND).passed


def test_an_ofed_that_exports_the_interface_passes() -> None:
    other = ko({**INFO, "name": "ib_uverbs", "depends": ""}, KERNELS_OWN)
    files = (
        BuiltFile("Module.symvers", symvers(PEERS, "ib_uverbs")),
        BuiltFile("ib_uverbs.ko", other),
    )
    assert judge_modules(Built(replace(INPUTS, part=Part.OFED), files), GROUND).passed


@pytest.mark.parametrize("name", ["nvidia-fs", "gdrdrv"])
def test_relatives_that_use_nothing_of_the_driver_are_stubs(name: str) -> None:
    info = {**INFO, "name": name.replace("-", "_"), "depends": "nvidia", "version": "2.4"}
    assert judge_module(BuiltFile(f"{name}.ko", ko(info, {**KERNELS_OWN, **P2P})), GROUND) == ()
    [refusal] = judge_module(BuiltFile(f"{name}.ko", ko(info, KERNELS_OWN)), GROUND)
    assert refusal.cause is Refused.STUB


def test_a_damaged_module_symvers_refuses_the_build() -> None:
    files = (BuiltFile("Module.symvers", b"0x12 odd\n"), peermem())
    verdict = judge_modules(Built(INPUTS, files), GROUND)
    assert [each.cause for each in verdict.refusals] == [Refused.DAMAGED]
    assert not verdict.passed


# --- Module.symvers, and vermagic from the configuration


@pytest.mark.parametrize(
    ("row", "export"),
    [
        pytest.param("0xd8\tf\tvmlinux\tEXPORT_SYMBOL\t", Export(0xD8, "vmlinux", False), id="now"),
        pytest.param("0xd8\tf\t/x/y/ib_uverbs\tEXPORT_SYMBOL_GPL\tNS",
                     Export(0xD8, "ib_uverbs", True), id="in-a-namespace"),
        pytest.param("0xd8\tf\tNS\tdrivers/x/nvidia\tEXPORT_SYMBOL",
                     Export(0xD8, "nvidia", False), id="5.4"),
        pytest.param("0x0\tf\tnvidia.ko\tEXPORT_SYMBOL", Export(0, "nvidia", False), id="by-hand"),
    ],
)  # fmt: skip
def test_a_row_of_module_symvers(row: str, export: Export) -> None:
    assert parse_symvers("Module.symvers", f"{row}\n") == {"f": export}


@pytest.mark.parametrize("row", ["0xzz\tf\tvmlinux\tEXPORT_SYMBOL", "0x1 f vmlinux", "x", "\t\t\t"])
def test_a_row_of_another_shape_is_refused(row: str) -> None:
    with pytest.raises(Unparsable, match="line 2"):
        parse_symvers("Module.symvers", f"0x1\ta\tvmlinux\tEXPORT_SYMBOL\t\n{row}\n")


@pytest.mark.parametrize(
    ("options", "arch", "flags"),
    [
        pytest.param("SMP PREEMPT_BUILD PREEMPT_DYNAMIC MODULE_UNLOAD MODVERSIONS", "x86_64",
                     "SMP preempt mod_unload modversions", id="debian-6.1"),
        pytest.param("SMP PREEMPT_RT MODULE_UNLOAD MODVERSIONS", "x86_64",
                     "SMP preempt_rt mod_unload modversions", id="debian-6.1-rt"),
        pytest.param("SMP MODULE_UNLOAD MODVERSIONS", "aarch64",
                     "SMP mod_unload modversions aarch64", id="voluntary-arm64"),
        pytest.param("SMP PREEMPT MODULE_UNLOAD", "x86_64", "SMP preempt mod_unload", id="5.4"),
        pytest.param("SMP PREEMPT PREEMPT_RT", "x86_64", "SMP preempt_rt", id="5.4-rt"),
        pytest.param("SMP PREEMPT_RT PREEMPT_BUILD", "x86_64", "SMP preempt", id="rt-and-build"),
        pytest.param("SMP MODULE_UNLOAD RANDSTRUCT", "x86_64", "SMP mod_unload RANDSTRUCT",
                     id="randstruct"),
        pytest.param("SMP MODULE_UNLOAD GCC_PLUGIN_RANDSTRUCT", "x86_64",
                     "SMP mod_unload RANDSTRUCT", id="randstruct-5.15"),
    ],
)  # fmt: skip
def test_vermagic_follows_from_the_configuration(options: str, arch: str, flags: str) -> None:
    config = {f"CONFIG_{each}": "y" for each in options.split()} | {"CONFIG_HZ": "250"}
    assert vermagic_flags(config, arch) == frozenset(flags.split())
