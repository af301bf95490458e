"""What in a text identifies a site, and what to put in its place.

Each stand-in has the form of what it stands for, and equal things have equal stand-ins: so
every parser reads the text as before, and verdicts stay as they are. What all machines have
alike (loopback, a GUID of zeroes, the link-local prefix) stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address

_OWN = r"(?<![0-9A-Za-z])"  # nothing before that would make it part of a longer word
_END = r"(?![0-9A-Za-z])"
_IPV6 = rf"{_OWN}[0-9a-fA-F]{{0,4}}(?::[0-9a-fA-F]{{0,4}}){{2,9}}{_END}"
_GUID = rf"{_OWN}(?<![0-9a-fA-F]{{4}}:)(?:[0-9a-fA-F]{{4}}:){{3}}[0-9a-fA-F]{{4}}(?!:?[0-9A-Za-z])"
_GUID_NUMBER = r"(?i:guid|\bpdi|host_hash)[\"']?\s*[:=]\s*[\"']?(?:0x)?([0-9a-fA-F]{9,16})" + _END
_OCTETS = rf"{_OWN}[0-9a-fA-F]{{2}}(?:([:-])[0-9a-fA-F]{{2}})(?:\1[0-9a-fA-F]{{2}})+{_END}"
_INTERFACE = r"(?<=\ben[xX])[0-9a-f]{12}" + _END  # named by its MAC
_UUID = rf"{_OWN}[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{_END}"
_SHORT_UUID = r"(?<=UUID=)[0-9a-fA-F]{4,8}-[0-9a-fA-F]{2,4}(?![0-9A-Za-z-])"
_MACHINE_ID = rf"{_OWN}[0-9a-f]{{32}}{_END}"
_IPV4 = r"(?<!\d)(?<!\d\.)(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"
_SERIAL = (
    r"(?i:(?:serial(?:[ _-]?(?:number|no|num|nr))?|(?:asset|service)[ _-]?tag|\bsku)\.?[\"']?"
    r"[^\S\n]*[:=][^\S\n]*[\"']?)([^\s\"'][^\n\"',]*)"
)
_MELLANOX_SERIAL = rf"{_OWN}MT\d{{4}}[A-Z]{{1,2}}\d{{5,6}}{_END}"
_DISK = r"(?<=/by-id/)[^\s\"'/]+"
_WWN = rf"{_OWN}(?:wwn-|naa\.|eui\.|sas_addr\()(?:0x)?[0-9a-fA-F]{{16,32}}"
_IQN = r"\biqn\.\d{4}-\d\d\.[\w.:-]+"
_HOME = r"(?<=/home/)[^\s/:\"']+"
_SERVER = r"(?<=[a-z]://)[A-Za-z][\w.-]*"

# Octets that are a MAC, one with BOOTIF's leading type, an EUI-64, an IPoIB address.
_LENGTHS = (6, 7, 8, 20)
_NOT_TOLD = re.compile(r"(?i)\W*(?:n/?a|none|not |unknown|unspecified|default|to be filled|0+\W*$)")
_VERSION = re.compile(r"(?i)(?:(?:ver|version|fw|firmware|release)\w*[\s:=\"'(]*v?|[-_]|[^/]/)$")

# Names that many machines bear, and that mean something else in what they say.
_COMMON = """
localhost localdomain ubuntu debian rocky rhel redhat centos alma almalinux fedora sles suse
opensuse arch amazon linux kernel nvidia mellanox mlx gpu cpu node host server client root user
admin default none unknown boot system test demo slurm docker container numa compute login head
master worker
"""
_WORDS = frozenset(_COMMON.split())
Put = Callable[[re.Match[str]], str]


class Identities:
    """Stand-ins for all that was met so far; one of them for a fleet keeps what is equal equal."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._patterns: list[tuple[re.Pattern[str], Put]] = [
            (re.compile(_SERIAL), self._serial),
            (re.compile(_IPV6), self._ipv6),
            (re.compile(_GUID), lambda found: self.guid(found[0])),
            (re.compile(_GUID_NUMBER), self._guid_number),
            (re.compile(_UUID), self._uuid),
            (re.compile(_SHORT_UUID), self._as_long("id")),
            (re.compile(_MACHINE_ID), self._as_long("id")),
            (re.compile(_OCTETS), self._octets),
            (re.compile(_INTERFACE), self._as_long("interface")),
            (re.compile(_MELLANOX_SERIAL), self._as_long("serial")),
            (re.compile(_DISK), self._by("disk", lambda n: f"disk{n}")),
            (re.compile(_WWN), self._by("disk", lambda n: f"disk{n}")),
            (re.compile(_IQN), self._by("iqn", lambda n: f"iqn.2000-01.example:{n}")),
            (re.compile(_HOME), self._by("user", lambda n: f"user{n}")),
            (re.compile(_SERVER), self._by("server", lambda n: f"server{n}.example")),
        ]

    def learn(self, names: Iterable[str]) -> None:
        """Host names to be hidden from now on, with or without their domains.

        A name that is a number, an address or a common word identifies nobody, and hiding it
        would spoil the text.
        """
        for name in names:
            short, _, domain = name.strip().partition(".")
            if "." not in domain and not _plain(domain) and not _plain(short):
                self._name(name.strip())
            elif "." in domain and not all(_plain(part) for part in domain.split(".")):
                self._name(domain)
            if not _plain(short):
                self._name(short)

    def _name(self, name: str) -> None:
        """A stand-in of equal length: where a signature holds a name, lengths stand before it."""

        def form(number: int) -> str:
            digits = str(number)
            return "node".ljust(len(name), "x")[: max(0, len(name) - len(digits))] + digits

        if name not in self._names:
            self._names[name] = self._stand_in("name", name, form)

    def hide(self, text: str, *, addresses: bool = True) -> str:
        """The text with stand-ins.

        :param addresses: whether four numbers with dots are an address; versions look alike.
        """
        present = sorted((each for each in self._names if each in text), key=len, reverse=True)
        if present:
            listed = "|".join(map(re.escape, present))
            text = re.sub(rf"{_OWN}(?:{listed}){_END}", lambda found: self._names[found[0]], text)
        for pattern, put in self._patterns:
            text = pattern.sub(put, text)
        return re.sub(_IPV4, self._ipv4, text) if addresses else text

    def hide_bytes(self, data: bytes) -> bytes:
        """The same for host names in binary data, which keeps its length."""
        for name, stand_in in self._names.items():
            pattern = rb"(?<![0-9A-Za-z])" + re.escape(name.encode()) + rb"(?![0-9A-Za-z])"
            data = re.sub(pattern, stand_in.encode(), data)
        return data

    def guid(self, value: str) -> str:
        """A GUID as sysfs writes it: "9c63:c003:00f0:1234"."""
        return value if set(value) <= {"0", ":"} else self._stand_in("guid", value, _guid)

    def _stand_in(self, kind: str, value: str, form: Callable[[int], str]) -> str:
        key = (kind, value if kind == "name" else value.lower())
        if key not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[key] = form(self._counts[kind])
        return self._known[key]

    def _by(self, kind: str, form: Callable[[int], str]) -> Put:
        return lambda found: self._stand_in(kind, found[0], form)

    def _as_long(self, kind: str) -> Put:
        """A number with as many digits as the word has letters; signs between them stay."""

        def put(found: re.Match[str]) -> str:
            size = len(found[0])
            if set(found[0]) <= {"0"}:
                return found[0]
            number = self._stand_in(f"{kind} of {size}", found[0], lambda n: f"{n:0{size}d}")
            mark = found[0].find("-")
            return number if mark < 0 else f"{number[:mark]}-{number[mark + 1 :]}"

        return put

    def _serial(self, found: re.Match[str]) -> str:
        number = self.serial(found[1].rstrip())
        return found[0][: found.start(1) - found.start()] + number

    def serial(self, value: str) -> str:
        """A serial number of equal length; a word that says that there is none stays."""
        if len(value) < 3 or _NOT_TOLD.match(value):
            return value
        return self._stand_in("serial", value, lambda n: f"{n:0{len(value)}d}")

    def _uuid(self, found: re.Match[str]) -> str:
        if set(found[0]) <= {"0", "-"}:
            return found[0]  # told where there is none
        return self._stand_in("uuid", found[0], lambda n: f"00000000-0000-4000-8000-{n:012d}")

    def _guid_number(self, found: re.Match[str]) -> str:
        digits = found[1].lower().rjust(16, "0")
        colons = ":".join(digits[at : at + 4] for at in range(0, 16, 4))
        number = self.guid(colons).replace(":", "")
        return found[0][: -len(found[1])] + number[-max(len(found[1]), 16) :]

    def _octets(self, found: re.Match[str]) -> str:
        octets = found[0].split(found[1])
        line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
        if len(octets) not in _LENGTHS or "sig_key" in line or set(found[0].lower()) <= set("0f:-"):
            return found[0]
        size = len(octets) - 4
        number = self._stand_in(f"octets of {size}", found[0], lambda n: f"{n:0{2 * size}x}")
        return found[1].join(["02", "00", "00", "00", *re.findall("..", number)])

    def _ipv4(self, found: re.Match[str]) -> str:
        octets = [int(part) for part in found[0].split(".")]
        # "24.10.2.1" may be a version: behind a word that says so, or behind a name.
        before = found.string[max(0, found.start() - 40) : found.start()]
        special = max(octets) > 255 or octets[0] in {0, 127, 255}
        return found[0] if special or _VERSION.search(before) else self._quad(found[0])

    def _quad(self, value: str) -> str:
        return self._stand_in("ipv4", value, lambda n: str(IPv4Address("198.18.0.0") + n % 131072))

    def _ipv6(self, found: re.Match[str]) -> str:
        """An address, maybe behind a key or an index and a colon: "gids/0:fe80:..."."""
        before, text = "", found[0]
        for _ in range(2):
            try:
                address = IPv6Address(text)
            except ValueError:
                key, colon, text = text.partition(":")
                before += key + colon
                continue
            if re.fullmatch("(?:[0-9a-fA-F]{2}:){7}[0-9a-fA-F]{2}", text):
                return found[0]  # an EUI-64: see _octets
            shown = self._address(address)
            return before + (shown.exploded if len(text) == 39 else shown.compressed)
        return found[0]

    def _address(self, address: IPv6Address) -> IPv6Address:
        """Another of the same sort: link-local, of IPv4, or global."""
        if int(address) <= 1 or address.is_multicast or address.exploded.endswith(":0000" * 4):
            return address
        if address.ipv4_mapped is not None:
            return IPv6Address(f"::ffff:{self._quad(str(address.ipv4_mapped))}")
        if address.is_link_local:
            return IPv6Address("fe80:0:0:0:" + self.guid(address.exploded[20:]))
        return IPv6Address(
            self._stand_in("ipv6", str(address), lambda n: f"2001:db8::{n >> 16:x}:{n & 65535:x}")
        )


def _guid(number: int) -> str:
    return f"0200:0000:{number >> 16:04x}:{number & 65535:04x}"


def _plain(word: str) -> bool:
    """Whether it identifies nobody: short, a number, hexadecimal, or a common word."""
    return (
        len(word) < 3
        or word.isdecimal()
        or re.fullmatch("[0-9a-fA-F]{1,4}|[0-9a-fA-F:]+|(?:eth|ib|mlx5_|nvme)[0-9]{1,2}", word)
        is not None
        or word.lower() in _WORDS
    )
