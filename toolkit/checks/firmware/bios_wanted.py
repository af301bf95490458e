"""What each setting of a BIOS should be, by role; the site's file goes before it.

Only what decides on peer-to-peer traffic is wanted. What is a matter of taste, or of the jobs that
run (NUMA clustering, SMT, power profiles), is shown and left alone, unless the site names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolkit.compat.bios import BiosRole
from toolkit.facts.firmware.redfish_values import Meaning
from toolkit.want import Role

ON, OFF, AUTO = Meaning.ON, Meaning.OFF, Meaning.AUTO


class BiosGoal(Struct, frozen=True):
    """What one setting should be."""

    word: str  # what a change asks for: "on", "off", "auto", or a word of the BIOS's own
    will_do: frozenset[Meaning]  # what is left as it is; empty where ``word`` alone will do
    why: str  # one clause

    def __str__(self) -> str:
        return " or ".join(dict.fromkeys([self.word, *sorted(self.will_do)]))


def _row(word: Meaning, *also: Meaning, why: str) -> BiosGoal:
    return BiosGoal(word.value, frozenset({word, *also}), why)


_EVERYWHERE = {
    BiosRole.ABOVE_4G: _row(ON, AUTO, why="BARs of GPUs do not fit below 4 GiB"),
    BiosRole.RESIZABLE_BAR: _row(
        ON, AUTO, why="a peer reaches no more of a GPU than its BAR shows"
    ),
    BiosRole.RELAXED_ORDERING: _row(ON, AUTO, why="strict ordering costs bandwidth between peers"),
    BiosRole.TEN_BIT_TAG: _row(AUTO, ON, why="few tags cap what is in flight"),
    BiosRole.ASPM: _row(OFF, why="links that doze add latency, and some do not wake up"),
}
_BY_ROLE = {
    Role.BARE_METAL: {
        BiosRole.ACS: _row(OFF, why="redirection sends peers' traffic through the root complex"),
        BiosRole.DMA_PROTECTION: _row(OFF, why="it keeps devices behind translation from boot on"),
    },
    Role.VM_HOST: {
        BiosRole.ACS: _row(ON, AUTO, why="without it guests' devices share IOMMU groups"),
        BiosRole.ATS: _row(ON, AUTO, why="it lets peers of one guest go straight"),
        BiosRole.IOMMU: _row(ON, AUTO, why="devices are given to guests by the IOMMU"),
        BiosRole.SR_IOV: _row(ON, AUTO, why="guests are given virtual functions"),
    },
}  # fmt: skip


def wanted(role: Role | None, site: Mapping[str, str] | None = None) -> Mapping[BiosRole, BiosGoal]:
    """What is wanted, by setting; a setting that is not in it may be anything.

    :param role: None where it is not known: then what depends on it is not wanted either way.
        A guest's firmware is its host's matter: nothing is wanted of it.
    :param site: ``bios`` of the site's file: setting and word.
    """
    found: dict[BiosRole, BiosGoal] = {}
    if role is not Role.VM:
        found = dict(_EVERYWHERE)
    if role is not None:
        found |= _BY_ROLE.get(role, {})
    for name, word in (site or {}).items():
        found[BiosRole(name)] = BiosGoal(word, frozenset(), "the site's file says so")
    return found
