"""Four kinds of demo nodes, small ones: as the probe reads them, and as they are judged."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from toolkit.checks.judged import judge_node
from toolkit.demo.create import environment, make_node
from toolkit.demo.nodes import READY, Recipe
from toolkit.evidence import Evidence
from toolkit.node.collect import probe_script
from toolkit.want import Want

TODAY = date(2026, 11, 28)
WANT = Want.load("auto")
# Small machines: what differs between kinds does not turn on how many GPUs there are.
KINDS = {
    kind: replace(READY[kind], machine=replace(READY[kind].machine, pairs=2, nvswitches=0))
    for kind in ("demo-healthy", "demo-stub", "demo-acs", "demo-rocky")
}
NEWER = {"generic": "6.8.0-90-generic", "x86_64": "5.14.0-570.62.1.el9_6.x86_64"}


def captured(recipe: Recipe, place: Path) -> Evidence:
    """What the probe reads on a demo node of that recipe."""
    place.mkdir(parents=True)
    make_node(place, recipe, place.name)
    return read(place)


def read(place: Path, script: str = "") -> Evidence:
    """What a script says on that node; the probe, unless another is given."""
    words = (script or probe_script()).encode()
    done = subprocess.run(
        ["/bin/sh", "-s"], input=words, env=environment(place), capture_output=True, check=False
    )
    return Evidence.parse(done.stdout.decode())


def newer(recipe: Recipe) -> str:
    return next(new for end, new in NEWER.items() if recipe.kernel.endswith(end))


def statuses(evidence: Evidence) -> dict[str, str]:
    judged = judge_node("n", evidence, WANT, TODAY)
    return {each.check.id: str(each.status) for each in judged.verdicts}
