"""What a BMC says when it says no, as one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus

import requests

from toolkit.errors import BmcError, BmcLogin, BmcRefused
from toolkit.untrusted import read_json

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
    """One line, short enough for a sentence, without what moves a terminal's cursor."""
    plain = re.sub(r"[^ -~\u00a0-\uffff]+", " ", text)
    return " ".join(plain.split())[:_LONGEST]
