"""Bring a certificate into the lists of keys that nodes' owners trust: as far as SSH reaches."""

from __future__ import annotations

import re
import secrets
from base64 import b64encode

from msgspec import Struct

from toolkit.errors import Outcome, TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.firmware.secureboot import Enrolment, Mok, parse_mok
from toolkit.features.enrol.plan import Enrolling, EnrolStanding, EnrolWish, standing
from toolkit.hosts.host import Host
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each

# Look at, request or revoke the enrolment of a certificate on a node, in one round trip.
ROOTS_OWN = ""  # in place of a password: root's own, as the node's /etc/shadow has it
# MokManager reads the console as a US keyboard: letters that stand there on all of them.
SAFE = "bcdefghijklnoprstuvx"
_PASSWORD = re.compile(r"[!-&(-~]{8,256}")  # printable, no blank, no quote


def script(action: str, certificate: bytes | None, password: str) -> str:
    """The whole script.

    :param certificate: DER; None for the one that DKMS signs with there.
    :raises UsageError: a password that MokManager could not be told.
    """
    if password and not _PASSWORD.fullmatch(password):
        raise UsageError(
            "the password must have 8 to 256 printable ASCII characters, no blank and no '",
            hint=f"it is typed at a console that takes every keyboard for a US one: {SAFE}",
        )
    which = "own" if certificate is None else "given"
    sent = b64encode(certificate or b"").decode("ascii")
    call = f"enrol {action} {which} '{sent}' '{password}'"
    return assembled(("frames.sh", "enrol.sh"), call)


def ask(
    transport: Transport, action: str, certificate: bytes | None, password: str = ROOTS_OWN
) -> Evidence:
    """Run it on one node.

    :param action: "look", "import" or "revoke".
    :raises TransportError: whether it ran to its end cannot be known.
    """
    result = transport.run(script(action, certificate, password), limit_s=120)
    evidence = Evidence.parse(result.stdout)
    if not evidence.frames:
        raise TransportError(
            f"{transport.name}: the script ended with {result.exit}, said nothing",
            hint="look at the node: is sh there, and room in /tmp?",
        )
    return evidence


LENGTH = 12  # of a password that we make: 51 bits, for a request that lives until the next boot


class EnrolReading(Struct, frozen=True):
    """A node before anything was asked of it."""

    mok: Mok
    enrolling: Enrolling


def make_password() -> str:
    """One that can be typed at any keyboard while the firmware takes it for a US one."""
    return "".join(secrets.choice(SAFE) for _ in range(LENGTH))


def look(
    fleet: Fleet, certificate: bytes | None, wish: EnrolWish = EnrolWish.LOOK
) -> list[Outcome[EnrolReading]]:
    """Where the certificate stands on each node; changes nothing.

    :param certificate: DER; None for the one that DKMS signs with on each node.
    :param wish: what is to come of it: where nothing is to be requested, others may wait.
    """

    def work(_: Host, transport: Transport) -> EnrolReading:
        mok = parse_mok(ask(transport, "look", certificate))
        return EnrolReading(mok, standing(mok, wish))

    return on_each(fleet, "looking at keys", work)


def request(
    fleet: Fleet,
    looked: list[Outcome[EnrolReading]],
    certificate: bytes | None,
    password: str = ROOTS_OWN,
) -> list[Outcome[Enrolling]]:
    """Ask for the enrolment where it is not asked for yet; the others stay as they are."""
    return _where(fleet, looked, certificate, EnrolWish.IMPORT, password)


def revoke(
    fleet: Fleet, looked: list[Outcome[EnrolReading]], certificate: bytes | None
) -> list[Outcome[Enrolling]]:
    """Take the request back where it still waits for the console, and nobody else's with it."""
    return _where(fleet, looked, certificate, EnrolWish.REVOKE, ROOTS_OWN)


def _where(
    fleet: Fleet,
    looked: list[Outcome[EnrolReading]],
    certificate: bytes | None,
    wish: EnrolWish,
    password: str,
) -> list[Outcome[Enrolling]]:
    before = {each.host: each.value for each in looked if each.value is not None}
    meant = [
        host for host in fleet.hosts if host.name in before and _meant(before[host.name], wish)
    ]

    def work(_: Host, transport: Transport) -> Enrolling:
        mok = parse_mok(ask(transport, wish.value, certificate, password))
        return standing(mok, wish)

    done: dict[str, Outcome[Enrolling]] = {}
    if meant:
        title = "requesting enrolment" if wish is EnrolWish.IMPORT else "revoking requests"
        done = {each.host: each for each in on_each(fleet, title, work, hosts=meant)}
    return [done.get(each.host) or as_looked(each) for each in looked]


def _meant(looked: EnrolReading, wish: EnrolWish) -> bool:
    if wish is EnrolWish.IMPORT:
        return standing(looked.mok, EnrolWish.LOOK).standing is EnrolStanding.MISSING
    return looked.mok.enrolment is Enrolment.PENDING


def as_looked(looked: Outcome[EnrolReading]) -> Outcome[Enrolling]:
    """What is told of a node that was not asked for anything."""
    return Outcome(looked.host, looked.value.enrolling if looked.value else None, looked.error)
