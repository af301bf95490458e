"""What the firmware decided, as far as the running system shows it."""

from __future__ import annotations

from toolkit.facts.fact import fact
from toolkit.facts.firmware.acpi import IommuTable, parse_iommu_table
from toolkit.facts.firmware.cpu_setup import Setup, parse_setup
from toolkit.facts.pci.windows import Region, Window, parse_iomem, parse_regions
from toolkit.facts.reading import Reading


class Firmware(Reading):
    """What the firmware decided, as far as the running system shows it."""

    @fact
    def setup(self) -> Setup:
        """Threads, idle states, clocks and sockets."""
        return parse_setup(self._text("setup"))

    @fact
    def windows(self) -> tuple[Window, ...]:
        """The address windows of the host bridges."""
        return parse_iomem(self._text("iomem"))

    @fact
    def regions(self) -> dict[str, tuple[Region, ...]]:
        """Memory regions of PCI endpoints by address, with their place."""
        return parse_regions(self._text("pci-resources"))

    @fact
    def iommu_table(self) -> IommuTable | None:
        """The firmware's own table of IOMMUs; None where it offers none."""
        return parse_iommu_table(self._text("acpi-bytes"))
