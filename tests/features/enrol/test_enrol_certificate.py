"""Only a certificate is sent to nodes, and only a certificate is read on them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from tests.unit.enrolling import DER, FirmwareNode, fleet_of
from toolkit.built.io.openssl import der_of
from toolkit.errors import UsageError
from toolkit.features.enrol.run import look, script

# How private keys in DER begin; the rest of each is not looked at.
PRIVATE_KEYS = [
    pytest.param(bytes.fromhex("308204a30201000282010100") + bytes(1179), id="pkcs1"),
    pytest.param(bytes.fromhex("308204bd020100300d06092a") + bytes(1205), id="pkcs8"),
    pytest.param(bytes.fromhex("3082052d3057060992864886") + bytes(1317), id="under-a-passphrase"),
    pytest.param(bytes.fromhex("307702010104200102030405") + bytes(109), id="sec1"),
    pytest.param(bytes.fromhex("308209cf0201033082099506") + bytes(2503), id="pkcs12"),
]


@pytest.mark.parametrize("key", PRIVATE_KEYS)
def test_a_private_key_never_leaves_a_node(tmp_path: Path, key: bytes) -> None:
    node = FirmwareNode.made(tmp_path)
    node.put("etc/dkms/framework.conf", b'mok_certificate="/etc/dkms/keys/site.key"\n')
    node.put("etc/dkms/keys/site.key", key)
    answer = node.run(script("look", None, ""))
    assert b64encode(key).decode()[:24] not in answer.stdout.replace("\n", "")
    [outcome] = look(fleet_of(gpu01=node), None)
    assert "/etc/dkms/keys/site.key is no certificate" in str(outcome.error)


@pytest.mark.parametrize("key", PRIVATE_KEYS)
def test_a_private_key_is_never_sent_to_nodes(tmp_path: Path, key: bytes) -> None:
    path = tmp_path / "site.der"
    path.write_bytes(key)
    with pytest.raises(UsageError, match="is a private key, not a certificate"):
        der_of(path)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"0", id="one-byte"),
        pytest.param(DER[:-1], id="cut-der"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n", id="bad"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nMAUwAwIB\n", id="cut-pem"),
    ],
)
def test_what_is_no_certificate_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "site.der"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="is no certificate, neither PEM nor DER"):
        der_of(path)


def test_of_a_file_with_key_and_certificate_the_certificate_alone_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "site.pem"
    body = b64encode(DER).decode()
    path.write_text(
        f"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
        f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
    )
    assert der_of(path) == DER
