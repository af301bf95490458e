"""What is set up of the path that a node does not take, and does not work."""

from __future__ import annotations

from dataclasses import replace

from toolkit.checks.check import Finding, Impact, Status, check, failed, not_applicable, passed
from toolkit.checks.consumers.path import REGISTER, peermem_gap
from toolkit.checks.modules.loading import loadable
from toolkit.checks.modules.peermem import autoload
from toolkit.checks.rdma.makers import without_nvidia_peermem
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want


@check(
    "path.other",
    impact=Impact.FRAGILE,
    paths=frozenset({PeerPath.DMABUF}),
    source="systemd-modules-load.service(8); modules-load.d(5)",
    fix="mend nvidia-peermem (--profile peermem tells what it lacks), or take it out of the file "
    "that loads it at boot",
)
def other(node: Node, want: Want) -> Finding:
    """Where dma-buf is taken, nothing loads an nvidia-peermem at boot that does not load.

    GPUDirect works by dma-buf; but who has nvidia-peermem loaded at boot counts on it for
    libraries that cannot take dma-buf, and systemd-modules-load fails at each boot. With an
    RDMA stack that has no peer-memory interface the line is without effect, and nothing is lost.
    """
    if why := without_nvidia_peermem(node):
        return not_applicable(why)
    if not peermem_gap(node):
        return passed("nvidia-peermem works too")
    loads = autoload.judge(node, want)
    if loads.status is not Status.PASS:
        return not_applicable("nothing loads nvidia-peermem at boot")
    if REGISTER not in node.symbols:
        return not_applicable(
            f"{loads.found} asks for nvidia-peermem; the loaded RDMA stack has no interface for it"
        )
    if "nvidia_peermem" in node.modprobe.blacklisted:
        return not_applicable("nvidia-peermem is blacklisted, so that nothing loads it at boot")
    obstacle = _obstacle(node, want)
    return failed(
        f"not loaded, though {loads.found} loads nvidia-peermem at boot",
        expected="nvidia-peermem loaded, or not asked for",
        hint=obstacle.hint or f"modprobe nvidia-peermem, or take it out of {loads.found}",
        details=(obstacle.found,),
    )


def _obstacle(node: Node, want: Want) -> Finding:
    """What stands between it and modprobe, as the check of the other path tells it."""
    try:
        return loadable.judge(node, replace(want, path=PeerPath.PEERMEM))
    except (NoEvidence, Unparsable) as why:
        return not_applicable(str(why))
