"""Capture the evidence files anew: ``python -m tests.evidence.capture``.

Needed when the probe reads more than it did, or when a simulated node should differ; then
look at what became of the verdicts, and accept them (see ``test_golden``).
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from toolkit.demo.create import environment, make_node
from toolkit.demo.nodes import READY, UBUNTU_KERNEL
from toolkit.facts.node.node import Node
from toolkit.features.image.run_passport import make_passport, place_passport
from toolkit.node.collect import collect, probe_script
from toolkit.ssh.transport import Result, Sink, quiet

HERE = Path(__file__).parent
PEERMEM = f"lib/modules/{UBUNTU_KERNEL}/updates/dkms/nvidia-peermem.ko"
NODES = ("demo-healthy", "demo-stub", "demo-kernel", "demo-rocky", "demo-acs", "demo-noroot")
REPLACED = "demo-replaced"  # healthy, with the passport of an image, and a module replaced since


@dataclass(frozen=True, slots=True)
class Here:
    """A node's folder as a transport."""

    place: Path

    @property
    def name(self) -> str:
        return self.place.name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        del sink
        done = subprocess.run(
            ["/bin/sh", "-s"],
            input=script,
            env=environment(self.place),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """There is nothing to let go of."""


def captured(name: str, place: Path) -> str:
    """What the probe prints on a simulated node with two GPUs: the files shall stay small."""
    kind = READY["demo-healthy" if name == REPLACED else name]
    recipe = replace(kind, machine=replace(kind.machine, pairs=2, nvswitches=0))
    make_node(place / name, recipe, name)
    if name == REPLACED:
        here = Here(place / name)
        place_passport(here, make_passport(here, Node(collect(here))))
        with (place / name / "tree" / PEERMEM).open("ab") as module:
            module.write(b"other")
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
        for name in (*NODES, REPLACED):
            file = HERE / f"{name.removeprefix('demo-')}.txt"
            file.write_text(captured(name, Path(place)))
            print(file)


if __name__ == "__main__":
    main()
