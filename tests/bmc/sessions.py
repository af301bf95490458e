"""Who may ask: sessions with a limit and an end, and basic authentication."""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from dataclasses import dataclass

from tests.bmc.persona import Manners

USER, PASSWORD = "operator", "correct horse: battery"  # of every simulator


@dataclass(slots=True)
class Session:
    number: str
    token: str
    used: float  # when it was used last


class Sessions:
    """The sessions of one BMC; its caller holds the lock."""

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.open: dict[str, Session] = {}  # by token
        self.opened = 0  # in all
        self.bad_logins = 0  # in a row

    def right(self, user: object, password: object) -> bool:
        """Whether these may enter; after too many wrong ones nobody may."""
        shut = self.bad_logins >= self.manners.bad_logins
        good = (user, password) == (USER, PASSWORD) and not shut
        self.bad_logins = 0 if good else self.bad_logins + 1
        return good

    def begin(self) -> Session | None:
        """A session; None where there are too many."""
        self._expire()
        if len(self.open) >= self.manners.session_limit:
            return None
        self.opened += 1
        made = Session(str(self.opened), secrets.token_hex(16), time.monotonic())
        self.open[made.token] = made
        return made

    def knows(self, token: str) -> bool:
        self._expire()
        if token in self.open:
            self.open[token].used = time.monotonic()
        return token in self.open

    def end(self, number: str) -> bool:
        """Close a session; False where there is none of that number."""
        found = next((each for each in self.open.values() if each.number == number), None)
        if found:
            del self.open[found.token]
        return found is not None

    def basic(self, header: str) -> bool:
        """Whether an Authorization header lets in; such a request may cost a session."""
        kind, _, words = header.partition(" ")
        if kind.lower() != "basic" or not self.manners.basic:
            return False
        try:
            user, _, password = base64.b64decode(words, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        if not self.right(user, password):
            return False
        return not self.manners.basic_sessions or self.begin() is not None

    def _expire(self) -> None:
        limit = time.monotonic() - self.manners.session_timeout_s
        self.open = {token: each for token, each in self.open.items() if each.used > limit}
