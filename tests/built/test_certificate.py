"""The certificate that modules are signed with: what is taken, refused and remarked."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.built.opensslling import Program, lay_openssl
from toolkit.built.io import openssl
from toolkit.built.io.openssl import Certificate, _length, der_of, pem_of, read_certificate
from toolkit.errors import UsageError

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DER = bytes.fromhex("3006300402020102")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return lay_openssl(tmp_path, monkeypatch)


TEXT = """Certificate:
    Data:
        Version: 3 (0x2)
        Serial Number:
            0a:1b:2c
        Signature Algorithm: sha256WithRSAEncryption
        Issuer:
            O=Site
            CN=Old name
            CN=Site CA
        Validity
            Not Before: Jan  1 00:00:00 2020 GMT
            Not After : Mar  9 10:20:30 2027 GMT
        Subject:
            O=Site
            OU=GPUs
        Subject Public Key Info:
            Public Key Algorithm: rsaEncryption
                Public-Key: (4096 bit)
"""


def read(program: Program, text: str, now: datetime = NOW) -> Certificate:
    program.say("x509", text)
    path = program.folder / "c.der"
    path.write_bytes(DER)
    return read_certificate(path, now=now)


def test_what_of_a_certificate_matters(program: Program) -> None:
    found = read(program, TEXT)
    assert found == Certificate(
        found.pem,
        "O=Site, OU=GPUs",
        "Site CA",
        "0a1b2c",
        "rsaEncryption 4096",
        datetime(2027, 3, 9, 10, 20, 30, tzinfo=UTC),
        (),
    )
    assert found.title == "Site CA, serial 0a1b2c"
    assert program.log == ["x509 -noout -text -nameopt sep_multiline,utf8"]
    assert program.told("input.x509") == found.pem == pem_of(program.folder / "c.der")


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@pytest.mark.parametrize(("number", "month"), list(enumerate(MONTHS, start=1)))
def test_its_months_are_english(program: Program, number: int, month: str) -> None:
    assert read(program, TEXT.replace("Mar  9", f"{month} 12")).until.month == number


def test_a_short_serial_number(program: Program) -> None:
    text = TEXT.replace(":\n            0a:1b:2c", ": 2748 (0xabc)")
    assert read(program, text).serial == "abc"


@pytest.mark.parametrize("lacks", ["Serial Number", "Not After", "Public Key Algorithm"])
def test_what_openssl_does_not_read(program: Program, lacks: str) -> None:
    with pytest.raises(UsageError, match=r"/c.der is no certificate that OpenSSL reads"):
        read(program, TEXT.replace(lacks, "Other"))


def test_what_openssl_refuses(program: Program) -> None:
    program.say("x509", TEXT, status=1)
    (program.folder / "c.der").write_bytes(DER)
    with pytest.raises(UsageError, match="that OpenSSL reads"):
        read_certificate(program.folder / "c.der", now=NOW)


def of_kind(kind: str, bits: str = "", curve: str = "") -> str:
    text = TEXT.replace("rsaEncryption\n", f"{kind}\n")
    text = text.replace("Public-Key: (4096 bit)", f"Public-Key: ({bits} bit)" if bits else "x")
    return text + (f"                ASN1 OID: {curve}\n" if curve else "")


@pytest.mark.parametrize(
    ("text", "key", "remark"),
    [
        (of_kind("rsaEncryption", "2048"), "rsaEncryption 2048", ""),
        (of_kind("rsaEncryption", "2047"), "rsaEncryption 2047", "an RSA key of 2047 bits is weak"),
        (of_kind("rsaEncryption"), "rsaEncryption", "an RSA key of 0 bits is weak"),
        (
            of_kind("id-ecPublicKey", "256", "prime256v1"),
            "id-ecPublicKey 256",
            "an ECDSA key: kernels before 5.13 ",
        ),
        (
            of_kind("id-ecPublicKey", "384", "secp384r1"),
            "id-ecPublicKey 384",
            "an ECDSA key: kernels before 5.13 ",
        ),
        (
            of_kind("id-ecPublicKey", "521", "secp521r1"),
            "id-ecPublicKey 521",
            "an ECDSA key: kernels before 6.10 ",
        ),
    ],
)
def test_kinds_of_keys_that_kernels_take(
    program: Program, text: str, key: str, remark: str
) -> None:
    found = read(program, text)
    assert found.key == key
    assert [each.startswith(remark) for each in found.remarks] == [True] * bool(remark)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (of_kind("ED25519"), "a key of the kind ED25519"),
        (of_kind("rsaEncryption", "4097"), "an RSA key of 4097 bits, and kernels take 4096"),
        (of_kind("id-ecPublicKey", "256", "secp256k1"), "on the curve secp256k1"),
        (of_kind("id-ecPublicKey", "256"), "on the curve that it describes itself"),
    ],
)
def test_kinds_of_keys_that_no_kernel_takes(program: Program, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read(program, text)


@pytest.mark.parametrize(
    ("second", "remarks"),
    [
        (29, ()),
        (30, ()),
        (31, ("the certificate ended on 2027-03-09: kernels do not look at that, auditors do",)),
    ],
)
def test_a_certificate_that_has_ended(
    program: Program, second: int, remarks: tuple[str, ...]
) -> None:
    now = datetime(2027, 3, 9, 10, 20, second, tzinfo=UTC)
    assert read(program, TEXT, now).remarks == remarks


def test_a_certificate_without_a_name(program: Program) -> None:
    text = TEXT.replace("            O=Site\n            OU=GPUs\n", "")
    assert read(program, text).subject == ""


@pytest.mark.parametrize(
    ("head", "length"),
    [("3000", 2), ("307f", 129), ("3080", 2), ("308180", 131), ("30820100", 260),
     ("3083010000", 65541)],
)  # fmt: skip
def test_how_long_an_element_is(head: str, length: int) -> None:
    assert _length(bytes.fromhex(head)) == length


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ("3006 3004 02020102", True),
        ("3006 3004 a0020102", True),
        ("3081 06 3004 02020102", True),
        ("3006 3081 03 02 01 02", True),
        ("3006 3004 02020102 00", False),
        ("3007 3004 02020102", False),
        ("3006 3004 04020102", False),
        ("3103 3001 02", False),
        ("", False),
    ],
)
def test_a_certificate_in_der(tmp_path: Path, body: str, good: bool) -> None:
    path = tmp_path / "c.der"
    path.write_bytes(bytes.fromhex(body))
    if good:
        assert der_of(path) == bytes.fromhex(body)
        return
    with pytest.raises(UsageError, match=r"/c.der is no certificate, neither PEM nor DER"):
        der_of(path)


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"certificate .*/none: No such file or directory"):
        der_of(tmp_path / "none")
    path = tmp_path / "c.pem"
    path.write_text("x\n-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n")
    with pytest.raises(UsageError, match="is no certificate"):
        der_of(path)


@pytest.mark.parametrize(
    "data",
    [
        b"-----BEGIN RSA PRIVATE KEY-----\n",
        bytes.fromhex("3003020100"),
        bytes.fromhex("3005300306010000"),
        bytes.fromhex("30820003020100"),
    ],
)
def test_a_private_key_is_no_certificate(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "k").write_bytes(data)
    with pytest.raises(UsageError, match="/k is a private key"):
        der_of(tmp_path / "k")


def test_curves_that_kernels_know() -> None:
    assert {"prime256v1", "secp384r1", "secp521r1"} == openssl._CURVES
