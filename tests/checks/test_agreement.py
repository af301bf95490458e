"""What nodes have to have alike is judged of the set: only where it was read, and within a kind."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS
from tests.evidence.build import INFINIBAND, PROPRIETARY, node
from tests.evidence.frames import DENIED, Override
from toolkit.checks.agreement import RULES, Agreement, SetVerdict, SmallSheets
from toolkit.checks.check import Impact, Status
from toolkit.groups import SiteWants
from toolkit.report.between import between_document, between_lines
from toolkit.report.table import WIDTH, Painter
from toolkit.want import Group, Role, Want

NAMES = [f"gpu{number:03d}" for number in range(1, 9)]
PORT, ADDRESS = "mlx5_0/ports/1", "0000:19:00.0"
ROCE = INFINIBAND.replace(f"{PORT}/link_layer:InfiniBand", f"{PORT}/link_layer:Ethernet")
V1, V2 = "IB/RoCE v1", "RoCE v2"
IPV6 = "fd00:0000:0000:0000:0000:0000:0000:0007"
IPV4, LOCAL = "0000:0000:0000:0000:0000:ffff:0a00:0007", "fe80:0000:0000:0000:0000:0000:0000:0007"
Frames = dict[str, Override]


def gids(*entries: tuple[str, str]) -> str:
    return "".join(
        f"{PORT}/gids/{index}:{address}\n{PORT}/gid_attrs/types/{index}:{kind}\n"
        for index, (kind, address) in enumerate(entries)
    )


def pkeys(*keys: str) -> str:
    return "".join(f"{PORT}/pkeys/{index}:{key}\n" for index, key in enumerate(keys))


def netted(mtu: int) -> str:
    return f"ib0/mtu:{mtu}\nib0/operstate:up\n"


def qos(trust: str, enabled: str) -> str:
    return (
        f"Priority trust state: {trust}\nPFC configuration:\n\tpriority 0 1 2 3 4 5 6 7\n"
        f"\tenabled  {'   '.join(enabled)}\n"
    )


def judged(
    frames: dict[str, Frames], names: list[str] = NAMES, wants: SiteWants | Want | None = None
) -> dict[str, SetVerdict]:
    agreement, small = Agreement(wants or Want()), SmallSheets()
    for name in names:
        frames_of = {"hostname": f"{name}\n", **frames.get(name, {})}
        agreement.take(small.make(name, node(frames_of)))
    return {each.rule.id: each for each in agreement.verdicts()}


def others(all_have: Frames, one_has: Frames, one: str = "gpu007") -> dict[str, Frames]:
    return {name: all_have | (one_has if name == one else {}) for name in NAMES}


CONF = "NCCL_IB_GID_INDEX=1\n"
INDEX: Frames = {"nccl-conf": CONF, "consumer-settings": ""}
ROWS = [
    pytest.param(
        "between.link-layer", {"rdma-gids": ""}, {"infiniband": ROCE},
        "Ethernet", "InfiniBand", id="link-layer",
    ),
    pytest.param(
        "between.rate", {},
        {"infiniband": INFINIBAND.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1)},
        "200 Gb/sec (4X HDR)", "400 Gb/sec (4X NDR)", id="rate",
    ),
    pytest.param(
        "between.mtu", {"infiniband": ROCE, "net-devices": netted(9000)},
        {"net-devices": netted(1500)}, "1500", "9000", id="mtu",
    ),
    pytest.param(
        "between.subnet", {"rdma-gids": gids(("", "fe80:0:0:1::7"))},
        {"rdma-gids": gids(("", "fe80:0:0:2::7"))},
        "fe80:0000:0000:0002", "fe80:0000:0000:0001", id="subnet",
    ),
    pytest.param(
        "between.gid", {"infiniband": ROCE, "rdma-gids": gids((V1, IPV4), (V2, IPV4))},
        {"rdma-gids": gids((V2, IPV4), (V1, IPV4))},
        f"0: {V2} IPv4, 1: {V1} IPv4", f"0: {V1} IPv4, 1: {V2} IPv4", id="gid-order",
    ),
    pytest.param(
        "between.gid-family", {"infiniband": ROCE, "rdma-gids": gids((V2, IPV4))},
        {"rdma-gids": gids((V2, IPV6))}, "IPv6", "IPv4", id="gid-family",
    ),
    pytest.param(
        "between.gid-index",
        {"infiniband": ROCE, "rdma-gids": gids((V1, IPV4), (V2, IPV4)), **INDEX},
        {"rdma-gids": gids((V2, IPV4), (V2, LOCAL))},
        f"{V2} link-local", f"{V2} IPv4", id="gid-index",
    ),
    pytest.param(
        "between.pkey", {"rdma-gids": pkeys("0x8001", "0xffff")},
        {"rdma-gids": pkeys("0xffff", "0x8001")}, "0xffff", "0x8001", id="pkey-order",
    ),
    pytest.param(
        "between.hca-name", {}, {"infiniband": INFINIBAND.replace("mlx5_0/", "mlx5_7/")},
        "mlx5_7", "mlx5_0", id="hca-name",
    ),
    pytest.param(
        "between.driver", {}, {"nvidia-version": PROPRIETARY},
        "580.126.16 proprietary", "580.126.16 open", id="driver",
    ),
    pytest.param(
        "between.nccl", {"nccl-conf": "NCCL_IB_TC=106\n", "consumer-settings": ""},
        {"nccl-conf": "NCCL_IB_TC=0\n"}, "0", "106", id="nccl",
    ),
    pytest.param(
        "between.qos",
        {"infiniband": ROCE, "mlnx-qos": qos("dscp", "00010000")},
        {"mlnx-qos": qos("pcp", "00010000")},
        "trust pcp, PFC 3", "trust dscp, PFC 3", id="qos",
    ),
    pytest.param(
        "between.firmware", {},
        {"infiniband": INFINIBAND.replace("fw_ver:28.43.2026", "fw_ver:28.39.1002", 1)},
        "28.39.1002 (MT_0000000838)", "28.43.2026 (MT_0000000838)", id="firmware",
    ),
    pytest.param(
        "between.ofed", {}, {"ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n"},
        "mlnx-ofed 24.10-2.1.8.0", "doca-ofed 25.10-1.7.1", id="ofed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "all_have", "one_has", "value", "norm"), ROWS)
def test_one_that_has_something_else_is_named_with_what_the_others_have(
    rule: str, all_have: Frames, one_has: Frames, value: str, norm: str
) -> None:
    assert judged(others(all_have, {}))[rule].status is Status.PASS
    found = judged(others(all_have, one_has))[rule]
    assert found.status is Status.FAIL
    [one] = found.differing
    assert (one.hosts, one.value, one.norm) == (("gpu007",), value, norm)


def test_a_gpu_that_is_further_from_its_hca_than_on_the_others_is_named() -> None:
    agreement, small = Agreement(Want()), SmallSheets()
    for name in NAMES:
        board = BOARD.without(HCAS[0]) if name == "gpu007" else BOARD
        agreement.take(small.make(name, node({"hostname": f"{name}\n"}, board=board)))
    found = {each.rule.id: each for each in agreement.verdicts()}
    [one] = found["between.gpu-rail"].differing
    assert (one.hosts, one.items, one.norm) == (("gpu007",), (GPUS[0],), "PIX")
    fails = {rule for rule, each in found.items() if each.status is Status.FAIL}
    assert fails == {"between.gpu-rail"}, "a device that is missing is no other rate or layer"


def test_an_hca_that_hangs_on_the_other_socket_is_named() -> None:
    agreement, small = Agreement(Want()), SmallSheets()
    for name in NAMES:
        board = BOARD.but(HCAS[0], numa=1) if name == "gpu007" else BOARD
        agreement.take(small.make(name, node({"hostname": f"{name}\n"}, board=board)))
    [one] = {each.rule.id: each for each in agreement.verdicts()}["between.numa"].differing
    assert (one.hosts, one.items, one.value) == (("gpu007",), (HCAS[0],), "NUMA node 1")


LIMITED: Frames = {"rdma-gids": pkeys("0x7fff")}
FULL: Frames = {"rdma-gids": pkeys("0xffff")}


def test_limited_members_of_a_partition_reach_full_ones_alone() -> None:
    found = judged(dict.fromkeys(NAMES[1:], FULL) | {NAMES[0]: LIMITED})["between.pkey"]
    assert found.status is Status.PASS, "one of each two is a full member"
    found = judged(dict.fromkeys(NAMES, LIMITED))["between.pkey"]
    assert (found.status, found.found) == (Status.FAIL, "gpu[001-008]")
    mixed = dict.fromkeys(NAMES[:2], LIMITED) | dict.fromkeys(NAMES[2:], FULL)
    assert judged(mixed)["between.pkey"].found == "gpu[001-002]"
    tenants: Frames = {"rdma-gids": pkeys("0x7fff", "0x8005")}
    found = judged(dict.fromkeys(NAMES, tenants))["between.pkey"]
    assert found.status is Status.UNKNOWN, "a job may be told of the full one by its environment"


def test_the_p_key_that_a_setting_names_is_the_one_that_counts() -> None:
    second: Frames = {"nccl-conf": "NCCL_IB_PKEY=1\n", "consumer-settings": ""}
    same: Frames = {"rdma-gids": pkeys("0x8001", "0xffff"), **second}
    first = judged(others(same, {"rdma-gids": pkeys("0xffff", "0xffff")}))["between.pkey"]
    assert first.status is Status.PASS
    [one] = judged(others(same, {"rdma-gids": pkeys("0x8001")}))["between.pkey"].differing
    assert (one.value, one.norm) == ("none at index 1", "0xffff")
    far = same | {"nccl-conf": "NCCL_IB_PKEY=10\n"}
    unread = judged(dict.fromkeys(NAMES, far))["between.pkey"]
    assert unread.status is Status.UNKNOWN, "beyond what the probe reads"
    none: Frames = {"rdma-gids": ""}
    old = judged(dict.fromkeys(NAMES, none))["between.pkey"]
    assert old.status is Status.UNKNOWN, "an older probe read none"


def test_a_driver_that_is_not_loaded_is_no_other_driver() -> None:
    bare: Frames = {"nvidia-version": "", "module-state": ""}
    assert judged({"gpu007": bare})["between.driver"].status is Status.PASS


def test_each_rule_has_a_row() -> None:
    told = {str(row.values[0]) for row in ROWS}
    assert {rule.id for rule in RULES} - told == {"between.gpu-rail", "between.numa"}, "above"


def test_a_second_port_that_is_down_is_no_other_rate() -> None:
    lines = [line for line in INFINIBAND.split("\n") if line.startswith("mlx5_0/ports/1/")]
    second = "".join(line.replace("/ports/1/", "/ports/2/") + "\n" for line in lines)
    down = second.replace("ACTIVE", "DOWN").replace("LinkUp", "Polling")
    assert down != second
    found = judged(others({"infiniband": INFINIBAND + second}, {"infiniband": INFINIBAND + down}))
    fails = {rule for rule, each in found.items() if each.status is Status.FAIL}
    assert fails == set(), "the node's own rdma.port tells"


def test_families_that_overlap_reach_each_other() -> None:
    both: Frames = {"rdma-gids": gids((V2, IPV4), (V2, IPV6))}
    found = judged(others({"infiniband": ROCE, "rdma-gids": gids((V2, IPV4))}, both))
    assert found["between.gid-family"].status is Status.PASS
    assert found["between.gid"].status is Status.FAIL, "but another index is another GID"


def test_a_pair_that_disagrees_is_told_without_a_majority() -> None:
    frames: dict[str, Frames] = {"gpu002": {"infiniband": ROCE}}
    found = judged(frames, NAMES[:2])["between.link-layer"]
    assert found.status is Status.FAIL
    assert found.differing[0].found == f"{ADDRESS}: Ethernet; the others: InfiniBand"


def test_a_set_of_two_kinds_is_unlike_by_intent() -> None:
    frames: dict[str, Frames] = {name: {"infiniband": ROCE} for name in NAMES[4:]}
    found = judged(frames)["between.link-layer"]
    assert found.status is Status.NA
    assert "gpu[001-004]: InfiniBand" in found.found
    assert "gpu[005-008]: Ethernet" in found.found


def test_groups_of_the_sites_file_are_judged_apart() -> None:
    frames: dict[str, Frames] = {"gpu008": {"infiniband": ROCE}}
    assert judged(frames)["between.link-layer"].status is Status.FAIL
    group = Group("gpu008", "", profile=(("role", Role.VM_HOST),))
    wants = SiteWants(Want(), ((lambda host: host == "gpu008", group),))
    found = judged(frames, wants=wants)["between.link-layer"]
    assert (found.status, found.found) == (Status.PASS, "alike on 7 nodes")


def test_what_was_not_read_is_neither_alike_nor_different() -> None:
    found = judged({"gpu003": {"infiniband": DENIED}})
    assert {each.status for each in found.values()} <= {Status.PASS, Status.UNKNOWN}
    assert found["between.rate"].unread == ("gpu003",)
    assert found["between.rate"].found == "alike on 7 nodes"
    nobody: dict[str, Frames] = {name: {"infiniband": DENIED} for name in NAMES[1:]}
    assert judged(nobody)["between.rate"].status is Status.UNKNOWN


def test_where_each_has_something_else_there_is_no_norm() -> None:
    frames: dict[str, Frames] = {
        name: {"infiniband": ROCE, "net-devices": netted(mtu)}
        for name, mtu in zip(NAMES, (1500, 2048, 4200, 4200, 9000, 9000, 1500, 2048), strict=True)
    }
    assert judged(frames)["between.mtu"].status is not Status.FAIL


def test_one_node_is_no_set() -> None:
    assert judged({}, NAMES[:1]) == {}


def test_what_differs_is_told_in_lines_that_fit_and_as_a_document() -> None:
    found = tuple(judged({"gpu007": {"infiniband": ROCE}}).values())
    lines = between_lines(found, Painter(False))
    assert lines[0].split() == ["fail", "between.link-layer", "broken", "gpu007"]
    assert max(map(len, lines)) <= WIDTH
    assert [line.split()[0] for line in lines[1:4]] == ["found", "expected", "why"]
    every = between_lines(found, Painter(False), verbose=True)
    passing = [line.split() for line in every if line.startswith("pass")]
    assert {len(words) for words in passing} == {2}, "what does not fail has no impact"
    mixed = tuple(judged({"gpu007": {"ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n"}}).values())
    assert between_lines(mixed, Painter(False), brief=True) == [
        "fragile  between nodes: between.ofed on gpu007",
        "",
    ]
    told = between_document(found)["between"]
    assert isinstance(told, list)
    assert len(told) == len(RULES)
    assert between_document(()) == {}
    assert {rule.impact for rule in RULES} <= {Impact.BROKEN, Impact.SLOW, Impact.FRAGILE}
