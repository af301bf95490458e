"""Modules and grounds for the gate, as bytes and rows made to measure."""

from __future__ import annotations

from collections.abc import Mapping

from tests.evidence.healthy_files import KERNELS_OWN, P2P, PEERS
from tests.evidence.modules import ko
from toolkit.built.plan.gate import GateGround, Refused, SymbolProvider, judge_module
from toolkit.built.plan.model import BuiltFile, Inputs, Part
from toolkit.facts.modules.symvers import Export

RELEASE = "6.1.0-56-amd64"
FLAGS = "SMP preempt mod_unload modversions"
DRIVER = "535.261.03"
INFO = {
    "version": DRIVER,
    "license": "Dual BSD/GPL",
    "depends": "nvidia,ib_uverbs",
    "name": "nvidia_peermem",
    "vermagic": f"{RELEASE} {FLAGS} ",
}
NEEDS = {**KERNELS_OWN, **P2P, **PEERS}
GPL_ONLY = "kobject_create_and_add"


def exports(crcs: Mapping[str, int], module: str, *, gpl: bool = False) -> dict[str, Export]:
    return {name: Export(crc, module, gpl) for name, crc in crcs.items()}


NVIDIA = SymbolProvider("nvidia", exports(P2P, "nvidia"), "Dual MIT/GPL", DRIVER)
UVERBS = SymbolProvider("ib_uverbs", exports(PEERS, "ib_uverbs"), "Dual BSD/GPL")
GROUND = GateGround(
    RELEASE,
    "x86_64",
    frozenset(FLAGS.split()),
    {**exports(KERNELS_OWN, "vmlinux"), GPL_ONLY: Export(7, "vmlinux", gpl=True)},
    (NVIDIA, UVERBS),
)
INPUTS = Inputs(
    Part.PEERMEM, "nvidia-peermem", DRIVER, RELEASE, "x86_64",
    *("s", "h", "gcc-12 (Debian) 12.2.0", "v", "", "r"),
)  # fmt: skip


def peermem(
    info: Mapping[str, str] | None = None,
    versions: Mapping[str, int] | None = None,
    undefined: tuple[str, ...] | None = None,
    signature: bytes = b"",
) -> BuiltFile:
    versions = NEEDS if versions is None else versions
    data = ko({**INFO, **(info or {})}, versions, undefined=undefined, signature=signature)
    return BuiltFile("nvidia-peermem.ko", data)


def causes(file: BuiltFile, ground: GateGround = GROUND) -> list[Refused]:
    return [each.cause for each in judge_module(file, ground)]


def without(*names: str) -> dict[str, int]:
    return {name: crc for name, crc in NEEDS.items() if name not in names}
