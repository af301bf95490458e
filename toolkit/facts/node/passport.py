"""The passport that a node's image was born with, and what of the node it is laid beside."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.fact import fact
from toolkit.facts.modules.module_file import parse_build_id
from toolkit.facts.passport import VERIFIED, Passport, parse
from toolkit.facts.reading import Reading

ABSENT = "absent"
_ROW = re.compile(r"([0-9a-f]{64}|absent|denied) (/.+)")
_SINCE = re.compile(r"(\S+) ([0-9a-f]{64}|absent) (/.+)")
_LOADED = re.compile(r"(\w+) (-|[0-9A-F]{1,40})")


@dataclass(frozen=True, slots=True)
class LoadedBuild:
    """Which build of a module the kernel holds."""

    srcversion: str  # "" where the kernel does not tell
    build_id: str  # lower-case hex; likewise


@dataclass(frozen=True, slots=True)
class Left:
    """What our latest run that touched a file left there."""

    run: str  # its name on the node: "20260102T030405Z-17"; "rebuild" for the program of ours
    sha256: str  # or "absent"


class Passports(Reading):
    """The passport, and the node beside it."""

    @fact
    def passport(self) -> Passport | None:
        """None where the node has none.

        :raises Unparsable: where what lies there is no passport.
        """
        return parse(self._text("passport")) if self._there("passport") else None

    @fact
    def passport_text(self) -> str:
        """The very bytes, which a signature is over."""
        return self._text("passport")

    @fact
    def passport_hashes(self) -> dict[str, str]:
        """SHA-256 of each file that the passport names, or "absent", by path.

        :raises NoEvidence: where one is there and could not be read.
        """
        found = {}
        for number, line in enumerate(self._text("passport-files").split("\n")[:-1], start=1):
            row = _ROW.fullmatch(line)
            if row is None:
                raise Unparsable("files of the passport", line, number)
            if row[1] == "denied":
                raise NoEvidence(f"{row[2]}: permission denied")
            found[row[2]] = row[1]
        return found

    @fact
    def passport_loaded(self) -> dict[str, LoadedBuild]:
        """Of the modules that the passport names those that are loaded."""
        lines = self._text("passport-loaded").split("\n")[:-1]
        at = next((at for at, line in enumerate(lines) if line.startswith("ids ")), len(lines))
        # Notes that follow one another, in the order of the modules in the line above them.
        rows = lines[at + 1 :]
        try:
            data = bytes.fromhex("".join(rows))
        except ValueError as why:
            raise Unparsable("build ids of loaded modules", rows[0]) from why
        builds = {}
        for name in " ".join(lines[at : at + 1]).split()[1:]:
            size = 16 + int.from_bytes(data[4:8], "little")
            size += -size % 4
            builds[name] = parse_build_id(name, data[:size])
            data = data[size:]
        if data:
            raise Unparsable("build ids of loaded modules", data[:40].hex())
        found = {}
        for number, line in enumerate(lines[:at], start=1):
            row = _LOADED.fullmatch(line)
            if row is None:
                raise Unparsable("modules of the passport", line, number)
            found[row[1]] = LoadedBuild(row[2].strip("-"), builds.get(row[1], ""))
        return found

    @fact
    def passport_since(self) -> dict[str, tuple[Left, ...]]:
        """What runs of ours left at files of the passport, by path; those at its birth too."""
        if not self._there("passport-since"):
            return {}
        found: dict[str, tuple[Left, ...]] = {}
        for number, line in enumerate(self._text("passport-since").split("\n")[:-1], start=1):
            row = _SINCE.fullmatch(line)
            if row is None:
                raise Unparsable("runs since the passport", line, number)
            found[row[3]] = (*found.get(row[3], ()), Left(row[1], row[2]))
        return found

    @fact
    def passport_verified(self) -> tuple[bool, str]:
        """Whether the signature is good, and who made it or what is wrong, as judged here.

        :raises NoEvidence: where nobody asked for it.
        """
        word, _, rest = self._text(VERIFIED).partition(" ")
        return word == "good", rest.strip()
