"""What limits a pair on boards whose every register is known, each worked out by hand.

With the constants as shipped a Gen5 x16 link carries 63.0 * 256/280 * 0.984 = 56.7 GB/s, half of
that as x8 or as Gen4; 400G InfiniBand 50 * 0.962 = 48.1.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, HCAS, PORTS, REDIRECTS, Board, Registers, hca
from tests.evidence.build import GUEST_CPU, INFINIBAND, UP, groups, hca_lines, node
from tests.evidence.frames import Override
from toolkit.facts.node.node import Node
from toolkit.features.predict.plan.totals import predict
from toolkit.throughput.inputs import Load
from toolkit.throughput.pair import PairPrediction

WIRE = "wire (400G InfiniBand)"
GENOA = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
ROME = "vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\n"
CORE = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 183\n"
ROCE = {
    "infiniband": INFINIBAND.replace("InfiniBand", "Ethernet").replace("net:ib0", "net:ens1np0"),
    "ibv-devinfo": "",
    "net-devices": "ens1np0/mtu:1500\nens1np0/operstate:up\n",
}
TRANSLATED = {"iommu-groups": groups("DMA-FQ")}
X8, GEN4 = ("32.0 GT/s PCIe", 8), ("16.0 GT/s PCIe", 16)
SMALL = Registers(payload=128)
FEW = Registers(tags_8bit=False, read_request=128)
NEAR, STORAGE, FAR = (GPUS[0], HCAS[0]), (GPUS[0], HCAS[2]), (GPUS[0], HCAS[1])
# Of 256-byte packets 256/280 is payload, of 128-byte ones 128/152.
BY_HAND = [
    pytest.param(BOARD, {}, NEAR, WIRE, 48.1, id="48-of-57-is-the-wire"),
    pytest.param(BOARD.but(HCAS[0], now=X8), {}, NEAR, "PCIe (HCA", 28.4, id="hca-x8"),
    pytest.param(BOARD.but(GPUS[0], now=X8), {}, NEAR, "PCIe (GPU", 28.4, id="gpu-x8"),
    # 31.5 * 128/152 * 0.984
    pytest.param(
        BOARD.but(HCAS[0], now=GEN4, express=SMALL), {}, NEAR, "PCIe (HCA", 26.1, id="payload-128"
    ),
    # 52.2 on the link is still more than the wire.
    pytest.param(BOARD.but(HCAS[0], express=SMALL), {}, NEAR, WIRE, 48.1, id="payload-no-matter"),
    # 50 * 1024/1106: a net device's MTU of 1500 leaves RDMA 1024.
    pytest.param(BOARD, ROCE, NEAR, "wire (400G RoCE, MTU 1024)", 46.3, id="roce-mtu-1500"),
    # Genoa's root complex leaves 0.956 of 56.7: 54.2, more than the wire.
    pytest.param(BOARD, {"cpu": GENOA}, STORAGE, WIRE, 48.1, id="root-complex-of-genoa"),
    # Between its sockets 0.688 of 56.7.
    pytest.param(BOARD, {"cpu": GENOA}, FAR, "between sockets (AMD Zen 4", 39.0, id="sockets"),
    # Between those of Rome 0.407 of 56.7.
    pytest.param(BOARD, {"cpu": ROME}, FAR, "between sockets (AMD Zen 2", 23.1, id="older-sockets"),
    # A client's IOMMU leaves 0.486 of 56.7.
    pytest.param(
        BOARD, {"cpu": CORE, **TRANSLATED}, NEAR, "IOMMU that translates", 27.5, id="client-iommu"
    ),
    # A server's does not show under a deep queue; the lower bound knows.
    pytest.param(BOARD, {**TRANSLATED, "cpu": GENOA}, NEAR, WIRE, 48.1, id="server-iommu"),
]


def pair(
    board: Board, frames: dict[str, Override], ends: tuple[str, str], load: Load | None = None
) -> PairPrediction:
    found = predict(Node(node(frames, board=board)), load)
    return next(each for each in found.pairs if (each.gpu, each.hca) == ends)


@pytest.mark.parametrize(("board", "frames", "ends", "limit", "gigabytes"), BY_HAND)
def test_what_limits_is_the_smallest_of_what_was_worked_out(
    board: Board,
    frames: dict[str, Override],
    ends: tuple[str, str],
    limit: str,
    gigabytes: float,
) -> None:
    found = pair(board, frames, ends).with_gdr
    assert found.limit.startswith(limit)
    assert found.value == pytest.approx(gigabytes, abs=0.1)
    assert found.low < found.value <= found.high


def test_a_client_whose_hca_may_translate_for_itself_may_be_as_fast_as_ever() -> None:
    frames: dict[str, Override] = {"cpu": CORE, **TRANSLATED}
    whole, part = pair(BOARD, frames, NEAR), pair(BOARD.but(HCAS[0], readable=64), frames, NEAR)
    assert whole.with_gdr.high < 35 < part.with_gdr.high
    assert any(each.startswith("ATS of the HCA not read") for each in part.with_gdr.assumptions)


def test_few_tags_and_small_requests_limit_reads_alone() -> None:
    """32 requests of 128 bytes in 0.8 us: 5.1 GB/s."""
    found = pair(BOARD.but(HCAS[0], express=FEW), {}, NEAR)
    assert found.with_gdr.limit == WIRE
    assert found.read.limit == "reads on order (32 of 128 B)"
    assert found.read.value == pytest.approx(5.12, abs=0.01)
    assert found.collective.value < found.read.value


def test_redirect_takes_its_part_of_the_ring() -> None:
    """48.1 * 0.987 * 0.564."""
    found = pair(BOARD.but(PORTS[0], acs=REDIRECTS), {}, NEAR)
    assert found.collective.value == pytest.approx(26.8, abs=0.1)
    assert found.collective.limit.startswith(f"ACS redirect at {PORTS[0]}")


def test_one_slow_hca_may_hold_up_the_ring_of_both() -> None:
    """Equal shares: twice the lower bound of the slower."""
    slow = predict(Node(node(board=BOARD.but(PORTS[0], acs=REDIRECTS))))
    assert slow.total is not None
    lows = [each.collective.low for each in slow.nearest]
    assert slow.total.with_gdr.low == pytest.approx(2 * min(lows))
    assert slow.total.with_gdr.value == pytest.approx(
        sum(each.collective.value for each in slow.nearest)
    )


def test_what_redirect_and_translation_cost_together_is_not_counted_twice() -> None:
    fenced = BOARD.but(PORTS[0], acs=REDIRECTS)
    one, both = pair(fenced, {}, NEAR), pair(fenced, dict(TRANSLATED), NEAR)
    assert both.collective.low == one.collective.low


def test_one_small_message_in_flight_is_limited_by_its_window() -> None:
    """4096 bytes every 6.43 + 0.085 us."""
    found = pair(BOARD, {}, NEAR, Load(size=4096, depth=1)).with_gdr
    assert found.limit == "message size and depth (4096 B, 1 in flight)"
    assert found.value == pytest.approx(0.63, abs=0.01)


def test_a_small_message_through_host_memory_waits_for_the_launch_of_its_copies() -> None:
    """4096 bytes every 19.3 us; from 1 MiB on a library cuts it, and launches are hidden."""
    small = pair(BOARD, {}, NEAR, Load(size=4096)).without_gdr
    assert small.limit == "copies through host memory, a launch for each message of 4096 B"
    assert small.value == pytest.approx(4096 / 19.3e3, rel=0.01)
    assert small.high > 10 * small.value  # where GPU memory is mapped there is none
    large = pair(BOARD, {}, NEAR, Load()).without_gdr
    assert large.limit == f"bounce through host memory, of {WIRE}"
    assert large.value == pytest.approx(33.4, abs=0.1)


def test_a_guest_posts_half_as_many_messages_a_second() -> None:
    """0.35 us between two, not 0.15: seen only where they are small."""
    load, guest = Load(size=64), {"cpu": GUEST_CPU}
    assert pair(BOARD, {}, NEAR, load).with_gdr.value == pytest.approx(64 / 150, rel=0.01)
    told = predict(Node(node({**guest}, board=BOARD)), load)
    found = next(each for each in told.pairs if (each.gpu, each.hca) == NEAR)
    assert found.with_gdr.value == pytest.approx(64 / 350, rel=0.01)


def test_redirect_may_cost_a_shallow_queue_and_a_small_message_what_a_deep_one_hides() -> None:
    """Nobody published how much: the bounds alone know."""
    fenced, shallow = BOARD.but(PORTS[0], acs=REDIRECTS), Load(size=131072, depth=1)
    clear, slow = pair(BOARD, {}, NEAR, shallow), pair(fenced, {}, NEAR, shallow)
    assert slow.with_gdr.value == clear.with_gdr.value
    assert slow.with_gdr.low == pytest.approx(0.27 * clear.with_gdr.low)
    assert slow.latency.verbs.high == pytest.approx(clear.latency.verbs.high + 1.0)
    assert slow.collective.low == pytest.approx(0.27 * clear.collective.low)


def test_reads_of_a_client_s_root_complex_are_not_to_be_had() -> None:
    found = pair(BOARD, {"cpu": CORE}, STORAGE)
    assert (found.read.value, found.collective.value) == (0.0, 0.0)
    assert found.with_gdr.value > 0


def test_the_functions_of_one_card_share_its_link() -> None:
    """Two ports of 48.1 each behind one Gen4 x16 link of 28.4: 28.4 * 0.987 in all."""
    second = HCAS[0].replace(".0", ".1")
    twin = hca(second, PORTS[1], group="12")
    board = BOARD.but(HCAS[0], now=GEN4).without(HCAS[1], GPUS[1]).plus(replace(twin, now=GEN4))
    frames: dict[str, Override] = {
        "infiniband": hca_lines("mlx5_0", HCAS[0], UP) + hca_lines("mlx5_1", second, UP),
    }
    total = predict(Node(node(frames, board=board))).total
    assert total is not None
    assert total.hcas == ("mlx5_0", "mlx5_1")
    assert total.with_gdr.limit.startswith("PCIe of 1 card with several HCAs")
    assert total.with_gdr.value == pytest.approx(28.0, abs=0.1)
