"""What opens a door, in any text: passwords, tokens, keys. No verdict rests on any of it.

Names of options and of variables tell most of them (rd.iscsi.password=, --api-key, DB_PWD=);
others are told by their own form: a hash of crypt(3), GRUB's, a private key, a cloud's token.
"""

from __future__ import annotations

import re
from collections.abc import Callable

HIDDEN = "hidden"
_WORD = (
    r"(?:passw(?:or)?d|passphrase|secret|token|username|credential|superusers"
    r"|api[_-]?key|access[_-]?key|account[_-]?key|auth[_-]?key|private[_-]?key|client[_-]?key)"
)
# Up to a space, or to the next option: "username=bob,password=a;b,domain=x".
_BARE = r"(?:(?![,;&][\w.-]+=|[,;&]?(?:\s|$))[^\s\"'])+"
_VALUE = rf"(?:\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>[^'\n]*)'|(?P<bare>{_BARE}))"
_STARTS = r"(?<![\w.-])"
_NAMED = re.compile(
    rf"(?im){_STARTS}(?P<name>(?P<path>[\w.-]*{_WORD}[\w.-]*)[\"']?\s*[=:][^\S\n]*){_VALUE}"
)
# Short words mean this only where a value is given to them.
_SHORT = re.compile(
    rf"(?im){_STARTS}(?P<name>(?:[\w.-]*[._-])?(?:pwd|pass|psk|pin)\s*=\s*)(?!/){_VALUE}"
)
_OPTION = re.compile(rf"(?im)(?P<name>(?<![\w-])--?[\w-]*{_WORD}[\w-]*[^\S\n]+)(?!-){_VALUE}")
_OF_FILES = re.compile(r"(?i)key|file|dir|path|name$")
# Programs with options of one letter.
_PROGRAMS = ("ipmitool", "sshpass", "curl", "wget", "mysql", "snmp", "ldap")
_PROGRAM = re.compile(rf"\b(?:{'|'.join(_PROGRAMS)})\w*\b[^\n]*")
_LETTER = re.compile(r"(\s-[PpUuwc]\s*)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s-]\S*)")
_GRUB = re.compile(r"(?m)((?:^|:)[^\S\n]*password(?:_pbkdf2)?[^\S\n]+)[^\s=:]+[^\S\n]+\S+")
_HEADER = re.compile(
    r"(?i)((?:authorization|x-auth-token|cookie|x-api-key)[\"']?\s*[:=]\s*[\"']?"
    r"(?:(?:bearer|basic|token)\s+)?|\bbearer\s+)[\w.~+/=-]{8,}"
)
_COMMUNITY = re.compile(r"(?i)(\b(?:r[ow])?community\d?[\s=:]+)[^\s,;]+")
_IN_URL = re.compile(r"(?:(?<=://)|(?<=netroot=iscsi:))[^/\s\"'<>]+(?=@)")
_HASH = re.compile(r"\$(?:[1567]|2[abxy]?|gy|y|sha1|argon2\w*)\$[^\s:\"',]+|\bgrub\.pbkdf2\.[\w.]+")
_TOKENS = (
    *("akia", "asia", "ghp_", "gho_", "ghs_", "ghr_", "ghu_", "github_pat_", "glpat-", "xox"),
    *("hf_", "nvapi-", "sk-", "hvs.", "aiza", "eyj"),
)
_FORMS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeprs]-[\w-]{10,}|\bhf_\w{20,}|\bnvapi-[\w-]{20,}|\bsk-[\w-]{20,}|\bhvs\.[\w-]{20,}"
    r"|\bAIza[\w-]{35}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
)
_PEM = re.compile(
    r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_PUBLIC = re.compile(
    r"\b((?:sk-)?(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w+)(?:@openssh\.com)? )"
    r"AAAA[\w+/=]+(?: [^\s\"']+)?"
)


def hide_secrets(text: str) -> str:
    """The text without the values of passwords, tokens and their like; its lines stay lines."""
    low = text.lower()
    for needles, pattern, put in _HIDES:  # most texts hold none: looking for words is quick
        if any(each in low for each in needles):
            text = pattern.sub(put, text)
    return text


def _without_value(found: re.Match[str]) -> str:
    value = found["double"] or found["single"] or found["bare"] or ""
    # Where the key of a module's signature lies is no secret; what it holds is.
    path = found.groupdict().get("path") or ""
    if not value or (value.startswith("/") and _OF_FILES.search(path)):
        return found[0]
    quote = '"' if found["double"] else "'" if found["single"] else ""
    return f"{found['name']}{quote}{HIDDEN}{quote}"


_WORDS = (
    *("passw", "passphrase", "secret", "token", "username", "credential", "superusers"),
    *(
        f"{each}{sign}key"
        for each in ("api", "access", "account", "auth", "private", "client")
        for sign in ("", "_", "-")
    ),
)
_TAKEN = rf"\1{HIDDEN}"
# What a text holds, in small letters, where the pattern may fit; in the order of their use.
_HIDES: tuple[
    tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...
] = (
    (("private key---",), _PEM, lambda found: found[1] + HIDDEN + "\n" * found[0].count("\n")),
    (("password",), _GRUB, rf"\1{HIDDEN} {HIDDEN}"),
    (("$", "grub.pbkdf2"), _HASH, HIDDEN),
    (_TOKENS, _FORMS, HIDDEN),
    (("@",), _IN_URL, HIDDEN),
    (_WORDS, _NAMED, _without_value),
    (_WORDS, _OPTION, _without_value),
    (("pwd", "pass", "psk", "pin"), _SHORT, _without_value),
    (_PROGRAMS, _PROGRAM, lambda found: _LETTER.sub(_TAKEN, found[0])),
    (("authorization", "x-auth-token", "cookie", "x-api-key", "bearer"), _HEADER, _TAKEN),
    (("community",), _COMMUNITY, _TAKEN),
    (("ssh-", "ecdsa-sha2-"), _PUBLIC, _TAKEN),
)
