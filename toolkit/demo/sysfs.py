"""/sys and /dev as the hardware and its drivers would show them.

What appears only once a driver is loaded (driver links, /sys/class/infiniband, device
nodes) waits in .node/load/MODULE.tar; the nodes' ``modprobe`` unpacks it and ``modprobe
-r`` removes what is in it. Likewise .node/load/iommu.tar for the groups that exist while
an IOMMU is on.
"""

from __future__ import annotations

import struct
from collections import defaultdict

from toolkit.demo.machine import Machine, functions, gpus, hcas
from toolkit.demo.pci import SPEEDS, Function, config_space, resource
from toolkit.demo.tree import NodeTree

_DEVICES = "sys/bus/pci/devices"
Loads = dict[str, NodeTree]  # by module: what its loading makes appear

UNPRIVILEGED_CONFIG_BYTES = 64  # pci_read_config() in drivers/pci/pci-sysfs.c
_CPU = "sys/devices/system/cpu"
_IDLE = (("POLL", 0), ("C1", 1), ("C1E", 2), ("C6", 290))
_SERIAL = "S482107X3A00001"


def sysfs(machine: Machine, *, root: bool) -> NodeTree:
    """The hardware.

    :param root: False shows it as an ordinary user would see it.
    """
    tree = NodeTree()
    loads: Loads = defaultdict(NodeTree)
    found = functions(machine)
    places = _places(found)
    for function in found:
        _function(tree, loads, function, places[function.address], root)
        if function.physfn:
            at = f"{places[function.address]}/physfn"
            tree.relative_link(at, places[function.physfn])
    _iommu(tree, loads["iommu"], found, places)
    for index, hca in enumerate(hcas(machine)):
        _hca(tree, loads, hca, index, places[hca.address])
    for index, gpu in enumerate(gpus(machine)):
        _gpu(loads["nvidia"], gpu, index)
    for file, value in (
        ("sys_vendor", machine.vendor),
        ("product_name", machine.product),
        ("board_name", "X13DEG-OAD"),
        ("bios_version", "2.3"),
        ("bios_date", "08/15/2024"),
    ):
        tree.line(f"sys/class/dmi/id/{file}", value)
    tree.line("sys/devices/system/node/online", "0-1")
    tree.line("proc/uptime", "360000.25 35000000.50")
    tree.text("proc/net/route", _ROUTES)
    tree.line("sys/kernel/security/lockdown", "[none] integrity confidentiality")
    firmware(tree, machine, root=root)
    for folder in ("sys/class/infiniband", "sys/class/iommu", "sys/kernel/iommu_groups"):
        tree.folder(folder)
    tree.folder("sys/module")
    for name, load in loads.items():
        tree.data(f".node/load/{name}.tar", load.archive())
    return tree


def _places(found: tuple[Function, ...]) -> dict[str, str]:
    """Address to sysfs path: sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/..."""
    parents = {each.address: each for each in found}

    def place(function: Function) -> str:
        if not function.parent:
            return f"sys/devices/pci{function.address[:7]}/{function.address}"
        return f"{place(parents[function.parent])}/{function.address}"

    return {each.address: place(each) for each in found}


_ROUTES = (  # the management NIC leads out
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eno1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
)
_ERRORS = (("correctable", "COR"), ("nonfatal", "NONFATAL"), ("fatal", "FATAL"))


def _function(tree: NodeTree, loads: Loads, function: Function, at: str, root: bool) -> None:
    vendor, device = function.ids
    gen, width = function.link.gen, function.link.width
    max_gen, max_width = function.link.possible
    for name, value in (
        ("vendor", f"0x{vendor:04x}"),
        ("device", f"0x{device:04x}"),
        ("class", f"0x{function.pci_class:06x}"),
        ("revision", f"0x{function.revision:02x}"),
        ("numa_node", str(function.numa)),
        ("current_link_speed", f"{SPEEDS[gen]} GT/s PCIe"),
        ("max_link_speed", f"{SPEEDS[max_gen]} GT/s PCIe"),
        ("current_link_width", str(width)),
        ("max_link_width", str(max_width)),
    ):
        tree.line(f"{at}/{name}", value)
    for kind, word in _ERRORS:
        tree.line(f"{at}/aer_dev_{kind}", f"TOTAL_ERR_{word} 0")
    tree.text(f"{at}/resource", resource(function))
    config = config_space(function)
    tree.data(f"{at}/config", config if root else config[:UNPRIVILEGED_CONFIG_BYTES])
    tree.relative_link(f"{_DEVICES}/{function.address}", at)
    if function.driver:
        shown = loads[function.module] if function.module else tree
        tree.folder(f"sys/bus/pci/drivers/{function.driver}")
        shown.link(f"{at}/driver", _up(at) + f"bus/pci/drivers/{function.driver}")


def _up(place: str) -> str:
    """From a folder below sys/ back up to sys/."""
    return "../" * place.count("/")


def _iommu(
    tree: NodeTree, load: NodeTree, found: tuple[Function, ...], places: dict[str, str]
) -> None:
    """One group a function: virtual and physical functions alike have ACS of their own."""
    for number, function in enumerate(found):
        at = places[function.address]
        load.link(f"{at}/iommu_group", _up(at) + f"kernel/iommu_groups/{number}")
    for unit in range(4):
        load.link(f"sys/class/iommu/dmar{unit}", f"../../devices/virtual/iommu/dmar{unit}")
        tree.folder(f"sys/devices/virtual/iommu/dmar{unit}")
    tree.line(".node/iommu-groups", str(len(found)))


def _hca(tree: NodeTree, loads: Loads, hca: Function, index: int, at: str) -> None:
    name = f"mlx5_{index}"
    device = f"{at}/infiniband/{name}"
    guid = f"a088:c203:00{index:02x}:{hca.bus:02x}00"
    for file, value in (
        ("fw_ver", "28.43.1014"),
        ("hca_type", "MT4129"),
        ("board_id", "MT_0000000838"),
        ("node_guid", guid),
        ("sys_image_guid", guid),
        ("node_type", "1: CA"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/rate", "400 Gb/sec (4X NDR)"),
        ("ports/1/link_layer", "InfiniBand"),
        ("ports/1/lid", f"0x{16 + index:x}"),
        ("ports/1/counters/port_xmit_data", "1048576"),
        ("ports/1/counters/port_rcv_data", "1048576"),
        ("ports/1/counters/symbol_error", "0"),
    ):
        tree.line(f"{device}/{file}", value)
    tree.link(f"{device}/device", f"../../../{hca.address}")
    tree.line(f"{at}/net/ibp{hca.bus}s0/address", f"00:00:10:29:fe:80:{index:02x}")
    loads["mlx5_ib"].link(f"sys/class/infiniband/{name}", f"../../{device[4:]}")
    loads["ib_uverbs"].data(f"dev/infiniband/uverbs{index}", b"")
    loads["ib_umad"].data(f"dev/infiniband/umad{index}", b"")
    if index == 0:
        loads["rdma_ucm"].data("dev/infiniband/rdma_cm", b"")


def _gpu(load: NodeTree, gpu: Function, index: int) -> None:
    uuid = f"GPU-{gpu.bus:08x}-6f1c-4d27-9a35-{index:012x}"
    load.text(
        f"proc/driver/nvidia/gpus/{gpu.address}/information",
        "Model: \t\t NVIDIA H100 80GB HBM3\n"
        f"IRQ:   \t\t {200 + index}\n"
        f"GPU UUID: \t {uuid}\n"
        "Video BIOS: \t 96.00.99.00.01\n"
        "Bus Type: \t PCIe\n"
        f"Bus Location: \t {gpu.address}\n"
        f"Device Minor: \t {index}\n"
        "GPU Excluded:\t No\n",
    )
    load.data(f"dev/nvidia{index}", b"")


def firmware(tree: NodeTree, machine: Machine, *, root: bool) -> None:
    """Add the files to the tree; without root the kernel shows no addresses and no tables."""
    tree.data("sys/firmware/acpi/tables/DMAR", dmar() if root else b"")
    tree.text("proc/iomem", _iomem(machine, root=root))
    for file, value in (
        ("online", "0-223"),
        ("smt/control", "on"),
        ("cpuidle/current_driver", "intel_idle"),
        ("cpu0/cpufreq/scaling_driver", "intel_pstate"),
        ("cpu0/cpufreq/scaling_governor", "performance"),
        ("cpu0/power/energy_perf_bias", "0"),
        ("intel_pstate/no_turbo", "0"),
    ):
        tree.line(f"{_CPU}/{file}", value)
    for number, (name, latency) in enumerate(_IDLE):
        at = f"{_CPU}/cpu0/cpuidle/state{number}"
        for file, value in (("name", name), ("latency", str(latency)), ("disable", "0")):
            tree.line(f"{at}/{file}", value)
    tree.line(
        "sys/module/pcie_aspm/parameters/policy", "[default] performance powersave powersupersave "
    )
    for node, cpus, first in ((0, "0-55,112-167", 0), (1, "56-111,168-223", 56)):
        tree.line(f"sys/devices/system/node/node{node}/cpulist", cpus)
        tree.line(f"{_CPU}/cpu{first}/topology/physical_package_id", str(node))
    if root:
        tree.line("sys/class/dmi/id/product_serial", _SERIAL)
        tree.line("sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-3cecef000001")


def dmar() -> bytes:
    """A table with interrupt remapping, one unit for all functions, and root ports with ATS."""
    unit = struct.pack("<HHBBHQ", 0, 16, 0x01, 0, 0, 0xC5FFC000)
    ports = struct.pack("<HHBBH", 2, 8, 0x01, 0, 0)
    body = struct.pack("<BB10x", 51, 0x01) + unit + ports  # 52 address bits; INTR_REMAP
    head = struct.pack("<4sIBB6s8sI4sI", b"DMAR", 36 + len(body), 1, 0, b"SUPERM", b"", 1, b"", 1)
    return head + body


def _iomem(machine: Machine, *, root: bool) -> str:
    """System memory, then the window of each host bridge with that of its root port inside."""
    lines = [(0, 0x1000, 0x9FFFF, "System RAM"), (0, 0x100000, 0x6FFFFFFF, "System RAM")]
    lines.append((0, 0x90000000, 0x9FFFFFFF, "PCI Bus 0000:05"))
    ports = [each for each in functions(machine) if not each.parent]
    for bus in dict.fromkeys(each.bus for each in ports):
        below = [each.below for each in ports if each.bus == bus]
        end = ((max(last for _, last in below) + 1) << 39) - 1
        lines.append((0, bus << 39, end, f"PCI Bus 0000:{bus:02x}"))
        lines += [
            (1, first << 39, ((last + 1) << 39) - 1, f"PCI Bus 0000:{first:02x}")
            for first, last in below
        ]
    return "".join(
        f"{'  ' * depth}{start if root else 0:08x}-{end if root else 0:08x} : {name}\n"
        for depth, start, end, name in lines
    )
