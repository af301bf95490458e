"""Secure Boot, keyrings, and what the kernel says when it refuses a module."""

from __future__ import annotations

import pytest

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.firmware.secureboot import (
    Enrolment,
    SecureBoot,
    parse_efi_byte,
    parse_keys,
    parse_said_signers,
    parse_sb_state,
    parse_test_key,
)
from toolkit.facts.modules.refusals import key_rejected, parse_refusals

ROW = "0d1c5a8e I------     1 perm 1f030000     0     0 "
RING = ROW + "keyring   .builtin_trusted_keys: 2\n"
CA = ROW + "asymmetri Debian Secure Boot CA: 6ccece7e4c6c: X509.rsa bb419ea1 []\n"
COLON = ROW + "asymmetri Example: kernel: signing: 0011223344: X509.rsa 22334455 []\n"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SecureBoot enabled\n", SecureBoot.ON),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", SecureBoot.ON),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", SecureBoot.OFF),
        ("EFI variables are not supported on this system\n", SecureBoot.NO_EFI),
    ],
)
def test_the_answers_of_mokutil(text: str, state: SecureBoot) -> None:
    assert parse_sb_state(text) is state


@pytest.mark.parametrize("text", ["", "Cannot determine secure boot state.\n", "SecureBoot\n"])
def test_other_answers_are_no_state(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_sb_state(text)


@pytest.mark.parametrize("text", ["", "2\n", "1 0\n", "on\n"])
def test_the_firmware_variable_is_one_of_two_numbers(text: str) -> None:
    assert parse_efi_byte("   1\n") is SecureBoot.ON
    assert parse_efi_byte("   0\n") is SecureBoot.OFF
    with pytest.raises(Unparsable):
        parse_efi_byte(text)


def test_keys_are_found_by_name_and_by_id() -> None:
    keys = parse_keys("@/proc/keys\n" + RING + CA + COLON)
    assert keys.seen
    assert keys.trusts("Debian Secure Boot CA", "")
    assert keys.trusts("", "6ccece7e4c6c")
    assert keys.trusts("Example: kernel: signing", "")
    assert not keys.trusts("Somebody", "00")


def test_an_empty_name_is_nobodys() -> None:
    assert not parse_keys("@/proc/keys\n" + RING + CA).trusts("", "")


def test_the_users_own_keyrings_are_not_the_kernels() -> None:
    keys = parse_keys("@/proc/keys\n" + ROW + "keyring   _uid.1000: empty\n")
    assert not keys.seen


FIRMWARE = ROW + "keyring   .platform: 4\n"
BY_RING = "@.platform\n1: ---lswrv  0  0 asymmetric: Example CA: 00112233\n"
EXAMPLE = ROW + "asymmetri Example CA: 00112233: X509.rsa 00112233 []\n"


def test_a_key_that_only_the_firmware_holds_counts_on_some_kernels_alone() -> None:
    keys = parse_keys(f"{BY_RING}@/proc/keys\n{RING}{EXAMPLE}")
    with pytest.raises(NoEvidence, match="not every kernel"):
        keys.trusts("Example CA", "00112233")
    held = parse_keys(BY_RING.replace("platform", "secondary_trusted_keys"))
    assert held.trusts("Example CA", "")


def test_a_key_whose_keyring_nobody_tells_is_neither_trusted_nor_refused() -> None:
    keys = parse_keys(f"@/proc/keys\n{RING}{FIRMWARE}{EXAMPLE}")
    with pytest.raises(NoEvidence, match="tells no keyring"):
        keys.trusts("Example CA", "")
    assert not keys.trusts("Somebody", "1234")


@pytest.mark.parametrize("ring", [".platform: empty", ".ima: empty"])
def test_empty_keyrings_beside_those_for_modules_change_nothing(ring: str) -> None:
    keys = parse_keys(f"@/proc/keys\n{RING}{ROW}keyring   {ring}\n{EXAMPLE}")
    assert keys.trusts("Example CA", "")


def test_a_key_that_is_in_no_keyring_that_keyctl_lists_is_somebody_elses() -> None:
    keys = parse_keys(f"@.machine\n@/proc/keys\n{RING}{EXAMPLE}")
    assert not keys.trusts("Example CA", "")


# As openssl prints two certificates: a long serial number and a short one.
LISTED = """\
@mokutil --list-enrolled
        Serial Number:
            0a:c4:11:22:33:44:55:66
        Issuer: O = Example, CN = Example CA
                    5f:0d
            X509v3 Subject Key Identifier:
                00:11:22:33
        Serial Number: 4096 (0x1000)
        Issuer: CN = Short CA
            X509v3 Subject Key Identifier:
                AA:BB
@.machine
1: ---lswrv  0  0 asymmetric: Site signing: 00112233
2: ---lswrv  0  0 asymmetric: Short leaf: aabb
"""


@pytest.mark.parametrize(
    ("signer", "serial", "trusted"),
    [
        ("Example CA", "0ac4112233445566", True),  # the ring shows the subject, not the issuer
        ("Example CA", "0bad112233445566", False),
        ("Short CA", "1000", True),
        ("Another CA", "1000", False),  # a number that many have
        ("Site signing", "0bad", False),  # the name of a key whose number is known to be another
    ],
)
def test_what_mokutil_lists_tells_keys_of_one_name_apart(
    signer: str, serial: str, trusted: bool
) -> None:
    assert parse_keys(LISTED).trusts(signer, serial) is trusted


def test_a_keyring_that_keyctl_lists_otherwise_is_refused() -> None:
    with pytest.raises(Unparsable):
        parse_keys("@.machine\nkeyctl_read_alloc: Permission denied\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mok.pub is already enrolled\n", Enrolment.ENROLLED),
        ("mok.pub is not enrolled\n", Enrolment.NOT_ENROLLED),
        ("mok.pub is already in the enrollment request\n", Enrolment.PENDING),
        ("/x.der is already in db\n", Enrolment.ENROLLED),
        ("/x.der is already in the built-in trusted keyring\n", Enrolment.ENROLLED),
        ("CA of /x.der is already enrolled\n/x.der is not enrolled\n", Enrolment.NOT_ENROLLED),
    ],
)
def test_how_a_key_stands(text: str, found: Enrolment) -> None:
    assert parse_test_key(text) is found


def test_another_answer_about_a_key_is_refused() -> None:
    with pytest.raises(Unparsable):
        parse_test_key("Failed to open mok.pub\n")


def test_listed_signers_come_without_the_authors_arrow() -> None:
    text = "nvidia.ko:         Example Signing\nnvidia-peermem.ko: Other Signer     ← look\nnoise\n"
    assert parse_said_signers(text) == {
        "nvidia": "Example Signing",
        "nvidia_peermem": "Other Signer",
    }


def test_refusals_are_told_apart_by_their_error() -> None:
    at = "[   12.5] nvidia_peermem: "
    told = parse_refusals(
        [
            "[    0.0] Linux version 6.1.0",
            f"{at}disagrees about version of symbol ib_register_peer_memory_client",
            f"{at}Unknown symbol ib_register_peer_memory_client (err -22)",
            f"{at}Unknown symbol nvidia_p2p_put_pages (err -2)",
            "nvidia_current_peermem: Unknown symbol nvidia_p2p_get_pages (err 0)",
            "[   12.6] other: Unknown symbol foo (err -2)",
        ]
    )
    assert told.other_version == ("ib_register_peer_memory_client",)
    assert told.absent == ("nvidia_p2p_put_pages", "nvidia_p2p_get_pages")
    assert told.whole
    assert told.any


def test_messages_of_a_module_at_work_are_no_refusal() -> None:
    line = "6,39,22,-;nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context"
    told = parse_refusals([line])
    assert (told.any, told.at_work, told.whole) == (False, line, False)


@pytest.mark.parametrize(
    ("said", "rejected"),
    [
        ("modprobe: ERROR: could not insert 'x': Key was rejected by service", True),
        ("modprobe: ERROR: could not insert 'x': Required key not available", True),
        ("modprobe: ERROR: could not insert 'x': Operation not permitted", False),
        ("modprobe: ERROR: could not insert 'x': Invalid argument", False),
    ],
)
def test_only_two_answers_are_those_of_a_refused_key(said: str, rejected: bool) -> None:
    assert key_rejected(said) is rejected
