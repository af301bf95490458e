"""Are the HCAs as fast as they can be, alike, and free for the jobs that use them?"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime

from toolkit.checks.check import (
    Finding,
    Gap,
    Impact,
    Status,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.rdma.makers import serving
from toolkit.checks.rdma.pasted_ports import firmware_told, rate_told
from toolkit.errors import NoEvidence
from toolkit.facts.nccl.containers import SCHEDULERS
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import MELLANOX
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.rdma.devices import Kind, Port, RdmaDevice
from toolkit.plural import counted
from toolkit.want import Want


@check(
    "rdma.rate",
    impact=Impact.SLOW,
    source="/sys/class/infiniband/*/ports/*/rate; toolkit/compat/data/{hcas,providers}.toml; "
    "Azure/azurehpc-health-checks",
    fix="cable, transceiver and switch port of the slower one; for PCIe, a slot that is as fast",
)
def rate(node: Node, want: Want) -> Finding:
    """Ports of equal HCAs run at an equal rate, fit for their kind, and PCIe is as fast.

    A port that trained at a lower rate holds back every collective of the job; and all ports
    may have, alike. An older switch makes a port slower than its card can, which is told and
    no fault: HDR, 200 Gb/s, on a card for NDR, 400. A rate that no such switch has is one:
    SDR or QDR, 10 or 40 Gb/s, on a card for NDR is a bad cable, or a switch port that is set
    so, as 10 Gb/s is on one of another maker that is sold for 400. Judged are the HCAs that
    serve GPUs: one for storage may be slower. Ports that are down are not judged, for the rate
    that they show says nothing; one that is up and tells none is not known to be fast.
    """
    if said := rate_told(node):
        return said
    hcas = serving(node)
    groups: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    up = [(device, port) for device in hcas for port in device.ports if port.up]
    for device, port in up:
        if port.gbits:
            groups[_model(node, device), port.link_layer][_port(device, port)] = port.gbits
    if not up:
        return not_applicable("no port that is up")
    fit = [_fit(node, want, device, each) for device, each in up if each.gbits]
    told = [why for why, sound in fit if why and not sound]
    unfit = tuple(line.partition(":")[0] for line in told)
    told += _unequal(groups, unfit)
    told += [line for device in hcas for line in _behind(node, device)]
    rates = [gbits for ports in groups.values() for gbits in ports.values()]
    if told:
        return failed(
            told[0] if len(told) == 1 else f"{len(told)} ports slower than they can be",
            expected="the rate of the fastest equal port, one that the HCA is made for, "
            "and PCIe that carries it",
            hint=_ALIKE if 1 < len(unfit) == len(rates) else "",
            details=tuple(told),
        )
    if untold := [_port(*each) for each in up if not each[1].gbits]:
        # ibdev2netdev never tells one.
        gap = Gap.NONE if node.probed else Gap.NOT_COLLECTED
        why = f"{untold[0]} is up and does not tell its rate"
        return unknown(why, hint="ibstat; ethtool", gap=gap)
    seen = ", ".join(f"{each:g}" for each in sorted({*rates}, reverse=True))
    details = tuple(why for why, _ in fit if why)
    return passed(f"{len(rates)} ports at {seen} Gb/s", details=details)


def _unequal(groups: dict[tuple[str, str], dict[str, float]], unfit: tuple[str, ...]) -> list[str]:
    """Ports slower than the fastest of equal HCAs, but for those of which worse is told."""
    return [
        f"{name}: {gbits:g} of {max(ports.values()):g} Gb/s"
        for ports in groups.values()
        for name, gbits in ports.items()
        if gbits < max(ports.values()) and name not in unfit
    ]


_ALIKE = (
    "all ports alike: look at what they share, the speed that the switch is set to and its "
    "transceivers, before any single cable"
)
_TYPE = re.compile(r"MT(\d{4,5})")  # the PCI device id, in decimal


def _port(device: RdmaDevice, port: Port) -> str:
    return f"{device.name} port {port.number}"


def _ids(node: Node, device: RdmaDevice) -> tuple[int, int]:
    """PCI vendor and device, by what the driver calls the type or else by the bus; 0 if untold."""
    if kind := _TYPE.fullmatch(device.type):
        return MELLANOX, int(kind[1])
    function = node.pci.functions.get(device.address) if device.address else None
    return (function.vendor, function.device) if function is not None else (0, 0)


def _fit(node: Node, want: Want, device: RdmaDevice, port: Port) -> tuple[str, bool]:
    """What is to be said of a port below the best of its kind, and whether it may be so."""
    name, best, slowest = want.compat.port_rates(*_ids(node, device), port.link_layer)
    told = f"{_port(device, port)}: {port.gbits:g} of the {best or '?'} Gb/s of {name}"
    if port.gbits < slowest:
        return f"{told}, as from a bad link", False
    return (f"{told}: as the board or the switch can", True) if port.gbits < best else ("", True)


def _model(node: Node, device: RdmaDevice) -> str:
    """What equal HCAs have in common; those without a name of a board have their PCI ids."""
    ids = _ids(node, device)
    return device.board or (f"{ids[0]:04x}:{ids[1]:04x}" if any(ids) else device.name)


def _behind(node: Node, device: RdmaDevice) -> list[str]:
    """Whether the port is faster than its PCIe link, although the card could do better.

    A card that can do no better was made so: that is no fault.
    """
    if not device.address:
        return []
    function = node.pci.functions.get(device.address)
    fastest = max((port.gbits for port in device.ports), default=0.0)
    if function is None or function.virtual or not function.now.width:
        return []
    now, best = gbits(function.now), gbits(function.best)
    # What PCIe spends on packets is left out: 252 Gb/s carry a port of 200, not one of 400.
    if now < fastest <= best:
        return [f"{device.name}: {fastest:g} Gb/s behind PCIe {function.now}, {now:.0f} Gb/s"]
    return []


def gbits(link: Link) -> float:
    """What a PCIe link carries in one direction, in Gb/s, after its line code."""
    code = 8 / 10 if link.speed <= 5 else 128 / 130 if link.speed <= 32 else 242 / 256
    return link.speed * link.width * code


@check(
    "rdma.firmware",
    impact=Impact.FRAGILE,
    source="/sys/class/infiniband/*/{fw_ver,board_id}; NVIDIA ConnectX firmware release notes",
    fix="with the node drained: the maker's tool (mlxfwmanager, niccli, nvmupdate64e, nicctl) "
    "writes the flash of the older ones; in force after a power cycle, or its reset, which takes "
    "their ports down",
)
def firmware(node: Node, want: Want) -> Finding:
    """HCAs of one board run one firmware.

    Mixed firmware is what a replaced card or an interrupted update leaves behind: settings
    and faults then differ from port to port.
    """
    said = None if node.probed else _firmware_told(node)
    if said is not None and (said.status is Status.FAIL or not node.tells_rdma):
        return said
    boards: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for device in node.rdma_devices:
        if device.kind is Kind.HCA and device.firmware:
            boards[device.board or device.type or device.name][device.firmware].append(device.name)
    if not boards:
        return said or not_applicable("no HCA tells its firmware")
    mixed = {board: versions for board, versions in boards.items() if len(versions) > 1}
    if mixed:
        return failed(
            "; ".join(f"{board}: {' and '.join(sorted(each))}" for board, each in mixed.items()),
            expected="one firmware for each board",
            details=tuple(
                f"{version}: {', '.join(names)}"
                for versions in mixed.values()
                for version, names in sorted(versions.items())
            ),
        )
    versions = sorted(version for each in boards.values() for version in each)
    which = f"one for each of {len(boards)} boards" if len(boards) > 1 else "on every board"
    if not node.probed:  # a list that may be cut between two of them
        which += f" of {counted(len(node.rdma_hardware), 'HCA')}"
    return passed(f"{', '.join(versions)}, {which}")


def _firmware_told(node: Node) -> Finding | None:
    """What other tools say of it; that one of them found no device takes nothing from a list."""
    try:
        return firmware_told(node)
    except NoEvidence:
        if node.tells_rdma:
            return None
        raise


@check(
    "rdma.memlock_now",
    impact=Impact.BROKEN,
    source="/proc/PID/limits of slurmd and its like; systemd.exec(5), LimitMEMLOCK",
    fix="LimitMEMLOCK=infinity for the daemon (systemctl edit slurmd); its restart, with no job on "
    "the node",
)
def memlock_now(node: Node, want: Want) -> Finding:
    """Daemons that start jobs may pin as much memory as they ask for, as they run now.

    A job inherits the limit of the daemon that starts it. What the configuration says takes
    effect when the daemon is started anew. Container runtimes are judged by another check:
    a container may have a capability that lifts the limit.
    """
    found = [each for each in node.daemons if each.name in SCHEDULERS]
    if not found:
        return not_applicable("no daemon that starts jobs runs here")
    if untold := [each.name for each in found if not each.memlock]:
        raise NoEvidence(f"/proc: the limits of {untold[0]} were not read")
    short = [each for each in found if not each.unlimited]
    if short:
        return failed(
            ", ".join(f"{each.name} (pid {each.pid}): {each.memlock} bytes" for each in short),
            expected="Max locked memory unlimited",
            hint="see rdma.memlock; then, with no job on the node, systemctl restart "
            f"{short[0].name}",
        )
    return passed(f"{', '.join(sorted({each.name for each in found}))}: unlimited")


_WHEN = re.compile(r"audit\((\d{1,11})[.:]")


@check(
    "rdma.selinux",
    impact=Impact.FRAGILE,
    source="/sys/fs/selinux/enforce; /var/log/audit/audit.log, AVC denials of RDMA devices",
    fix="a policy module for the domain that was denied (ausearch -m avc, audit2allow)",
)
def selinux(node: Node, want: Want) -> Finding:
    """SELinux keeps nobody from the RDMA devices.

    A denial shows to a job as "Permission denied" at ibv_open_device or at a partition key,
    on a node where root's own tests pass.
    """
    if node.selinux is None:
        return not_applicable("SELinux is not active")
    if not node.selinux:
        return passed("permissive")
    denied = node.rdma_denials
    where = "audit.log"
    if denied is None:  # without auditd the kernel log has them
        where = "the kernel log"
        denied = tuple(
            line for line in node.dmesg if re.search(r"avc: +denied .*(infiniband|rdma)", line)
        )
    if denied:
        stamp = _WHEN.search(denied[-1])
        last = datetime.fromtimestamp(int(stamp[1]), UTC).isoformat(" ", "minutes") if stamp else ""
        return failed(
            f"{len(denied)} {'denials' if len(denied) > 1 else 'denial'} of RDMA devices in {where}"
            + (f", the last on {last}" if last else ""),
            expected="no denial",
            hint="ausearch -m avc -ts recent | grep infiniband",
            details=denied[-3:],
        )
    return passed(f"enforcing, no denial of RDMA devices in {where}")
