"""A script over SSH: what is sent and heard, and what each way to break off amounts to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paramiko
import pytest

from toolkit.errors import FloodError, LoginError, TransportError
from toolkit.hosts.host import Host
from toolkit.ssh import paramiko as ssh
from toolkit.ssh.connection import Deadline
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import GATHERED, Hearing, Stream
from toolkit.ssh.paramiko import SshTransport, _drain, _listen, _send
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.stream import Lines, conclude
from toolkit.ssh.transport import Sink, Whole, quiet

LATE = TimeoutError()
ENDED = b"gdr-begin\nerr\n\ngdr-end 3\n"


class Channel:
    """Says what lies here, in that order; TimeoutError where nothing came for a tick."""

    def __init__(
        self, *out: bytes | Exception, err: tuple[bytes | Exception, ...] = (), takes: Any = ()
    ) -> None:
        self.out, self.err, self.takes = [*out], [*err], [*takes]
        self.sent, self.command = b"", ""
        self.in_stderr_buffer = bytearray()
        self.calls: list[object] = []

    def _next(self, left: list[bytes | Exception]) -> bytes:
        if not left:
            return b""
        told = left.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    def recv(self, _: int) -> bytes:
        return self._next(self.out)

    def recv_stderr(self, _: int) -> bytes:
        return self._next(self.err)

    def recv_ready(self) -> bool:
        return bool(self.out) and self.out[0] == b"early\n"

    def recv_stderr_ready(self) -> bool:
        return bool(self.err) and isinstance(self.err[0], bytes) and self.err[0] != b""

    def send(self, data: bytes) -> int:
        count: Any = self.takes.pop(0) if self.takes else len(data)
        if isinstance(count, Exception):
            raise count
        self.sent += data[:count]
        return min(int(count), len(data))

    def shutdown_write(self) -> None:
        self.calls.append("shut")

    def settimeout(self, seconds: float) -> None:
        self.calls.append(seconds)

    def exec_command(self, command: str) -> None:
        self.command = command

    def close(self) -> None:
        self.calls.append("closed")


@pytest.mark.parametrize(
    ("takes", "sent", "shut"),
    [
        ((), b"0123456789", True),
        ((4, 3), b"0123456789", True),
        ((4, LATE, 2), b"0123456789", True),
        ((4, 0), b"0123", False),
        ((4, OSError()), b"0123", False),
    ],
)
def test_a_script_is_fed_as_it_is_taken(takes: tuple[Any, ...], sent: bytes, shut: bool) -> None:
    channel: Any = Channel(takes=takes)
    _send(channel, b"0123456789", Lines(quiet), Stream(Hearing("n"), "stderr"))
    assert (channel.sent, channel.calls) == (sent, ["shut"] * shut)


def test_what_is_sent_goes_in_chunks() -> None:
    channel: Any = Channel()
    sizes: list[int] = []
    send = channel.send

    def noted(data: bytes) -> int:
        sizes.append(len(data))
        count: int = send(data)
        return count

    channel.send = noted
    _send(channel, b"x" * 70000, Lines(quiet), Stream(Hearing("n"), "stderr"))
    assert sizes == [32768, 32768, 4464]


def test_a_node_that_talks_while_it_listens_is_heard() -> None:
    channel: Any = Channel(b"early\n", b"early\n", b"late\n", err=(b"a", b"b"))
    lines, stderr = Lines(quiet), Stream(Hearing("n"), "stderr")
    _send(channel, b"data", lines, stderr)
    assert lines.end() == "early\nearly\n"
    assert stderr.data == b"ab"
    _drain(channel, stderr)
    assert stderr.data == b"ab"


@pytest.mark.parametrize(
    ("out", "err", "stdout", "stderr"),
    [
        ((b"a\n", b"b\n", b""), (b"x", b"y", b""), "a\nb\n", b"xy"),
        ((LATE, b"a\n", LATE, b""), (LATE, b"x", b""), "a\n", b"x"),
        # Something holds stdout open for ever; a whole tick without a byte is the end.
        ((b"a\n", LATE, b"b\n", LATE, b"c\n"), (ENDED,), "a\nb\n", ENDED),
        ((LATE, LATE, b"c\n"), (ENDED[:-3], ENDED[-3:]), "", ENDED),
        ((LATE, LATE, b"c\n", b""), (b"no end", b""), "c\n", b"no end"),
        # Or stderr alone.
        ((b"",), (ENDED, LATE, LATE, b"more"), "", ENDED),
    ],
)
def test_both_streams_are_read_to_their_ends(
    out: tuple[Any, ...], err: tuple[Any, ...], stdout: str, stderr: bytes
) -> None:
    channel: Any = Channel(*out, err=err)
    lines, told = Lines(quiet), Stream(Hearing("n"), "stderr")
    _listen(channel, lines, told)
    assert lines.end() == stdout
    assert told.data == stderr


class Opened:
    """A connection that is there."""

    made: list[Opened] = []  # noqa: RUF012 # each test lays its own
    channel: Channel | Exception = Channel()
    fails: Exception | None = None
    flooded: FloodError | None = None

    def __init__(self) -> None:
        self.alive, self.closed = True, 0
        self.words: tuple[object, ...] = ()
        self.awaited: Callable[[], bool] | None = None
        Opened.made.append(self)

    @property
    def transport(self) -> Opened:
        return self

    def open(self, *words: object) -> None:
        self.words = words
        if self.fails:
            raise self.fails

    def gather(self, awaited: Callable[[], bool] | None) -> None:
        self.awaited = awaited

    def open_session(self, timeout: float) -> Channel:
        assert 0 < timeout <= 120
        if isinstance(self.channel, Exception):
            raise self.channel
        return self.channel

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "Connection", Opened)
    monkeypatch.setattr(Opened, "made", [])


def transport(monkeypatch: pytest.MonkeyPatch, channel: Channel | Exception) -> SshTransport:
    monkeypatch.setattr(Opened, "channel", channel)
    given = Credentials(password="pw", become_password="sudo")  # noqa: S106 of nobody
    return SshTransport(Host("gpu7"), config=SshConfig(), credentials=given, become=False)


def good() -> Channel:
    return Channel(b"out\n", err=(ENDED,))


@pytest.mark.parametrize("sink", [quiet, Whole(), [].append])
def test_where_nobody_waits_for_a_line_much_is_waited_for_until_the_mark(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool | None] = []

    def listen(channel: Channel, lines: Lines, stderr: Stream) -> None:
        stderr.feed(ENDED)
        for ahead in (b"", b" " * GATHERED):
            channel.in_stderr_buffer += ahead
            awaited = Opened.made[-1].awaited
            seen.append(awaited and awaited())

    monkeypatch.setattr(ssh, "_listen", listen)
    transport(monkeypatch, good()).run("script\n", sink=sink)
    listened = not isinstance(sink, Whole) and sink is not quiet
    assert seen == ([None, None] if listened else [True, False])
    assert Opened.made[-1].awaited is None


def test_a_script_has_a_connection_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    on = transport(monkeypatch, good())
    lines: list[str] = []
    result = on.run("script\n", sink=lines.append)
    assert (on.name, result.exit, result.stdout, result.stderr) == ("gpu7", 3, "out\n", "err\n")
    assert lines == ["out"]
    channel: Any = Opened.channel
    assert channel.sent == b"{\nscript\n\n}\n"
    assert channel.calls == [0.5, "shut", "closed"]
    assert channel.command == on._become.command
    assert "sudo" not in channel.command
    [made] = Opened.made
    target, credentials, _watch = made.words
    assert target == SshConfig().target(Host("gpu7"))
    assert isinstance(credentials, Credentials)
    assert credentials.password == "pw"  # noqa: S105 of nobody
    monkeypatch.setattr(Opened, "channel", good())
    on.run("script\n")
    assert len(Opened.made) == 1
    assert made.closed == 0
    made.alive = False
    monkeypatch.setattr(Opened, "channel", good())
    on.run("script\n")
    assert (len(Opened.made), made.closed) == (2, 1)
    on.close()
    on.close()
    assert Opened.made[1].closed == 1


@pytest.mark.parametrize("where", ["open", "session"])
@pytest.mark.parametrize("why", [paramiko.SSHException("x"), EOFError(), OSError("x")])
def test_a_connection_that_breaks(
    monkeypatch: pytest.MonkeyPatch, where: str, why: Exception
) -> None:
    on = transport(monkeypatch, good() if where == "open" else why)
    monkeypatch.setattr(Opened, "fails", why if where == "open" else None)
    with pytest.raises(TransportError) as raised:
        on.run("script\n")
    assert str(raised.value) == "gpu7: the connection was lost while connecting"
    assert Opened.made[0].closed == 1
    monkeypatch.setattr(Opened, "fails", None)
    monkeypatch.setattr(Opened, "channel", good())
    assert on.run("script\n").exit == 3


def test_what_a_connection_says_of_itself_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    on = transport(monkeypatch, LoginError("no"))
    with pytest.raises(LoginError, match="no"):
        on.run("script\n")
    assert Opened.made[0].closed == 1


@pytest.mark.parametrize("channel", [good(), OSError(), LoginError("x")])
def test_time_that_is_up_is_so_whatever_came(
    monkeypatch: pytest.MonkeyPatch, channel: Channel | Exception
) -> None:
    on = transport(monkeypatch, channel)
    monkeypatch.setattr(Deadline, "expired", property(lambda _: True))
    with pytest.raises(TransportError, match="gpu7: no answer within 7 s while ") as raised:
        on.run("script\n", limit_s=7)
    doing = "the script ran" if isinstance(channel, Channel) else "connecting"
    assert str(raised.value).endswith(doing)
    assert Opened.made[0].closed >= 1


def test_whoever_stops_listening_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(_: str) -> None:
        raise KeyboardInterrupt

    on = transport(monkeypatch, good())
    with pytest.raises(KeyboardInterrupt):
        on.run("script\n", sink=stops)
    assert Opened.made[0].closed == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "gpu7: the connection was lost while the script was started"),
        (b" \n", "gpu7: the connection was lost while the script was started"),
        (b"gdr-begin\nerr", "gpu7: the connection was lost while the script ran"),
        (
            b"motd\n " + b"x" * 300 + b" \n\n",
            "gpu7: its login shell did not start the script: " + "x" * 200,
        ),
    ],
)
def test_a_script_whose_end_was_not_seen(said: bytes, told: str) -> None:
    with pytest.raises(TransportError) as raised:
        conclude("gpu7", "", said)
    assert str(raised.value) == told
