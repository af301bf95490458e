"""Secure Boot, the keys that the kernel trusts, and the keys that sign on the node."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from enum import StrEnum
from errno import ENOSPC
from hashlib import sha1

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.boot.kernel import parse_lockdown
from toolkit.facts.lines import blocks, rows

_RING_KEY = re.compile(r"asymmetric: (.*?)(?:: ([0-9a-f]{2,}))?\s*$")
_HELD_KEY = re.compile(r" asymmetri (.*?)(?:: ([0-9a-f]{2,}))?: X509\.")
_RING_SEEN = re.compile(r" keyring +\.builtin_trusted_keys: ")
# Keyrings that hold certificates too, by which modules are not judged.
_RING_BESIDE = re.compile(r" keyring +(?:\.platform|[._]ima|[._]evm): (?!empty)")
_SERIAL = re.compile(r"Serial Number:(?: \d+ \(0x([0-9a-f]+)\))?")
_KEY_FILE = re.compile(r"([0-7]{1,4}) (\d+) (/.*)")
_BYTES = re.compile(r"(?:[0-9A-Fa-f]{2}:?)+")
MOK_LIST = "mokutil --list-enrolled"
ENROL = "mokutil --import CERTIFICATE, reboot, confirm at the console (not over SSH)"
# Of the kernel's keyrings, those by which modules are judged. The firmware's own,
# .platform, counts only where a distribution has patched its kernel to ask it.
FOR_MODULES = (".builtin_trusted_keys", ".secondary_trusted_keys", ".machine")


class SecureBoot(StrEnum):
    ON = "on"
    OFF = "off"
    NO_EFI = "no EFI"  # booted by BIOS, or firmware variables are hidden


def parse_sb_state(text: str) -> SecureBoot:
    """What ``mokutil --sb-state`` answers.

    :raises Unparsable: for another answer.
    """
    if re.search(r"^SecureBoot enabled", text, re.MULTILINE):
        return SecureBoot.ON
    if re.search(r"^SecureBoot disabled", text, re.MULTILINE):
        return SecureBoot.OFF
    if "EFI variables are not supported" in text:
        return SecureBoot.NO_EFI
    raise Unparsable("mokutil --sb-state", text.strip().partition("\n")[0])


def parse_efi_byte(text: str) -> SecureBoot:
    """The value of the firmware variable SecureBoot: 1 is on.

    :raises Unparsable: for anything but one number of 0 or 1.
    """
    states = {"0": SecureBoot.OFF, "1": SecureBoot.ON}
    if text.strip() not in states:
        raise Unparsable("firmware variable SecureBoot", text.strip())
    return states[text.strip()]


class Key(Struct, frozen=True):
    """One certificate that the kernel holds."""

    name: str  # common name
    id: str = ""  # subject key id, lower-case hex
    ring: str = ""  # ".machine"; "" where only the kernel's whole list told of it


class Enrolled(Struct, frozen=True):
    """One certificate that the machine's owner enrolled (MOK)."""

    serial: str  # lower-case hex, no zeroes in front
    issuer: str  # its distinguished name, as OpenSSL prints it
    id: str  # subject key id, lower-case hex; "" for none


class Keys(Struct, frozen=True):
    """The certificates of the kernel's keyrings.

    A signature names its certificate by issuer and serial number, and keyrings show subject
    and key id: two keys of one name ("DKMS module signing key", before and after a machine
    was installed anew) look the same. What mokutil lists has both, and tells them apart.
    """

    held: tuple[Key, ...]
    seen: bool  # whether the reader was shown the kernel's keyrings at all; others see none
    rings: tuple[str, ...]  # the keyrings that keyctl told of, empty ones too
    enrolled: tuple[Enrolled, ...] = ()
    beside: bool = True  # whether any keyring holds certificates that do not count for modules

    def trusts(self, signer: str, serial: str) -> bool:
        """Whether the kernel takes modules of this signer.

        :param signer: common name of the certificate's issuer; "" where only a key id is told.
        :param serial: of the certificate, or the key's id: hex.
        :raises NoEvidence: where a key fits, and nobody can tell whether it counts.
        """
        number = serial.lstrip("0")
        # A short number may be that of several certification authorities.
        same = {
            each.id
            for each in self.enrolled
            if each.serial == number and (len(number) > 8 or signer in each.issuer)
        } - {""}
        others = {each.id for each in self.enrolled if number and each.serial != number}
        told = [key for key in self.held if key.ring] if self.rings else self.held
        # A certificate without key id is shown with its serial number in its place.
        exact = [k for k in told if k.id in same or (number and k.id.lstrip("0") == number)]
        named = [k for k in told if signer and k.name == signer and k.id not in others]
        if any(self._counts(key) for key in exact):
            return True
        if any(self._counts(key) and key.ring != ".machine" for key in named):
            return True
        fits = [*exact, *named]
        if not fits:
            return False
        raise self._open(fits)

    def _counts(self, key: Key) -> bool:
        if self.rings:
            return key.ring in FOR_MODULES
        return not self.beside

    def _open(self, fits: list[Key]) -> NoEvidence:
        """Why nobody can tell."""
        name = fits[0].name
        if not self.rings:
            return NoEvidence(
                f"the kernel holds a key named {name}, and /proc/keys tells no keyring",
                hint="install keyutils there, for keyctl",
            )
        if any(key.ring == ".machine" for key in fits):
            return NoEvidence(
                f".machine holds a key named {name}, and whether this one nobody tells",
                hint="install mokutil there",
            )
        return NoEvidence(
            f"{name} is in the firmware's keyring .platform alone, and not every kernel asks it",
            hint=f"enrol the certificate as the owner's: {ENROL}",
        )


def parse_keys(text: str) -> Keys:
    """Read the probe's blocks: one a keyring by keyctl, mokutil's list, then /proc/keys.

    :raises Unparsable: at a line of keyctl that is no key.
    """
    held: list[Key] = []
    rings: list[str] = []
    enrolled: tuple[Enrolled, ...] = ()
    seen = beside = False
    for name, lines in blocks(text, "keyrings"):
        if name == MOK_LIST:
            enrolled = _parse_enrolled(lines)
            continue
        if name != "/proc/keys":
            rings.append(name)
            seen = True
        for number, line in enumerate(lines, start=1):
            if name == "/proc/keys":
                seen = seen or _RING_SEEN.search(line) is not None
                beside = beside or _RING_BESIDE.search(line) is not None
                found = _HELD_KEY.search(line)
                held += [Key(found[1].strip(), found[2] or "")] if found else []
                continue
            found = _RING_KEY.search(line)
            if found is None:
                raise Unparsable(name, line, number)
            held.append(Key(found[1], found[2] or "", name))
    return Keys(tuple(held), seen, tuple(rings), enrolled, beside)


def _parse_enrolled(lines: list[str]) -> tuple[Enrolled, ...]:
    """OpenSSL's text of certificates, of which the probe keeps serial, issuer and key id."""
    found: list[dict[str, str]] = []
    heading = ""
    for line in (each.strip() for each in lines):
        if told := _SERIAL.match(line):
            found.append({"serial": (told[1] or "").lstrip("0")})
            heading = "serial"
        elif line.startswith("Issuer:") and found:
            found[-1]["issuer"] = line.removeprefix("Issuer:").strip()
        elif line.startswith("X509v3 Subject Key Identifier"):
            heading = "id"
        elif heading and found and _BYTES.fullmatch(line):
            plain = line.replace(":", "").lower()
            if not found[-1].get(heading):
                found[-1][heading] = plain.lstrip("0") if heading == "serial" else plain
            heading = ""
    return tuple(
        Enrolled(each["serial"], each.get("issuer", ""), each.get("id", "")) for each in found
    )


class KeyFile(Struct, frozen=True):
    """A file that may be a key or a certificate; nothing of what is in it was read."""

    path: str
    mode: int  # permission bits
    uid: int

    @property
    def private(self) -> bool:
        """Whether nobody but root may read it."""
        return not self.mode & 0o077 and self.uid == 0


def parse_key_files(text: str) -> dict[str, KeyFile]:
    """MODE UID PATH, one a line, as ``stat -c '%a %u %n'`` prints them; by path.

    :raises Unparsable: for a line of another shape.
    """
    return {
        row[3]: KeyFile(row[3], int(row[1], 8), int(row[2]))
        for row in rows(text, _KEY_FILE, "files of keys")
    }


class Enrolment(StrEnum):
    """Where a key of the node's own stands with the firmware."""

    ENROLLED = "enrolled"
    NOT_ENROLLED = "not enrolled"
    PENDING = "waiting for the console at the next boot"


def parse_test_key(text: str) -> Enrolment:
    """What ``mokutil --test-key`` says; its status is not the same in every release.

    :raises Unparsable: for another answer.
    """
    if "enrollment request" in text:
        return Enrolment.PENDING
    # Enrolled by the owner, or held already by the firmware or the kernel.
    if re.search(r"^(?!CA of ).* is already (enrolled|in db|in the built-in)", text, re.MULTILINE):
        return Enrolment.ENROLLED
    if "is not enrolled" in text:
        return Enrolment.NOT_ENROLLED
    raise Unparsable("mokutil --test-key", text.strip().partition("\n")[0])


_SIGNED_BY = re.compile(r"([\w-]+)\.ko(?:\.\w+)?:\s+(\S.*)")


def parse_said_signers(text: str) -> dict[str, str]:
    """Signers by module, where somebody listed ``modinfo -F signer`` for several files.

    ``nvidia-peermem.ko: NVIDIA Support``; an author's arrow behind it is not part of it.
    """
    found = (_SIGNED_BY.fullmatch(line.strip()) for line in text.split("\n"))
    return {
        row[1].replace("-", "_"): re.split(r"\s{2,}|\s*[←<#]", row[2])[0] for row in found if row
    }


# How one certificate stands with a node's firmware and shim: what enrol.sh read.
_PRINT = re.compile(r"^\s*SHA1 Fingerprint: ([0-9a-f:]{59})\s*$", re.MULTILINE | re.IGNORECASE)


class Mok(Struct, frozen=True):
    """A node's firmware, and the certificate in question."""

    efi: bool  # booted by EFI
    variables: bool  # its variables can be read
    shim: bool  # shim started the kernel, so MokManager can ask at the next boot
    secure_boot: SecureBoot
    demanded: str  # what makes the kernel refuse modules that are not signed; "" for nothing
    path: str  # of the certificate on the node; "given" where the operator sent it, "" for none
    fingerprint: str = ""  # SHA-1 of the certificate, lower-case hex, as mokutil shows it
    enrolment: Enrolment | None = None  # None where there are no firmware variables
    waiting: tuple[str, ...] = ()  # fingerprints that the next boot's MokManager will ask about
    said: str = ""  # what mokutil answered to the request; "" where it was content
    after: Enrolment | None = None  # once the request was made or revoked; None without one

    @property
    def others(self) -> tuple[str, ...]:
        """Fingerprints of other certificates that wait for the console."""
        return tuple(each for each in self.waiting if each != self.fingerprint)


def parse_mok(evidence: Evidence) -> Mok:
    """Read the frames of enrol.sh.

    :raises NoEvidence: where it was cut off, or mokutil is not there.
    :raises Unparsable: an answer of another shape.
    """
    told = set(evidence.text("firmware").split())
    frame = evidence.frame("certificate")
    if frame.state is State.FAILED and frame.exit == ENOSPC:
        raise NoEvidence(
            f"the certificate ({frame.source}) could not be copied into a temporary folder",
            hint="is there room in /tmp or /dev/shm? nothing was asked of the firmware",
        )
    if frame.state is State.FAILED:
        raise NoEvidence(
            f"{frame.source} is no certificate in DER", hint="see mok_certificate below /etc/dkms"
        )
    der = _der(frame.text) if frame.state is State.OK else b""
    variables = "variables" in told
    asked = variables and bool(der)
    act = next((each for each in ("import", "revoke") if each in evidence.frames), "")
    if not evidence.complete:
        raise NoEvidence("the script did not run to its end", hint="look again: --check")
    waiting = _PRINT.findall(_said(evidence, "list-new")) if asked else ()
    efi = _there(evidence, "efi-secureboot")
    return Mok(
        efi="efi" in told,
        variables=variables,
        shim="shim" in told,
        secure_boot=parse_efi_byte(evidence.text("efi-secureboot")) if efi else SecureBoot.NO_EFI,
        demanded=_demanded(evidence),
        path=frame.source if der else "",
        fingerprint=sha1(der, usedforsecurity=False).hexdigest() if der else "",
        enrolment=parse_test_key(_said(evidence, "test-key")) if asked else None,
        waiting=tuple(each.replace(":", "").lower() for each in waiting),
        said=_refusal(evidence.frame(act)) if act else "",
        after=parse_test_key(_said(evidence, "test-key-after")) if act else None,
    )


def _der(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except binascii.Error as why:
        raise Unparsable("certificate", text) from why


def _demanded(evidence: Evidence) -> str:
    """:raises NoEvidence: where the kernel's files of it are there, and could not be read."""
    if _there(evidence, "sig-enforce") and evidence.text("sig-enforce").strip() == "Y":
        return "module.sig_enforce"
    if not _there(evidence, "lockdown"):
        return ""
    level = parse_lockdown(evidence.text("lockdown"))
    return "" if level == "none" else f"lockdown ({level})"


def _there(evidence: Evidence, key: str) -> bool:
    return evidence.frame(key).state is not State.ABSENT


def _said(evidence: Evidence, key: str) -> str:
    """What mokutil printed, whatever it ended with: that differs between releases."""
    frame = evidence.frame(key)
    return frame.text if frame.state is State.FAILED else evidence.text(key)


def _refusal(frame: Frame) -> str:
    """Why the request was not taken, in mokutil's own words; "" where it was."""
    said = frame.text.strip().rpartition("\n")[2].strip() or frame.trouble
    return "" if frame.state is State.OK else said
