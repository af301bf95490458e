"""A fleet laid side by side: who is unlike the others, in what, and in whose words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, PORTS, REDIRECTS, Board
from tests.evidence.build import INFINIBAND, PROPRIETARY, build_note, groups, node
from tests.evidence.frames import ABSENT as ABSENT_FRAME
from tests.evidence.frames import DENIED, Override
from tests.evidence.healthy_boot import ARGUMENTS
from tests.features.compare.comparing import NAMES, PLAIN, WHEN, fleet, only
from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.checks.outliers import (
    ABSENT,
    ADDRESSES,
    VERDICT,
    Comparison,
    Difference,
    Kind,
    Odd,
    Sheets,
)
from toolkit.evidence import Evidence
from toolkit.facts.comparables import HCA_NAMES, TOPICS, Trait, traits
from toolkit.facts.node.node import Node
from toolkit.features.compare.cli import text
from toolkit.report.table import WIDTH
from toolkit.want import Want


def test_equal_nodes_are_identical_whatever_they_are_called() -> None:
    compared = fleet()
    assert compared.kinds[0].identical == tuple(NAMES)
    assert compared.identical
    assert not compared.unread
    assert text(compared, PLAIN) == "12 nodes, all identical."


def test_one_with_another_value_is_named_with_the_value_and_the_norm() -> None:
    other = INFINIBAND.replace("fw_ver:28.43.2026", "fw_ver:28.39.1002", 1)
    hosts, differences = only(fleet({"gpu007": {"infiniband": other}}))
    assert hosts == ("gpu007",)
    assert differences == (
        Difference(
            "HCA firmware",
            "0000:19:00.0",
            "28.39.1002 (MT_0000000838)",
            "28.43.2026 (MT_0000000838)",
        ),
    )


def test_a_module_without_srcversion_is_told_apart_by_its_build() -> None:
    build = {each: f"ib_core/build:{build_note(each * 20)}\n" for each in ("aa", "bb")}
    frames = {name: {"module-state": build["aa"]} for name in NAMES}
    hosts, differences = only(fleet(frames | {"gpu007": {"module-state": build["bb"]}}))
    assert hosts == ("gpu007",)
    assert Difference("loaded module", "ib_core", "bb" * 20, "aa" * 20) in differences


PORT = "mlx5_0/ports/1"
LAYER = INFINIBAND.replace(f"{PORT}/link_layer:InfiniBand", f"{PORT}/link_layer:Ethernet")
V1, V2 = "IB/RoCE v1", "RoCE v2"


def gids(*types: str, address: str = "0000:0000:0000:0000:0000:ffff:0a00:00{:02d}") -> str:
    return "".join(
        f"{PORT}/gids/{index}:{address.format(7)}\n{PORT}/gid_attrs/types/{index}:{kind}\n"
        for index, kind in enumerate(types)
    )


@pytest.mark.parametrize(
    ("all_have", "one_has", "topic", "value", "norm"),
    [
        (
            {"infiniband": LAYER, "rdma-gids": gids(V1, V2)},
            {"rdma-gids": gids(V2, V1)},
            "GIDs",
            f"0: {V2} IPv4, 1: {V1} IPv4",
            f"0: {V1} IPv4, 1: {V2} IPv4",
        ),
        (
            {"infiniband": LAYER, "rdma-gids": gids(V2)},
            {"rdma-gids": gids(V2, address="fe80::{:02d}")},
            "GIDs",
            f"0: {V2} link-local",
            f"0: {V2} IPv4",
        ),
        (
            {"rdma-gids": gids("", address="fe80:0:0:1::{:02d}")},
            {"rdma-gids": gids("", address="fe80:0:0:2::{:02d}")},
            "InfiniBand subnet",
            "fe80:0000:0000:0002",
            "fe80:0000:0000:0001",
        ),
        (
            {"infiniband": LAYER, "net-devices": "ib0/mtu:9000\nib0/operstate:up\n"},
            {"net-devices": "ib0/mtu:1500\nib0/operstate:up\n"},
            "RDMA MTU",
            "1500",
            "9000",
        ),
    ],
    ids=["another-order", "no-address-of-its-own", "another-subnet", "another-mtu"],
)
def test_what_two_ends_have_to_agree_on_is_named_before_a_byte_moves(
    all_have: dict[str, str], one_has: dict[str, str], topic: str, value: str, norm: str
) -> None:
    frames = {name: all_have | (one_has if name == "gpu007" else {}) for name in NAMES}
    hosts, differences = only(fleet(frames))
    assert hosts == ("gpu007",)
    assert differences == (Difference(topic, "0000:19:00.0", value, norm),)


def test_acs_on_one_bridge_is_a_difference_with_its_verdict() -> None:
    compared = fleet(boards={"gpu007": BOARD.but(PORTS[0], acs=REDIRECTS)})
    _, differences = only(compared)
    assert [(each.topic, each.item) for each in differences] == [("ACS control", PORTS[0])]
    verdicts = {each.item: each.value for each in compared.kinds[0].odd[0].differences}
    assert verdicts["acs.redirect"] == "fail"


def test_an_item_that_is_missing_is_a_value_of_its_own() -> None:
    lines = "options mlx5_core probe_vf=1\n"
    _, differences = only(fleet({"gpu007": {"modprobe-config": lines}}))
    assert differences == (Difference("modprobe", "nouveau", ABSENT, "blacklisted"),)


@pytest.mark.parametrize(
    "word",
    [
        "root=UUID=2",
        "BOOT_IMAGE=/vmlinuz-x",
        "ip=10.0.0.7::10.0.0.1",
        "ds=nocloud",
        "rd.lvm.lv=a/b",
        "gdr_toolkit.trial=0a1b2c",
    ],
)
def test_what_names_one_host_on_the_command_line_is_no_difference(word: str) -> None:
    changed = {"gpu007": {"cmdline": f"{word} ro quiet iommu=pt\n"}}
    assert fleet(changed).identical


TRIAL = "panic=30 rd.shell=0 rd.emergency=reboot gdr_toolkit.trial=0a1b2c"


def test_what_a_trial_of_ours_adds_for_one_boot_is_no_difference() -> None:
    kept = "blacklist nouveau\noptions mlx5_core probe_vf=1\n"
    frames: dict[str, Override] = {
        "cmdline": f"{ARGUMENTS} {TRIAL}\n",
        "modprobe-config": f"{kept}options gdr_toolkit trial=0a1b2c\n",
    }
    assert fleet({"gpu007": frames}).identical
    frames["cmdline"] = f"{ARGUMENTS} panic=30\n"  # somebody else's
    _, differences = only(fleet({"gpu007": frames}))
    assert differences == (Difference("kernel argument", "panic", "30", ABSENT),)


def test_an_argument_that_is_missing_is() -> None:
    changed = {"gpu007": {"cmdline": ARGUMENTS.replace(" iommu=pt", "") + "\n"}}
    _, differences = only(fleet(changed))
    assert Difference("kernel argument", "iommu", ABSENT, "pt") in differences


def test_nodes_that_differ_alike_are_folded() -> None:
    driver: dict[str, Override] = {"nvidia-version": PROPRIETARY}
    compared = fleet({"gpu003": driver, "gpu004": driver})
    assert only(compared)[0] == ("gpu003", "gpu004")
    assert "differs  gpu[003-004]\n" in text(compared, PLAIN)


def test_what_could_not_be_read_is_neither_equal_nor_different() -> None:
    compared = fleet({"gpu007": {"iommu-groups": DENIED}})
    hosts, differences = only(compared)
    assert (hosts, differences) == (("gpu007",), ())
    assert "gpu007" not in compared.kinds[0].identical
    assert "IOMMU domain" in compared.kinds[0].odd[0].unread
    assert compared.unread
    shown = text(compared, PLAIN)
    assert "not read gpu007\n         not read: IOMMU domain, what is judged by" in shown
    assert "in nothing that could be read." in shown


def test_what_no_node_could_read_is_said_too() -> None:
    compared = fleet({name: {"iommu-groups": DENIED} for name in NAMES})
    assert compared.kinds[0].identical == ()
    assert compared.unread


def test_a_property_in_which_each_node_is_its_own_is_left_out() -> None:
    changes = {name: {"limits": f"limits.conf:* hard memlock {name}\n"} for name in NAMES}
    compared = fleet(changes)
    assert "memlock limits.conf" in compared.ignored
    assert not [each for odd in compared.kinds[0].odd for each in odd.differences
                if each.topic == "memlock"]  # fmt: skip


def test_what_follows_from_an_absent_driver_is_one_line() -> None:
    """Its options are gone with it: thirty lines would hide the one that counts."""
    gone: dict[str, Override] = {"nvidia-version": ABSENT_FRAME, "nvidia-params": ABSENT_FRAME}
    _, differences = only(fleet({"gpu007": gone}))
    assert [each for each in differences if each.topic == "driver option"] == [
        Difference("driver option", "", "none at all", "3 of them")
    ]


def test_of_two_nodes_each_difference_is_told() -> None:
    compared = fleet({"gpu002": {"nvidia-version": PROPRIETARY}}, names=NAMES[:2])
    assert only(compared)[0] == ("gpu002",)


# --- kinds ---

OTHER = "sys_vendor:Dell Inc.\nproduct_name:PowerEdge XE9640\n"


def halves() -> dict[str, dict[str, Override]]:
    """The second half of the fleet is another product."""
    return {name: {"dmi": OTHER} for name in NAMES[6:]}


def test_two_large_parts_are_two_kinds() -> None:
    compared = fleet(halves())
    assert [kind.hosts for kind in compared.kinds] == [tuple(NAMES[:6]), tuple(NAMES[6:])]
    assert (
        Difference("firmware", "product_name", "PowerEdge XE9680", "PowerEdge XE9640")
        in compared.kinds[0].marks
    )
    assert [kind.odd for kind in compared.kinds] == [(), ()]
    assert not compared.identical
    shown = text(compared, PLAIN)
    assert shown.startswith(
        "6 of kind 1: gpu[001-006]\n         firmware product_name: PowerEdge XE9680"
    )


def test_within_a_kind_its_own_norm_counts() -> None:
    changes = halves()
    changes["gpu012"] = {**changes["gpu012"], "nvidia-version": PROPRIETARY}
    first, second = fleet(changes).kinds
    assert first.odd == ()
    (odd,) = second.odd
    assert odd.hosts == ("gpu012",)
    assert "NVIDIA driver" in {each.topic for each in odd.differences}
    assert "firmware" not in {each.topic for each in odd.differences}


def test_a_node_that_could_not_tell_its_kind_goes_with_the_nearest() -> None:
    changes = halves()
    changes["gpu001"] = {"dmi": DENIED}
    assert sorted(len(kind.hosts) for kind in fleet(changes).kinds) == [6, 6]


def test_a_few_are_outliers_and_no_kind() -> None:
    changes = {name: {"dmi": OTHER} for name in NAMES[:2]}
    compared = fleet(changes)
    assert len(compared.kinds) == 1
    assert only(compared)[0] == ("gpu001", "gpu002")


# --- PCI addresses ---


def renumbered(board: Board, by: int = 0x40) -> Board:
    """The same machine after its firmware numbered every bus anew."""

    def moved(address: str) -> str:
        if address.startswith("pci"):
            return f"pci0000:{int(address[8:], 16) ^ by:02x}"
        domain, bus, rest = address.split(":")
        return f"{domain}:{int(bus, 16) ^ by:02x}:{rest}"

    return Board(
        tuple(
            replace(each, address=moved(each.address), parent=moved(each.parent))
            for each in sorted(board.functions, key=lambda each: moved(each.address))
        )
    )


def test_a_machine_with_other_bus_numbers_differs_in_one_line() -> None:
    compared = fleet(
        {"gpu007": {"infiniband": _moved_infiniband()}}, {"gpu007": renumbered(BOARD, 0x08)}
    )
    _, differences = only(compared)
    assert {each.topic for each in differences} == {ADDRESSES}


def test_another_machine_at_other_addresses_is_told_device_by_device() -> None:
    """Of other products nobody knows which stands for which."""
    other = renumbered(BOARD, 0x08)
    gpu = next(each for each in other.functions if each.ids[0] == 0x10DE)
    _, differences = only(
        fleet(
            {"gpu007": {"infiniband": _moved_infiniband()}},
            {"gpu007": other.but(gpu.address, ids=(0x10DE, 0x2335))},
        )
    )
    told = {each.item for each in differences if each.topic == "PCI device"}
    assert {GPUS[0], gpu.address} <= told


def _moved_infiniband() -> str:
    text = INFINIBAND
    for old in ("0000:19:", "0000:9b:", "0000:06:"):
        text = text.replace(old, f"0000:{int(old[5:7], 16) ^ 0x08:02x}:")
    return text


def test_a_device_that_no_driver_has_is_told_as_one() -> None:
    _, differences = only(fleet(boards={"gpu007": BOARD.but(GPUS[0], driver="")}))
    told = {each.topic: (each.item, each.value, each.norm) for each in differences}
    assert told["bound driver"] == (GPUS[0], "none", "nvidia")


def test_a_device_of_software_stands_nowhere_and_is_compared_with_none() -> None:
    soft = "rxe0/node_type:1: CA\nrxe0/ports/1/state:4: ACTIVE\n"
    found = traits(Node(node({"infiniband": INFINIBAND + soft})), HCA_NAMES)
    assert found == traits(Node(node()), HCA_NAMES)
    assert found


def test_a_device_that_is_missing_is_missed_at_its_own_address() -> None:
    compared = fleet(
        {"gpu007": {"iommu-groups": groups("identity", "10", "20", "21", "30")}},
        {"gpu007": BOARD.without(GPUS[1])},
    )
    _, differences = only(compared)
    assert {(each.topic, each.item) for each in differences} == {
        ("PCI device", GPUS[1]),
        ("link", "0000:99:00.0"),  # of the port that it is gone from
    }


def test_devices_are_called_what_they_are() -> None:
    shown = text(fleet(boards={"gpu007": BOARD.without(GPUS[1])}), PLAIN)
    assert f"PCI device GPU {GPUS[1]}: not there; the others: GPU 10de:" in shown
    assert max(map(len, shown.split("\n"))) <= WIDTH


# --- sheets ---


@pytest.mark.parametrize("name", ["healthy", "ill", "denied"])
def test_what_is_remembered_is_what_would_be_judged(name: str) -> None:
    """The memory of sheets gives what a fresh judgement gives, whatever came before."""
    nodes: dict[str, Evidence] = {
        "healthy": node(),
        "ill": node({"iommu-groups": groups("DMA-FQ"), "limits": ""},
                    board=BOARD.but(PORTS[0], acs=REDIRECTS)),
        "denied": node({"iommu-groups": DENIED, "kallsyms": DENIED}),
    }  # fmt: skip
    sheets = Sheets(Want())
    for other in nodes.values():
        sheets.make("before", other)
    sheet = sheets.make("now", nodes[name])
    judged = judge_node("now", nodes[name], Want(), WHEN.date())
    expected = tuple(
        Trait(each.check.id, None if each.status is Status.UNKNOWN else each.status.value)
        for each in judged.verdicts
    )
    sections = {each.name: each.traits for each in sheet.sections}
    assert sections.pop(VERDICT) == expected
    assert sections == {topic.name: traits(Node(nodes[name]), topic) for topic in TOPICS}


def test_equal_sections_are_kept_once() -> None:
    sheets = Sheets(Want())
    one, two = (sheets.make(name, node({"hostname": name + "\n"})) for name in ("a", "b"))
    assert all(a is b for a, b in zip(one.sections, two.sections, strict=True))


@pytest.mark.parametrize(
    ("unread", "said"),
    [
        (("driver", "check a"), "not read: driver, what is judged by a"),
        (tuple(f"check {at}" for at in range(4)), "not read: what is judged by 0, 1, 2, 3"),
        (tuple(f"check {at}" for at in range(5)), "not read: 5 checks"),
    ],
)
def test_few_checks_that_were_not_read_are_named_and_many_are_counted(
    unread: tuple[str, ...], said: str
) -> None:
    kind = Kind(("a", "b", "c"), ("b", "c"), (Odd(("a",), unread=unread),))
    shown = text(Comparison((kind,), ("boot id",)), PLAIN).split("\n")
    assert shown[1].strip() == said
    assert shown[3:] == [
        "1 more differs in nothing that could be read.",
        "",
        "each node has its own: boot id",
    ]
