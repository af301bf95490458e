"""The kind of board, its ACS, IOMMU, firmware and BMC, and what the next boot makes of them."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.compat.bios import BiosRole, shipped
from toolkit.errors import NoEvidence, NotCollected
from toolkit.evidence import State
from toolkit.facts.boot.acs_boot import AcsArguments, parse_acs_arguments, parse_acs_units
from toolkit.facts.boot.cmdline import Cmdline, parse_cmdline, parse_grub_default
from toolkit.facts.fact import fact
from toolkit.facts.firmware.bios_setting import Exposed, hidden, match
from toolkit.facts.firmware.cpu_setup import parse_setup
from toolkit.facts.firmware.redfish_bios import Bios, parse_bios
from toolkit.facts.firmware.redfish_bmc import (
    BmcRead,
    parse_bmc,
    parse_lockdown,
    parse_machine,
    parse_secure_boot,
)
from toolkit.facts.lines import filled
from toolkit.facts.node.devices import Devices
from toolkit.facts.node.system import System
from toolkit.facts.pci.iommu import IommuSaid, parse_iommu_log, parse_iommu_table
from toolkit.facts.pci.platform import Platform, classify
from toolkit.facts.pci.windows import parse_iomem, parse_regions
from toolkit.facts.reading import Reading, given, parsed, there


class Platforms(System, Devices):
    """The kind of board, its ACS and its IOMMU, and what the next boot makes of them."""

    @fact
    def platform(self) -> Platform:
        """How the board connects GPUs with HCAs.

        :raises NoEvidence: where an excerpt of lspci does not tell.
        """
        found = classify(self.pci)
        if found is Platform.ROOT_PORTS and not self.pci.whole:
            raise NoEvidence("an excerpt of lspci: how GPUs and HCAs meet is not told")
        return found

    # What calls setpci at boot, as far as its name or text tells.
    acs_units = parsed("acs-units", parse_acs_units)

    has_setpci = there("setpci")  # of pciutils; an older probe did not look

    @fact
    def acs_arguments(self) -> AcsArguments:
        """What the running kernel was told about ACS."""
        return parse_acs_arguments(tuple(self.cmdline.values("pci")))

    @fact
    def next_acs_arguments(self) -> AcsArguments:
        """What the next boot tells its kernel about ACS."""
        return parse_acs_arguments(tuple(self.next_cmdline.values("pci")))

    @fact
    def acpi_tables(self) -> frozenset[str]:
        """Firmware tables that offer an IOMMU: "DMAR", "IVRS", "IORT"."""
        return frozenset(line.rpartition("/")[2] for line in filled(self._text("acpi-tables")))

    @fact
    def loose(self) -> bool:
        """Put together from files that an operator had: nothing of the IOMMU in sysfs."""
        return not self._given("iommu-groups") and not self._given("iommu-units")

    # Whether the evidence tells of the processor at all.
    knows_cpu = given("cpu")
    # Whether the evidence tells the kernel's arguments at all.
    knows_cmdline = given("cmdline")

    @fact
    def grub_default(self) -> Cmdline | None:
        """Arguments that /etc/default/grub gives, where that file alone was given."""
        if self._given("boot-entries") or not self._given("grub-default"):
            return None
        return parse_grub_default(self._text("grub-default"))

    @fact
    def iommu_log(self) -> IommuSaid:
        """What the kernel logged of its IOMMU."""
        return parse_iommu_log(self.dmesg)

    @fact
    def iommu_told(self) -> tuple[IommuSaid | None, Cmdline | None]:
        """For loose files: the kernel log and the arguments, each as far as it was given.

        :raises NotCollected: where neither was.
        """
        log = self.iommu_log if self._given("dmesg") else None
        arguments = self.cmdline if self._given("cmdline") else None
        if arguments is None and log is not None and log.cmdline is not None:
            arguments = parse_cmdline(log.cmdline)
        if log is None and arguments is None:
            raise NotCollected(
                "iommu-groups: not part of this evidence", hint="collect the evidence again"
            )
        return log, arguments


class Firmware(Reading):
    """What the firmware decided, as far as the running system shows it."""

    # Threads, idle states, clocks and sockets.
    setup = parsed("setup", parse_setup)
    # The address windows of the host bridges.
    windows = parsed("iomem", parse_iomem)
    # Memory regions of PCI endpoints by address, with their place.
    regions = parsed("pci-resources", parse_regions)
    # The firmware's own table of IOMMUs; None where it offers none.
    iommu_table = parsed("acpi-bytes", parse_iommu_table)


class Bmcs(Reading):
    """What the node's BMC tells of its BIOS: nothing unless a BMC was given."""

    # Whether a BMC was asked at all; what came of it is ``bmc``.
    has_bmc = given("bmc")

    @fact
    def has_bios_text(self) -> bool:
        """Whether somebody gave the settings as a text, without the BMC that tells them."""
        return not self._given("bmc") and self._given("bmc-bios")

    @fact
    def bmc(self) -> BmcRead:
        """The BMC that was read.

        :raises NotCollected: where none was asked.
        :raises NoEvidence: where it could not be read; the frame says why.
        """
        if self._state("bmc") is not State.OK:
            why = self.sources.frame("bmc").text.strip()
            if why:
                raise NoEvidence(why.split("\n")[0])
        return parse_bmc(self._text("bmc"))

    # The machine that the BMC says it sits in.
    bmc_machine = parsed("bmc-system", parse_machine)
    # Secure boot as the BMC tells it.
    bmc_secure_boot = parsed("bmc-secureboot", parse_secure_boot)

    @fact
    def bmc_lockdown(self) -> str:
        """Why the BMC takes no change at all, as a clause; "" where it does, or does not tell."""
        return parse_lockdown(self._offered("bmc-bios-lockdown"))

    @fact
    def bios(self) -> Bios:
        """The BIOS as the BMC tells of it; registry and pending values where they are offered.

        Given as a text it may be what Supermicro's own tool wrote.
        """
        text = self._text("bmc-bios")
        if text.lstrip().startswith("<"):
            from toolkit.facts.firmware.sum_bios import parse_sum_bios  # noqa: PLC0415 of texts alone

            return parse_sum_bios(text)
        return parse_bios(
            text,
            registry=self._offered("bmc-bios-registry"),
            pending=self._offered("bmc-bios-pending"),
            system=self._offered("bmc-system"),
        )

    @fact
    def bios_settings(self) -> Mapping[BiosRole, tuple[Exposed, ...]]:
        """Every setting with the attributes that are it; () for one that is not exposed."""
        return match(self.bios, shipped())

    @fact
    def bios_hidden(self) -> Mapping[BiosRole, tuple[str, ...]]:
        """Names that the registry lists for a setting, and the BIOS does not serve."""
        return hidden(self.bios, shipped())

    def _offered(self, key: str) -> str:
        """A resource that not every BMC has; "" where this one has none, or was not read."""
        return self._text(key) if self._given(key) and self._read_well(key) else ""
