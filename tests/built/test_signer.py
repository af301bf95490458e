"""What OpenSSL is asked for by who signs modules, and what its answers amount to."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.built.opensslling import Program, lay_openssl
from tests.built.test_certificate import DER, TEXT
from toolkit.built.io import openssl
from toolkit.built.io.openssl import PIN, Certificate, run_openssl
from toolkit.built.io.signing_key import SigningKey
from toolkit.built.signing import Signer, _refusal, open_signer, open_signing
from toolkit.errors import UsageError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return lay_openssl(tmp_path, monkeypatch)


def test_its_secret_is_on_a_pipe_alone(program: Program) -> None:
    program.say("list", "out", "err", 3)
    done = run_openssl(("openssl", "list"), b"data", secret="s\udcffcret", environment={"A": "b"})  # noqa: S106 of nobody
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
    run_openssl(("openssl", "list"), b"", secret="x")  # noqa: S106 of nobody
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208 # likewise


def test_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def run(_: object, **more: object) -> None:
        seen.update(more)
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UsageError, match="openssl is not here"):
        run_openssl(("openssl", "list"), b"")
    assert seen["start_new_session"] is True


def test_a_token_that_waits(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssl, "LIMIT_S", 0.05)
    (program.folder / "bin/openssl").write_text("#!/bin/sh\nexec sleep 9\n")
    with pytest.raises(UsageError, match="openssl cms: no answer within 0 s"):
        run_openssl(("openssl", "cms"), b"")


CERTIFICATE = Certificate("PEM text\n", "Site", "Site", "0a", "rsaEncryption 4096", NOW, ())
SIGN = (
    "cms -sign -binary -noattr -nosmimecap -nocerts -md {digest} -signer {pem}{engine} -inkey {key}"
)


def test_what_a_site_named_has_signed_once_when_it_is_ready(program: Program) -> None:
    key, certificate = program.folder / "k.pem", program.folder / "c.der"
    key.touch(0o600)
    certificate.write_bytes(DER)
    program.say("x509", TEXT)
    program.say("-sign", "signature")
    found = open_signing(str(key), str(certificate), "passphrase", now=NOW)
    assert found is not None
    assert repr(found.signer) == f"Signer({key}, Site CA, serial 0a1b2c)"
    assert [line.partition(" -b")[0] for line in program.log[1:]] == ["cms -sign", "cms -verify"]
    assert " -md sha256 " in program.log[1]
    assert program.told("input.-sign") == "gdr-toolkit\n"
    assert program.told("secret") == "passphrase\n"
    program.say("-sign", status=1, err="odd")
    with pytest.raises(UsageError, match="cannot sign; OpenSSL said: odd"):
        open_signing(str(key), str(certificate), None, now=NOW)


def test_a_key_file_signs_and_its_signature_is_verified(program: Program) -> None:
    program.say("-sign", "signature")
    key = SigningKey("/k.pem", secret="passphrase")  # noqa: S106 of nobody
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
        open_signer(SigningKey("pkcs11:token=T", secret="1"), CERTIFICATE)  # noqa: S106 of nobody


@pytest.mark.parametrize(("out", "status"), [("", 0), ("signature", 1)])
def test_a_key_that_cannot_sign(program: Program, out: str, status: int) -> None:
    program.say("-sign", out, "first\nodd words \n\n", status)
    with pytest.raises(UsageError, match=r"/k.pem cannot sign; OpenSSL said: odd words$"):
        Signer(SigningKey("/k.pem"), CERTIFICATE).sign(b"module", "sha256")


def test_another_key_than_the_certificates(program: Program) -> None:
    program.say("-sign", "signature")
    program.say("-verify", status=4)
    with pytest.raises(
        UsageError, match=r"what /k.pem signed is not verified by .* Site, serial 0a"
    ):
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
        (SigningKey("/k", secret="x"), "the passphrase does not open the key /k, or it is no"),  # noqa: S106 of nobody
        (SigningKey("/k"), "/k is no private key that OpenSSL reads"),
        (SigningKey("pkcs11:x", secret="x"), "pkcs11:x is no private key"),  # noqa: S106 of nobody
    ],
)
def test_a_wrong_passphrase_looks_like_a_damaged_key(key: SigningKey, opens: str) -> None:
    assert str(_refusal(key, "unable to load key")).startswith(opens)


def test_what_openssl_says_beside_a_passphrase_is_told_as_it_is() -> None:
    told = _refusal(SigningKey("/k", secret="x"), "PIN incorrect")  # noqa: S106 of nobody
    assert str(told) == "the token refuses the PIN"
