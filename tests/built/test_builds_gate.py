"""The gate: which built modules may be installed, and why others may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.built.gating import (
    DRIVER,
    FLAGS,
    GPL_ONLY,
    GROUND,
    INPUTS,
    NEEDS,
    NVIDIA,
    RELEASE,
    UVERBS,
    causes,
    exports,
    peermem,
    without,
)
from tests.evidence.healthy_files import KERNELS_OWN, LAYOUT, P2P, PEERS
from tests.evidence.modules import signed
from tests.laws import tried
from toolkit.built.plan.gate import (
    REGISTER,
    GateGround,
    GateVerdict,
    Refused,
    SymbolProvider,
    judge_module,
    judge_modules,
)
from toolkit.built.plan.model import Built, BuiltFile
from toolkit.facts.modules.symvers import Export

# --- what passes


def test_a_real_peermem_built_for_that_kernel_and_those_providers_passes() -> None:
    verdict = judge_modules(Built(INPUTS, (peermem(),)), GROUND)
    assert verdict == GateVerdict(("nvidia-peermem.ko",), ())
    assert verdict.passed


@pytest.mark.parametrize(
    ("file", "ground"),
    [
        pytest.param(
            peermem({"depends": "nvidia"}),
            replace(GROUND, providers=(NVIDIA,),
                    symbols={**GROUND.symbols, **exports(PEERS, "vmlinux")}),
            id="the-kernel-itself-exports-the-interface",
        ),
        pytest.param(
            peermem({"depends": "nvidia,ib_core"}),
            replace(GROUND, providers=(NVIDIA, SymbolProvider("ib_core", UVERBS.exports))),
            id="ib_core-exports-it-as-before-OFED-24.07",
        ),
        pytest.param(
            peermem(),
            replace(GROUND, providers=(replace(NVIDIA, name="nvidia-current-open"), UVERBS)),
            id="debian-renames-the-driver",
        ),
        pytest.param(
            peermem({"vermagic": f"{RELEASE} SMP preempt mod_unload "}, {},
                    undefined=(*P2P, *PEERS)),
            replace(GROUND, flags=frozenset({"SMP", "preempt", "mod_unload"})),
            id="a-kernel-without-symbol-versions",
        ),
        pytest.param(
            peermem({"vermagic": f"{RELEASE} {FLAGS} RANDSTRUCT_0123abcd"}),
            replace(GROUND, flags=frozenset({*FLAGS.split(), "RANDSTRUCT"})),
            id="the-seed-of-randstruct-stands-in-the-headers-alone",
        ),
        pytest.param(
            peermem(versions={**NEEDS, GPL_ONLY: 7}), GROUND, id="a-free-module-may-use-GPL-symbols"
        ),
        pytest.param(
            peermem({"license": "Linux-OpenIB"}), GROUND, id="an-old-licence-that-uses-none"
        ),
        pytest.param(
            peermem({"version": ""}),
            replace(GROUND, providers=(replace(NVIDIA, version="535.183.01"), UVERBS)),
            id="one-that-does-not-tell-its-driver",
        ),
        pytest.param(
            peermem(versions={**NEEDS, GPL_ONLY: 7}),
            replace(GROUND, providers=(NVIDIA, UVERBS, SymbolProvider(
                "zfs", exports({"spl_x": 1}, "zfs"), "CDDL"), SymbolProvider(
                "nvidia_peermem", exports(KERNELS_OWN, "nvidia_peermem"), "CDDL"))),
            id="a-proprietary-module-of-which-it-uses-nothing",
        ),
        pytest.param(
            peermem({"name": "nvidia_fs", "depends": "nvidia,ib_uverbs"},
                    {**KERNELS_OWN, "__symbol_get": 9}),
            replace(GROUND, symbols={**GROUND.symbols, **exports({"__symbol_get": 9}, "vmlinux")}),
            id="nvidia-fs-that-looks-its-symbols-up",
        ),
        pytest.param(
            peermem(versions=without("_printk"), undefined=("_printk", *P2P, *PEERS)),
            replace(GROUND, symbols={**GROUND.symbols, "_printk": Export(0, "vmlinux", False)}),
            id="a-symbol-without-a-version-that-has-none",
        ),
        pytest.param(
            peermem(versions={**without("_printk"), "_printk": 0}),
            replace(GROUND, symbols={**GROUND.symbols, "_printk": Export(0, "vmlinux", False)}),
            id="a-symbol-for-which-nobody-has-a-version",
        ),
    ],
)  # fmt: skip
def test_a_module_passes(file: BuiltFile, ground: GateGround) -> None:
    assert judge_module(file, ground) == ()


# --- what is refused

OTHER = replace(UVERBS, exports=exports({n: crc ^ 1 for n, crc in PEERS.items()}, "ib_uverbs"))
REFUSED: list[tuple[str, BuiltFile, GateGround, Refused, str]] = [
    ("stub", peermem({"depends": ""}, KERNELS_OWN), GROUND, Refused.STUB,
     f"a stub: it does not import {REGISTER} and nvidia_p2p_*"),
    ("stub-of-the-driver-only", peermem(versions=without(*PEERS)), GROUND, Refused.STUB,
     f"a stub: it does not import {REGISTER}"),
    ("other-kernel", peermem({"vermagic": f"6.1.0-50-amd64 {FLAGS}"}), GROUND,
     Refused.OTHER_KERNEL, f"built for 6.1.0-50-amd64, not for {RELEASE}"),
    ("no-vermagic", peermem({"vermagic": ""}), GROUND, Refused.OTHER_KERNEL, "no kernel that it"),
    ("other-flags", peermem({"vermagic": f"{RELEASE} SMP preempt_rt mod_unload modversions"}),
     GROUND, Refused.OTHER_KERNEL, "preempt_rt"),
    ("no-flags", peermem({"vermagic": RELEASE}), GROUND, Refused.OTHER_KERNEL,
     f"built for a kernel with no flags; {RELEASE} has SMP mod_unload modversions preempt"),
    ("nvidia-fs-stub", peermem({"name": "nvidia_fs"}, KERNELS_OWN), GROUND, Refused.STUB,
     "it does not import nvidia_p2p_*"),
    ("nameless-stub", peermem({"name": ""}, KERNELS_OWN), GROUND, Refused.STUB, "a stub"),
    ("either-of-two", peermem({"depends": ""}), replace(GROUND, providers=(
        NVIDIA, UVERBS, replace(UVERBS, name="ib_core"))), Refused.NO_DEPENDS,
     f"it imports {REGISTER} from ib_core or ib_uverbs, and depends on nothing"),
    ("other-layout", peermem(versions={**NEEDS, "module_layout": LAYOUT ^ 1}), GROUND,
     Refused.OTHER_KERNEL, "module_layout differs"),
    ("no-layout", peermem(versions=without("module_layout")), GROUND, Refused.CRC,
     "no version of module_layout"),
    ("other-arch", peermem(), replace(GROUND, arch="aarch64"), Refused.OTHER_ARCH, "for x86_64"),
    ("other-ofed", peermem(), replace(GROUND, providers=(NVIDIA, OTHER)), Refused.CRC,
     f"another version of {REGISTER} (0x215d891b) than that of ib_uverbs (0x215d891a)"),
    ("kernel-symbol", peermem(versions={**NEEDS, "_printk": 1}), GROUND, Refused.CRC, "_printk"),
    ("no-version", peermem(versions=without(*P2P), undefined=(*P2P, *PEERS)),
     GROUND, Refused.CRC, "it has no version of nvidia_p2p_get_pages"),
    ("no-ofed", peermem(), replace(GROUND, providers=(NVIDIA,)), Refused.NO_PROVIDER,
     f"exports {REGISTER}"),
    ("no-driver", peermem(), replace(GROUND, providers=(UVERBS,)), Refused.NO_PROVIDER,
     "exports nvidia_p2p_get_pages"),
    ("two-ofeds", peermem(), replace(GROUND, providers=(NVIDIA, UVERBS,
     replace(OTHER, name="ib_core"))), Refused.UNKNOWN, "ib_uverbs and ib_core both export"),
    ("no-depends", peermem({"depends": "ib_uverbs"}), GROUND, Refused.NO_DEPENDS,
     "it imports nvidia_p2p_get_pages from nvidia, and depends on only ib_uverbs"),
    ("other-driver", peermem({"version": "535.183.01"}), GROUND, Refused.OTHER_DRIVER,
     f"built from driver 535.183.01, and the driver of that kernel is {DRIVER}"),
    ("no-licence", peermem({"license": ""}), GROUND, Refused.LICENCE, "declares no licence"),
    ("old-licence", peermem({"license": "Linux-OpenIB"}, {**NEEDS, GPL_ONLY: 7}), GROUND,
     Refused.LICENCE, f'"Linux-OpenIB" does not allow {GPL_ONLY}'),
    ("proprietary-driver", peermem(versions={**NEEDS, GPL_ONLY: 7}),
     replace(GROUND, providers=(replace(NVIDIA, licence="NVIDIA"), UVERBS)), Refused.LICENCE,
     'symbols of nvidia, which is "NVIDIA"'),
    ("flags-not-known", peermem(), replace(GROUND, flags=None), Refused.UNKNOWN,
     "could not be read"),
    ("layout-not-known", peermem(), replace(GROUND, symbols={}), Refused.UNKNOWN,
     "tells no version of module_layout"),
    ("no-elf", BuiltFile("nvidia-peermem.ko", b"\0" * 900), GROUND, Refused.DAMAGED,
     "nvidia-peermem"),
    ("nothing", BuiltFile("nvidia-peermem.ko", b""), GROUND, Refused.DAMAGED, "nvidia-peermem"),
    ("more-bytes", BuiltFile("nvidia-peermem.ko", peermem().data + b"x" * 9), GROUND,
     Refused.DAMAGED, "9 bytes behind its end"),
    ("signature-cut", BuiltFile("nvidia-peermem.ko", peermem(signature=signed("x")).data[:-3]),
     GROUND, Refused.DAMAGED, "behind its end, and no signature"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "ground", "cause", "found"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_a_module_is_refused_with_its_cause_and_what_to_do(
    file: BuiltFile, ground: GateGround, cause: Refused, found: str
) -> None:
    first = judge_module(file, ground)[0]
    assert first.cause is cause, first
    assert found in first.found
    assert first.action
    assert str(first) == f"nvidia-peermem.ko: {first.found}"


def test_every_cause_has_a_module_that_is_refused_for_it() -> None:
    elsewhere = {Refused.MISSING, Refused.SIGNATURE}
    assert {row[3] for row in REFUSED} | elsewhere == set(Refused)


def test_a_proprietary_driver_is_no_matter_before_kernel_5_9() -> None:
    """inherit_taint came with it."""
    ground = replace(
        GROUND, kernel="5.4.0-1", providers=(replace(NVIDIA, licence="NVIDIA"), UVERBS)
    )
    file = peermem({"vermagic": f"5.4.0-1 {FLAGS}"}, {**NEEDS, GPL_ONLY: 7})
    assert judge_module(file, ground) == ()
    file = peermem({"vermagic": f"5.9.0-1 {FLAGS}"}, {**NEEDS, GPL_ONLY: 7})
    assert causes(file, replace(ground, kernel="5.9.0-1")) == [Refused.LICENCE]


@tried(60)
@given(st.integers(min_value=0, max_value=len(peermem().data) - 1))
def test_no_cut_of_a_module_passes(size: int) -> None:
    file = BuiltFile("nvidia-peermem.ko", peermem().data[:size])
    assert causes(file) == [Refused.DAMAGED]


@tried(60)
@given(st.sampled_from(sorted(NEEDS)), st.integers(min_value=0, max_value=31))
def test_no_changed_bit_of_a_version_passes(symbol: str, bit: int) -> None:
    assert causes(peermem(versions={**NEEDS, symbol: NEEDS[symbol] ^ (1 << bit)}))


@tried(60)
@given(st.sets(st.sampled_from(sorted({*P2P, *PEERS})), min_size=1))
def test_no_provider_that_offers_less_is_enough(lost: set[str]) -> None:
    providers = tuple(
        replace(each, exports={n: e for n, e in each.exports.items() if n not in lost})
        for each in (NVIDIA, UVERBS)
    )
    assert Refused.NO_PROVIDER in causes(peermem(), replace(GROUND, providers=providers))
