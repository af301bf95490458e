"""HTTP as we allow it towards a BMC: sushy's connector speaks through this session.

Nothing goes anywhere but to the BMC, whatever its answers point to; one connection; a limit
for everything: a word, an answer, its size, all of it. A BMC that is busy is asked again when
it says; a request that may have changed something is never sent twice by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

import requests
from msgspec import Struct
from requests import exceptions as broken

from toolkit import __version__
from toolkit.errors import BmcCertificate, BmcError, BmcLogin, BmcRefused, BmcSilent
from toolkit.plural import sized
from toolkit.redfish.access import BmcTrust, system_ca
from toolkit.redfish.tls import Adapter, Line
from toolkit.untrusted import read_json

_MOST = 64 << 20  # bytes of one answer; the largest registry seen has 3 MB
_REDIRECTS = 3
_BREATH_S = 0.2
_BUSY = frozenset({429, 503})
_BACK_OFF_S = 1.0  # doubled each time, where a BMC does not say when to come again
_LONGEST = 300  # characters of what a BMC says that a sentence holds


def refused(name: str, what: str, answer: requests.Response) -> BmcRefused:
    """The BMC's own words, where it has any, else those of HTTP."""
    said = [*_messages(answer)]
    words = "; ".join(dict.fromkeys(text for _, text in said if text))
    codes = tuple(dict.fromkeys(code for code, _ in said if code))
    told = words or _phrase(answer.status_code)
    return BmcRefused(
        f"{name}: {what}: {answer.status_code} {_line(told)}", answer.status_code, codes=codes
    )


def login_refused(name: str, answer: requests.Response) -> BmcError:
    """A login is refused for its password, or because others hold all sessions."""
    why = refused(name, "login", answer)
    if "SessionLimitExceeded" in why.codes:
        why.hint = "others hold all its sessions; they end by themselves after minutes"
        return why
    return BmcLogin(
        f"{name}: refuses the user or the password",
        hint="not tried again, since BMCs lock after a few; look at --bmc-user and the password",
    )


def redirected(name: str, where: str) -> BmcError:
    return BmcError(
        f"{name}: sends us elsewhere: {_line(where)}",
        hint="not followed: name the BMC itself in --bmc-map or the inventory",
    )


def unreadable(name: str, path: str, answer: requests.Response) -> BmcError:
    """Something answers, and it is not Redfish."""
    start = answer.content.lstrip()[:200].lower()
    kind = "HTML" if b"<html" in start or b"<!doctype" in start else "no JSON"
    return BmcError(
        f"{name}: answers {kind} to {path}",
        hint="is it the BMC's address, and is Redfish switched on there?",
    )


def _messages(answer: requests.Response) -> Iterator[tuple[str, str]]:
    """Pairs of message id without its version, and text, of ExtendedInfo."""
    try:
        body = read_json(answer.content)
    except ValueError:
        return
    error = body.get("error") if isinstance(body, dict) else None
    infos: list[object] = []
    for holder in (error, body):
        found = holder.get("@Message.ExtendedInfo") if isinstance(holder, dict) else None
        infos += found if isinstance(found, list) else [found] if found else []
    if not infos and isinstance(error, dict):
        infos = [{"MessageId": error.get("code"), "Message": error.get("message")}]
    for each in infos[:20]:
        if isinstance(each, dict):
            yield _code(each.get("MessageId")), _text(each)


def _code(message_id: object) -> str:
    return str(message_id or "").rpartition(".")[2]


def _text(info: dict[str, object]) -> str:
    """A message with its arguments, which some leave as %1."""
    text = str(info.get("Message") or _code(info.get("MessageId")))
    arguments = info.get("MessageArgs")
    if isinstance(arguments, list):
        for number, each in enumerate(arguments[:9], start=1):
            text = text.replace(f"%{number}", str(each))
    return text


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _line(text: str) -> str:
    """One line for a sentence, without what moves a terminal's cursor."""
    plain = re.sub(r"[^ -~\u00a0-\uffff]+", " ", text)
    return " ".join(plain.split())[:_LONGEST]


class BmcLimits(Struct, frozen=True):
    """Seconds. A BMC may vanish for minutes while its machine starts: who waits asks again."""

    connect_s: float = 10
    answer_s: float = 30  # between two words of an answer
    total_s: float = 120  # for one thing that is asked of a BMC, with all its requests


class Http(requests.Session):
    """A session of requests that keeps the rules above; every failure is a BmcError."""

    def __init__(self, base: str, trust: BmcTrust, limits: BmcLimits) -> None:
        super().__init__()
        self.name = urlsplit(base).netloc
        self.line = Line(self.name, trust)
        self.limits = limits
        self.requests = 0  # how many were sent
        self._base = base
        self._end = time.monotonic() + limits.total_s
        # Neither proxies nor a .netrc: what reaches a BMC is what the operator said.
        self.trust_env = False
        self.verify = trust.ca or system_ca() or True if trust.verified == "ca" else False
        self.headers["User-Agent"] = f"gdr-toolkit/{__version__}"
        self.adapters.clear()
        self.mount("https://", Adapter(self.line))

    def begin(self, limit_s: float = 0) -> None:
        """What follows is one thing; its time begins now."""
        self.line.mend()
        self._end = time.monotonic() + (limit_s or self.limits.total_s)

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def request(  # type: ignore[override] # sushy names all but two
        self,
        method: str,
        url: str,
        **told: Any,  # noqa: ANN401 what sushy hands through to requests
    ) -> requests.Response:
        """Send one request, follow where it may be followed, wait where the BMC is busy.

        :returns: an answer below 400, or 401 or 406, which sushy knows what to do about.
        :raises BmcError: anything else.
        """
        method, wait = method.upper(), _BACK_OFF_S
        url = self._ours(url)
        told |= {"allow_redirects": False, "stream": True, "verify": self.verify}
        redirects = 0
        while True:
            answer = self._patiently(method, url, told)
            if answer.is_redirect and method == "GET" and redirects < _REDIRECTS:
                url, redirects = self._followed(url, answer), redirects + 1
            elif answer.status_code in _BUSY and (delay := self._delay(method, answer, wait)):
                time.sleep(delay)
                wait *= 2
            else:
                return self._judged(method, url, answer)

    def _ours(self, url: str) -> str:
        """The same place on the BMC: some name themselves in a way that leads elsewhere."""
        parts = urlsplit(url)
        path = parts.path if parts.path.startswith("/") else "/" + parts.path
        return self._base + path + (f"?{parts.query}" if parts.query else "")

    def _followed(self, url: str, answer: requests.Response) -> str:
        there = urljoin(url, answer.headers["Location"])
        if (urlsplit(there).scheme, urlsplit(there).netloc) != ("https", urlsplit(url).netloc):
            raise redirected(self.name, there)
        return self._ours(there)

    def _delay(self, method: str, answer: requests.Response, wait: float) -> float:
        """Seconds until the request may be sent again; 0 where it may not."""
        said = answer.headers.get("Retry-After", "").strip()
        if not said.isdecimal() and method != "GET":
            return 0
        delay = max(float(said), 0.1) if re.fullmatch("[0-9]{1,6}", said) else wait
        if delay >= self.left_s:
            told = f"{self.name}: is busy, and asks to come again in {delay:.0f} s"
            why = BmcRefused(told, answer.status_code)  # nothing was done
            why.hint = "a BMC is busy after a start or under load; try again later"
            raise why
        return delay

    def _patiently(self, method: str, url: str, told: dict[str, Any]) -> requests.Response:
        """One answer; a read whose connection was lost is tried once more, over a new one."""
        try:
            return self._sent(method, url, told)
        except _Lost:
            if method != "GET" or self.line.was_cut or self.left_s <= _BREATH_S:
                raise
        time.sleep(_BREATH_S)  # some drop whoever comes before the last has gone
        return self._sent(method, url, told)

    def _sent(self, method: str, url: str, told: dict[str, Any]) -> requests.Response:
        left = self.left_s
        if left <= 0:
            raise _late(self.name, self.limits.total_s)
        told["timeout"] = (min(self.limits.connect_s, left), min(self.limits.answer_s, left))
        self.requests += 1
        # Each word in time and no end: only another thread can tell that it takes too long.
        watch = threading.Timer(left, self.line.cut)
        watch.daemon = True
        watch.start()
        try:
            with self._failures(url):
                answer = super().request(method, url, **told)
                answer._content = self._content(answer)
                return answer
        finally:
            watch.cancel()

    def _content(self, answer: requests.Response) -> bytes:
        data = bytearray()
        with contextlib.closing(answer):  # one that was cut off is of no use to the next request
            for chunk in answer.iter_content(65536):
                data += chunk
                if len(data) > _MOST:
                    raise BmcError(
                        f"{self.name}: answers more than {sized(_MOST)} to one question",
                        hint="that is no answer of Redfish; look whether it is the BMC's address",
                    )
        return bytes(data)

    def _judged(self, method: str, url: str, answer: requests.Response) -> requests.Response:
        status, path = answer.status_code, urlsplit(url).path
        login = method == "POST" and path.rstrip("/").endswith("/Sessions")
        if login and status in (400, 401, 403):
            raise login_refused(self.name, answer)
        if answer.is_redirect:
            raise redirected(self.name, answer.headers["Location"])
        if status >= 400 and status not in (401, 406):
            raise refused(self.name, f"{method} {path}", answer)
        if method == "GET" and status == 200 and answer.content.lstrip()[:1] not in (b"{", b"["):
            raise unreadable(self.name, path, answer)
        return answer

    @contextmanager
    def _failures(self, url: str) -> Iterator[None]:
        """What requests raises, as what it means."""
        try:
            yield
        except broken.SSLError as why:
            self._certificate(str(why))
        except (broken.ConnectTimeout, broken.ReadTimeout) as why:
            raise BmcSilent(
                f"{self.name}: no answer in time to {urlsplit(url).path}",
                hint="is it the BMC's address? some answer again a few minutes after a reset",
            ) from why
        except (broken.RequestException, OSError, ValueError) as why:
            if self.line.was_cut:
                raise _late(self.name, self.limits.total_s) from why
            if "Read timed out" in str(why):
                raise BmcSilent(f"{self.name}: fell silent amid an answer", hint=_AGAIN) from why
            raise _unreachable(self.name, str(why), self.requests) from why

    def _certificate(self, why: str) -> NoReturn:
        if "EOF" in why:
            raise _Lost(f"{self.name}: hung up amid the handshake", hint=_AGAIN)
        if "CERTIFICATE_VERIFY_FAILED" not in why:
            raise BmcError(
                f"{self.name}: TLS cannot be agreed on: {_reason(why)}",
                hint="is it the port of HTTPS? old firmware speaks old TLS alone: update it",
            )
        raise BmcCertificate(
            f"{self.name}: its certificate is not trusted: {_reason(why)}{self._shown()}",
            hint="nothing was sent; compare the fingerprint, then --bmc-pin it, or --bmc-ca FILE",
        )

    def _shown(self) -> str:
        """The fingerprint of a certificate that was refused, from a look of its own."""
        parts = urlsplit(self._base)
        try:
            seen = ssl.get_server_certificate(
                (parts.hostname or "", parts.port or 443), timeout=self.limits.connect_s
            )
        except (OSError, ValueError):
            return ""
        return f" (sha256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(seen)).hexdigest()})"


_AGAIN = "run again; what was read of other hosts stands"


def _late(name: str, limit_s: float) -> BmcSilent:
    return BmcSilent(
        f"{name}: not done within {limit_s:.0f} s", hint="give it more: --bmc-timeout SECONDS"
    )


class _Lost(BmcError):
    """The connection ended before the answer did."""


def _unreachable(name: str, why: str, sent: int) -> BmcError:
    if "NameResolution" in why or "getaddrinfo" in why or "Failed to resolve" in why:
        return BmcError(f"{name}: no such name", hint="look at --bmc-map and the inventory's bmc")
    if "refused" in why.lower():
        return BmcError(f"{name}: refuses the connection", hint="does its HTTPS port differ?")
    if "unreachable" in why.lower() or "No route" in why:
        return BmcError(f"{name}: cannot be reached from here", hint="is its network routed?")
    amid = "hung up amid an answer" if sent > 1 else "hung up"
    return _Lost(f"{name}: {amid}", hint=_AGAIN)


def _reason(why: str) -> str:
    """What OpenSSL says, without the layers around it."""
    found = re.search(r"(?:verify failed: |\[SSL: \w+\] )([^()']+)", why)
    return " ".join((found[1] if found else "no reason given").split())[:160]
