"""The key that a node shows, against those that are known of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ssh.doors import DOOR, KEY, OTHER, Greeted, row, target
from toolkit.errors import HostKeyError
from toolkit.ssh import transport_errors
from toolkit.ssh.connection import _known_types, _verify
from toolkit.ssh.known_hosts import fingerprint
from toolkit.ssh.transport_errors import Door

NAME = "[192.0.2.7]:2222"


@pytest.mark.parametrize(
    "text",
    [
        row(NAME, KEY),
        row(NAME, OTHER) + row(NAME, KEY),
        row("192.0.2.7", KEY),
        f"@revoked {row(NAME, OTHER)}{row(NAME, KEY)}",
        f"@revoked {row('192.0.2.7', OTHER)}{row('192.0.2.7', KEY)}",
    ],
)
def test_a_host_key_that_is_known(tmp_path: Path, text: str) -> None:
    (tmp_path / "known").write_text(text)
    _verify(Greeted(), target(known=(str(tmp_path / "known"),)))  # type: ignore[arg-type]  # a stand-in


FINGER = fingerprint(KEY)


@pytest.mark.parametrize(
    ("text", "door", "error"),
    [
        ("", DOOR, "unknown"),
        (row("other", KEY), DOOR, "unknown"),
        (row(NAME, OTHER), DOOR, "changed"),
        (row(NAME, OTHER) + row("192.0.2.7", KEY), DOOR, "changed"),
        (row(NAME, OTHER, "ssh-rsa"), DOOR, "unknown"),
        (row(NAME, OTHER, "ssh-rsa") + row("192.0.2.7", KEY), DOOR, "unknown"),
        (f"@revoked {row(NAME, OTHER)}", DOOR, "unknown"),
        (f"@revoked {row(NAME, KEY)}", DOOR, "revoked"),
        (f"{row(NAME, KEY)}@revoked {row(NAME, KEY)}", DOOR, "revoked"),
        (f"@revoked {row('192.0.2.7', KEY)}", DOOR, "revoked"),
        (f"@revoked {row('192.0.2.7', KEY)}{row('192.0.2.7', KEY)}", DOOR, "revoked"),
        (row("192.0.2.7", OTHER), DOOR, "unknown"),
        (
            row("192.0.2.7", KEY),
            Door("gpu7", "192.0.2.7", 2222, "ops", key_name="farm"),
            "unknown",
        ),
    ],
)
def test_a_host_key_that_is_refused(tmp_path: Path, text: str, door: Door, error: str) -> None:
    file = tmp_path / "known"
    file.write_text(text)
    where = f"{file}:{1 + text.startswith(NAME) * text.count('@revoked')}"
    errors = {
        "unknown": transport_errors.unknown_key(door, "ED25519", FINGER),
        "changed": transport_errors.changed_key(door, "ED25519", FINGER, f"{file}:1"),
        "revoked": transport_errors.revoked_key(door, "ED25519", FINGER, where),
    }
    with pytest.raises(HostKeyError) as raised:
        _verify(Greeted(), target(door, known=(str(file),)))  # type: ignore[arg-type]  # a stand-in
    assert (str(raised.value), raised.value.hint) == (str(errors[error]), errors[error].hint)


def test_a_first_key_is_taken_where_that_was_asked_for(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    _verify(Greeted(), target(known=(own,), new_keys=own))  # type: ignore[arg-type]  # a stand-in
    assert Path(own).read_text() == row(NAME, KEY)
    with pytest.raises(HostKeyError, match="CHANGED"):
        _verify(Greeted(OTHER), target(known=(own,), new_keys=own))  # type: ignore[arg-type]  # a stand-in
    with pytest.raises(HostKeyError, match="not known"):
        _verify(Greeted(OTHER, "ssh-rsa"), target(known=(own,), new_keys=own))  # type: ignore[arg-type]  # a stand-in
    assert Path(own).read_text() == row(NAME, KEY)


def test_the_kinds_of_key_that_are_known_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text(row(NAME, KEY) + row(NAME, OTHER) + row("other", KEY, "ssh-dss"))
    assert _known_types(target(known=(str(file),))) == ("ssh-ed25519",)
    file.write_text(row(NAME, KEY, "ssh-rsa") + row(NAME, OTHER))
    found = _known_types(target(known=(str(file),)))
    assert found == ("ssh-rsa", "ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256")
