"""Small BIOSes for what the captures lack, written from the facts: names, menus and values.

Each is a Bios resource with its registry and its system, as JSON texts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import Exposed, match
from toolkit.facts.firmware.redfish_bios import Bios, parse_bios
from toolkit.facts.firmware.redfish_json import Raw


@dataclass(frozen=True, slots=True)
class Row:
    """One attribute: its value, and what the registry tells of it."""

    name: str
    value: Raw
    display: str = ""
    menu: str = ""
    values: tuple[str, ...] = ()
    unserved: bool = False  # in the registry alone


def switch(name: str, value: Raw, display: str = "", menu: str = "") -> Row:
    return Row(name, value, display, menu, ("Disabled", "Enabled"))


def entry(row: Row) -> dict[str, object]:
    """The registry's entry; without a menu it has no MenuPath at all, as on a DGX."""
    made: dict[str, object] = {
        "AttributeName": row.name,
        "DisplayName": row.display,
        "Type": "Boolean" if isinstance(row.value, bool) else "Enumeration",
        "Value": [{"ValueName": each} for each in row.values],
    }
    return {**made, "MenuPath": row.menu} if row.menu else made


def bios_of(rows: tuple[Row, ...], vendor: str = "", *, registry: bool = True) -> Bios:
    """A BIOS that has these attributes; without a registry only names and values are known."""
    served = {"Attributes": {each.name: each.value for each in rows if not each.unserved}}
    known = {"Language": "en-US", "RegistryEntries": {"Attributes": [entry(r) for r in rows]}}
    return parse_bios(
        json.dumps(served),
        registry=json.dumps(known) if registry else "",
        system=json.dumps({"Manufacturer": vendor, "Model": None}),
    )


def exposed(bios: Bios, setting: BiosRole) -> tuple[Exposed, ...]:
    return match(bios, shipped())[setting]


def names(bios: Bios, setting: BiosRole) -> list[str]:
    return [each.name for each in exposed(bios, setting)]


def settings(bios: Bios) -> set[BiosRole]:
    """What the BIOS exposes at all."""
    return {setting for setting, found in match(bios, shipped()).items() if found}


IOAT = "./Advanced/IIO Configuration/IOAT Configuration"
VTD = "./Advanced/IIO Configuration/Intel VT for Directed I/O (VT-d)"
X13 = (
    Row("Above4GDecoding_0041", "Enabled", "Above 4G Decoding"),
    Row("Re_SizeBARSupport_0042", "Disabled", "Re-Size BAR Support"),
    Row("MMIOHighBase_0045", "4T", "MMIO High Base"),
    Row("SR_IOVSupport_0047", "Enabled", "SR-IOV Support"),
    Row("IntelVTforDirectedI_O_VT_d__1E32", "Enable", "Intel VT for Directed I/O (VT-d)", VTD),
    Row("Pre_bootDMAProtection_1E36", "Disable", "Pre-boot DMA Protection", VTD),
    Row("PCIeACSCTL_1E3C", "Disable", "PCIe ACSCTL", VTD),
    Row("RelaxedOrdering_1DD1", "No", "Relaxed Ordering", IOAT),
    Row("PCIeRemoteP2PRelaxedOrdering_0026", "Enable", "Remote P2P", unserved=True),
    Row("Gen4LinkDegradation_1867", "Enable", "Gen4 Link Degradation"),
    Row("PCIeMaxReadRequestSize_00AE", "Auto", "PCIe Max Read Request Size"),
    Row("PCIeASPMSupport_Global__00A6", "Disable", "PCIe ASPM Support (Global)"),
    Row("SNC_F300", "Enable SNC2 (2-clusters)", "SNC"),
    Row("UMA_BasedClustering_F301", "Quadrant   (4-clusters)", "UMA-Based Clustering"),
    Row("PackageCState_3D25", "Auto", "Package C State"),
    Row("Hyper_Threading_ALL__F27F", "Enable", "Hyper-Threading [ALL]"),
    Row("SecureBootEnable_0122", False, "Secure Boot"),
)
# No entry of this registry has a menu.
DGX = (
    switch("VTdSupport", "Enable", "Intel VT for Directed I/O"),
    switch("ControlIommu", "Disable", "Pre-boot DMA Protection"),
    switch("DmaCtrlOptIn", "Enable", "DMA Control Opt-In Flag"),
    switch("SRIOVEnable", "Enable", "SR-IOV"),
    switch("SriovSupport", "Enabled", "SR-IOV Support"),
    Row("PcieRelaxedOrdering", "Yes", "PCIe Relaxed Ordering"),
    switch("PcieRootPortRO", "Enabled", "Root Port Relaxed Ordering"),
    switch("CbRelaxedOrdering", "Disabled", "Relaxed Ordering"),
    Row("PciePort10bitTag", "Force Enable", "10-bit Tag"),
    Row("PcieMaxPayload", "512B", "Max Payload"),
    Row("PcieMaxReadRequestSize", "4096B", "Max Read Request Size"),
    Row("UmaBasedClustering", "Quadrant   (4-clusters)", "UMA-Based Clustering"),
    switch("NumaEn", "Enable", "NUMA"),
    Row("PackageCState", "C0/C1 state", "Package C State"),
    Row("WorkLdConfig", "I/O sensitive", "Workload Configuration"),
    switch("ProcessorHyperThreadingDisable", "Enabled", "Hyper-Threading [ALL]"),
    switch("SecureBootSupport", "Disabled", "Secure Boot"),
)
AMI = (
    Row("PCIS006", "PCIS006Enabled", "Above 4G Decoding", "./PCI Subsystem Settings"),
    Row("PCIS007", "PCIS007Disabled", "SR-IOV Support", "./PCI Subsystem Settings"),
    Row("PCIS008", "Enabled", "Relaxed Ordering", "./PCI Subsystem Settings"),
)
