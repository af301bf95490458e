"""Dell, Intel: attributes and rules as a PowerEdge R750 (BIOS 1.8.2) is known to have them."""

from __future__ import annotations

from tests.bmc.persona import Etag, Manners, Pending, Persona
from tests.bmc.plant import ROOT, Layout, choice, grow, number, text, when

_PROC, _IO, _SYS = "./ProcSettingsRef", "./IntegratedDevicesRef", "./SysProfileSettingsRef"
_MEM, _SEC = "./MemSettingsRef", "./SysSecurityRef"
_ON_OFF = "Enabled Disabled"
_MANAGER = ROOT + "/Managers/iDRAC.Embedded.1"

_LAYOUT = Layout(
    vendor="Dell Inc.",
    model="PowerEdge R750",
    bios_version="1.8.2",
    bmc_version="6.00.30.00",
    serial="CNSIM0000000001",
    sku="SIM0001",
    uuid="4c4c4544-0053-4910-804d-b0c04f303031",
    system="System.Embedded.1",
    manager="iDRAC.Embedded.1",
    registry_id="BiosAttributeRegistry.v1_0_3",
    named="BiosAttributeRegistry.v1_0_3",
    file="BiosAttributeRegistry.v1_0_0",
    uri=ROOT + "/Systems/System.Embedded.1/Bios/BiosRegistry",
    product="Integrated Dell Remote Access Controller",
)
_MANNERS = Manners(
    etag=Etag.NONE,
    pending=Pending.CHANGES,
    apply_times=("OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"),
    resets=(
        *("On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown"),
        *("PushPowerButton", "Nmi", "PowerCycle"),
    ),
    jobs=_MANAGER + "/Oem/Dell/Jobs",
    live_registry=True,
    action_if_match=False,
    progress=True,
    session_timeout_s=1800,
)
_ATTRIBUTES = (
    text("SystemModelName", "System Model Name", "./SysInformationRef", "", ReadOnly=True),
    choice("LogicalProc", "Logical Processor", _PROC, _ON_OFF, "Enabled"),
    choice("ProcVirtualization", "Virtualization Technology", _PROC, _ON_OFF, "Enabled"),
    choice("KernelDmaProtection", "Kernel DMA Protection", _PROC, _ON_OFF, "Disabled"),
    choice("ProcAts", "Address Translation Services (ATS)", _PROC, _ON_OFF, "Enabled", Hidden=True),
    choice("ProcX2Apic", "x2APIC Mode", _PROC, _ON_OFF, "Enabled"),
    choice("SubNumaCluster", "Sub NUMA Cluster", _PROC, "2-Way Disabled", "Disabled"),
    choice("NodeInterleave", "Node Interleaving", _MEM, _ON_OFF, "Disabled"),
    choice("MmioAbove4Gb", "Memory Mapped I/O above 4GB", _IO, _ON_OFF, "Enabled"),
    choice("MemoryMappedIOH", "Memory Mapped I/O Base", _IO, "56TB 12TB 512GB", "56TB"),
    choice("SriovGlobalEnable", "SR-IOV Global Enable", _IO, _ON_OFF, "Disabled"),
    choice(
        *("SysProfile", "System Profile", _SYS),
        *("PerfPerWattOptimizedDapc PerfPerWattOptimizedOs PerfOptimized Custom", "PerfOptimized"),
    ),
    choice("ProcCStates", "C-States", _SYS, "Enabled Disabled Autonomous", "Disabled"),
    choice("PcieAspmL1", "PCI ASPM L1 Link Power Management", _SYS, _ON_OFF, "Disabled"),
    choice(
        "WorkloadProfile", "Workload Profile", _SYS, "NotConfigured HpcProfile", "NotConfigured"
    ),
    choice("SecureBoot", "Secure Boot", _SEC, _ON_OFF, "Disabled"),
    number("AcPwrRcvryUserDelay", "User Defined Delay (120s to 600s)", _SEC, (120, 600), 120),
)
_RULES = (
    *when("ProcVirtualization", "Disabled", "KernelDmaProtection", CurrentValue="Disabled"),
    *when("ProcVirtualization", "Disabled", "KernelDmaProtection", ReadOnly=True),
    *when("ProcVirtualization", "Disabled", "ProcX2Apic", CurrentValue="Disabled", ReadOnly=True),
    *when("NodeInterleave", "Enabled", "SubNumaCluster", CurrentValue="Disabled", ReadOnly=True),
    *when("SysProfile", "PerfPerWattOptimizedDapc", "PcieAspmL1", CurrentValue="Enabled"),
    *when("SysProfile", "PerfPerWattOptimizedDapc", "ProcCStates", CurrentValue="Enabled"),
    *when("SysProfile", "PerfOptimized", "PcieAspmL1", CurrentValue="Disabled"),
    *when("SysProfile", "PerfOptimized", "ProcCStates", CurrentValue="Disabled"),
    *when("SysProfile", "Custom", "PcieAspmL1", unless=True, ReadOnly=True),
    *when("SysProfile", "Custom", "ProcCStates", unless=True, ReadOnly=True),
)


def dell() -> Persona:
    """Jobs, lockdown, apply times; no ETags; read-only state in the registry as it is now."""
    made = grow("dell", _LAYOUT, _MANNERS, _ATTRIBUTES, _RULES)
    attributes = _MANAGER + "/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
    made.tree[_MANAGER]["Links"]["Oem"] = {"Dell": {"DellAttributes": [{"@odata.id": attributes}]}}
    made.tree[attributes] = {
        "@odata.id": attributes,
        "@odata.type": "#DellAttributes.v1_0_0.DellAttributes",
        "Id": "iDRACAttributes",
        "Name": "OEMAttributeRegistry",
        "Attributes": {"Lockdown.1.SystemLockdown": "Disabled"},
    }
    waiting = made.tree[made.waiting]
    target = f"{made.waiting}/Actions/Oem/DellManager.ClearPending"
    clear = {"DellManager.v1_0_0#DellManager.ClearPending": {"target": target}}
    waiting["Actions"] = {"Oem": clear}
    waiting["Oem"] = {"Dell": {"Jobs": {"@odata.id": _MANNERS.jobs}}}
    return made
