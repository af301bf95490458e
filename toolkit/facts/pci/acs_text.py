"""ACS control registers as ``setpci -s BRIDGE ECAP_ACS+6.w`` prints them.

Source, as read: pciutils setpci.c, exec_op: four digits a register; with -v its place stands before
them and, where they were read and not written, a sign of equality. What has no such capability, or
whose capabilities only root may read, is an error. Loops print the address before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolkit.errors import NoEvidence
from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.pci.acs_commands import ADDRESS, Command, commands_of
from toolkit.facts.pci.config_space import Acs, AcsRegisters

_TOLD = re.compile(
    rf"[ \t]*{ADDRESS}[ :]*(\(ecap 000d @(\w+)\) @(\w+) =|E?CAP_?ACS\S*)?"
    r"[ :=]+([0-9a-f]{4})[ \t]*"
)
_BARE = re.compile(r"([0-9a-f]{4})[ \t]*")
_NONE = re.compile(rf"setpci: {ADDRESS}: Instance #\d+ of (?:Extended c|C)apability 000d not found")
_NAME = re.compile(r"E?CAP_?ACS\+(?:0x)?0*6(?:\.w)?:?", re.IGNORECASE)
_OFFSET = 6  # of the control register in its capability
_SILENT = 0xFFFF  # nothing answers there


def parse_setpci(text: str, typed: str = "") -> tuple[tuple[str, AcsRegisters | None], ...]:
    """Registers with the bridge of each, "" where that is not told; None for no capability.

    :param text: the answers, each below its command where that is told.
    :param typed: the commands, where none stands in the text.
    :raises NoEvidence: where none is told to be an ACS control register that was read.
    """
    commands = commands_of(text, typed)
    read = _as_left(commands)
    none = [_named(found[1]) for each in commands for found in map(_NONE.match, each.said) if found]
    if not read and none:
        why = "setpci finds no ACS capability: there is none, or it was not run as root"
        raise NoEvidence(why, hint="sudo setpci; or sudo lspci -vvv")
    if not read:
        why = "setpci: that it read an ACS control register, and did not write it, is not told"
        raise NoEvidence(why, hint="lspci -vvv as root; or setpci -v -s BRIDGE ECAP_ACS+6.w")
    told = [(at, AcsRegisters(Acs(0), Acs(value & 0x7F))) for at, value in read]
    # Who may read one such capability may read all; of others' commands that is not told.
    alike = len({who for each in commands for who in each.by}) <= 1
    known = {at for at, _ in read}
    return (*told, *((at, None) for at in none if alike and at not in known))


def _as_left(commands: Iterable[Command]) -> list[tuple[str, int]]:
    """What was read of each bridge and not written since; none of one that told two values."""
    read: list[tuple[str, int]] = []
    for each in commands:
        values = [(_named(at), value) for at, value in _values(each) if value != _SILENT]
        for ends in (False, True):
            if each.writes and each.ends_with_write is ends:
                changed = {_named(at) for at in each.bridges}
                read = [it for it in read if changed and it[0] and it[0] not in changed]
            read += [] if ends else values
    told = {at: {value for its, value in read if its == at} for at, _ in read}
    return [(at, value) for at, value in read if not at or len(told[at]) == 1]


def _values(command: Command) -> list[tuple[str, int]]:
    """Registers of ACS control among the answers to one command."""
    found, bare = [], []
    for line in command.said:
        if (told := _TOLD.fullmatch(line)) and _is_control(told, asked=command.asks_control):
            found.append((told[1], int(told[5], 16)))
        elif command.asks_control and (alone := _BARE.fullmatch(line)):
            bare.append(int(alone[1], 16))
    names = command.bridges if len(command.bridges) == len(bare) else [""] * len(bare)
    return found + list(zip(names, bare, strict=True))


def _is_control(told: re.Match[str], *, asked: bool) -> bool:
    """Where its place is told that decides, then its name, then what was asked for."""
    _, words, capability, at, _ = told.groups()
    if at:
        return int(at, 16) == int(capability, 16) + _OFFSET
    return _NAME.fullmatch(words) is not None if words and "+" in words else asked


def _named(address: str) -> str:
    full = address if address.count(":") != 1 else f"0000:{address}"
    return normal_address(full) if full else ""
