"""What the running system shows of one setting of its firmware."""

from __future__ import annotations

from msgspec import Struct

from toolkit.checks.check import Finding, failed, not_applicable, passed
from toolkit.errors import NoEvidence
from toolkit.facts.node.node import Node
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.functions import PciFunction


class BiosFinding(Struct, frozen=True):
    """A finding from the system alone, and what it tells of the setting itself."""

    finding: Finding
    on: bool | None = None  # None: it is no switch, or the system does not show how it stands
    firm: bool = True  # False: the kernel or an operator may have changed what firmware set
    number: int | None = None  # what it stands at, where it is a count
    moot: bool = False  # nothing here that the setting would act on: no BMC's word matters


def right(
    found: str,
    *,
    on: bool | None = None,
    firm: bool = True,
    number: int | None = None,
    details: tuple[str, ...] = (),
) -> BiosFinding:
    """As it should be."""
    return BiosFinding(passed(found, details=details), on, firm, number)


def wrong(
    found: str,
    *,
    expected: str,
    on: bool | None = None,
    firm: bool = True,
    hint: str = "",
    details: tuple[str, ...] = (),
) -> BiosFinding:
    """Not as it should be."""
    return BiosFinding(failed(found, expected=expected, hint=hint, details=details), on, firm)


def unseen(why: str) -> BiosFinding:
    """The system does not show it: n/a, never a failure, unless a BMC tells."""
    return BiosFinding(not_applicable(why))


def moot(why: str) -> BiosFinding:
    """Nothing here that the setting would act on: n/a, whatever a BMC tells."""
    return BiosFinding(not_applicable(why), moot=True)


def config_of(node: Node, function: PciFunction) -> ConfigSpace:
    """The bytes of a function's config space.

    :raises NoEvidence: where they are not part of the evidence: lspci's words are not enough.
    """
    space = node.pci_config.functions[function.address].config
    if space is None:
        raise NoEvidence(f"config space of {function.address}: not part of this evidence")
    return space
