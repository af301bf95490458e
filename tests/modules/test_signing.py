"""Real OpenSSL, the kernel's real sign-file and a real token: the same bytes from all."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.modules.building import Signing as Made
from tests.modules.building import run, signing
from tests.modules.conftest import Built as Modules
from toolkit.built.io import openssl
from toolkit.built.io.signing_key import take_key
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.built.signing import Signer, Signing, open_signing
from toolkit.errors import UsageError
from toolkit.facts.modules.signature import parse_signature

pytestmark = pytest.mark.modules
NOW = datetime(2026, 1, 2, tzinfo=UTC)
PIN = "1234"
SOFTHSM = Path("/usr/lib/softhsm/libsofthsm2.so")


def opened(key: Path | str, certificate: Path, secret: str | None = None) -> Signing:
    found = open_signing(str(key), str(certificate), secret, now=NOW)
    assert found is not None
    return found


def build_of(modules: Modules, *names: str) -> Built:
    inputs = Inputs(Part.PEERMEM, "p", "1", modules.release, "x86_64", *[""] * 6)
    files = [BuiltFile(name, (modules.good / name).read_bytes()) for name in names]
    return Built(inputs, (*files, BuiltFile("make.log", b"log\n")))


def key_of(folder: Path, *kind: str, days: str = "2") -> Made:
    folder.mkdir()
    key, certificate = folder / "key.pem", folder / "certificate.der"
    run("openssl", "req", "-new", "-x509", "-nodes", "-days", days, "-outform", "DER", *kind,
        "-subj", "/O=Site/CN=Site modules/", "-keyout", key, "-out", certificate)  # fmt: skip
    key.chmod(0o600)
    return Made(key, certificate, "Site modules")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return key_of(tmp_path_factory.mktemp("ours") / "k", "-newkey", "rsa:4096")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = signing(tmp_path_factory.mktemp("theirs") / "k", "Somebody else")
    made.key.chmod(0o600)
    return made


@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
def test_the_bytes_are_those_of_the_kernels_sign_file(
    built: Modules, ours: Made, tmp_path: Path, digest: str
) -> None:
    found = opened(ours.key, ours.certificate).signed(
        build_of(built, "nvidia-peermem.ko"), {"CONFIG_MODULE_SIG_HASH": digest}
    )
    module = tmp_path / "nvidia-peermem.ko"
    shutil.copy(built.good / "nvidia-peermem.ko", module)
    run(built.headers / "scripts/sign-file", digest, ours.key, ours.certificate, module)
    assert found.modules[0].data == module.read_bytes()
    told = parse_signature("m", found.modules[0].data[-4096:])
    assert (told.signer, told.digest) == ("Site modules", digest)


def test_each_module_is_signed_and_nothing_else_changes(built: Modules, ours: Made) -> None:
    before = build_of(built, "nvidia.ko", "nvidia-peermem.ko")
    after = opened(ours.key, ours.certificate).signed(before, {})
    assert after.inputs.digest == before.inputs.digest
    assert [each.name for each in after.files] == [each.name for each in before.files]
    assert after.file("make.log") == before.file("make.log")
    for old, new in zip(before.modules, after.modules, strict=True):
        assert new.data.startswith(old.data)
        assert len(new.data) > len(old.data)


def test_signing_again_replaces_the_signature(built: Modules, ours: Made, theirs: Made) -> None:
    plain = build_of(built, "nvidia-peermem.ko")
    first = opened(theirs.key, theirs.certificate).signed(plain, {})
    ours_now = opened(ours.key, ours.certificate)
    assert ours_now.signed(first, {}) == ours_now.signed(plain, {})
    assert first != ours_now.signed(plain, {})


def test_a_certificate_in_pem_does_as_well(built: Modules, ours: Made, tmp_path: Path) -> None:
    pem = tmp_path / "c.pem"
    run("openssl", "x509", "-inform", "DER", "-in", ours.certificate, "-text", "-out", pem)
    plain = build_of(built, "nvidia-peermem.ko")
    by_der = opened(ours.key, ours.certificate).signed(plain, {})
    assert opened(ours.key, pem).signed(plain, {}) == by_der


def test_an_ecdsa_key_signs_and_is_remarked_on(built: Modules, tmp_path: Path) -> None:
    made = key_of(tmp_path / "ec", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    found = opened(made.key, made.certificate)
    [remark] = found.signer.certificate.remarks
    assert remark.startswith("an ECDSA key: kernels before 5.13 refuse it")
    plain = build_of(built, "nvidia-peermem.ko")
    signed = found.signed(plain, {})
    assert parse_signature("m", signed.modules[0].data[-2048:]).signer == "Site modules"
    assert found.signed(plain, {}) != signed  # which the remark tells
    assert "signs otherwise each time" in remark


def test_an_ended_certificate_signs_and_is_remarked_on(ours: Made) -> None:
    later = open_signing(
        str(ours.key), str(ours.certificate), None, now=datetime(2099, 1, 1, tzinfo=UTC)
    )
    assert later is not None
    [remark] = later.signer.certificate.remarks
    assert remark.startswith("the certificate ended on ")


@pytest.fixture
def encrypted(ours: Made, tmp_path: Path) -> Path:
    word, key = tmp_path / "word", tmp_path / "encrypted.pem"
    word.write_text("open sesame\n")
    run("openssl", "pkcs8", "-topk8", "-in", ours.key, "-out", key, "-passout", f"file:{word}",
        "-v2", "aes-256-cbc")  # fmt: skip
    key.chmod(0o600)
    return key


def test_an_encrypted_key_signs_the_same(built: Modules, ours: Made, encrypted: Path) -> None:
    plain = build_of(built, "nvidia-peermem.ko")
    by_file = opened(ours.key, ours.certificate).signed(plain, {})
    assert opened(encrypted, ours.certificate, "open sesame").signed(plain, {}) == by_file


def test_an_unusable_key_is_told_before_anything_is_built(
    ours: Made, theirs: Made, encrypted: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    words.write_text("no key\n")
    words.chmod(0o600)
    edward = key_of(tmp_path / "ed", "-newkey", "ed25519")
    koblitz = key_of(tmp_path / "k1", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp256k1")
    for key, certificate, secret, said in (
        (ours.key, theirs.certificate, None, "the certificate is not that of the key"),
        (words, ours.certificate, None, "is no private key that OpenSSL reads"),
        (encrypted, ours.certificate, "shut", "the passphrase does not open the key"),
        (encrypted, ours.certificate, None, "the passphrase does not open the key"),
        (ours.key, ours.key, None, "is a private key, not a certificate"),
        (ours.key, words, None, "is no certificate, neither PEM nor DER"),
        (edward.key, edward.certificate, None, "kernels take no such signature"),
        (koblitz.key, koblitz.certificate, None, "the curve secp256k1, which no kernel knows"),
    ):
        with pytest.raises(UsageError, match=said) as refused:
            opened(key, certificate, secret)
        assert refused.value.hint
        assert "\n" not in str(refused.value)


def test_a_wrong_passphrase_is_named_also_where_it_seems_to_decrypt(
    tmp_path: Path, ours: Made, encrypted: Path
) -> None:
    """One in 256 does: then OpenSSL says no word of it."""
    stuck = tmp_path / "bin/openssl"
    stuck.parent.mkdir()
    unreadable = (
        "Could not read signing key from k\nDECODER routines:OSSL_DECODER_from_bio:unsupported"
    )
    stuck.write_text(f'#!/bin/sh\necho "{unreadable}" >&2; exit 1\n')
    stuck.chmod(0o755)
    signer = opened(ours.key, ours.certificate).signer
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{stuck.parent}:{os.environ['PATH']}")
        with pytest.raises(UsageError, match="the passphrase does not open the key"):
            Signer(take_key(str(encrypted), "shut"), signer.certificate).sign(b"x", "sha256")


@pytest.fixture
def token(ours: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A software token that holds our key; its URI."""
    (tmp_path / "tokens").mkdir()
    settings = tmp_path / "softhsm.conf"
    settings.write_text(f"directories.tokendir = {tmp_path}/tokens\nobjectstore.backend = file\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    pkcs8 = tmp_path / "pkcs8.pem"
    run("openssl", "pkcs8", "-topk8", "-nocrypt", "-in", ours.key, "-out", pkcs8)
    label = ("--label", "site", "--pin", PIN, "--so-pin", "5678")
    run("softhsm2-util", "--init-token", "--free", *label)
    run("softhsm2-util", "--import", pkcs8, "--token", "site", "--label", "modules",
        "--id", "01", "--pin", PIN)  # fmt: skip
    return f"pkcs11:token=site;object=modules;type=private?module-path={SOFTHSM}"


@pytest.mark.token
def test_a_key_on_a_token_signs_the_same(built: Modules, ours: Made, token: str) -> None:
    plain = build_of(built, "nvidia-peermem.ko")
    by_file = opened(ours.key, ours.certificate).signed(plain, {})
    assert opened(token, ours.certificate, PIN).signed(plain, {}) == by_file


@pytest.mark.token
@pytest.mark.parametrize(
    ("change", "pin", "said"),
    [
        pytest.param(("site;", "site;"), "9999", "the token refuses the PIN", id="wrong-pin"),
        pytest.param(("=modules", "=others"), PIN, "no private key pkcs11:", id="wrong-object"),
        pytest.param(("=site", "=lab"), PIN, "no token fits pkcs11:", id="wrong-token"),
    ],
)
def test_an_unusable_token_is_one_sentence(
    ours: Made, token: str, change: tuple[str, str], pin: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        opened(token.replace(*change), ours.certificate, pin)


@pytest.mark.token
def test_a_token_with_another_key_is_noticed(theirs: Made, token: str) -> None:
    with pytest.raises(UsageError, match="the certificate is not that of the key"):
        opened(token, theirs.certificate, PIN)


def test_no_secret_is_in_a_command_line_or_a_childs_environment(
    built: Modules, ours: Made, encrypted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from within: an openssl in front of the real one writes down what it was given."""
    spy, log = tmp_path / "bin/openssl", tmp_path / "log"
    spy.parent.mkdir()
    real = shutil.which("openssl")
    spy.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >>{log}\nexec {real} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
    monkeypatch.setenv(openssl.PIN, "open sesame")
    opened(encrypted, ours.certificate, "open sesame").signed(
        build_of(built, "nvidia-peermem.ko"), {}
    )
    told = log.read_text()
    assert "cms -sign" in told
    assert "sesame" not in told
    assert ours.key.read_text().split("\n")[1] not in told


def test_without_openssl_a_sentence(ours: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="openssl is not here"):
        opened(ours.key, ours.certificate)


def test_a_token_that_never_answers_is_given_up(
    ours: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "openssl"
    slow.write_text(f'#!/bin/sh\ncase $1 in x509) exec {shutil.which("openssl")} "$@";; esac\n'
                    'exec sleep 60\n')  # fmt: skip
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(openssl, "LIMIT_S", 0.5)
    with pytest.raises(UsageError, match=r"no answer within"):
        opened(ours.key, ours.certificate)


def test_the_kernels_tool_reads_what_we_wrote(built: Modules, ours: Made, tmp_path: Path) -> None:
    signed = opened(ours.key, ours.certificate).signed(build_of(built, "nvidia-peermem.ko"), {})
    module = tmp_path / "nvidia-peermem.ko"
    module.write_bytes(signed.modules[0].data)
    told = subprocess.run(
        ("/sbin/modinfo", "-F", "signer", module), capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "Site modules"
