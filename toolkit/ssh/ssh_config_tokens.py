"""What ssh_config(5) lets a line say, so that a file which ssh refuses is refused here too.

Source: readconf.c of OpenSSH 8.0 to 10.0, and what Debian and Red Hat add for Kerberos. Lists of
algorithms and forwarded ports are left to ssh: nothing here rests on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def listed(patterns: Iterable[str], text: str) -> bool:
    """Whether one pattern matches ``text``, in any case, and no negated one does."""
    found = False
    for pattern in patterns:
        if pattern.startswith("!") and like(pattern[1:], text):
            return False
        found = found or (not pattern.startswith("!") and like(pattern, text))
    return found


def like(pattern: str, text: str) -> bool:
    pattern, text = pattern.lower(), text.lower()
    if "*" in pattern or "?" in pattern:
        return _compiled(pattern).fullmatch(text) is not None
    return pattern == text


@lru_cache(maxsize=65536)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.compile("".join(parts), re.DOTALL)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FLAGS = _set(
    "batchmode canonicalizefallbacklocal challengeresponseauthentication checkhostip "
    "clearallforwardings compression dsaauthentication enableescapecommandline "
    "enablesshkeysign exitonforwardfailure forkafterauthentication forwardx11 "
    "forwardx11trusted gatewayports gssapiauthentication gssapidelegatecredentials "
    "gssapikeyexchange gssapirenewalforcesrekey gssapitrustdns hashknownhosts "
    "hostbasedauthentication identitiesonly kbdinteractiveauthentication keepalive "
    "nohostauthenticationforlocalhost passwordauthentication permitlocalcommand "
    "proxyusefdpass skeyauthentication stdinnull streamlocalbindunlink tcpkeepalive "
    "tisauthentication visualhostkey warnweakcrypto"
)
_YES_NO = frozenset({"yes", "true", "no", "false"})
_CHOICES = {
    "addressfamily": frozenset({"inet", "inet6", "any"}),
    "canonicalizehostname": _YES_NO | {"always"},
    "controlmaster": _YES_NO | {"ask", "auto", "autoask"},
    "pubkeyauthentication": _YES_NO | {"unbound", "host-bound"},
    "requesttty": _YES_NO | {"force", "auto"},
    "sessiontype": frozenset({"none", "subsystem", "default"}),
    "stricthostkeychecking": _YES_NO | {"ask", "off", "accept-new"},
    "tunnel": _YES_NO | {"ethernet", "point-to-point"},
    "updatehostkeys": _YES_NO | {"ask"},
    "verifyhostkeydns": _YES_NO | {"ask"},
}
_NUMBERS = _set(
    "canonicalizemaxdots connectionattempts numberofpasswordprompts requiredrsasize "
    "rsaminsize serveralivecountmax"
)
_TIMES = _set(
    "connecttimeout forwardx11timeout protocolkeepalives serveraliveinterval setuptimeout"
)
_TIME = re.compile(r"none|(?:[0-9]+[smhdw]?)+", re.IGNORECASE)
_ONE = _set(
    "bindaddress bindinterface casignaturealgorithms certificatefile ciphers controlpath "
    "controlpersist escapechar fingerprinthash forwardagent gssapiclientidentity "
    "gssapikexalgorithms gssapiserveridentity hostbasedacceptedalgorithms hostbasedkeytypes "
    "hostkeyalgorithms hostkeyalias hostname identityagent identityfile identityfile2 "
    "ignoreunknown kbdinteractivedevices kexalgorithms loglevel macs obscurekeystroketiming "
    "pkcs11provider port preferredauthentications pubkeyacceptedalgorithms "
    "pubkeyacceptedkeytypes refuseconnection revokedhostkeys securitykeyprovider "
    "smartcarddevice streamlocalbindmask syslogfacility tag tunneldevice user versionaddendum "
    "xauthlocation"
)
_SEVERAL = _set(
    "addkeystoagent canonicaldomains canonicalizepermittedcnames channeltimeout "
    "dynamicforward globalknownhostsfile host include ipqos localforward logverbose match "
    "permitremoteopen proxyjump rekeylimit remoteforward sendenv setenv userknownhostsfile"
)
COMMANDS = frozenset({"knownhostscommand", "localcommand", "proxycommand", "remotecommand"})
# ssh knows them, and looks at nothing that they say.
_PASSED_OVER = _set(
    "afstokenpassing cipher compressionlevel fallbacktorsh globalknownhostsfile2 "
    "kerberosauthentication kerberostgtpassing protocol rhostsauthentication "
    "rhostsrsaauthentication rsaauthentication useprivilegedport userknownhostsfile2 "
    "useroaming usersh"
)
_WORDS = _FLAGS | set(_CHOICES) | _NUMBERS | _TIMES | _ONE | _SEVERAL | COMMANDS | _PASSED_OVER


def split_words(value: str) -> tuple[str, ...] | None:
    """The words of a value, without quotes and comments; None where a quote is not closed."""
    words: list[str] = []
    word, quote, begun, at = "", "", False, 0
    while at < len(value):
        char, after = value[at], value[at + 1 : at + 2]
        at += 1
        if char == "\\" and (after in ("'", '"', "\\") or (not quote and after == " ")) and after:
            word, begun, at = word + after, True, at + 1
        elif char == quote:
            quote = ""
        elif quote:
            word += char
        elif char in "\"'":
            quote, begun = char, True
        elif char in " \t":
            words += [word] if begun else []
            word, begun = "", False
        elif char == "#" and not begun:
            break
        else:
            word, begun = word + char, True
    return None if quote else (*words, *([word] if begun else []))


def problem(key: str, words: tuple[str, ...] | None, ignored: str = "") -> str:
    """Why ssh does not take a line; "" where it does.

    :param words: None where a quote is not closed.
    :param ignored: what IgnoreUnknown said above.
    """
    if key not in _WORDS:
        if ignored and listed(ignored.split(","), key):
            return ""
        return f"bad configuration option: {key or 'no keyword'}"
    if words is None:
        return f"{key}: a quote is not closed"
    if not words:
        return f"{key}: its value is missing"
    if len(words) > 1 and key not in _SEVERAL | COMMANDS | _PASSED_OVER:
        return f"{key}: more than one value: {words[1]!r}"
    return _misfit(key, words[0])


def _misfit(key: str, value: str) -> str:
    low = value.lower()
    allowed = _YES_NO if key in _FLAGS else _CHOICES.get(key)
    if allowed is not None:
        fits = low in allowed
    elif key in _NUMBERS:
        fits = re.fullmatch("[0-9]{1,10}", value) is not None and int(value) < 2**31
    elif key in _TIMES:
        fits = _TIME.fullmatch(value) is not None
    elif key == "controlpersist":
        fits = low in _YES_NO or _TIME.fullmatch(value) is not None
    elif key == "port":
        fits = re.fullmatch("[0-9]{1,5}", value) is not None and 0 < int(value) < 65536
    else:
        fits = True
    return "" if fits else f"{key}: bad value {value!r}"
