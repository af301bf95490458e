"""What somebody asked setpci for, or had it write: registers, bridges, and as whom.

Source, as read: pciutils setpci.c, usage: options, then registers, each with "=" where it is
written. A loop names its bridges by a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field

from toolkit.errors import NoEvidence
from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.pci.config_space import Acs, AcsRegisters

ADDRESS = r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_RUN = re.compile(r"\bsetpci\b(?!:)([^;|&)\n]*)")
_TYPED = re.compile(r"^(?!\s*setpci: ).*\bsetpci\b(?:\s|$)")
_OF_ANOTHER = re.compile(r"^(?:-\w*[sdAOG]|\d*>>?|<)$")  # its argument is the next word
_CONTROL = re.compile(r"ECAP(?:_ACS|0*d)\+(?:0x)?0*6(?:\.\w)?", re.IGNORECASE)
# Of what may change it: that capability at any offset, and extended space by number.
_NEAR = re.compile(
    r"ECAP(?:_ACS|0*d)(?:[@+.].*)?|(?:0x)?0*[1-9a-f][0-9a-f]{2}(?:\.\w)?", re.IGNORECASE
)
_SHELL = re.compile(r"\bsudo\b.*\b(?:ba|z|da)?sh -\w*c\b")
_SIGN = re.compile(r"^\s*#")


class Command(Struct, frozen=True):
    """One line that somebody typed, and what stands below it."""

    typed: str  # "" where the text does not say; with the sign of its prompt
    said: list[str] = field(default_factory=list)

    @property
    def registers(self) -> list[str]:
        """Registers that it names, with "=" those that it writes."""
        return [word for run in _RUN.findall(self.typed) for word in _operands(run)]

    @property
    def asks_control(self) -> bool:
        """Whether ACS control is all that it names, so that answers can be of nothing else."""
        named = [each.partition("=")[0] for each in self.registers]
        reads = any("=" not in each for each in self.registers)
        return reads and all(map(_CONTROL.fullmatch, named))

    @property
    def writes(self) -> bool:
        """Whether it writes ACS control, or may."""
        return any(_written(each) for each in self.registers)

    @property
    def ends_with_write(self) -> bool:
        """Whether it writes ACS control behind the last that it reads of it."""
        ours = [each for each in self.registers if _NEAR.fullmatch(each.partition("=")[0])]
        return any(map(_written, ours[-1:]))

    @property
    def bridges(self) -> list[str]:
        """Bridges in the order of its runs; none where not each run names its own."""
        runs = _RUN.findall(self.typed)
        found = [re.search(rf"-\w*s ?['\"]?{ADDRESS}", run) for run in runs]
        named = [each[1] for each in found if each]
        return named if len(named) == len(runs) else []

    @property
    def by(self) -> set[tuple[str, bool]]:
        """As whom: behind which prompt, and whether by sudo, of each of its runs."""
        if not self.typed:
            return {("", False)} if any(line.strip() for line in self.said) else set()
        sign = "#" if _SIGN.match(self.typed) else "$"
        whole = _SHELL.search(self.typed) is not None
        parts = [each for each in re.split(r"[;|&(]", self.typed) if "setpci" in each]
        return {(sign, whole or re.search(r"\bsudo\b", each) is not None) for each in parts}


def _operands(run: str) -> list[str]:
    words = [each.strip("'\"`") for each in run.split()]
    before = ["", *words]
    return [
        word
        for last, word in zip(before, words, strict=False)
        if word and not re.match(r"[-<\d]*[-<>]", word) and not _OF_ANOTHER.match(last)
    ]


def _written(register: str) -> bool:
    name, sign, _ = register.partition("=")
    return bool(sign) and _NEAR.fullmatch(name) is not None


def commands_of(text: str, typed: str = "") -> list[Command]:
    """The commands of a text with what each said, in their order.

    :param typed: the command of all, where none stands in the text.
    """
    lines = text.split("\n")
    within = any(map(_TYPED.match, lines))
    found = [Command("" if within else typed)]
    for line in lines:
        if _TYPED.match(line):
            found.append(Command(line))
        else:
            found[-1].said.append(line)
    return found


def writes_control(command: str) -> bool:
    """Whether a command writes ACS control, or may, of which setpci says nothing."""
    return Command(command).writes


# ACS control registers as ``setpci -s BRIDGE ECAP_ACS+6.w`` prints them.
# Source, as read: pciutils setpci.c, exec_op: four digits a register; with -v its place stands
# before them and, where they were read and not written, a sign of equality. What has no such
# capability, or whose capabilities only root may read, is an error. Loops print the address first.
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
