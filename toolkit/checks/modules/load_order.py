"""Is nvidia-peermem there before anybody's job can ask for it?"""

from __future__ import annotations

from toolkit.checks.check import (
    Finding,
    Impact,
    Status,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.modules.loading import PEERMEM_ONLY
from toolkit.checks.modules.peermem import autoload
from toolkit.facts.modules.load_order import OURS
from toolkit.facts.node.node import Node
from toolkit.want import Want


@check(
    "peermem.order",
    impact=Impact.FRAGILE,
    paths=PEERMEM_ONLY,
    source="systemd src/modules-load/modules-load.c; systemctl(1), show; bootup(7)",
    fix="load it by modules-load.d, or by a unit that slurmd and kubelet come after",
)
def order(node: Node, want: Want) -> Finding:
    """nvidia-peermem was loaded at boot before slurmd and kubelet began to start jobs.

    A job that finds no nvidia-peermem at its start does without it until its end, and copies
    through host memory. Told by the journal's note of the insertion, or by our unit that loads
    it, beside the times at which those services began. That systemd-modules-load ended well says
    nothing: it does so where it found no such module.
    """
    if node.unit_times is None:
        return not_applicable("neither slurmd nor kubelet is started by systemd at boot")
    begun = [(unit.began, name) for name, unit in node.starters if unit.began]
    if not begun:
        return not_applicable("neither slurmd nor kubelet has been started since the boot")
    when, service = min(begun)
    # When it was there at the latest, and by what we know.
    times = node.unit_times or {}
    found: list[tuple[float, str]] = []
    inserted = node.peermem_inserted
    if inserted.at:
        found.append((inserted.at, "inserted"))
    ours = times.get(OURS)
    if ours is not None and ours.active and ours.well and ours.done:
        found.append((ours.done, f"{OURS} was up"))
    there = min(found, default=None)
    if there is None:
        return _nowhere(node, want, f"loaded before {service} began, {when:.1f} s after the boot")
    known = f"{there[1]} {there[0]:.1f} s after the boot"
    if there[0] <= when:
        return passed(f"{known}, {service} began at {when:.1f} s")
    return failed(known, expected=f"before {service} began, at {when:.1f} s")


def _nowhere(node: Node, want: Want, expected: str) -> Finding:
    """What is said where nothing shows that it was loaded at boot."""
    if node.peermem_inserted.refused:
        return failed(node.peermem_inserted.refused, expected=expected)
    if autoload.judge(node, want).status is Status.FAIL:
        return not_applicable("nothing loads it at boot; see peermem.autoload")
    return unknown(
        "the journal does not tell when it was loaded",
        hint="name it in /etc/modules-load.d; a journal that has let go of its boot says it again"
        " after the next",
    )
