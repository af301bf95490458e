"""The probe's own time on a node of 250 PCI functions, whose commands all answer at once.

    python -m tests.bench.probe [--rounds 5]

The commands of a simulated node are shell scripts, many times slower than kmod's or DKMS's
own; here they are replaced by ones that only answer, so that what remains is the probe.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from toolkit.demo.create import environment, make_node
from toolkit.demo.machine import Machine
from toolkit.demo.nodes import Recipe
from toolkit.node.collect import probe_script

SHELLS = (("dash",), ("busybox", "sh"), ("bash",))


def quick_node(folder: Path) -> dict[str, str]:
    """A node of 252 functions; its environment."""
    folder.mkdir()
    make_node(folder, Recipe("bench", machine=Machine(vfs=24)), "bench")
    for command in (folder / "bin").iterdir():
        command.write_text("#!/bin/sh\necho answered\n")
    return environment(folder)


def measured(shell: tuple[str, ...], settings: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and processor seconds of one probe."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    script = probe_script().encode()
    ended = subprocess.run(
        [*shell, "-s"], input=script, env=settings, capture_output=True, check=True
    )
    wall = time.monotonic() - begun
    assert b"\n= end ok " in ended.stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        settings = quick_node(Path(name) / "node")
        functions = Path(settings["GDR_ROOT"], "sys/bus/pci/devices")
        print(f"{len(list(functions.iterdir()))} functions, medians of {rounds} rounds")
        for shell in SHELLS:
            if shutil.which(shell[0]) is None:
                print(f"{shell[0]:<10} not run: not installed", file=sys.stderr)
                continue
            taken = [measured(shell, settings) for _ in range(rounds)]
            wall, cpu = (statistics.median(each) for each in zip(*taken, strict=True))
            print(f"{' '.join(shell):<10} wall {wall:.2f} s  cpu {cpu:.2f} s")


if __name__ == "__main__":
    main()
