"""What a node has of each thing that a site may expect, and whether that is enough.

Ports, their HCAs' links and firmware are those that serve GPUs, as far as topology tells which
those are: a card for storage or management may be slower.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from toolkit.checks.rdma.makers import serving
from toolkit.errors import NoEvidence, unless_cut
from toolkit.expect import ExpectKey, Value, begins, link, size, words
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction, PciTree
from toolkit.facts.pci.topology import Hop
from toolkit.facts.rdma.devices import Port, RdmaDevice

_HEADERS = 76  # bytes around a RoCE packet: include/rdma/ib_addr.h, iboe_get_mtu


class Seen(Struct, frozen=True):
    """One thing that a node has; of a count there is one, without a name."""

    item: str  # "0000:19:00.0", "mlx5_0 port 1"
    value: Value | None  # None: not told
    other: Value = ""  # by which it may be named too: a board's id, an MTU of the other kind
    note: str = ""  # what a reader should know of it


def _tree(node: Node) -> PciTree:
    """The PCI bus, where all of it was read.

    :raises NoEvidence: an excerpt proves no absence.
    """
    if not node.pci.whole:
        raise NoEvidence("lspci: an excerpt does not tell what is not there", hint="lspci -vvv")
    return node.pci


def _gpus(node: Node) -> tuple[Seen, ...]:
    """Those that answer: a dead one keeps its place on the bus until the next boot."""
    gone = _mute(node)
    if not node.knows_pci:
        there = set(node.gpu_chips)
        return _living(there, gone & there)
    gpus = [each for each in _tree(node).functions.values() if each.was_gpu]
    # GPUs that the driver holds and nvidia-smi does not list; none where it did not answer.
    rows = unless_cut(lambda: node.gpu_rows if node.has_gpu_rows else (), ())
    held = {each.address for each in node.pci.gpus if each.driver == "nvidia"}
    unlisted = held - {row.address for row in rows} if rows else set()
    gone |= {each.address for each in gpus if each.dead} | unlisted
    there = {each.address for each in gpus}
    return _living(there, gone & there)


def _living(there: set[str], gone: set[str]) -> tuple[Seen, ...]:
    does = "does" if len(gone) == 1 else "do"
    note = (
        f"{len(there)} on the PCI bus; {', '.join(sorted(gone))} {does} not answer" if gone else ""
    )
    return (Seen("", len(there) - len(gone), note=note),)


def _mute(node: Node) -> set[str]:
    """GPUs that their driver lost: the kernel log and nvidia-smi name them.

    One that fell off the bus and came back with a reset is listed with all its values.
    """
    rows = unless_cut(lambda: node.gpu_rows, ())
    said = unless_cut(lambda: node.smi_said, None)
    sound = {row.address for row in rows if not row.errors}
    gone = {row.address for row in rows if row.errors} | set(said.addresses if said else ())
    gone |= {each.address for each in unless_cut(lambda: node.fallen_gpus, ())}
    nameless = "" in gone or bool(said and said.lost and not said.addresses)
    if nameless and not sound:
        raise NoEvidence("a GPU is lost, and which one is not told", hint="nvidia-smi -L")
    return gone - sound - {""}


def _gpu_model(node: Node) -> tuple[Seen, ...]:
    names = {row.address: row.name for row in unless_cut(lambda: node.gpu_rows, ())}
    if not node.knows_pci:
        return tuple(Seen(address, name) for address, name in names.items())
    return tuple(
        Seen(each.address, names.get(each.address), f"{each.vendor:04x}:{each.device:04x}")
        for each in node.pci.gpus
    )


def _nvswitches(node: Node) -> tuple[Seen, ...]:
    found = [each for each in _tree(node).functions.values() if each.was_nvswitch]
    dead = {each.address for each in found if each.dead}
    return _living({each.address for each in found}, dead)


def _gpu_link(node: Node) -> tuple[Seen, ...]:
    """An idle GPU lowers its speed: what counts is what both ends can, and the width."""
    tree = node.pci
    return tuple(_linked(each, (tree.bridges_above(each) or (each,))[-1]) for each in tree.gpus)


def _linked(function: PciFunction, above: PciFunction) -> Seen:
    now = Hop(function, above).now
    return Seen(function.address, str(now) if now.width and now.speed else None)


def _bar1(node: Node) -> tuple[Seen, ...]:
    return tuple(
        Seen(gpu.address, f"{largest >> 20} MiB" if largest else None)
        for gpu in node.pci.gpus
        for largest in [max((bar.size for bar in gpu.bars), default=0)]
    )


def _hcas(node: Node) -> tuple[Seen, ...]:
    """Without virtual functions, which come and go."""
    if not node.knows_pci:
        return (Seen("", len(node.rdma_hardware)),)
    functions = _tree(node).functions.values()
    lost = {each.address for each in functions if each.was_hca and each.dead and not each.virtual}
    own = {each.address for each in node.hcas if not each.virtual}
    return _living(own | lost, lost)


def _ports_up(node: Node) -> tuple[Seen, ...]:
    functions = node.pci.functions if node.knows_pci else {}
    own = (
        each
        for each in node.rdma_hardware
        if each.address not in functions
        or not (functions[each.address].virtual or functions[each.address].dead)
    )
    return (Seen("", sum(port.up for each in own for port in each.ports)),)


def _up(node: Node) -> tuple[tuple[RdmaDevice, Port], ...]:
    return tuple((each, port) for each in serving(node) for port in each.ports if port.up)


def _named(device: RdmaDevice, port: Port) -> str:
    return f"{device.name} port {port.number}"


def _of_ports(node: Node, tell: Callable[[Port], Value | None]) -> tuple[Seen, ...]:
    return tuple(Seen(_named(device, port), tell(port)) for device, port in _up(node))


def _mtu(node: Node) -> tuple[Seen, ...]:
    """Of the port; beside it that of its net device, which tells the port's on Ethernet."""
    seen = []
    for device, port in _up(node):
        net = _net_mtu(node, device) if port.link_layer == "Ethernet" else 0
        active = port.active_mtu or _by_devinfo(node, device, port) or _fitting(net)
        seen.append(Seen(_named(device, port), active or None, net))
    return tuple(seen)


def _by_devinfo(node: Node, device: RdmaDevice, port: Port) -> int:
    if node.devinfo_failed:
        return 0
    same = node.devinfo.get(device.name) if node.devinfo else None
    ports = same.ports if same else ()
    return next((one.active_mtu for one in ports if one.number == port.number), 0)


def _net_mtu(node: Node, device: RdmaDevice) -> int:
    known = [node.net_devices[name] for name in device.netdevs if name in node.net_devices]
    return known[0].mtu if known else 0


def _fitting(net: int) -> int:
    """The largest MTU of RoCE that fits into the net device's."""
    return max((each for each in (256, 512, 1024, 2048, 4096) if each + _HEADERS <= net), default=0)


def _driver(node: Node) -> tuple[Seen, ...]:
    return (Seen("", str(node.driver.version)),) if node.driver else ()


def _ofed(node: Node) -> tuple[Seen, ...]:
    told = node.ofed
    return (Seen("", " ".join(filter(None, (told.flavour.value, str(told.version or ""))))),)


SEEN: dict[ExpectKey, Callable[[Node], tuple[Seen, ...]]] = {
    ExpectKey.GPUS: _gpus,
    ExpectKey.GPU_MODEL: _gpu_model,
    ExpectKey.NVSWITCHES: _nvswitches,
    ExpectKey.GPU_LINK: _gpu_link,
    ExpectKey.BAR1: _bar1,
    ExpectKey.HCAS: _hcas,
    ExpectKey.HCA_LINK: lambda node: tuple(_linked(each, each) for each in node.compute_hcas),
    ExpectKey.FIRMWARE: lambda node: tuple(
        Seen(e.name, e.firmware or None, e.board or e.type) for e in serving(node)
    ),
    ExpectKey.PORTS_UP: _ports_up,
    ExpectKey.LINK_LAYER: lambda node: _of_ports(node, lambda port: port.link_layer or None),
    ExpectKey.RATE: lambda node: _of_ports(node, lambda port: port.gbits or None),
    ExpectKey.MTU: _mtu,
    ExpectKey.DRIVER: _driver,
    ExpectKey.OFED: _ofed,
    ExpectKey.KERNEL: lambda node: (Seen("", node.kernel),),
}


def meets(key: ExpectKey, expected: Value, seen: Seen) -> bool | None:
    """Whether it is what is expected, or more of what cannot be too much; None: not told.

    A count, a link layer and a version are met by themselves alone: one GPU too many is as odd
    as one too few. Rates, links and BAR1 are met by more.
    """
    if key is ExpectKey.GPU_MODEL:
        return _is_model(str(expected), seen)
    if key is ExpectKey.FIRMWARE and isinstance(expected, tuple):
        wanted = dict(expected).get(str(seen.other))
        return True if wanted is None else _begins(seen, wanted)
    if key is ExpectKey.MTU and isinstance(expected, int) and expected > 4096:
        return seen.other == expected if seen.other else None
    if seen.value is None:
        return None
    if key in {ExpectKey.FIRMWARE, ExpectKey.DRIVER, ExpectKey.KERNEL}:
        return _begins(seen, str(expected))
    measure = _MEASURES.get(key)
    return seen.value == expected if measure is None else measure(expected, seen.value)


def _begins(seen: Seen, wanted: str) -> bool | None:
    return None if seen.value is None else begins(str(seen.value), wanted)


def _is_model(expected: str, seen: Seen) -> bool | None:
    """Every word of it is one of the name, or it is the PCI id."""
    if expected.lower() == seen.other:
        return True
    if ":" in expected and seen.other:
        return False
    if seen.value is None:
        return None
    return set(words(expected)) <= set(words(str(seen.value)))


def _carries(wanted: Value, have: Value) -> bool:
    speed, width = link(str(have))
    least, lanes = link(str(wanted))
    return speed >= least and width >= lanes


def _same_ofed(wanted: Value, have: Value) -> bool:
    flavour, _, version = str(have).partition(" ")
    other, _, branch = str(wanted).partition(" ")
    return flavour == other and (not branch or begins(version, branch))


_MEASURES: dict[ExpectKey, Callable[[Value, Value], bool]] = {
    ExpectKey.RATE: lambda want, have: float(str(have)) >= float(str(want)),
    ExpectKey.BAR1: lambda want, have: size(str(have)) >= size(str(want)),
    ExpectKey.GPU_LINK: _carries,
    ExpectKey.HCA_LINK: _carries,
    ExpectKey.OFED: _same_ofed,
}
