"""Capture the evidence files anew: ``python -m tests.evidence.capture``.

Needed when the probe reads more than it did, or when a simulated node should differ; then
look at what became of the verdicts, and accept them (see ``test_golden``).
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from toolkit.demo.build import environment, make_node
from toolkit.demo.nodes import READY
from toolkit.reach.collect import probe_script

HERE = Path(__file__).parent
NODES = ("demo-healthy", "demo-stub", "demo-kernel", "demo-rocky", "demo-acs", "demo-noroot")


def captured(name: str, place: Path) -> str:
    """What the probe prints on a simulated node with two GPUs: the files shall stay small."""
    recipe = replace(READY[name], machine=replace(READY[name].machine, pairs=2, nvswitches=0))
    make_node(place / name, recipe, name)
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=probe_script().encode(),
        env=environment(place / name),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        for name in NODES:
            file = HERE / f"{name.removeprefix('demo-')}.txt"
            file.write_text(captured(name, Path(place)))
            print(file)


if __name__ == "__main__":
    main()
