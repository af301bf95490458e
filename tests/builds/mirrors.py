"""Where packages come from: the machine's own sources, for any release of its distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

COMPONENTS = "main contrib non-free non-free-firmware"
POCKETS = ("", "-updates", "-security")


class NotToBeHad(Exception):
    """What a test is built on could not be fetched or made; says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """One archive of packages, as the machine knows it."""

    uri: str
    suite: str
    key: str = ""  # path of the keyring it is signed by; "" for those that apt trusts anyway


def known(system: Path = Path("/etc/apt")) -> tuple[Source, ...]:
    """The machine's sources that have a component "main", in the order of their files."""
    found: list[Source] = []
    parts = system / "sources.list.d"
    for path in (system / "sources.list", *sorted(parts.glob("*"))):
        if path.suffix == ".sources":
            found += _stanzas(path.read_text())
        elif path.suffix == ".list" and path.exists():
            found += _lines(path.read_text())
    return tuple(dict.fromkeys(found))


def _stanzas(text: str) -> list[Source]:
    """The sources of a deb822 file."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.M))
        if "main" not in fields.get("Components", "").split():
            continue
        key = fields.get("Signed-By", "").strip()
        key = key if key.startswith("/") else ""
        for uri in fields.get("URIs", "").split():
            found += [Source(uri, suite, key) for suite in fields.get("Suites", "").split()]
    return found


def _lines(text: str) -> list[Source]:
    """The sources of a file in the older format."""
    found = []
    row = re.compile(r"^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.*)$", re.M)
    for options, uri, suite, components in row.findall(text):
        if "main" in components.split():
            key = re.search(r"signed-by=(/\S+)", options)
            found.append(Source(uri, suite, key.group(1) if key else ""))
    return found


def codename(release: Path = Path("/etc/os-release")) -> str:
    """What the machine's own release is called: "bookworm"."""
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', release.read_text(), re.M)
    return found.group(1) if found else ""


def lines(suite: str, sources: tuple[Source, ...], own: str) -> tuple[str, ...]:
    """Lines of a sources.list for another release of the machine's distribution.

    :param suite: the release: "trixie".
    :param own: that of the machine, whose name is replaced in ``sources``.
    :raises NotToBeHad: where no source is of the machine's own release.
    """
    made = []
    for source in sources:
        pocket = source.suite.removeprefix(own)
        if own and pocket in POCKETS:
            options = f" [signed-by={source.key}]" if source.key else ""
            made.append(f"deb{options} {source.uri} {suite}{pocket} {COMPONENTS}")
    if not made:
        raise NotToBeHad(f"no source of packages in /etc/apt is of the release {own!r}")
    return tuple(dict.fromkeys(made))
