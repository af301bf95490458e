"""What keeps GPUDirect from working on a node now, by either path."""

from __future__ import annotations

from toolkit.checks.check import Status
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.checks.gpu.gpu import gpu_class
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.facts.node.node import Node
from toolkit.want import Want


def path_gap(node: Node) -> str | None:
    """Why neither path is usable; "" where one is, None where it was not read."""
    peermem = read_or(lambda: peermem_gap(node), None)
    if peermem == "":
        return ""
    dmabuf = read_or(lambda: dmabuf_gap(node, Want()), None)
    if dmabuf == "":
        return ""
    if peermem is None or dmabuf is None:
        return None
    return f"peermem: {peermem}; dma-buf: {dmabuf}"


def gpu_gap(node: Node, address: str) -> str:
    """What the kind of a GPU says against it; "" where nothing does, or nothing tells."""
    try:
        finding = gpu_class.judge(node, Want())
    except (NoEvidence, Unparsable):
        return ""
    if finding.status is not Status.FAIL:
        return ""
    named = [each for each in finding.details if address in each]
    return finding.found if named or not finding.details else ""
