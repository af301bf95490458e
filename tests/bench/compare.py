"""A thousand captured nodes laid side by side on one core: how long, and how much memory.

    python -m tests.bench.compare [--nodes 1000]

The captures are those of ``tests.bench.judge``. What differs on every real machine differs
here too: its name, its boot, its GUIDs, and some register in the config space of every PCI
function, so that nothing that rests on these can be remembered from one node to the next.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.judge import captured, resident_mib, unlike
from toolkit.checks.agreement import Agreement
from toolkit.checks.outliers import compare
from toolkit.features.compare.cli import sheeting, text
from toolkit.report.table import Painter
from toolkit.verbs.each import on_saved
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

LIMIT_S = 10.0
ODD = {7: "fw_ver:", 99: "board_id:"}  # the nodes that differ, and the line that does


def odd(capture: str, number: int) -> str:
    """Two nodes that have other firmware, or are another board."""
    return capture.replace(ODD[number], ODD[number] + "9", 1) if number in ODD else capture


def fill(folder: Path, count: int) -> int:
    """``count`` captures; their size in bytes."""
    chance = random.Random(1)  # noqa: S311 # the same noise in every run
    with tempfile.TemporaryDirectory() as place:
        capture = captured("demo-healthy", Path(place))
    return sum(
        (folder / f"n{number:04d}.evidence").write_text(
            odd(unlike(capture, number, chance), number)
        )
        for number in range(count)
    )


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds: what else runs on the machine adds little to them."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    count = parser.parse_args().nodes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = fill(folder, count)
        print(f"{count} captures, {size / count / 1024:.0f} KiB each")
        before = resident_mib()
        shown: list[str] = []

        def work() -> None:
            outcomes = on_saved(read_saved(folder), sheeting(Want(), Agreement(Want())))
            sheets = [each.get() for each in outcomes]
            shown.append(text(compare(sheets), Painter(False)))

        took = seconds(work)
    print(shown[0])
    print(f"{took:.1f} s of processor, {took / count * 1000:.1f} ms a node")
    print(f"memory: {before:.0f} MiB before, {resident_mib():.0f} MiB at most")
    if took > LIMIT_S * count / 1000:
        sys.exit(f"slower than {LIMIT_S:.0f} s for a thousand nodes")


if __name__ == "__main__":
    main()
