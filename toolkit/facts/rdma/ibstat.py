"""RDMA devices as user space prints them: ibstat, ibv_devinfo, ibdev2netdev.

None says at its end that it is there: a list that was cut between two devices is one, too. Of
ibstat, which sorts by letters (libibumad umad.c, umad_get_cas_names), some cuts can be told.

They print no PCI address. "transport: InfiniBand (0)" is printed for RoCE too: the link
layer tells. A dead port still has a rate: "Rate: 40" says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.errors import Unparsable
from toolkit.facts.rdma.devices import Port, RdmaDevice, guid

# What sysfs calls the states that ibstat and ibv_devinfo print.
_STATES = {
    "Active": "ACTIVE",
    "Down": "DOWN",
    "Initializing": "INIT",
    "Armed": "ARMED",
    "PORT_ACTIVE": "ACTIVE",
    "PORT_DOWN": "DOWN",
    "PORT_INIT": "INIT",
    "PORT_ARMED": "ARMED",
    "PORT_NOP": "NOP",
}
_PHYSICAL = {"LINK_UP": "LinkUp", "POLLING": "Polling", "DISABLED": "Disabled", "SLEEP": "Sleep"}
_KEYED = re.compile(r"\s*([\w ]*\w):\s*(.*?)\s*")
Block = dict[str, str]  # the keys of one device or of one port


def parse_ibstat(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``ibstat``; words of a shell around it are passed over.

    :raises Unparsable: where it names no device, or a port without a state that is known.
    """
    found = list(_devices(text, r"CA '([^']+)'.*", r"Port (\d+):"))
    if not found:
        raise Unparsable("ibstat", text.strip().split("\n")[0])
    if missed := _not_reached([name for name, _, _ in found]):
        raise Unparsable("ibstat", f"after {found[-1][0]} {missed} would come: it may be cut")
    return tuple(
        RdmaDevice(
            name,
            "",
            values.get("Firmware version", ""),
            "",
            (),
            tuple(_ibstat_port(number, port) for number, port in ports),
            values.get("CA type", ""),
            guids=(guid(values.get("Node GUID", "")), guid(values.get("System image GUID", ""))),
        )
        for name, values, ports in found
    )


def _not_reached(names: list[str]) -> str:
    """The name that comes behind the last, of those that are listed by letters; "" for none.

    mlx5_10 stands before mlx5_2: a list that ends there has lost mlx5_2 to mlx5_9.
    """
    if names != sorted(names):
        return ""
    numbers: dict[str, set[int]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        if stem != name:
            numbers.setdefault(stem, set()).add(int(name[len(stem) :]))
    for stem, seen in numbers.items():
        missing = sorted(f"{stem}{n}" for n in set(range(min(max(seen), _MOST))) - seen)
        if missing and missing[0] > names[-1]:
            return missing[0]
    return ""


_MOST = 256  # HCAs of a node, their virtual functions among them


def _ibstat_port(number: int, values: Block) -> Port:
    rate = re.match(r"\d+(\.\d+)?", values.get("Rate", ""))
    return Port(
        number,
        _state(values.get("State", ""), "ibstat"),
        values.get("Physical state", ""),
        f"{rate[0]} Gb/sec" if rate else "",
        values.get("Link layer", ""),
    )


def parse_ibv_devinfo(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``ibv_devinfo``, with or without -v; none where it found none.

    :raises Unparsable: where it names no device and does not say that there is none.
    """
    found = list(_devices(text, r"hca_id:\s*(\S+)", r"\s*port:\s*(\d+)"))
    if not found and "No IB devices found" not in text:
        raise Unparsable("ibv_devinfo", text.strip().split("\n")[0])
    return tuple(
        RdmaDevice(
            name,
            "",
            values.get("fw_ver", ""),
            values.get("board_id", ""),
            (),
            tuple(_devinfo_port(number, port) for number, port in ports),
            f"MT{part}" if (part := values.get("vendor_part_id", "")).isdecimal() else "",
            guids=(guid(values.get("node_guid", "")), guid(values.get("sys_image_guid", ""))),
        )
        for name, values, ports in found
    )


def _devinfo_port(number: int, values: Block) -> Port:
    state = _state(values.get("state", "").split(" ")[0], "ibv_devinfo")
    physical = values.get("phys_state", "").split(" ")[0]
    # Without -v it tells no physical state; an active port has a link.
    known = _PHYSICAL.get(physical, physical) or ("LinkUp" if state == "ACTIVE" else "")
    mtu = re.match(r"\d+", values.get("active_mtu", ""))
    layer = values.get("link_layer", "")
    return Port(number, state, known, "", layer, int(mtu[0]) if mtu else 0)


def _state(word: str, source: str) -> str:
    if word not in _STATES:
        raise Unparsable(source, f"state {word!r} of a port")
    return _STATES[word]


def _devices(
    text: str, head: str, port: str
) -> Iterator[tuple[str, Block, list[tuple[int, Block]]]]:
    name, values, ports = "", dict[str, str](), list[tuple[int, Block]]()
    for line in text.split("\n"):
        if device := re.fullmatch(head, line.rstrip()):
            if name:
                yield _counted(name, values, ports)
            name, values, ports = device[1], {}, []
        elif number := re.fullmatch(port, line.strip()):
            ports.append((int(number[1]), {}))
        elif keyed := _KEYED.fullmatch(line):
            block = ports[-1][1] if ports else values
            block.setdefault(keyed[1], keyed[2])
    if name:
        yield _counted(name, values, ports)


def _counted(
    name: str, values: Block, ports: list[tuple[int, Block]]
) -> tuple[str, Block, list[tuple[int, Block]]]:
    """The same, where it has as many ports as it says.

    :raises Unparsable: where it has fewer: the text is cut.
    """
    count = values.get("Number of ports") or values.get("phys_port_cnt") or "1"
    if not ports or (count.isdecimal() and len(ports) < int(count)):
        raise Unparsable(name, f"{len(ports)} of {count} ports: it may be cut")
    return name, values, ports


_NETDEV = re.compile(r"(\S+) +port +(\d+) +==> +(\S+) +\((Up|Down)\)")  # "column -t" pads it


def parse_ibdev2netdev(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``ibdev2netdev``. Its "Up" needs an active port; its "Down" is the net device's alone.

    :raises Unparsable: where it names no device.
    """
    devices: dict[str, RdmaDevice] = {}
    for line in text.split("\n"):
        found = _NETDEV.match(line.strip())
        if not found:
            continue
        state, physical = ("ACTIVE", "LinkUp") if found[4] == "Up" else ("", "")
        port = Port(int(found[2]), state, physical, "", "")
        known = devices.get(found[1], RdmaDevice(found[1], "", "", "", ()))
        devices[found[1]] = RdmaDevice(
            found[1], "", "", "", (*known.netdevs, found[3]), (*known.ports, port)
        )
    if not devices:
        raise Unparsable("ibdev2netdev", text.strip().split("\n")[0])
    return tuple(devices.values())
