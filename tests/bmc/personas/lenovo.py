"""Lenovo, Intel: as a ThinkSystem SR670 V2 (XCC) is known to have its attributes."""

from __future__ import annotations

from tests.bmc.persona import Manners, Persona
from tests.bmc.plant import ROOT, Attribute, Layout, choice, flag, grow, number, when

_IO = "./DevicesandIOPorts/DevicesandIOPorts_DevicesandIOPorts"
_PROC, _POWER = "./Processors/Processors_Processors", "./Power/Power_Power"
_ON_OFF = "Disabled Enabled"

_LAYOUT = Layout(
    vendor="Lenovo",
    model="ThinkSystem SR670 V2",
    bios_version="U8E122J",
    bmc_version="TGBT42S",
    serial="SIMLEN01",
    sku="7Z23CTO1WW",
    uuid="11111111-2222-3333-4444-53494d303033",
    pending="Pending",
    registry_id="BiosAttributeRegistry.1.0.0",
    named="BiosAttributeRegistry.1.0.0",
    file="BiosAttributeRegistry.1.0.0",
    uri=ROOT + "/schemas/registries/BiosAttributeRegistry.1.0.0.json",
    action_info=True,
)
_MANNERS = Manners(
    apply_times=("OnReset",),
    resets=(
        *("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi"),
        "ForceOn",
    ),
    accepts=202,
)


def _bit(name: str, display: str) -> Attribute:
    """The registry's defaults of booleans are "0" and "1"; the resource has true and false."""
    return flag(f"Processors_{name}", display, _PROC, True, DefaultValue="1", GrayOut=False)


_ATTRIBUTES = (
    choice(
        "DevicesandIOPorts_PCI64BitResourceAllocation",
        *("PCI 64-Bit Resource", _IO, "Auto Enabled Disabled", "Auto"),
    ),
    choice("DevicesandIOPorts_SRIOV", "SRIOV", _IO, _ON_OFF, "Enabled"),
    choice(
        "DevicesandIOPorts_IntelVTforDirectedIOVTd",
        *("Intel VT for Directed I/O (VT-d)", _IO, _ON_OFF, "Enabled"),
    ),
    choice(
        "DevicesandIOPorts_DMAControlOpt_InFlag",
        "DMA Control Opt-In Flag",
        _IO,
        _ON_OFF,
        "Disabled",
    ),
    choice(
        "DevicesandIOPorts_PCIeGen_Slot1",
        *("PCIe Gen Slot 1", _IO, "Auto Gen1 Gen2 Gen3 Gen4", "Auto"),
    ),
    choice("Processors_PCIeACSCTL", "PCIe ACSCTL", _PROC, _ON_OFF, "Enabled"),
    _bit("SourceValidation", "Source Validation"),
    _bit("TranslationBlocking", "Translation Blocking"),
    _bit("P2PRequestRedirect", "P2P Request Redirect"),
    _bit("P2PCompletionRedirect", "P2P Completion Redirect"),
    _bit("UpstreamForwardingEnable", "Upstream Forwarding Enable"),
    choice("Processors_SNC", "SNC", _PROC, _ON_OFF, "Disabled"),
    choice("Processors_CStates", "C-States", _PROC, "Legacy Autonomous Disabled", "Legacy"),
    choice("Processors_HyperThreading", "Hyper-Threading", _PROC, _ON_OFF, "Enabled"),
    choice("Power_ASPM", "ASPM", _POWER, "Auto Disabled", "Auto"),
    choice(
        "Power_WorkloadConfiguration",
        "Workload Configuration",
        _POWER,
        "Balanced I_OSensitive",
        "Balanced",
    ),
    number(
        "SystemRecovery_POSTWatchdogTimerValue",
        *("POST Watchdog Timer Value", "./SystemRecovery/SystemRecovery_SystemRecovery"),
        bounds=(5, 20),
        now=5,
    ),
)
_RULES = (
    *when("Processors_PCIeACSCTL", "Disabled", "Processors_P2PRequestRedirect", GrayOut=True),
    *when("Processors_PCIeACSCTL", "Disabled", "Processors_P2PCompletionRedirect", GrayOut=True),
)


def lenovo() -> Persona:
    """Bios/Pending, booleans, 202 without a job, the allowed resets in an ActionInfo."""
    return grow("lenovo", _LAYOUT, _MANNERS, _ATTRIBUTES, _RULES)
