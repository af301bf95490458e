"""What a repair would buy: the same node with some inputs as somebody wishes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

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
T = TypeVar("T")
_SPEEDS = {"1": 2.5, "2": 5.0, "3": 8.0, "4": 16.0, "5": 32.0, "6": 64.0}
_AS_ASKED = "as asked"


class WhatIf(Struct, frozen=True):
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


def _blocked(pair: PairInputs, why: str) -> PairInputs:
    notes = tuple(each for each in pair.notes if each != NOT_TOLD)
    return replace(pair, blocked=why, notes=notes)


def _moved(pair: PairInputs, distance: Distance) -> PairInputs:
    """Below another switch nothing is known of its bridges."""
    new = distance is Distance.PIX and pair.distance not in NEAR
    return replace(pair, distance=distance, redirects=None if new else pair.redirects)


def _link(value: str) -> LinkTold | None:
    found = re.fullmatch(r"gen([1-6])x(1|2|4|8|16)", value)
    return LinkTold.known(Link(_SPEEDS[found[1]], int(found[2])), _AS_ASKED) if found else None


def _mtu(value: str) -> Range | None:
    """Of RDMA, or of the net device: 9000 leaves 4096."""
    size = int(value) if re.fullmatch(r"\d{3,5}", value) else 0
    packet = size if size in {256, 512, 1024, 2048, 4096} else packet_of(size)
    return Range.exactly(packet) if packet else None


def _rate(value: str) -> Range | None:
    return Range.exactly(float(value)) if re.fullmatch(r"[1-9]\d{0,3}", value) else None


def _power(value: str) -> Range | None:
    """A power of two of bytes, from 128 to 4096."""
    size = int(value) if re.fullmatch(r"\d{2,4}", value) else 0
    return Range.exactly(float(size)) if size in {128 << shift for shift in range(6)} else None


def _put(
    read: Callable[[str], T | None], change: Callable[[PairInputs, T], PairInputs]
) -> Callable[[str], Change | None]:
    """What reads a value and makes of it a change; None where ``read`` does not know it."""

    def reader(text: str) -> Change | None:
        value = read(text)
        return None if value is None else lambda pair: change(pair, value)

    return reader


def _put_on_wire(
    read: Callable[[str], T | None], change: Callable[[HcaWire, T], HcaWire]
) -> Callable[[str], Change | None]:
    return _put(read, lambda pair, value: replace(pair, wire=change(pair.wire, value)))


_REDIRECTS: dict[str, tuple[str, ...]] = {"off": (), "on": ("the bridges, as asked",)}
_TRANSLATED = {"pt": False, "off": False, "translated": True}
_LAYERS = {"ib": Layer2.INFINIBAND, "roce": Layer2.ETHERNET}
_TAGS = {each: Range.exactly(float(each)) for each in ("32", "256", "768")}
_DISTANCES = {"pix": Distance.PIX, "phb": Distance.PHB, "node": Distance.NODE, "sys": Distance.SYS}
_KNOWN: dict[str, tuple[Callable[[str], Change | None], str]] = {
    "acs": (_put(_REDIRECTS.get, lambda pair, by: replace(pair, redirects=by)), "off|on"),
    "iommu": (
        _put(_TRANSLATED.get, lambda pair, so: replace(pair, translated=so)),
        "pt|off|translated",
    ),
    "gdr": (_put({"on": "", "off": _AS_ASKED}.get, _blocked), "on|off"),
    "link": (
        _put(_link, lambda pair, link: replace(pair, gpu_link=link, hca_link=link)),
        "gen5x16",
    ),
    "gpu-link": (_put(_link, lambda pair, link: replace(pair, gpu_link=link)), "gen5x16"),
    "hca-link": (_put(_link, lambda pair, link: replace(pair, hca_link=link)), "gen5x16"),
    "mtu": (
        _put_on_wire(_mtu, lambda wire, mtu: replace(wire, mtu=mtu)),
        "1024|2048|4096, or a net device's: 9000",
    ),
    "rate": (
        _put_on_wire(_rate, lambda wire, rate: replace(wire, gbits=rate, guessed=False)),
        "400 (Gb/s)",
    ),
    "layer": (_put_on_wire(_LAYERS.get, lambda wire, layer: replace(wire, layer=layer)), "ib|roce"),
    "mps": (_put(_power, lambda pair, size: replace(pair, payload=size)), "128..4096"),
    "mrrs": (_put(_power, lambda pair, size: replace(pair, request=size)), "128..4096"),
    "tags": (_put(_TAGS.get, lambda pair, tags: replace(pair, tags=tags)), "32|256|768"),
    "distance": (_put(_DISTANCES.get, _moved), "pix|phb|node|sys"),
}
