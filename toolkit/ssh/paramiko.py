"""The first transport: Paramiko, one connection, one exec a script."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolkit.errors import FloodError, TransportError
from toolkit.hosts.host import Host
from toolkit.ssh import become, transport_errors
from toolkit.ssh.become import Become
from toolkit.ssh.connection import Connection, Deadline
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import GATHERED, Hearing, Stream
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.stream import Lines, conclude
from toolkit.ssh.transport import Result, Sink, quiet

if TYPE_CHECKING:
    import paramiko
else:
    from toolkit.ssh import late as paramiko

_CHUNK = 32768
_TICK_S = 0.5  # how often a silent channel is looked at


class SshTransport:
    """Runs scripts over SSH. See ``Transport`` for what it promises."""

    def __init__(
        self,
        host: Host,
        *,
        config: SshConfig | None = None,
        credentials: Credentials | None = None,
        become: bool = True,
        wrapped: bool = False,
        hearing: Hearing | None = None,
    ) -> None:
        self._host = host
        self._config = config if config is not None else SshConfig.load()
        self._credentials = credentials or Credentials()
        self._become = Become(become, self._credentials.become_password, wrapped)
        self._hearing = hearing or Hearing(host.name)
        self._connection: Connection | None = None

    @property
    def name(self) -> str:
        return self._host.name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        lines = Lines(sink, self._hearing)
        with self._deadline(limit_s) as watch:
            stderr = self._run(script, lines, watch)
            if watch.expired:
                raise EOFError
            return conclude(self.name, lines.end(), stderr)

    def greet(self, *, limit_s: float = 60) -> None:
        """Compare the node's key with those that are known; nobody logs in there.

        :raises HostKeyError: it is not known, with the key where none of the node's was.
        :raises TransportError: likewise, and for what stood in the way.
        """
        with self._deadline(limit_s) as watch:
            self._connection = Connection()
            watch.guard(self._connection.close)
            target = self._config.target(self._host)
            self._connection.open(target, self._credentials, watch, login=False)
        self.close()

    @contextlib.contextmanager
    def _deadline(self, limit_s: float) -> Iterator[Deadline]:
        """What goes wrong within is told in a sentence, and the connection is given up."""
        finished = False
        with Deadline(limit_s) as watch:
            try:
                yield watch
                finished = True
            except (TransportError, paramiko.SSHException, EOFError, OSError) as why:
                if watch.expired:
                    raise transport_errors.late(self.name, limit_s, watch.doing) from why
                if isinstance(why, TransportError):
                    raise
                raise self._flooded() or transport_errors.cut(self.name, watch.doing) from why
            finally:
                if not finished:  # also for KeyboardInterrupt, and for a sink that raises
                    self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, script: str, lines: Lines, watch: Deadline) -> bytearray:
        connection = self._connected(watch)
        channel = connection.transport.open_session(timeout=watch.left_s)
        with contextlib.closing(channel):
            channel.settimeout(_TICK_S)
            watch.doing = "the script was started"
            channel.exec_command(self._become.command)
            watch.doing = "the script ran"
            stderr = Stream(self._hearing, "stderr")
            _send(channel, self._become.feed(script), lines, stderr)
            if lines.at_once:  # until the mark of the end
                ahead = channel.in_stderr_buffer
                connection.gather(lambda: len(ahead) + len(stderr.data) < GATHERED)
            _listen(channel, lines, stderr)
            connection.gather(None)
            return stderr.data

    def _flooded(self) -> FloodError | None:
        return self._connection.flooded if self._connection is not None else None

    def _connected(self, watch: Deadline) -> Connection:
        if self._connection is not None and not self._connection.alive:
            self.close()  # the node hung up since the last script
        if self._connection is not None:
            watch.guard(self._connection.close)
            return self._connection
        self._connection = Connection()
        watch.guard(self._connection.close)
        self._connection.open(self._config.target(self._host), self._credentials, watch)
        return self._connection


def _send(channel: paramiko.Channel, data: bytes, lines: Lines, stderr: Stream) -> None:
    """Feed stdin, and read meanwhile: a node that talks while it listens must not block us."""
    sent = 0
    while sent < len(data):
        try:
            count = channel.send(data[sent : sent + _CHUNK])
        except TimeoutError:
            count = -1
        except OSError:
            return  # it does not listen any more; what it said tells why
        if count == 0:
            return
        sent += max(count, 0)
        while channel.recv_ready():
            lines.feed(channel.recv(_CHUNK))
        _drain(channel, stderr)
    with contextlib.suppress(OSError):
        channel.shutdown_write()


def _listen(channel: paramiko.Channel, lines: Lines, stderr: Stream) -> None:
    """Read both streams to their ends, or until the script has ended and all is quiet.

    A process that a script left behind may hold a stream open for ever. The mark of the end
    comes by the other stream, and may overtake what was said before it: only a whole tick
    without a byte after the mark is quiet.
    """
    stdout_open, ended = True, False
    while True:
        try:
            data = channel.recv(_CHUNK) if stdout_open else channel.recv_stderr(_CHUNK)
        except TimeoutError:
            if ended:
                return
            _drain(channel, stderr)
            ended = become.read_marks(stderr.data[-64:].decode("latin-1")).status is not None
            continue
        if not stdout_open:
            stderr.feed(data)
            if not data:
                return
        elif data:
            lines.feed(data)
            _drain(channel, stderr)
        else:
            stdout_open = False


def _drain(channel: paramiko.Channel, stderr: Stream) -> None:
    while channel.recv_stderr_ready():
        stderr.feed(channel.recv_stderr(_CHUNK))
