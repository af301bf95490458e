"""What came of a BIOS that was looked at, planned for and changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.errors import ExitCode
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_bmc import BmcRead
from toolkit.features.bios.plan.lines import Line, ill
from toolkit.features.bios.plan.plan import BiosPlan, Block, Edit
from toolkit.want import Role


@dataclass(frozen=True, slots=True)
class Looked:
    """One BIOS as its BMC tells of it now."""

    about: BmcRead
    bios: Bios
    lines: tuple[Line, ...]
    plan: BiosPlan = field(default_factory=BiosPlan)
    role: Role | None = None  # None: not said, and the node could not be asked
    remarks: tuple[str, ...] = ()  # what a reader must hold of it

    @property
    def machine(self) -> str:
        """ "Dell Inc. PowerEdge R750, BIOS 1.8.2"; "" for a BMC that names nothing."""
        name = " ".join(each for each in (self.bios.vendor, self.bios.model) if each)
        version = f"BIOS {self.bios.version}" if self.bios.version else ""
        return ", ".join(each for each in (name, version) if each)

    @property
    def shown(self) -> ExitCode:
        """Of a look alone: whether what is wanted is so."""
        return ExitCode.FAILED if ill(self.lines) else ExitCode.OK

    @property
    def to_do(self) -> ExitCode:
        """Of a plan: what stands in its way goes before what is to be done."""
        if any(each.block is not Block.NOT_EXPOSED for each in self.plan.blocked):
            return ExitCode.FAILED
        if self.plan.pending:
            return ExitCode.PENDING
        # A BIOS that does not tell of what was named leaves it to the OS to know.
        unknown = any(each.named for each in self.plan.blocked)
        return ExitCode.UNKNOWN if unknown else ExitCode.OK


@dataclass(frozen=True, slots=True)
class Changed:
    """One BIOS's way from what it was to what it is."""

    before: Looked
    after: Looked
    steps: tuple[str, ...] = ()  # what was done, a sentence each
    missed: tuple[Edit, ...] = ()  # the machine has started since, and these are not in force
    sent: bool = False  # whether a BMC took anything on
    resets: int = 0
    busy: str = ""  # why it was not reset

    @property
    def exit_code(self) -> ExitCode:
        """What is not in force after a start is a failure; what waits for one is pending."""
        return ExitCode.FAILED if self.missed else self.after.to_do

    @property
    def as_agreed(self) -> bool:
        """Whether all is done that the plan promised; it had shown what cannot be had."""
        if self.missed or self.busy or self.after.plan.pending:
            return False
        return set(self.after.plan.blocked) <= set(self.before.plan.blocked)
