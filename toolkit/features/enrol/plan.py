"""What to do about one certificate on one node, and what it amounts to afterwards."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.firmware.secureboot import Enrolment, Mok, SecureBoot

# Word for word as MokManager shows it; its first screen waits for ten seconds only.
AT_THE_CONSOLE = (
    'at the console: press a key at "Press any key to perform MOK management" (10 s), then',
    "Enroll MOK > Continue > Yes > the password > Reboot",
)
# mokutil(1), --root-pw: it knows neither yescrypt, which distributions took up since, nor a lock.
_NO_HASH = "root has no password there, or keeps it by yescrypt: leave out --root-pw"


class EnrolWish(StrEnum):
    """What the operator asked for."""

    LOOK = "look"
    IMPORT = "import"
    REVOKE = "revoke"


class EnrolStanding(StrEnum):
    """Where the certificate stands on a node, once we are through with it."""

    ENROLLED = "enrolled"
    WAITS = "waits for the console"
    MISSING = "not enrolled"  # and an import would ask for it
    NEEDLESS = "not needed"


class Enrolling(Struct, frozen=True):
    """What came of one node, or would come of it."""

    standing: EnrolStanding
    found: str  # one sentence
    secure_boot: SecureBoot
    todo: str = ""  # what the operator has to do for it

    @property
    def pending(self) -> bool:
        return self.standing in {EnrolStanding.WAITS, EnrolStanding.MISSING}


def standing(mok: Mok, wish: EnrolWish) -> Enrolling:
    """What is so on the node, and whether the wish could be fulfilled.

    :raises Unsupported: where MokManager cannot ask for this certificate.
    :raises NoEvidence: where mokutil did not do what it was told, or nobody can tell.
    """
    if (bar := _without_mok(mok)) is not None:
        return bar
    if not mok.path:
        raise Unsupported(
            "no certificate that DKMS signs with is on the node",
            hint="DKMS makes one at its first build: dkms generate_mok; or give --certificate",
        )
    if mok.said:
        hint = _NO_HASH if "root password hash" in mok.said else "look again: enrol --check"
        raise NoEvidence(f"mokutil --{wish}: {mok.said}", hint=hint)
    now = mok.enrolment if mok.after is None else mok.after
    if wish is EnrolWish.REVOKE:
        return _revoked(mok, now)
    asked = mok.after is not None  # a node where others wait by now was not asked
    if wish is EnrolWish.IMPORT and mok.enrolment is Enrolment.NOT_ENROLLED and asked:
        if mok.after is not Enrolment.PENDING:
            raise NoEvidence(
                f"mokutil took the request, and the certificate is {mok.after}",
                hint="is the room for firmware variables used up? mokutil --list-new tells",
            )
        return Enrolling(
            EnrolStanding.WAITS, f"requested now{_off(mok)}", mok.secure_boot, "reboot, and confirm"
        )
    if now is Enrolment.ENROLLED:
        return Enrolling(EnrolStanding.ENROLLED, "known to firmware or kernel", mok.secure_boot)
    if now is Enrolment.PENDING:
        return _waits(mok)
    if mok.others:
        raise Unsupported(
            f"another certificate waits for the console already: {mok.others[0]}",
            hint="a second request would change the password of the first: confirm that one at "
            "the console, or drop it: mokutil --revoke-import",
        )
    return Enrolling(EnrolStanding.MISSING, _without_us(mok), mok.secure_boot, "enrol it")


def _without_mok(mok: Mok) -> Enrolling | None:
    """What is said of a node that has no MOK; None where it has."""
    if mok.efi and not mok.variables:
        raise NoEvidence(
            "booted by EFI, and its variables cannot be read",
            hint="mount -t efivarfs efivarfs /sys/firmware/efi/efivars",
        )
    if mok.efi and mok.shim:
        return None
    if mok.enrolment is Enrolment.ENROLLED:
        return Enrolling(EnrolStanding.ENROLLED, "known to firmware or kernel", mok.secure_boot)
    why = "no shim started this kernel" if mok.efi else "booted by BIOS, or EFI is hidden"
    if not mok.demanded:
        found = f"{why}; the kernel takes modules without signature"
        return Enrolling(EnrolStanding.NEEDLESS, found, mok.secure_boot)
    if mok.efi:
        hint = (
            "boot through shim, or add the certificate to the firmware's own db (BIOS setup, BMC)"
        )
    else:
        hint = "such a kernel knows only the keys that were built into it: sign with one of them"
    raise Unsupported(f"{why}, so MokManager never asks; yet {mok.demanded}", hint=hint)


def _without_us(mok: Mok) -> str:
    demand = f"the kernel demands signatures ({mok.demanded})" if mok.demanded else ""
    return f"not enrolled{f'; {demand}' if demand else _off(mok)}"


def _off(mok: Mok) -> str:
    if mok.secure_boot is SecureBoot.ON:
        return ""
    return "; Secure Boot is off, so it counts once that is on"


def _waits(mok: Mok) -> Enrolling:
    found = "requested earlier, by the password of that time"
    return Enrolling(EnrolStanding.WAITS, found, mok.secure_boot, "reboot, and confirm")


def _revoked(mok: Mok, now: Enrolment | None) -> Enrolling:
    if now is Enrolment.PENDING and mok.after is None:
        if mok.others:
            raise Unsupported(
                f"others wait with it: {', '.join(mok.others)}",
                hint="mokutil revokes all requests or none; if all may go: mokutil --revoke-import",
            )
        return _waits(mok)
    if now is Enrolment.PENDING:
        raise NoEvidence(
            "the request still waits",
            hint="take it back by hand: mokutil --revoke-import; mokutil --list-new tells",
        )
    if now is Enrolment.ENROLLED:
        found = "enrolled already: mokutil --delete takes it out again, at the console"
        return Enrolling(EnrolStanding.ENROLLED, found, mok.secure_boot)
    was = mok.enrolment is Enrolment.PENDING
    return Enrolling(
        EnrolStanding.NEEDLESS,
        "the request is revoked" if was else "nothing waited",
        mok.secure_boot,
    )
