"""Which lines of known_hosts files speak of a host."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path

import pytest

from toolkit.ssh.known_hosts import add_key, fingerprint, known_keys, revoked_in

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIJIJ0lSHcpsgwZ3Nqj3Zxg7L5aZyZ5pVLmW8Q0o6b3Kd"
RAW = base64.b64decode(BLOB)
DIGEST = hmac.digest(b"salt", b"gpu1", "sha1")
HASHED = "|1|" + "|".join(base64.b64encode(each).decode() for each in (b"salt", DIGEST))


def lines(folder: Path, text: str, name: str) -> list[int]:
    """The numbers of the lines that name ``name``."""
    file = folder / "known_hosts"
    file.write_text(text)
    return [int(key.where.rpartition(":")[2]) for key in known_keys((str(file),), name)]


@pytest.mark.parametrize(
    ("names", "name", "known"),
    [
        pytest.param("gpu1", "gpu1", True, id="plain"),
        pytest.param("gpu1", "gpu2", False, id="another"),
        pytest.param("gpu1", "gpu11", False, id="not-a-prefix"),
        pytest.param("a,gpu1,b", "gpu1", True, id="one-of-several"),
        pytest.param("GPU1", "gpu1", True, id="any-case"),
        pytest.param("gpu1", "GPU1", True, id="any-case-asked"),
        pytest.param("gpu?,!gpu2", "gpu1", True, id="one-letter"),
        pytest.param("gpu*,!gpu1", "gpu1", False, id="negated"),
        pytest.param("!gpu2", "gpu1", False, id="only-negated"),
        pytest.param("[gpu1]:22", "gpu1", False, id="port-in-file-alone"),
        pytest.param("[gpu1]:2200", "[gpu1]:2200", True, id="port"),
        pytest.param("[gpu?]:*", "[gpu1]:2200", True, id="pattern-with-port"),
        pytest.param("[ab]", "a", False, id="brackets-are-no-classes"),
        pytest.param("10.0.0.*", "10.0.0.7", True, id="address"),
        pytest.param("10.0.0.7", "10a0b0c7", False, id="dots-are-dots"),
        pytest.param(
            "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=",
            "192.168.1.61",
            True,
            id="hashed",
        ),
        pytest.param(
            "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=",
            "192.168.1.62",
            False,
            id="hashed-another",
        ),
        pytest.param("|1|broken", "gpu1", False, id="hash-cut-off"),
        pytest.param(HASHED, "GPU1", True, id="hashed-any-case-asked"),
    ],
)
def test_a_line_names_a_host(tmp_path: Path, names: str, name: str, known: bool) -> None:
    assert lines(tmp_path, f"{names} ssh-ed25519 {BLOB}\n", name) == [1] * known


def test_lines_that_are_no_keys_are_passed_over(tmp_path: Path) -> None:
    text = (
        f"# gpu1 ssh-ed25519 {BLOB}\n\n"
        f"#gpu2,gpu1 ssh-ed25519 {BLOB}\n"
        "gpu1 ssh-ed25519\n"
        "gpu1 ssh-ed25519 not!base64\n"
        f"@cert-authority gpu1 ssh-ed25519 {BLOB}\n"
        f"  gpu1 ssh-ed25519 {BLOB} a comment\n"
    )
    assert lines(tmp_path, text, "gpu1") == [7]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        (f"#ssh-ed25519 {BLOB}\n\n", 0),
        (f"ssh-rsa AAAA\nssh-ed25519 {BLOB} of gpu1\nssh-ed25519 {BLOB}\n", 2),
    ],
)
def test_a_revoked_key_is_told_by_the_first_line_that_has_it(
    tmp_path: Path, text: str, line: int
) -> None:
    file = tmp_path / "revoked"
    file.write_text(text)
    assert revoked_in(str(file), RAW) == (f"{file}:{line}" if line else "")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"SSHKRL\n\0rest", "binary form"),
        (b"alone\n", "line 1 is no key"),
        (b"ssh-rsa not!base64\n", "base64"),
    ],
)
def test_a_list_of_revoked_keys_that_cannot_be_read_is_no_empty_one(
    tmp_path: Path, data: bytes, says: str
) -> None:
    (tmp_path / "revoked").write_bytes(data)
    with pytest.raises(ValueError, match=says):
        revoked_in(str(tmp_path / "revoked"), RAW)


def test_a_new_key_has_a_line_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "ssh" / "known_hosts"
    add_key(str(file), "gpu1", "ssh-ed25519", RAW)
    file.write_text(file.read_text().rstrip("\n"))  # as an editor may leave it
    for name in ("gpu2", "gpu3"):
        add_key(str(file), name, "ssh-ed25519", RAW)
    assert file.read_text() == "".join(f"gpu{n} ssh-ed25519 {BLOB}\n" for n in (1, 2, 3))
    assert (file.stat().st_mode & 0o77, file.parent.stat().st_mode & 0o77) == (0, 0)


def test_revoked_keys_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"@revoked * ssh-ed25519 {BLOB}\n")
    assert [key.revoked for key in known_keys((str(file),), "gpu1")] == [True]


def test_a_file_is_read_again_once_it_has_changed(tmp_path: Path) -> None:
    assert lines(tmp_path, "", "gpu1") == []
    assert lines(tmp_path, f"gpu1 ssh-ed25519 {BLOB}\n", "gpu1") == [1]


def test_missing_files_know_nobody(tmp_path: Path) -> None:
    assert known_keys((str(tmp_path / "none"), str(tmp_path)), "gpu1") == []


def test_a_fingerprint_is_written_as_ssh_does() -> None:
    assert fingerprint(b"") == "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
