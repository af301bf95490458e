"""Addresses of BMCs, fingerprints, CA files: what is let through, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.redfish import access as redfish_trust
from toolkit.redfish.access import BmcTrust, Login, base_url, check_ca, read_pin

DIGITS = "0123456789abcdef" * 4
COLONS = ":".join(DIGITS[at : at + 2] for at in range(0, 64, 2))


@pytest.mark.parametrize(
    "text",
    [DIGITS, DIGITS.upper(), COLONS, f"sha256:{DIGITS}", f"SHA-256:{COLONS}", f" {DIGITS}\n"],
)
def test_a_fingerprint_in_the_forms_that_tools_print(text: str) -> None:
    assert read_pin(text) == DIGITS


@pytest.mark.parametrize("text", ["", DIGITS[1:], DIGITS + "00", "sha1:" + DIGITS, "g" * 64])
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no SHA-256 fingerprint"):
        read_pin(text)


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("10.0.0.7", "https://10.0.0.7"),
        ("bmc-gpu01.oob:8443", "https://bmc-gpu01.oob:8443"),
        ("https://bmc-gpu01/", "https://bmc-gpu01"),
        ("fd00::7", "https://[fd00::7]"),
        ("[fd00::7]:444", "https://[fd00::7]:444"),
    ],
)
def test_an_address_in_the_forms_that_inventories_have(address: str, base: str) -> None:
    assert base_url(address) == base


@pytest.mark.parametrize(
    "address",
    [
        "http://10.0.0.7/",
        "root@10.0.0.7",
        "https://u:pass@10.0.0.7",
        "u:pass@10.0.0.7",
        "https://x/redfish/v1",
        "https://x/?user=root",
        "-oX",
        "a b",
    ],
)
def test_an_address_that_would_mislead_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as told:
        base_url(address)
    assert "pass" not in f"{told.value}{told.value.hint}"


def test_a_password_shows_nowhere() -> None:
    assert "secret" not in f"{Login('root', 'secret')!r}{Login('root', 'secret')}"


@pytest.mark.parametrize(
    ("trust", "word"),
    [
        (BmcTrust(), "ca"),
        (BmcTrust(pins=(DIGITS,), insecure=True), "pinned"),
        (BmcTrust(insecure=True), "no"),
    ],
)
def test_how_a_bmc_was_verified_has_a_word(trust: BmcTrust, word: str) -> None:
    assert trust.verified == word


def test_a_ca_file_is_looked_at_before_anything_is_asked(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    with pytest.raises(UsageError, match="holds no CA certificate"):
        check_ca(str(empty))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        check_ca(str(tmp_path / "none.pem"))


def test_a_python_of_its_own_trusts_whom_the_system_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = ssl.DefaultVerifyPaths("", "", "", "/none/cert.pem", "", "/none")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    bundle = tmp_path / "ca-certificates.crt"
    monkeypatch.setattr(redfish_trust, "_BUNDLES", ("/none/first", str(bundle)))
    assert redfish_trust.system_ca() == ""
    bundle.write_text("")
    assert redfish_trust.system_ca() == str(bundle)
