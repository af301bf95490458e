"""The kinds of BMC that are simulated, each small and written from what is known of its maker."""

from __future__ import annotations

from collections.abc import Callable

from tests.bmc.persona import Persona
from tests.bmc.personas.ami import dgx, gigabyte
from tests.bmc.personas.dell import dell
from tests.bmc.personas.grace import grace
from tests.bmc.personas.hpe import hpe
from tests.bmc.personas.lenovo import lenovo
from tests.bmc.personas.supermicro import supermicro

PERSONAS: dict[str, Callable[[], Persona]] = {
    each.__name__: each for each in (dell, hpe, lenovo, supermicro, dgx, gigabyte, grace)
}

# One attribute of each that may be changed, and the value that it does not have.
CHANGES: dict[str, dict[str, str | int | bool]] = {
    "dell": {"SriovGlobalEnable": "Enabled"},
    "hpe": {"AccessControlService": "Disabled"},
    "lenovo": {"Processors_P2PRequestRedirect": False},
    "supermicro": {"Re_SizeBARSupport_00D1": "Enabled"},
    "dgx": {"PcieRelaxedOrdering": "No"},
    "gigabyte": {"PCIS009": "PCIS009Enabled"},
    "grace": {"Socket0Pcie0AdvertiseACS": False},
}
