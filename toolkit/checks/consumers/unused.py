"""Do the libraries of the node take GPU memory to the HCAs, as it stands in its own lines?

``choices`` says by each library's own rules what it would do; here that is a verdict.
"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.choices import choices
from toolkit.checks.consumers.chosen import Chosen, Group, Way, wanted
from toolkit.checks.consumers.consumers import NAMES, none_here
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.errors import unless_cut
from toolkit.facts.node.node import Node
from toolkit.want import Want

_SOURCE = (
    "NVIDIA/nccl src/graph/paths.cc, src/transport/net_ib; openucx/ucx src/uct/ib/base/ib_md.c"
)
_WITHOUT_CUDA = "it was built without CUDA"
_FIX = "the setting that is named, taken out; or HCAs below the switches of the GPUs, shown as such"


def _libraries(node: Node, want: Want) -> tuple[Chosen, ...]:
    """Those that carry GPU memory; a distribution's UCX, built without CUDA, carries none.

    :raises NoEvidence: where it cannot be told which there are, or what they rest on.
    """
    if not want.consumers:
        _ = node.libraries, node.ucx
    if not any(name in NAMES for name, *_ in wanted(node, want)):
        return ()
    # ``choices`` calls not known what it could not read; here that leaves the verdict open.
    _ = node.settings, node.pairs, node.rdma_hardware, node.memory_peers
    _usable(node, want)
    # Of GPUs before Ampere and of old versions alone: who does not tell it is no gap.
    unless_cut(lambda: node.nvlinked, None)
    return tuple(
        each
        for each in choices(node, want)
        if each.consumer in NAMES and _WITHOUT_CUDA not in each.reasons
    )


def _usable(node: Node, want: Want) -> bool:
    """Whether one path is usable; both are asked, since a library may see one alone."""
    gaps = peermem_gap(node), dmabuf_gap(node, want)
    return not all(gaps)


def _named(one: Chosen) -> str:
    return f"{NAMES[one.consumer]} {one.version}".strip()


def _lines(found: list[Chosen]) -> tuple[str, ...]:
    return tuple(f"{_named(each)}: {'; '.join(each.reasons)}; {each.origin}" for each in found)


def _dark(one: Chosen) -> tuple[Group, ...]:
    return tuple(each for each in one.near if each.way is Way.NONE)


def _idle(node: Node, want: Want, libraries: tuple[Chosen, ...]) -> str:
    if not libraries:
        return none_here(node, "NCCL, UCX or NVSHMEM")
    return "" if _usable(node, want) else "no path is usable for anybody: see path.selected"


@check("consumer.gdr", impact=Impact.BROKEN, source=_SOURCE, fix=_FIX)
def gdr(node: Node, want: Want) -> Finding:
    """No library of the node is sure to pass GPUDirect RDMA by, for all GPUs.

    A path may be usable and yet not be used: NCCL asks how far GPU and HCA are apart, which a
    guest with a flat PCI tree tells as PHB, and reads what is set for everybody (NCCL_IB_HCA,
    NCCL_NET_GDR_LEVEL). Judged are each GPU and the HCA nearest to it, as the report's lines
    "path" tell them. With a topology file or a network plugin in place of what is known here,
    it cannot be told. What a job sets for itself is not seen.
    """
    libraries = _libraries(node, want)
    if idle := _idle(node, want, libraries):
        return not_applicable(idle)
    dark = [each for each in libraries if each.way is Way.NONE]
    if dark:
        return failed(
            "; ".join(dict.fromkeys(f"{_named(e)}: {'; '.join(e.reasons)}" for e in dark)),
            expected="libraries that take GPU memory to the nearest HCA",
            hint=_hint(dark),
            details=_lines(dark),
        )
    told = [each for each in libraries if each.way is not Way.UNKNOWN]
    if hidden := [each for each in libraries if each.way is Way.UNKNOWN and _set(each)]:
        return unknown(
            "; ".join(dict.fromkeys(f"{_named(e)}: {'; '.join(e.reasons)}" for e in hidden)),
            hint="give what NCCL says itself: NCCL_DEBUG=INFO, --nccl-log",
        )
    if not told:
        return not_applicable(f"what they do is not known: {'; '.join(_lines([*libraries]))}")
    return passed(", ".join(dict.fromkeys(f"{_named(each)}: {each.way}" for each in told)))


def _set(one: Chosen) -> bool:
    return any(each.name in why for each in one.settings for why in one.reasons)


def _hint(dark: list[Chosen]) -> str:
    for one in dark:
        for each in one.settings:
            if any(each.name in why for why in one.reasons):
                return f"take {each.name} out of {each.file}, or set it to what is meant"
    far = any("the limit is" in why for one in dark for why in one.reasons)
    return (
        "HCAs below the switches of the GPUs; in a guest, a topology file of the provider "
        "(NCCL_TOPO_FILE), or NCCL_NET_GDR_LEVEL=PHB where host and IOMMU allow it"
        if far
        else ""
    )


@check("consumer.gdr_part", impact=Impact.SLOW, source=_SOURCE, fix=_FIX)
def gdr_part(node: Node, want: Want) -> Finding:
    """No library of the node passes GPUDirect RDMA by for some GPUs, or in one direction.

    The slowest GPU sets the pace of a collective, so one far from every HCA is felt by all.
    """
    libraries = _libraries(node, want)
    if idle := _idle(node, want, libraries):
        return not_applicable(idle)
    partly = [each for each in libraries if each.way is Way.MIXED and _dark(each)]
    if not partly:
        if all(each.way is Way.UNKNOWN for each in libraries):
            return not_applicable("what they do is not known: see consumer.gdr")
        return passed("none does so in part")
    texts = [f"{_named(one)}: {_part(one, group)}" for one in partly for group in _dark(one)]
    return failed(
        "; ".join(dict.fromkeys(texts)),
        expected="libraries that take GPU memory to the nearest HCA, both ways",
        hint=_hint(partly),
        details=_lines(partly),
    )


def _part(one: Chosen, group: Group) -> str:
    near = set(one.nearest)
    count = len(near & set(group.pairs)) or len(group.pairs)
    ways = " and ".join("sending" if d.value == "send" else "receiving" for d in group.directions)
    return f"{count} of {len(near) or count} GPUs, {ways}: {group.why}"
