"""A BIOS as a BMC serves it, with values and rules as Dell writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import match
from toolkit.facts.firmware.redfish_bios import Bios, parse_bios
from toolkit.features.bios.plan import BiosPlan, plan_bios
from toolkit.features.bios.plan_wishes import BiosWish, read_asked
from toolkit.want import Role

SWITCH = ("Enabled", "Disabled")
# A server of Dell's, Intel: names and rules as on an R750.
CURRENT: dict[str, Any] = {  # Any: JSON
    "MmioAbove4Gb": "Enabled",
    "SriovGlobalEnable": "Enabled",
    "ProcVirtualization": "Enabled",
    "KernelDmaProtection": "Enabled",
    "SysProfile": "PerfPerWattOptimizedDapc",
    "PcieAspmL1": "Enabled",
    "SubNumaCluster": "Disabled",
    "NodeInterleave": "Disabled",
}
CHOICES = {
    "SysProfile": ("PerfPerWattOptimizedDapc", "PerfOptimized", "Custom"),
    "SubNumaCluster": ("2-Way", "Disabled"),
}


def rule(to: str, what: str, value: object, *conditions: tuple[str, str, str]) -> dict[str, Any]:
    """One dependency; conditions without terms are joined by OR. Any: JSON."""
    made = [
        {"MapFromAttribute": a, "MapFromProperty": "CurrentValue", "MapFromCondition": c,
         "MapFromValue": v}
        for a, c, v in conditions
    ]  # fmt: skip
    inner = {"MapFrom": made, "MapToAttribute": to, "MapToProperty": what, "MapToValue": value}
    return {"DependencyFor": to, "Type": "Map", "Dependency": inner}


NO_VT = ("ProcVirtualization", "EQU", "Disabled")
RULES = (
    rule("KernelDmaProtection", "CurrentValue", "Disabled", NO_VT),
    rule("KernelDmaProtection", "ReadOnly", True, NO_VT),
    rule("PcieAspmL1", "ReadOnly", True, ("SysProfile", "NEQ", "Custom")),
    rule("PcieAspmL1", "CurrentValue", "Disabled", ("SysProfile", "EQU", "PerfOptimized")),
    rule("SubNumaCluster", "CurrentValue", "Disabled", ("NodeInterleave", "EQU", "Enabled")),
)


def registry(
    current: Mapping[str, Any], closed: frozenset[str] = frozenset({"PcieAspmL1"})
) -> dict[str, Any]:
    """The registry of these attributes. Any: JSON.

    :param closed: those that are read-only at this moment.
    """
    entries = [
        {
            "AttributeName": name,
            "DisplayName": name,
            "Type": "Boolean" if isinstance(value, bool) else "Enumeration",
            "ReadOnly": name in closed,
            "Value": []
            if isinstance(value, bool)
            else [{"ValueName": each} for each in CHOICES.get(name, SWITCH)],
        }
        for name, value in current.items()
    ]
    return {
        "OwningEntity": "Dell",
        "RegistryEntries": {"Attributes": entries, "Dependencies": list(RULES)},
    }


def bios(
    pending: Mapping[str, Any] | None = None,
    *,
    closed: frozenset[str] = frozenset({"PcieAspmL1"}),
    **current: object,
) -> Bios:
    """That server, with these values in place of its own. Any: JSON."""
    now = CURRENT | current
    return parse_bios(
        json.dumps({"Id": "Bios", "Attributes": now}),
        json.dumps(registry(now, closed)),
        json.dumps({"Attributes": dict(pending or {})}),
        json.dumps({"Manufacturer": "Dell Inc.", "Model": "PowerEdge R750"}),
    )


def planned(of: Bios, asked: str, role: Role | None = Role.BARE_METAL) -> BiosPlan:
    """The plan for what ``--set`` says."""
    return plan_wishes(of, *read_asked(asked).on(wanted(role)))


def plan_wishes(of: Bios, *wishes: BiosWish, lockdown: str = "") -> BiosPlan:
    return plan_bios(of, match(of, shipped()), wishes, lockdown)


def settings(of: Bios) -> frozenset[BiosRole]:
    """Those that it exposes."""
    return frozenset(each for each, found in match(of, shipped()).items() if found)
