"""RDMA devices as lists print them: ibstatus, rdma link, show_gids.

Sources: linux-rdma/rdma-core infiniband-diags/scripts/ibstatus; iproute2 rdma/link.c,
link_print_state and link_print_netdev; Mellanox/mlnx-tools sbin/show_gids.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from toolkit.errors import Unparsable
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.facts.rdma.roce import Gid

_STATES = frozenset({"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
# What sysfs calls the physical states that rdma link prints.
_PHYSICAL = {
    "SLEEP": "Sleep",
    "POLLING": "Polling",
    "DISABLED": "Disabled",
    "PORT_CONFIGURATION_TRAINING": "PortConfigurationTraining",
    "LINK_UP": "LinkUp",
    "LINK_ERROR_RECOVER": "LinkErrorRecovery",
    "PHY_TEST": "Phy Test",
}
_OF_IBSTATUS = re.compile(
    r"^\s*Infiniband device '([^']+)' port (\d+) status:[ \t]*$", re.MULTILINE
)
_OF_LINK = re.compile(r"(?:link |\d+/\d+: )(\S+?)/(\d+):? (.*)")
_CAPS = re.compile(r"\s+caps: <[^>]*>\s*")  # below a port, with -d
_LAYERS = frozenset({"InfiniBand", "Ethernet", "Unspecified", "Unknown"})
_PAIR = re.compile(r"(subnet_prefix|state|physical_state|netdev) (\S+)")
_GID = re.compile(
    r"(\S+)\s+(\d+)\s+(\d+)\s+((?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4})\s+(?:[\d.]+\s+)?v([12])"
    r"(?:\s+(\S+))?"
)


def parse_ibstatus(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``ibstatus``: a block for each port, in the words of sysfs.

    :raises Unparsable: where it names no port, or a port is not told to its link layer; at a line
        of another form, for it may be the beginning of a port.
    """
    for at, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line[0].isspace() and not _OF_IBSTATUS.match(line):
            raise Unparsable("ibstatus", line, at)
    parts = _OF_IBSTATUS.split(text)
    ports: dict[str, list[Port]] = {}
    for name, number, block in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        values = dict(re.findall(r"^\s*([a-z_ ]+):[ \t]*(.*?)\s*$", block, re.MULTILINE))
        state, physical = (values.get(key, "").rpartition(": ") for key in ("state", "phys state"))
        if state[2] not in _STATES or not physical[1] or values.get("link_layer") not in _LAYERS:
            raise Unparsable("ibstatus", f"{name} port {number}: it may be cut")
        port = Port(
            int(number), state[2], physical[2], values.get("rate", ""), values["link_layer"]
        )
        ports.setdefault(name, []).append(port)
    return _devices(ports, {}, "ibstatus", text)


def parse_rdma_link(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``rdma link``, of iproute2 before 5.0 too, whose lines begin with two numbers.

    A port with a subnet prefix is one of InfiniBand.

    :raises Unparsable: where it names no port, or one without its states; at a line of another
        form, for it may be the beginning of a port.
    """
    ports: dict[str, list[Port]] = {}
    nets: dict[str, list[str]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        found = _OF_LINK.fullmatch(line.strip())
        if found is None:
            if line.strip() and not _CAPS.fullmatch(line):
                raise Unparsable("rdma link", line, number)
            continue
        has = dict(_PAIR.findall(found[3]))
        state, physical = has.get("state", ""), has.get("physical_state", "")
        if state not in _STATES or physical not in _PHYSICAL:
            raise Unparsable("rdma link", line, number)
        layer = "InfiniBand" if "subnet_prefix" in has else "Ethernet"
        port = Port(int(found[2]), state, _PHYSICAL[physical], "", layer)
        ports.setdefault(found[1], []).append(port)
        nets.setdefault(found[1], []).extend([has["netdev"]] if "netdev" in has else [])
    return _devices(ports, nets, "rdma link", text)


def _devices(
    ports: dict[str, list[Port]], nets: dict[str, list[str]], source: str, text: str
) -> tuple[RdmaDevice, ...]:
    if not ports:
        raise Unparsable(source, text.strip().split("\n")[0])
    return tuple(
        RdmaDevice(name, "", "", "", tuple(nets.get(name, ())), tuple(its))
        for name, its in ports.items()
    )


def parse_show_gids(text: str) -> tuple[Gid, ...]:
    """Read ``show_gids``; v1 and v2 are its words for RoCE's versions.

    :raises Unparsable: where it is not whole: at its end it counts what it listed.
    """
    types = {"1": "IB/RoCE v1", "2": "RoCE v2"}
    found = [hit for line in text.split("\n") if (hit := _GID.fullmatch(line.strip()))]
    count = re.search(r"^n_gids_found=(\d+)\s*$", text, re.MULTILINE)
    if count is None or int(count[1]) != len(found):
        raise Unparsable("show_gids", f"{len(found)} GIDs: it may be cut")
    return tuple(
        Gid(e[1], int(e[2]), int(e[3]), IPv6Address(e[4]), types[e[5]], e[6] or "") for e in found
    )
