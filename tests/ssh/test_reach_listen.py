"""What a slow machine may do to two streams that belong together."""

from __future__ import annotations

from typing import cast

import paramiko

from toolkit.ssh.limits import Stream
from toolkit.ssh.paramiko import _listen
from toolkit.ssh.stream import Lines

SILENCE = TimeoutError()
MARK = b"\ngdr-begin\n\ngdr-end 0\n"


class Channel:
    """Says what it was told to say, one item a call; an error is raised."""

    def __init__(self, stdout: list[bytes | TimeoutError], stderr: list[bytes]) -> None:
        self._stdout, self._stderr = stdout, stderr

    def recv(self, _size: int) -> bytes:
        said = self._stdout.pop(0)
        if isinstance(said, TimeoutError):
            raise said
        return said

    def recv_stderr(self, _size: int) -> bytes:
        return self._stderr.pop(0) if self._stderr else b""

    def recv_stderr_ready(self) -> bool:
        return bool(self._stderr)


def heard(stdout: list[bytes | TimeoutError]) -> str:
    lines = Lines(lambda _: None)
    _listen(
        cast("paramiko.Channel", Channel(stdout, [MARK])), lines, Stream(lines.hearing, "stderr")
    )
    return lines.end()


def test_the_mark_of_the_end_may_overtake_what_was_said_before_it() -> None:
    assert heard([b"first\n", SILENCE, b"last\n", b""]) == "first\nlast\n"


def test_a_stream_that_somebody_holds_open_does_not_hold_us() -> None:
    assert heard([b"all\n", SILENCE, SILENCE]) == "all\n"
