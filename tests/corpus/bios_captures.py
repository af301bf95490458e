"""Where a BIOS lies in each capture, and which attributes of it are settings: checked by hand."""

from __future__ import annotations

from dataclasses import dataclass

from tests.corpus.known import CORPUS, REDFISH
from toolkit.compat.bios import BiosRole
from toolkit.facts.firmware.redfish_bios import Bios, parse_bios

S = BiosRole


@dataclass(frozen=True, slots=True)
class Capture:
    """Paths below redfish/v1, without index.json."""

    bios: str
    registry: str
    pending: str
    system: str


CAPTURES = {
    "dell": Capture(
        "Systems/System.Embedded.1/Bios",
        "Systems/System.Embedded.1/Bios/BiosRegistry",
        "Systems/System.Embedded.1/Bios/Settings",
        "Systems/System.Embedded.1",
    ),
    "hpe": Capture(
        "Systems/1/Bios",
        "registrystore/registries/en/biosattributeregistrya42.v1_2_60",
        "Systems/1/Bios/settings",
        "Systems/1",
    ),
    "lenovo": Capture(
        "Systems/1/Bios",
        "schemas/registries/BiosAttributeRegistry.1.0.0.json",
        "Systems/1/Bios/Pending",
        "Systems/1",
    ),
    "nvidia_gb200": Capture(
        "Systems/System_0/Bios",
        "Registries/BiosAttributeRegistry/BiosAttributeRegistry",
        "Systems/System_0/Bios/Settings",
        "Systems/System_0",
    ),
}


def texts(name: str) -> dict[str, str]:
    """The resources of one capture as served, by the argument of parse_bios."""
    at = CAPTURES[name]
    root = REDFISH / name / "redfish/v1"
    paths = {"bios": at.bios, "registry": at.registry, "pending": at.pending, "system": at.system}
    return {key: (root / path / "index.json").read_text("utf-8") for key, path in paths.items()}


def bios_of(name: str) -> Bios:
    """A capture's BIOS; a name with a slash is a lone Bios resource of the corpus."""
    if "/" in name:
        return parse_bios((CORPUS / name).read_text("utf-8"))
    return parse_bios(**texts(name))


_DELL = {
    S.ABOVE_4G: ["MmioAbove4Gb"],
    S.MMIO_WINDOW: ["CpuPaLimit", "MemoryMappedIOH"],
    S.SR_IOV: ["SriovGlobalEnable"],
    S.IOMMU: ["ProcVirtualization"],
    S.DMA_PROTECTION: ["KernelDmaProtection"],
    S.ASPM: ["PcieAspmL1"],
    S.NUMA_CLUSTERING: ["NodeInterleave", "SubNumaCluster"],
    S.C_STATES: ["ProcCStates"],
    S.POWER_PROFILE: ["SysProfile", "WorkloadProfile"],
    S.SMT: ["LogicalProc"],
    S.X2APIC: ["ProcX2Apic"],
    S.SECURE_BOOT: ["SecureBoot"],
}
_A42 = {
    S.MMIO_WINDOW: ["PciResourcePadding"],
    S.SR_IOV: ["Sriov"],
    S.IOMMU: ["ProcAmdIoVt"],
    S.DMA_PROTECTION: ["AmdDmaRemapping"],
    S.ACS: ["AccessControlService"],
    S.ASPM: [f"PciSlot{slot}Aspm" for slot in (1, 10, 2, 4, 5)],
    S.LINK_SPEED: ["MaxPcieSpeed", *(f"PciSlot{slot}LinkSpeed" for slot in (1, 10, 2, 4, 5))],
    S.NUMA_CLUSTERING: ["LastLevelCacheAsNUMANode", "NumaMemoryDomainsPerSocket"],
    S.C_STATES: ["DataFabricCStateEnable", "MinProcIdlePower"],
    S.POWER_PROFILE: ["AMDPerformanceWorkloadProfile", "DeterminismControl", "WorkloadProfile"],
    S.SMT: ["ProcSMT"],
    S.X2APIC: ["ProcX2Apic"],
    S.SECURE_BOOT: ["SecureBootStatus"],
}
_IO = "DevicesandIOPorts_"
_LENOVO = {
    S.ABOVE_4G: [_IO + "PCI64BitResourceAllocation"],
    S.MMIO_WINDOW: [_IO + "PCI64BitResourceAllocation"],
    S.SR_IOV: [_IO + "SRIOV"],
    S.IOMMU: [_IO + "IntelVTforDirectedIOVTd"],
    S.DMA_PROTECTION: [_IO + "DMAControlOpt_InFlag"],
    S.ACS: [
        "Processors_P2PCompletionRedirect",
        "Processors_P2PRequestRedirect",
        "Processors_PCIeACSCTL",
        "Processors_SourceValidation",
        "Processors_TranslationBlocking",
        "Processors_UpstreamForwardingEnable",
    ],
    S.ASPM: ["Power_ASPM"],
    S.LINK_SPEED: sorted(
        [
            *(f"{_IO}PCIeGen_NVMeBay{bay}" for bay in range(8)),
            *(f"{_IO}PCIeGen_Slot{n}" for n in (*range(1, 11), 15, 16, 20, 21, 25, 26, 27)),
        ]
    ),
    S.NUMA_CLUSTERING: ["Memory_SocketInterleave", "Processors_SNC"],
    S.C_STATES: ["Processors_CStates"],
    S.POWER_PROFILE: ["OperatingModes_ChooseOperatingMode", "Power_WorkloadConfiguration"],
    S.SMT: ["Processors_HyperThreading"],
    S.SECURE_BOOT: [
        "SecureBootConfiguration_SecureBootSetting",
        "SecureBootConfiguration_SecureBootStatus",
    ],
}
# Two sockets with ten ports each.
_PORTS = [f"Socket{socket}Pcie{port}" for socket in range(2) for port in range(10)]
_GB200 = {
    S.ACS: [f"{port}AdvertiseACS" for port in _PORTS],
    S.TEN_BIT_TAG: [f"{port}Ext10BitTagReq" for port in _PORTS],
    S.PAYLOAD: [f"{port}MaxPayloadSize" for port in _PORTS],
    S.ASPM: [f"{port}EnableASPML1" for port in _PORTS],
    S.LINK_SPEED: [f"{port}MaxPCIespeed" for port in _PORTS],
}
_X13 = {
    S.ABOVE_4G: ["Above4GDecoding_0041"],
    S.MMIO_WINDOW: [
        "LimitCPUPAto46Bits_F319", "MMIOHighBase_0045", "MMIOHighGranularitySize_0046",
    ],
    S.RESIZABLE_BAR: ["Re_SizeBARSupport_0042"],
    S.SR_IOV: ["SR_IOVSupport_0047"],
    S.IOMMU: ["IntelVTforDirectedI_O_VT_d__1E32"],
    S.DMA_PROTECTION: ["Pre_bootDMAProtection_1E36"],
    S.ACS: ["PCIeACSCTL_1E3C"],
    S.PAYLOAD: ["PCIeMaxReadRequestSize_00AE"],
    S.ASPM: ["PCIeASPMSupport_Global__00A6"],
    S.NUMA_CLUSTERING: ["NUMA_003B", "SNC_F300"],
    S.C_STATES: ["CPUC6Report_3D22", "PackageCState_3D25"],
    S.SMT: ["Hyper_Threading_ALL__F27F"],
    S.SECURE_BOOT: ["SecureBootEnable_0122"],
}  # fmt: skip
_SLOTS = (14, 16, 17, 18, 2)
_U58 = {
    S.MMIO_WINDOW: ["PciResourcePadding", "ProcessorPhysicalAddress"],
    S.SR_IOV: ["Sriov"],
    S.IOMMU: ["IntelProcVtd"],
    S.ACS: ["AccessControlService"],
    S.ASPM: [*(f"PciSlot{slot}Aspm" for slot in _SLOTS), "PcieGlobalAspm"],
    S.LINK_SPEED: ["MaxPcieSpeed", *(f"PciSlot{slot}LinkSpeed" for slot in _SLOTS)],
    S.NUMA_CLUSTERING: ["Numa", "SubNumaClustering", "VirtualNuma"],
    S.C_STATES: ["MinProcIdlePkgState", "MinProcIdlePower"],
    S.POWER_PROFILE: ["WorkloadProfile"],
    S.SMT: ["ProcHyperthreading"],
    S.X2APIC: ["ProcX2Apic"],
    S.SECURE_BOOT: ["SecureBootStatus"],
}
# What each BIOS exposes; a setting that is not named here is not exposed.
TRUTH: dict[str, dict[BiosRole, list[str]]] = {
    "dell": _DELL,
    "hpe": _A42,
    "lenovo": _LENOVO,
    "nvidia_gb200": _GB200,
    "redfishbios/dell_mmioabove4gb_on.txt": _DELL,
    "redfishbios/hpe_amd_acs_enabled.txt": _A42,
    "redfishbios/hpe_intel_vtd_acs_sriov.txt": _U58,
    "redfishbios/smc_acs_disabled_above4g_on.txt": _X13,
}
COUNTS = {"dell": 12, "hpe": 13, "lenovo": 13, "nvidia_gb200": 5}
