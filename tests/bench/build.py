"""The cache of builds: nvidia-peermem cold, warm, and after one line of its source changed.

    python -m tests.bench.build [--rounds 5]

Needs root and what the tier "builds" needs: the kernel's headers, DKMS and a compiler lie in
a tree of Debian's. A warm run is one whole process of ``gdr build``: Python starts, the ground
is surveyed, the cache is read and every byte of it verified, and the gate judges.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox
from tests.builds.verb import build

LIMIT_S = 2.0  # for a warm run
SOURCE = "usr/src/nvidia-current-open-*/nvidia-peermem/nvidia-peermem.c"


def measure(box: Sandbox, folder: Path, rounds: int) -> float:
    """Print the times; gives the median of the warm runs in seconds."""
    cold = build(folder, box)
    assert cold.states["peermem"] == "built", cold.err
    warm = [build(folder, box) for _ in range(rounds)]
    assert {each.states["peermem"] for each in warm} == {"cached"}
    with box.branch() as changed:
        (file,) = changed.root.glob(SOURCE)
        file.write_text(file.read_text() + "/* changed */\n")
        other = build(folder, changed)
    assert other.states["peermem"] == "built", other.err
    median = statistics.median(each.seconds for each in warm)
    cpu = statistics.median(each.cpu_s for each in warm)
    print(f"cold                 {cold.seconds:7.2f} s")
    print(f"warm, of {rounds}           {median:7.2f} s  (processor {cpu:.2f} s)")
    print(f"one line changed     {other.seconds:7.2f} s")
    print(f"cold/warm            {cold.seconds / median:7.1f}")
    return median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with stack("bookworm") as box, tempfile.TemporaryDirectory() as folder:
        median = measure(box, Path(folder), rounds)
    print(f"a warm run may take {LIMIT_S:.0f} s: {'met' if median < LIMIT_S else 'NOT MET'}")
    return 0 if median < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
