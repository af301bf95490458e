"""What a site's file may say, key by key: what each value becomes, and what is refused."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path

import pytest

from toolkit.compat.rows import Confidence, Row, repeated, rows
from toolkit.errors import UsageError
from toolkit.expect import read_expect
from toolkit.want import (
    CONSUMERS,
    MIG,
    OFED,
    Bundles,
    Group,
    Iommu,
    Modules,
    PeerPath,
    Role,
    RolloutLimits,
    SigningPaths,
    Waiver,
    Want,
    _limits,
    _value,
    consumer,
)

LAST = date(2027, 1, 31)
WAIVER = {"check": "a.b", "reason": "why", "until": LAST}
VALUES: list[tuple[str, object, object]] = [
    ("companions", ["gdrdrv", "nvidia-fs", "gdrdrv"], ("gdrdrv", "nvidia-fs")),
    ("companions", [], ()),
    ("bios", {"smt": "off", "acs": "on"}, (("acs", "on"), ("smt", "off"))),
    ("consumers", {"ucx": "1.17", "nccl": "2.27"}, (("nccl", "2.27"), ("ucx", "1.17"))),
    ("waivers", [WAIVER], (Waiver("a.b", "why", LAST, ""),)),
    ("waivers", [WAIVER | {"hosts": "gpu1"}], (Waiver("a.b", "why", LAST, "gpu1"),)),
    ("path", "auto", None),
    ("role", "auto", None),
    ("mig", "any", "any"),
    ("driver_min", "", ""),
    ("driver_min", "570.86.15", "570.86.15"),
    ("signing", {"key": "/k", "certificate": "/a/c.der"}, SigningPaths("/k", "/a/c.der")),
    ("keep_runs", 1, 1),
    ("rollout", {"max_unavailable": 1}, RolloutLimits(1)),
    *[("bundles", {"sign_key": each}, Bundles(each)) for each in ("/k", "~/.ssh/a b")],
    *[("ofed", each, each) for each in OFED],
    *[("mig", each, each) for each in MIG],
    *[("consumers", {each: "2.4"}, ((each, "2.4"),)) for each in CONSUMERS],
]


@pytest.mark.parametrize(("key", "value", "read"), VALUES)
def test_each_key_of_a_site(key: str, value: object, read: object) -> None:
    assert _value(key, value) == read


@pytest.mark.parametrize(
    ("key", "kind"),
    [("path", PeerPath), ("role", Role), ("iommu", Iommu), ("modules", Modules)],
)
def test_words_become_members_of_what_they_name(key: str, kind: type[StrEnum]) -> None:
    for each in kind:
        assert _value(key, str(each)) is each


WRONG: list[tuple[str, object, str]] = [
    ("companions", "gdrdrv", "companions must be a list of"),
    ("companions", ["gdrdrv", "x"], "companions must be a list of"),
    ("bios", [], "bios must be a table"),
    ("bios", {"x": "on"}, "bios: unknown setting 'x'; settings: above-4g, "),
    ("bios", {"smt": True}, "bios: smt must be a word such as"),
    ("bios", {"smt": " "}, "bios: smt must be a word such as"),
    ("consumers", [], "consumers must be a table"),
    ("consumers", {"x": "1.2"}, "consumer 'x' is not one of"),
    *[("consumers", {"ucx": each}, "version of ucx: .* is none such as")
      for each in ("1", "1.2.3.4.5", "x1.2", 1.2)],
    ("consumers", {"nccl": "22.7"}, "version of nccl: '22.7' is none: they are"),
    ("waivers", {}, "waivers must be tables"),
    ("waivers", [WAIVER, {}], "waiver 2 must have check, reason, until"),
    ("waivers", [WAIVER | {"x": 1}], "waiver 1 must have check, reason, until"),
    ("waivers", [WAIVER | {"until": "2027-01-31"}], "waiver 1: until must be a date"),
    ("waivers", [WAIVER | {"check": 1}], "waiver 1: check and reason must be strings"),
    ("waivers", [WAIVER | {"reason": 1}], "waiver 1: check and reason must be strings"),
    ("waivers", [WAIVER | {"hosts": " "}], "waiver 1: hosts must be a node set"),
    ("waivers", [WAIVER | {"hosts": 1}], "waiver 1: hosts must be a node set"),
    ("path", 1, "path must be a string, not 1"),
    ("path", "x", "'x' is not a valid PeerPath"),
    ("role", "x", "'x' is not a valid Role"),
    ("iommu", "x", "'x' is not a valid Iommu"),
    ("modules", "x", "'x' is not a valid Modules"),
    ("ofed", "x", "ofed 'x' is not one of"),
    ("mig", "x", "mig 'x' is not one of"),
    *[("driver_min", each, "driver_min .* is no version") for each in ("x", "570.", ".5", "570 ")],
    ("signing", {"key": "/k"}, "signing must have certificate, key and nothing else"),
    ("signing", [], "signing must have"),
    *[("signing", {"key": each, "certificate": "/c"}, "signing: key .* is no plain absolute path")
      for each in ("k", "/a b", "/", "/a//b", "/a/", 1)],
    *[("keep_runs", each, "keep_runs must be a number of at least 1") for each in (0, True, "5")],
    ("rollout", 8, "rollout must have max_unavailable"),
    ("rollout", {}, "rollout must have max_unavailable"),
    ("rollout", {"max_unavailable": 1, "x": 1}, "rollout must have max_unavailable"),
    *[("bundles", each, "bundles must have sign_key")
      for each in ({}, "/k", {"sign_key": 1}, {"sign_key": ""}, {"sign_key": "key"},
                   {"sign_key": "/k", "x": 1})],
    ("expect", 1, "expect must be a table"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "says"), WRONG)
def test_each_slip_of_a_site_is_named(key: str, value: object, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        _value(key, value)


@pytest.mark.parametrize(
    ("table", "most"),
    [
        ({"max_unavailable": "10%", "nodes": 128}, 12),
        ({"max_unavailable": "1%", "nodes": 1}, 1),
        ({"max_unavailable": "1%", "nodes": 10}, 1),
        ({"max_unavailable": "100%", "nodes": 7}, 7),
        ({"max_unavailable": "99%", "nodes": 200}, 198),
        ({"max_unavailable": 8}, 8),
    ],
)
def test_how_many_may_be_out(table: dict[str, object], most: int) -> None:
    assert _limits(table) == RolloutLimits(most)


@pytest.mark.parametrize(
    "table",
    [
        {"max_unavailable": 8, "nodes": 9},
        {"max_unavailable": 0},
        {"max_unavailable": True},
        {"max_unavailable": "0%", "nodes": 9},
        {"max_unavailable": "101%", "nodes": 9},
        {"max_unavailable": "8", "nodes": 9},
        {"max_unavailable": "10%"},
        {"max_unavailable": "10%", "nodes": 0},
        {"max_unavailable": "10%", "nodes": True},
    ],
)
def test_limits_that_make_no_sense(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^rollout: max_unavailable "):
        _limits(table)


@pytest.mark.parametrize("version", ["2.4", "2.27.3", "2.1.2.3"])
def test_versions_of_libraries(version: str) -> None:
    assert consumer("nccl", version) == ("nccl", version)


def site(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "site.toml"
    file.write_text(text)
    return file


def test_groups_of_a_site(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('path = "dmabuf"\nmig = "on"\nofed = "inbox"\n')
    text = (
        'mig = "off"\n[[group]]\nhosts = "gpu[1-2]"\nexpect = { gpus = 8 }\n'
        '[[group]]\nhosts = "gpu3"\nprofile = "own.toml"\n'
        '[[group]]\nhosts = "gpu4"\n[[group.waivers]]\ncheck = "a.b"\nreason = "w"\n'
        "until = 2027-01-31\n"
    )
    want = Want.load("auto", site=site(tmp_path, text))
    first, second, third = want.group
    assert first == Group("gpu[1-2]", "", expect=read_expect({"gpus": 8}))
    assert second.hosts == "gpu3"
    assert [(key, str(value)) for key, value in second.profile] == [
        ("path", "dmabuf"),
        ("ofed", "inbox"),
    ]
    assert third.waivers == (Waiver("a.b", "w", LAST),)


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("group = 1\n", "group must be tables"),
        ("group = [1]\n", "group 1 must have hosts, one or more of expect, profile, waivers"),
        ('[[group]]\nhosts = "a"\n', "group 1 must have hosts, one or more of"),
        ("[[group]]\nexpect = { gpus = 8 }\n", "group 1 must have hosts"),
        ('[[group]]\nhosts = "a"\nmig = "on"\nexpect = {}\n', "group 1 must have hosts"),
        ('[[group]]\nhosts = " "\nexpect = {}\n', "group 1: hosts must be a node set"),
        ("[[group]]\nhosts = 1\nexpect = {}\n", "group 1: hosts must be a node set"),
        ('[[group]]\nhosts = "a"\nexpect = { x = 1 }\n', "group 1: expect: unknown key 'x'"),
        ('[[group]]\nhosts = "a"\nprofile = 1\n', "group 1: profile must be a string, not 1"),
        (
            '[[group]]\nhosts = "a"\nprofile = "odd.toml"\n',
            "group 1: profile 'odd.toml' may not have keep_runs, rollout",
        ),
    ],
)
def test_groups_that_are_none(tmp_path: Path, group: str, says: str) -> None:
    odd = "rollout = { max_unavailable = 1 }\nkeep_runs = 2\n"
    (tmp_path / "odd.toml").write_text(odd)
    file = site(tmp_path, group)
    with pytest.raises(UsageError) as raised:
        Want.load("auto", site=file)
    assert str(raised.value).startswith(f"{file}: {says}")


ROW = {"id": "a", "source": "s", "confidence": "H"}
ENUMS = {"Confidence": Confidence}


def test_rows_of_a_table() -> None:
    found = rows("t", Row, [ROW, ROW | {"id": "b", "confidence": "L"}], ENUMS)
    assert found == [
        Row(id="a", source="s", confidence=Confidence("H")),
        Row(id="b", source="s", confidence=Confidence("L")),
    ]
    assert all(isinstance(each.confidence, Confidence) for each in found)
    assert repeated("abcb") == "b"
    assert repeated("abc") == ""


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({}, "t must be tables: [[t]]"),
        ([], "t must be tables: [[t]]"),
        ([ROW, 1], "t, row 2 is no table"),
        ([ROW, ROW], "t: two rows have the id 'a'"),
        (
            [ROW | {"zz": 1, "yy": 2, "xx": 3, "ww": 4}],
            "t, row 1: unknown key 'ww'; known: confidence, id, source",
        ),
        ([{"id": "a", "confidence": "H"}], "t, row 1: source is missing"),
        ([ROW | {"id": 1}], "t, row 1: id must be a string, not 1"),
        ([ROW | {"confidence": "X"}], "t, row 1: confidence must be H, M or L, not 'X'"),
    ],
)
def test_rows_that_are_none(tables: object, says: str) -> None:
    with pytest.raises(ValueError, match="t") as raised:
        rows("t", Row, tables, ENUMS)
    assert str(raised.value) == says
