"""RDMA devices as lists print them: ibstatus, rdma link, rdma dev, ibv_devices, show_gids.

Sources, as read: linux-rdma/rdma-core 64.0 infiniband-diags/scripts/ibstatus (unchanged since the
script came there) and libibverbs/examples/device_list.c; iproute2 7.1 rdma/link.c, dev.c and res.c,
and of 4.14 to 5.0 link_parse_cb; Mellanox/mlnx-tools 2607.0.6 sbin/show_gids.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from toolkit.errors import Unparsable
from toolkit.facts.rdma.devices import Port, RdmaDevice, guid
from toolkit.facts.rdma.roce import Gid
from toolkit.untrusted import read_json

_STATES = frozenset({"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
# What sysfs calls the physical states that rdma link prints; its ARMED is the fourth, training.
_PHYSICAL = {
    "NOP": "<unknown>",
    "SLEEP": "Sleep",
    "POLLING": "Polling",
    "DISABLED": "Disabled",
    "ARMED": "PortConfigurationTraining",
    "LINK_UP": "LinkUp",
    "LINK_ERROR_RECOVER": "LinkErrorRecovery",
    "PHY_TEST": "Phy Test",
    "OPA_OFFLINE": "Offline",
    "OPA_TEST": "Test",
}
_OF_IBSTATUS = re.compile(
    r"^\s*Infiniband device '([^']+)' port (\d+) status:[ \t]*$", re.MULTILINE
)
# All that ibstatus says where the kernel's RDMA core is not loaded, or has no device.
_NO_DEVICES = re.compile(r"\s*Fatal error: +(?:No devices|device '\*': sys files .*)\s*")
_OF_LINK = re.compile(r"(?:link |\d+/\d+: )(\S+?)/(\d+):? (.*)")
_CAPS = re.compile(r"\s+caps: <[^>]*>\s*")  # below a port, with -d; behind it with -o
# The script says IB where the kernel is older than link layers.
_LAYERS = {each: each for each in ("InfiniBand", "Ethernet", "Unspecified", "Unknown")}
_LAYERS["IB"] = "InfiniBand"
_PAIR = re.compile(r"(subnet_prefix|state|physical_state|netdev) (\S+)")
_GID = re.compile(
    r"(\S+)\s+(\d+)\s+(\d+)\s+((?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4})(?:\s+[\d.]+)?"
    r"(?:\s+[vV]([12])(?:\s+(\S+))?)?"
)


def parse_ibstatus(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``ibstatus``: a block for each port, in the words of sysfs; none where it finds none.

    :raises Unparsable: where it names no port, or a port is not told to its link layer; at a line
        of another form, for it may be the beginning of a port.
    """
    if _NO_DEVICES.fullmatch(text):
        return ()
    for at, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line[0].isspace() and not _OF_IBSTATUS.match(line):
            raise Unparsable("ibstatus", line, at)
    parts = _OF_IBSTATUS.split(text)
    ports: dict[str, list[Port]] = {}
    for name, number, block in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        values = dict(re.findall(r"^\s*([a-z_ ]+):[ \t]*(.*?)\s*$", block, re.MULTILINE))
        state, physical = (values.get(key, "").rpartition(": ") for key in ("state", "phys state"))
        layer = _LAYERS.get(values.get("link_layer", ""), "")
        if "unknown" in {values.get("state"), values.get("phys state")}:
            raise Unparsable("ibstatus", f"{name} port {number}: sysfs did not tell its state")
        if state[2] not in _STATES or not physical[1] or not layer:
            raise Unparsable("ibstatus", f"{name} port {number}: it may be cut")
        port = Port(int(number), state[2], physical[2], values.get("rate", ""), layer)
        ports.setdefault(name, []).append(port)
    return _devices(ports, {}, "ibstatus", text)


def parse_rdma_link(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``rdma link``, as JSON too, and of iproute2 before 5.5, whose lines begin with numbers.

    A port with a subnet prefix is one of InfiniBand.

    :raises Unparsable: where it names no port, or one without its states; at a line of another
        form, for it may be the beginning of a port.
    """
    ports: dict[str, list[Port]] = {}
    nets: dict[str, list[str]] = {}
    for number, line in enumerate(_lines_of_json(text) or text.split("\n"), start=1):
        found = _OF_LINK.fullmatch(line.partition("\\")[0].strip())
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


def _lines_of_json(text: str) -> list[str]:
    """What ``rdma -j link`` says, in the lines that it has without -j; [] for no JSON.

    :raises Unparsable: where it is cut, or of another shape.
    """
    if not text.lstrip().startswith("["):
        return []
    try:
        ports = read_json(text)
        return [
            f"link {str(e['ifname']).partition('/')[0]}/{e['port']} "
            + " ".join(f"{key} {value}" for key, value in e.items() if isinstance(value, str))
            for e in ports
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as why:
        raise Unparsable("rdma -j link", f"{why}: it may be cut") from why


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

    Where the kernel has no gid_attrs the column is empty, and the type "" here.

    :raises Unparsable: where it is not whole: at its end it counts what it listed.
    """
    types = {"1": "IB/RoCE v1", "2": "RoCE v2"}
    found = [hit for line in text.split("\n") if (hit := _GID.fullmatch(line.strip()))]
    count = re.search(r"^n_gids_found=(\d+)\s*$", text, re.MULTILINE)
    if count is None or int(count[1]) != len(found):
        raise Unparsable("show_gids", f"{len(found)} GIDs: it may be cut")
    return tuple(
        Gid(e[1], int(e[2]), int(e[3]), IPv6Address(e[4]), types.get(e[5], ""), e[6] or "")
        for e in found
    )


_DEV = re.compile(r"\d+: (\S+): (?:node_type|pd|qp|cq) .*")
_GUID = re.compile(r"\s+(\S+)\s+([0-9a-f]{16})\s*")
_PASSED_OVER = re.compile(
    rf"\s*|\s+device\s+node GUID\s*|\s+-+\s+-+\s*|libibverbs: Warning: .*|{_CAPS.pattern}"
)


def parse_device_names(text: str) -> tuple[RdmaDevice, ...]:
    """Read ``ibv_devices``, ``rdma dev`` or ``rdma resource``: names, without ports.

    None where the first has its two lines of heads and no more.

    :raises Unparsable: at a line of another form.
    """
    found: dict[str, tuple[str, tuple[int, int]]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if _PASSED_OVER.fullmatch(line):
            continue
        each = _DEV.fullmatch(line.partition("\\")[0].strip()) or _GUID.fullmatch(line)
        if each is None:
            raise Unparsable("a list of RDMA devices", line, number)
        firmware = re.search(r" fw (\S+) ", line)
        known, guids = found.get(each[1], ("", (0, 0)))
        if told := re.search(r" node_guid (\S+) sys_image_guid (\S+)", line):
            guids = guid(told[1]), guid(told[2])
        found[each[1]] = (firmware[1] if firmware else known), guids
    return tuple(
        RdmaDevice(name, "", firmware, "", (), guids=guids)
        for name, (firmware, guids) in found.items()
    )


_NODE = re.compile(r"(?:^|[\s/])((?:uverbs|umad|issm|ucm)\d+|rdma_cm)(?=\s|$)", re.MULTILINE)
_CLOSED = re.compile(r"^c(r\S{8})\S* +\d+ +(\S+) +(\S+) .*\buverbs\d+$", re.MULTILINE)


def parse_rdma_nodes(text: str) -> tuple[str, ...]:
    """Device files as ``ls /dev/infiniband`` lists them; none where there is no folder.

    :raises Unparsable: where it says neither.
    """
    found = tuple(f"/dev/infiniband/{name}" for name in dict.fromkeys(_NODE.findall(text)))
    if not found and text.strip() and "No such file or directory" not in text:
        raise Unparsable("ls /dev/infiniband", text.strip().split("\n")[0])
    return found


# The folder itself, whatever is shown of each; not one file in it, nor the folder's own line.
_FOLDER = r"/dev/infiniband/?"
_BARE = re.compile(
    r"(?:^|, )(?:sudo )?(?:\S*/)?(?:ls(?: -(?!\w*d)[\w-]+(?:=\w+)?)*|find) "
    rf"{_FOLDER}(?: 2>&1)? \(to the next prompt\)"
)
_NO_FOLDER = re.compile(
    rf"^(?:ls|find): (?:cannot access )?['\u2018]?{_FOLDER}['\u2019]?: No such file or directory",
    re.MULTILINE,
)
_ENTRY = r"(?:(?:uverbs|umad|issm|ucm)\d+|rdma_cm|by-\w+|\.\.?)/?"
_LISTED = re.compile(
    rf"[ \t]*(?:total \S+|{_FOLDER}:?|(?:\S.* )?(?:/dev/infiniband/)?{_ENTRY}(?:[ \t]+{_ENTRY})*"
    r"|/dev/infiniband/by-\w+/\S+)?[ \t]*"
)


def lists_all_nodes(text: str, command: str) -> bool:
    """Whether no more can be in /dev/infiniband than ``ls`` shows: a part of it lacks the others.

    uverbs* stand last, so that whatever cuts a list loses them first.

    :param command: what printed it, with what is known of its end (``pasted_logs.frames_of``).
    """
    if _NO_FOLDER.search(text):
        return True
    lines = text.split("\n")
    return bool(_BARE.search(command)) and all(_LISTED.fullmatch(line) for line in lines)


def closed_nodes(text: str) -> str:
    """Who alone may open uverbs nodes, of ``ls -l``: "root"; "" where all may, or none is told."""
    rights = _CLOSED.findall(text)
    return next((f"{user}, {group}" for mode, user, group in rights if mode[7] != "w"), "")


def parse_rdma_system(text: str) -> bool:
    """Whether all network namespaces share the RDMA devices, says ``rdma system``.

    Source: iproute2 rdma/sys.c, sys_show_parse_cb.

    :raises Unparsable: where it says neither.
    """
    found = re.search(r"netns\"?:? ?\"?(shared|exclusive)\b", text)
    if found is None:
        raise Unparsable("rdma system", text.strip().split("\n")[0])
    return found[1] == "shared"
