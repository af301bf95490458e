"""AMI MegaRAC: a DGX H100, and a board with opaque ids that announces no pending resource."""

from __future__ import annotations

from tests.bmc.persona import Etag, Manners, Pending, Persona
from tests.bmc.plant import Layout, choice, grow

_ON_OFF = "Disabled Enabled"
_DGX = Layout(
    vendor="NVIDIA",
    model="DGXH100",
    bios_version="1.1.3",
    bmc_version="23.09.20",
    serial="SIMDGX0000001",
    sku="",
    uuid="33333333-2222-3333-4444-53494d303035",
    system="DGX",
    pending="SD",
    manager="BMC",
    registry_id="BiosAttributeRegistry.v1_1_3",
    named="BiosAttributeRegistry.v1_1_3",
    file="BiosAttributeRegistry.v1_1_3",
    language="en-US",
    others=("HGX_Baseboard_0",),
)
_BOARD = Layout(
    vendor="Giga Computing",
    model="G293-S42",
    bios_version="R11_F14",
    bmc_version="13.06.02",
    serial="SIMGIG0001",
    sku="01234567",
    uuid="44444444-2222-3333-4444-53494d303036",
    system="Self",
    pending="SD",
    announced=False,
    manager="Self",
    registry_id="BiosAttributeRegistryM1.1.0.0",
    named="BiosAttributeRegistryM1.1.0.0",
    file="BiosAttributeRegistryM1.1.0.0",
    language="en-US",
)
_MANNERS = Manners(
    etag=Etag.REQUIRED_428,
    pending=Pending.BARE,
    resets=("ForceOff", "ForceRestart", "GracefulShutdown", "On"),
    accepts=204,
    session_timeout_s=30,
)
# No menu paths: this registry has none.
_DGX_ATTRIBUTES = (
    choice("VTdSupport", "Intel VT for Directed I/O (VT-d)", "", "Disable Enable", "Enable"),
    # Pre-boot DMA protection, whatever the name says.
    choice("ControlIommu", "Pre-boot DMA Protection", "", "Disable Enable", "Disable"),
    choice("SRIOVEnable", "SR-IOV Support", "", "Disable Enable", "Enable"),
    choice("SriovSupport", "SR-IOV Support", "", _ON_OFF, "Enabled"),
    choice("PcieRelaxedOrdering", "Relaxed Ordering", "", "No Yes", "Yes"),
    choice("PcieRootPortRO", "PCI-E Root Port Relaxed Ordering", "", _ON_OFF, "Enabled"),
    # Of the processor's DMA engine.
    choice("CbRelaxedOrdering", "Relaxed Ordering", "", "Disable Enable", "Disable"),
    choice(
        *("PciePort10bitTag", "10-Bit Tag", "", ("Disable", "Auto", "Force Enable")),
        now="Force Enable",
    ),
    choice("PcieMaxPayload", "Maximum Payload", "", "Auto 128B 256B 512B", "Auto"),
    choice(
        *("PcieMaxReadRequestSize", "Maximum Read Request", ""),
        "Auto 128B 256B 512B 1024B 2048B 4096B",
        now="4096B",
    ),
    # Enabled means that hyper-threading is enabled.
    choice("ProcessorHyperThreadingDisable", "Hyper-Threading", "", _ON_OFF, "Enabled"),
    choice(
        *("UmaBasedClustering", "UMA-Based Clustering", ""),
        ("Disable (All2All)", "Quadrant   (4-clusters)"),
        now="Quadrant   (4-clusters)",
    ),
    choice("NumaEn", "NUMA", "", "Disable Enable", "Enable"),
    choice("PackageCState", "Package C State", "", ("C0/C1 state", "C2 state", "Auto"), "Auto"),
    choice("SecureBootSupport", "Secure Boot", "", _ON_OFF, "Disabled"),
)


_PCI = "./Advanced/PCI Subsystem Settings"
_BOARD_ATTRIBUTES = (
    choice(
        "PCIS006", "Above 4G Decoding", _PCI, "PCIS006Disabled PCIS006Enabled", "PCIS006Enabled"
    ),
    choice("PCIS007", "SR-IOV Support", _PCI, "PCIS007Disabled PCIS007Enabled", "PCIS007Enabled"),
    choice("PCIS008", "Relaxed Ordering", _PCI, "PCIS008Disabled PCIS008Enabled", "PCIS008Enabled"),
    choice("PCIS009", "Extended Tag", _PCI, "PCIS009Disabled PCIS009Enabled", "PCIS009Disabled"),
    choice("Rome0162", "IOMMU", "./AMD CBS/NBIO Common Options", "Auto Enabled Disabled", "Auto"),
    choice(
        "Rome0059", "SMT Control", "./AMD CBS/CPU Common Options", "Auto Enable Disable", "Auto"
    ),
    choice("Rome0565", "SVM Mode", "./Advanced/CPU Configuration", _ON_OFF, "Enabled"),
)


def dgx() -> Persona:
    """428 without If-Match, a pending resource that is empty, a second system without a BIOS."""
    return grow("dgx", _DGX, _MANNERS, _DGX_ATTRIBUTES)


def gigabyte() -> Persona:
    """Bios/SD that nothing announces, and attributes whose names say nothing."""
    return grow("gigabyte", _BOARD, _MANNERS, _BOARD_ATTRIBUTES)
