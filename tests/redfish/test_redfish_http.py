"""What a BMC answers or fails to, as the one sentence that a reader gets of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator

import pytest
import requests
from requests import exceptions as broken

from toolkit.errors import BmcCertificate, BmcError, BmcLogin, BmcRefused, BmcSilent
from toolkit.redfish import http
from toolkit.redfish.access import BmcTrust
from toolkit.redfish.http import BmcLimits, Http

HTTPS = "https://bmc1:8443"


def answer(status: int, body: object = "", **headers: str) -> requests.Response:
    found = requests.Response()
    found.status_code = status
    text = body if isinstance(body, str) else json.dumps(body)
    found.raw = io.BytesIO(text.encode())
    found.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return found


class Sent:
    """What goes out, and what comes of it: an answer each, or what requests raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.urls: list[str] = []
        self.slept: list[float] = []
        self._comes: Iterator[requests.Response | Exception] = iter(())
        monkeypatch.setattr("toolkit.redfish.http.time.sleep", self.slept.append)
        monkeypatch.setattr("ssl.get_server_certificate", self._no_certificate)
        monkeypatch.setattr(requests.Session, "request", self._request)

    def ask(self, *comes: requests.Response | Exception, method: str = "get") -> requests.Response:
        self._comes = iter(comes)
        session = Http(HTTPS, BmcTrust(insecure=True), BmcLimits())
        session.begin()
        return session.request(method, "redfish/v1/Systems?$top=1")

    def _request(self, method: str, url: str, **told: object) -> requests.Response:
        assert method.isupper()
        assert (told["allow_redirects"], told["stream"], told["verify"]) == (False, True, False)
        self.urls.append(url)
        comes = next(self._comes)
        if isinstance(comes, Exception):
            raise comes
        return comes

    def _no_certificate(self, *_: object, **__: object) -> str:
        raise OSError


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


def lost(text: str) -> Exception:
    return broken.ConnectionError(text)


def bad_tls(text: str) -> Exception:
    return broken.SSLError(text)


@pytest.mark.parametrize(
    ("comes", "kind", "told", "tries"),
    [
        (lost("NameResolutionError"), BmcError, ("no such name", "--bmc-map"), 1),
        (lost("getaddrinfo failed"), BmcError, ("no such name", "--bmc-map"), 1),
        (lost("Failed to resolve 'x'"), BmcError, ("no such name", "--bmc-map"), 1),
        (lost("[Errno 111] Connection REFUSED"), BmcError, ("refuses the conn", "HTTPS port"), 1),
        (lost("Network is Unreachable"), BmcError, ("cannot be reached from", "routed"), 1),
        (lost("No route to host"), BmcError, ("cannot be reached from here", "routed"), 1),
        (lost("Read timed out."), BmcSilent, ("fell silent amid an answer", "run again"), 1),
        (lost("reset by peer"), BmcError, ("hung up amid an answer", "run again"), 2),
        (OSError("reset by peer"), BmcError, ("hung up amid an answer", "run again"), 2),
        (broken.ConnectTimeout(), BmcSilent, ("in time to /redfish/v1/S", "after a reset"), 1),
        (broken.ReadTimeout(), BmcSilent, ("in time to /redfish/v1/S", "after a reset"), 1),
        (bad_tls("EOF occurred"), BmcError, ("hung up amid the handshake", "run again"), 2),
        (bad_tls("[SSL: WRONG_VERSION] wrong version (_ssl.c:1)"), BmcError,
         ("TLS cannot be agreed on: wrong version", "old firmware"), 1),
        (bad_tls("odd"), BmcError, ("agreed on: no reason given", "old firmware"), 1),
        (bad_tls("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed (_ssl)"),
         BmcCertificate, ("verify failed: self-signed", "--bmc-pin it, or --bmc-ca"), 1),
    ],
)  # fmt: skip
def test_what_ends_a_connection_is_told_by_its_cause(
    sent: Sent, comes: Exception, kind: type[BmcError], told: tuple[str, str], tries: int
) -> None:
    with pytest.raises(kind) as why:
        sent.ask(comes, comes)
    says, hint = told
    assert str(why.value).startswith("bmc1:8443: ")
    assert says in str(why.value)
    assert hint in why.value.hint
    assert sent.urls == [f"{HTTPS}/redfish/v1/Systems?$top=1"] * tries


def test_what_may_have_changed_something_is_never_sent_twice(sent: Sent) -> None:
    with pytest.raises(BmcError, match=r"bmc1:8443: hung up$"):
        sent.ask(lost("reset by peer"), method="patch")
    assert len(sent.urls) == 1


@pytest.mark.parametrize(
    ("where", "url"),
    [
        ("/other/", f"{HTTPS}/other/"),
        ("a?b=c", f"{HTTPS}/redfish/v1/a?b=c"),
        (f"{HTTPS}/x", f"{HTTPS}/x"),
    ],
)
def test_a_read_follows_within_the_bmc(sent: Sent, where: str, url: str) -> None:
    assert sent.ask(answer(301, Location=where), answer(200, {})).content == b"{}"
    assert sent.urls[1:] == [url]


@pytest.mark.parametrize("where", ["http://bmc1:8443/x", "https://bmc2/x", "https://bmc1/x"])
def test_nothing_follows_elsewhere(sent: Sent, where: str) -> None:
    with pytest.raises(BmcError, match=f"bmc1:8443: sends us elsewhere: {where}") as told:
        sent.ask(answer(302, Location=where))
    assert "--bmc-map" in told.value.hint
    assert len(sent.urls) == 1


def test_neither_a_change_is_followed_nor_a_read_without_end(sent: Sent) -> None:
    with pytest.raises(BmcError, match="sends us elsewhere"):
        sent.ask(answer(301, Location="/a"), method="post")
    with pytest.raises(BmcError, match="sends us elsewhere"):
        sent.ask(*(answer(301, Location="/a") for _ in range(4)))
    assert len(sent.urls) == 1 + 4


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("method", "says", "slept"),
    [("get", ("3", "0"), [3.0, 0.1]), ("get", ("", "soon"), [1.0, 2.0]), ("post", ("7",), [7.0])],
)
def test_a_busy_bmc_is_asked_again_when_it_says(
    sent: Sent, status: int, method: str, says: tuple[str, ...], slept: list[float]
) -> None:
    busy = [answer(status, Retry_After=each) for each in says]
    assert sent.ask(*busy, answer(200, {}), method=method).status_code == 200
    assert sent.slept == slept


def test_who_asks_to_come_again_too_late_or_to_change_at_an_unknown_time_is_busy(
    sent: Sent,
) -> None:
    with pytest.raises(BmcRefused, match="is busy, and asks to come again in 500 s") as told:
        sent.ask(answer(503, Retry_After="500"))
    assert (told.value.status, "try again later" in told.value.hint) == (503, True)
    with pytest.raises(BmcRefused, match="POST /redfish/v1/Systems: 503 Service Unavailable"):
        sent.ask(answer(503), method="post")
    assert sent.slept == []


@pytest.mark.parametrize("status", [401, 406])
def test_what_the_layer_above_knows_to_answer_is_handed_up(sent: Sent, status: int) -> None:
    assert sent.ask(answer(status)).status_code == status


@pytest.mark.parametrize("status", [400, 402, 403, 404, 405, 407, 500])
def test_all_else_from_400_on_is_a_refusal(sent: Sent, status: int) -> None:
    with pytest.raises(BmcRefused, match=f"GET /redfish/v1/Systems: {status} ") as told:
        sent.ask(answer(status))
    assert told.value.status == status


@pytest.mark.parametrize(
    ("text", "kind"),
    [("<HTML>", "HTML"), (" <!DOCTYPE x>", "HTML"), ("ok", "no JSON"), ("", "no JSON")],
)
def test_who_answers_and_is_no_redfish(sent: Sent, text: str, kind: str) -> None:
    with pytest.raises(BmcError, match=f"answers {kind} to /redfish/v1/Systems") as told:
        sent.ask(answer(200, text))
    assert "switched on" in told.value.hint
    assert sent.ask(answer(200, text), method="post").text == text


def test_json_with_blanks_before_it_is_an_answer(sent: Sent) -> None:
    assert [sent.ask(answer(200, each)).text for each in (" {}", "\n[]")] == [" {}", "\n[]"]


def test_an_answer_without_end_is_ended(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST", 4)
    assert sent.ask(answer(200, "{  }")).text == "{  }"
    with pytest.raises(BmcError, match="answers more than 4 bytes to one question"):
        sent.ask(answer(200, "{   }"))


LIMIT = {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.SessionLimitExceeded"}]}}


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize("path", ["/redfish/v1/SessionService/Sessions", "/x/Sessions/"])
def test_a_login_is_refused_for_its_password_or_for_others(
    sent: Sent, status: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours: Callable[[Http, str], str] = Http._ours
    monkeypatch.setattr(Http, "_ours", lambda self, _: ours(self, path))
    with pytest.raises(BmcLogin, match="refuses the user or the password") as told:
        sent.ask(answer(status), method="post")
    assert "--bmc-user" in told.value.hint
    with pytest.raises(BmcRefused, match=f"login: {status} SessionLimitExceeded") as why:
        sent.ask(answer(status, LIMIT), method="post")
    assert "others hold all its sessions" in why.value.hint
    with pytest.raises(BmcRefused, match="DELETE"):
        sent.ask(answer(400), method="delete")
