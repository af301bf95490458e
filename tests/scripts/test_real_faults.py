"""Any fault, at any command of the real scripts: in the end all is as wanted or as before.

``GDR_FAULTS=10000`` says how many, ``GDR_SEED=n`` from which seed on; that alone plays one again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import pytest

from dev.tools import in_ci
from tests.scripts.boot_world import BootPlay
from tests.scripts.engine import let_go
from tests.scripts.fault_world import EVERY, KINDS, Broken, Fault, Play, World

pytestmark = pytest.mark.shell

FIRST = int(os.environ.get("GDR_SEED", "280"))
COUNT = int(os.environ.get("GDR_FAULTS", "1" if "GDR_SEED" in os.environ else "80"))
SEEDS = range(FIRST, FIRST + COUNT)
BOOTED = 5  # one seed in so many is that of a reboot, too, which takes as long as some faults


@pytest.fixture
def memory() -> Iterator[Path]:
    """In memory where there is such: there, an inode's number is not given twice."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="gdr-real-", dir=shared if shared.is_dir() else None))
    yield folder
    cleared(folder)


def cleared(folder: Path) -> None:
    """Take it away; what was cut off may write a last time before it ends."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    shutil.rmtree(folder)


def played(seeds: list[int], memory: Path, kinds: set[str]) -> Iterator[tuple[str, str]]:
    """Of each fault of one world what was done, and what was broken by it."""
    number = seeds[0] // EVERY
    folder = memory / str(number)
    try:
        world = World(number, folder)
        for fault in map(Fault.drawn, seeds):
            try:
                if fault.kind not in kinds:
                    yield f"{fault.kind}, not played", ""
                else:
                    known = "" if Play(world, fault).run() else ", as one before it"
                    yield fault.kind + known, ""
            except (Broken, subprocess.TimeoutExpired) as why:
                yield fault.kind, f"{fault}: {why}"
    except (Broken, subprocess.TimeoutExpired) as why:
        yield "none", f"world {number}: {why}"
    finally:
        cleared(folder)


def test_no_law_breaks_on_real_trees(memory: Path) -> None:
    kinds = set(KINDS)
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        assert not in_ci(), "no user namespaces here, so no disk can be filled"
        kinds.remove("full")
    worlds = [list(seeds) for _, seeds in groupby(SEEDS, lambda seed: seed // EVERY)]
    with ThreadPoolExecutor(4) as many:
        every = many.map(lambda seeds: list(played(seeds, memory, kinds)), worlds)
        faults = [fault for world in every for fault in world]
    broken = [why for _, why in faults if why]
    print(f"{len(faults)} faults: {Counter(kind for kind, _ in faults)}, {len(broken)} broken")
    assert not broken, f"{len(broken)} broken; the first three:\n" + "\n".join(broken[:3])


def test_no_fault_ends_the_boot_of_one_step_twice(memory: Path) -> None:
    def play(seed: int) -> str:
        folder = memory / f"boot{seed}"
        folder.mkdir()
        try:
            BootPlay(seed, folder).run()
        except (Broken, subprocess.TimeoutExpired) as why:
            return f"seed {seed}: {why}"
        finally:
            cleared(folder)
        return ""

    with ThreadPoolExecutor(4) as many:
        broken = [why for why in many.map(play, SEEDS[::BOOTED]) if why]
    assert not broken, f"{len(broken)} broken; the first three:\n" + "\n".join(broken[:3])


def test_a_command_is_not_run_while_somebody_holds_it_open(tmp_path: Path) -> None:
    """Worlds are played beside each other, and each begins children while the others write."""
    command = tmp_path / "command"
    with ThreadPoolExecutor(1) as beside:
        with command.open("w"):
            waits = beside.submit(let_go, command)
            with pytest.raises(TimeoutError):
                waits.result(0.1)
        waits.result(60)
