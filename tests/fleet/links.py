"""Bad links: a TCP relay that cuts or stalls at a byte, and a server that never answers."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class Relay:
    """Relays to ``port``; after ``limit`` bytes from the server it cuts, or forwards no more."""

    def __init__(self, port: int, *, limit: int | None = None, stall: bool = False) -> None:
        self._to = port
        self._limit = limit
        self._stall = stall
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopped = threading.Event()
        self.port = int(self._listener.getsockname()[1])
        self.relayed = 0  # bytes from the server, over all connections
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Relay:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        address = ("127.0.0.1", self._to)
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(address) as server,
        ):
            self._relay(client, server)

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        left = self._limit
        while not self._stopped.is_set():
            ready, _, _ = select.select([client, server], [], [], 0.1)
            for source in ready:
                if source is server and left == 0:
                    return
                data = source.recv(65536 if left is None or source is client else left)
                if not data:
                    return
                if source is client:
                    server.sendall(data)
                    continue
                client.sendall(data)
                self.relayed += len(data)
                left = None if left is None else left - len(data)
                if left == 0 and self._stall:
                    self._stopped.wait()
                if left == 0:
                    return


class Mute:
    """Accepts, says ``greeting``, and never answers."""

    def __init__(self, greeting: bytes = b"") -> None:
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._taken: list[socket.socket] = []
        self._met = threading.Event()
        self._thread = threading.Thread(target=self._accept)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Mute:
        self._thread.start()
        return self

    def wait_for_client(self, limit_s: float) -> bool:
        """Whether somebody has connected by then."""
        return self._met.wait(limit_s)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for sock in self._taken:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._taken.append(sock)
            self._met.set()
            sock.sendall(self._greeting)
