"""Evidence without what identifies a site: for tickets and bug reports.

Every name, serial, GUID and address becomes another of the same form, the same one each
time, so that whatever was equal stays equal and every parser still reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from toolkit.evidence import Evidence

_MAC = r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"
_GUID = r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9a-fA-F:])"
_UUID = r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
_IPV4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
_IPV6 = r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{1,4}:){3,7}:?[0-9a-fA-F]{1,4}(?:%\w+)?(?![0-9a-fA-F:.])"
_SERIAL = r"(?i:(?<=serial)[^\n]{0,12}?[:=]\s*)([0-9A-Za-z-]{6,})"


def scrub(evidence: Evidence, host: str) -> Evidence:
    """The same evidence, with names, serials, GUIDs and addresses replaced.

    :param host: the name under which the node was reached; replaced like its own hostname.
    """
    hidden = _Hidden()
    names = {host, host.partition(".")[0]}
    own = evidence.frames.get("hostname")
    if own is not None and own.text.strip():
        names |= {own.text.strip(), own.text.strip().partition(".")[0]}
    patterns = _patterns(sorted(names, key=len, reverse=True), hidden)
    frames = {}
    for key, frame in evidence.frames.items():
        text = frame.text
        for pattern, put in patterns:
            text = pattern.sub(put, text)
        frames[key] = replace(frame, text=text)
    return Evidence(frames, evidence.complete)


class _Hidden:
    """One replacement for each thing hidden, counted by kind."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, kind: str, value: str, form: Callable[[int], str]) -> str:
        number = sum(1 for known, _ in self._known if known == kind) + 1
        return self._known.setdefault((kind, value.lower()), form(number))


Put = Callable[[re.Match[str]], str]


def _patterns(names: list[str], hidden: _Hidden) -> list[tuple[re.Pattern[str], Put]]:
    def by(kind: str, form: Callable[[int], str]) -> Put:
        return lambda found: hidden(kind, found[0], form)

    def serial(found: re.Match[str]) -> str:
        whole, value = found[0], found[1]
        return whole[: -len(value)] + hidden("serial", value, lambda n: f"{n:0{len(value)}d}")

    rows: list[tuple[re.Pattern[str], Put]] = [
        (re.compile(_MAC), by("mac", lambda n: f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}")),
        (re.compile(_GUID), by("guid", lambda n: f"0200:0000:0000:{n:04x}")),
        (re.compile(_UUID), by("uuid", lambda n: f"00000000-0000-4000-8000-{n:012d}")),
        (re.compile(_IPV6), by("ipv6", lambda n: f"2001:db8:0:0:0:0:0:{n:x}")),
        (re.compile(_SERIAL), serial),
    ]
    if any(names):
        quoted = "|".join(re.escape(name) for name in names if name)
        named = re.compile(rf"(?<![\w.-])(?:{quoted})(?![\w-])")
        rows.append((named, lambda _: "node"))
    # Dotted quads also occur as versions ("24.10.2.1"): hidden only where they stand alone
    # as an address would, which a version of four numbers above 255 or in a name does not.
    rows.append((re.compile(_IPV4), _ipv4(hidden)))
    return rows


def _ipv4(hidden: _Hidden) -> Put:
    def put(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 1) : found.start()]
        octets = [int(part) for part in found[0].split(".")]
        if before in {"-", "/", "_"} or any(octet > 255 for octet in octets):
            return found[0]
        return hidden("ipv4", found[0], lambda n: f"192.0.2.{n % 256}")

    return put
