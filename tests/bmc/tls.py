"""Certificates as management controllers have them: a site's own authority, and the usual ills."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Certificate(StrEnum):
    """What a BMC shows."""

    GOOD = "good"  # signed by the site's authority, for 127.0.0.1 and localhost
    SELF_SIGNED = "self-signed"  # as controllers leave the factory
    EXPIRED = "expired"  # the authority's, and of the past
    OTHER_NAME = "other-name"  # the authority's, for a machine that is not this one


@dataclass(frozen=True, slots=True)
class Shown:
    """One certificate with its key, and how one would pin it."""

    pem: Path  # the key, and the certificate after it
    fingerprint: str  # SHA-256 of the certificate, 64 small hexadecimal digits

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.pem)
        return made


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority of one test run; ``ca`` is the file that clients trust."""

    folder: Path
    ca: Path
    shown: dict[Certificate, Shown]

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Make all of them below ``folder``; keys are of P-256, so that this is quick."""
        root_key = ec.generate_private_key(ec.SECP256R1())
        root = _signed(root_key, _name("tests' own authority"), root_key, None, authority=True)
        (ca := folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
        shown = {each: _show(folder, each, root, root_key) for each in Certificate}
        return cls(folder, ca, shown)


def _show(
    folder: Path, kind: Certificate, root: x509.Certificate, root_key: ec.EllipticCurvePrivateKey
) -> Shown:
    key = ec.generate_private_key(ec.SECP256R1())
    alone = kind is Certificate.SELF_SIGNED
    made = _signed(
        key,
        _name("BMC"),
        key if alone else root_key,
        None if alone else root,
        hosts=("other.invalid",) if kind is Certificate.OTHER_NAME else ("127.0.0.1", "localhost"),
        past=kind is Certificate.EXPIRED,
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = folder / f"{kind}.pem"
    pem.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return Shown(pem, made.fingerprint(hashes.SHA256()).hex())


def _signed(
    key: ec.EllipticCurvePrivateKey,
    name: x509.Name,
    by: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    *,
    hosts: tuple[str, ...] = (),
    past: bool = False,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    begin, end = (now - 9 * _DAY, now - _DAY) if past else (now - _DAY, now + 9 * _DAY)
    identifier = x509.SubjectKeyIdentifier.from_public_key(by.public_key())
    plan = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
    )
    if hosts:
        plan = plan.add_extension(
            x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
        )
    return plan.sign(by, hashes.SHA256())


def _host(text: str) -> x509.GeneralName:
    if text[0].isdigit():
        return x509.IPAddress(ipaddress.ip_address(text))
    return x509.DNSName(text)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
