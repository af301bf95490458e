"""Evidence without what identifies a site: for tickets and bug reports.

Every name, serial, GUID and address becomes another of the same form, the same one each
time, so that whatever was equal stays equal and every parser still reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import NoEvidence
from toolkit.evidence import INSIDE, Evidence, Frame
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.text.identity import Identities
from toolkit.facts.text.pasted_logs import IMPORTED
from toolkit.untrusted import read_json

# What opens a door, in any text: passwords, tokens, keys. No verdict rests on any of it.
# Names of options and of variables tell most of them (rd.iscsi.password=, --api-key, DB_PWD=);
# others are told by their own form: a hash of crypt(3), GRUB's, a private key, a cloud's token.
HIDDEN = "hidden"
_WORD = (
    r"(?:passw(?:or)?d|passphrase|secret|token|username|credential|superusers"
    r"|api[_-]?key|access[_-]?key|account[_-]?key|auth[_-]?key|private[_-]?key|client[_-]?key)"
)
# Up to a space, or to the next option: "username=bob,password=a;b,domain=x".
_BARE = r"(?:(?![,;&][\w.-]+=|[,;&]?(?:\s|$))[^\s\"'])+"
_VALUE = rf"(?:\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>[^'\n]*)'|(?P<bare>{_BARE}))"
_STARTS = r"(?<![\w.-])"
_NAMED = re.compile(
    rf"(?im){_STARTS}(?P<name>(?P<path>[\w.-]*{_WORD}[\w.-]*)[\"']?\s*[=:][^\S\n]*){_VALUE}"
)
# Short words mean this only where a value is given to them.
_SHORT = re.compile(
    rf"(?im){_STARTS}(?P<name>(?:[\w.-]*[._-])?(?:pwd|pass|psk|pin)\s*=\s*)(?!/){_VALUE}"
)
_OPTION = re.compile(rf"(?im)(?P<name>(?<![\w-])--?[\w-]*{_WORD}[\w-]*[^\S\n]+)(?!-){_VALUE}")
_OF_FILES = re.compile(r"(?i)key|file|dir|path|name$")
# Programs with options of one letter.
_PROGRAMS = ("ipmitool", "sshpass", "curl", "wget", "mysql", "snmp", "ldap")
_PROGRAM = re.compile(rf"\b(?:{'|'.join(_PROGRAMS)})\w*\b[^\n]*")
_LETTER = re.compile(r"(\s-[PpUuwc]\s*)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s-]\S*)")
_GRUB = re.compile(r"(?m)((?:^|:)[^\S\n]*password(?:_pbkdf2)?[^\S\n]+)[^\s=:]+[^\S\n]+\S+")
_HEADER = re.compile(
    r"(?i)((?:authorization|x-auth-token|cookie|x-api-key)[\"']?\s*[:=]\s*[\"']?"
    r"(?:(?:bearer|basic|token)\s+)?|\bbearer\s+)[\w.~+/=-]{8,}"
)
_COMMUNITY = re.compile(r"(?i)(\b(?:r[ow])?community\d?[\s=:]+)[^\s,;]+")
_IN_URL = re.compile(r"(?:(?<=://)|(?<=netroot=iscsi:))[^/\s\"'<>]+(?=@)")
_HASH = re.compile(r"\$(?:[1567]|2[abxy]?|gy|y|sha1|argon2\w*)\$[^\s:\"',]+|\bgrub\.pbkdf2\.[\w.]+")
_TOKENS = (
    *("akia", "asia", "ghp_", "gho_", "ghs_", "ghr_", "ghu_", "github_pat_", "glpat-", "xox"),
    *("hf_", "nvapi-", "sk-", "hvs.", "aiza", "eyj"),
)
_FORMS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeprs]-[\w-]{10,}|\bhf_\w{20,}|\bnvapi-[\w-]{20,}|\bsk-[\w-]{20,}|\bhvs\.[\w-]{20,}"
    r"|\bAIza[\w-]{35}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
)
_PEM = re.compile(
    r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_PUBLIC = re.compile(
    r"\b((?:sk-)?(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w+)(?:@openssh\.com)? )"
    r"AAAA[\w+/=]+(?: [^\s\"']+)?"
)


def hide_secrets(text: str) -> str:
    """The text without the values of passwords, tokens and their like; its lines stay lines."""
    low = text.lower()
    for needles, pattern, put in _HIDES:  # most texts hold none: looking for words is quick
        if any(each in low for each in needles):
            text = pattern.sub(put, text)
    return text


def _without_value(found: re.Match[str]) -> str:
    value = found["double"] or found["single"] or found["bare"] or ""
    # Where the key of a module's signature lies is no secret; what it holds is.
    path = found.groupdict().get("path") or ""
    if not value or (value.startswith("/") and _OF_FILES.search(path)):
        return found[0]
    quote = '"' if found["double"] else "'" if found["single"] else ""
    return f"{found['name']}{quote}{HIDDEN}{quote}"


_WORDS = (
    *("passw", "passphrase", "secret", "token", "username", "credential", "superusers"),
    *(
        f"{each}{sign}key"
        for each in ("api", "access", "account", "auth", "private", "client")
        for sign in ("", "_", "-")
    ),
)
_TAKEN = rf"\1{HIDDEN}"
# What a text holds, in small letters, where the pattern may fit; in the order of their use.
_HIDES: tuple[
    tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...
] = (
    (("private key---",), _PEM, lambda found: found[1] + HIDDEN + "\n" * found[0].count("\n")),
    (("password",), _GRUB, rf"\1{HIDDEN} {HIDDEN}"),
    (("$", "grub.pbkdf2"), _HASH, HIDDEN),
    (_TOKENS, _FORMS, HIDDEN),
    (("@",), _IN_URL, HIDDEN),
    (_WORDS, _NAMED, _without_value),
    (_WORDS, _OPTION, _without_value),
    (("pwd", "pass", "psk", "pin"), _SHORT, _without_value),
    (_PROGRAMS, _PROGRAM, lambda found: _LETTER.sub(_TAKEN, found[0])),
    (("authorization", "x-auth-token", "cookie", "x-api-key", "bearer"), _HEADER, _TAKEN),
    (("community",), _COMMUNITY, _TAKEN),
    (("ssh-", "ecdsa-sha2-"), _PUBLIC, _TAKEN),
)


# What identifies a site in what its BMCs say: beside what all texts hold, JSON by its keys.
PREFIX = "bmc"
_PLACE = re.compile(r"https://(?:\[[^]]*\]|([^/:\s]+))")
_NAMES = re.compile(r'"(?:HostName|FQDN|ServerName)"\s*:\s*"([^"]+)"')
# Beside serial numbers, tags and SKU, which vendors put a tag into: those are hidden in all texts.
_TOLD = re.compile(
    r'("(?:\w+SKU|\w*NodeI[Dd]|\w*ExpressServiceCode'
    r"|Admin(?:Name|Email|Phone|OtherInfo)|ServerOtherInfo|ServiceName|ServiceEmail|ServicePhone"
    r'|\w*LocationInfo|PostalAddress|Contacts?)"\s*:\s*")((?:[^"\\]|\\.)+)(")'
)
# Versions, of the frame bmc, that may look like addresses.
_FIRMWARE = re.compile(r"(?m)^(?:bios|bmc) .*$")
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
    text = _BARE_MAC.sub(
        lambda found: octets(":".join(re.findall("..", found[1]))).replace(":", "").upper(), text
    )
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


_SERIAL_CAPABILITY = 0x0003  # its eight bytes are the device's serial number, of its MAC mostly
_ROW = re.compile(r"([0-9a-f]{2,6})(:? )((?:[0-9a-f]{2} ?)+)")
# Where numbers with dots are versions.
_VERSIONS = ("dkms", "ofed", "libraries", "kernels", "registration")
_BELOW = f"{INSIDE}/"  # of a container the same, and more whose names end with a version
_VERSIONS_BELOW = (*_VERSIONS, "providers", "cuda-libraries", "mlx5-libraries", "verbs-libraries")
_LOGS = ("dmesg", "nccl-log", "openibd-log")
_BYTES = ("pci-config", "acpi-bytes", "peermem-elf")  # long, and hardly a word in them
_NOT_BYTES = re.compile(r"(?m)^(?![0-9a-f]{6}(?: [0-9a-f]{2})+$).+$")
# Names of hosts in logs of jobs and of kernels, which may be those of other nodes.
_SPEAKERS = (
    re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] "),  # NCCL
    re.compile(
        r"(?m)^(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) (\S+) [\w./-]+(?:\[\d+\])?: "
    ),
    re.compile(r"(?:Hostname set to|hostname to) <([^>]+)>"),
)


def scrub(evidence: Evidence, host: str) -> Evidence:
    """The same evidence, with names, serials, GUIDs and addresses replaced.

    :param host: the name under which the node was reached; replaced like its own hostname.
        "" where there was no host.
    """
    return Scrubber((host,)).scrub(evidence)


class Scrubber:
    """Scrubs the nodes of one fleet: each knows the names of all, and what is equal stays so."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._identities = Identities()
        self._registries: dict[str, str] = {}  # as served, and with stand-ins
        self._identities.learn(each for each in hosts if each)

    def scrub(self, evidence: Evidence) -> Evidence:
        own = evidence.frames.get("hostname")
        if own is not None:
            self._identities.learn([own.text])
        self._identities.learn(names_in(evidence.frames.values()))
        for key, frame in evidence.frames.items():
            if key in _LOGS:
                self._identities.learn(n for each in _SPEAKERS for n in each.findall(frame.text))
            if key not in _BYTES:
                self._identities.learn_from(frame.text)
        return Evidence(
            {key: self._frame(frame) for key, frame in evidence.frames.items()}, evidence.complete
        )

    def text(self, text: str) -> str:
        """A text that goes with the evidence."""
        return self._identities.hide(text)

    def _frame(self, frame: Frame) -> Frame:
        source, imported, _ = frame.source.partition(IMPORTED)
        source = f"{source}{imported}{frame.key}" if imported else self._identities.hide(source)
        text = frame.text
        if frame.key == "peermem-elf":
            text = _dumped(text, self._identities.hide_bytes)
        if frame.key.startswith(PREFIX):
            return replace(frame, source=source, text=self._of_bmc(frame))
        if frame.key in {"pci-config", "lspci"}:
            text = _dumped(text, self._serial_number)
        if frame.key in _BYTES:
            text = _NOT_BYTES.sub(lambda line: self._hidden(line[0], addresses=True), text)
        else:
            below = frame.key.startswith(_BELOW)
            known = _VERSIONS_BELOW if below else _VERSIONS
            versions = frame.key.removeprefix(_BELOW).startswith(known)
            versions = versions or frame.key.endswith("modinfo")
            text = self._hidden(text, addresses=not versions)
        if frame.key == INSIDE:  # what a site calls its jobs and images
            source = source.partition(" ")[0] + " container"
            text = re.sub(r"(?m)^name .*$", "name container", text)
        return replace(frame, source=source, text=text)

    def _hidden(self, text: str, *, addresses: bool) -> str:
        return self._identities.hide(hide_secrets(text), addresses=addresses)

    def _of_bmc(self, frame: Frame) -> str:
        """Registries are large, and equal machines have equal ones: each is gone through once."""
        if frame.text not in self._registries:
            known = self._identities
            text = hidden(
                replace(frame, text=hide_secrets(frame.text)), known.hide, known.serial, known.hide
            )
            if frame.key != "bmc-bios-registry":
                return text
            self._registries[frame.text] = text
        return self._registries[frame.text]

    def _serial_number(self, data: bytes) -> bytes:
        """A config space with another device serial number."""
        try:
            at = ConfigSpace("", data).extended(_SERIAL_CAPABILITY)
        except NoEvidence:
            return data
        if at is None or at + 12 > len(data):
            return data
        serial = data[at + 4 : at + 12][::-1].hex(":", 2)
        stand_in = bytes.fromhex(self._identities.guid(serial).replace(":", ""))[::-1]
        return data[: at + 4] + stand_in + data[at + 12 :]


class _Run(Struct):
    """Bytes without a gap, and the lines that print them."""

    start: int
    data: bytearray
    rows: list[tuple[int, int, int]]  # number of the line, where its bytes begin and end

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def _dumped(text: str, edit: Callable[[bytes], bytes]) -> str:
    """Hex dumps, "OFFSET BYTES" with "*" for repeated lines, after an edit that keeps lengths."""
    lines = text.split("\n")
    runs: list[_Run] = []
    folded = open_run = False
    for number, line in enumerate(lines):
        row = _ROW.fullmatch(line)
        if row is None:
            folded = line == "*"
            open_run = open_run and folded
            continue
        offset, data = int(row[1], 16), bytes.fromhex(row[3])
        if open_run and folded:
            last = runs[-1].rows[-1]
            above = bytes(runs[-1].data[last[1] : last[2]])
            runs[-1].data += above * ((offset - runs[-1].end) // len(above))
        if not open_run or offset != runs[-1].end:
            runs.append(_Run(offset, bytearray(), []))
        at = len(runs[-1].data)
        runs[-1].data += data
        runs[-1].rows.append((number, at, at + len(data)))
        folded, open_run = False, True
    for run in runs:
        edited = edit(bytes(run.data))
        if edited == run.data:
            continue
        for number, begin, end in run.rows:
            row = _ROW.fullmatch(lines[number])
            if row is not None:
                lines[number] = row[1] + row[2] + edited[begin:end].hex(" ")
    return "\n".join(lines)
