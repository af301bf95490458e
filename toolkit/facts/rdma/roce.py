"""GIDs, P_Keys, net devices and priorities of RDMA ports.

Sources: /sys/class/infiniband/*/ports/*/gid_attrs and pkeys, as in
Documentation/ABI/stable/sysfs-class-infiniband; mlnx_qos of Mellanox/mlnx-tools.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines


class Gid(Struct, frozen=True):
    """One entry of a port's GID table that is in use."""

    device: str  # "mlx5_0"
    port: int
    index: int
    address: IPv6Address  # an IPv4 address is written ::ffff:a.b.c.d
    type: str  # "RoCE v2", "IB/RoCE v1"; "" where the kernel does not tell
    netdev: str  # "" where the kernel does not tell

    @property
    def routable(self) -> bool:
        """Of an address that somebody gave, not of the link alone."""
        return not self.address.is_link_local


_ENTRY = re.compile(r"([^/]+)/ports/(\d{1,3})/(?:gids|gid_attrs/(types|ndevs))/(\d{1,4})")


def parse_gids(text: str) -> tuple[Gid, ...]:
    """Read "mlx5_0/ports/1/gids/3:..." and the same below gid_attrs/types and gid_attrs/ndevs.

    P_Keys among them are passed over.

    :raises Unparsable: at a line that names no entry, or a GID that is none.
    """
    found: dict[tuple[str, int, int], dict[str, str]] = {}
    for path, value in named_lines(text, "GIDs"):
        if _PKEY.fullmatch(path):
            continue
        entry = _ENTRY.fullmatch(path)
        if entry is None:
            raise Unparsable("GIDs", f"{path}:{value}")
        at = (entry[1], int(entry[2]), int(entry[4]))
        found.setdefault(at, {})[entry[3] or "gid"] = value.strip()
    try:
        return tuple(
            Gid(*at, IPv6Address(has["gid"]), has.get("types", ""), has.get("ndevs", ""))
            for at, has in found.items()
            if "gid" in has
        )
    except ValueError as why:
        raise Unparsable("GIDs", str(why)) from why


PKEYS_READ = 10  # entries of a port that the probe reads
_PKEY = re.compile(r"([^/]+)/ports/(\d{1,3})/pkeys/(\d{1,4})")


def parse_pkeys(text: str) -> dict[tuple[str, int, int], str]:
    """Read "mlx5_0/ports/1/pkeys/0:0xffff": by device, port and index, those that are not zero.

    Bit 15 says that the port is a full member of the partition that the others number.

    :raises Unparsable: at a value that is none.
    """
    found: dict[tuple[str, int, int], str] = {}
    for path, value in named_lines(text, "P_Keys"):
        entry = _PKEY.fullmatch(path)
        if entry and not re.fullmatch("0x[0-9a-f]{4}", value):
            raise Unparsable("P_Keys", f"{path}:{value}")
        if entry:
            found[entry[1], int(entry[2]), int(entry[3])] = value
    return found


class NetDevice(Struct, frozen=True):
    name: str
    mtu: int  # bytes
    state: str  # "up", "down", "unknown"


def parse_net_devices(text: str) -> dict[str, NetDevice]:
    """Read "ens1np0/mtu:9000" and "ens1np0/operstate:up" lines.

    :raises Unparsable: where an MTU is no number.
    """
    values: dict[str, dict[str, str]] = {}
    for path, value in named_lines(text, "/sys/class/net"):
        name, _, attribute = path.partition("/")
        values.setdefault(name, {})[attribute] = value.strip()
    devices = {}
    for name, has in values.items():
        mtu = has.get("mtu", "")
        if not re.fullmatch(r"[0-9]{1,9}", mtu):
            raise Unparsable(f"/sys/class/net/{name}/mtu", mtu)
        devices[name] = NetDevice(name, int(mtu), has.get("operstate", ""))
    return devices


class Qos(Struct, frozen=True):
    """What one port does with priorities."""

    trust: str  # "pcp", "dscp" or "none"
    lossless: tuple[int, ...]  # priorities with PFC


def parse_mlnx_qos(text: str) -> Qos:
    """Read ``mlnx_qos -i NETDEV``: trust is "none" where the driver does not tell it.

    :raises Unparsable: without a line of the trust state, or of PFC.
    """
    trust = re.search(r"^Priority trust (?:state|mode): *(\w+)", text, re.MULTILINE)
    pfc = re.search(r"^PFC configuration:.*\n.*\n\s*enabled((?:\s+[01]){8})", text, re.MULTILINE)
    if trust is None or pfc is None:
        raise Unparsable("mlnx_qos", text.strip().split("\n")[0])
    enabled = pfc[1].split()
    return Qos(trust[1], tuple(number for number, one in enumerate(enabled) if one == "1"))


class Ecn(Struct, frozen=True):
    """Priorities for which one port takes part in congestion control."""

    notifies: frozenset[int]  # as notification point: it tells the sender
    reacts: frozenset[int]  # as reaction point: it slows down


_ECN = re.compile(r"([^/]+)/(?:ecn/)?roce_(np|rp)/enable/([0-7]):([01])")


def parse_ecn(text: str) -> dict[str, Ecn]:
    """Read "ens1np0/ecn/roce_np/enable/3:1" lines, by net device.

    :raises Unparsable: at a line of another shape.
    """
    on: dict[str, dict[str, set[int]]] = {}
    for number, line in enumerate(filter(None, text.split("\n")), start=1):
        found = _ECN.fullmatch(line.strip())
        if found is None:
            raise Unparsable("/sys/class/net/*/ecn", line, number)
        points = on.setdefault(found[1], {"np": set(), "rp": set()})
        points[found[2]] |= {int(found[3])} if found[4] == "1" else set()
    return {net: Ecn(frozenset(has["np"]), frozenset(has["rp"])) for net, has in on.items()}
