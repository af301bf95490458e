"""Secure Boot, the keys that the kernel trusts, and the keys that sign on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable
from toolkit.facts.lines import blocks

_RING_KEY = re.compile(r"asymmetric: (.*?)(?:: ([0-9a-f]{8,}))?\s*$")
_HELD_KEY = re.compile(r" asymmetri (.*?)(?:: ([0-9a-f]{8,}))?: X509\.")
_RING_SEEN = re.compile(r" keyring +\.builtin_trusted_keys: ")
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


@dataclass(frozen=True, slots=True)
class Key:
    """One certificate that the kernel holds."""

    name: str  # common name
    id: str = ""  # subject key id, lower-case hex
    ring: str = ""  # ".machine"; "" where only the kernel's whole list told of it


@dataclass(frozen=True, slots=True)
class Keys:
    """The certificates of the kernel's keyrings."""

    held: tuple[Key, ...]
    seen: bool  # whether the reader was shown the kernel's keyrings at all; others see none
    rings: tuple[str, ...]  # the keyrings that keyctl told of, empty ones too

    def trusts(self, name: str, key: str) -> Key | None:
        """The certificate of this common name or key id; None where the kernel has none.

        A name that is told by keyring counts in one that modules are judged by.
        """
        fit = [each for each in self.held if (name and each.name == name) or each.id == key]
        in_rings = [each for each in fit if each.ring in FOR_MODULES]
        if in_rings or self.rings:
            return next(iter(in_rings), None)
        return next(iter(fit), None)


def parse_keys(text: str) -> Keys:
    """Read the probe's blocks: one a keyring by keyctl, then the lines of /proc/keys.

    :raises Unparsable: at a line of keyctl that is no key.
    """
    held: list[Key] = []
    rings: list[str] = []
    seen = False
    for name, lines in blocks(text, "keyrings"):
        if name != "/proc/keys":
            rings.append(name)
            seen = True
        for number, line in enumerate(lines, start=1):
            if name == "/proc/keys":
                seen = seen or _RING_SEEN.search(line) is not None
                found = _HELD_KEY.search(line)
                held += [Key(found[1].strip(), found[2] or "")] if found else []
                continue
            found = _RING_KEY.search(line)
            if found is None:
                raise Unparsable(name, line, number)
            held.append(Key(found[1], found[2] or "", name))
    return Keys(tuple(held), seen, tuple(rings))


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
    if "is already enrolled" in text or "is already in the built-in" in text:
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
        row[1].replace("-", "_"): re.split(r"\s{2,}|\s*[←<#]", row[2])[0].strip()
        for row in found
        if row
    }
