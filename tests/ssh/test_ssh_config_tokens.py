"""What a line of ssh's configuration may say: every kind of keyword, and every way to quote."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from toolkit.ssh.ssh_config_tokens import like, listed, problem, split_words

FLAGS = ("batchmode", "forwardx11", "identitiesonly", "tcpkeepalive", "visualhostkey")
NUMBERS = ("canonicalizemaxdots", "connectionattempts", "numberofpasswordprompts",
           "requiredrsasize", "serveralivecountmax")  # fmt: skip
TIMES = ("connecttimeout", "forwardx11timeout", "serveraliveinterval")
# Keywords, what fits them, what does not.
ROWS: list[tuple[tuple[str, ...], str, str]] = [
    (FLAGS, "yes No TRUE false", "on 1 ask none"),
    (("addressfamily",), "inet inet6 ANY", "yes ipv6"),
    (("canonicalizehostname",), "yes always", "auto"),
    (("controlmaster",), "no ask auto autoask", "always"),
    (("pubkeyauthentication",), "yes unbound host-bound", "auto"),
    (("requesttty",), "no force auto", "ask"),
    (("sessiontype",), "none default", "yes"),
    (("stricthostkeychecking",), "yes ask off accept-new", "auto"),
    (("tunnel",), "no ethernet point-to-point", "ask"),
    (("updatehostkeys", "verifyhostkeydns"), "yes ask", "auto"),
    (NUMBERS, "3 123456789 2147483647", "2147483648 12345678901 -1 3x x3 none 1.5"),
    (TIMES, "none 0 30 5m 1h30m 2W", "5x m -1 soon"),
    (("controlpersist",), "yes no 0 10m", "5x maybe"),
    (("port",), "1 22 65535", "0 65536 -1 123456 2x"),
    (("user", "hostname", "identityfile", "hostkeyalias"), "anything 7 yes", ""),
]
# What one ssh takes and another does not, or refuses for more than the word.
MORE: list[tuple[tuple[str, ...], str, str]] = [
    (("rsaminsize",), "2048", "2k"),
    (("warnweakcrypto",), "no", "none"),
    (("sessiontype",), "subsystem", ""),
    (("connectionattempts",), "0", ""),
    (("port",), "", "ssh"),
]


def values(rows: list[tuple[tuple[str, ...], str, str]]) -> list[tuple[str, str, bool]]:
    return [
        (key, value, fits)
        for keys, good, bad in rows
        for key in keys
        for words, fits in ((good, True), (bad, False))
        for value in words.split()
    ]


def test_every_kind_of_keyword_has_values_that_fit_and_others() -> None:
    rows = values(ROWS + MORE)
    told = [(key, value, problem(key, (value,))) for key, value, _ in rows]
    expected = [(k, v, "" if fits else f"{k}: bad value {v!r}") for k, v, fits in rows]
    assert told == expected


@pytest.mark.sshd
def test_openssh_takes_and_refuses_the_same() -> None:
    ssh = shutil.which("ssh") or "ssh"
    words = [ssh, "-F", "none", "-G", "host"]
    for key, value, fits in values(ROWS):
        ended = subprocess.run([*words, f"-o{key}={value}"], capture_output=True, check=False)
        assert (ended.returncode == 0) == fits, (key, value, ended.stderr)


@pytest.mark.parametrize(
    ("key", "words", "ignored", "says"),
    [
        ("foo", ("x",), "", "bad configuration option: foo"),
        ("", ("x",), "", "bad configuration option: no keyword"),
        ("foo", ("x",), "bar,F*", ""),
        ("foo", None, "f?o", ""),
        ("foo", ("x",), "f*,!foo", "bad configuration option: foo"),
        ("user", None, "", "user: a quote is not closed"),
        ("user", (), "", "user: its value is missing"),
        ("user", ("a", "b"), "", "user: more than one value: 'b'"),
        ("sendenv", ("a", "b"), "", ""),
        ("proxycommand", ("a", "b"), "", ""),
        ("protocol", ("2", "1"), "", ""),
    ],
)
def test_a_line_is_as_long_as_its_keyword_lets_it(
    key: str, words: tuple[str, ...] | None, ignored: str, says: str
) -> None:
    assert problem(key, words, ignored) == says


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", ()),
        ("  \t", ()),
        ("a\t b ", ("a", "b")),
        ("a#b", ("a#b",)),
        ("a #b", ("a",)),
        ('"#a" b', ("#a", "b")),
        ('"a b" c', ("a b", "c")),
        ("'a \"b' c", ('a "b', "c")),
        ('"" a', ("", "a")),
        ('a"b c"d', ("ab cd",)),
        (r"a\ b", ("a b",)),
        (r'"a\ b"', (r"a\ b",)),
        (r"a\"b\'c\\d", ("a\"b'c\\d",)),
        (r"\a", (r"\a",)),
        ("a\\", ("a\\",)),
        ('"a', None),
        ("a 'b\"", None),
    ],
)
def test_a_value_is_parted_as_ssh_does(value: str, words: tuple[str, ...] | None) -> None:
    assert split_words(value) == words


@pytest.mark.parametrize(
    ("patterns", "holds"),
    [("gpu*", True), ("GPU?", True), ("gpu", False), ("cpu*,gpu1", True), ("gpu*,!gpu1", False),
     ("!gpu1,gpu*", False), ("!gpu2,gpu*", True), ("!gpu2", False), ("g.u1", False)],
)  # fmt: skip
def test_a_list_of_patterns_holds_where_one_does_and_none_is_denied(
    patterns: str, *, holds: bool
) -> None:
    assert listed(patterns.split(","), "gpu1") is holds
    assert like("*\n*", "a\nb")
