"""Secrets come from a terminal or a descriptor, and show nowhere."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable

import pytest

from toolkit.errors import UsageError
from toolkit.ssh.credentials import Credentials, read_secret


def from_pipe(data: bytes) -> tuple[str, bytes]:
    """The secret, and what is left for the next reader."""
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    try:
        return read_secret(read), os.read(read, 100)
    finally:
        os.close(read)


@pytest.mark.parametrize(
    ("data", "secret", "left"),
    [
        pytest.param(b"tiger\n", "tiger", b"", id="line"),
        pytest.param(b"tiger", "tiger", b"", id="without-newline"),
        pytest.param(b" a b \n", " a b ", b"", id="blanks-are-kept"),
        pytest.param(b"one\ntwo\n", "one", b"two\n", id="only-the-first-line"),
        pytest.param(b"\xff\n", "\udcff", b"", id="any-bytes"),
    ],
)
def test_a_descriptor_s_first_line_is_the_secret(data: bytes, secret: str, left: bytes) -> None:
    assert from_pipe(data) == (secret, left)


@pytest.mark.parametrize("data", [b"", b"\n", b"a\0b\n"])
def test_what_is_no_password_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="password"):
        from_pipe(data)


def test_a_closed_descriptor_is_refused() -> None:
    with pytest.raises(UsageError, match="file descriptor 99: Bad file descriptor"):
        read_secret(99)


def in_session(terminal: bool, body: Callable[[], str]) -> str:
    """What ``body`` returns in a process with a terminal, or with none at all."""
    read, write = os.pipe()
    if terminal:
        child, master = pty.fork()
    else:
        child, master = os.fork(), -1
    if child == 0:
        try:
            if not terminal:
                os.setsid()
            os.write(write, body().encode())
        finally:
            os._exit(0)
    os.close(write)
    if terminal:
        os.read(master, 100)  # the prompt
        os.write(master, b"typed\n")
    os.waitpid(child, 0)
    said = os.read(read, 1000).decode()
    os.close(read)
    return said


def ask_pin() -> str:
    try:
        return read_secret("PIN: ", option="sign-pin-fd")
    except UsageError as why:
        return why.hint


def ask() -> str:
    sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 nothing may come from there
    try:
        return read_secret("password: ")
    except UsageError as why:
        return str(why)


def test_a_prompt_is_answered_on_the_terminal() -> None:
    assert in_session(True, ask) == "typed"


def test_without_a_terminal_no_password_is_taken_from_stdin() -> None:
    assert in_session(False, ask) == "there is no terminal to ask for a password on"


def test_without_a_terminal_the_option_of_that_very_secret_is_named() -> None:
    told = "pass it by file descriptor: --sign-pin-fd 3 3</path/to/secret"
    assert in_session(False, ask_pin) == told


def test_secrets_do_not_show() -> None:
    shown = repr(Credentials("tiger", "lion"))
    assert shown == "Credentials(password=***, become_password=***)"
    assert repr(Credentials()) == "Credentials()"
