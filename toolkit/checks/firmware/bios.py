"""The frame of the checks on firmware: what the system shows decides, a BMC explains.

Each of the nineteen settings is a check ``bios.*`` with four answers: right, wrong, not shown
(n/a, with the reason) and not known. What the check itself sees is the running system; where the
node's BMC was read too, ``bios_join`` puts its words beside that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

from toolkit.checks.check import Check, Finding, Impact, check
from toolkit.checks.firmware.bios_join import joined, without_system
from toolkit.checks.firmware.bios_seen import BiosFinding
from toolkit.compat.bios import BiosRole
from toolkit.errors import CutOff, NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

Looks = Callable[[Node, Want], BiosFinding]
# A guest's firmware is its hypervisor's, and what it shows is made up.
OWN = frozenset({Role.BARE_METAL, Role.VM_HOST})


def check_id(setting: BiosRole) -> str:
    """ "bios.above_4g" for above-4g."""
    return f"bios.{setting.replace('-', '_')}"


@dataclass(frozen=True, slots=True)
class bios:  # noqa: N801 - a decorator, used as ``check`` is
    """Turn a look at the running system into the check of one setting."""

    setting: BiosRole
    impact: Impact
    source: str
    fix: str

    def __call__(self, look: Looks) -> Check:
        @wraps(look)
        def judge(node: Node, want: Want) -> Finding:
            try:
                seen = look(node, want)
            except CutOff:
                raise
            except (NoEvidence, Unparsable) as why:
                return without_system(self.setting, why, node, want)
            return joined(self.setting, seen, node, want)

        return check(
            check_id(self.setting), impact=self.impact, roles=OWN, source=self.source, fix=self.fix
        )(judge)
