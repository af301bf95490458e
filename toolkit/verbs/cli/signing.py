"""What verbs that hand modules out are told about signing them."""

from __future__ import annotations

import os

from toolkit.built.io.openssl import PIN
from toolkit.built.io.signing_key import takes_secret
from toolkit.built.signing import Signing, open_signing
from toolkit.cli.options import Option
from toolkit.verbs.cli.session import Session, secret

SIGN = (
    Option("sign_key", "", "sign modules with this key: a file, or a PKCS#11 URI; it stays there"),
    Option("sign_cert", "", "its certificate, PEM or DER: what the nodes' kernels know"),
    Option(
        "ask_sign_pin", False, f"ask for the key's passphrase or PIN; else from {PIN}", anew=True
    ),
    Option(
        "sign_pin_fd", -1, "read the key's passphrase or PIN from this file descriptor", anew=True
    ),
)


def signing_of(session: Session) -> Signing | None:
    """The key, tried once; None where none was named. What nothing stops at is remarked on.

    :raises UsageError: one sentence on what is wrong with key, certificate or PIN.
    """
    said = session.said
    key = said.text("sign_key")
    found = open_signing(key, said.text("sign_cert"), _secret(session, key), now=session.now)
    for remark in found.signer.certificate.remarks if found else ():
        session.remark(f"note: {remark}")
    return found


def _secret(session: Session, key: str) -> str | None:
    prompt = f"passphrase or PIN of {key}: "
    given = os.environ.get(PIN) if key and takes_secret(key) else None
    return secret(session.said, "ask_sign_pin", "sign_pin_fd", prompt) or given or None
