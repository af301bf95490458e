"""How one certificate stands with a node's firmware and shim: what enrol.sh read."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass
from errno import ENOSPC
from hashlib import sha1

from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence, State
from toolkit.facts.boot.kernel import parse_lockdown
from toolkit.facts.firmware.secureboot import Enrolment, SecureBoot, parse_efi_byte, parse_test_key

_PRINT = re.compile(r"^\s*SHA1 Fingerprint: ([0-9a-f:]{59})\s*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mok:
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
    return Mok(
        efi="efi" in told,
        variables=variables,
        shim="shim" in told,
        secure_boot=_secure_boot(evidence),
        demanded=_demanded(evidence),
        path=frame.source if der else "",
        fingerprint=sha1(der, usedforsecurity=False).hexdigest() if der else "",
        enrolment=_enrolment(evidence, "test-key") if asked else None,
        waiting=_waiting(evidence, "list-new") if asked else (),
        said=_trouble(evidence, act) if act else "",
        after=_enrolment(evidence, "test-key-after") if act else None,
    )


def _der(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except binascii.Error as why:
        raise Unparsable("certificate", text) from why


def _secure_boot(evidence: Evidence) -> SecureBoot:
    frame = evidence.frame("efi-secureboot")
    if frame.state is State.ABSENT:
        return SecureBoot.NO_EFI
    return parse_efi_byte(evidence.text("efi-secureboot"))


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


def _enrolment(evidence: Evidence, key: str) -> Enrolment:
    return parse_test_key(_said(evidence, key))


def _waiting(evidence: Evidence, key: str) -> tuple[str, ...]:
    return tuple(each.replace(":", "").lower() for each in _PRINT.findall(_said(evidence, key)))


def _trouble(evidence: Evidence, key: str) -> str:
    """Why the request was not taken, in mokutil's own words; "" where it was."""
    frame = evidence.frame(key)
    if frame.state is State.OK:
        return ""
    lines = [line.strip() for line in frame.text.split("\n") if line.strip()]
    return lines[-1] if lines else frame.trouble
