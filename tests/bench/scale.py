"""Fleets larger than one controller, simulated: ``python -m tests.bench.scale``.

Prints the tables of docs/scale.md. Seeded: the same constants give the same tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from tests.bench.scale_engines import (
    CONTROLLER,
    c,
    change,
    constants,
    look,
    shared_machine,
    ssh,
    times,
    ways,
)

# What scale_measure said: nodes, fanout, seconds from the first evidence to the last. The rows of
# 100 nodes are those that the constants were taken from.
MEASURED = ((100, 64, 5.1), (300, 64, 18.2), (1000, 64, 54.8), (1000, 256, 62.8))
SIZES = (1_000, 10_000, 100_000)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """As Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def span(seconds: float) -> str:
    """A time in the unit that fits."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def validation() -> Iterator[str]:
    """What was measured, beside what the simulation makes of constants taken at 100 nodes."""
    rows = []
    for nodes, fanout, wall in MEASURED:
        said = shared_machine(nodes, fanout)
        off = f"{100 * (said - wall) / wall:+.0f} %"
        rows.append((f"{nodes:,}", str(fanout), f"{wall:.1f}", f"{said:.1f}", off))
    yield from table(("nodes", "at once", "measured, s", "simulated, s", "off by"), rows)


def looks() -> Iterator[str]:
    """How long one look at the whole fleet takes."""
    rows = []
    for at in range(len(ways(1))):
        runs = [look(ways(size)[at], size) for size in SIZES]
        rows.append((ways(SIZES[-1])[at].engine.name, *(span(run.seconds) for run in runs)))
    yield from table(("way", *(f"{size:,} nodes" for size in SIZES)), rows)


def rollouts(share: float = 0.01) -> Iterator[str]:
    """How long a change with a reboot takes, within a budget of a share of the fleet."""
    rows = []
    for at in range(len(ways(1))):
        cells = []
        for size in SIZES:
            run = change(ways(size)[at], size, max(1, int(size * share)), times(fails=0.0))
            cells += [span(run.seconds), f"{run.most_in_hand * ways(size)[at].together:,}"]
        rows.append((ways(SIZES[-1])[at].engine.name, *cells))
    head = [word for size in SIZES for word in (f"{size:,} nodes", "in hand")]
    yield from table(("way", *head), rows)


def limits() -> Iterator[str]:
    """What one controller needs for so many nodes in hand, and how busy it is."""
    rows = []
    for fanout in (64, 256, 1000, 4000):
        way = ssh(fanout)
        run = change(way, 20 * fanout, fanout, times(fails=0.0))
        rows.append(
            (
                f"{fanout:,}",
                f"{c('controller_memory') + (fanout - 64) * c('hand_memory'):,.0f} MiB",
                f"{20 + fanout * c('hand_descriptors'):,.0f}",
                f"{fanout * c('hand_threads'):,.0f}",
                f"{100 * run.busy[CONTROLLER]:.1f} %",
                span(look(way, 10_000).seconds),
            )
        )
    head = ("at once", "memory", "descriptors", "threads", "a core, in a rollout")
    yield from table((*head, "10,000 nodes read in"), rows)


def sensitivity(size: int = 10_000) -> Iterator[str]:
    """What changes when a guess is wrong: one at a time, one controller beside Slurm."""
    cases = [
        ("as it stands", 0.01, {}),
        ("budget 0.1 %", 0.001, {}),
        ("budget 5 %", 0.05, {}),
        ("no jobs: a maintenance window", 0.01, {"drain_s": 0.0}),
        ("jobs four times as long", 0.01, {"drain_s": 4 * c("drain")}),
        ("modules delivered, not built", 0.01, {"apply_s": 20.0}),
        ("reboots twice as long", 0.01, {"reboot_s": 2 * c("reboot")}),
        ("0.5 % of nodes fail", 0.01, {"fails": 0.005}),
        ("2 % of nodes fail", 0.01, {"fails": 0.02}),
    ]
    rows = []
    for name, share, other in cases:
        taken = times(**({"fails": 0.0} | other))
        cells = []
        for way in (ssh(64), ways(size)[2]):
            run = change(way, size, int(size * share), taken)
            halted = f", halted with {run.left:,} left" if run.left else ""
            cells.append(span(run.seconds) + halted)
        rows.append((name, *cells))
    yield from table(("10,000 nodes", "one controller, 64 at once", "Slurm array"), rows)


def volumes() -> Iterator[str]:
    """Bytes that a fleet's evidence and journals come to."""
    rows = []
    for size in SIZES:
        raw, packed = (size * c(f"evidence_{how}") / 1024 for how in ("raw", "gzip"))
        journal = size * c("journal_node") / 2**20
        writes = size * c("journal_writes") * c("journal_write")
        cells = (f"{raw:,.0f} MiB", f"{packed:,.0f} MiB", f"{packed * 365 / 1024:,.1f} GiB")
        rows.append((f"{size:,}", *cells, f"{journal:,.0f} MiB", span(writes)))
    head = ("nodes", "one look", "gzipped", "a look a day, a year")
    yield from table((*head, "journal of a rollout", "its writes, one by one"), rows)


def used() -> Iterator[str]:
    """The constants."""
    rows = [
        (f"`{each.name}`", f"{each.value:g} {each.unit}", each.kind, each.source)
        for each in constants().values()
    ]
    yield from table(("constant", "value", "kind", "source"), rows)


TABLES = {
    "validation": validation,
    "looks": looks,
    "rollouts": rollouts,
    "limits": limits,
    "sensitivity": sensitivity,
    "volumes": volumes,
    "constants": used,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}")
    for name in parser.parse_args().tables or TABLES:
        print(f"\n{name}\n")
        print("\n".join(TABLES[name]()), flush=True)


if __name__ == "__main__":
    main()
