"""Any fault, at any command of the real scripts: what is there in the end is as wanted or as before.

``GDR_FAULTS=10000`` says how many; ``GDR_SEED=n`` plays one again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.scripts.fault_world import Broken, Fault, Play

pytestmark = pytest.mark.shell

WANTED = int(os.environ.get("GDR_FAULTS", "60"))
FIRST = int(os.environ.get("GDR_SEED", "20261127"))


@pytest.fixture
def memory() -> Iterator[Path]:
    """In memory where there is such: there, an inode's number is not given twice."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="gdr-real-", dir=shared if shared.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def test_no_law_breaks_on_real_trees(memory: Path) -> None:
    def play(seed: int) -> tuple[str, str]:
        fault, folder = Fault.drawn(seed), memory / str(seed)
        folder.mkdir()
        try:
            Play(fault, folder).run()
        except Broken as why:
            return fault.kind, str(why)
        finally:
            shutil.rmtree(folder)
        return fault.kind, ""

    seeds = range(FIRST, FIRST + (1 if "GDR_SEED" in os.environ else WANTED))
    with ThreadPoolExecutor(4) as many:
        played = list(many.map(play, seeds))
    broken = [why for _, why in played if why]
    print(f"{len(played)} faults: {Counter(kind for kind, _ in played)}, {len(broken)} broken")
    assert not broken, f"{len(broken)} broken; the first three:\n" + "\n".join(broken[:3])
