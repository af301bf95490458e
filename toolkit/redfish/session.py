"""Logged in at one BMC for as long as the block lasts, whichever way it ends.

Sushy's connector and login, held to our rules.

Sushy would send a request again after a lost connection, try Basic authentication with a
password that was just refused, and log what it met. Here nothing is sent twice that is not
known to be harmless, a password is tried once, and nothing is logged.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, Protocol, Self

import sushy
from msgspec import Struct
from requests import Response
from sushy.auth import SessionAuth
from sushy.connector import Connector
from sushy.exceptions import AccessError

from toolkit.errors import BmcError, BmcLogin, BmcRefused
from toolkit.interrupts import heeded
from toolkit.redfish.access import BmcTrust, Login, base_url
from toolkit.redfish.http import BmcLimits, Http
from toolkit.redfish.resource import Resource, parsed, table_of, text_of

# Every session that is open on any BMC, so that each is closed whichever way the process ends.
# BMCs have few sessions, and keep one that nobody closed for minutes. On Ctrl-C the threads that
# read them are left alone; so whoever owns the run closes what they had opened.
_PATIENCE_S = 5.0  # for all of them together, on the way out


class OpenSession(Protocol):
    """What is open: a Bmc."""

    def slam(self) -> None:
        """End what it waits for, and log out over a connection of its own."""


class SessionRegistry:
    """As a block: whichever way it ends, no session is left. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._moving: set[OpenSession] = set()
        self._open: set[OpenSession] = set()
        self._shut = False

    @contextlib.contextmanager
    def entering(self, door: OpenSession) -> Iterator[None]:
        """A login is under way: until it is through, nobody knows how to undo it.

        :raises KeyboardInterrupt: the run is ending; no further session is opened.
        """
        with self._lock:
            if self._shut:
                raise KeyboardInterrupt
            self._moving.add(door)
        try:
            yield
        except BaseException:
            self._moved(door, opened=False)
            raise
        self._moved(door, opened=True)

    @contextlib.contextmanager
    def leaving(self, door: OpenSession) -> Iterator[None]:
        """A logout is under way: it is waited for, as a login is."""
        with self._lock:
            self._open.discard(door)
            self._moving.add(door)
        try:
            yield
        finally:
            self._moved(door, opened=False)

    def __enter__(self) -> SessionRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; within seconds, whatever BMCs do meanwhile."""
        end = time.monotonic() + _PATIENCE_S
        with self._lock:
            self._shut = True
            # A login that is under way would leave a session that nobody knows of; a logout, one
            # that nobody else would close.
            self._lock.wait_for(lambda: not self._moving, timeout=_PATIENCE_S / 2)
            doors = [*self._open]
            self._open.clear()
        threads = [threading.Thread(target=each.slam, daemon=True) for each in doors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0.1))

    def _moved(self, door: OpenSession, *, opened: bool) -> None:
        with self._lock:
            self._moving.discard(door)
            if opened:
                self._open.add(door)
            self._lock.notify_all()


# Some serve the hash of the setup's password among the settings, or the secret of a disk's
# portal: what opens a door is no evidence. Supermicro puts four digits behind each name.
_SECRET = re.compile(
    r'("[\w.:#-]*(?:Password|PasswordSalt|PasswordHash|Passphrase|PrivateKey|Secret)'
    r'(?:[_#][0-9A-Fa-f]{4})?"\s*:\s*")'
    r'(?:[^"\\]|\\.)+(")'
)
_LOGIN_S = 5.0  # that Ctrl-C waits for a login that is under way
_LOGOUT_S = 10.0
_HURRY = BmcLimits(3, 3, 4)  # to log out as the process ends
logging.getLogger("sushy").setLevel(logging.CRITICAL + 1)  # its words hold what a BMC answered

_NO_SESSIONS = frozenset({404, 405, 501})


class SushyConnector(Connector):  # type: ignore[misc] # sushy has no types
    """Sushy's connector over our session of requests, which alone decides what is sent again."""

    def __init__(self, base: str, http: Http) -> None:
        super().__init__(base, verify=http.verify)
        self.__dict__["_session"] = http  # in place of the one that sushy just made

    def _op(self, method: str, path: str = "", **told: Any) -> Response:  # noqa: ANN401 sushy's own
        told["server_side_retries_left"] = 0
        answer: Response = super()._op(method, path, **told)
        return answer


class SessionEntry(SessionAuth):  # type: ignore[misc] # sushy has no types
    """A session; where the BMC has no sessions at all, the password with each request."""

    def _do_authenticate(self) -> None:
        # A service without sessions may refuse even to say so to who is not let in.
        if not _offers_sessions(self._root_resource.json):
            self._connector.set_http_basic_auth(self._username, self._password)
            return
        try:
            super()._do_authenticate()
        except BmcRefused as why:
            if why.status not in _NO_SESSIONS or self._session_auth_previously_successful:
                raise
            self._connector.set_http_basic_auth(self._username, self._password)

    def refresh_session(self) -> None:
        """A BMC that only means that the user may not has the session still: it is closed."""
        session = self._connector.__dict__["_session"]
        session.headers.pop("X-Auth-Token", None)
        log_out(session, self.token, self.place)
        super().refresh_session()

    @property
    def token(self) -> str:
        """What proves the session; "" without one."""
        return str(self.get_session_key() or "")

    @property
    def place(self) -> str:
        """The session's own path; "" without one."""
        return str(self.get_session_resource_id() or "")


def log_out(http: Http, token: str, place: str) -> None:
    """Not by sushy, which would log in once more to close a session that has ended."""
    if token and place:
        with contextlib.suppress(BmcError):
            http.request("DELETE", place, headers={"X-Auth-Token": token})


def _offers_sessions(root: object) -> bool:
    """Whether the service's root names sessions, in either of the two places."""
    if not isinstance(root, Mapping):
        return True  # what it is, sushy will say
    return "SessionService" in root or "Sessions" in table_of(root, "Links")


class LoggedIn(Struct, frozen=True):
    """What there is once we are logged in."""

    wire: SushyConnector
    entry: SessionEntry
    root: sushy.Sushy


def enter(base: str, http: Http, login: Login) -> LoggedIn:
    """Log in.

    :raises BmcError: anything that stands in the way.
    """
    wire, entry = SushyConnector(base, http), SessionEntry(login.user, login.password)
    try:
        root = sushy.Sushy(base, auth=entry, connector=wire)
    except AccessError as why:
        raise BmcLogin(f"{http.name}: refuses to let us in", hint="look at --bmc-user") from why
    except BmcError:
        raise
    # What sushy makes of answers that are not as it expects.
    except (sushy.exceptions.SushyError, ValueError, TypeError, AttributeError, KeyError) as why:
        raise BmcError(
            f"{http.name}: has no Redfish service that we understand: {type(why).__name__}",
            hint="is it the BMC's address? what it answers: curl -k " + base + "/redfish/v1/",
        ) from why
    return LoggedIn(wire, entry, root)


class Guest:
    """Us at a BMC, while logged in. One thread at a time; ``Doors`` may log out from another."""

    def __init__(
        self,
        address: str,
        login: Login,
        trust: BmcTrust,
        *,
        limits: BmcLimits | None = None,
        doors: SessionRegistry | None = None,
    ) -> None:
        """:raises UsageError: the address makes no sense."""
        self.base = base_url(address)
        self.http = Http(self.base, trust, limits or BmcLimits())
        self.name = self.http.name
        self._login = login
        self._doors = doors or SessionRegistry()
        self._within: LoggedIn | None = None

    def __enter__(self) -> Self:
        """:raises BmcError: it cannot be reached, is not trusted, or does not let us in."""
        if threading.current_thread() is not threading.main_thread():
            self._enter()
            return self
        # Ctrl-C comes to the main thread alone: amid a login it would leave a session open that
        # nobody knows how to close. So the login is another's, and is seen through.
        done: Future[None] = Future()
        thread = threading.Thread(target=self._enter_for, args=(done,), daemon=True)
        thread.start()
        try:
            heeded(done)
        except BmcError:
            raise
        except BaseException:
            thread.join(_LOGIN_S)
            self.leave()
            raise
        return self

    def _enter(self) -> None:
        self.http.begin()
        with self._doors.entering(self):
            try:
                self._within = enter(self.base, self.http, self._login)
            except BaseException:
                self.http.close()
                raise

    def _enter_for(self, done: Future[None]) -> None:
        try:
            self._enter()
        # Whatever it is, it is for whoever waits.
        except BaseException as why:
            done.set_exception(why)
        else:
            done.set_result(None)

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Log out, however things stand; a BMC that does not answer ends the session by itself."""
        with self._doors.leaving(self):
            within, self._within = self._within, None
            if within is not None:
                within.root._auth = None  # or it would log out once more when it is collected
                self.http.begin(_LOGOUT_S)
                log_out(self.http, within.entry.token, within.entry.place)
            self.http.close()

    def slam(self) -> None:
        """Log out from another thread, over a new connection; whoever reads here is cut off."""
        within, self._within = self._within, None
        if within is None:
            return  # its own thread logs out just now
        self.http.line.end()
        within.root._auth = None
        away = Http(self.base, self.http.line.trust, _HURRY)
        log_out(away, within.entry.token, within.entry.place)
        away.close()

    @contextlib.contextmanager
    def plainly(self, what: str) -> Iterator[None]:
        """What sushy raises, as what it means.

        :param what: "PATCH /redfish/v1/...", for the sentence.
        :raises BmcLogin: the password, which goes with each request, is refused.
        :raises BmcRefused: the user was let in, a new session too, and may not do this.
        """
        try:
            yield
        except sushy.exceptions.HTTPError as why:
            status = int(why.status_code or 0)
            if status == HTTPStatus.UNAUTHORIZED and self.http.auth is not None:
                raise BmcLogin(
                    f"{self.name}: refuses the user or the password",
                    hint="not tried again; look at --bmc-user and the password",
                ) from why
            told = "also in a new session" if status == HTTPStatus.UNAUTHORIZED else "refused"
            raise BmcRefused(f"{self.name}: {what}: {status}, {told}", status) from why
        except sushy.exceptions.SushyError as why:
            raise BmcError(
                f"{self.name}: {what}: {type(why).__name__}",
                hint="look at the BMC's own page, and try again",
            ) from why

    @property
    def inside(self) -> LoggedIn:
        """:raises BmcError: outside the block there is no session."""
        if self._within is None:
            raise BmcError(f"{self.name}: the session was closed", hint="run again")
        return self._within

    def get(self, path: str) -> Resource:
        """One resource.

        :raises BmcError: there is none, or it cannot be read.
        """
        with self.plainly(f"GET {path}"):
            answer = self.inside.wire.get(path)
        text = _SECRET.sub(r"\1hidden\2", answer.content.decode("utf-8", "surrogateescape"))
        text = text.rstrip("\n") + "\n"
        body = parsed(self.name, path, text)
        etag = answer.headers.get("ETag") or text_of(body, "@odata.etag")
        return Resource(path, text, body, etag)
