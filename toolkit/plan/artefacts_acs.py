"""Files about ACS: the list of bridges, a program that clears bits, and a unit that runs it early.

Where the next kernel has an argument that does it, that is one of boot_arguments.py instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.errors import NoEvidence, Unparsable, Unsupported
from toolkit.facts.distros import with_systemd
from toolkit.facts.node.node import Node
from toolkit.plan.acs import UNIT, acs_unit
from toolkit.plan.artefact import Artefact, Trigger
from toolkit.want import Want

_PROOFS = ("acs.redirect", "acs.persistence")
_START = (Trigger.START_UNITS,)
_RELOAD = (Trigger.DAEMON_RELOAD,)


def with_the_list(node: Node, want: Want) -> Mapping[str, str] | None:
    """For what the list of bridges is nothing without; what is in its way, the list tells."""
    try:
        return None if acs_unit(node, want) is None else {}
    except (NoEvidence, Unparsable, Unsupported):
        if UNIT in node.placed:
            raise
        return None


ACS = (
    Artefact(
        "acs.bridges",
        "name the bridges between GPUs and HCAs whose ACS redirection is to be off",
        "/etc/gdr-toolkit/acs",
        "acs/bridges.j2",
        acs_unit,
        _START,
        _PROOFS,
        families=with_systemd,
    ),
    Artefact(
        "acs.program",
        "turn it off there, and on again when asked to",
        "/usr/lib/gdr-toolkit/acs",
        "acs/acs.sh.j2",
        with_the_list,
        _START,
        _PROOFS,
        families=with_systemd,
        mode=0o755,
    ),
    Artefact(
        "acs.unit",
        "do so before the drivers are loaded",
        UNIT,
        "acs/acs.service.j2",
        with_the_list,
        (*_RELOAD, *_START),
        _PROOFS,
        families=with_systemd,
        removed=(*_RELOAD, *_START),
    ),
    Artefact(
        "acs.early",
        "start that unit at each boot",
        "/etc/systemd/system/sysinit.target.d/gdr-toolkit-acs.conf",
        "acs/early.conf.j2",
        with_the_list,
        _RELOAD,
        _PROOFS,
        families=with_systemd,
        removed=_RELOAD,
    ),
)
