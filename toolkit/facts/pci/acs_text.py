"""ACS control registers as ``setpci -s BRIDGE ECAP_ACS+6.w`` prints them.

Source, as read: pciutils setpci.c, exec_op: four digits a register; with -v its place stands before
them and, where they were read and not written, a sign of equality. What has no such capability, or
whose capabilities only root may read, is an error. Loops print the address before it.
"""

from __future__ import annotations

import re

from toolkit.errors import NoEvidence
from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.pci.config_space import Acs, AcsRegisters

_AT = r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_TOLD = re.compile(
    rf"^[ \t]*{_AT}[ :]*(\(ecap 000d @(\w+)\) @(\w+) =|E?CAP_?ACS\S*)?[ :=]+([0-9a-f]{{4}})[ \t]*$",
    re.MULTILINE,
)
_BARE = re.compile(r"^([0-9a-f]{4})[ \t]*$", re.MULTILINE)
_NONE = re.compile(
    rf"^setpci: {_AT}: Instance #\d+ of (?:Extended c|C)apability 000d not found", re.MULTILINE
)
_CONTROL = re.compile(r"ECAP(?:_ACS|0*d)\+(?:0x)?0*6(?:\.\w)?(?![\w.]*=)", re.IGNORECASE)
_ASKED = re.compile(rf"\bsetpci (?:-\w+ )*?-s ?{_AT} ECAP")
_OFFSET = 6  # of the control register in its capability
_SILENT = 0xFFFF  # nothing answers there


def parse_setpci(text: str, typed: str = "") -> tuple[tuple[str, AcsRegisters | None], ...]:
    """Registers with the bridge of each, "" where that is not told; None for no capability.

    :param typed: the commands, which say what was asked where lines do not.
    :raises NoEvidence: where none is told to be an ACS control register that was read.
    """
    asked = bool(_CONTROL.search(typed) or _CONTROL.search(text))
    found = [
        (at, value) for at, *place, value in _TOLD.findall(text) if asked or _is_control(place)
    ]
    bare = _BARE.findall(text) if asked else []
    names = _ASKED.findall(typed)
    found += zip(names if len(names) == len(bare) else [""] * len(bare), bare, strict=True)
    read = [(at, int(value, 16)) for at, value in found if int(value, 16) != _SILENT]
    if not read and _NONE.search(text):
        why = "setpci finds no ACS capability: there is none, or it was not run as root"
        raise NoEvidence(why, hint="sudo setpci; or sudo lspci -vvv")
    if not read:
        why = "setpci: that it read an ACS control register, and did not write it, is not told"
        raise NoEvidence(why, hint="lspci -vvv as root; or setpci -v -s BRIDGE ECAP_ACS+6.w")
    told = [(_named(at), AcsRegisters(Acs(0), Acs(value & 0x7F))) for at, value in read]
    # Who may read one such capability may read all.
    return (*told, *((_named(at), None) for at in _NONE.findall(text)))


def _is_control(place: list[str]) -> bool:
    words, capability, at = place
    if at:
        return int(at, 16) == int(capability, 16) + _OFFSET
    return words.upper().endswith("+6.W")


def _named(address: str) -> str:
    full = address if address.count(":") != 1 else f"0000:{address}"
    return normal_address(full) if full else ""
