"""Whose HCAs serve the GPUs, which of them lie idle, and by which module these are reached."""

from __future__ import annotations

from toolkit.compat.reader import Compat, HcaMaker, maker, shipped
from toolkit.errors import NoEvidence, Unparsable, read_or, unless_cut
from toolkit.facts.fact import once
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.want import PeerPath, Want

CONNECTX, NVIDIA_PEERMEM = "mlx5", "nvidia_peermem"
NOT_CONNECTX = "no ConnectX here: OFED's kernel modules are nothing to the HCAs of other makers"


@once
def serving(node: Node) -> tuple[RdmaDevice, ...]:
    """The HCAs that serve GPUs, where topology tells which those are; else all.

    An unused management or storage port is no fault, and a device of software is no HCA.
    """
    devices = node.rdma_hardware
    if not any(each.address for each in devices):
        return devices  # as a tool printed them: without a place on the PCI bus
    near = {each.hca.address for each in node.near_pairs if not each.hca.virtual}
    near = near or {each.address for each in node.compute_hcas}
    return tuple(each for each in devices if each.address in near) or devices


def unused_boards(node: Node, judged: tuple[RdmaDevice, ...]) -> set[str]:
    """Boards without any link, where each GPU has a card of a board in use that there are more of.

    A card for storage below a GPU's own switch may lie idle; rails that are all down may not.
    """
    cards: dict[str, set[str]] = {}
    for each in judged:
        cards.setdefault(each.board, set()).add(each.place[0])
    linked = {each.board for each in judged if any(_linked(one) for one in each.ports)}
    idle = cards.keys() - linked - {""}
    if not idle or not node.knows_pci:
        return set()
    boards = {each.address: each.board for each in judged if each.address}
    near = [(each.gpu, boards.get(each.hca.address)) for each in node.near_pairs] if boards else []
    used = [
        len(cards[board])
        for board in linked
        if {gpu.address for gpu, its in near if its == board} == {e.address for e in node.pci.gpus}
    ]
    return {board for board in idle if len(cards[board]) < max(used, default=0)}


def _linked(port: Port) -> bool:
    return port.up or port.phys_state == "LinkUp"


def spares(judged: tuple[RdmaDevice, ...], unused: set[str]) -> list[RdmaDevice]:
    """Without a link, while the card's other function is up and no equal card has this one up.

    Where another card uses both its ports, the one that is down is missed; and one that has
    a link and waits for a subnet manager is in use.

    :param unused: boards that are spare as a whole.
    """
    cards = {each.place[0] for each in judged if any(one.up for one in each.ports)} - {""}
    used = {(each.board, each.place[1]) for each in judged if any(one.up for one in each.ports)}
    return [
        each
        for each in judged
        if each.board in unused
        or (
            not any(_linked(one) for one in each.ports)
            and each.place[0] in cards
            and (each.board, each.place[1]) not in used
        )
    ]


def makers(node: Node, compat: Compat | None = None) -> dict[str, HcaMaker | None]:
    """By kernel driver, whose HCAs serve the GPUs; None where nobody knows the driver.

    Without an RDMA device it is the ids of PCI functions that tell.
    """
    rows, functions = compat or shipped(), node.pci.functions
    driven = {each.address: functions[each.address] for each in serving(node)
              if each.address in functions}  # fmt: skip
    found = {}
    for each in driven.values() or node.hcas:
        known = rows.provider(each.driver) or maker(each.vendor, each.device)
        found[each.driver or f"{each.vendor:04x}:{each.device:04x}"] = known
    return dict(sorted(found.items()))


def maker_of(node: Node, address: str) -> HcaMaker | None:
    """Whose HCA a PCI function is; None where nobody knows, or the evidence has no PCI bus."""
    try:
        each = node.pci.functions[address]
    except (KeyError, NoEvidence, Unparsable):
        return None
    return shipped().provider(each.driver) or maker(each.vendor, each.device)


@once
def told(node: Node) -> dict[str, HcaMaker | None]:
    """The same, or {} where the evidence does not tell: an image has no HCA yet.

    :raises CutOff: where the evidence ends before it could tell.
    """
    if not node.live:
        return {}
    return unless_cut(lambda: makers(node), {})


@once
def has_connectx(node: Node) -> bool:
    """Whether an HCA is one of mlx5, or may be."""
    here = told(node).values()
    return not here or any(each is None or each.id == CONNECTX for each in here)


def rdma_modules(node: Node) -> tuple[str, ...]:
    """What makes RDMA devices of the HCAs here; the modules of ConnectX where none is known."""
    names = [name for each in told(node).values() if each is not None for name in each.modules]
    return tuple(dict.fromkeys(names)) or ("mlx5_core", "mlx5_ib")


@once
def without_nvidia_peermem(node: Node) -> str:
    """Why nvidia-peermem is nothing to any HCA here; "" where it is, or where none is known.

    :raises CutOff: where the evidence ends before it could tell.
    """
    here = told(node)
    known = [each for each in here.values() if each is not None]
    if not known or len(known) < len(here) or any(e.client == NVIDIA_PEERMEM for e in known):
        return ""
    clients = {each.id: each.client for each in known}
    ways = (
        f"{name} takes {client} or dma-buf" if client else f"{name} takes dma-buf"
        for name, client in clients.items()
    )
    return f"{', '.join(ways)}, not nvidia-peermem"


@once
def legacy_serves(node: Node) -> str:
    """Why nvidia-peermem is not missed: its forerunner serves, and is seen to; "" where not.

    The file is what NCCL looks for; OFED from 24.04 on makes none, so that none sees the module.
    """
    states = read_or(lambda: node.module_state, {})
    alone = "nv_peer_mem" in states and "nvidia_peermem" not in states
    if not alone or states["nv_peer_mem"].initstate != "live":
        return ""
    if not any("/nv_mem/" in each for each in read_or(lambda: node.memory_peers, ())):
        return ""
    return "nv_peer_mem, which came before nvidia-peermem, serves in its place"


def way_of_peermem(node: Node) -> str:
    """How peer memory is come by, where dma-buf is not to be had; "" where it may be by no way.

    :raises CutOff: where the evidence ends before it could tell.
    """
    if not without_nvidia_peermem(node):
        return "use the peermem path: --profile peermem"
    clients = {each.client for each in told(node).values() if each is not None}
    if not all(clients):
        return ""
    return f"use the peermem path, by {' and '.join(sorted(clients))}: --profile peermem"


def takes_nvidia_peermem(node: Node, want: Want) -> bool:
    """Whether that module is part of the path that is wanted, or that the node takes.

    :raises CutOff: where the evidence ends before it could tell.
    """
    unused = without_nvidia_peermem(node) or legacy_serves(node)
    return want.path is PeerPath.PEERMEM and not unused
