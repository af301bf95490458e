"""What the node's BMC tells of its BIOS."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.compat.bios import BiosRole, shipped
from toolkit.errors import NoEvidence
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.firmware.bios_setting import Exposed, hidden, match
from toolkit.facts.firmware.redfish_bios import Bios, parse_bios
from toolkit.facts.firmware.redfish_bmc import (
    BmcMachine,
    BmcRead,
    SecureBootState,
    parse_bmc,
    parse_lockdown,
    parse_machine,
    parse_secure_boot,
)
from toolkit.facts.reading import Reading


class Bmcs(Reading):
    """What the node's BMC tells of its BIOS: nothing unless a BMC was given."""

    @fact
    def has_bmc(self) -> bool:
        """Whether a BMC was asked at all; what came of it is ``bmc``."""
        return self._given("bmc")

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

    @fact
    def bmc_machine(self) -> BmcMachine:
        """The machine that the BMC says it sits in."""
        return parse_machine(self._text("bmc-system"))

    @fact
    def bmc_secure_boot(self) -> SecureBootState:
        """Secure boot as the BMC tells it."""
        return parse_secure_boot(self._text("bmc-secureboot"))

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
