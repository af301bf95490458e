"""Our client on a simulated BMC."""

from __future__ import annotations

from typing import Any

from tests.bmc.simulator import Simulator
from toolkit.evidence import Frame
from toolkit.redfish.access import BmcTrust, Login
from toolkit.redfish.client import Bmc
from toolkit.redfish.http import BmcLimits

QUICK = BmcLimits(connect_s=5, answer_s=5, total_s=20)


def bmc_on(
    bmc: Simulator, *, password: str = "", trust: BmcTrust | None = None, **told: Any
) -> Bmc:
    """Our client, with the right password and the site's CA unless told otherwise."""
    login = Login(bmc.user, password or bmc.password)
    told.setdefault("limits", QUICK)
    return Bmc(bmc.address, login, trust or BmcTrust(ca=str(bmc.ca)), **told)


def by_key(frames: tuple[Frame, ...]) -> dict[str, Frame]:
    return {each.key: each for each in frames}
