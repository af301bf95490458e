"""Sushy's connector and login, held to our rules.

Sushy would send a request again after a lost connection, try Basic authentication with a
password that was just refused, and log what it met. Here nothing is sent twice that is not
known to be harmless, a password is tried once, and nothing is logged.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sushy
from requests import Response
from sushy.auth import SessionAuth
from sushy.connector import Connector
from sushy.exceptions import AccessError

from toolkit.errors import BmcError, BmcLogin, BmcRefused
from toolkit.redfish.http import Http
from toolkit.redfish.trust import Login

logging.getLogger("sushy").setLevel(logging.CRITICAL + 1)  # its words hold what a BMC answered

_NO_SESSIONS = frozenset({404, 405, 501})


class Wire(Connector):  # type: ignore[misc] # sushy has no types
    """Sushy's connector over our session of requests, which alone decides what is sent again."""

    def __init__(self, base: str, http: Http) -> None:
        super().__init__(base, verify=http.verify)
        self.__dict__["_session"] = http  # in place of the one that sushy just made

    def _op(self, method: str, path: str = "", **told: Any) -> Response:  # noqa: ANN401 sushy's own
        """Any: what sushy hands through."""
        told["server_side_retries_left"] = 0
        answer: Response = super()._op(method, path, **told)
        return answer


class Entry(SessionAuth):  # type: ignore[misc] # sushy has no types
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
    links = root.get("Links")
    return "SessionService" in root or (isinstance(links, Mapping) and "Sessions" in links)


@dataclass(frozen=True, slots=True)
class Inside:
    """What there is once we are logged in."""

    wire: Wire
    entry: Entry
    root: sushy.Sushy


def enter(base: str, http: Http, login: Login) -> Inside:
    """Log in.

    :raises BmcError: anything that stands in the way.
    """
    wire, entry = Wire(base, http), Entry(login.user, login.password)
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
    return Inside(wire, entry, root)
