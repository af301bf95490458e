"""How to get at BMCs: everything an operator says about them. Nothing is opened here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from toolkit.hosts.host import Host
from toolkit.redfish.bmc_map import BmcPlace
from toolkit.redfish.trust import Login, Trust, base_url

LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Placed:
    """One host's BMC, and what makes us trust it."""

    address: str
    trust: Trust


@dataclass(frozen=True, slots=True)
class BmcAccess:
    """What was said of BMCs."""

    login: Login
    trust: Trust = field(default_factory=Trust)
    places: Mapping[str, BmcPlace] = field(default_factory=dict)  # --bmc-map, by host's name
    limit_s: float = LIMIT_S

    def placed(self, hosts: Iterable[Host]) -> dict[str, Placed]:
        """Those of ``hosts`` that have a BMC: the map goes over the inventory.

        :raises UsageError: an address makes no sense.
        """
        found: dict[str, Placed] = {}
        for host in hosts:
            place = self.places.get(host.name) or BmcPlace(host.bmc)
            if place.address:
                base_url(place.address)
                trust = replace(self.trust, pins=(place.pin,)) if place.pin else self.trust
                found[host.name] = Placed(place.address, trust)
        return found
