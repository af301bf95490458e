"""200 nodes and whatever goes wrong: no fleet is taken down, no node left half changed in silence.

``GDR_FAULTS=10000`` says how many faults are injected at least; more are until each kind was among
them. Each fleet goes on, controller after controller, until every node of it is as wanted. The laws
are those of rollout_world and rollout_sim; each of them has been seen to fail with its guard taken
out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import laws
from tests.unit.rollout_sim import Fleetful, patch, run_to_the_end

LONG = True
FAULTS_WANTED = int(os.environ.get("GDR_FAULTS", laws.share(1200)))
FAULTS_MOST = 1800  # to which a rare kind has come up
WHOLE, FEW = (200, FAULTS_WANTED), (40, 400)  # nodes of a fleet, and faults
FIRST_SEED = 20261122


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder for journals, in memory where there is such: thousands of fsyncs."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="gdr-faults-", dir=shared if shared.is_dir() else None))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("nodes", "faults_wanted", "trials"),
    [
        pytest.param(*(FEW if laws.quick() else WHOLE), False, id="untried"),
        pytest.param(*(FEW if laws.quick() else WHOLE), True, id="tried-by-one-boot"),
    ],
)
def test_no_law_breaks_under_faults(
    memory: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, faults_wanted: int, *, trials: bool
) -> None:
    counts: Counter[str] = Counter()
    controllers, seed, unseen = 0, FIRST_SEED, {"all"}
    held = not trials or nodes == WHOLE[0]  # few faults among trials bring no rare kind
    while counts.total() < max(faults_wanted, FAULTS_MOST * bool(unseen and held)):
        of = Fleetful(seed, nodes, rate=0.12, trials=trials)
        with monkeypatch.context() as patched:
            patch(patched, of)
            run_to_the_end(of)
        shutil.rmtree(memory / "gdr-toolkit")
        counts += of.world.counts
        controllers += of.turns
        seed += 1
        kinds = {f"{act}: {fault}" for act, faults in of.world.faults.items() for fault in faults}
        unseen = kinds - counts.keys() - {"journal: disk full"}
    print(f"seeds {FIRST_SEED} to {seed - 1}: {seed - FIRST_SEED} fleets of {nodes} nodes,")
    print(f"{controllers} controllers, {counts.total()} faults: {dict(sorted(counts.items()))}")
    assert unseen == set() or not held
