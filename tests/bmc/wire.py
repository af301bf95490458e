"""HTTP over TLS on loopback, with the faults that controllers and their networks have."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.bmc.asked import Asked, Log, Reply
from tests.bmc.faults import Fault, Faults, Kind
from tests.bmc.service import Service

_HTML = b"<!DOCTYPE html><html><head><title>Login</title></head><body>Sign in</body></html>"
_PATIENCE_S = 60.0  # a client that says nothing for so long is gone
_NEVER_DONE = (Kind.BUSY, Kind.STATUS, Kind.HTML, Kind.GARBAGE, Kind.LIST, Kind.REDIRECT, Kind.HUGE)


class Wire(ThreadingHTTPServer):
    """One listening port. ``context`` None means that it speaks HTTP where TLS is due."""

    daemon_threads = True
    block_on_close = True
    request_queue_size = 64

    def __init__(
        self, service: Service, log: Log, faults: Faults, context: ssl.SSLContext | None
    ) -> None:
        self.service, self.log, self.faults, self.context = service, log, faults, context
        self.closing = threading.Event()
        self.surprises: list[BaseException] = []  # errors of the simulator's own
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(_PATIENCE_S)
        many = self.log.connected(1)
        try:
            if self._refuses(many):
                return
            with self._secured(request) as stream:
                self._serve(stream, client_address)
        finally:
            self.log.connected(-1)

    def _refuses(self, many: int) -> bool:
        limit = self.service.manners.connections
        return bool(limit and many > limit) or self.service.away

    def _secured(self, request: socket.socket) -> socket.socket:
        if self.context is None:
            return request
        return self.context.wrap_socket(request, server_side=True)

    def _serve(self, stream: socket.socket, client_address: Any) -> None:
        with self._lock:
            self._open.add(stream)
        try:
            _Handler(stream, client_address, self)
        finally:
            with self._lock:
                self._open.discard(stream)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What a client or a closing does to us is no error; anything else is one of ours."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.surprises.append(error)

    def end(self) -> None:
        """Stop listening, and cut what is open."""
        self.closing.set()
        self.shutdown()
        with self._lock:
            for stream in self._open:
                _cut(stream)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Wire
    protocol_version = "HTTP/1.1"
    server_version = "Simulator"
    sys_version = ""
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815 # http.server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # its own name
        """The log is ours."""

    def _serve(self) -> None:
        asked = self._read()
        fault = self.server.faults.take(asked)
        if self.server.closing.wait(self.server.service.manners.latency_s):
            return self._leave(asked)
        if self.server.service.away:
            return self._leave(asked)
        if fault is not None:
            return self._fail(asked, fault)
        reply = self.server.service.answer(asked)
        self.server.log.add(asked, reply.status)
        return self._send(reply)

    def _read(self) -> Asked:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Asked(self.command, self.path, headers, body)

    def _send(self, reply: Reply, write: Callable[[bytes], Any] | None = None) -> None:
        body = b"" if reply.body is None else json.dumps(reply.body, indent=1).encode()
        self._head(reply.status, len(body), dict(reply.headers))
        if self.command != "HEAD":
            (write or self.wfile.write)(body)

    def _head(
        self, status: int, length: int, headers: dict[str, str], kind: str = "application/json"
    ) -> None:
        self.send_response(status)
        self.send_header("OData-Version", "4.0")
        if self.close_connection:
            self.send_header("Connection", "close")
        if length and status != 204:
            self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _leave(self, asked: Asked) -> None:
        """Cut the connection; nobody is told why."""
        self.server.log.add(asked, 0)
        self.close_connection = True
        _cut(self.connection)

    def _fail(self, asked: Asked, fault: Fault) -> None:
        if fault.kind is Kind.HANG:
            self.server.closing.wait()
            return self._leave(asked)
        if fault.kind is Kind.DROP:
            return self._leave(asked)
        if fault.kind in _NEVER_DONE:
            return self._instead(asked, fault)
        reply = self.server.service.answer(asked)
        if fault.kind is Kind.DROP_AFTER:
            return self._leave(asked)
        self.server.log.add(asked, reply.status)
        if fault.kind is Kind.SLOW:
            return self._send(reply, lambda body: self._drip(body, fault.slow_s))
        self._send(reply, lambda body: self.wfile.write(body[: len(body) // 2]))
        self.close_connection = True
        return _cut(self.connection)

    def _instead(self, asked: Asked, fault: Fault) -> None:
        """An answer that is not the one to the question."""
        headers: dict[str, str] = {}
        status, body, kind = 200, b"", "application/json"
        match fault.kind:
            case Kind.BUSY:
                status = 503
                if fault.retry_after_s >= 0:
                    headers["Retry-After"] = str(fault.retry_after_s)
            case Kind.STATUS:
                status = fault.code
            case Kind.REDIRECT:
                status, headers["Location"] = 302, fault.location
            case Kind.HTML:
                body, kind = _HTML, "text/html"
            case Kind.LIST:
                body = b"[1, 2, 3]"
            case Kind.GARBAGE:
                body = b'{"Name": "half of'
        self.server.log.add(asked, status)
        if fault.kind is Kind.HUGE:
            return self._flood()
        self._head(status, len(body), headers, kind)
        self.wfile.write(body)
        return None

    def _drip(self, body: bytes, over_s: float) -> None:
        step = max(1, len(body) // 10)
        for begin in range(0, len(body), step):
            self.wfile.write(body[begin : begin + step])
            self.wfile.flush()
            time.sleep(over_s / 10)

    def _flood(self) -> None:
        """JSON that does not end; who reads it all has no limit."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b'{"Attributes": {"A": "')
        while not self.server.closing.is_set():
            self.wfile.write(b"x" * 65536)


def _cut(stream: socket.socket) -> None:
    """End a connection without the farewell of TLS."""
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has gone already
