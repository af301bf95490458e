"""Fleets to look at: one node of each captured kind, and a thousand with noise of their own."""

from __future__ import annotations

from msgspec.structs import replace

from tests.unit.fleets import TODAY, WHEN, capture, named, page_of
from toolkit.checks.judged import judge_node
from toolkit.errors import Outcome, TransportError
from toolkit.evidence import Evidence
from toolkit.features.page.show.parts import Page
from toolkit.features.page.show.seen import Seeing, SeenNode
from toolkit.features.page.show.view import make
from toolkit.want import Want

KINDS = ("healthy", "stub", "acs", "rocky", "kernel", "noroot", "replaced")
EVIL = "</script><script>alert(1)</script>\x1b[2J\u202e"
LOST = TransportError("gpu-lost: no route to host", hint="is it on?")


def few() -> Page:
    """One of each kind, one out of reach, and one whose words mean harm."""
    frames = capture("stub").frames
    hostile = Evidence(frames, complete=True).plus(
        replace(frames[key], text=f"{EVIL}\n") for key in ("module-state", "dmesg", "hostname")
    )
    nodes = [(f"gpu-{kind}", capture(kind)) for kind in KINDS]
    return page_of([*nodes, (f"gpu-{EVIL}", hostile)], [("gpu-lost", LOST)])


def thousand(count: int = 1000) -> Page:
    """One in ten is ill; what each says of it has words of its own, as logs have."""
    want = Want()
    seeing = Seeing(want)
    seen = [
        seeing.see(judge_node(kind, capture(kind), want, TODAY), capture(kind)) for kind in KINDS
    ]
    outcomes: list[Outcome[SeenNode]] = []
    for number in range(count):
        name = f"gpu{number:04d}"
        if number % 200 == 77:
            outcomes.append(Outcome(name, error=LOST))
            continue
        kind = seen[1 + number // 10 % (len(seen) - 1)] if number % 10 == 9 else seen[0]
        outcomes.append(Outcome(name, _noisy(named(kind, name), number)))
    return make(outcomes, seeing.passing, "peermem", WHEN)


def _noisy(seen: SeenNode, number: int) -> SeenNode:
    """The same node with a line of its own in all that it says."""
    behind = tuple(
        (check, tuple(replace(e, text=f"[{number}.000000]\n{e.text}") for e in excerpts))
        for check, excerpts in seen.behind
    )
    return replace(seen, behind=behind)
