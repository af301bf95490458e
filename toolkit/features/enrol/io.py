"""Look at, request or revoke the enrolment of a certificate on a node, in one round trip."""

from __future__ import annotations

import re
from base64 import b64encode

from toolkit.errors import TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Transport

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
