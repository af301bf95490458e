"""Where to knock, as text; ranges of names; machines of Vagrant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolkit.errors import UsageError
from toolkit.hosts.addresses import HostAddress, machine_names, parse_spot, split_spot, unfold

HOST_WORDS: list[tuple[str, HostAddress]] = [
    ("gpu01", HostAddress("gpu01")),
    ("ops@gpu01:2222", HostAddress("gpu01", "ops", 2222)),
    ("a@b@gpu01", HostAddress("gpu01", "a@b")),
    ("[2001:db8::1]:22", HostAddress("2001:db8::1", "", 22)),
    ("[2001:db8::1]", HostAddress("2001:db8::1")),
    ("ops@2001:db8::1", HostAddress("2001:db8::1", "ops")),
    ("fe80::1%eth0", HostAddress("fe80::1%eth0")),
    ("gpu01:65535", HostAddress("gpu01", "", 65535)),
    ("vagrant://gpu01", HostAddress("vagrant://gpu01")),
]


@pytest.mark.parametrize(("text", "spot"), HOST_WORDS)
def test_where_to_knock(text: str, spot: HostAddress) -> None:
    assert split_spot(text) == spot
    assert parse_spot(text) == spot


@pytest.mark.parametrize("read", [parse_spot, split_spot])
@pytest.mark.parametrize(
    "text",
    [
        *("", "@gpu01", "-a@gpu01", "a b@gpu01", "gpu01:0", "gpu01:65536", "gpu01:x", "gpu01:"),
        *("-gpu01", "gpu 01", "[::1", "1:2:3:x", "fe80::1%-x", "vagrant://", "vagrant://-a", ":22"),
        *("[::1]:0", "[::1]x", "ops@", "gpu01:123456"),
    ],
)
def test_what_is_no_place_to_knock(read: Callable[[str], HostAddress], text: str) -> None:
    with pytest.raises(UsageError):
        read(text)


@pytest.mark.parametrize("text", ["gpu*", "gpu[1-2]", "g,u", "gpu01.", "gpu-"])
def test_a_pattern_is_split_and_is_no_name(text: str) -> None:
    assert split_spot(text) == HostAddress(text)
    with pytest.raises(UsageError, match="is not the name of a host"):
        parse_spot(text)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a[1-3]", ["a1", "a2", "a3"]),
        ("a[01-03/2,9]b", ["a01b", "a03b", "a9b"]),
        ("a[1-2]c[1-2]", ["a1c1", "a1c2", "a2c1", "a2c2"]),
        ("plain", ["plain"]),
    ],
)
def test_ranges_of_names(pattern: str, names: list[str]) -> None:
    assert sorted(unfold(pattern)) == sorted(names)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("a[1-100001]", "'shown' stands for more than 100000 hosts"),
        ("a[0-99999]b[1-2]", "'shown' stands for more than 100000 hosts"),
        ("a[1-9/0]", "'shown': '1-9/0' is no range"),
        ("a[1,,2]", "'shown': '' is no range"),
        ("a b", "'shown' is not the name of a host"),
        ("-a[1-2]", "'shown' is not the name of a host"),
        ("a[2-1]", "'shown': "),
    ],
)
def test_ranges_that_are_none(pattern: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        unfold(pattern, shown="shown")
    assert str(raised.value).startswith(says)
    with pytest.raises(UsageError) as raised:
        unfold(pattern)
    assert repr(pattern) in str(raised.value)


def test_as_many_as_memory_should_hold() -> None:
    assert len(unfold("a[0-99999]")) == 100_000
    assert len(unfold("a[0-199998/2]")) == 100_000


RUNNING, OTHERS = ["gpu1", "gpu2", "hop"], {"off": "poweroff", "new": "not created"}


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("vagrant://", RUNNING),
        ("vagrant://*", RUNNING),
        ("vagrant://gpu?", ["gpu1", "gpu2"]),
        ("vagrant://h*", ["hop"]),
        ("vagrant://gpu[1-2]", ["gpu1", "gpu2"]),
        ("vagrant://off", ["off"]),
    ],
)
def test_machines_of_vagrant(term: str, names: list[str]) -> None:
    assert machine_names(term, RUNNING, OTHERS) == names


@pytest.mark.parametrize(
    ("term", "running", "others", "says", "hint"),
    [
        (
            "vagrant://o?f",
            RUNNING,
            OTHERS,
            "vagrant://o?f: no such machine runs: off is poweroff; new is not created",
            "vagrant up",
        ),
        ("vagrant://", [], {}, "vagrant://: no such machine runs", "vagrant up"),
        (
            "vagrant://none",
            RUNNING,
            OTHERS,
            "vagrant://none: the Vagrantfile has no such machine",
            "it has: gpu1, gpu2, hop, new, off",
        ),
        ("vagrant://a", [], {}, "vagrant://a: the Vagrantfile has no such machine", "it has: none"),
    ],
)
def test_machines_that_there_are_not(
    term: str, running: list[str], *, others: dict[str, str], says: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        machine_names(term, running, others)
    assert str(raised.value) == says
    assert hint in raised.value.hint
