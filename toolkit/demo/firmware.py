"""What a simulated machine's firmware left: IOMMU table, address windows, processor setup."""

from __future__ import annotations

import struct

from toolkit.demo.machine import Machine, functions
from toolkit.demo.tree import Tree

_CPU = "sys/devices/system/cpu"
_IDLE = (("POLL", 0), ("C1", 1), ("C1E", 2), ("C6", 290))
_SERIAL = "S482107X3A00001"


def firmware(tree: Tree, machine: Machine, *, root: bool) -> None:
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
        "sys/module/pcie_aspm/parameters/policy",
        "[default] performance powersave powersupersave ",
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
