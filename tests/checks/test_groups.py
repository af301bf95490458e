"""What each host should be: groups of the site's file, their profile, expectations and waivers."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from tests.evidence.build import groups, node
from tests.invoked import gdr
from toolkit.checks.all import BY_ID
from toolkit.checks.outliers import Sheets
from toolkit.errors import UsageError
from toolkit.expect import Expect, ExpectKey
from toolkit.facts.node.node import Node
from toolkit.groups import Renamed, SiteWants, resolved
from toolkit.hosts.host import Host, Inventory
from toolkit.want import PeerPath, Want

NAMES = [f"gpu{number}" for number in range(1, 10)] + ["gb1", "gb2", "login1"]
SITE = Inventory(
    {name: Host(name) for name in NAMES},
    {"h100": tuple(NAMES[:9]), "gb200": ("gb1", "gb2"), "none": ()},
)


def load(folder: Path, text: str, inventory: Inventory = SITE) -> SiteWants:
    site = folder / "site.toml"
    site.write_text(text)
    return resolved(Want.load("peermem", site=site), lambda: inventory, "site.toml")


def waiver(check: str, until: str = "2027-01-31", hosts: str = "") -> str:
    named = f"hosts = {hosts}\n" if hosts else ""
    return f'check = "{check}"\nreason = "x"\nuntil = {until}\n{named}'


def test_what_is_expected_of_all_and_of_a_group(tmp_path: Path) -> None:
    wants = load(
        tmp_path,
        "[expect]\ngpus = 8\nrate = 400\n"
        '[[group]]\nhosts = "@gb200"\nexpect = { gpus = 4, gpu_model = "GB200" }\n',
    )
    assert wants.of("gpu3").expect == Expect(((ExpectKey.GPUS, 8), (ExpectKey.RATE, 400)))
    assert wants.of("gb2").expect == Expect(
        ((ExpectKey.GPUS, 4), (ExpectKey.GPU_MODEL, "GB200"), (ExpectKey.RATE, 400))
    )
    assert wants.of("of-nobody") == wants.common


def test_hosts_of_one_group_have_one_want(tmp_path: Path) -> None:
    """What is remembered of nodes that are judged alike rests on it."""
    wants = load(tmp_path, '[[group]]\nhosts = "@gb200"\nexpect = { gpus = 4 }\n')
    assert wants.of("gb1") is wants.of("gb2")
    assert wants.of("gpu1") is wants.of("login1")


@pytest.mark.parametrize("name", ["gpu3", "root@gpu3", "gpu3:2222", "root@gpu3:2222"])
def test_a_host_is_known_by_its_name_however_it_is_reached(tmp_path: Path, name: str) -> None:
    wants = load(tmp_path, '[[group]]\nhosts = "gpu[1-3]"\nexpect = { gpus = 4 }\n')
    assert wants.of(name).expect[ExpectKey.GPUS] == 4
    assert wants.of("gpu30").expect[ExpectKey.GPUS] is None


def test_evidence_may_be_called_anything(tmp_path: Path) -> None:
    wants = load(tmp_path, '[[group]]\nhosts = "gpu[1-3]"\nexpect = { gpus = 4 }\n')
    assert wants.of("[what ever!").expect == Expect()
    assert Renamed(wants, {"node001": "gpu1"}).of("node001").expect[ExpectKey.GPUS] == 4


def test_a_groups_profile_stands_in_place_of_the_other(tmp_path: Path) -> None:
    """Its path goes over that of the file; else the file's own keys stand, as over any profile."""
    (tmp_path / "old.toml").write_text('path = "dmabuf"\nrole = "vm"\ndriver_min = "535"\n')
    wants = load(
        tmp_path,
        'path = "peermem"\ndriver_min = "570"\n[[group]]\nhosts = "gb1"\nprofile = "old.toml"\n',
    )
    own = wants.of("gb1")
    assert (own.path, own.role, own.driver_min) == (PeerPath.DMABUF, "vm", "570")
    assert wants.of("gb2").path is PeerPath.PEERMEM


def test_a_waiver_is_for_the_hosts_that_it_names(tmp_path: Path) -> None:
    wants = load(
        tmp_path,
        "[[waivers]]\n"
        + waiver("acs.redirect", hosts="'gpu[1-3]'")
        + f"[[waivers]]\n{waiver('iommu.boot')}\n"
        f'[[group]]\nhosts = "@gb200"\n[[group.waivers]]\n{waiver("rdma.mtu")}',
    )
    told = {name: [each.check for each in wants.of(name).waivers] for name in NAMES}
    assert told["gpu1"] == ["iommu.boot", "acs.redirect"]
    assert told["gpu4"] == ["iommu.boot"]
    assert told["gb1"] == ["iommu.boot", "rdma.mtu"]


def test_a_waiver_of_a_group_may_name_some_of_its_hosts(tmp_path: Path) -> None:
    rows = waiver("rdma.mtu", hosts="'gb1,gpu1'") + "[[group.waivers]]\n" + waiver("rdma.gid")
    wants = load(tmp_path, f'[[group]]\nhosts = "@gb200"\n[[group.waivers]]\n{rows}')
    told = {name: sorted(each.check for each in wants.of(name).waivers) for name in NAMES}
    assert (told["gb1"], told["gb2"], told["gpu1"]) == (["rdma.gid", "rdma.mtu"], ["rdma.gid"], [])
    assert all(not each.hosts for each in wants.of("gb1").waivers)


def test_what_the_verb_expect_wrote_is_named_by_its_file(tmp_path: Path) -> None:
    """Whole, with its groups, for all; its keys alone, for the hosts of one group."""
    (tmp_path / "learned.toml").write_text('[[group]]\nhosts = "@h100"\n[group.expect]\ngpus = 8\n')
    (tmp_path / "gb.toml").write_text("[expect]\ngpus = 4\nhcas = 4\n")
    wants = load(
        tmp_path,
        'expect = "learned.toml"\n[[group]]\nhosts = "@gb200"\nexpect = "gb.toml"\n'
        'profile = "dmabuf"\n',
    )
    assert wants.of("gpu3").expect == Expect(((ExpectKey.GPUS, 8),))
    assert wants.of("gb1").expect == Expect(((ExpectKey.GPUS, 4), (ExpectKey.HCAS, 4)))
    assert (wants.of("gb1").path, wants.of("gpu3").path) == (PeerPath.DMABUF, PeerPath.PEERMEM)


def test_a_failure_is_waived_on_the_hosts_that_are_named(tmp_path: Path) -> None:
    rows = waiver("iommu.passthrough", hosts="'gpu1'")
    wants = load(tmp_path, f"[[waivers]]\n{rows}")
    bad = Node(node({"iommu-groups": groups("DMA-FQ")}))
    told = {host: BY_ID["iommu.passthrough"](bad, wants.of(host)) for host in ("gpu1", "gpu2")}
    assert told["gpu1"].waived(date(2027, 1, 31))
    assert told["gpu2"].waiver is None
    raw = Want.load("peermem", site=tmp_path / "site.toml")
    assert BY_ID["iommu.passthrough"](bad, raw).waiver is None


def test_nodes_laid_side_by_side_are_judged_by_their_own(tmp_path: Path) -> None:
    """What is remembered of equal evidence is not what another group's host was judged by."""
    wants = load(tmp_path, '[[group]]\nhosts = "@gb200"\nexpect = { gpus = 4 }\n')
    sheets = Sheets(wants)
    told = []
    for host in ("gpu1", "gb1", "gpu2"):
        checks = sheets.make(host, node()).sections[-1].traits or ()
        told += [each.value for each in checks if each.item == "expect.gpus"]
    assert told == ["n/a", "fail", "n/a"]


def test_of_two_waivers_of_one_check_the_one_that_still_counts_is_asked(tmp_path: Path) -> None:
    wants = load(
        tmp_path,
        f"[[waivers]]\n{waiver('acs.redirect', '2026-01-31')}\n"
        "[[waivers]]\n" + waiver("acs.redirect", "2027-01-31", "'gpu1'"),
    )
    assert wants.of("gpu1").waivers[0].until == date(2027, 1, 31)


def test_groups_may_overlap_where_they_agree(tmp_path: Path) -> None:
    wants = load(
        tmp_path,
        '[[group]]\nhosts = "@h100"\nexpect = { gpus = 8, rate = 400 }\n'
        '[[group]]\nhosts = "gpu[1-3]"\nexpect = { gpus = 8, kernel = "6.8" }\n',
    )
    assert wants.of("gpu1").expect == Expect(
        ((ExpectKey.GPUS, 8), (ExpectKey.RATE, 400), (ExpectKey.KERNEL, "6.8"))
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param(
            '[[group]]\nhosts = "@h100"\nexpect = { gpus = 8 }\n'
            '[[group]]\nhosts = "gpu[1-3]"\nexpect = { gpus = 4 }\n',
            "group 1 and group 2 contradict one another on gpu[1-3]: expect, gpus 8 and 4",
            "take them out of one of the two",
            id="two-groups-contradict",
        ),
        pytest.param(
            '[[group]]\nhosts = "gb1"\nprofile = "peermem"\n'
            '[[group]]\nhosts = "@gb200"\nprofile = "dmabuf"\n',
            "contradict one another on gb1: profile, path peermem and dmabuf",
            "take them out",
            id="two-profiles",
        ),
        pytest.param(
            '[[group]]\nhosts = "@gb300"\nexpect = { gpus = 4 }\n',
            "site.toml: group 1: hosts = '@gb300': @gb300: no group 'gb300'",
            "groups: gb200, h100",
            id="no-such-group",
        ),
        pytest.param(
            '[[group]]\nhosts = "@none"\nexpect = { gpus = 4 }\n',
            "group 1: hosts = '@none': the set of hosts is empty",
            "",
            id="nobody",
        ),
        pytest.param(
            "[[waivers]]\n" + waiver("acs.redirect", hosts="'gpu[1-'"),
            "site.toml: waiver of acs.redirect: hosts = 'gpu[1-'",
            "",
            id="a-waivers-hosts",
        ),
    ],
)
def test_hosts_that_cannot_be_meant_are_named(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        load(tmp_path, text)
    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_a_group_of_an_inventory_that_was_not_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"group 1: .* no inventory") as refused:
        load(tmp_path, '[[group]]\nhosts = "@gb200"\nexpect = { gpus = 4 }\n', Inventory())
    assert "--inventory" in refused.value.hint


def test_the_inventory_is_read_only_where_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[expect]\ngpus = 8\n")
    want = Want.load("peermem", site=tmp_path / "site.toml")

    def unwanted() -> Inventory:
        raise AssertionError

    assert resolved(want, unwanted, "site.toml").of("gpu1").expect[ExpectKey.GPUS] == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("expect = 8", "expect must be a table", id="no-table"),
        pytest.param("expect = { gpu = 8 }", "expect: unknown key 'gpu'; keys: gpus", id="key"),
        pytest.param('expect = { gpus = "8" }', "expect: gpus must be a number", id="quoted"),
        pytest.param("expect = { gpus = true }", "expect: gpus must be a number", id="flag"),
        pytest.param("expect = { hcas = -1 }", "expect: hcas must be a number", id="negative"),
        pytest.param('expect = { rate = "400" }', "expect: rate must be Gb/s", id="rate"),
        pytest.param("expect = { rate = 0 }", "expect: rate must be Gb/s", id="no-rate"),
        pytest.param("expect = { mtu = 9 }", "expect: mtu must be bytes", id="mtu"),
        pytest.param('expect = { bar1 = "128" }', "expect: bar1 '128' is no size", id="size"),
        pytest.param('expect = { gpu_link = "x" }', "expect: gpu_link 'x' is no link", id="link"),
        pytest.param("expect = { driver = 570 }", "expect: driver must be a string", id="number"),
        pytest.param('expect = { kernel = "Linux" }', "kernel 'Linux' is no version", id="name"),
        pytest.param('expect = { ofed = "OFED" }', "expect: ofed 'OFED' is none", id="ofed"),
        pytest.param('expect = { link_layer = "IB" }', "is not one of InfiniBand", id="layer"),
        pytest.param('expect = { gpu_model = "?" }', "gpu_model '?' is no name", id="model"),
        pytest.param("expect = { firmware = {} }", "firmware must be a string", id="no-board"),
        pytest.param("group = 3", "group must be tables", id="group"),
        pytest.param("[[group]]\nexpect = {}", "group 1 must have hosts", id="no-hosts"),
        pytest.param('[[group]]\nhosts = "gpu1"', "group 1 must have hosts, one or", id="nothing"),
        pytest.param('[[group]]\nhosts = ""\nexpect = {}', "hosts must be a node set", id="empty"),
        pytest.param(
            '[[group]]\nhosts = "gpu1"\nrole = "vm"', "one or more of expect, profile", id="role"
        ),
        pytest.param(
            '[[group]]\nhosts = "gpu1"\nexpect = { gpus = "8" }',
            "group 1: expect: gpus must be a number",
            id="in-a-group",
        ),
        pytest.param(
            '[[group]]\nhosts = "gpu1"\nprofile = "peerman"', "no profile 'peerman'", id="profile"
        ),
        pytest.param(
            '[[group]]\nhosts = "gpu1"\n[[group.waivers]]\n' + waiver("x", hosts="'gpu['"),
            "site.toml: group 1: waiver of x: hosts = 'gpu['",
            id="hosts-of-a-groups-waiver",
        ),
        pytest.param('expect = "none.toml"', "none.toml: cannot be read", id="expect-file"),
        pytest.param(
            '[[group]]\nhosts = "gpu1"\nexpect = "site.toml"',
            "group 1: expect 'site.toml' may have expect, not group",
            id="expect-file-with-groups",
        ),
        pytest.param(
            "[[waivers]]\n" + waiver("x", hosts="3"),
            "waiver 1: hosts must be a node set",
            id="a-waivers-hosts",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(tmp_path, text + "\n")
    assert message in str(refused.value)


def test_one_run_judges_each_node_by_what_its_group_wants(tmp_path: Path) -> None:
    """Three groups, three profiles, an expectation of one from a file, a waiver for one host."""
    (tmp_path / "lab.toml").write_text('path = "auto"\niommu = "any"\n')
    (tmp_path / "boards.toml").write_text("[expect]\ngpus = 9\n")
    rows = waiver("expect.gpus", "2099-01-31", "'demo-iommu'")
    (tmp_path / "site.toml").write_text(
        '[[group]]\nhosts = "demo-healthy,demo-stub"\nprofile = "dmabuf"\n'
        '[[group]]\nhosts = "demo-iommu,demo-rocky"\nprofile = "lab.toml"\n'
        f'expect = "boards.toml"\n[[group.waivers]]\n{rows}'
        '[[group]]\nhosts = "demo-kernel"\nprofile = "peermem"\n'
    )
    words = ("--hosts", "demo", "--site", "site.toml", "--json", "--quiet")
    done = gdr("doctor", *words, state=tmp_path / "state", cwd=tmp_path)
    hosts = {each["name"]: each for each in json.loads(done.stdout)["hosts"]}
    assert {name: each["state"] for name, each in hosts.items()} == {
        "demo-healthy": "ready", "demo-iommu": "ready", "demo-rocky": "broken",
        "demo-stub": "broken", "demo-kernel": "broken",
    }  # fmt: skip
    bad = {
        name.removeprefix("demo-"): {
            v["check"]: v["waived"] for v in each["verdicts"] if v["status"] == "fail"
        }
        for name, each in hosts.items()
    }
    assert (bad["healthy"], bad["iommu"]) == ({}, {"expect.gpus": True})
    assert bad["rocky"] == {"expect.gpus": False}  # and of iommu, which is left alone, nothing
    assert "dmabuf.gpu" in bad["stub"]
    assert "peermem.file" in bad["kernel"]
