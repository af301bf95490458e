"""A thousand captured nodes, judged on one core: how long, how much memory, and where it goes.

    python -m tests.bench.judge [--nodes 1000] [--unlike] [--profile | --verbs]

The captures are what our own probe prints on simulated nodes of full size (8 GPUs, 8 HCAs,
four NVSwitches, all their ports), healthy and ill, with names of their own. Each is read
from disk, judged by every check and folded into one report, as ``doctor --from FOLDER`` does.
With ``--unlike`` each differs as another machine of its kind would: its boot, its GUIDs, the
serial numbers of its GPUs, and registers in the config space of each of its PCI functions.
The memory is told at a tenth of the nodes and at all of them: what grows with a node is what
the report keeps of it. With ``--verbs`` the verbs are run instead, as an operator does, on all
processors that this process may use: told is what all their processes took together.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import ctypes
import gc
import os
import pstats
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from datetime import date
from pathlib import Path

from toolkit.checks.judged import Judged
from toolkit.demo.create import environment, make_node
from toolkit.demo.nodes import READY
from toolkit.errors import ExitCode, Outcome
from toolkit.node.collect import probe_script
from toolkit.report.table import Painter
from toolkit.report.text import report
from toolkit.verbs.doctor import examine_saved
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

LIKE = ("demo-healthy", "demo-stub", "demo-acs", "demo-kernel", "demo-rocky")
LIMIT_S = 60.0
TODAY = date(2026, 11, 21)
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


_CONFIG = re.compile(r"^= pci-config .*\n(?:\|.*\n)*", re.MULTILINE)
_UNUSED = re.compile(r"^(\|000020)(?: [0-9a-f]{2}){4}", re.MULTILINE)  # of a memory window
_GUID = re.compile(r"(?<=_guid:)\S+")
_GPU = re.compile(r"(?<=-6f1c-4d27-9a35-)\w{12}")


def unlike(capture: str, number: int, chance: random.Random) -> str:
    """The same node as another machine of its kind would answer."""

    def noise(found: re.Match[str]) -> str:
        return found[1] + "".join(f" {chance.getrandbits(8):02x}" for _ in range(4))

    def blocks(found: re.Match[str]) -> str:
        return _UNUSED.sub(noise, found[0])

    told = re.sub(r"(?<=\|)demo-[a-z]+", f"n{number:04d}", capture)
    told = re.sub(r"(?<=\n)(= boot-id .*\n\|).*", rf"\g<1>{number:032x}", told)
    told = _GPU.sub(lambda _: f"{chance.getrandbits(48):012x}", told)
    return _CONFIG.sub(blocks, _GUID.sub(lambda _: f"{chance.getrandbits(64):016x}", told))


def captured(name: str, place: Path) -> str:
    """What the probe prints on a simulated node of full size."""
    make_node(place / name, READY[name], name)
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=probe_script().encode(),
        env=environment(place / name),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def fill(folder: Path, count: int, *, all_unlike: bool = False) -> int:
    """``count`` captures, most of them healthy; their size in bytes."""
    chance = random.Random(1)  # noqa: S311 # the same noise in every run
    with tempfile.TemporaryDirectory() as place:
        texts = [captured(name, Path(place)) for name in LIKE]
    size = 0
    for number in range(count):
        # One node in ten is ill, as in a fleet that has been neglected.
        text = texts[1 + number // 10 % (len(texts) - 1)] if number % 10 == 9 else texts[0]
        text = text.replace("|demo-", f"|n{number:04d}-")
        text = unlike(text, number, chance) if all_unlike else text
        size += (folder / f"n{number:04d}.evidence").write_text(text)
    return size


def judged(folder: Path, count: int) -> list[Outcome[Judged]]:
    chosen = (pair for pair, _ in zip(read_saved(folder), range(count), strict=False))
    return examine_saved(chosen, Want(), TODAY)


def resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(folder: Path, count: int) -> float:
    """Processor seconds until the report is there."""
    begun = time.process_time()
    text = report(judged(folder, count), Painter(False))
    assert f"of {count} nodes" in text
    return time.process_time() - begun


def kept_kib(folder: Path, few: int, many: int) -> float:
    """What is held for each further node once it was judged."""
    judged(folder, few)  # whatever is read once and kept: tables, patterns
    tracemalloc.start()
    held = [_held_kib(folder, count) for count in (few, many)]
    tracemalloc.stop()
    return (held[1] - held[0]) / (many - few)


def _held_kib(folder: Path, count: int) -> float:
    gc.collect()  # nodes that were let go of
    before, _ = tracemalloc.get_traced_memory()
    outcomes = judged(folder, count)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    assert len(outcomes) == count
    return (after - before) / 1024


def measured(folder: Path, *words: str) -> str:
    """A verb on the folder: wall clock, processor of all its processes, and the largest of them."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # those that outlive the verb are waited for here
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "toolkit.cli", *words, "--from", str(folder), "--quiet"]
    with tempfile.TemporaryDirectory() as state:
        env = os.environ | {"XDG_STATE_HOME": state}
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == ExitCode.FAILED, done.returncode
    wall = time.monotonic() - begun
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    largest = used.ru_maxrss / 1024
    return f"{words[0]:<10} {wall:6.1f} s, {cpu:.1f} s of processor, {largest:.0f} MiB at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument(
        "--unlike", action="store_true", help="each node has its own GUIDs and more"
    )
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--verbs", action="store_true", help="run doctor and report --html")
    chosen = parser.parse_args()
    if chosen.verbs:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "evidence")
            folder.mkdir()
            fill(folder, chosen.nodes, all_unlike=chosen.unlike)
            print(f"processors {len(os.sched_getaffinity(0))}")
            print(measured(folder, "doctor"))
            print(measured(folder, "report", "--html", str(Path(name, "page.html"))))
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = fill(folder, chosen.nodes, all_unlike=chosen.unlike)
        print(f"captures   {chosen.nodes} of {size / chosen.nodes / 1024:.0f} KiB")
        tenth = timed(folder, max(1, chosen.nodes // 10))
        small = resident_mib()
        taken = timed(folder, chosen.nodes)
        print(f"time       {taken:6.1f} s of one core, {taken / chosen.nodes * 1000:.1f} ms a node"
              f" ({tenth:.1f} s for a tenth)")  # fmt: skip
        print(f"resident   {small:6.1f} MiB after a tenth, {resident_mib():.1f} MiB after all")
        kept = kept_kib(folder, max(1, chosen.nodes // 25), max(2, chosen.nodes // 10))
        print(f"kept       {kept:6.1f} KiB for each further node")
        if chosen.profile:
            _profile(folder, max(1, chosen.nodes // 10))
    if taken > LIMIT_S * chosen.nodes / 1000:
        sys.exit(f"more than {LIMIT_S:.0f} s for 1,000 nodes")


def _profile(folder: Path, count: int) -> None:
    profile = cProfile.Profile()
    profile.runcall(judged, folder, count)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(30)


if __name__ == "__main__":
    main()
