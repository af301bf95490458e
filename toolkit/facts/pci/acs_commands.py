"""What somebody asked setpci for, or had it write: registers, bridges, and as whom.

Source, as read: pciutils setpci.c, usage: options, then registers, each with "=" where it is
written. A loop names its bridges by a variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Command:
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
        return bool(named) and all(map(_CONTROL.fullmatch, named)) and not self._only_writes

    @property
    def _only_writes(self) -> bool:
        return all("=" in each for each in self.registers)

    @property
    def writes(self) -> bool:
        """Whether it writes ACS control, or may."""
        return any(_written(each) for each in self.registers)

    @property
    def ends_with_write(self) -> bool:
        """Whether it writes ACS control behind the last that it reads of it."""
        ours = [each for each in self.registers if _NEAR.fullmatch(each.partition("=")[0])]
        return bool(ours) and _written(ours[-1])

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
