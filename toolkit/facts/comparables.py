"""What can be told of a node in one word each, so that nodes can be laid side by side.

A topic is a group of traits that are read from the same sources. What names one machine
alone (its name, its boot, GUIDs, serial numbers) is no trait of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import starmap

from msgspec import Struct

from toolkit.errors import NoEvidence, read_or
from toolkit.facts.boot.next_boot import DRACUT, MARK, RESET
from toolkit.facts.nccl.consumers import Setting
from toolkit.facts.node.node import Node
from toolkit.facts.pci.config_space import Acs
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.facts.rdma.roce import PKEYS_READ, Gid

NVME = 0x0108  # class and subclass
NO_DRIVER = "not loaded"


class Trait(Struct, frozen=True):
    item: str  # what it is of: "nvidia", "0000:19:00.0"; "" where the topic says it all
    value: str | None  # None: could not be read, which is no value


class Topic(Struct, frozen=True):
    """One kind of trait."""

    name: str  # "ACS control"
    read: Callable[[Node], Iterable[Trait]]
    placed: bool = False  # its items are PCI addresses


def _system(node: Node) -> Iterator[Trait]:
    yield Trait("distribution", node.distro.pretty)
    yield Trait("kernel", node.kernel)


def _firmware(node: Node) -> Iterator[Trait]:
    for name in ("sys_vendor", "product_name", "board_name", "bios_version", "bios_date"):
        if name in node.dmi:
            yield Trait(name, node.dmi[name])


# What an installer, a network boot or a disk makes different on every machine.
_OF_ONE_HOST = re.compile(
    r"(BOOT_IMAGE|initrd|root|resume|ip|ifname|BOOTIF|hostname|hostid|netroot|rd\.\w+\.uuid|rd\.lvm\.lv"
    r"|rd\.luks\S*|ds|url|inst\.\S*|ksdevice|bootdev|cloud-config-url|nfsroot|systemd\.hostname"
    r"|systemd\.machine_id|gdr_toolkit\.trial)(=|$)"
)


def _arguments(node: Node) -> Iterator[Trait]:
    values: dict[str, list[str]] = {}
    ours = {RESET, *DRACUT} if node.trial else set()  # of one boot; its next has none of them
    for word in node.cmdline.words:
        if not _OF_ONE_HOST.match(word) and word not in ours:
            name, _, value = word.partition("=")
            values.setdefault(name, []).append(value or "given")
    for name, found in sorted(values.items()):
        yield Trait(name, " ".join(found))


def _driver(node: Node) -> str:
    return f"{node.driver.version} {node.driver.flavor}" if node.driver else NO_DRIVER


def _driver_options(node: Node) -> Iterator[Trait]:
    if node.driver is not None:
        for name, value in sorted(node.driver_params.items()):
            yield Trait(name, value or '""')


def _modules(node: Node) -> Iterator[Trait]:
    for name, state in node.module_state.items():
        told = (state.version, state.srcversion or state.build_id)
        yield Trait(name, " ".join(filter(None, told)) or "loaded")


def _dkms(node: Node) -> Iterator[Trait]:
    states: dict[str, list[str]] = {}
    for each in node.dkms:
        what = f"{each.version} {each.state}" + (f" for {each.kernel}" if each.kernel else "")
        states.setdefault(each.module, []).append(what)
    yield from (Trait(name, ", ".join(sorted(found))) for name, found in sorted(states.items()))


def _modprobe(node: Node) -> Iterator[Trait]:
    options: dict[str, list[str]] = {}
    for module, text in node.modprobe.options:
        if module != MARK.partition(".")[0]:  # modprobe tells of the command line, too
            options.setdefault(module, []).append(text)
    yield from (Trait(name, " ".join(sorted(texts))) for name, texts in sorted(options.items()))
    yield from (
        Trait(name, "blacklisted") for name in sorted(node.modprobe.blacklisted - {*options})
    )


def _firmware_of_hcas(node: Node) -> Iterator[Trait]:
    for item, each in _placed(node):
        if each.firmware or each.board:
            yield Trait(item, f"{each.firmware} ({each.board})")


def _ports(node: Node) -> Iterator[Trait]:
    for item, each in _placed(node):
        words = [f"{p.number}: {p.state} {p.rate} {p.link_layer}" for p in each.ports]
        yield Trait(item, "; ".join(words))


def _placed(node: Node) -> Iterator[tuple[str, RdmaDevice]]:
    """RDMA devices by PCI address; those of software, which have none, by their order."""
    count = 0
    for each in node.rdma_devices:
        count += not each.address
        yield each.address or f"software {count}", each


def _of_ports(node: Node, tell: Callable[[Port], str]) -> Iterator[Trait]:
    """One trait of each port that is up: another may be unused, or down, which others tell."""
    for item, each in _placed(node):
        for port in each.ports:
            if port.up and (told := tell(port)):
                yield Trait(item if port.number == 1 else f"{item} port {port.number}", told)


def _mtus(node: Node) -> Iterator[Trait]:
    """Of RoCE the net device's: of two ends the smaller counts, or nothing arrives."""
    for item, each in _placed(node):
        names = each.netdevs or {gid.netdev for gid in node.gids if gid.device == each.name}
        nets = [node.net_devices[name] for name in sorted(names) if name in node.net_devices]
        if nets and any(port.link_layer == "Ethernet" for port in each.ports):
            yield Trait(item, ", ".join(str(net.mtu) for net in nets))
        elif told := [str(port.active_mtu) for port in each.ports if port.up and port.active_mtu]:
            yield Trait(item, ", ".join(told))


def _gids(node: Node) -> Iterator[Trait]:
    """What stands at which index of RoCE ports: jobs name one for all nodes."""
    for item, own in _gids_of(node, "Ethernet"):
        told = (f"{gid.index}: {gid.type or 'no type'} {_family(gid)}" for gid in own)
        yield Trait(item, ", ".join(dict.fromkeys(told)))


def _subnets(node: Node) -> Iterator[Trait]:
    """InfiniBand's, by the first half of its GIDs."""
    for item, own in _gids_of(node, "InfiniBand"):
        yield Trait(item, ", ".join(dict.fromkeys(gid.address.exploded[:19] for gid in own)))


def _gids_of(node: Node, layer: str) -> Iterator[tuple[str, list[Gid]]]:
    for item, each in _placed(node):
        ports = {port.number for port in each.ports if port.up and port.link_layer == layer}
        own = [gid for gid in node.gids if gid.device == each.name and gid.port in ports]
        if own:
            yield item, sorted(own, key=lambda gid: (gid.port, gid.index))


def _families(node: Node) -> Iterator[Trait]:
    """By which kinds of address a RoCE port can be reached from another subnet."""
    for item, own in _gids_of(node, "Ethernet"):
        told = {_family(gid) for gid in own if gid.type == "RoCE v2" and gid.routable}
        if told:
            yield Trait(item, ", ".join(sorted(told)))


_INDEX = "NCCL_IB_GID_INDEX"


def _named_gids(node: Node) -> Iterator[Trait]:
    """What stands at the index that NCCL is told of, where it is."""
    said = node.settings.get(_INDEX)
    if said is None or not said.value.isdecimal():
        return
    for item, own in _gids_of(node, "Ethernet"):
        at = [gid for gid in own if gid.index == int(said.value)]
        told = [f"{gid.type or 'no type'} {_family(gid)}" for gid in at]
        yield Trait(item, ", ".join(told) or f"nothing at index {int(said.value)}")


def _pkeys(node: Node) -> Iterator[Trait]:
    """InfiniBand's, at the index that NCCL and perftest take where they are told of no other."""
    none: dict[str, Setting] = {}
    said = read_or(lambda: node.settings, none).get("NCCL_IB_PKEY")
    index = int(said.value) if said and said.value.isdecimal() else 0
    for item, each in _placed(node):
        for port in each.ports:
            if port.up and port.link_layer == "InfiniBand":
                keys = [node.pkeys.get((each.name, port.number, n)) for n in range(PKEYS_READ)]
                full = [key for key in keys if key and int(key, 16) & 0x8000]
                key = (keys[index] or f"none at index {index}") if index < PKEYS_READ else None
                if said is None and full and key not in full:
                    key = None  # the tenant's is at another index: which is taken is not told
                yield Trait(item if port.number == 1 else f"{item} port {port.number}", key)


def _numa(node: Node) -> Iterator[Trait]:
    for each in filter(interesting, node.pci.functions.values()):
        if each.numa >= 0 and (each.is_gpu or each.may_be_hca):
            yield Trait(each.address, f"NUMA node {each.numa}")


def _nccl_ib(node: Node) -> Iterator[Trait]:
    for name, each in sorted(node.settings.items()):
        if name.startswith("NCCL_IB_"):
            yield Trait(name, each.value)


def _qos(node: Node) -> Iterator[Trait]:
    for item, each in _placed(node):
        for net in each.netdevs:
            if net in node.qos_asked:
                found = node.qos(net)
                paused = ", ".join(map(str, found.lossless)) or "none"
                yield Trait(item, f"trust {found.trust}, PFC {paused}")


def _gpu_rails(node: Node) -> Iterator[Trait]:
    """How far its nearest HCA is from each GPU."""
    near: dict[str, Distance] = {}
    for pair in node.pairs.pairs:
        near[pair.gpu] = min(near.get(pair.gpu, pair.distance), pair.distance)
    unsure = {Distance.APART, Distance.UNKNOWN}
    for gpu, distance in near.items():
        yield Trait(gpu, None if distance in unsure else distance.name)


def _family(gid: Gid) -> str:
    if gid.address.ipv4_mapped:
        return "IPv4"
    return "IPv6" if gid.routable else "link-local"


def interesting(function: PciFunction) -> bool:
    """GPUs, HCAs, NVMe drives and the bridges; virtual functions come and go."""
    kinds = function.is_gpu, function.may_be_hca, function.is_bridge, function.klass >> 8 == NVME
    return any(kinds) and not function.virtual


def kind(function: PciFunction) -> str:
    """In one word: "GPU", "HCA", "bridge", "NVMe"."""
    if function.is_gpu:
        return "GPU"
    if function.may_be_hca:
        return "HCA"
    return "bridge" if function.is_bridge else "NVMe"


def layout(node: Node) -> tuple[tuple[str, str], ...]:
    """Address and product of each function, in bus order: "HCA 15b3:1021"."""
    return tuple(
        (each.address, f"{kind(each)} {each.vendor:04x}:{each.device:04x}")
        for each in node.pci.functions.values()
        if interesting(each)
    )


def _bound(node: Node) -> Iterator[Trait]:
    for each in filter(interesting, node.pci.functions.values()):
        if not each.is_bridge:
            yield Trait(each.address, each.driver or "none")


def _links(node: Node) -> Iterator[Trait]:
    """An idle GPU lowers its speed, and the port above it too: there only width counts."""
    above = {gpu.parents[-1] for gpu in node.pci.gpus if gpu.parents}
    for each in filter(interesting, node.pci.functions.values()):
        if each.is_gpu or each.address in above:
            yield Trait(each.address, f"x{each.now.width} of x{each.best.width}")
        else:
            yield Trait(each.address, f"{each.now} of {each.best}")


def _of_registers(node: Node, tell: Callable[[PciFunction], str]) -> Iterator[Trait]:
    """One trait of each function that has such registers; one that does not answer has none."""
    for each in filter(interesting, node.pci_config.functions.values()):
        try:
            value = tell(each)
        except NoEvidence:
            yield Trait(each.address, None)
            continue
        if value:
            yield Trait(each.address, value)


def _acs(node: Node) -> Iterator[Trait]:
    def tell(function: PciFunction) -> str:
        registers = function.acs_registers() if function.is_bridge else None
        if registers is None:
            return ""
        bits = [bit.name or "" for bit in Acs if bit in registers.control]
        return " ".join(bits).lower().replace("_", "-").replace(" ", ", ") or "none"

    return _of_registers(node, tell)


def _payload(node: Node) -> Iterator[Trait]:
    def tell(function: PciFunction) -> str:
        found = None if function.is_bridge else function.express()
        return "" if found is None else f"payload {found.payload}, reads {found.read_request}"

    return _of_registers(node, tell)


def _domains(node: Node) -> Iterator[Trait]:
    groups = node.iommu_groups
    for each in filter(interesting, node.pci.functions.values()):
        if not each.is_bridge:
            yield Trait(each.address, groups.get(each.group, "no group"))


def _limits(node: Node) -> Iterator[Trait]:
    lines = (line for line in node.memlock_files.split("\n") if line)
    yield Trait("limits.conf", "; ".join(sorted(lines)) or "none")


def _companions(node: Node) -> Iterator[Trait]:
    yield Trait("gdrdrv", (node.gdrdrv.version or "loaded") if node.gdrdrv.loaded else "not loaded")
    fs = node.nvidia_fs
    yield Trait("nvidia-fs", (fs.version or "loaded") if fs.loaded else "not loaded")
    yield Trait("container runtime", ", ".join(node.containers.runtimes) or "none")
    yield Trait("driver from a container", "yes" if node.containers.driver_container else "no")


# What nodes of one job must have alike: toolkit/checks/agreement.py judges it.
DRIVER = Topic("NVIDIA driver", lambda node: (Trait("", _driver(node)),))
OFED = Topic("OFED", lambda node: (Trait("", str(node.ofed)),))
FIRMWARE = Topic("HCA firmware", _firmware_of_hcas, placed=True)
LAYERS = Topic(
    "link layer", lambda node: _of_ports(node, lambda port: port.link_layer), placed=True
)
RATES = Topic("RDMA rate", lambda node: _of_ports(node, lambda port: port.rate), placed=True)
MTUS = Topic("RDMA MTU", _mtus, placed=True)
SUBNETS = Topic("InfiniBand subnet", _subnets, placed=True)
GIDS = Topic("GIDs", _gids, placed=True)
FAMILIES = Topic("family of RoCE v2 GIDs", _families, placed=True)
NAMED_GIDS = Topic(f"GID of {_INDEX}", _named_gids, placed=True)
QOS = Topic("RoCE priorities", _qos, placed=True)
GPU_RAILS = Topic("nearest HCA of GPU", _gpu_rails, placed=True)
PKEYS = Topic("P_Key", _pkeys, placed=True)
NUMA = Topic("NUMA node", _numa, placed=True)
HCA_NAMES = Topic(
    "name of HCA",
    lambda node: (Trait(each.address, each.name) for each in node.rdma_devices if each.address),
    placed=True,
)
NCCL_IB = Topic("NCCL setting", _nccl_ib)

TOPICS = (
    Topic("system", _system),
    Topic("kernel argument", _arguments),
    Topic("firmware", _firmware),
    DRIVER,
    Topic("driver option", _driver_options),
    OFED,
    Topic("loaded module", _modules),
    Topic("DKMS", _dkms),
    Topic("modprobe", _modprobe),
    Topic("memlock", _limits),
    Topic("companion", _companions),
    Topic("PCI device", lambda node: starmap(Trait, layout(node)), placed=True),
    Topic("bound driver", _bound, placed=True),
    Topic("link", _links, placed=True),
    Topic("ACS control", _acs, placed=True),
    Topic("PCI packet size", _payload, placed=True),
    Topic("IOMMU domain", _domains, placed=True),
    FIRMWARE,
    Topic("RDMA port", _ports, placed=True),
    *(MTUS, SUBNETS, GIDS),
)


def same_products(one: Iterable[tuple[str, str]], other: Iterable[tuple[str, str]]) -> bool:
    """Whether two layouts have the same devices, wherever they stand."""
    return Counter(what for _, what in one) == Counter(what for _, what in other)


def traits(node: Node, topic: Topic) -> tuple[Trait, ...] | None:
    """The traits of one topic; None where its sources were not read."""
    return read_or(lambda: tuple(topic.read(node)), None)
