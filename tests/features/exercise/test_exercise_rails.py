"""Which HCA of one node goes with which of the other, over which address and GID."""

from __future__ import annotations

from ipaddress import IPv6Address
from types import SimpleNamespace
from typing import cast

import pytest

from tests.features.exercise.exercising import frame, look
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pairs import NamedPair, PairSource
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.facts.rdma.roce import Gid
from toolkit.features.exercise.plan_rails import ExerciseNode, devices, rails

OTHER_WORDS = "1: lo    inet 127.0.0.1/8\n8: usb0    inet 169.254.3.%s/16\n9: bad\n9: b inet x\n"


V2, LOCAL = "RoCE v2", ("fe80::1", "RoCE v2")
GIDS = (LOCAL, ("fd00::1", V2), ("::ffff:a01:1", "IB/RoCE v1"), ("::ffff:a01:1", V2))


def view(
    name: str,
    *hcas: str,
    near: str = "",
    compute: str = "",
    gids: tuple[tuple[str, str], ...] = (*GIDS, ("::ffff:a01:2", V2)),
) -> ExerciseNode:
    """:param hcas: name, network and link layer: "mlx5_0 10.1.0 Ethernet"; the last may be left.

    :param near: the HCA beside its GPU.
    :param compute: address of an HCA that jobs use; "" where nothing tells.
    """
    last, found, table, text = name[-1], [], [], OTHER_WORDS % name[-1]
    for at, (hca, network, *layer) in enumerate(each.split() for each in hcas):
        port = Port(1, "ACTIVE", "LinkUp", "400 Gb/sec (4X NDR)", (*layer, "Ethernet")[0])
        found.append(RdmaDevice(hca, f"0000:0{at}:00.0", "28", "MT", (f"eth{at}",), (port,)))
        text += f"{at}: eth{at}    inet {network}.{last}/24 scope global eth{at}\n"
        for index, (address, kind) in enumerate(gids, start=10 * at):
            table.append(Gid(hca, 1, index, IPv6Address(address), kind, f"eth{at}"))
    pairs = [NamedPair("0000:18:00.0", near, Distance.PIX, PairSource.TREE)] if near else []
    used = [each for each in found if each.address == compute]
    node = SimpleNamespace(
        rdma_devices=found, gids=table[::-1], hca_names={}, compute_hcas=used,
        pairs=SimpleNamespace(pairs=pairs, gpus=()),
    )  # fmt: skip
    seen = look().plus([frame("exercise-addresses", text)])
    return ExerciseNode(name, cast("Node", node), seen)


TWO = ("mlx5_0 10.1.0", "mlx5_1 10.2.0")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param(
            ("mlx5_0 10.2.0", "mlx5_1 10.1.0"),
            [("mlx5_0", "mlx5_1", "10.1.0.2"), ("mlx5_1", "mlx5_0", "10.2.0.2")],
            id="of-one-subnet-whatever-their-names",
        ),
        pytest.param(
            ("mlx5_1 10.1.0", "mlx5_0 10.1.0"),
            [("mlx5_0", "mlx5_0", "10.1.0.2"), ("mlx5_1", "mlx5_1", "10.1.0.2")],
            id="of-several-the-one-of-its-name",
        ),
        pytest.param(
            ("mlx5_1 10.8.0", "mlx5_0 10.9.0"),
            [("mlx5_0", "mlx5_0", "10.8.0.2"), ("mlx5_1", "mlx5_1", "10.8.0.2")],
            id="of-no-common-subnet-by-name",
        ),
        pytest.param(
            ("rocep1 10.8.0",),
            [("mlx5_0", "rocep1", "10.8.0.2"), ("mlx5_1", "rocep1", "10.8.0.2")],
            id="the-first-of-its-kind",
        ),
        pytest.param(
            ("mlx5_0 10.1.0 InfiniBand", "mlx5_1 10.8.0"),
            [("mlx5_0", "mlx5_1", "10.1.0.2"), ("mlx5_1", "mlx5_1", "10.1.0.2")],
            id="never-one-of-another-link-layer",
        ),
        pytest.param(("mlx5_0 10.1.0 InfiniBand",), [], id="none"),
    ],
)
def test_hcas_go_together_that_reach_each_other(
    other: tuple[str, ...], found: list[tuple[str, str, str]]
) -> None:
    told = rails(view("gpu1", *TWO), view("gpu2", *other))
    assert [(each.drive.hca, each.serve.hca, each.serve.address) for each in told] == found
    for each in told:
        at = TWO.index(next(hca for hca in TWO if hca.startswith(each.drive.hca)))
        assert each.drive.gid == 10 * at + 3, "RoCE v2, by the first IPv4 address of its own"


@pytest.mark.parametrize(
    ("gids", "index"),
    [
        pytest.param(GIDS[:2], 1, id="an-address-that-somebody-gave"),
        pytest.param(GIDS[:1], None, id="of-the-link-alone"),
        pytest.param(GIDS[2:3], None, id="RoCE-v1"),
        pytest.param((("::ffff:a01:1", ""),), 0, id="of-a-type-that-is-not-told"),
    ],
)
def test_a_port_without_a_gid_that_leads_out_is_no_rail(
    gids: tuple[tuple[str, str], ...], index: int | None
) -> None:
    told = rails(view("gpu1", TWO[0], gids=gids), view("gpu2", *TWO))
    assert [each.drive.gid for each in told] == ([] if index is None else [index])


def test_the_hca_beside_a_gpu_goes_first_and_storage_has_none() -> None:
    first, second = rails(view("gpu1", *TWO, near="mlx5_1"), view("gpu2", *TWO))
    assert (first.drive.hca, second.drive.hca) == ("mlx5_1", "mlx5_0")
    kept = view("gpu1", *TWO, compute="0000:01:00.0")
    assert [each.name for each in devices(kept)] == ["mlx5_1"]
