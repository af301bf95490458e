"""What identifies a site in what its BMCs say: beside what all texts hold, JSON by its keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from toolkit.evidence import Frame
from toolkit.untrusted import read_json

PREFIX = "bmc"
_PLACE = re.compile(r"https://(?:\[[^]]*\]|([^/:\s]+))")
_NAMES = re.compile(r'"(?:HostName|FQDN|ServerName)"\s*:\s*"([^"]+)"')
# Beside serial numbers, tags and SKU, which vendors put a tag into: those are hidden in all texts.
_TOLD = re.compile(
    r'("(?:\w+SKU|\w*NodeI[Dd]|\w*ExpressServiceCode'
    r"|Admin(?:Name|Email|Phone|OtherInfo)|ServerOtherInfo|ServiceName|ServiceEmail|ServicePhone"
    r'|\w*LocationInfo|PostalAddress|Contacts?)"\s*:\s*")((?:[^"\\]|\\.)+)(")'
)
_FIRMWARE = re.compile(
    r"(?m)^(?:bios|bmc) .*$"
)  # versions, of the frame bmc, that may look like addresses
# A MAC without colons in the name of an attribute: MellanoxNetworkAdapter_A088C2C36F6E__Slot15
_BARE_MAC = re.compile(r"(?<![0-9A-Za-z-])(?=\d*[A-F])([0-9A-F]{12})(?![0-9A-Za-z])")

Hide = Callable[[str], str]


def names_in(frames: Iterable[Frame]) -> Iterator[str]:
    """Names of hosts that the frames of a BMC hold: its own, and what the machine is called."""
    for frame in frames:
        if frame.key.startswith(PREFIX):
            yield from (each for each in _PLACE.findall(frame.source) if each)
            if frame.key == "bmc-system":
                yield from _NAMES.findall(frame.text)


def hidden(frame: Frame, hide: Hide, serial: Hide, octets: Hide) -> str:
    """The text of a BMC's frame with stand-ins.

    :param hide: what hides whatever a text of any kind may hold.
    :param serial: the stand-in of a serial number, a tag, a word that tells machines apart.
    :param octets: the stand-in of a MAC with colons.
    """
    text = _TOLD.sub(lambda found: found[1] + _told(found[2], serial) + found[3], frame.text)
    text = _BARE_MAC.sub(lambda found: _bare(found[1], octets), text)
    if frame.key != "bmc":
        return hide(text)
    kept = [found[0] for found in _FIRMWARE.finditer(text)]
    parts = _FIRMWARE.split(text)
    lines = [hide(part) for part in parts]
    return lines[0] + "".join(a + b for a, b in zip(kept, lines[1:], strict=True))


def _told(value: str, serial: Hide) -> str:
    try:
        plain = read_json(f'"{value}"')
    except ValueError:
        plain = value
    return serial(str(plain))


def _bare(mac: str, octets: Hide) -> str:
    colons = ":".join(mac[at : at + 2] for at in range(0, 12, 2))
    return octets(colons).replace(":", "").upper()
