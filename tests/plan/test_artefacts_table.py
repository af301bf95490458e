"""What each artefact is: another path, mode or trigger is another thing done to nodes.

``artefacts.txt`` has a row for each, in the order of plans. To accept a difference, run this with
GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from toolkit.facts.distros import FAMILIES
from toolkit.plan.artefact import Artefact
from toolkit.plan.artefacts import ARTEFACTS

IMPORTS = "toolkit/plan/artefacts*.py"
KEPT = Path(__file__).with_name("artefacts.txt")
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"


def told(artefact: Artefact) -> Iterator[str]:
    families = [family.name for family in FAMILIES if artefact.families(family)]
    yield f"{artefact.id}: {artefact.title}"
    yield f"    {artefact.path} {artefact.mode:o} {artefact.template}".rstrip()
    for name, words in (
        ("then", [each.name for each in artefact.then]),
        ("removed", [each.name for each in artefact.removed]),
        ("proofs", artefact.proofs),
        ("needs", artefact.needs),
        ("modules", artefact.modules),
        ("families", ["every"] if len(families) == len(FAMILIES) else families),
        ("is", [name for name in ("derived", "in_images") if getattr(artefact, name)]),
    ):
        if words:
            yield f"    {name}: {', '.join(words)}"


def test_every_artefact() -> None:
    text = "".join(f"{line}\n" for each in ARTEFACTS for line in told(each))
    if ACCEPT:
        KEPT.write_text(text)
    assert text == KEPT.read_text()
