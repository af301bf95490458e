"""Drift: one node beside what it should be, by a table of properties and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import read_or
from toolkit.facts.modules.kernel_modules import ModuleFile, ModuleState
from toolkit.facts.node.node import Node
from toolkit.features.drift.plan import (
    Cell,
    Drift,
    DriftLine,
    DriftStanding,
    DriftTopic,
    Here,
    file_lines,
    worse,
)
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.plan import Plan


def on_disk_build(node: Node) -> str:
    """Version and source of the nvidia-peermem that the next load takes; "" for none."""
    chosen = node.peermem_chosen
    return _build(chosen) if chosen else ""


def loaded_build(node: Node) -> str:
    """The same of the one that is loaded."""
    state = node.module_state.get("nvidia_peermem")
    return _build(state) if state else ""


def _build(told: ModuleFile | ModuleState) -> str:
    named = (("srcversion", told.srcversion), ("build id", told.build_id))
    said = [f"{word} {value}" for word, value in named if value]
    return " ".join(filter(None, (told.version, *said[:1])))


Describe = Callable[[Node], str]


class DriftProperty(Struct, frozen=True):
    """One property, and the ids of the checks that judge its columns."""

    name: str
    wanted: str
    on_disk: tuple[str, ...] = ()
    in_effect: tuple[str, ...] = ()
    disk_says: Describe | None = None  # in place of what passing checks say
    effect_says: Describe | None = None


PROPERTIES = (
    DriftProperty("driver", "one version everywhere", in_effect=("nvidia.version",)),
    DriftProperty(
        "nvidia-peermem",
        "whole, and loaded as on disk",
        ("peermem.file", "peermem.stub", "peermem.vermagic", "peermem.crc", "peermem.loadable"),
        ("peermem.loaded", "peermem.bound", "peermem.loaded_vs_disk"),
        on_disk_build,
        loaded_build,
    ),
    DriftProperty("nvidia-peermem at boot", "loaded at boot", ("peermem.autoload",)),
    DriftProperty("nvidia-peermem rebuilt", "after each update", ("peermem.rebuild",)),
    DriftProperty(
        "RDMA modules",
        "one stack, loaded as on disk",
        ("ofed.kernel_match", "ofed.headers_link"),
        ("modules.origin",),
    ),
    DriftProperty("initramfs", "no inbox RDMA beside OFED", ("kernel.initrd_rdma",)),
    DriftProperty("openibd", "can restart", in_effect=("ofed.openibd",)),
    DriftProperty(
        "IOMMU domains of HCAs", "identity, or no IOMMU", ("iommu.boot",), ("iommu.passthrough",)
    ),
    DriftProperty(
        "ACS on GPU-HCA paths",
        "as platform and role want it",
        ("acs.persistence",),
        ("acs.redirect", "acs.mask"),
    ),
    DriftProperty("kernel arguments", "none that misleads", in_effect=("iommu.cmdline",)),
    DriftProperty("locked memory", "unlimited", ("rdma.memlock",), ("rdma.memlock_now",)),
    DriftProperty("the site's key", "trusted", ("secureboot.site_key",)),
)


def drift_of(node: Node, judged: Judged, plan: Plan) -> Drift:
    """Every property that we see to, in three columns.

    :param judged: the verdicts on the same evidence as ``node``.
    :param plan: what would have to change there.
    """
    if not judged.gpus:
        return Drift(complete=judged.complete, gpus=False)
    verdicts = {each.check.id: each for each in judged.verdicts}
    here = Here(node, verdicts, plan, judged.today)
    lines = (*_properties(here), *file_lines(here))
    return Drift(lines, judged.complete, reboot_owed=plan.needs_reboot)


def _properties(here: Here) -> Iterator[DriftLine]:
    covered = {each for row in PROPERTIES for each in (*row.on_disk, *row.in_effect)}
    for row in (*PROPERTIES, *_others(here, covered)):
        disk = _cell(row.on_disk, row.disk_says, here)
        effect = _cell(row.in_effect, row.effect_says, here)
        if worse(disk.standing, effect.standing) is not DriftStanding.NONE:
            hint = _hint((*row.on_disk, *row.in_effect), here)
            yield DriftLine(DriftTopic.PROPERTY, row.name, row.wanted, disk, effect, hint)


def _others(here: Here, covered: set[str]) -> Iterator[DriftProperty]:
    """What proves a file that this node should have, and stands in no row of the table."""
    blocked = {each.artefact for each in here.plan.blocked}
    proofs = (
        *(proof for each in here.plan.wanted for proof in each.proofs),
        *(proof for each in ARTEFACTS if each.id in blocked for proof in each.proofs),
    )
    for proof in dict.fromkeys(proofs):
        if proof not in covered:
            yield DriftProperty(proof, BY_ID[proof].title, in_effect=(proof,))


def _cell(ids: tuple[str, ...], describe: Describe | None, here: Here) -> Cell:
    """The worst of what the checks say; nothing where none of them applies."""
    known = here.judged(ids)
    worst = worse(*(here.standing(each) for each in known))
    if worst is DriftStanding.NONE:
        return Cell()
    said = next(each for each in known if here.standing(each) is worst)
    if describe is None or worst is not DriftStanding.SAME:
        return Cell(said.finding.found, worst)
    return Cell(read_or(lambda: describe(here.node.fresh()), "") or said.finding.found, worst)


def _hint(ids: tuple[str, ...], here: Here) -> str:
    """What the first check says to do that is not as wanted."""
    for verdict in here.judged(ids):
        if here.standing(verdict) in {DriftStanding.DRIFT, DriftStanding.UNKNOWN}:
            return verdict.finding.hint or (
                verdict.check.fix if verdict.status is Status.FAIL else ""
            )
    return ""
