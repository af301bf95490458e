"""``kubectl exec`` before an API server of ours: a WebSocket, and a process behind it.

Sources: RFC 6455; kubernetes/apimachinery pkg/util/remotecommand, constants (v5.channel.k8s.io: the
first byte of a message is its stream, and 255 closes the stream that its second byte names).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import subprocess
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from urllib.parse import parse_qs, urlsplit

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, CLOSES = 0, 1, 2, 3, 255
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_EXEC = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/exec")
# From namespace, pod, container and words to the words that are run here in their place.
Enter = Callable[[str, str, str, Sequence[str]], Sequence[str]]


def is_exec(handler: BaseHTTPRequestHandler) -> bool:
    upgrade = handler.headers.get("Upgrade", "").lower() == "websocket"
    return upgrade and _EXEC.fullmatch(urlsplit(handler.path).path) is not None


def serve_exec(handler: BaseHTTPRequestHandler, enter: Enter) -> None:
    """Run what was asked for, as a container's runtime would."""
    address = urlsplit(handler.path)
    found, asked = _EXEC.fullmatch(address.path), parse_qs(address.query)
    assert found
    assert PROTOCOL in handler.headers["Sec-WebSocket-Protocol"]
    digest = hashlib.sha1(
        (handler.headers["Sec-WebSocket-Key"] + _GUID).encode(), usedforsecurity=False
    ).digest()
    handler.send_response(101)
    for name, value in (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
        ("Sec-WebSocket-Protocol", PROTOCOL),
    ):
        handler.send_header(name, value)
    handler.end_headers()
    words = enter(found[1], found[2], asked.get("container", [""])[0], asked["command"])
    done = subprocess.run(words, input=_typed(handler.rfile), capture_output=True, check=False)
    _send(handler.wfile, STDOUT, done.stdout)
    _send(handler.wfile, STDERR, done.stderr)
    _send(handler.wfile, ERROR, json.dumps(_status(done.returncode)).encode())
    handler.wfile.write(b"\x88\x02" + struct.pack(">H", 1000))
    handler.wfile.flush()
    handler.close_connection = True


def _status(code: int) -> dict[str, object]:
    if not code:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code)}
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [cause]},
    }  # fmt: skip


def _typed(source: BufferedIOBase) -> bytes:
    """All of its standard input, until that stream is closed."""
    held = b""
    while True:
        message = _message(source)
        if message[:2] == bytes((CLOSES, STDIN)) or not message:
            return held
        if message[0] == STDIN:
            held += message[1:]


def _message(source: BufferedIOBase) -> bytes:
    """The next one of a client, whose messages are masked; b"" at the end."""
    while True:
        head = source.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return b""
        size = head[1] & 127
        if size == 126:
            (size,) = struct.unpack(">H", source.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", source.read(8))
        mask, data = source.read(4), source.read(size)
        if head[0] & 15 in {1, 2, 0}:
            return bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))


def _send(sink: BufferedIOBase, stream: int, data: bytes) -> None:
    message = bytes((stream,)) + data
    sink.write(b"\x82\x7f" + struct.pack(">Q", len(message)) + message)
