"""What OpenSSL is asked for by who signs modules, and what its answers amount to."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.reach import certificate, openssl
from toolkit.reach.certificate import Certificate, _length, der_of, pem_of, read_certificate
from toolkit.reach.openssl import PIN, run_openssl
from toolkit.reach.signer import Signer, _refusal, open_signer
from toolkit.reach.signing_key import SigningKey

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DER = bytes.fromhex("3006300402020102")
# Notes words, environment and what is on its pipe; says what lies there for each kind of call.
PROGRAM = """#!/bin/sh
what=$1
[ "$1" = cms ] && what=$2
printf '%s\\n' "$*" >>"$SSL/log"
env >"$SSL/env.$what"
for each; do
    [ "$last" = -passin ] && cat "/proc/$$/fd/${each#fd:}" >"$SSL/secret"
    [ "$last" = -signer ] && cat "$each" >"$SSL/pem"
    [ "$last" = -in ] && cat "$each" >"$SSL/message"
    last=$each
done
cat >"$SSL/input.$what"
cat "$SSL/out.$what" 2>/dev/null
cat "$SSL/err.$what" >&2 2>/dev/null
exit "$(cat "$SSL/status.$what" 2>/dev/null || echo 0)"
"""


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def say(self, what: str, out: str = "", err: str = "", status: int = 0) -> None:
        (self.folder / f"out.{what}").write_text(out)
        (self.folder / f"err.{what}").write_text(err)
        (self.folder / f"status.{what}").write_text(str(status))

    def told(self, name: str) -> str:
        return (self.folder / name).read_text()

    def environment(self, what: str) -> dict[str, str]:
        rows = (line.partition("=") for line in self.told(f"env.{what}").split("\n"))
        return {key: value for key, _, value in rows}

    @property
    def log(self) -> list[str]:
        return self.told("log").split("\n")[:-1]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/openssl").write_text(PROGRAM)
    (tmp_path / "bin/openssl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("SSL", str(tmp_path))
    monkeypatch.setenv(PIN, "of the environment")
    monkeypatch.setenv("LC_ALL", "xx_XX")
    return Program(tmp_path)


def test_its_secret_is_on_a_pipe_alone(program: Program) -> None:
    program.say("list", "out", "err", 3)
    done = run_openssl(("openssl", "list"), b"data", secret="s\udcffcret", environment={"A": "b"})
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out", b"err")
    assert (program.folder / "secret").read_bytes() == b"s\xffcret\n"
    assert program.told("input.list") == "data"
    seen = program.environment("list")
    assert (seen["A"], seen["LC_ALL"]) == ("b", "C")
    assert PIN not in seen
    assert program.log[0].startswith("list -passin fd:")
    run_openssl(("openssl", "list"), b"")
    assert program.log[1] == "list"


def test_no_descriptor_is_left(program: Program) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 # it is no folder of files
    run_openssl(("openssl", "list"), b"", secret="x")
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208 # likewise


def test_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def run(_: object, **more: object) -> None:
        seen.update(more)
        raise FileNotFoundError

    monkeypatch.setattr(openssl.subprocess, "run", run)
    with pytest.raises(UsageError, match="openssl is not here"):
        run_openssl(("openssl", "list"), b"")
    assert seen["start_new_session"] is True


def test_a_token_that_waits(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssl, "LIMIT_S", 0.05)
    (program.folder / "bin/openssl").write_text("#!/bin/sh\nexec sleep 9\n")
    with pytest.raises(UsageError, match="openssl cms: no answer within 0 s"):
        run_openssl(("openssl", "cms"), b"")


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


MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


@pytest.mark.parametrize(("number", "month"), list(enumerate(MONTHS, start=1)))
def test_its_months_are_english(program: Program, number: int, month: str) -> None:
    assert read(program, TEXT.replace("Mar  9", f"{month} 12")).until.month == number


def test_a_short_serial_number(program: Program) -> None:
    text = TEXT.replace(":\n            0a:1b:2c", ": 2748 (0xabc)")
    assert read(program, text).serial == "abc"


@pytest.mark.parametrize("lacks", ["Serial Number", "Not After", "Public Key Algorithm"])
def test_what_openssl_does_not_read(program: Program, lacks: str) -> None:
    with pytest.raises(UsageError, match="/c.der is no certificate that OpenSSL reads"):
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
    [("3000", 2), ("307f", 129), ("308180", 131), ("30820100", 260), ("3083010000", 65541)],
)
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
    with pytest.raises(UsageError, match="/c.der is no certificate, neither PEM nor DER"):
        der_of(path)


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="certificate .*/none: No such file or directory"):
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


CERTIFICATE = Certificate("PEM text\n", "Site", "Site", "0a", "rsaEncryption 4096", NOW, ())
SIGN = "cms -sign -binary -noattr -nosmimecap -nocerts -md {digest} -signer {pem}{engine} -inkey {key}"


def test_a_key_file_signs_and_its_signature_is_verified(program: Program) -> None:
    program.say("-sign", "signature")
    key = SigningKey("/k.pem", secret="passphrase")
    signer = Signer(key, CERTIFICATE)
    assert repr(signer) == "Signer(/k.pem, Site, serial 0a)"
    assert signer.sign(b"module", "sha512") == b"signature"
    made, verified = program.log
    pem = made.split(" -signer ")[1].split()[0]
    start = SIGN.format(digest="sha512", pem=pem, engine="", key="/k.pem")
    assert made.startswith(f"{start} -outform DER -passin fd:")
    message = f"{Path(pem).parent}/message.der"
    assert verified == (
        f"cms -verify -binary -inform DER -in {message} -content /dev/stdin -noverify "
        f"-nointern -certfile {pem} -out /dev/null"
    )
    assert not Path(pem).exists()
    assert program.told("pem") == "PEM text\n"
    assert program.told("secret") == "passphrase\n"
    assert program.told("message") == "signature"
    assert program.told("input.-sign") == program.told("input.-verify") == "module"
    assert "PKCS11_MODULE_PATH" not in program.environment("-sign")


@pytest.mark.parametrize(
    ("provider", "engine", "words"),
    [
        (0, 1, " -provider pkcs11 -provider default"),
        (1, 0, " -engine pkcs11 -keyform engine"),
    ],
)
@pytest.mark.parametrize("module", ["", "/lib/token.so"])
def test_a_token_signs(
    program: Program, provider: int, engine: int, words: str, module: str
) -> None:
    program.say("-sign", "signature")
    program.say("list", status=provider)
    program.say("engine", status=engine)
    key = SigningKey("pkcs11:token=T", module, "1234")
    assert open_signer(key, CERTIFICATE).certificate is CERTIFICATE
    assert program.log[0] == "list -providers -provider pkcs11"
    made = next(each for each in program.log if "-sign" in each)
    pem = made.split(" -signer ")[1].split()[0]
    start = SIGN.format(digest="sha256", pem=pem, engine=words, key="pkcs11:token=T")
    assert made.startswith(start)
    assert program.told("input.-sign") == "gdr-toolkit\n"
    for what in ("list", "-sign", *(["engine"] if provider else [])):
        seen = program.environment(what)
        assert seen.get("PKCS11_MODULE_PATH", "") == module
        assert seen.get("PKCS11_PROVIDER_MODULE", "") == module


def test_neither_provider_nor_engine(program: Program) -> None:
    program.say("list", status=1)
    program.say("engine", status=1)
    with pytest.raises(UsageError, match="reads no PKCS#11 URI"):
        open_signer(SigningKey("pkcs11:token=T", secret="1"), CERTIFICATE)


@pytest.mark.parametrize(("out", "status"), [("", 0), ("signature", 1)])
def test_a_key_that_cannot_sign(program: Program, out: str, status: int) -> None:
    program.say("-sign", out, "first\nodd words \n\n", status)
    with pytest.raises(UsageError, match="/k.pem cannot sign; OpenSSL said: odd words$"):
        Signer(SigningKey("/k.pem"), CERTIFICATE).sign(b"module", "sha256")


def test_another_key_than_the_certificates(program: Program) -> None:
    program.say("-sign", "signature")
    program.say("-verify", status=4)
    with pytest.raises(UsageError, match="what /k.pem signed is not verified by .* Site, serial 0a"):
        Signer(SigningKey("/k.pem"), CERTIFICATE).sign(b"module", "sha256")


SAID = [
    ("x509 certificate routines: key values mismatch", "the certificate is not that of the key /k"),
    ("does not match certificate", "the certificate is not that of the key /k"),
    ("key type mismatch", "the certificate is not that of the key /k"),
    ("CKR_PIN INCORRECT", "the token refuses the PIN"),
    ("pin locked", "the token is locked"),
    ("No matching initialized token", "no token fits /k"),
    ("No slot with a token was found", "no token fits /k"),
    ("The private key was not found at: pkcs11", "no private key /k"),
    ("object not found", "no private key /k"),
    ("Could not find signing key", "no private key /k"),
    ("is not a valid PKCS#11 URI", "/k is no PKCS#11 URI"),
    ("bad decrypt", "the passphrase does not open the key /k"),
    ("maybe wrong password", "the passphrase does not open the key /k"),
    ("Enter pass phrase for", "the passphrase does not open the key /k"),
    ("Could not read signing key from", "/k is no private key that OpenSSL reads"),
    ("unable to load signing key", "/k is no private key that OpenSSL reads"),
    ("unable to load key", "/k is no private key that OpenSSL reads"),
    ("Could not read signing cert", "the certificate for /k cannot be read"),
    ("unable to load cert", "the certificate for /k cannot be read"),
    ("invalid digest", "this OpenSSL cannot make such a signature"),
    ("unknown option -nosmimecap", "this OpenSSL cannot make such a signature"),
    ("bad decrypt\nCould not read signing key", "the passphrase does not open the key /k"),
    ("key values mismatch\nbad decrypt", "the certificate is not that of the key /k"),
    ("odd " + "x" * 300, "/k cannot sign; OpenSSL said: odd " + "x" * 196),
    ("", "/k cannot sign; OpenSSL said: nothing"),
]


@pytest.mark.parametrize(("said", "sentence"), SAID)
def test_what_openssl_says(said: str, sentence: str) -> None:
    found = str(_refusal(SigningKey("/k"), said))
    assert found.startswith(sentence)
    if "OpenSSL said" in sentence:
        assert found == sentence


@pytest.mark.parametrize(
    ("key", "opens"),
    [
        (SigningKey("/k", secret="x"), "the passphrase does not open the key /k, or it is no"),
        (SigningKey("/k"), "/k is no private key that OpenSSL reads"),
        (SigningKey("pkcs11:x", secret="x"), "pkcs11:x is no private key"),
    ],
)
def test_a_wrong_passphrase_looks_like_a_damaged_key(key: SigningKey, opens: str) -> None:
    assert str(_refusal(key, "unable to load key")).startswith(opens)


def test_curves_that_kernels_know() -> None:
    assert certificate._CURVES == {"prime256v1", "secp384r1", "secp521r1"}
