"""What NVIDIA's firmware tools print: mlxlink, mlxconfig, mlxfwmanager.

Sources, as read: Mellanox/mstflint 4.36.0 and 4.15.0 mlxlink/modules/mlxlink_commander.cpp
(operatingInfoPage, supportedInfoPage, troubInfoPage, prepareBerInfo, prepareDDMSection,
showPcieState), mlxlink_maps.cpp (names of states and speeds), printutil/mlxlink_record.cpp
("KEY : VALUE", coloured) and mlxlink_cmd_print.cpp (toJsonFormat, of --json: the same titles, keys
and values, a list of speeds parted from its mask). It does not print which device it was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.rdma.ethtool import DriverInfo
from toolkit.untrusted import read_json

ACTIVE = "Active"
_DOWN = frozenset(
    {"Disable", "Port PLL Down", "Polling", "Close port", "Physical LinkUp", "Sleep", "Rx disable"}
    | {"Signal detect", "Receiver detect", "Sync peer", "Negotiation", "Training", "SubFSM active"}
)
# Gb/s of one lane; mlxlink names InfiniBand's speeds by lane and Ethernet's by port.
_LANES = {"SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0}
_LANES |= {"HDR": 50.0, "NDR": 100.0, "XDR": 200.0}
_ETHERNET = re.compile(r"(?:BaseT)?(\d+(?:\.\d+)?)(?:G|GbE)(?:_\d+X)?")
_HEAD = re.compile(r"^(?=(?:PCIe )?Operational (?:\(Enabled\) )?Info[ \t]*$)", re.MULTILINE)
_KEYED = re.compile(r"^[ \t]*(\S[^:\n]*?)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_BER = re.compile(r"\d+(?:\.\d+)?[Ee][-+]?\d+")
_LIMITS = re.compile(r"(-?[\d.]+(?:, ?-?[\d.]+)*)C? \[(-?[\d.]+)C? ?\.\. ?(-?[\d.]+)C?\]")
_LIMITED = ("Temperature [C]", "Voltage [mV]", "Rx Power Current [dBm]", "Tx Power Current [dBm]")
UNPLUGGED = 1024  # the status opcode of a port without a cable; enum STATUS_OPCODE
_UNTOLD = frozenset({0, 1023})  # no issue; no information


class Link(Struct, frozen=True):
    """One port; what is not told is 0, -1 or ""."""

    state: str  # "Active", "Polling"
    speed: float = 0.0  # Gb/s of the port
    best: float = 0.0  # Gb/s that the port is set to and the cable can, at as many lanes
    width: int = 0  # lanes
    infiniband: bool = False
    opcode: int = 0  # of the firmware's own diagnosis; 0: no issue, 1023: not available
    advice: str = ""  # what goes with it: "Cable is unplugged."
    minutes: float = -1.0  # that errors have been counted for
    errors: float = -1.0  # bit error ratio that is left after correction
    beyond: tuple[str, ...] = ()  # what the module measures beyond its own limits
    facts: tuple[tuple[str, str], ...] = ()  # further lines that readers ask for

    @property
    def up(self) -> bool:
        return self.state == ACTIVE

    @property
    def diagnosis(self) -> str:
        """What the firmware says is wrong; "" where it says nothing."""
        return "" if self.opcode in _UNTOLD else f"{self.advice or 'no words'} ({self.opcode})"


class PcieLink(Struct, frozen=True):
    """The card's own side of its PCIe link: what runs, and what it would do."""

    speed: float  # GT/s
    width: int
    best_speed: float
    best_width: int

    @property
    def slower(self) -> bool:
        return self.speed < self.best_speed or self.width < self.best_width


def parse_mlxlink(text: str) -> tuple[Link, ...]:
    """Read the answers of ``mlxlink``, one or several; without those about NVLink and PCIe.

    :raises Unparsable: where one tells no state that is known: it may be cut.
    """
    blocks = [each for each in _HEAD.split(_worded(text)) if each.startswith("Operational")]
    return tuple(
        _link(has, each)
        for each in blocks
        if not (has := dict(_KEYED.findall(each))).get("Speed", "").startswith("NVLink")
    )


def parse_mlxlink_pcie(text: str) -> tuple[PcieLink, ...]:
    """Read the answers of ``mlxlink --port_type PCIE``."""
    speeds = re.findall(
        r"^Link Speed Active \(Enabled\)\s*: ([\d.]+)G-[^(\n]*\(([\d.]+)G-[^)\n]*\)\s*\n"
        r"Link Width Active \(Enabled\)\s*: (\d+)X \((\d+)X\)",
        _worded(text),
        re.MULTILINE,
    )
    return tuple(
        PcieLink(float(now), int(width), float(best), int(most))
        for now, best, width, most in speeds
    )


def documents(text: str, source: str) -> list[dict[str, Any]]:
    """The objects of JSON in a text, those behind several commands too; [] where it has none.

    :raises Unparsable: where one is not whole.
    """
    if not re.search(r"^\{", text, re.MULTILINE):
        return []
    try:
        found = [read_json(each) for each in _objects(text)]
    except ValueError as why:
        raise Unparsable(source, f"{why}: it may be cut") from why
    if not found:
        raise Unparsable(source, "it may be cut")
    return found


def _objects(text: str) -> Iterable[str]:
    """From each line that begins with a brace to the next that is one."""
    parts: list[list[str]] = []
    for line in text.split("\n"):
        if line.startswith("{"):
            parts.append([])
        if parts:
            parts[-1].append(line)
    for each in parts:
        closed = next((at for at, line in enumerate(each) if line.rstrip() == "}"), len(each))
        yield "\n".join(each[: closed + 1])


def _worded(text: str) -> str:
    """What --json told, in the lines that stand there without it, the state first."""
    told = documents(text, "mlxlink --json")
    if not told:
        return text
    lines: list[str] = []
    for each in told:
        output = (each.get("result") or {}).get("output") or {}
        for title in sorted(output, key=lambda name: not name.startswith(("Operational", "PCIe"))):
            lines += [title, *(f"{key} : {_value(value)}" for key, value in output[title].items())]
    return "\n".join([*lines, "end : of it", ""])


def _value(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    listed = ",".join(map(str, value.get("values") or ()))
    return f"{value['mask']} ({listed})" if "mask" in value else listed


def _link(has: dict[str, str], text: str) -> Link:
    state = has.get("State", "")
    if state != ACTIVE and state not in _DOWN:
        raise Unparsable("mlxlink", f"state {state!r}: it may be cut")
    width = int(found[1]) if (found := re.fullmatch(r"(\d+)x", has.get("Width", ""))) else 0
    speed = has.get("Speed", "")
    enabled, cable = (_speeds(has, key, width) for key in ("Enabled Link", "Supported Cable"))
    opcode = has.get("Status Opcode", "0")
    minutes = has.get("Time Since Last Clear [Min]", "")
    shown = ("FEC", "Raw Physical BER", "Link Down Counter", "Link Error Recovery Counter")
    return Link(
        state,
        _gbits(speed.removeprefix("IB-"), width),
        min(max(enabled), max(cable)) if enabled and cable else 0.0,
        width,
        speed.startswith("IB-"),
        int(opcode) if opcode.isdecimal() else 0,
        has.get("Recommendation", "").removesuffix("."),
        float(minutes) if re.fullmatch(r"\d+(?:\.\d+)?", minutes) else -1.0,
        _ratio(text),
        tuple(why for key in _LIMITED if (why := _beyond(key, has.get(key, "")))),
        tuple((key, has[key]) for key in shown if has.get(key, "N/A") != "N/A"),
    )


def _gbits(name: str, width: int) -> float:
    """Of a speed as mlxlink names it; 0 for a name that is not known, as of one that is cut."""
    if name in _LANES:
        return _LANES[name] * width
    found = _ETHERNET.fullmatch(name)
    return float(found[1]) if found else 0.0


def _speeds(has: dict[str, str], key: str, width: int) -> list[float]:
    """Of "0x000000f0 (NDR,HDR,EDR)"; [] where the list is not whole, or N/A."""
    value = next((each for name, each in has.items() if name.startswith(f"{key} Speed")), "")
    found = re.fullmatch(r"0x[0-9a-f]+ ?\(([^)]*)\)", value)
    told = (_gbits(each.strip(), width) for each in found[1].split(",")) if found else ()
    return [each for each in told if each]


def _ratio(text: str) -> float:
    """Of symbols where they are told, which HDR and NDR lose; else of bits after correction.

    Not of a last line, which may be cut: 15E-255 is none at all, and 15E-2 many.
    """
    for key in ("Symbol BER", "Effective Physical BER"):
        found = re.search(rf"^{key}\s*: ({_BER.pattern})\s*\n\s*\S", text, re.MULTILINE)
        if found:
            return float(found[1])
    return -1.0


def _beyond(key: str, value: str) -> str:
    """What is beyond the limits that stand behind it; "" for nothing, or where none stand."""
    found = _LIMITS.fullmatch(value)
    if found is None or not float(found[2]) < float(found[3]):
        return ""
    low, high = float(found[2]), float(found[3])
    wrong = [each for each in found[1].split(",") if not low <= float(each) <= high]
    return f"{key} {', '.join(wrong)}, limits {low:g} to {high:g}" if wrong else ""


# Firmware of ConnectX cards as ``mlxfwmanager`` and ``mlxup`` list it.
# Source, as read: Mellanox/mstflint mlxfwupdate/mlxfwmanager.cpp and mlnx_dev.cpp: a block a
# device, with its PSID, its name on the PCI bus and the versions that it has and may have.
_DEVICE = re.compile(r"^Device #\d+:[ \t]*$", re.MULTILINE)
_FIELD = re.compile(
    r"^[ \t]+(Device Type|PSID|PCI Device Name|Status):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE
)
# What the flash has, and what runs where that is another: until a reset.
_FLASH = re.compile(r"^[ \t]+FW[ \t]+(\d[\d.]+)\b", re.MULTILINE)
_RUNS = re.compile(r"^[ \t]+FW \(Running\)[ \t]+(\d[\d.]+)\b", re.MULTILINE)
_SAID = re.compile(r"^-E- (.*\S)", re.MULTILINE)


def parse_mlxfwmanager(text: str) -> tuple[DriverInfo, ...]:
    """Each device with its board and the firmware that it runs; one that tells none is left out.

    :raises NoEvidence: where it lists none.
    """
    found = []
    for block in _DEVICE.split(text)[1:]:
        has, flash = dict(_FIELD.findall(block)), _FLASH.search(block)
        runs = _RUNS.search(block) or flash
        if runs is not None:
            name, board = has.get("PCI Device Name", ""), has.get("PSID", "")
            owed = flash[1] if flash and flash[1] != runs[1] else ""
            found.append(DriverInfo(has.get("Device Type", ""), runs[1], board, name, owed))
    if not found:
        said = _SAID.search(text)
        raise NoEvidence(
            f"mlxfwmanager: {said[1] if said else 'no device with its firmware'}",
            hint="mst start, as root, and again; or mstflint -d ADDRESS query; or ibv_devinfo",
        )
    return tuple(found)


# Settings in the firmware of ConnectX cards, as ``mlxconfig query`` prints them.
# Sources, as read: Mellanox/mstflint 4.36.0 mlxconfig/mlxcfg_ui.cpp (printOpening, printConfHeader,
# printSingleParam, printValue). A row is "* RO NAME VALUE...": a star where the next boot has
# another value; with -e columns of the default and of now stand before that of the next boot. With
# -j FILE it writes the same there (WriteSingleParam, writeParamToJson).
_HEADER = re.compile(r"^Configurations:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_COLUMN = re.compile(r"Default|Current|Next [Bb]oot|New")
_ROW = re.compile(r"^[ \t*]*(?:RO)?[ \t]+([A-Z][A-Z0-9_]+)[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_VALUE = re.compile(r"(?:[^()\s]*\((\d+)\)|(\d+)|\S+)")


class FirmwareSetting(Struct, frozen=True):
    name: str  # "ATS_ENABLED"
    word: str  # "True(1)", as printed, of the next boot
    next: int | None  # None for N/A, or what is no number
    now: int | None = None  # None where no column tells it

    @property
    def pending(self) -> bool:
        """Whether it comes into force with the next boot alone."""
        return None not in {self.now, self.next} and self.now != self.next


class Card(Struct, frozen=True):
    """One device that was asked."""

    device: str  # "0000:19:00.0", "/dev/mst/mt4129_pciconf0"
    type: str  # "ConnectX7"
    settings: dict[str, FirmwareSetting]


def parse_mlxconfig(text: str) -> tuple[Card, ...]:
    """Read the answer; a row that is cut off at its end is left out.

    :raises Unparsable: where a device has no table of values.
    """
    told = documents(text, "mlxconfig -j")
    if told:
        return tuple(_written(card) for each in told for card in each.values())
    return tuple(_card(each) for each in _DEVICE.split(text)[1:])


def _written(card: dict[str, Any]) -> Card:
    settings = {}
    for name, values in (card.get("tlv_configuration") or {}).items():
        words = [str(values.get(key, "N/A")) for key in ("next_value", "current_value")]
        after, now = (_VALUE.match(each) for each in words)
        told = None if now is None else _number(now)
        settings[name] = FirmwareSetting(name, words[0], _number(after) if after else None, told)
    return Card(str(card.get("device", "")), str(card.get("device_type", "")), settings)


def _card(text: str) -> Card:
    keyed = dict(re.findall(r"^(Device type|Device):\s+(\S+)", text, re.MULTILINE))
    header = _HEADER.search(text)
    if header is None:
        raise Unparsable("mlxconfig", f"{keyed.get('Device', '?')}: no configurations")
    columns = [each.lower() for each in _COLUMN.findall(header[1])]
    # The last line may be cut: "True(1)" is known to be whole, a number is not.
    line = text.rstrip().rpartition("\n")[2]
    last = line if line.endswith(")") else ""
    rows = _ROW.findall(text[header.end() :].rstrip().rpartition("\n")[0] + "\n" + last)
    settings = {name: found for name, row in rows if (found := _setting(name, row, columns))}
    return Card(keyed.get("Device", ""), keyed.get("Device type", ""), settings)


def _setting(name: str, row: str, columns: list[str]) -> FirmwareSetting | None:
    values = list(_VALUE.finditer(row))
    if len(values) < len(columns) or not columns:
        return None
    by = dict(zip(columns, values, strict=False))
    last = by.get("next boot") or by.get("current")
    if last is None:
        return None
    return FirmwareSetting(
        name, last[0], _number(last), _number(by["current"]) if "current" in by else None
    )


def _number(found: re.Match[str]) -> int | None:
    told = found[1] or found[2]
    return int(told) if told else None
