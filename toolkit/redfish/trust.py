"""Whom we talk to, and who we are: a BMC's address, what makes us trust it, our login."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.errors import UsageError
from toolkit.hosts.addresses import parse_spot

_PIN = re.compile(r"(?:sha-?256:)?((?:[0-9a-f]{2}:?){31}[0-9a-f]{2})", re.IGNORECASE)

# Where systems keep theirs: a Python that did not come with the system may look elsewhere.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user of the BMC. The password shows in no repr, log or report."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BmcTrust:
    """What makes a certificate that of the BMC: the first of these that is set."""

    pins: tuple[str, ...] = ()  # SHA-256 of the certificate, 64 lower hexadecimal digits
    insecure: bool = False  # the operator said so: any certificate will do
    ca: str = ""  # file of CA certificates; "" for those of the system

    @property
    def verified(self) -> str:
        """How reports call it: "pinned", "no" or "ca"."""
        return "pinned" if self.pins else "no" if self.insecure else "ca"


def read_pin(text: str) -> str:
    """A SHA-256 fingerprint: 64 hexadecimal digits, with or without colons and "sha256:".

    :raises UsageError: for anything else.
    """
    found = _PIN.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text[:80]!r} is no SHA-256 fingerprint",
            hint="64 hexadecimal digits: openssl x509 -noout -fingerprint -sha256 -in bmc.pem",
        )
    return found[1].replace(":", "").lower()


def check_ca(file: str) -> str:
    """The path, once it is known to hold CA certificates.

    :raises UsageError: it cannot be read, or holds none.
    """
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError as why:
        raise UsageError(
            f"{file}: holds no CA certificate", hint="PEM: -----BEGIN CERTIFICATE-----"
        ) from why
    except OSError as why:
        raise UsageError(
            f"{file}: cannot be read: {why.strerror}", hint="name a file that can be read"
        ) from why
    return file


def system_ca() -> str:
    """The file of CA certificates that this machine trusts; "" where there is none."""
    paths = ssl.get_default_verify_paths()
    told = (paths.cafile, paths.openssl_cafile, *_BUNDLES)
    found = [each for each in told if each and Path(each).is_file()]
    return found[0] if found else ""


def base_url(address: str) -> str:
    """Where a BMC's Redfish service begins, without a slash: "https://10.0.0.7:8443".

    :param address: name or address, with or without port, or an https URL.
    :raises UsageError: it is no address, or asks for a password to go in the clear.
    """
    shown = address.rpartition("@")[2]  # what stands before it may be a password
    if shown != address:
        raise UsageError(f"{shown}: name the BMC alone", hint="the user is said by --bmc-user")
    if address.startswith("http://"):
        raise UsageError(f"{address}: a BMC is told secrets over TLS alone", hint="write https://")
    if address.startswith("https://"):
        parts = urlsplit(address)
        if parts.path.strip("/") or parts.query:
            raise UsageError(f"{address}: name the BMC alone", hint="https://10.0.0.7:8443")
        address = parts.netloc
    spot = parse_spot(address)
    host = f"[{spot.host}]" if ":" in spot.host else spot.host
    return f"https://{host}:{spot.port}" if spot.port else f"https://{host}"
