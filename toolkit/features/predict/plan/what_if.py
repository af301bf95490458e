"""What a repair would buy: the same node with some inputs as somebody wishes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from toolkit.compat.throughput import Range
from toolkit.errors import UsageError
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance
from toolkit.features.predict.plan.totals import NodeInputs
from toolkit.throughput.inputs import NOT_TOLD, HcaWire, LinkTold, PairInputs
from toolkit.throughput.model import Layer2
from toolkit.throughput.pair import NEAR
from toolkit.throughput.ports import packet_of

Change = Callable[[PairInputs], PairInputs]
_SPEEDS = {"1": 2.5, "2": 5.0, "3": 8.0, "4": 16.0, "5": 32.0, "6": 64.0}
_AS_ASKED = "as asked"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One wish: its words, and what it makes of a pair."""

    said: str  # "acs=off"
    change: Change


def parse_wishes(text: str) -> tuple[WhatIf, ...]:
    """Read "acs=off,iommu=pt,link=gen5x16".

    :raises UsageError: for an unknown name, or a value that it does not take.
    """
    return tuple(_wish(word.strip()) for word in text.split(",") if word.strip())


def with_wishes(told: NodeInputs, wishes: tuple[WhatIf, ...]) -> NodeInputs:
    """Every pair as wished; what no wish names stays as it was read."""
    pairs = told.pairs
    # Where it hangs comes first: what is wished of the bridges there is told of them.
    for wish in sorted(wishes, key=lambda each: not each.said.startswith("distance=")):
        pairs = tuple(_settled(wish.change(each), wish) for each in pairs)
    return replace(told, pairs=pairs)


# What was not read and is as asked now is no assumption any more.
_SETTLES = {
    "acs": ("ACS not read",),
    "iommu": ("IOMMU domain of", "ATS of"),
    "mtu": ("MTU of",),
    "rate": ("no port of",),
    "link": ("link of", "not every link"),
    "mps": ("packet size",),
}


def _settled(pair: PairInputs, wish: WhatIf) -> PairInputs:
    starts = _SETTLES.get(wish.said.partition("=")[0], ())
    return replace(pair, notes=tuple(each for each in pair.notes if not each.startswith(starts)))


def _wish(word: str) -> WhatIf:
    name, equals, value = word.partition("=")
    if name not in _KNOWN or not equals:
        raise UsageError(
            f"--what-if {word!r} is no wish that is known",
            hint="; ".join(f"{known}={takes}" for known, (_, takes) in _KNOWN.items()),
        )
    read, takes = _KNOWN[name]
    change = read(value.lower())
    if change is None:
        raise UsageError(
            f"--what-if {name}: {value!r} is none of {takes}", hint=f"say one of {takes}"
        )
    return WhatIf(word, change)


def _acs(value: str) -> Change | None:
    redirects = {"off": (), "on": ("the bridges, as asked",)}.get(value)
    return None if redirects is None else lambda pair: replace(pair, redirects=redirects)


def _iommu(value: str) -> Change | None:
    translated = {"pt": False, "off": False, "translated": True}.get(value)
    return None if translated is None else lambda pair: replace(pair, translated=translated)


def _gdr(value: str) -> Change | None:
    blocked = {"on": "", "off": _AS_ASKED}.get(value)
    if blocked is None:
        return None

    def told(pair: PairInputs) -> PairInputs:
        notes = tuple(each for each in pair.notes if each != NOT_TOLD)
        return replace(pair, blocked=blocked, notes=notes)

    return told


def _link(value: str) -> LinkTold | None:
    found = re.fullmatch(r"gen([1-6])x(1|2|4|8|16)", value)
    return LinkTold.known(Link(_SPEEDS[found[1]], int(found[2])), _AS_ASKED) if found else None


def _both_links(value: str) -> Change | None:
    link = _link(value)
    return None if link is None else lambda pair: replace(pair, gpu_link=link, hca_link=link)


def _gpu_link(value: str) -> Change | None:
    link = _link(value)
    return None if link is None else lambda pair: replace(pair, gpu_link=link)


def _hca_link(value: str) -> Change | None:
    link = _link(value)
    return None if link is None else lambda pair: replace(pair, hca_link=link)


def _on_wire(change: Callable[[HcaWire], HcaWire]) -> Change:
    return lambda pair: replace(pair, wire=change(pair.wire))


def _mtu(value: str) -> Change | None:
    """Of RDMA, or of the net device: 9000 leaves 4096."""
    size = int(value) if re.fullmatch(r"\d{3,5}", value) else 0
    packet = size if size in {256, 512, 1024, 2048, 4096} else packet_of(size)
    if not packet:
        return None
    return _on_wire(lambda wire: replace(wire, mtu=Range.exactly(packet)))


def _rate(value: str) -> Change | None:
    if not re.fullmatch(r"[1-9]\d{0,3}", value):
        return None
    return _on_wire(lambda wire: replace(wire, gbits=Range.exactly(float(value)), guessed=False))


def _layer(value: str) -> Change | None:
    layer = {"ib": Layer2.INFINIBAND, "roce": Layer2.ETHERNET}.get(value)
    return None if layer is None else _on_wire(lambda wire: replace(wire, layer=layer))


def _power(value: str, least: int) -> float | None:
    """A power of two of bytes, from ``least`` to 4096."""
    size = int(value) if re.fullmatch(r"\d{2,4}", value) else 0
    return float(size) if size in {least << shift for shift in range(6)} and size <= 4096 else None


def _mps(value: str) -> Change | None:
    size = _power(value, 128)
    return None if size is None else lambda pair: replace(pair, payload=Range.exactly(size))


def _mrrs(value: str) -> Change | None:
    size = _power(value, 128)
    return None if size is None else lambda pair: replace(pair, request=Range.exactly(size))


def _tags(value: str) -> Change | None:
    if value not in {"32", "256", "768"}:
        return None
    return lambda pair: replace(pair, tags=Range.exactly(float(value)))


def _distance(value: str) -> Change | None:
    names = {"pix": Distance.PIX, "phb": Distance.PHB, "node": Distance.NODE, "sys": Distance.SYS}
    distance = names.get(value)
    if distance is None:
        return None

    def moved(pair: PairInputs) -> PairInputs:
        """Below another switch nothing is known of its bridges."""
        new = distance is Distance.PIX and pair.distance not in NEAR
        return replace(pair, distance=distance, redirects=None if new else pair.redirects)

    return moved


_KNOWN: dict[str, tuple[Callable[[str], Change | None], str]] = {
    "acs": (_acs, "off|on"),
    "iommu": (_iommu, "pt|off|translated"),
    "gdr": (_gdr, "on|off"),
    "link": (_both_links, "gen5x16"),
    "gpu-link": (_gpu_link, "gen5x16"),
    "hca-link": (_hca_link, "gen5x16"),
    "mtu": (_mtu, "1024|2048|4096, or a net device's: 9000"),
    "rate": (_rate, "400 (Gb/s)"),
    "layer": (_layer, "ib|roce"),
    "mps": (_mps, "128..4096"),
    "mrrs": (_mrrs, "128..4096"),
    "tags": (_tags, "32|256|768"),
    "distance": (_distance, "pix|phb|node|sys"),
}
