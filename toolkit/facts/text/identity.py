"""What in a text identifies a site, and what to put in its place.

Each stand-in has the form of what it stands for, and equal things have equal stand-ins: so
every parser reads the text as before, and verdicts stay as they are. What all machines have
alike (loopback, a GUID of zeroes, the link-local prefix) stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address

# How texts write what identifies a site: one pattern a form.
OWN = r"(?<![0-9A-Za-z])"  # nothing before that would make it part of a longer word
END = r"(?![0-9A-Za-z])"
# Not amid an IPv4 address, as in dracut's ip=A::B: and with one at its end, as RFC 4291 has it.
IPV6 = (
    r"(?<![0-9A-Za-z.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,9}"
    r"(?:(?<=:)(?:\d{1,3}\.){3}\d{1,3})?(?!\.?[0-9A-Za-z])"
)
GUID = rf"{OWN}(?<![0-9a-fA-F]{{4}}:)(?:[0-9a-fA-F]{{4}}:){{3}}[0-9a-fA-F]{{4}}(?!:?[0-9A-Za-z])"
GUID_NUMBER = r"(?i:guid|\bpdi|host_hash)[\"']?\s*[:=]\s*[\"']?(?:0x)?([0-9a-fA-F]{9,16})" + END
OCTETS = rf"{OWN}[0-9a-fA-F]{{2}}(?:([:-])[0-9a-fA-F]{{2}})(?:\1[0-9a-fA-F]{{2}})+{END}"
# A GUID made of a MAC holds 0300 or fffe in its midst; ibnetdiscover names nodes by theirs.
BARE_GUID = (
    rf"(?<![0-9A-WYZa-wyz])([0-9a-fA-F]{{6}}(?:0300|[fF]{{3}}[eE])[0-9a-fA-F]{{6}}){END}"
    rf"|(?<=\"[HSRC]-)([0-9a-fA-F]{{16}}){END}"
)
# Without signs, behind a word that says so; and with dots, as switches write it.
BARE_MAC = (
    r"(?:\ben[xX]|(?i:(?<![A-Za-z])(?:mac(?:[ _-]?addr(?:ess)?)?|hwaddr|ether|lladdr)[\"']?"
    rf"[\s=:]+[\"']?(?:0x)?))([0-9a-fA-F]{{12}}){END}"
)
DOTTED = rf"{OWN}(?<!\.)(?=[\d.]*[a-fA-F])((?:[0-9a-fA-F]{{4}}\.){{2,3}}[0-9a-fA-F]{{4}})(?!\.?\w)"
UUID = rf"{OWN}[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{END}"
SHORT_UUID = r"(?<=UUID=)[0-9a-fA-F]{4,8}-[0-9a-fA-F]{2,4}(?![0-9A-Za-z-])"
MACHINE_ID = rf"{OWN}[0-9a-f]{{32}}{END}"
IPV4 = r"(?<!\d)(?<!\d\.)(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"
DASHED_IPV4 = r"(?<=\bip-)\d{1,3}(?:-\d{1,3}){3}(?!\d)"
SERIAL = (
    r"(?i:(?:serial(?:[ _-]?(?:number|no|num|nr|short))?|(?:asset|service)[ _-]?tag|\bsku)\.?[\"']?"
    r"[^\S\n]*[:=][^\S\n]*[\"']?)([^\s\"'][^\n\"',]*)"
)
MELLANOX_SERIAL = rf"{OWN}MT\d{{4}}[A-Z]{{1,2}}\d{{5,6}}{END}"
DISK = r"(?<=/by-id/)[^\s\"'/]+"
WWN = rf"{OWN}(?:wwn-|naa\.|eui\.|sas_addr\()(?:0x)?[0-9a-fA-F]{{16,32}}"
IQN = r"\biqn\.\d{4}-\d\d\.[\w.:-]+"
HOME = r"(?:(?<=/home/)|(?<=/homes/)|(?<=/users/)|(?<=/Users/))[^\s/:\"']+"
USER = (
    r"(?:\b(?:opened|closed|publickey|password|keyboard-interactive(?:/pam)?) for"
    r"(?: invalid)?(?: user)? |\b(?:SUDO_USER|LOGNAME|USER|USERNAME|user|ruser)=[\"']?"
    r"|\b[ug]id=\d+\(|\bsudo: +)([A-Za-z_][\w.-]*)"
)
MAIL = (
    r"(?<![\w.+/@-])[\w.+-]+@(?:[A-Za-z0-9-]+\.)+"
    r"(?!(?:service|socket|timer|mount|automount|target|slice|scope|swap|path|device)\b)"
    r"[A-Za-z]{2,}\b"
)
SERVER = r"(?<=[a-z]://)(?:hidden@)?([A-Za-z][\w.-]*)"
# What a cloud calls a machine, a network, an account.
CLOUD = (
    r"\b(?:i|ami|vpc|subnet|eni|sg|vol|snap|igw|rtb|fs|lt)-[0-9a-f]{8}(?:[0-9a-f]{9})?(?![\w-])"
    r"|\bocid1\.[\w.-]+|(?<=:)\d{12}(?=:)|(?<=/projects/)[\w-]+|(?<=/resourceGroups/)[\w.-]+"
)
FINGERPRINT = r"(?<=\bSHA256:)[A-Za-z0-9+/]{43}(?![A-Za-z0-9+/])"

# Behind a word that says so, or as the version behind a name: mlnx-ofed-24.10.2.1, knem/1.1.4.90.
VERSION = re.compile(
    r"(?i)(?:(?:version|firmware|release|(?<![a-z])(?:ver|fw|rev))(?:[_ ]?\w+)?[\s:=\"'(]*v?)$"
)
OF_A_NAME = re.compile(r"(?:[-_]|[A-Za-z][\w.+-]*/|[A-Za-z]\.)$")
# Names of hosts in texts of any kind, which may be those of other nodes; "a b" are two.
NAMED = (
    # dracut.cmdline(7)
    re.compile(r"(?<!\S)ip=(?:(?:\[[^]\s]*\]|[^\s:]*):){4}([A-Za-z][\w.-]*):"),
    re.compile(r"\b(?:systemd\.)?hostname[=:]\s*\"?([A-Za-z][\w.-]*)"),
    re.compile(r"(?:nfsroot=|root=nfs4?:|\bserver )([A-Za-z][\w.-]*)(?=:/| not | OK)"),
    re.compile(r"(?m)(?:^|[\s:])([A-Za-z][\w.-]*):/\S* /\S* nfs4? "),  # /proc/mounts
    re.compile(r"(?<![\w:/])//([A-Za-z][\w.-]*)/[\w$.-]+ "),  # CIFS
    re.compile(r"([A-Za-z][\w.-]*+)@(?:o2ib|tcp)\d*\b"),  # Lustre
    re.compile(
        r"(?i)\b(?:SlurmctldHost|ControlMachine|BackupController|AccountingStorageHost|DbdHost"
        r"|NodeHostname|NodeName|ClusterName|sysMgmtdHost)\s*=\s*([A-Za-z][\w.-]*)(?![\w.[-])"
    ),
    re.compile(r"(?m)^(?:search|domain) (?=\S*\.)([A-Za-z][\w. -]*)$"),
)
# Who a certificate is for, where its line is that of a certificate.
ORGANISATION = re.compile(
    r"(?:\b(?:O|OU|organizationName|organizationalUnitName)\s?=\s?(?=[^\n]*\bCN\b|[^\n]*commonName)"
    r"|\bCN\b[^\n]*\b(?:O|OU)\s?=\s?|\bOrganization(?: Name)?\s*[:=]\s*)"
    r"(?:\"([^\"\n]+)\"|([^,/+\n\"]+))"
)


# Octets that are a MAC, one with BOOTIF's leading type, an EUI-64, an IPoIB address.
_LENGTHS = (6, 7, 8, 20)
_NOT_TOLD = re.compile(r"(?i)\W*(?:n/?a|none|not |unknown|unspecified|default|to be filled|0+\W*$)")
_BARE = re.compile(rf"(?<![0-9A-WYZa-wyz])(?:[0-9a-fA-F]{{16}}|[0-9a-fA-F]{{12}}){END}")
_MAC = re.compile(
    r"(?<![0-9A-Fa-f:-])[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}(?![:-]?\w)"
)
# No version begins like these, which are what sites number their machines with.
_PRIVATE = tuple(
    map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)
# Whose certificates are on everybody's machines.
_MAKERS = re.compile(
    r"(?i)\b(?:canonical|debian|red hat|suse|opensuse|fedora|rocky|almalinux|oracle|amazon|google"
    r"|microsoft|nvidia|mellanox|intel|amd|advanced micro|broadcom|dell|hewlett|hpe?|lenovo"
    r"|super ?micro|gigabyte|ctrl iq|ciq|dkms|default company)\b"
)

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
        self._numbers: dict[str, str] = {}  # MACs and GUIDs by their digits
        self._patterns: list[tuple[re.Pattern[str], Put]] = [
            (re.compile(SERIAL), self._serial),
            (re.compile(CLOUD), self._by("cloud", lambda n: f"cloud{n}")),
            (re.compile(MAIL), self._by("mail", lambda n: f"user{n}@mail.example")),
            (re.compile(IPV6), self._ipv6),
            (re.compile(GUID), lambda found: self.guid(found[0])),
            (re.compile(GUID_NUMBER), self._guid_number),
            (re.compile(UUID), self._uuid),
            (re.compile(SHORT_UUID), self._as_long("id")),
            (re.compile(MACHINE_ID), self._as_long("id")),
            (re.compile(OCTETS), self._octets),
            (re.compile(BARE_MAC), self._bare),
            (re.compile(BARE_GUID), self._bare),
            (re.compile(DOTTED), self._dotted),
            (_BARE, lambda found: self._numbers.get(found[0].lower(), found[0])),
            (re.compile(MELLANOX_SERIAL), self._as_long("serial")),
            (re.compile(DISK), self._by("disk", lambda n: f"disk{n}")),
            (re.compile(WWN), self._by("disk", lambda n: f"disk{n}")),
            (re.compile(IQN), self._by("iqn", lambda n: f"iqn.2000-01.example:{n}")),
            (re.compile(HOME), self._user),
            (re.compile(USER), self._user),
            (re.compile(FINGERPRINT), self._as_long("key")),
            (re.compile(SERVER), self._server),
            (re.compile(DASHED_IPV4), self._dashed),
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

    def learn_from(self, text: str) -> None:
        """What a text tells in a form that is plain, to be hidden wherever it stands alone.

        Names of servers and other nodes, organisations of certificates, MACs and GUIDs.
        """
        for pattern in NAMED:
            self.learn(name for found in pattern.findall(text) for name in found.split())
        for found in ORGANISATION.finditer(text):
            told = (found[1] or found[2]).strip()
            if not _plain(told) and not _MAKERS.search(told):
                self._name(told)
        for found in _MAC.finditer(text):
            self._octets(found)
        for found in re.finditer(GUID, text):
            self.guid(found[0])

    def _name(self, name: str) -> None:
        """A stand-in of equal length: where a signature holds a name, lengths stand before it."""

        def form(number: int) -> str:
            digits = str(number)
            return "node".ljust(len(name), "x")[: max(0, len(name) - len(digits))] + digits

        if name.lower() not in self._names:
            self._names[name.lower()] = self._stand_in("name", name, form)

    def hide(self, text: str, *, addresses: bool = True) -> str:
        """The text with stand-ins.

        :param addresses: whether four numbers with dots are an address; versions look alike,
            and without it those of private networks alone are hidden.
        """
        lowered = text.lower()
        present = sorted((each for each in self._names if each in lowered), key=len, reverse=True)
        if present:
            listed = "|".join(map(re.escape, present))
            known = re.compile(rf"{OWN}(?:{listed}){END}", re.ASCII | re.IGNORECASE)
            text = known.sub(lambda found: self._names[found[0].lower()], text)
        for pattern, put in self._patterns:
            text = pattern.sub(put, text)
        put = self._ipv4 if addresses else self._private_ipv4
        return re.sub(IPV4, put, text)

    def hide_bytes(self, data: bytes) -> bytes:
        """The same for host names in binary data, which keeps its length."""
        for name, stand_in in self._names.items():
            pattern = rb"(?<![0-9A-Za-z])" + re.escape(name.encode()) + rb"(?![0-9A-Za-z])"
            data = re.sub(pattern, stand_in.encode(), data, flags=re.IGNORECASE)
        return data

    def guid(self, value: str) -> str:
        """A GUID as sysfs writes it: "9c63:c003:00f0:1234"."""
        if set(value) <= {"0", ":"}:
            return value
        form = "0200:0000:{:04x}:{:04x}".format
        number = self._stand_in("guid", value, lambda n: form(n >> 16, n & 65535))
        self._numbers[value.replace(":", "").lower()] = number.replace(":", "")
        return number

    def _stand_in(self, kind: str, value: str, form: Callable[[int], str]) -> str:
        key = (kind, value.lower())
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
        kind = octets[:1] if len(octets) == 7 else []
        return found[1].join([*kind, *re.findall("..", self._hex("".join(octets[len(kind) :])))])

    def _hex(self, digits: str) -> str:
        """As many digits for those of a MAC, a GUID or an IPoIB address; the same in all"""
        known = digits.lower()
        if len(known) == 16:
            return self.guid(":".join(re.findall("....", known))).replace(":", "")
        if known not in self._numbers and set(known) - {"0"}:
            size = len(known) - 4
            self._numbers[known] = "0200" + self._stand_in(
                f"octets of {size}", known, lambda n: f"{n:0{size}x}"
            )
        return self._numbers.get(known, digits)

    def _bare(self, found: re.Match[str]) -> str:
        digits = next(each for each in found.groups() if each)
        at = found[0].rindex(digits)
        return found[0][:at] + self._hex(digits)

    def _dotted(self, found: re.Match[str]) -> str:
        return ".".join(re.findall("....", self._hex(found[0].replace(".", ""))))

    def _user(self, found: re.Match[str]) -> str:
        name = found[1] if found.re.groups else found[0]
        if name.lower() in _WORDS:
            return found[0]
        return found[0][: -len(name)] + self._stand_in("user", name, lambda n: f"user{n}")

    def _server(self, found: re.Match[str]) -> str:
        form = self._stand_in("server", found[1], lambda n: f"server{n}.example")
        return found[0][: -len(found[1])] + form

    def _dashed(self, found: re.Match[str]) -> str:
        return self._quad(found[0].replace("-", ".")).replace(".", "-")

    def _ipv4(self, found: re.Match[str]) -> str:
        octets = [int(part) for part in found[0].split(".")]
        if max(octets) > 255 or octets[0] in {0, 127, 255} or _version(found):
            return found[0]
        return self._quad(found[0])

    def _private_ipv4(self, found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 40) : found.start()]
        named = OF_A_NAME.search(before) is not None
        return self._ipv4(found) if not named and _private(found[0]) else found[0]

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


def _plain(word: str) -> bool:
    """Whether it identifies nobody: short, a number, hexadecimal, or a common word."""
    return (
        len(word) < 3
        or word.isdecimal()
        or re.fullmatch("[0-9a-fA-F]{1,4}|[0-9a-fA-F:]+|(?:eth|ib|mlx5_|nvme)[0-9]{1,2}", word)
        is not None
        or word.lower() in _WORDS
    )


def _version(found: re.Match[str]) -> bool:
    """Whether four numbers are a version: behind a word that says so, or behind a name.

    What follows a name and a sign is one unless it is of a private network.
    """
    before = found.string[max(0, found.start() - 40) : found.start()]
    if VERSION.search(before) or any(len(p) > 1 and p[0] == "0" for p in found[0].split(".")):
        return True
    return OF_A_NAME.search(before) is not None and (before[-1] == "." or not _private(found[0]))


def _private(value: str) -> bool:
    if any(int(part) > 255 for part in value.split(".")):
        return False
    return any(IPv4Address(value) in each for each in _PRIVATE)
