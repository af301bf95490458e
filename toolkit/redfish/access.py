"""How to get at BMCs: everything an operator says about them. Nothing is opened here.

Which BMC belongs to which host: a file with one host, or set of hosts, a line.

    gpu001        10.0.7.1
    gpu[002-128]  bmc[002-128].oob:8443           as many BMCs as hosts, in their order
    login1        10.0.7.200  sha256:AB:CD:...    and the fingerprint of its certificate

Comments stand behind "#". What the file says goes over what an inventory has as ``bmc``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolkit.errors import InventoryError, UsageError
from toolkit.hosts.addresses import split_spot, unfold
from toolkit.hosts.host import Host
from toolkit.redfish import LIMIT_S
from toolkit.redfish.tls import BmcTrust, Login, base_url, read_pin
from toolkit.untrusted import read_host_text


@dataclass(frozen=True, slots=True)
class BmcPlace:
    """Where a host's BMC is, and what its certificate is known by."""

    address: str
    pin: str = ""  # SHA-256, 64 lower hexadecimal digits; "" for none


def read_map(file: Path) -> dict[str, BmcPlace]:
    """The BMCs of a file, by the names of their hosts.

    :raises InventoryError: it cannot be read, or one line of it, with its number.
    """
    found: dict[str, BmcPlace] = {}
    for number, raw in enumerate(read_host_text(file).split("\n"), start=1):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        try:
            for host, place in _line(words):
                if found.setdefault(host, place) != place:
                    raise UsageError(f"{host} has two BMCs", hint="one line a host")
        except UsageError as why:
            raise InventoryError(f"{file}:{number}: {why}", hint=why.hint) from why
    if not found:
        raise InventoryError(f"{file}: names no BMC", hint="one host and its BMC a line")
    return found


def _line(words: list[str]) -> Iterator[tuple[str, BmcPlace]]:
    if len(words) not in (2, 3):
        raise UsageError(
            f"{len(words)} words, where a host, its BMC and maybe a fingerprint stand",
            hint="gpu001 10.0.7.1 sha256:AB:CD:...",
        )
    hosts, addresses = unfold(words[0]), _addresses(words[1])
    pin = read_pin(words[2]) if len(words) == 3 else ""
    if len(hosts) != len(addresses):
        raise UsageError(
            f"{len(hosts)} hosts and {len(addresses)} BMCs", hint="as many of each on a line"
        )
    if pin and len(hosts) > 1:
        raise UsageError("one fingerprint for many BMCs", hint="one line a BMC where it is pinned")
    for host, address in zip(hosts, addresses, strict=True):
        base_url(address)
        yield host, BmcPlace(address, pin)


def _addresses(text: str) -> list[str]:
    """Addresses that a word stands for: only names have ranges."""
    if "[" not in text or text.startswith("["):
        return [text]
    spot = split_spot(text)
    return [f"{name}:{spot.port}" if spot.port else name for name in unfold(spot.host, shown=text)]


@dataclass(frozen=True, slots=True)
class PlacedBmc:
    """One host's BMC, and what makes us trust it."""

    address: str
    trust: BmcTrust


@dataclass(frozen=True, slots=True)
class BmcAccess:
    """What was said of BMCs."""

    login: Login
    trust: BmcTrust = field(default_factory=BmcTrust)
    places: Mapping[str, BmcPlace] = field(default_factory=dict)  # --bmc-map, by host's name
    limit_s: float = LIMIT_S

    def placed(self, hosts: Iterable[Host]) -> dict[str, PlacedBmc]:
        """Those of ``hosts`` that have a BMC: the map goes over the inventory.

        :raises UsageError: an address makes no sense.
        """
        found: dict[str, PlacedBmc] = {}
        for host in hosts:
            place = self.places.get(host.name) or BmcPlace(host.bmc)
            if place.address:
                base_url(place.address)
                trust = replace(self.trust, pins=(place.pin,)) if place.pin else self.trust
                found[host.name] = PlacedBmc(place.address, trust)
        return found
