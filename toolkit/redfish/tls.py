"""One TLS connection to a BMC, which can be looked at and cut from another thread.

urllib3 owns the connection; this is what requests is given in place of its own classes.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import threading
import traceback
from typing import cast

from requests.adapters import HTTPAdapter
from urllib3 import HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPSConnection

from toolkit.errors import BmcCertificate
from toolkit.redfish.access import BmcTrust


class Line:
    """What is known of the connection: its socket, and whose certificate came with it."""

    def __init__(self, name: str, trust: BmcTrust) -> None:
        self.name = name  # the BMC, for sentences
        self.trust = trust
        self.fingerprint = ""  # SHA-256 of the certificate last seen, "" before the first
        self.connected = 0  # how many connections were made
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = self._ended = False

    def hold(self, held: socket.socket | None) -> None:
        """Remember the socket in use; one that comes after the cut is of no use."""
        with self._lock:
            self._socket = held
            if self._cut:
                _shut(held)

    def judge(self, certificate: bytes | None) -> None:
        """Look at the certificate before a word is sent.

        :raises BmcCertificate: it is not one of those that are pinned.
        """
        self.connected += 1
        self.fingerprint = hashlib.sha256(certificate or b"").hexdigest()
        if self.trust.pins and self.fingerprint not in self.trust.pins:
            raise wrong_certificate(self.name, self.fingerprint)

    def cut(self) -> None:
        """End whatever waits on the connection, now and from now on."""
        with self._lock:
            self._cut = True
            _shut(self._socket)

    def mend(self) -> None:
        """The next connection is of use again, unless the line was ended for good."""
        with self._lock:
            self._cut = self._ended

    def end(self) -> None:
        """Cut it for good: the process is about to end."""
        self._ended = True
        self.cut()

    @property
    def was_cut(self) -> bool:
        return self._cut


def wrong_certificate(name: str, fingerprint: str) -> BmcCertificate:
    """The BMC has another certificate than the one that was pinned."""
    return BmcCertificate(
        f"{name}: its certificate is not the one that was pinned: it is sha256:{fingerprint}",
        hint="nothing was sent; compare it on the BMC's console, then pin that one",
    )


class Adapter(HTTPAdapter):
    """Requests' adapter with one connection of ours, and no retries of its own."""

    def __init__(self, line: Line) -> None:
        self._line = line
        # Not to wait for it: one that Ctrl-C took amid an answer does not come back to the pool.
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0, pool_block=False)

    def init_poolmanager(self, *args: int, **kwargs: object) -> None:
        """Requests' own hook; here the pool learns of our connections."""
        super().init_poolmanager(*args, **kwargs)  # type: ignore[arg-type] # handed through
        manager: PoolManager = self.poolmanager
        manager.pool_classes_by_scheme = {"https": _pool(self._line)}


def _pool(line: Line) -> type[HTTPSConnectionPool]:
    class Connection(HTTPSConnection):
        """Tells the line of its socket: first bare, for the handshake, then with TLS."""

        def _new_conn(self) -> socket.socket:
            bare = super()._new_conn()
            line.hold(bare)
            return bare

        def connect(self) -> None:
            try:
                super().connect()
            except OSError as why:
                _close_left(why)
                raise
            spoken = cast("ssl.SSLSocket", self.sock)  # connect() made it
            line.hold(spoken)
            line.judge(spoken.getpeercert(binary_form=True))
            # Who trusts by fingerprint, or said that anybody will do, needs no warning a request.
            self.is_verified = True

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Connection

    return Pool


def _shut(held: socket.socket | None) -> None:
    if held is not None:
        with contextlib.suppress(OSError):  # it is closed already
            held.shutdown(socket.SHUT_RDWR)


def _close_left(why: OSError) -> None:
    """Close what wrap_socket left open: Python 3.11 does not where a reset came before TLS."""
    for frame, _ in traceback.walk_tb(why.__traceback__):
        left = frame.f_locals.get("self")
        if isinstance(left, ssl.SSLSocket):
            left.close()
