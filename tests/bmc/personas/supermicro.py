"""Supermicro, Intel: as an X13 board (BIOS 1.4) is known to have its attributes."""

from __future__ import annotations

from typing import Any

from tests.bmc.persona import Manners, Persona
from tests.bmc.plant import Attribute, Layout, choice, flag, grow

_PCI = "./Advanced/PCIe/PCI/PnP Configuration"
_IIO, _CPU = "./Advanced/Chipset Configuration/North Bridge/IIO Configuration", "./Advanced/CPU"
_VTD = _IIO + "/Intel VT for Directed I/O (VT-d)"
_IOAT = _IIO + "/IOAT Configuration"

_LAYOUT = Layout(
    vendor="Supermicro",
    model="SYS-821GE-TNHR",
    bios_version="1.4",
    bmc_version="11.01.01",
    serial="SIMSMC00001",
    sku="To be filled by O.E.M.",
    uuid="22222222-2222-3333-4444-53494d303034",
    pending="SD",
    # The registry's own name differs from the one that the Bios resource writes, and it lies
    # outside the service root.
    registry_id="BiosAttributeRegistry.v1.0.0",
    named="BiosAttributeRegistry.v1_0_0",
    file="BiosAttributeRegistry.v1_0_0",
    uri="/registries/BiosAttributeRegistry.v1_0_0.json",
)
_MANNERS = Manners(
    resets=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi"),
)


def _numbered(
    name: str, display: str, menu: str, values: str, now: str | None, **more: Any
) -> Attribute:
    """The registry numbers its values; the resource shows the names, and takes them."""
    listed = [
        {"ValueName": str(number), "ValueDisplayName": each}
        for number, each in enumerate(values.split("|"))
    ]
    return choice(name, display, menu, [], now, Value=listed, **more)


_ATTRIBUTES = (
    _numbered("Above4GDecoding_00CF", "Above 4G Decoding", _PCI, "Disabled|Enabled", "Enabled"),
    _numbered(
        "Re_SizeBARSupport_00D1", "Re-Size BAR Support", _PCI, "Disabled|Enabled", "Disabled"
    ),
    _numbered("SR_IOVSupport_00D0", "SR-IOV Support", _PCI, "Disabled|Enabled", "Enabled"),
    _numbered(
        "MMIOHighBase_00D8", "MMIO High Base", _PCI, "56T|40T|32T|24T|16T|4T|2T|1T|512G", "32T"
    ),
    _numbered(
        "MMIOHighGranularitySize_00D9",
        *("MMIO High Granularity Size", _PCI, "4G|16G|64G|256G|1024G|2048G", "256G"),
    ),
    _numbered(
        "IntelVTforDirectedI_O_VT_d__1D05",
        *("Intel VT for Directed I/O (VT-d)", _VTD, "Disable|Enable", "Enable"),
    ),
    _numbered("PCIeACSCTL_1D0A", "PCIe ACSCTL", _VTD, "Disable|Enable", "Disable"),
    _numbered(
        "Pre_bootDMAProtection_1D0B", "Pre-boot DMA Protection", _VTD, "Disable|Enable", "Disable"
    ),
    # Of the processor's DMA engine, and not of peers: a trap for matchers.
    _numbered("RelaxedOrdering_1DD1", "Relaxed Ordering", _IOAT, "No|Yes", "No"),
    # In the registry alone.
    _numbered(
        "PCIeRemoteP2PRelaxedOrdering_0026",
        *("PCIe Remote P2P Relaxed Ordering", _IIO, "Disable|Enable", None),
        Hidden=True,
    ),
    # What to do with a degraded link; not its speed.
    _numbered(
        "Gen5LinkDegradation_0BB1", "Gen5 Link Degradation", _IIO, "Disable|Enable", "Enable"
    ),
    _numbered(
        "PCIeASPMSupport_Global__00C4",
        "PCIe ASPM Support (Global)",
        _PCI,
        "Disable|Auto",
        "Disable",
    ),
    _numbered(
        "PCIeMaxReadRequestSize_00C6",
        *("PCIe Max Read Request Size", _PCI, "Auto|128B|256B|512B|1024B|2048B|4096B", "Auto"),
    ),
    _numbered(
        "SNC_0D11",
        "SNC",
        _CPU,
        "Auto|Disable|Enable SNC2 (2-clusters)|Enable SNC4 (4-clusters)",
        "Disable",
    ),
    _numbered(
        "Hyper_Threading_ALL__0D02", "Hyper-Threading [ALL]", _CPU, "Disable|Enable", "Enable"
    ),
    _numbered("PackageCState_0D31", "Package C State", _CPU, "C0/C1 state|C2 state|Auto", "Auto"),
    flag("SecureBootEnable_0300", "Secure Boot Enable", "./Security/Secure Boot", False),
)


def supermicro() -> Persona:
    """Bios/SD, suffixes of one BIOS, numbers as value names, a registry with another name."""
    return grow("supermicro", _LAYOUT, _MANNERS, _ATTRIBUTES)
