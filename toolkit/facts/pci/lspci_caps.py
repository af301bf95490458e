"""The capabilities of one function, as ``lspci -vvv`` words them.

Shapes differ by version: "(ok)" and "(downgraded)" or no mark, speed with or without a
blank, 10BitTagReq in DevCtl2 only since pciutils 3.9.
"""

from __future__ import annotations

import re

from toolkit.facts.pci.config_space import Acs, AcsRegisters, Ats
from toolkit.facts.pci.functions import Printed
from toolkit.facts.pci.pcie_caps import Express, Link, PortType, Resizable

_CAPABILITY = re.compile(r"\s+Capabilities: (.*)")
_LABEL = re.compile(r"\s+([A-Z][A-Za-z]+\d?):(?:\s+(.*))?")
_EXPRESS = re.compile(r"\[[0-9a-f]+\] Express(?: \(v(\d)\))? (.*)")
_PORTS = (
    ("Endpoint", PortType.ENDPOINT),
    ("Legacy Endpoint", PortType.LEGACY_ENDPOINT),
    ("Root Port", PortType.ROOT_PORT),
    ("Upstream Port", PortType.UPSTREAM),
    ("Downstream Port", PortType.DOWNSTREAM),
    ("PCI-Express to PCI", PortType.TO_PCI),
    ("PCI/PCI-X to PCI-Express", PortType.FROM_PCI),
    ("Root Complex Integrated Endpoint", PortType.INTEGRATED),
    ("Root Complex Event Collector", PortType.EVENT_COLLECTOR),
)
_ACS_BITS = {
    "SrcValid": Acs.SOURCE_VALIDATION,
    "TransBlk": Acs.TRANSLATION_BLOCKING,
    "ReqRedir": Acs.REQUEST_REDIRECT,
    "CmpltRedir": Acs.COMPLETION_REDIRECT,
    "UpstreamFwd": Acs.UPSTREAM_FORWARDING,
    "EgressCtrl": Acs.EGRESS_CONTROL,
    "DirectTrans": Acs.DIRECT_TRANSLATED,
}
_SIZES = {"MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}
_RESIZABLE = re.compile(r"\s+BAR (\d): current size: (\d+[MGTP]B), supported: (.*)")

Sections = dict[str, str]  # by label ("DevCtl"): its line and those that continue it


def printed(lines: tuple[str, ...]) -> Printed:
    """What these lines say; no capability is known where none was shown."""
    heads: list[str] = []
    bodies: list[list[str]] = []
    for line in lines:
        if found := _CAPABILITY.match(line):
            heads.append(found[1])
            bodies.append([])
        elif bodies:
            bodies[-1].append(line)
    if not heads or any("access denied" in head for head in heads):
        return Printed(capabilities=False)
    express, acs, ats = None, None, None
    resizable: tuple[Resizable, ...] = ()
    for head, body in zip(heads, bodies, strict=True):
        if match := _EXPRESS.match(head):
            express = _express(match[2], _sections(body))
        elif "] Access Control Services" in head:
            acs = _acs(_sections(body))
        elif "] Address Translation Service" in head:
            ats = Ats("Enable+" in _sections(body).get("ATSCtl", ""))
        elif "] Physical Resizable BAR" in head or "] Resizable BAR" in head:
            resizable = tuple(
                Resizable(int(row[1]), _sizes(row[2])[0], max(_sizes(row[3]), default=0))
                for row in map(_RESIZABLE.match, body)
                if row
            )
    whole = express is None or express.payload > 0
    return Printed(whole, express, acs, ats, resizable) if whole else Printed(False)


def _sections(body: list[str]) -> Sections:
    sections: Sections = {}
    label = ""
    for line in body:
        if found := _LABEL.match(line):
            label = found[1]
            sections[label] = found[2] or ""
        elif label:
            sections[label] += " " + line.strip()
    return sections


def _express(kind: str, sections: Sections) -> Express | None:
    port = next((port for words, port in _PORTS if kind.startswith(words)), None)
    if port is None:
        return None
    able, control = sections.get("DevCap", ""), sections.get("DevCtl", "")
    able2, control2 = sections.get("DevCap2", ""), sections.get("DevCtl2", "")
    return Express(
        port,
        _number(r"MaxPayload (\d+)", able),
        _number(r"MaxPayload (\d+)", control),
        _number(r"MaxReadReq (\d+)", control),
        bool(_flag("RlxdOrd", control)),
        bool(_flag("ExtTag", able)),
        bool(_flag("ExtTag", control)),
        _flag("10BitTagComp", able2),
        _flag("10BitTagReq", able2),
        _flag("10BitTagReq", control2),
        _link(sections.get("LnkSta", "")),
        _link(sections.get("LnkCap", "")),
    )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _flag(name: str, text: str) -> bool | None:
    found = re.search(rf"\b{name}([+-])", text)
    return None if found is None else found[1] == "+"


def _link(text: str) -> Link:
    speed, width = re.search(r"Speed ([\d.]+) ?GT/s", text), re.search(r"Width x(\d+)", text)
    return Link(float(speed[1]) if speed else 0.0, int(width[1]) if width else 0)


def _acs(sections: Sections) -> AcsRegisters:
    able, control = (
        Acs(sum(bit for name, bit in _ACS_BITS.items() if _flag(name, sections.get(label, ""))))
        for label in ("ACSCap", "ACSCtl")
    )
    return AcsRegisters(able, control)


def _sizes(text: str) -> list[int]:
    return [int(size) * _SIZES[unit] for size, unit in re.findall(r"(\d+)([MGTP]B)", text)]
