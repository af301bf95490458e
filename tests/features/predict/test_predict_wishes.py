"""What each wish makes of a pair, and what nobody can wish: all of ``--what-if``, row by row."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from toolkit.compat.throughput import CpuClass, Range, constants
from toolkit.errors import UsageError
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance
from toolkit.features.predict.plan.totals import NodeInputs
from toolkit.features.predict.plan.what_if import parse_wishes, with_wishes
from toolkit.throughput.inputs import NOT_TOLD, HcaWire, LinkTold, PairInputs
from toolkit.throughput.model import Layer2
from toolkit.throughput.pair import _factor

EXACT = Range.exactly
LINK = LinkTold.known(Link(8.0, 4), "0000:18:00.0")
PAIR = PairInputs(
    "0000:18:00.0", "0000:19:00.0", "mlx5_0", Distance.PIX, LINK, LINK, EXACT(256), EXACT(256),
    EXACT(512), HcaWire(EXACT(200), Layer2.ETHERNET, EXACT(1024)), None, ("0000:17:00.0",), None,
)  # fmt: skip
FENCED = ("the bridges, as asked",)


def after(wishes: str, pair: PairInputs = PAIR) -> PairInputs:
    told = NodeInputs((pair,), frozenset(), EXACT(0), "PCI tree")
    (found,) = with_wishes(told, parse_wishes(wishes)).pairs
    return found


def wire(
    *, gbits: Range = PAIR.wire.gbits, layer: Layer2 = PAIR.wire.layer, mtu: Range = PAIR.wire.mtu
) -> dict[str, HcaWire]:
    return {"wire": HcaWire(gbits, layer, mtu)}


def asked(speed: float, width: int) -> LinkTold:
    return LinkTold.known(Link(speed, width), "as asked")


@pytest.mark.parametrize(
    ("wish", "changed"),
    [
        ("acs=off", {"redirects": ()}),
        ("acs=on", {"redirects": FENCED}),
        ("iommu=pt", {"translated": False}),
        ("iommu=off", {"translated": False}),
        ("iommu=translated", {"translated": True}),
        ("gdr=on", {"blocked": ""}),
        ("gdr=off", {"blocked": "as asked"}),
        ("gdr=OFF", {"blocked": "as asked"}),
        *(
            (f"link=gen{gen}x16", {"gpu_link": asked(speed, 16), "hca_link": asked(speed, 16)})
            for gen, speed in enumerate((2.5, 5.0, 8.0, 16.0, 32.0, 64.0), 1)
        ),
        ("gpu-link=gen4x8", {"gpu_link": asked(16.0, 8)}),
        ("hca-link=gen5x1", {"hca_link": asked(32.0, 1)}),
        *((f"mtu={size}", wire(mtu=EXACT(size))) for size in (256, 512, 1024, 2048, 4096)),
        ("mtu=314", wire(mtu=EXACT(256))),  # of a net device: 58 bytes are headers
        ("mtu=1500", wire(mtu=EXACT(1024))),
        ("mtu=2105", wire(mtu=EXACT(1024))),
        ("mtu=2106", wire(mtu=EXACT(2048))),
        ("mtu=9000", wire(mtu=EXACT(4096))),
        ("mtu=65520", wire(mtu=EXACT(4096))),
        ("rate=1", wire(gbits=EXACT(1))),
        ("rate=400", wire(gbits=EXACT(400))),
        ("rate=9999", wire(gbits=EXACT(9999))),
        ("layer=ib", wire(layer=Layer2.INFINIBAND)),
        ("layer=roce", wire(layer=Layer2.ETHERNET)),
        *((f"mps={size}", {"payload": EXACT(size)}) for size in (128, 256, 512, 1024, 2048, 4096)),
        *((f"mrrs={size}", {"request": EXACT(size)}) for size in (128, 256, 512, 1024, 2048, 4096)),
        *((f"tags={count}", {"tags": EXACT(count)}) for count in (32, 256, 768)),
        ("distance=pix", {"distance": Distance.PIX}),
        ("distance=phb", {"distance": Distance.PHB}),
        ("distance=node", {"distance": Distance.NODE}),
        ("distance=sys", {"distance": Distance.SYS}),
        (" acs=off , iommu=pt,, ", {"redirects": (), "translated": False}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_wish_changes_what_it_names_and_nothing_else(
    wish: str, changed: dict[str, object]
) -> None:
    assert after(wish) == replace(PAIR, **changed)


def test_the_values_that_the_hint_offers_can_be_wished() -> None:
    with pytest.raises(UsageError) as refused:
        parse_wishes("nothing=1")
    offered = [wish.partition("=") for wish in refused.value.hint.split("; ")]
    for name, _, takes in offered:
        for value in re.split(r"\||\.\.", re.split(r",| \(", takes)[0]):
            assert parse_wishes(f"{name}={value}"), value
    assert len(offered) == 13


@pytest.mark.parametrize(
    "wish",
    [
        *("acs", "acs=", "acs=maybe", "ac=off", "=off", "iommu=on", "gdr=maybe", "distance=pxb"),
        *("link=gen0x16", "link=gen7x16", "link=gen5x3", "link=gen5x32", "link=gen5", "link=x16"),
        *("gpu-link=gen5", "hca-link=5x16", "mtu=99", "mtu=313", "mtu=123456", "mtu=big"),
        *("rate=0", "rate=04", "rate=12345", "rate=-1", "layer=eth", "mps=64", "mps=100"),
        *("mps=8192", "mps=99999", "mrrs=64", "mrrs=8192", "mrrs=all", "tags=64", "tags=10"),
    ],
)
def test_a_wish_that_nobody_can_have_is_refused_by_its_name(wish: str) -> None:
    with pytest.raises(UsageError, match="--what-if") as refused:
        parse_wishes(f"gdr=on,{wish}")
    assert wish.partition("=")[0] in str(refused.value)


@pytest.mark.parametrize(
    ("wish", "settled"),
    [
        ("acs=off", ("ACS not read",)),
        ("iommu=pt", ("IOMMU domain of the HCA not read", "ATS of the HCA not read")),
        ("mtu=4096", ("MTU of mlx5_0 not read",)),
        ("link=gen5x16", ("link of mlx5_0 not read", "not every link above it was read")),
        ("mps=256", ("packet sizes not read",)),
        ("gdr=on", (NOT_TOLD,)),
        ("gdr=off", (NOT_TOLD,)),
        ("rate=400", ()),
        ("tags=256", ()),
    ],
)
def test_what_was_not_read_and_is_as_asked_is_no_assumption_any_more(
    wish: str, settled: tuple[str, ...]
) -> None:
    notes = (
        "ACS not read", "IOMMU domain of the HCA not read", "ATS of the HCA not read",
        "MTU of mlx5_0 not read", "link of mlx5_0 not read", "not every link above it was read",
        "packet sizes not read", NOT_TOLD, "processor not known",
    )  # fmt: skip
    found = after(wish, replace(PAIR, notes=notes)).notes
    assert found == tuple(each for each in notes if each not in settled)


@pytest.mark.parametrize(
    ("before", "distance", "known"),
    [
        (Distance.SYS, "pix", False),
        (Distance.PHB, "pix", False),
        (Distance.PIX, "pix", True),
        (Distance.PXB, "pix", True),
        (Distance.PIX, "sys", True),
        (Distance.SYS, "node", True),
    ],
)
def test_below_another_switch_nothing_is_known_of_its_bridges(
    before: Distance, distance: str, known: bool
) -> None:
    found = after(f"distance={distance}", replace(PAIR, distance=before))
    assert found.redirects == (PAIR.redirects if known else None)


@pytest.mark.parametrize("wishes", ["acs=on,distance=pix", "distance=pix,acs=on"])
def test_what_is_wished_of_the_bridges_is_told_of_those_at_the_place_wished_for(
    wishes: str,
) -> None:
    assert after(wishes, replace(PAIR, distance=Distance.SYS)).redirects == FENCED


@pytest.mark.parametrize("reading", [False, True], ids=["writes", "reads"])
@pytest.mark.parametrize("cpu", [None, *constants().cpus], ids=lambda cpu: cpu.id if cpu else "-")
def test_a_way_that_was_not_told_may_be_as_narrow_as_the_worst(
    cpu: CpuClass | None, *, reading: bool
) -> None:
    def factor(distance: Distance) -> Range:
        pair = replace(PAIR, cpu=cpu, distance=distance)
        return _factor(pair, constants(), reading=reading)[0]

    root, sockets = factor(Distance.PHB), factor(Distance.SYS)
    for untold in (factor(Distance.APART), factor(Distance.UNKNOWN)):
        assert untold.low == min(root.low, sockets.low)
        assert untold.high >= max(root.high, sockets.high)
