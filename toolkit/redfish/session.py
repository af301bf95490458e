"""Logged in at one BMC for as long as the block lasts, whichever way it ends."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from http import HTTPStatus
from types import TracebackType
from typing import Self

import sushy

from toolkit.errors import BmcError, BmcLogin, BmcRefused
from toolkit.redfish.find import Resource, parsed, text_of
from toolkit.redfish.http import Http, Limits
from toolkit.redfish.session_registry import Doors
from toolkit.redfish.sushy_session import Inside, enter, log_out
from toolkit.redfish.trust import Login, Trust, base_url

# Some serve the hash of the setup's password among the settings, or the secret of a disk's
# portal: what opens a door is no evidence. Supermicro puts four digits behind each name.
_SECRET = re.compile(
    r'("[\w.:#-]*(?:Password|PasswordSalt|PasswordHash|Passphrase|PrivateKey|Secret)'
    r'(?:[_#][0-9A-Fa-f]{4})?"\s*:\s*")'
    r'(?:[^"\\]|\\.)+(")'
)
_LOGIN_S = 5.0  # that Ctrl-C waits for a login that is under way
_LOGOUT_S = 10.0
_HURRY = Limits(3, 3, 4)  # to log out as the process ends


class Guest:
    """Us at a BMC, while logged in. One thread at a time; ``Doors`` may log out from another."""

    def __init__(
        self,
        address: str,
        login: Login,
        trust: Trust,
        *,
        limits: Limits | None = None,
        doors: Doors | None = None,
    ) -> None:
        """:raises UsageError: the address makes no sense."""
        self.base = base_url(address)
        self.http = Http(self.base, trust, limits or Limits())
        self.name = self.http.name
        self._login = login
        self._doors = doors or Doors()
        self._within: Inside | None = None

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
            done.result()
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        where: TracebackType | None,
    ) -> None:
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
    def session(self) -> tuple[str, str]:
        """Token and path of the session; ("", "") without one."""
        return (self._within.entry.token, self._within.entry.place) if self._within else ("", "")

    @property
    def inside(self) -> Inside:
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
