"""Lay one node beside what it should be."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.features.drift.plan.drift import Cell, Drift, Line, Standing, Topic, worse
from toolkit.features.drift.plan.files import file_lines
from toolkit.features.drift.plan.here import Here
from toolkit.features.drift.plan.table import PROPERTIES, Describe, Property
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.plan import Plan


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


def _properties(here: Here) -> Iterator[Line]:
    covered = {each for row in PROPERTIES for each in (*row.on_disk, *row.in_effect)}
    for row in (*PROPERTIES, *_others(here, covered)):
        disk = _cell(row.on_disk, row.disk_says, here)
        effect = _cell(row.in_effect, row.effect_says, here)
        if worse(disk.standing, effect.standing) is not Standing.NONE:
            hint = _hint((*row.on_disk, *row.in_effect), here)
            yield Line(Topic.PROPERTY, row.name, row.wanted, disk, effect, hint)


def _others(here: Here, covered: set[str]) -> Iterator[Property]:
    """What proves a file that this node should have, and stands in no row of the table."""
    blocked = {each.artefact for each in here.plan.blocked}
    proofs = (
        *(proof for each in here.plan.wanted for proof in each.proofs),
        *(proof for each in ARTEFACTS if each.id in blocked for proof in each.proofs),
    )
    for proof in dict.fromkeys(proofs):
        if proof not in covered:
            yield Property(proof, BY_ID[proof].title, in_effect=(proof,))


def _cell(ids: tuple[str, ...], describe: Describe, here: Here) -> Cell:
    """The worst of what the checks say; nothing where none of them applies."""
    known = here.judged(ids)
    worst = worse(*(here.standing(each) for each in known))
    if worst is Standing.NONE:
        return Cell()
    said = next(each for each in known if here.standing(each) is worst)
    text = _described(describe, here.node) if worst is Standing.SAME else ""
    return Cell(text or said.finding.found, worst)


def _described(describe: Describe, node: Node) -> str:
    try:
        return describe(node.fresh())
    except (NoEvidence, Unparsable):
        return ""


def _hint(ids: tuple[str, ...], here: Here) -> str:
    """What the first check says to do that is not as wanted."""
    for verdict in here.judged(ids):
        if here.standing(verdict) in {Standing.DRIFT, Standing.UNKNOWN}:
            return verdict.finding.hint or (
                verdict.check.fix if verdict.status is Status.FAIL else ""
            )
    return ""
