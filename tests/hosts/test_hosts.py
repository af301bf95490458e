"""Sets of hosts, as operators write them and as hostile hands might."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.hosts.host import MANY, Host, Inventory, fold, narrow, refuse_many, select

GPU1 = Host("gpu1", address="10.0.0.1", user="ops", bmc="10.9.0.1", groups=("rack1", "gpu"))
GPU2 = Host("gpu2", port=2222, groups=("rack1",))
CPU1 = Host("cpu1", groups=("rack2",))
SITE = Inventory(
    {"gpu1": GPU1, "gpu2": GPU2, "cpu1": CPU1},
    {"rack1": ("gpu1", "gpu2"), "rack2": ("cpu1",), "gpu": ("gpu1",)},
)


def names(expression: str, inventory: Inventory = SITE, exclude: str = "", limit: str = "") -> str:
    chosen = select(expression, inventory, exclude=exclude, limit=limit)
    return " ".join(host.name for host in chosen)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("n1", "n1", id="one"),
        pytest.param("n[1-3]", "n1 n2 n3", id="range"),
        pytest.param("n[008-011]", "n008 n009 n010 n011", id="padded-range"),
        pytest.param("n[1,3-4]", "n1 n3 n4", id="list-in-brackets"),
        pytest.param("n[0-6/3]", "n0 n3 n6", id="step"),
        pytest.param("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2", id="two-ranges"),
        pytest.param("n[1-2].example.org", "n1.example.org n2.example.org", id="domain"),
        pytest.param("n2, n1", "n2 n1", id="order-written-and-blanks-at-commas"),
        pytest.param("n1,n1", "n1", id="each-once"),
        pytest.param("n[1-4]!n[2-3]", "n1 n4", id="without"),
        pytest.param("n[1-4]&n[3-9]", "n3 n4", id="in-both"),
        pytest.param("n[1-3]^n[3-4]", "n1 n2 n4", id="in-one-of-them"),
        pytest.param("n1,n[2-3]!n2,n2", "n1 n3 n2", id="left-to-right"),
        pytest.param("@rack1", "gpu1 gpu2", id="group"),
        pytest.param("@rack[1-2]", "gpu1 gpu2 cpu1", id="groups-by-range"),
        pytest.param("@rack1&@gpu", "gpu1", id="groups-in-common"),
        pytest.param("@all!@rack1", "cpu1", id="all-without"),
        pytest.param("@*", "gpu1 gpu2 cpu1", id="star-is-all"),
        pytest.param("gpu*", "gpu1 gpu2", id="wildcard"),
        pytest.param("?pu1", "gpu1 cpu1", id="one-letter-wildcard"),
        pytest.param("::1", "::1", id="bare-ipv6"),
        pytest.param("[::1]:22,u@[fe80::1%eth0]", "[::1]:22 u@[fe80::1%eth0]", id="ipv6"),
        pytest.param("root@n[1-2]:2222", "root@n1:2222 root@n2:2222", id="user-and-port"),
    ],
)
def test_an_expression_names(expression: str, expected: str) -> None:
    assert names(expression) == expected


@pytest.mark.parametrize(
    ("expression", "host"),
    [
        pytest.param("n1", Host("n1"), id="plain"),
        pytest.param("n1:22", Host("n1:22", "n1", port=22), id="port"),
        pytest.param("a@b.c@n1", Host("a@b.c@n1", "n1", "a@b.c"), id="user-with-at"),
        pytest.param("::1", Host("::1", "::1"), id="ipv6"),
        pytest.param("u@[::1]:22", Host("u@[::1]:22", "::1", "u", 22), id="ipv6-in-full"),
    ],
)
def test_the_parts_of_a_host_are_told_apart(expression: str, host: Host) -> None:
    found = select(expression)[0]
    assert (found.user, found.port) == (host.user, host.port)
    assert (found.address or found.name) == (host.address or host.name)
    assert found.name == host.name


def test_the_inventory_s_host_is_taken_with_all_it_knows() -> None:
    assert select("gpu1", SITE) == (GPU1,)


def test_what_the_operator_writes_goes_over_the_inventory() -> None:
    (host,) = select("root@gpu1:23", SITE)
    assert (host.name, host.address, host.user, host.port) == (
        "root@gpu1:23",
        "10.0.0.1",
        "root",
        23,
    )
    assert host.bmc == GPU1.bmc
    (host,) = select("gpu1:23", SITE)
    assert (host.user, host.port) == ("ops", 23)
    (host,) = select("root@gpu2", SITE)
    assert (host.user, host.port) == ("root", 2222)


def test_excluding_a_name_excludes_it_under_any_user_and_port() -> None:
    assert names("root@n[1-3]:22", exclude="n2") == "root@n1:22 root@n3:22"
    assert names("n1:22,n1:23", exclude="n1:23") == "n1:22"
    assert names("n1", exclude="root@n1") == "n1"


def test_limit_keeps_what_both_name() -> None:
    assert names("@all", limit="gpu*", exclude="gpu2") == "gpu1"


HOSTILE = [
    *("-x", "--nope", "-oProxyCommand=touch", "-l@n1", "u@-n1", "-", "n-"),
    *("a b", "a;b", "a|b", "a$(b)", "$HOME", "`b`", "a'b", 'a"b', "a\\b", "a>b", "~/x", "a/b"),
    *("%h", "gp\u00fc1", "\u0661", "a\u2028b", "n\n", "\tn", "n\x1b[1m", "n\0", "#n", "a=b", "{a}"),
    *("u@", "@@", "a@@b", "u u@n", "::1%a;b", "[::g]", "[::1", "::1]", "1:2:3", "[n1]"),
    *("n:", "n:0", "n:65536", "n:x", "n:-1", "[::1]:", "[::1]:x"),
    *("n[", "n]", "n[]", "n[1-]", "n[3-1]", "n[a-c]", "n[1-2/0]", "n[1,]", "n[[1]]", "n[1]]"),
    *(",", "a,", ",a", "a,,b", "!a", "a!", "a&", "^", " ", ""),
    *("n[1-99999999999999]", "a[1-999]b[1-999]", "n" * 300, "gpu1*x[1-2]"),
]


@pytest.mark.parametrize("expression", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_what_is_surely_no_host_is_refused(expression: str) -> None:
    with pytest.raises(UsageError) as refused:
        select(expression)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "no hosts were named"),
        (" ", "no hosts were named"),
        ("a,,b", "'a,,b': nothing stands before ','"),
        ("a& ", "'a& ': nothing stands before ','"),
        ("zz*", "'zz*': no host of the inventory has such a name"),
        ("n[1-2],n3", "'n[1-2],n3': more than 2 hosts"),
    ],
)
def test_what_is_wrong_with_an_expression_is_said(
    expression: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.hosts.host.MOST", 2)
    assert names("n[1-2]") == "n1 n2"
    with pytest.raises(UsageError, match=f"^{re.escape(says)}"):
        select(expression, SITE)


@pytest.mark.parametrize("expression", ["./hosts.ini", "/etc/hosts", "site/names"])
def test_who_named_a_file_learns_where_files_go(expression: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a host") as refused:
        select(expression)
    assert "--hosts-file" in refused.value.hint
    assert "--inventory" in refused.value.hint


@given(st.text(max_size=12))
def test_any_text_is_names_or_a_usage_error(text: str) -> None:
    try:
        chosen = select(text)
    except UsageError:
        return
    for host in chosen:
        assert host.name.isascii()
        assert host.name.isprintable()
        assert not host.name.startswith("-")
        assert not set(host.name) & set(" ;|&$`'\"\\<>(){}*?!#~")


@pytest.mark.parametrize("expression", ["@all", "@*", "@rack1", "n1,@x"])
def test_groups_need_an_inventory(expression: str) -> None:
    with pytest.raises(UsageError, match="no inventory"):
        select(expression)


def test_an_unknown_group_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no group 'rack9'") as refused:
        select("@rack9", SITE)
    assert refused.value.hint == "groups: gpu, rack1, rack2"
    with pytest.raises(UsageError) as refused:
        select("@rack9", Inventory({"gpu1": GPU1}))
    assert refused.value.hint == "groups: none"


@pytest.mark.parametrize("group", ["rack1", "all"])
def test_a_group_without_its_sign_is_not_taken_for_a_host(group: str) -> None:
    with pytest.raises(UsageError, match=f"'{group}' is a group") as refused:
        select(group, SITE)
    assert f"@{group}" in refused.value.hint


def test_without_an_inventory_all_is_a_name_as_any() -> None:
    assert [each.name for each in select("all")] == ["all"]


@pytest.mark.parametrize(("exclude", "limit"), [("gpu[1-2]", ""), ("", "cpu9"), ("@rack1", "gpu1")])
def test_an_empty_set_is_refused(exclude: str, limit: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        select("@rack1", SITE, exclude=exclude, limit=limit)


def test_narrowing_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        narrow([])


def test_many_hosts_are_asked_for_twice() -> None:
    refuse_many(select(f"n[1-{MANY}]"), yes=False)
    refuse_many(select(f"n[0-{MANY}]"), yes=True)
    with pytest.raises(UsageError, match=r"501 hosts are more than 500: n\[0-500\]") as refused:
        refuse_many(select(f"n[0-{MANY}]"), yes=False)
    assert "--yes" in refused.value.hint


@pytest.mark.parametrize(
    ("given_names", "folded"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["gpu1"], "gpu1", id="one"),
        pytest.param([f"gpu{n:03d}" for n in (1, 2, 3, 8)], "gpu[001-003,008]", id="padded"),
        pytest.param(["b2", "a1", "b1"], "a1,b[1-2]", id="two-stems"),
        pytest.param(["r1n1", "r1n2", "r2n1", "r2n2"], "r[1-2]n[1-2]", id="two-ranges"),
        pytest.param(["n1.ex.org", "n2.ex.org"], "n[1-2].ex.org", id="domain"),
        pytest.param(["u@n1:22", "u@n2:22", "n1"], "n1,u@n[1-2]:22", id="users-and-ports"),
        pytest.param(["127.0.0.1:22", "127.0.0.1:23"], "127.0.0.1:22,127.0.0.1:23", id="ports"),
        pytest.param(["[::2]:22", "::1"], "::1,[::2]:22", id="ipv6"),
        pytest.param(["a file (1)", "n1"], "n1,a file (1)", id="names-of-files"),
    ],
)
def test_names_fold(given_names: list[str], folded: str) -> None:
    assert fold(given_names) == folded


@given(st.sets(st.from_regex(r"[a-c][0-9]{0,3}(-ib[0-9])?", fullmatch=True), min_size=1))
def test_what_was_folded_unfolds_to_the_same_names(wanted: set[str]) -> None:
    assert {host.name for host in select(fold(wanted))} == wanted
