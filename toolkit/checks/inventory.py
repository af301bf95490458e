"""Are all GPUs, NVSwitches and HCAs there that the machine is made of?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Finding, Impact, Status, check, failed, not_applicable, passed
from toolkit.checks.pci.pcie import lost_beside
from toolkit.checks.role import role
from toolkit.compat.gpus import GpuBoard, MachineType, board, boards, chip, machine_type
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.firmware.machine import guest_of
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.pcie_caps import card_in_slot
from toolkit.plural import counted
from toolkit.want import Role, Want

_DRAIN = "drain the node, run nvidia-bug-report.sh, boot it cold; exchange what stays away"


@check(
    "gpu.count",
    impact=Impact.SICK,
    source="toolkit/compat/data/machines.toml; Fabric Manager user guide, NVSwitch-based systems; "
    "nvidia-smi -L",
    fix=_DRAIN,
    needs_gpu=False,
)
def gpu_count(node: Node, want: Want) -> Finding:
    """Every GPU of the machine is on the PCI bus, answers there, and is in the driver's list.

    A GPU that has died is seen by nobody, and the others look healthy without it. What should
    be there is told by the machine's name (DGX, the sizes of clouds), by the NVSwitches of an
    HGX board, by the number of GPUs that such a board is built with, by empty ports beside HCAs
    where its other GPUs have theirs, and by a GPU that is still on the bus: whose config space
    reads as ff, or which the driver does not list. A guest has as many as its host gave it.
    Cards are as many as somebody plugged in: a slot among those of GPUs fails where it says that
    a card is in, and is told where it is empty.
    """
    if dead := _dead(node):
        return dead
    if not node.pci.whole:
        return not_applicable("an excerpt of lspci: how many there are is not told")
    gpus = node.pci.gpus
    should = _should(node, want)
    told = tuple(
        f"{port.address}: nothing below it; ports like it have a GPU each"
        for port in _empty(node, gpus)
    )
    if should and should.short_of:
        return failed(
            f"{should.there} of {should.short_of} GPUs on the PCI bus",
            expected=f"{should.short_of}, as {should.whose} has",
            details=(*told, *(f"{each.address} is there" for each in gpus)),
        )
    empty = (port.address for port in _empty(node, gpus, least=1))
    if full := [port for port in empty if _card_in(node, port)]:
        return failed(
            f"{counted(len(full), 'card')} without an answer, in slots like those of other GPUs",
            expected="every card answers",
            details=tuple(f"{port}: a card is in, and nothing is on the bus" for port in full),
        )
    if not gpus:
        return not_applicable("no NVIDIA GPU on the PCI bus, and no machine known to have one")
    finding = _by_driver(node, should)
    return replace(finding, details=told) if finding.status is Status.PASS else finding


def _dead(node: Node) -> Finding | None:
    dead = [each.address for each in node.pci.functions.values() if each.was_gpu and each.dead]
    if not dead:
        return None
    return failed(
        f"{counted(len(dead), 'GPU')} on the bus without an answer, config space all ff",
        expected="every GPU answers",
        details=tuple(f"{address}: lost" for address in dead),
    )


def _empty(node: Node, cards: Collection[PciFunction], least: int = 3) -> list[PciFunction]:
    """Ports of switches without anything below them, where every port like them has one of these.

    :param least: so many of them have one, else there is no telling what they are for.
    """
    functions = node.pci.functions
    above = [each.parents[-1] for each in functions.values() if len(each.parents) > 2]
    filled, holding = set(above), {each.parents[-1] for each in cards if each.parents[2:]}
    alike: dict[tuple[int, int, int, str], list[PciFunction]] = defaultdict(list)
    for each in functions.values():
        if each.is_bridge:
            alike[_place(each)].append(each)
    found: list[PciFunction] = []
    for ports in alike.values():
        empty = [port for port in ports if port.address not in filled]
        served = sum(port.address in holding for port in ports)
        if served >= least and served + len(empty) == len(ports):
            found += empty
    return found


def _beside_hcas(node: Node, ports: list[PciFunction]) -> list[PciFunction]:
    """Those of the empty ports whose switch has an HCA, as the switches of the GPUs have."""
    switches = [set(each.parents[1:]) for each in node.pci.functions.values() if each.was_hca]
    gpus = node.pci.gpus
    if not all(any(set(gpu.parents[1:-1]) & up for up in switches) for gpu in gpus):
        return []
    return [port for port in ports if any(set(port.parents[1:]) & up for up in switches)]


def _place(port: PciFunction) -> tuple[int, int, int, str]:
    """What ports have in common that are at the same place of equal switches."""
    return port.vendor, port.device, len(port.parents), port.address[-4:]


def _card_in(node: Node, port: str) -> bool:
    """Whether the port says so; the registers are an ordinary user's not to read."""
    try:
        config = node.pci_config.functions[port].config
        return config is not None and card_in_slot(config)
    except (NoEvidence, Unparsable):
        return False


def _by_driver(node: Node, should: _Should | None) -> Finding:
    count, held = len(node.pci.gpus), _held(node)
    listed = {row.address for row in node.gpu_rows} if held else set()
    if unlisted := [address for address in held if address not in listed]:
        return failed(
            f"{len(unlisted)} of {count} GPUs on the bus are not in the driver's list",
            expected="nvidia-smi -L lists every GPU",
            hint="dmesg | grep NVRM tells why; then " + _DRAIN,
            details=tuple(unlisted),
        )
    if should and should.may == {should.there}:
        return passed(f"{counted(count, 'GPU')}, as {should.whose} has")
    if not held:
        return not_applicable("how many GPUs this machine should have is not known")
    return passed(f"{counted(count, 'GPU')}, all in the list of the driver")


class _Should(Struct, frozen=True):
    """How many GPUs there should be, and how many of their kind there are."""

    may: frozenset[int]
    there: int
    whose: str

    @property
    def short_of(self) -> int:
        """The next larger number that there may be; 0 where nothing is missing."""
        more = [count for count in self.may if count > self.there]
        return min(more) if more and self.there not in self.may else 0


def _machine(node: Node) -> MachineType | None:
    """What DMI calls the machine; None for a name of no row, and for loose files without DMI."""
    if not node.has_dmi:
        return None
    return machine_type(node.dmi, frozenset(each.device for each in node.pci.gpus))


def _should(node: Node, want: Want) -> _Should | None:
    """What machine or board tell; None for cards in slots, and for a guest that was given some."""
    gpus, switches = node.pci.gpus, node.nvswitches
    if (kind := _machine(node)) is not None:
        chips = {None, *map(chip, kind.devices)}  # an id of another product of it, or a new one
        there = sum(chip(each.device) in chips for each in gpus)
        return _Should(_whole(node, kind.gpus, there), there, kind.name)
    if (built := _board(node)) is None:
        return None
    there = sum(each.device in built.devices for each in gpus)
    joined = len(switches) // built.switches * built.per if built.switches else 0
    if joined:
        whose = f"{built.name} with {len(switches)} NVSwitches"
        return _Should(frozenset({joined}), there, whose)
    guest = not node.role_told or role(node, want) is Role.VM
    carved = built.gpus if guest or not _on_bare_metal(node) else built.built or built.gpus
    may = _whole(node, carved, there)
    if not gpus or (guest and may == carved):
        return None
    return _Should(may, there, built.name)


def _whole(node: Node, may: frozenset[int], there: int) -> frozenset[int]:
    """How many there may be, where ports tell that those which are there are not all."""
    empty = _beside_hcas(node, _empty(node, node.pci.gpus, least=1))
    full = frozenset(each for each in may if each == there + len(empty))
    return (full or frozenset(each for each in may if each > there)) if empty else may


def _on_bare_metal(node: Node) -> bool:
    """Whether DMI names a maker of machines, rather than a hypervisor that hides elsewhere."""
    return node.has_dmi and bool(node.dmi.get("sys_vendor")) and not guest_of(node.dmi)


def _board(node: Node) -> GpuBoard | None:
    """The board that the GPUs stand on; where none is left, the one of the NVSwitches."""
    devices = frozenset(each.device for each in node.pci.gpus)
    switches = {each.device for each in node.nvswitches}
    of_switches = (each for each in boards() if not devices and each.nvswitch in switches)
    return board(devices) or next(of_switches, None)


def _held(node: Node) -> list[str]:
    """GPUs that NVIDIA's driver holds; none where nvidia-smi was not asked for its list."""
    if node.no_driver or not (node.has_gpu_rows or node.probed):
        return []
    return [each.address for each in node.pci.gpus if each.driver == "nvidia"]


@check(
    "nvidia.nvswitches",
    impact=Impact.SICK,
    source="toolkit/compat/data/machines.toml; Fabric Manager user guide, NVSwitch-based systems",
    fix="drain the node and boot it cold; if it stays away, the baseboard is to be exchanged",
)
def nvswitches(node: Node, want: Want) -> Finding:
    """Every NVSwitch of the GPU board is on the PCI bus, and answers there.

    With one missing the fabric manager refuses to start, or leaves GPUs out of the fabric. On
    a board whose NVSwitches are not on the node's bus nothing can be counted. A guest has those
    that it was given, and all where it is sold with all GPUs of the board.
    """
    built, there = _board(node), node.nvswitches
    dead = [each.address for each in node.pci.functions.values() if each.was_nvswitch and each.dead]
    if dead:
        return failed(
            f"{len(dead)} of {len(dead) + len(there)} NVSwitches on the bus without an answer",
            expected="every NVSwitch answers",
            details=tuple(f"{each}: config space all ff" for each in dead),
        )
    if built is None or not built.switches or not there:
        return not_applicable("no NVSwitch on the PCI bus, and none known to be missing")
    if role(node, want) is Role.VM and not _sold_whole(node, built):
        return not_applicable("a guest has those that its host gave it")
    full = -(-len(there) // built.switches) * built.switches
    if len(there) < full and node.pci.whole:
        return failed(
            f"{len(there)} of {full} NVSwitches on the PCI bus",
            expected=f"{full}, as {built.name} has",
            details=tuple(f"{each.address} is there" for each in there),
        )
    return passed(f"{len(there)} NVSwitches")


def _sold_whole(node: Node, built: GpuBoard) -> bool:
    kind = _machine(node)
    return kind is not None and kind.gpus == {built.per}


@check(
    "hca.count",
    impact=Impact.SICK,
    source="toolkit/compat/data/machines.toml; the PCI tree: what serves the other GPUs",
    fix="drain the node, boot it cold, reseat the card; exchange it if it stays away",
)
def hca_count(node: Node, want: Want) -> Finding:
    """Every HCA of the machine is on the PCI bus, and answers there.

    A dead HCA is seen by nobody, and its GPU takes a farther one. It shows by what serves the
    other GPUs: where most have an HCA behind their switch, the one without has lost it; and
    by the machine's name, for those that are sold with a fixed number. AWS attaches as many
    EFA as were asked for at the launch: these are told.
    """
    tree = node.pci
    dead = [each.address for each in tree.functions.values() if each.was_hca and each.dead]
    lost = lost_beside(node) or _lost_below(node)
    if dead or lost:
        return failed(
            f"{counted(max(len(dead), len(lost)), 'HCA')} lost",
            expected="an HCA beside every GPU, as beside the others",
            details=(
                *(f"{each}: on the bus without an answer, config space all ff" for each in dead),
                *lost.values(),
                *(f"{each.gpu.address}: has {each.hca.address}" for each in node.near_pairs),
            ),
        )
    kind = _machine(node)
    if kind is None:
        return _alike(node)
    there = [
        each
        for each in node.hcas
        if (not kind.infiniband or each.klass >> 8 == 0x0207)
        and (not kind.chips or each.device in kind.chips)
    ]
    if not there:
        return not_applicable(f"no HCA for its GPUs; {kind.name}: {kind.network}")
    if len(there) < kind.hcas:
        return failed(
            f"{len(there)} of {kind.hcas} HCAs on the PCI bus",
            expected=f"{kind.hcas} at least: {kind.name} has {kind.network}",
            details=tuple(f"{each.address} is there" for each in there),
        )
    return passed(counted(len(there), "HCA"), details=(f"{kind.name}: {kind.network}",))


def _lost_below(node: Node) -> dict[str, str]:
    """Empty ports at the place where most switches like theirs have an HCA, beside GPUs."""
    hcas = [each for each in node.pci.functions.values() if each.was_hca]
    gpus = [set(each.parents[1:]) for each in node.pci.gpus]
    near = [each for each in hcas if any(set(each.parents[1:-1]) & up for up in gpus)]
    empty = [
        port
        for port in _empty(node, near)
        if any(set(port.parents[1:]) & up for up in gpus) and node.pci.whole
    ]
    alike = Counter(map(_place, empty))
    holding = {each.parents[-1] for each in near} & node.pci.functions.keys()
    served = Counter(_place(node.pci.functions[port]) for port in holding)
    return {
        port.address: f"{port.address}: nothing answers below it; ports like it have an HCA each"
        for port in empty
        if served[_place(port)] > alike[_place(port)]
    }


def _alike(node: Node) -> Finding:
    """Of a machine with no known number: every GPU has one beside it, or none is told."""
    near = Counter(each.gpu.address for each in node.near_pairs)
    if not near or len(near) < len(node.pci.gpus):
        return not_applicable("how many HCAs this machine should have is not known")
    return passed(f"{counted(len(near), 'GPU', 'has', 'have')} an HCA behind the same switch")
