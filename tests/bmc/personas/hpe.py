"""HPE, AMD: attributes and rules as a DL385 Gen10 Plus v2 (BIOS A42) is known to have them."""

from __future__ import annotations

from tests.bmc.persona import Manners, Persona
from tests.bmc.plant import ROOT, Layout, choice, grow, number, text, when

_VIRT, _PERF, _IO = (
    "./VirtualizationOptions",
    "./PowerPerformanceOptions",
    "./PowerPerformanceOptions/IoOptions",
)
_ON_OFF = "Enabled Disabled"

_LAYOUT = Layout(
    vendor="HPE",
    model="ProLiant DL385 Gen10 Plus v2",
    bios_version="A42 v2.60 (08/11/2022)",
    bmc_version="iLO 5 v2.72",
    serial="SIMHPE0001",
    sku="P00001-B21",
    uuid="30303050-3030-4d53-3031-53494d303031",
    bios="bios",
    pending="settings",
    registry_id="BiosAttributeRegistryA42.v1_2_60",
    named="BiosAttributeRegistryA42.v1_2_60",
    file="BiosAttributeRegistryA42.v1_2_60",
    uri=ROOT + "/registrystore/registries/en/biosattributeregistrya42.v1_2_60",
    product="ProLiant DL385 Gen10 Plus v2",
)
_MANNERS = Manners(
    resets=(
        *("On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton"),
        "GracefulRestart",
    ),
    outcome=True,
    any_case=True,
    basic_sessions=True,
    session_timeout_s=30,
)
_PROFILES = (
    "GeneralPowerEfficientCompute",
    "HighPerformanceCompute(HPC)",
    "Virtualization-MaxPerformance",
    "I/OThroughput",
    "Custom",
)
_ATTRIBUTES = (
    choice("WorkloadProfile", "Workload Profile", "./", _PROFILES, "Custom"),
    choice("AccessControlService", "Access Control Service", _VIRT, _ON_OFF, "Enabled"),
    choice("ProcAmdIoVt", "AMD I/O Virtualization Technology", _VIRT, _ON_OFF, "Enabled"),
    choice("AmdDmaRemapping", "AMD DMA Remapping", _VIRT, _ON_OFF, "Disabled"),
    choice("Sriov", "SR-IOV", _VIRT, _ON_OFF, "Enabled"),
    choice("ProcX2Apic", "Processor x2APIC Support", _VIRT, "Auto ForceEnabled Disabled", "Auto"),
    choice("ProcSMT", "AMD SMT Option", _VIRT, _ON_OFF, "Enabled"),
    choice("PciResourcePadding", "PCI Resource Padding", _IO, "Normal Medium High", "Normal"),
    choice(
        *("NumaMemoryDomainsPerSocket", "NUMA memory domains per socket", _PERF),
        "OneMemoryDomainPerSocket TwoMemoryDomainsPerSocket FourMemoryDomainsPerSocket Auto",
        now="Auto",
    ),
    choice(
        "MinProcIdlePower", "Minimum Processor Idle Power Core C-State", _PERF, "C6 NoCStates", "C6"
    ),
    choice(
        "PciSlot1Aspm",
        "PCI Slot 1 ASPM",
        "./PciDeviceConfigurationOptions",
        "L1 Disabled",
        "Disabled",
    ),
    number("PreferredIOBusNumber", "Preferred IO Bus Number", _IO, (0, 255), 0),
    choice(
        "SecureBootStatus",
        "Secure Boot Status",
        "./ServerSecurity",
        _ON_OFF,
        "Disabled",
        ReadOnly=True,
    ),
    text("AdminName", "Server Admin Name", "./ServerAssetInformation", ""),
)
_HPC = "HighPerformanceCompute(HPC)"
_RULES = (
    *when("WorkloadProfile", _HPC, "ProcAmdIoVt", CurrentValue="Disabled", ReadOnly=True),
    *when("WorkloadProfile", _HPC, "MinProcIdlePower", CurrentValue="NoCStates", GrayOut=True),
    *when("WorkloadProfile", _HPC, "Sriov", CurrentValue="Disabled", ReadOnly=True),
)


def hpe() -> Persona:
    """Paths in any case, sessions of 30 s, an outcome told after the boot; no apply times."""
    made = grow("hpe", _LAYOUT, _MANNERS, _ATTRIBUTES, _RULES)
    small = f"{ROOT.lower()}/systems/1/bios"
    made.tree[made.system]["Bios"]["@odata.id"] = small
    made.tree[made.bios]["@Redfish.Settings"]["SettingsObject"]["@odata.id"] = f"{small}/settings/"
    for path in (made.bios, made.waiting):
        made.tree[path]["@odata.id"] = f"{path.replace('/Systems/', '/systems/')}/"
    return made
