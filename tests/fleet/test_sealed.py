"""Signatures over passports, by the real ssh-keygen and the real minisign."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.unit.passports import BORN, born
from toolkit.checks.check import Status
from toolkit.checks.image import passport
from toolkit.errors import UsageError
from toolkit.evidence import Frame, State
from toolkit.facts.node.node import Node
from toolkit.node.text_signature import NAMESPACE, check, sign
from toolkit.verbs.passport import known_key, sealed
from toolkit.want import Want

pytestmark = pytest.mark.sshd
TEXT = BORN.json()
OTHER = replace(BORN, toolkit="0.2").json()


class Key:
    """A key of one of the two programs, with what says who is trusted."""

    def __init__(self, way: str, folder: Path, name: str = "key") -> None:
        self.private, self.public = folder / name, folder / f"{name}.pub"
        ssh = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ops", "-f", self.private)
        mini = ("minisign", "-G", "-W", "-p", self.public, "-s", self.private)
        words = ssh if way == "ssh" else mini
        subprocess.run(words, check=True, capture_output=True)


MINISIGN = pytest.mark.minisign


@pytest.fixture(scope="module", params=["ssh", pytest.param("minisign", marks=MINISIGN)])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def key(way: str, tmp_path: Path) -> Key:
    return Key(way, tmp_path)


def test_what_it_signed_is_good_and_nothing_else_is(key: Key, way: str, tmp_path: Path) -> None:
    signature = sign(key.private, TEXT)
    assert check(key.public, TEXT, signature)[0]
    assert check(key.public, OTHER, signature)[0] is False
    assert check(key.public, TEXT, _bent(signature))[0] is False
    stranger = Key(way, tmp_path, "stranger")
    assert check(stranger.public, TEXT, signature)[0] is False


def _bent(signature: str) -> str:
    """The signature with another letter where all bits count, whichever key made it."""
    head, body, *rest = signature.splitlines(keepends=True)
    other = "B" if body[40] == "A" else "A"
    return "".join((head, body[:40] + other + body[41:], *rest))


def test_the_same_passport_has_the_same_signature(key: Key) -> None:
    assert sign(key.private, TEXT) == sign(key.private, TEXT)


@MINISIGN
def test_a_key_of_the_other_program_is_no_good(key: Key, way: str, tmp_path: Path) -> None:
    other = Key("minisign" if way == "ssh" else "ssh", tmp_path, "other")
    good, told = check(other.public, TEXT, sign(key.private, TEXT))
    assert not good
    assert "signed by" in told


def test_allowed_signers_name_who_and_may_have_been_trusted_only_once(tmp_path: Path) -> None:
    key = Key("ssh", tmp_path)
    public = key.public.read_text()
    allowed = tmp_path / "allowed"
    allowed.write_text(f"# who makes images\nimages@example.org {public}")
    good, told = check(allowed, TEXT, sign(key.private, TEXT))
    assert good
    assert told.startswith("by images@example.org, ED25519 key SHA256:")
    allowed.write_text(f'images@example.org valid-before="20200101" {public}')
    assert check(allowed, TEXT, sign(key.private, TEXT))[0] is False


def test_a_signature_for_another_purpose_does_not_pass(tmp_path: Path) -> None:
    key = Key("ssh", tmp_path)
    words = ("ssh-keygen", "-Y", "sign", "-q", "-f", key.private, "-n", f"{NAMESPACE}-2")
    made = subprocess.run(words, input=TEXT, capture_output=True, text=True, check=True).stdout
    assert check(key.public, TEXT, made)[0] is False


def test_a_key_with_a_passphrase_asks_nobody_and_says_what_to_do(tmp_path: Path) -> None:
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked")
    subprocess.run(words, check=True)
    with pytest.raises(UsageError, match="cannot sign") as caught:
        sign(tmp_path / "locked", TEXT)
    assert "ssh-add" in caught.value.hint
    with pytest.raises(UsageError, match="No such file"):
        sign(tmp_path / "nowhere", TEXT)


def test_nobody_is_asked_by_a_window_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(("ssh-keygen", "-q", "-N", "secret", "-f", tmp_path / "locked"), check=True)
    ask = tmp_path / "ask"
    ask.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho secret\n")
    ask.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_ASKPASS", str(ask))
    with pytest.raises(UsageError, match="cannot sign"):
        sign(tmp_path / "locked", TEXT)
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("said", ["", "garbage\n", "-----BEGIN CERTIFICATE-----\n"])
def test_what_is_no_signature_is_not_called_one(key: Key, said: str) -> None:
    assert check(key.public, TEXT, said) == (False, "what lies beside the passport is no signature")


def test_what_has_no_public_key_is_refused_before_any_node_is_asked(
    key: Key, way: str, tmp_path: Path
) -> None:
    known_key(key.public)
    (tmp_path / "empty").write_text("# nobody yet\n")
    for name in (key.private, tmp_path / "empty"):
        with pytest.raises(UsageError, match="no public key is in it"):
            known_key(name)
    if way == "ssh":
        signers = tmp_path / "signers"
        signers.write_text(f'a@x,b@y namespaces="{NAMESPACE}" {key.public.read_text()}')
        known_key(signers)
        assert check(signers, TEXT, sign(key.private, TEXT))[0]


def test_a_node_is_ready_only_by_a_good_signature_over_what_it_showed(
    key: Key, tmp_path: Path
) -> None:
    want = Want(passport=True, passport_key=str(key.public))
    signature = sign(key.private, TEXT)

    def verdict(frames: Mapping[str, str]) -> tuple[Status, str]:
        found = passport(Node(sealed(node({**born(), **frames}), want)), want)
        return found.status, found.finding.found

    assert verdict({"passport-sig": signature})[0] is Status.PASS
    assert verdict({}) == (Status.FAIL, "the passport is not signed")
    assert verdict({"passport": OTHER, "passport-sig": signature})[0] is Status.FAIL
    # A node cannot say it of itself.
    claimed = node(born()).plus([Frame("passport-verified", State.OK, "x", "good by me\n")])
    assert passport(Node(sealed(claimed, want)), want).status is Status.FAIL
