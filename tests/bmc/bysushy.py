"""sushy by itself as a client of a BMC: what somebody else's code makes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sushy
from sushy.auth import BasicAuth, SessionAuth

from tests.bmc.simulator import Simulator


@contextlib.contextmanager
def sushy_on(bmc: Simulator, *, basic: bool = False) -> Iterator[Any]:
    """sushy's root of the service, by a session that is closed at the end."""
    kind = BasicAuth if basic else SessionAuth
    auth = kind(username=bmc.user, password=bmc.password)
    root = sushy.Sushy(f"{bmc.url}/redfish/v1/", auth=auth, verify=str(bmc.ca))
    try:
        yield root
    finally:
        auth.close()
        root._conn.close()


def system_of(root: Any) -> Any:
    """The first system that has a Bios, as sushy sees it."""
    systems = root.get_system_collection().get_members()
    return next(each for each in systems if "Bios" in each.json)
