"""What the kernel and those who load modules say when one is refused.

Sources: kernel/module/main.c, version.c and signing.c; kmod tools/modprobe.c and insmod.c;
module-init-tools modprobe.c and insmod.c; busybox modutils; systemd src/shared/module-util.c. What
their words mean is data: toolkit/compat/data/build_failures.toml, rows of the kind "loading".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from toolkit.facts.boot.kernel import module_name

_NAME = r"\b(?:nvidia\w*[_-]peermem|nv_peer_mem)"
_UNKNOWN = re.compile(_NAME + r": Unknown symbol (\w+) \(err (-?\d+)\)")
_DISAGREES = re.compile(_NAME + r": disagrees about version of symbol (\w+)")
_AT_WORK = re.compile(r"nvidia-peermem nv_\w+:\d+ ")  # its own messages, once it is loaded
_OF_ANY = re.compile(
    r"\b(\w+): (?:disagrees about version of symbol (\w+)|Unknown symbol (\w+) \(err -22\))"
)
_KEY = re.compile(r"Key was rejected by service|Required key not available")
_FROM_BOOT = "Linux version "
# Each with the module, or the path of its file, and the words for why.
_NOT_INSERTED = re.compile(
    r"(?:could not (?:insert|load) (?:module )?|[Ee]rror inserting |[Ff]ailed to insert (?:mod"
    r"ule )?|can't insert |can't load module )'?(?P<module>[\w./+-]+?)'?(?: \([^)]*\))?:"
    r" (?:-?\d+ )?(?P<words>\S.*?)\s*$"
    r"|\b(?P<absent>(?<!modinfo: ERROR: )Module (?P<lost>[\w-]+) not found\b.*"
    r"|module (?P<missing>[\w-]+) not found in modules\.dep"
    r"|Failed to find module '(?P<unknown>[\w-]+)'"
    r"|depmod: WARNING: (?P<needy>\S+\.ko\S*) (?:needs unknown|disagrees about version of)"
    r" symbol \w+)"
)
# kmod libkmod-module.c, command_do; what modprobe then says of the module is its own word for it.
_INSTALL = re.compile(
    r"Error running install command '?(?P<command>.*?)'? for module (?P<module>[\w-]+)"
)
# systemd's src/shared/module-util.c, insmod's EEXIST, and modprobe's with --first-time.
_INSERTED = re.compile(
    r"\bInserted module '(?P<module>[\w-]+)'"
    r"|could not insert (?:module )?'?(?P<there>[\w./+-]+?)'?: "
    r"(?:File exists|Module already in kernel)"
)


class NotInserted(Struct, frozen=True):
    """One module that somebody tried to load, and was refused."""

    module: str  # with underscores
    words: str  # "Invalid argument", "Module nvidia-peermem not found in directory ..."
    line: str


class Refusals(Struct, frozen=True):
    """What a kernel log tells of symbols that nvidia-peermem asked for."""

    absent: tuple[str, ...]  # err -2, or 0 on older kernels: nothing loaded exports it
    other_version: tuple[str, ...]  # err -22: exported, and built against another shape
    at_work: str  # a line that only a loaded module writes; "" for none
    whole: bool  # whether the log reaches back to the boot

    @property
    def any(self) -> bool:
        return bool(self.absent or self.other_version)


_NAMED = ("module", "lost", "missing", "unknown", "needy")


def parse_refusals(lines: Iterable[str]) -> Refusals:
    """Read the lines of a kernel log, with or without time stamps."""
    absent: dict[str, None] = {}
    other: dict[str, None] = {}
    at_work, whole = "", False
    for line in lines:
        whole = whole or _FROM_BOOT in line
        if _AT_WORK.search(line):
            at_work = line
        if found := _DISAGREES.search(line):
            other[found[1]] = None
        elif (found := _UNKNOWN.search(line)) is not None:
            (other if found[2] == "-22" else absent)[found[1]] = None
    return Refusals(tuple(absent), tuple(other), at_work, whole)


def parse_mixed(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Symbols of another version by the module that asked for them: two stacks that were mixed."""
    found: dict[str, dict[str, None]] = {}
    for line in lines:
        if said := _OF_ANY.search(line):
            found.setdefault(said[1], {})[said[2] or said[3]] = None
    return {module: tuple(symbols) for module, symbols in found.items()}


def parse_not_inserted(lines: Iterable[str]) -> tuple[NotInserted, ...]:
    """Each refusal that a loader of modules told, oldest first.

    Of a module that went in later, or was there already, none.
    """
    told: list[NotInserted] = []
    by_command: set[str] = set()
    for line in lines:
        if (ran := _INSTALL.search(line)) is not None:
            by_command.add(name := module_name(ran["module"]))
            words = f"modprobe.d has another command run for it, which failed: {ran['command']}"
            told.append(NotInserted(name, words, line.strip()))
            continue
        if (inside := _INSERTED.search(line)) is not None:
            name = module_name(inside["there"] or inside["module"])
            told = [each for each in told if each.module != name]
            continue
        if (found := _NOT_INSERTED.search(line)) is None:
            continue
        name = next(filter(None, found.group(*_NAMED)))
        words = found["words"] or found["absent"]
        if module_name(name) in by_command:
            continue
        told.append(NotInserted(module_name(name), words, line.strip()))
    return tuple(told)


def key_rejected(said: str) -> bool:
    """Whether modprobe's answer is that of a refused signature.

    "Operation not permitted" may be one too, and has other causes: it is not counted.
    """
    return _KEY.search(said) is not None
