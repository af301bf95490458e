"""The wire of a pair: which port counts, what a kind has at most, and which MTU RDMA gets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.build import GUEST_CPU, node
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_fabric import devinfo
from toolkit.compat.throughput import Range, constants
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.throughput.inputs import HcaWire
from toolkit.throughput.model import Layer2, Poster
from toolkit.throughput.ports import HcaKind, no_port_up, packet_of, wire_of

C = constants()
EXACT = Range.exactly
ANY_MTU = Range(4096, 1024, 4096)
UP = Port(1, "ACTIVE", "LinkUp", "400 Gb/sec (4X NDR)", "Ethernet", 2048)
SLOW = replace(UP, number=2, rate="200 Gb/sec (4X HDR)", active_mtu=1024)
DOWN = replace(UP, state="DOWN", phys_state="Polling")
UNREAD = Port(1, "", "", "", "")
CX7, NOBODY = HcaKind((0x15B3, 0x1021)), HcaKind((0x1234, 0x5678))
CARRIES_NOTHING = (
    "no port of mlx5_0 is up, so that it carries nothing now: told is its kind's rate at most"
)
ANY_RATE = "25 to 800 Gb/s, as HCAs of any kind have; --what-if rate=400 narrows it"


def hca(*ports: Port, netdevs: tuple[str, ...] = ("ens1np0",)) -> RdmaDevice:
    return RdmaDevice("mlx5_0", "0000:19:00.0", "28.43.2026", "DEL0000000036", netdevs, ports)


def found(
    device: RdmaDevice | None, kind: HcaKind = CX7, frames: dict[str, Override] | None = None
) -> tuple[HcaWire, list[str]]:
    notes: list[str] = []
    told = Node(node({key.replace("_", "-"): value for key, value in (frames or {}).items()}))
    return wire_of(told, device, kind, C, notes), notes


@pytest.mark.parametrize(
    ("device", "kind", "wire", "notes"),
    [
        pytest.param(hca(UP), CX7, (EXACT(400), "Ethernet", EXACT(2048)), [], id="up"),
        pytest.param(hca(UP, SLOW), CX7, (EXACT(400), "Ethernet", EXACT(2048)), [], id="faster-1"),
        pytest.param(hca(SLOW, UP), CX7, (EXACT(400), "Ethernet", EXACT(2048)), [], id="faster-2"),
        pytest.param(
            hca(SLOW, DOWN), CX7, (EXACT(200), "Ethernet", EXACT(1024)), [], id="the-one-that-is-up"
        ),
        pytest.param(
            hca(replace(UP, link_layer="Unspecified")),
            CX7, (EXACT(400), "", EXACT(2048)), [], id="layer-of-another-word",
        ),
        pytest.param(
            hca(DOWN), CX7, (Range(400, 100, 400), "Ethernet", ANY_MTU), [CARRIES_NOTHING],
            id="down",
        ),
        pytest.param(
            hca(DOWN), NOBODY, (Range(200, 25, 800), "Ethernet", ANY_MTU),
            [CARRIES_NOTHING.replace("its kind's rate at most", ANY_RATE)],
            id="down-of-a-kind-that-nobody-knows",
        ),
        pytest.param(
            hca(UNREAD), CX7, (Range(400, 100, 400), "", ANY_MTU),
            ["no port of mlx5_0 was read: its kind's rate at most"], id="unread",
        ),
        pytest.param(
            hca(), CX7, (Range(400, 100, 400), "", ANY_MTU),
            ["no port of mlx5_0 was read: its kind's rate at most"], id="no-port",
        ),
        pytest.param(
            None, HcaKind(), (Range(200, 25, 800), "", ANY_MTU),
            [f"no port of the HCA was read: {ANY_RATE}"], id="nothing-at-all",
        ),
        pytest.param(
            None, HcaKind((0x15B3, 0x1021), 100.0), (EXACT(100), "", ANY_MTU),
            ["link layer and MTU of the HCA not read"], id="as-nccl-was-told",
        ),
        pytest.param(
            hca(DOWN), HcaKind((0x15B3, 0x1021), 100.0), (EXACT(100), "Ethernet", ANY_MTU),
            ["link layer and MTU of the HCA not read"], id="as-nccl-was-told-of-one-that-is-down",
        ),
        pytest.param(
            hca(UP), HcaKind((0x15B3, 0x1021), 100.0), (EXACT(400), "Ethernet", EXACT(2048)), [],
            id="the-port-goes-before-nccl",
        ),
    ],
)  # fmt: skip
def test_the_fastest_port_that_is_up_else_what_its_kind_has_at_most(
    device: RdmaDevice | None, kind: HcaKind, wire: tuple[Range, str, Range], notes: list[str]
) -> None:
    guessed = wire[0].value == 200 and wire[0].low < 200
    expected = HcaWire(wire[0], Layer2(wire[1]), wire[2], guessed=guessed)
    assert found(device, kind) == (expected, notes)


def test_who_posts_and_what_the_maker_s_protocol_is() -> None:
    """A guest's doorbell is slow, Broadcom's gap adds to the bytes, EFA's datagrams take longer."""
    broadcom, efa = HcaKind((0x14E4, 0x1750)), HcaKind((0x1D0F, 0xEFA0))
    guest: dict[str, Override] = {"cpu": GUEST_CPU}
    kinds: list[tuple[HcaKind, dict[str, Override]]]
    kinds = [(CX7, {}), (CX7, guest), (broadcom, guest), (efa, guest)]
    told = [found(hca(UP), kind, frames)[0] for kind, frames in kinds]
    assert [(each.poster, each.datagrams) for each in told] == [
        (Poster.CORE, False), (Poster.GUEST, False), (Poster.BROADCOM, False), (Poster.GUEST, True),
    ]  # fmt: skip


MUTE = replace(UP, active_mtu=0)
NET = "ens1np0/mtu:{}\nens1np0/operstate:up\n"


@pytest.mark.parametrize(
    ("device", "frames", "mtu", "noted"),
    [
        pytest.param(
            hca(MUTE), {"ibv_devinfo": devinfo(("mlx5_0", "PORT_ACTIVE"), mtu=2048)}, EXACT(2048),
            False, id="ibv-devinfo",
        ),
        pytest.param(
            hca(replace(MUTE, number=2)),
            {"ibv_devinfo": devinfo(("mlx5_0", "PORT_ACTIVE"), mtu=2048), "net_devices": ABSENT},
            ANY_MTU, True, id="of-another-port",
        ),
        pytest.param(
            hca(MUTE),
            {"ibv_devinfo": devinfo(("mlx5_7", "PORT_ACTIVE"), mtu=2048),
             "net_devices": NET.format(1500)},
            EXACT(1024), False, id="of-another-device",
        ),
        pytest.param(
            hca(MUTE), {"ibv_devinfo": "", "net_devices": NET.format(9000)}, EXACT(4096), False,
            id="net-device",
        ),
        pytest.param(
            hca(MUTE, netdevs=("gone", "ens1np0")),
            {"ibv_devinfo": ABSENT, "net_devices": NET.format(1500)},
            EXACT(1024), False, id="the-net-device-that-is-there",
        ),
        pytest.param(
            hca(MUTE), {"ibv_devinfo": "", "net_devices": NET.format(68)}, ANY_MTU, True,
            id="too-small-for-any-packet",
        ),
        pytest.param(
            hca(MUTE), {"ibv_devinfo": DENIED, "net_devices": DENIED}, ANY_MTU, True, id="unread"
        ),
        pytest.param(
            hca(replace(MUTE, link_layer="InfiniBand")), {"ibv_devinfo": "", "net_devices": DENIED},
            ANY_MTU, False, id="infiniband-needs-none",
        ),
    ],
)  # fmt: skip
def test_the_mtu_is_the_port_s_else_what_the_net_device_leaves(
    device: RdmaDevice, frames: dict[str, Override], mtu: Range, noted: bool
) -> None:
    wire, notes = found(device, frames=frames)
    assert wire.mtu == mtu
    assert notes == ["MTU of mlx5_0 not read"] * noted


@pytest.mark.parametrize(
    ("net", "packet"),
    [(0, 0), (313, 0), (314, 256), (569, 256), (570, 512), (1500, 1024), (4153, 2048),
     (4154, 4096), (65520, 4096)],
)  # fmt: skip
def test_a_packet_fits_into_the_frame_with_its_headers(net: int, packet: int) -> None:
    assert packet_of(net) == packet


@pytest.mark.parametrize(
    ("ports", "dark"),
    [((), False), ((UP,), False), ((DOWN,), True), ((DOWN, UP), False), ((UNREAD,), False),
     ((DOWN, UNREAD), False), ((DOWN, replace(DOWN, number=2)), True)],
)  # fmt: skip
def test_no_port_is_up_only_where_all_were_read(ports: tuple[Port, ...], dark: bool) -> None:
    assert no_port_up(hca(*ports)) is dark
