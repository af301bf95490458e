"""Which lines of known_hosts files speak of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.ssh.known_hosts import fingerprint, known_keys

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIJIJ0lSHcpsgwZ3Nqj3Zxg7L5aZyZ5pVLmW8Q0o6b3Kd"


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
    ],
)
def test_a_line_names_a_host(tmp_path: Path, names: str, name: str, known: bool) -> None:
    assert lines(tmp_path, f"{names} ssh-ed25519 {BLOB}\n", name) == [1] * known


def test_lines_that_are_no_keys_are_passed_over(tmp_path: Path) -> None:
    text = (
        f"# gpu1 ssh-ed25519 {BLOB}\n\n"
        "gpu1 ssh-ed25519\n"
        "gpu1 ssh-ed25519 not!base64\n"
        f"@cert-authority gpu1 ssh-ed25519 {BLOB}\n"
        f"  gpu1 ssh-ed25519 {BLOB} a comment\n"
    )
    assert lines(tmp_path, text, "gpu1") == [6]


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
