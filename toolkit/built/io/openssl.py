"""OpenSSL as a child that can ask nobody; certificates that modules are signed with, by it."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from toolkit.errors import UsageError

PIN = "KBUILD_SIGN_PIN"  # where the kernel's own sign-file looks for passphrase and PIN
LIMIT_S = 60.0  # a token over the network, or one that waits for a touch
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# How the DER of each begins. Certificate: SEQUENCE { SEQUENCE { [0] version or INTEGER serial.
# PKCS#1, PKCS#8, SEC1, PKCS#12: SEQUENCE { INTEGER version. PKCS#8 under a passphrase:
# SEQUENCE { SEQUENCE { OID.
_SEQUENCE = rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...)"
_CERTIFICATE = re.compile(_SEQUENCE + _SEQUENCE + rb"[\xa0\x02]", re.DOTALL)
_KEY = re.compile(_SEQUENCE + rb"(?:\x02|" + _SEQUENCE + rb"\x06)", re.DOTALL)
# Not strptime's: those are the locale's.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


_CURVES = frozenset({"prime256v1", "secp384r1", "secp521r1"})  # as OpenSSL names them


def run_openssl(
    words: Sequence[str],
    data: bytes,
    *,
    secret: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run OpenSSL in a session of its own, so that it cannot ask anybody anything.

    :raises UsageError: it is not here, or gave no answer in time.
    """
    given = {k: v for k, v in os.environ.items() if k != PIN}
    try:
        with _readable(secret) as passed:
            return subprocess.run(
                (*words, *(word for reader in passed for word in ("-passin", f"fd:{reader}"))),
                input=data,
                capture_output=True,
                env={**given, **(environment or {}), "LC_ALL": "C"},
                pass_fds=passed,
                start_new_session=True,
                timeout=LIMIT_S,
                check=False,
            )
    except FileNotFoundError as why:
        raise UsageError(
            "openssl is not here, and signatures are made by it", hint="install openssl"
        ) from why
    except subprocess.TimeoutExpired as why:
        raise UsageError(
            f"openssl {words[1]}: no answer within {LIMIT_S:.0f} s",
            hint="does the token wait for a touch, or its network?",
        ) from why


@contextmanager
def _readable(secret: str | None) -> Iterator[tuple[int, ...]]:
    """The descriptor that a child reads the secret from; none where there is none."""
    if secret is None:
        yield ()
        return
    reader, writer = os.pipe()
    try:
        os.write(writer, secret.encode("utf-8", "surrogateescape") + b"\n")  # far below a pipe's
        os.close(writer)
        yield (reader,)
    finally:
        with suppress(OSError):
            os.close(reader)


class Certificate(Struct, frozen=True):
    """What of a certificate matters to kernels and to those who read a report."""

    pem: str
    subject: str  # common name; the whole name where it has none
    issuer: str  # likewise: what the kernel and modinfo call the signer
    serial: str  # lower-case hex
    key: str  # "rsaEncryption 4096", as OpenSSL names it
    until: datetime
    remarks: tuple[str, ...]  # what nothing stops at, and somebody should know

    @property
    def title(self) -> str:
        return f"{self.issuer}, serial {self.serial}"


def read_certificate(path: Path, *, now: datetime) -> Certificate:
    """Read a certificate in PEM or DER.

    :param now: what its end is compared with.
    :raises UsageError: it is none, or for a kind of key that no kernel takes.
    """
    pem = pem_of(path)
    told = run_openssl(
        ("openssl", "x509", "-noout", "-text", "-nameopt", "sep_multiline,utf8"),
        pem.encode("ascii"),
    )
    text = told.stdout.decode("utf-8", "replace")
    serial = re.search(r"Serial Number:(?:\s+\d+ \(0x([0-9a-f]+)\)|\s+([0-9a-f:]+)\n)", text)
    until = re.search(r"Not After\s*: (\w{3})\s+(\d+) ([\d:]{8}) (\d+) GMT", text)
    kind = re.search(r"Public Key Algorithm: (\S+)", text)
    if told.returncode or serial is None or until is None or kind is None:
        raise UsageError(
            f"{path} is no certificate that OpenSSL reads",
            hint=f"openssl x509 -in {path} -noout -text",
        )
    month, day, clock, year = until.groups()
    hour, minute, second = map(int, clock.split(":"))
    end = datetime(int(year), _MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=UTC)
    bits = re.search(r"Public-Key: \((\d+) bit", text)
    size = int(bits[1]) if bits else 0
    curve = re.search(r"ASN1 OID: (\S+)", text)
    _refuse_kind(path, kind[1], size, curve[1] if curve else "")
    return Certificate(
        pem,
        _name(text, "Subject"),
        _name(text, "Issuer"),
        (serial[1] or serial[2]).replace(":", ""),
        f"{kind[1]} {size or ''}".strip(),
        end,
        tuple(_remarks(kind[1], size, end, now)),
    )


def _name(text: str, heading: str) -> str:
    found = re.search(rf"^ *{heading}:((?:\n {{12,}}\S.*)+)", text, re.MULTILINE)
    parts = [each.strip() for each in found[1].strip().split("\n")] if found else []
    names = [each.removeprefix("CN=") for each in parts if each.startswith("CN=")]
    return names[-1] if names else ", ".join(parts)


def _refuse_kind(path: Path, kind: str, size: int, curve: str) -> None:
    """Source: kernel crypto/asymmetric_keys, x509_cert_parser.c and pkcs7_parser.c."""
    if kind not in {"rsaEncryption", "id-ecPublicKey"}:
        raise UsageError(
            f"{path} is for a key of the kind {kind}, and kernels take no such signature",
            hint="RSA of 2048 to 4096 bits; ECDSA where the kernels are 5.13 or newer",
        )
    if kind == "rsaEncryption" and size > 4096:
        raise UsageError(
            f"{path} is for an RSA key of {size} bits, and kernels take 4096 at most",
            hint="openssl genrsa -out key.pem 4096",
        )
    if kind == "id-ecPublicKey" and curve not in _CURVES:
        raise UsageError(
            f"{path} is for a key on the curve {curve or 'that it describes itself'}, "
            "which no kernel knows",
            hint="P-256 or P-384; P-521 where the kernels are 6.10 or newer",
        )


def _remarks(kind: str, size: int, end: datetime, now: datetime) -> list[str]:
    told = []
    if end < now:
        told.append(
            f"the certificate ended on {end:%Y-%m-%d}: kernels do not look at that, auditors do"
        )
    if kind == "id-ecPublicKey":
        told.append(
            f"an ECDSA key: kernels before {'6.10' if size > 384 else '5.13'} refuse it, and it "
            "signs otherwise each time: packages differ, delivered modules are replaced again"
        )
    elif size < 2048:
        told.append(f"an RSA key of {size} bits is weak, and shim refuses it on some systems")
    return told


def pem_of(path: Path) -> str:
    """The certificate as PEM, whichever of both it is in.

    :raises UsageError: as der_of does.
    """
    return ssl.DER_cert_to_PEM_cert(der_of(path))


def der_of(path: Path) -> bytes:
    """The certificate as DER, and nothing but it: what is given out must not be a private key.

    :raises UsageError: where it is neither PEM nor DER, cut off, or a private key.
    """
    try:
        data = path.read_bytes()
    except OSError as why:
        raise UsageError(
            f"certificate {path}: {why.strerror}", hint="name a file that can be read"
        ) from why
    text = data.decode("ascii", "replace")
    found = _BLOCK.search(text)
    if found is None and ("PRIVATE KEY-----" in text or _KEY.match(data)):
        raise UsageError(
            f"{path} is a private key, not a certificate", hint="the certificate is public: .der"
        )
    try:
        der = ssl.PEM_cert_to_DER_cert(found[0]) if found else data
    except ValueError:
        der = b""
    if not _CERTIFICATE.match(der) or len(der) != _length(der):
        raise UsageError(
            f"{path} is no certificate, neither PEM nor DER",
            hint="openssl x509 -in FILE -outform DER -out site.der",
        )
    return der


def _length(der: bytes) -> int:
    """Of the whole first element, in bytes."""
    if der[1] < 0x80:
        return 2 + der[1]
    end = 2 + (der[1] & 0x7F)
    return end + int.from_bytes(der[2:end], "big")
