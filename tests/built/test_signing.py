"""A signature is fastened as the kernel expects it, by the digest that the kernel asks for."""

from __future__ import annotations

import struct
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.built.test_store import BUILT
from tests.evidence.modules import signed as message_by
from toolkit.built.io.openssl import Certificate
from toolkit.built.io.signing_key import take_key, takes_secret
from toolkit.built.plan.model import BuiltFile
from toolkit.built.plan.signature import digest_for, unsigned, with_signature
from toolkit.built.signing import Signer, Signing, open_signing
from toolkit.cli import main
from toolkit.errors import ExitCode, ToolkitError, Unparsable, Unsupported, UsageError
from toolkit.facts.modules.signature import MAGIC, parse_signature

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ELF = b"\x7fELF" + bytes(60)


@given(st.binary(), st.binary(min_size=1))
def test_what_was_fastened_comes_off_again(body: bytes, message: bytes) -> None:
    module = ELF + body.removesuffix(MAGIC)
    assert unsigned("m.ko", with_signature("m.ko", module, message)) == module


def test_the_trailer_is_that_of_the_kernels_structure() -> None:
    found = with_signature("m.ko", ELF, b"\x30\x01\x02")
    # struct module_signature: algo, hash, id_type = 2, signer_len, key_id_len, pad, be32 sig_len
    assert found == ELF + b"\x30\x01\x02" + bytes.fromhex("0000020000000000") + struct.pack(
        ">I", 3
    ) + (b"~Module signature appended~\n")


def test_a_module_signed_twice_loses_both() -> None:
    twice = with_signature("m.ko", with_signature("m.ko", ELF, b"first"), b"second")
    assert unsigned("m.ko", twice) == ELF


def test_a_signature_that_was_there_is_taken_off_whole() -> None:
    tail = message_by("Somebody")
    assert parse_signature("m.ko", tail).signer == "Somebody"
    assert unsigned("m.ko", ELF + tail) == ELF


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(MAGIC, id="nothing-before-the-mark"),
        pytest.param(struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, 9999) + MAGIC, id="longer-than-all"),
        pytest.param(struct.pack(">BBBBB3xI", 0, 0, 1, 0, 0, 3) + MAGIC, id="another-kind"),
        pytest.param(struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, 0) + MAGIC, id="empty"),
        pytest.param(struct.pack(">BBBBB3xI", 0, 0, 2, 1, 0, 3) + MAGIC, id="with-a-signer"),
        pytest.param(struct.pack(">BBBBB3xI", 0, 0, 2, 0, 1, 3) + MAGIC, id="with-a-key"),
        pytest.param(struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, len(ELF)) + MAGIC, id="nothing-else"),
    ],
)
def test_a_damaged_signature_is_refused_not_cut_off(end: bytes) -> None:
    with pytest.raises(Unparsable, match=r"signature of m\.ko"):
        unsigned("m.ko", (ELF if end != MAGIC else b"") + end)


@pytest.mark.parametrize("data", [b"", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"#!/bin/sh\n"])
def test_what_is_no_module_is_not_signed(data: bytes) -> None:
    with pytest.raises(Unsupported, match=r"m\.ko is no module"):
        with_signature("m.ko", data, b"x")


@pytest.mark.parametrize(
    ("config", "digest"),
    [
        pytest.param({"CONFIG_MODULE_SIG_HASH": "sha512"}, "sha512", id="ubuntu-and-rhel"),
        pytest.param({"CONFIG_MODULE_SIG_HASH": '"sha256"'}, "sha256", id="quoted-as-in-config"),
        pytest.param({"CONFIG_MODULE_SIG_HASH": "sha3-384"}, "sha3-384", id="since-6.7"),
        pytest.param({}, "sha256", id="looks-at-none"),
        pytest.param({"CONFIG_MODULE_SIG_HASH": ""}, "sha256", id="set-to-nothing"),
        pytest.param({"CONFIG_MODULE_SIG_HASH": "n"}, "sha256", id="not-set"),
        pytest.param({"CONFIG_MODULE_SIG_HASH": "sha1"}, "sha256", id="sha1-is-not-made-any-more"),
        pytest.param(
            {"CONFIG_MODULE_SIG_HASH": "sha1", "CONFIG_CRYPTO_SHA256": "n"}, "sha512",
            id="sha1-in-a-kernel-without-sha256",
        ),
    ],
)  # fmt: skip
def test_the_digest_is_that_of_the_kernel(config: dict[str, str], digest: str) -> None:
    assert digest_for(config) == digest


def test_an_unknown_digest_is_refused() -> None:
    with pytest.raises(Unsupported, match="'md4'"):
        digest_for({"CONFIG_MODULE_SIG_HASH": "md4"})


class _Pen(Signer):
    """It says what it was asked to sign, and how."""

    def __init__(self) -> None:
        return

    def sign(self, module: bytes, digest: str) -> bytes:
        return digest.encode() + b" of " + module[4:8]


def test_each_module_of_a_build_is_signed_anew_and_nothing_else() -> None:
    log = BuiltFile("make.log", b"signed m.ko")
    two, three = b"\x7fELFtwo.", b"\x7fELFthre"
    files = (log, BuiltFile("a.ko", two), BuiltFile("b.ko", with_signature("b.ko", three, b"old")))
    built = replace(BUILT, files=files)
    found = Signing(_Pen()).signed(built, {"CONFIG_MODULE_SIG_HASH": "sha384"})
    assert found.inputs == built.inputs
    assert found.files == (
        log,
        BuiltFile("a.ko", with_signature("a.ko", two, b"sha384 of two.")),
        BuiltFile("b.ko", with_signature("b.ko", three, b"sha384 of thre")),
    )


def _key(folder: Path, mode: int, text: str = "-----BEGIN PRIVATE KEY-----\n") -> str:
    path = folder / "key.pem"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660])
def test_a_key_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    key = _key(tmp_path, mode)
    with pytest.raises(UsageError, match=f"has mode {mode:04o}") as refused:
        take_key(key, None)
    assert refused.value.hint == f"chmod 600 {key}"


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_of_ones_own_is_taken(tmp_path: Path, mode: int) -> None:
    key = _key(tmp_path, mode)
    assert take_key(key, None).name == key


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param("/nowhere/key.pem", "No such file", id="not-there"),
        pytest.param("/", "is no file", id="a-folder"),
        pytest.param("pkcs11:token=t;object=o", "PIN was not given", id="token-without-pin"),
        pytest.param("pkcs11:token=t?pin-source=/a%00b", "is no path", id="pin-in-no-file"),
        pytest.param("pkcs11:token=t?pin-value=1234", "holds the PIN", id="pin-in-the-uri"),
        pytest.param("pkcs11:token=t;pin-value=1234", "holds the PIN", id="pin-in-the-path"),
        pytest.param("PKCS11:token=t?pin-value=1234", "holds the PIN", id="pin-under-capitals"),
    ],
)
def test_an_unusable_key_is_one_sentence(key: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        take_key(key, None)
    assert "1234" not in f"{refused.value} {refused.value.hint}"


def test_a_pin_does_not_show() -> None:
    key = take_key("pkcs11:token=t;object=o", "s3cret")
    assert "s3cret" not in repr(key)


def test_a_uri_is_cleared_of_what_goes_other_ways(tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.write_text("4321\n")
    pin.chmod(0o600)
    key = take_key(f"pkcs11:token=t;object=o?pin-source=file:{pin}&module-path=/lib/p.so", None)
    assert (key.name, key.module, key.secret) == ("pkcs11:token=t;object=o", "/lib/p.so", "4321")


def test_a_pin_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.write_text("4321\n")
    pin.chmod(0o644)
    with pytest.raises(UsageError, match=r"pin-source .* others may read it"):
        take_key(f"pkcs11:token=t?pin-source={pin}", None)


@pytest.mark.parametrize(
    ("uri", "cleared"),
    [
        pytest.param("pkcs11:token=t?module-path=/lib/p.so&slot-id=3", "pkcs11:token=t?slot-id=3",
                     id="another-question-stays-one"),
        pytest.param("pkcs11:module-path=/lib/p.so;token=t", "pkcs11:token=t", id="first-in-path"),
        pytest.param("pkcs11:token=a;module-path=/lib/p.so;object=o", "pkcs11:token=a;object=o",
                     id="amid-the-path"),
        pytest.param("PKCS11:token=t?module-path=/lib/p.so", "pkcs11:token=t", id="capitals"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_uri_is_a_uri(uri: str, cleared: str) -> None:
    key = take_key(uri, "1234")
    assert (key.name, key.module, key.on_token) == (cleared, "/lib/p.so", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"1" * 70000, "has over 1024 characters", id="another-file"),
        pytest.param(b"\xff\xfe1234\n", "is no text", id="bytes"),
        pytest.param(b"\n1234\n", "PIN was not given", id="empty-line"),
    ],
)
def test_a_pin_file_that_holds_none_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    pin = tmp_path / "pin"
    pin.write_bytes(text)
    pin.chmod(0o600)
    with pytest.raises(UsageError, match=said) as refused:
        take_key(f"pkcs11:token=t?pin-source={pin}", None)
    assert "1234" not in str(refused.value)
    assert "1111" not in str(refused.value)


def test_a_passphrase_that_is_another_file_is_refused(tmp_path: Path) -> None:
    key = _key(tmp_path, 0o600)
    with pytest.raises(UsageError, match="has over 1024 characters"):
        take_key(key, "1" * 1025)
    assert take_key(key, "1" * 1024).secret == "1" * 1024


def test_a_pin_of_a_file_from_windows_is_the_pin_alone(tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.write_bytes(b"4321\r\n")
    pin.chmod(0o600)
    for form in ("", "file:", "file://"):
        assert take_key(f"pkcs11:token=t?pin-source={form}{pin}", None).secret == "4321"  # noqa: S105 of none


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        pytest.param("/a/key.pem", True, id="file"),
        pytest.param("pkcs11:token=t", True, id="token"),
        pytest.param("PKCS11:token=t?pin-source=/a/pin", False, id="token-that-has-its-own"),
    ],
)
def test_whose_is_the_secret_in_the_environment(key: str, taken: bool) -> None:
    assert takes_secret(key) is taken


@pytest.mark.parametrize(("key", "certificate"), [("k.pem", ""), ("", "c.der")])
def test_key_and_certificate_belong_together(key: str, certificate: str) -> None:
    with pytest.raises(ToolkitError, match="belong together"):
        open_signing(key, certificate, None, now=NOW)


def test_where_there_is_no_room_to_sign_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an hour of compiling, a full /tmp is no bug of ours."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    known = Certificate("", "Site", "Site", "1", "rsaEncryption 4096", NOW, ())
    signer = Signer(take_key(_key(tmp_path, 0o600), None), known)
    with pytest.raises(UsageError, match=r"^/nowhere/.*: No such file") as refused:
        signer.sign(ELF, "sha256")
    assert "TMPDIR" in refused.value.hint


def test_who_names_no_key_signs_nothing() -> None:
    assert open_signing("", "", None, now=NOW) is None


@pytest.mark.parametrize("verb", ["plan", "provision", "bundle"])
def test_a_key_that_would_sign_nothing_is_refused(
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The site has DKMS compile on nodes: who names a key would take the modules for signed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    where = ("--hosts", "gpu01", "--yes") if verb == "provision" else ("--hosts", "gpu01")
    words = ("--sign-key", _key(tmp_path, 0o600), "--sign-cert", "/c.der")
    monkeypatch.setattr("sys.argv", ["gdr", verb, *where, *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.USAGE
    assert "this site has DKMS compile on nodes" in capsys.readouterr().err
