"""Enrolment: the verb that prepares a signing key's; what is left to do by hand, a row a node."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from toolkit.built.io.openssl import der_of
from toolkit.cli.options import HOSTS, REACH, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.features.enrol.plan import AT_THE_CONSOLE, Enrolling, EnrolStanding, EnrolWish
from toolkit.features.enrol.run import (
    ROOTS_OWN,
    EnrolReading,
    as_looked,
    look,
    make_password,
    request,
    revoke,
)
from toolkit.plural import counted
from toolkit.report.document import Told
from toolkit.report.table import Ink, Painter, clean, columns
from toolkit.report.text import errors
from toolkit.ssh.credentials import read_secret
from toolkit.ssh.pool import broken_off
from toolkit.verbs.access import Fleet
from toolkit.verbs.cli.session import Session, consent, fleet

_INKS = {
    EnrolStanding.ENROLLED: Ink.GREEN,
    EnrolStanding.NEEDLESS: Ink.GREY,
    EnrolStanding.WAITS: Ink.YELLOW,
    EnrolStanding.MISSING: Ink.YELLOW,
}


def enrol_lines(outcomes: Sequence[Outcome[Enrolling]], paint: Painter) -> list[str]:
    """The table, what could not be done, and the way through MokManager where it is needed."""
    rows = [
        (each.host, value.standing.value, f"Secure Boot: {value.secure_boot}", value.found)
        for each in outcomes
        if (value := each.value) is not None
    ]
    inks = [_INKS[each.value.standing] for each in outcomes if each.value is not None]
    lines = [
        line.replace(row[1], paint(row[1], ink), 1)
        for line, row, ink in zip(
            columns([tuple(clean(cell) for cell in row) for row in rows]), rows, inks, strict=True
        )
    ]
    lines += errors(((each.host, each.error) for each in outcomes), paint)
    waiting = [e.host for e in outcomes if e.value and e.value.standing is EnrolStanding.WAITS]
    if waiting:
        lines += [
            "",
            f"{counted(len(waiting), 'node', 'waits', 'wait')}: "
            "reboot each with its console at hand (BMC, KVM);",
        ]
        lines += [f"  {line}" for line in AT_THE_CONSOLE]
        lines += [
            "  who does not answer within ten seconds boots on, and the request is gone",
            "undo, until that boot: enrol --revoke with the same options",
        ]
    return lines


ENROL = (
    Option("certificate", "", "the certificate that modules are signed with, PEM or DER"),
    Option("dkms_key", False, "in its place: the one that DKMS signs with on each node"),
    Option("check", False, "change nothing; exit 7 where something waits or would be requested"),
    Option("revoke", False, "take the requests back, as long as no node has booted"),
    Option("root_pw", False, "MokManager asks for root's password, in place of one made here"),
    Option("password_fd", -1, "read the one-time password from this file descriptor"),
    Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
)


@verb(HOSTS, REACH, ENROL)
def enrol(said: Said) -> ExitCode:
    """Ask nodes to trust a signing key (MOK); their operator confirms it at the console.

    Secure Boot leaves the last word to who sits at the machine: this prepares the request, and
    says what to do there. A node that knows the certificate is left alone.

    Exits 0 when every node knows it or has no need of it, 7 while something waits, 6 where
    no MokManager can ask.

    Examples:
      invoke enrol --hosts gpu[001-128] --certificate site.der --check
      invoke enrol --hosts gpu007 --certificate site.der
      invoke enrol --hosts gpu[001-128] --dkms-key --root-pw --yes
      invoke enrol --hosts gpu007 --certificate site.der --revoke
    """
    session = Session.begin("enrol", said)
    certificate = _certificate(said)
    with fleet(said) as opened:
        looked = look(
            opened, certificate, EnrolWish.REVOKE if said.flag("revoke") else EnrolWish.LOOK
        )
        if said.looks or broken_off(looked):
            outcomes = [as_looked(each) for each in looked]
        elif said.flag("revoke"):
            outcomes = revoke(opened, looked, certificate)
        else:
            outcomes = _request(session, opened, looked, certificate)
    session.say("\n".join(enrol_lines(outcomes, session.paint)))
    told = [each.map(lambda found: Told(enrolling=found)) for each in outcomes]
    return session.finish(told, session.ended(outcomes, _code))


def _certificate(said: Said) -> bytes | None:
    path, own = said.text("certificate"), said.flag("dkms_key")
    if bool(path) == own:
        raise UsageError(
            "one of --certificate and --dkms-key is needed, and not both",
            hint="--certificate site.der for the site's own key",
        )
    if said.flag("root_pw") and said.number("password_fd", -1) != -1:
        raise UsageError(
            "--root-pw and --password-fd: MokManager asks for one password",
            hint="leave one of them out",
        )
    return None if own else der_of(Path(path))


def _request(
    session: Session, fleet: Fleet, looked: list[Outcome[EnrolReading]], certificate: bytes | None
) -> list[Outcome[Enrolling]]:
    said = session.said
    missing = [e for e in looked if e.value and e.value.enrolling.standing is EnrolStanding.MISSING]
    if not missing:
        return [as_looked(each) for each in looked]
    password, made = _password(said)
    if not fleet.demo:
        consent(f"ask {counted(len(missing), 'node')} to enrol the certificate?", said)
    if made:
        # To the terminal alone: neither the report, nor the run's folder, nor a log has it. And
        # before it is used: a request whose password nobody knows could only be revoked.
        print(f"password for MokManager, told this once: {password}", file=sys.stderr, flush=True)
    return request(fleet, looked, certificate, password)


def _password(said: Said) -> tuple[str, bool]:
    """The one-time password, and whether it was made here and has to be told."""
    if said.flag("root_pw"):
        return ROOTS_OWN, False
    if said.number("password_fd", -1) != -1:
        return read_secret(said.number("password_fd")), False
    if not sys.stderr.isatty():
        raise UsageError(
            "nobody is there to be told the password",
            hint="choose one: --password-fd 3 3</path/to/password, or --root-pw",
        )
    return make_password(), True


def _code(outcome: Outcome[Enrolling]) -> ExitCode:
    if outcome.error is not None:
        return outcome.error.exit_code
    return ExitCode.PENDING if outcome.get().pending else ExitCode.OK
