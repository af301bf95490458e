"""The BMCs of a fleet: which belongs to whom, and what each says, beside what its node says.

A BMC that cannot be read spoils nothing else: why it could not stands in the evidence, where
checks of its BIOS find it. What is opened here is closed whichever way the run ends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from toolkit.errors import BmcError, UsageError
from toolkit.evidence import Frame
from toolkit.hosts.host import Host
from toolkit.interrupts import terminable
from toolkit.package_data import kept
from toolkit.redfish.access import BmcAccess, PlacedBmc
from toolkit.redfish.client import Bmc
from toolkit.redfish.http import BmcLimits
from toolkit.redfish.reader import failed
from toolkit.redfish.registry import RegistryCache
from toolkit.redfish.session import SessionRegistry


class BmcFleet:
    """The BMCs of the hosts that have one. Called from many threads."""

    def __init__(
        self,
        access: BmcAccess,
        placed: dict[str, PlacedBmc],
        doors: SessionRegistry,
        cache: RegistryCache,
    ) -> None:
        self.access = access
        self.placed = placed
        self._doors = doors
        self._cache = cache
        self._turns = {each.address: threading.Lock() for each in placed.values()}

    def given(self, host: Host) -> bool:
        """Whether the host has a BMC that we were told of."""
        return host.name in self.placed

    def refuse_shared(self) -> None:
        """Before a change: what is meant for two hosts would be done twice to one machine.

        :raises UsageError: two hosts have one BMC.
        """
        owner: dict[str, str] = {}
        for name, place in self.placed.items():
            other = owner.setdefault(place.address, name)
            if other != name:
                raise UsageError(
                    f"{other} and {name} have one BMC: {place.address}",
                    hint="nothing was sent; mend the line in --bmc-map, or leave one of them out",
                )

    def connect(self, host: Host) -> Bmc:
        """A way to the host's BMC; logging in is entering it as a block.

        :raises UsageError: no BMC was given for it.
        """
        place = self.placed.get(host.name)
        if place is None:
            raise UsageError(
                f"{host.name}: no BMC is given for it",
                hint="a line in --bmc-map, or bmc=ADDRESS in the inventory",
            )
        return Bmc(
            place.address,
            self.access.login,
            place.trust,
            limits=replace(BmcLimits(), total_s=self.access.limit_s),
            doors=self._doors,
        )

    def frames(self, host: Host) -> tuple[Frame, ...]:
        """What the host's BMC says, as evidence; () where none was given. Raises no BmcError."""
        place = self.placed.get(host.name)
        if place is None:
            return ()
        try:
            # Two hosts behind one BMC are most likely a slip: it is asked once at a time.
            with self._turns[place.address], self.connect(host) as bmc:
                return bmc.read(self._cache)
        except BmcError as why:
            return failed(place.address, why)


@contextmanager
def open_bmcs(
    access: BmcAccess, hosts: Sequence[Host], *, fresh: bool = False
) -> Iterator[BmcFleet]:
    """The BMCs of these hosts; every session is closed when the block ends, however it ends.

    :param fresh: registries are read anew, since a change is to be planned on them.
    :raises UsageError: none of the hosts has one, an address makes no sense, or nobody knows where
        the user keeps caches.
    """
    placed = access.placed(hosts)
    if not placed:
        raise UsageError(
            "no BMC is given for any of these hosts",
            hint="a line HOST ADDRESS in --bmc-map, or bmc=ADDRESS in the inventory",
        )
    cache = RegistryCache(kept("XDG_CACHE_HOME", "~/.cache") / "registries", fresh=fresh)
    with terminable(), SessionRegistry() as doors:
        yield BmcFleet(access, placed, doors, cache)
