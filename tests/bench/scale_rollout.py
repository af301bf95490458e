"""What a rollout costs its controller beside the nodes: ``python -m tests.bench.scale_rollout``.

The loop, the journal and the books of the budget are the real ones, on the disk of the state
folder; the nodes take no time at all and say nothing. So what is left is the controller's own.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from toolkit.errors import ExitCode, Outcome
from toolkit.hosts.host import Host
from toolkit.progress import Silent
from toolkit.rollout.budget import Budget
from toolkit.rollout.claims import claim
from toolkit.rollout.events import HostLedger
from toolkit.rollout.journal import About, Event, Journal, stamp
from toolkit.rollout.plan.batches import Past, Phase, Standing, Terms
from toolkit.rollout.run import Brakes, Ending, HostWorkers, Rollout

BOOT_ID = "5ac1b1a8-2b6f-4b0e-9d0e-0123456789ab"
TOLD = '{"plans": ["' + "x" * 900 + '"]}'  # what a plan and an end say of a node, about
_TURN = (Phase.DRAINING, Phase.DRAINED, Phase.APPLYING, Phase.REBOOTING, Phase.LOOKING)


@dataclass(frozen=True, slots=True)
class Own:
    """The controller's own part of one rollout."""

    nodes: int
    wall_s: float
    cpu_s: float
    events: int  # a node
    journal_bytes: int  # a node
    written: int  # transactions a node, each on the disk before the next
    each_ms: float  # a transaction


class _Instant(HostWorkers[Ending]):
    """Each host is through at once; its journal is written as that of a real turn."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._through: deque[str] = deque()

    def begin(self, host: Host) -> None:
        ledger = HostLedger(self._journal, host.name, Past())
        for phase in _TURN:
            ledger.about_to(phase, BOOT_ID)
        ledger.ran("20261121T220001Z-77")
        ledger.about_to(Phase.UNDRAINING)
        self._through.append(host.name)

    def next(self, limit_s: float) -> Outcome[Ending] | None:
        return Outcome(self._through.popleft(), SimpleNamespace(exit_code=ExitCode.OK))


def rolled(nodes: int, place: Path, *, budget: int = 64) -> Own:
    """One rollout over so many nodes, one canary and the rest in one batch."""
    names = tuple(f"n{at:06d}" for at in range(nodes))
    hosts = {name: Host(name) for name in names}
    terms = Terms((names[:1], names[1:]), budget, 0, 64)
    wall, cpu = time.monotonic(), time.process_time()
    run = f"run-{nodes}"
    with (
        claim(place, run, "op@here", names, alone=True),
        Journal.create(place / run, About("provision", "op@here", stamp())) as journal,
        Budget.open(place, run, budget) as shared,
    ):
        journal.add_batches(terms.batches)
        journal.add(*(Event(name, Phase.PLANNED.value, detail=TOLD) for name in names))
        done = Rollout(
            terms,
            Standing(),
            hosts,
            _Instant(journal),
            lambda outcome: outcome.ok,
            lambda outcome, _: Event(outcome.host, Phase.DONE.value, detail=TOLD),
            journal,
            Brakes(),
            Silent(),
            shared,
        ).roll()
        assert len(done.outcomes) == nodes
        assert not done.halt
        events = len(journal.story().events) // nodes
        size = (place / run / "journal.sqlite").stat().st_size // nodes
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    writes = events - 1 + 2  # the plans are written together; two more are the budget's
    return Own(nodes, wall, cpu, events, size, writes, 1000 * wall / nodes / writes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="100,1000")
    for count in map(int, parser.parse_args().nodes.split(",")):
        with tempfile.TemporaryDirectory(dir=os.environ.get("GDR_BENCH_DIR")) as name:
            own = rolled(count, Path(name))
        print(
            f"{own.nodes} nodes: {own.wall_s:.1f} s, processor {own.cpu_s:.1f} s; a node: "
            f"{own.events} events, {own.journal_bytes} bytes, {own.written} transactions of "
            f"{own.each_ms:.1f} ms"
        )


if __name__ == "__main__":
    main()
