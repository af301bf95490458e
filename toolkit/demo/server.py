"""The SSH side of the nodes: one listening port a node, all in one process.

It behaves as sshd does where that matters to a client: public keys alone, commands run
by ``/bin/sh -c``, a command outlives the connection that began it (and finds its pipes
closed), no exit status for a command that a signal ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, ClassVar

import paramiko
from msgspec import Struct, field
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    MSG_CHANNEL_REQUEST,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

from toolkit.demo.create import environment, run

_CHUNK = 32768  # bytes; no more than one SSH packet holds
_DOWN_S = 0.3  # a reboot lasts no less
_GRACE_S = 5.0  # how long commands may go on once nobody holds the server any more


_Handlers = dict[int, Callable[[paramiko.Channel, paramiko.Message], None]]


class ServedNode(Struct):
    """One node being served."""

    name: str
    place: Path  # has tree, bin and host_key
    host_key: paramiko.PKey
    listener: socket.socket
    port: int
    kept: socket.socket  # bound to that port all the while: a reboot closes the other
    connections: set[paramiko.Transport] = field(default_factory=set)
    commands: set[subprocess.Popen[bytes]] = field(default_factory=set)
    rebooting: bool = False


class Server:
    """Serves nodes until it is stopped."""

    def __init__(self, places: list[Path], client_key: paramiko.PKey, power: Path) -> None:
        """:param power: a FIFO; a node's ``reboot`` writes the node's name into it."""
        self._client_key = client_key
        self._power = power
        os.mkfifo(power, 0o600)
        # For writing too, so that it never reads as ended.
        self._requests = os.fdopen(os.open(power, os.O_RDWR), "r+b", buffering=0)
        self._lock = threading.Lock()
        self._nodes = {place.name: self._open(place) for place in places}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._stopped = threading.Event()

    @property
    def ports(self) -> dict[str, int]:
        return {name: node.port for name, node in self._nodes.items()}

    def serve(self) -> None:
        """Accept connections and carry out reboots; returns once stopped."""
        threading.Thread(target=self._watch_power, daemon=True).start()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        for node in self._nodes.values():
            self._selector.register(node.listener, selectors.EVENT_READ, node)
        while not self._stopped.is_set():
            for key, _ in self._selector.select():
                if key.data is None:
                    self._woken.recv(1)
                    continue
                with contextlib.suppress(OSError):  # the client went away again
                    connection, _ = key.data.listener.accept()
                    threading.Thread(
                        target=self._connection, args=(key.data, connection), daemon=True
                    ).start()

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """Let go of all clients, and of commands that have not ended within ``grace_s``."""
        self._stopped.set()
        self._wake.send(b"x")
        with self._lock:
            connections = [each for node in self._nodes.values() for each in node.connections]
            commands = [each for node in self._nodes.values() for each in node.commands]
        for connection in connections:
            connection.close()
        until = time.monotonic() + grace_s
        for command in commands:
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait(max(0.0, until - time.monotonic()))
            _kill(command)
        self._power.unlink(missing_ok=True)

    # --- one connection ---------------------------------------------------------

    def _connection(self, node: ServedNode, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = _Transport(connection)
        transport.add_server_key(node.host_key)
        with self._lock:
            node.connections.add(transport)
            refused = node.rebooting
        try:
            if not refused:
                transport.start_server(server=_Login(self, node, self._client_key))
                transport.join()
        except (paramiko.SSHException, EOFError, OSError):
            pass  # the client's affair: it sees the connection close
        finally:
            transport.close()
            connection.close()  # a transport that was never started does not do it
            with self._lock:
                node.connections.discard(transport)

    def run(self, node: ServedNode, channel: paramiko.Channel, command: bytes) -> None:
        """Run one command and carry its bytes; blocks until it has ended."""
        with self._lock:
            if node.rebooting:
                channel.close()
                return
            child = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(node.place) | {"GDR_POWER": str(self._power)},
                cwd=node.place / "tree/root",
                start_new_session=True,
            )
            node.commands.add(child)
        _carry(channel, child)
        with self._lock:
            node.commands.discard(child)

    # --- reboots ------------------------------------------------------------------

    def _watch_power(self) -> None:
        with self._requests:
            while not self._stopped.is_set():
                for name in self._requests.read(4096).decode().split():
                    node = self._nodes.get(name)
                    if node is not None and not node.rebooting:
                        node.rebooting = True
                        threading.Thread(target=self._reboot, args=(node,), daemon=True).start()

    def _reboot(self, node: ServedNode) -> None:
        """Refuse, drop, boot, and listen again at the same port."""
        began = time.monotonic()
        self._selector.unregister(node.listener)
        self._wake.send(b"x")
        node.listener.close()
        with self._lock:
            connections, commands = list(node.connections), list(node.commands)
        for connection in connections:
            connection.close()
        for command in commands:
            _kill(command)
        boot(node.place)
        time.sleep(max(0.0, _DOWN_S - (time.monotonic() - began)))
        node.listener = _listen(node.port)
        node.rebooting = False
        self._selector.register(node.listener, selectors.EVENT_READ, node)
        self._wake.send(b"x")

    def _open(self, place: Path) -> ServedNode:
        kept = _bound(0)
        port = kept.getsockname()[1]
        key = paramiko.Ed25519Key.from_private_key_file(str(place / "host_key"))
        return ServedNode(place.name, place, key, _listen(port), port, kept)


def boot(place: Path) -> None:
    """Boot a node; one boot at a time, though two servers may carry the same node."""
    with open(place / "boot.lock", "w") as lock:  # noqa: PTH123  # held, not read
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A boot that fails leaves the node as it was before, which the client will see.
        with contextlib.suppress(subprocess.CalledProcessError, OSError):
            run(place, "boot")


def _bound(port: int) -> socket.socket:
    """Nobody who leaves the choice to the kernel is given its port; ours may be bound to it too."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _listen(port: int) -> socket.socket:
    listener = _bound(port)
    listener.listen(64)
    return listener


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The command and whatever it started in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _carry(channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
    if child.stdin is None or child.stdout is None or child.stderr is None:
        raise ValueError("the command was begun without pipes")
    feeder = threading.Thread(target=_feed, args=(channel, child.stdin), daemon=True)
    errors = threading.Thread(
        target=_pump, args=(child.stderr, channel.sendall_stderr), daemon=True
    )
    feeder.start()
    errors.start()
    _pump(child.stdout, channel.sendall)
    errors.join()
    status = child.wait()
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        if status >= 0:
            channel.send_exit_status(status)
        channel.shutdown_write()
        channel.close()


def _feed(channel: paramiko.Channel, stdin: IO[bytes]) -> None:
    """The client's bytes to the command, until either has enough."""
    with contextlib.suppress(OSError), stdin:
        while data := channel.recv(_CHUNK):
            stdin.write(data)
            stdin.flush()


def _pump(source: IO[bytes], send: Callable[[bytes], None]) -> None:
    """The command's bytes to the client. A client that is gone closes the pipe, as in sshd."""
    with contextlib.suppress(OSError, EOFError), source:
        while data := os.read(source.fileno(), _CHUNK):
            send(data)


class _Login(paramiko.ServerInterface):
    """One key opens the door, and one command is run."""

    def __init__(self, server: Server, node: ServedNode, client_key: paramiko.PKey) -> None:
        self._server = server
        self._node = node
        self._client_key = client_key
        self._user = environment(node.place)["USER"]
        self.asked: dict[int, bytes] = {}

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002  # Paramiko's interface
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == self._user and key == self._client_key
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002  # likewise
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.asked[channel.get_id()] = command
        return True

    def start(self, channel: paramiko.Channel) -> None:
        """Begin what was asked for on this channel, if anything was."""
        command = self.asked.pop(channel.get_id(), None)
        if command is not None:
            arguments = (self._node, channel, command)
            threading.Thread(target=self._server.run, args=arguments, daemon=True).start()


def _answer_then_start(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Begin a command only after the client has been told that it will run.

    Paramiko calls check_channel_exec_request before it answers; a command that began
    there and was quick could end, and close the channel, before the answer.
    """
    channel._handle_request(message)  # type: ignore[attr-defined]  # see _Transport
    login = channel.get_transport().server_object
    if isinstance(login, _Login):
        login.start(channel)


class _Transport(paramiko.Transport):
    """Paramiko has no hook that comes after the answer, but a table of handlers."""

    _channel_handler_table: ClassVar[_Handlers] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]  # likewise
        MSG_CHANNEL_REQUEST: _answer_then_start,
    }
