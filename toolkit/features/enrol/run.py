"""Bring a certificate into the lists of keys that nodes' owners trust: as far as SSH reaches."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from toolkit.built.io.openssl import der_of
from toolkit.errors import Outcome
from toolkit.facts.firmware.secureboot import Enrolment, Mok, parse_mok
from toolkit.features.enrol.io import ROOTS_OWN, SAFE, ask
from toolkit.features.enrol.plan import Enrolling, EnrolWish, needs_request, standing
from toolkit.hosts.host import Host
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each

LENGTH = 12  # of a password that we make: 51 bits, for a request that lives until the next boot


@dataclass(frozen=True, slots=True)
class EnrolReading:
    """A node before anything was asked of it."""

    mok: Mok
    enrolling: Enrolling


def read_der(certificate: str) -> bytes:
    """The operator's certificate, PEM or DER, as mokutil takes it.

    :raises UsageError: where it is none.
    """
    return der_of(Path(certificate))


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
        return needs_request(looked.mok)
    return looked.mok.enrolment is Enrolment.PENDING


def as_looked(looked: Outcome[EnrolReading]) -> Outcome[Enrolling]:
    """What is told of a node that was not asked for anything."""
    return Outcome(looked.host, looked.value.enrolling if looked.value else None, looked.error)
