"""This machine as a host, and a child process that is never waited for longer than agreed."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO

from msgspec import Struct

from toolkit.errors import TransportError
from toolkit.ssh import transport_errors
from toolkit.ssh.become import Become, read_marks
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import BULK, Hearing, Stream
from toolkit.ssh.stream import Lines, conclude
from toolkit.ssh.transport import Result, Sink, quiet

_CHUNK = 65536
_LAST_S = 10.0  # what has closed its streams is about to end, on a busy machine too
_TICK_S = 0.5  # how long streams must be silent before a script that has ended is believed


class ChildEnd(Struct, frozen=True):
    """How a child ended."""

    late: bool  # killed at the deadline
    status: int | None  # its exit status; None where it had not ended by itself
    stderr: bytes | bytearray


def run_child(
    words: Sequence[str],
    data: bytes,
    *,
    limit_s: float,
    lines: Lines | Stream,
    keep: tuple[int, ...] = (),
    settings: Mapping[str, str] | None = None,
) -> ChildEnd:
    """Run ``words``, feed ``data`` to stdin, hand stdout to ``lines``.

    The child gets a session of its own: it cannot prompt on our terminal, Ctrl-C is ours
    alone, and what it has started is killed with it.

    :param keep: descriptors that it inherits, a lock that lasts as long as it does.
    :param settings: its environment; ours unless given.
    :raises OSError: it cannot be started.
    :raises FloodError: it says too much; it was killed.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=settings,
        start_new_session=True,
        pass_fds=keep,
    ) as child:
        try:
            return _Talk(child, data, lines).hold(time.monotonic() + limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def answer(
    words: Sequence[str],
    data: bytes = b"",
    *,
    limit_s: float,
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """What a scheduler's command prints, as ``subprocess.run`` has it, and no more than can be.

    :raises OSError: it cannot be started.
    :raises subprocess.TimeoutExpired: it did not end in time.
    :raises FloodError: it says too much.
    """
    # A table of a large cluster is one text, of many short lines.
    stdout = Stream(Hearing(words[0], BULK, lines=BULK), "stdout")
    ended = run_child(words, data, limit_s=limit_s, lines=stdout, settings=settings)
    if ended.late or ended.status is None:
        raise subprocess.TimeoutExpired(list(words), limit_s)
    return subprocess.CompletedProcess(
        list(words), ended.status, bytes(stdout.data), bytes(ended.stderr)
    )


class _Talk:
    """The state between reads: what is still to send, and what was said on stderr."""

    def __init__(self, child: subprocess.Popen[bytes], data: bytes, lines: Lines | Stream) -> None:
        self._child = child
        self._stdin = _pipe(child.stdin)
        self._stdout = _pipe(child.stdout)
        stderr = _pipe(child.stderr)
        self._left = memoryview(data)
        self._lines = lines
        self._stderr = Stream(lines.hearing, "stderr")
        self._open = 2  # streams that have not ended
        self._streams = selectors.DefaultSelector()
        self._streams.register(self._stdout, selectors.EVENT_READ)
        self._streams.register(stderr, selectors.EVENT_READ)
        self._streams.register(self._stdin, selectors.EVENT_WRITE)
        os.set_blocking(self._stdin.fileno(), False)

    def hold(self, end: float) -> ChildEnd:
        """Talk until both streams end, the script's end is seen, or the time is up."""
        with self._streams:
            while self._open:
                left_s = end - time.monotonic()
                if left_s <= 0:
                    return ChildEnd(True, None, self._stderr.data)
                ready = self._streams.select(min(left_s, _TICK_S))
                if not ready and self._ended():
                    break
                for key, _ in ready:
                    if key.fileobj is self._stdin:
                        self._write()
                    else:
                        self._read(key.fd)
        return ChildEnd(False, self._status(), self._stderr.data)

    def _status(self) -> int | None:
        try:
            return self._child.wait(_TICK_S if self._open else _LAST_S)
        except subprocess.TimeoutExpired:
            return None

    def _ended(self) -> bool:
        # A process that a script left behind may hold a stream open for ever.
        return read_marks(self._stderr.data[-64:].decode("latin-1")).status is not None

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._stdin.fileno(), self._left[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not listen any more; what it said tells why
            self._left = self._left[:0]
        if not self._left:
            self._streams.unregister(self._stdin)
            self._stdin.close()

    def _read(self, stream: int) -> None:
        data = os.read(stream, _CHUNK)
        if not data:
            self._streams.unregister(stream)
            self._open -= 1
        elif stream == self._stdout.fileno():
            self._lines.feed(data)
        else:
            self._stderr.feed(data)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise TypeError("the child was started without pipes")
    return stream


class LocalTransport:
    """Runs scripts here. See ``Transport`` for what it promises."""

    def __init__(
        self,
        name: str = "localhost",
        *,
        credentials: Credentials | None = None,
        become: bool = True,
        wrapped: bool = False,
        hearing: Hearing | None = None,
    ) -> None:
        self._name = name
        self._hearing = hearing or Hearing(name)
        self._become = Become(become, (credentials or Credentials()).become_password, wrapped)

    @property
    def name(self) -> str:
        return self._name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        lines = Lines(sink, self._hearing)
        words = ["sh", "-c", self._become.command]
        try:
            ended = run_child(words, self._become.feed(script), limit_s=limit_s, lines=lines)
        except OSError as why:
            raise TransportError(
                f"{self._name}: sh cannot be started: {why.strerror}",
                hint="is /bin/sh there, and may it be run?",
            ) from why
        if ended.late:
            raise transport_errors.late(self._name, limit_s, "the script ran")
        return conclude(self._name, lines.end(), ended.stderr)

    def close(self) -> None:
        """There is nothing to let go of."""
