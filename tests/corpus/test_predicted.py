"""Every topology of the corpus is predicted; what limits it was worked out by hand.

GB/s: PCIe x16 carries 14.2 (8 GT/s), 28.3 (16) and 56.7 (32) in packets of 256 bytes; a port of
100 Gb/s 12.0, of 180 Gb/s 21.6, of 200 Gb/s 24.0, where neither link layer nor MTU is told.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as Xml

import pytest

from tests.corpus.known import CORPUS
from toolkit.errors import ToolkitError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.predict.plan.totals import Prediction, predict
from toolkit.features.topology.show.page import way_picture
from toolkit.features.topology.show.picture_tree import tree_picture
from toolkit.features.topology.show.view import view
from toolkit.report.picture import svg
from toolkit.verbs.saved import read_saved

UNREAD = "wire (25G to 800G link, rate not read, MTU not read)"
# Of a port of 25 Gb/s, less what is not told of the way, and of PCIe x16 at 16 or 32 GT/s.
GEN4, GEN5 = "2.9-30 GB/s", "2.8-60 GB/s"
BY_HAND = [
    # Each EFA of a p4d has 100 Gb/s (four make its 400): 12.0, and PCIe Gen3 x16 carries 14.2.
    pytest.param("ncclxml/aws_p4d_static", 32, "PIX", "wire (100G link", 12.0, id="p4d"),
    # A100 and HDR card each Gen4 x16 below one switch: 28.3; the file tells no rate of the card.
    pytest.param("ncclxml/azure_ndv4_static", 64, "PIX", UNREAD, GEN4, id="ndv4"),
    # The same cards on the DGX A100's own board.
    pytest.param("ncclxml/hpe_dgxa100_variant", 64, "PIX", UNREAD, GEN4, id="dgx-a100"),
    # NCCL was told 180 Gb/s of each port; GPU and card are Gen5 x16: 56.7. The uplink of the
    # outer switch is at 5 GT/s, and no peer traffic goes there.
    pytest.param("ncclxml/oci_h100_dump_gdr1", 128, "PIX", "wire (180G link", 21.6, id="oci-h100"),
    # V100 behind Gen3 x16 switches, 14.2, with EDR cards, 12.0: the wire; neither is in a matrix,
    # so that the links are named as what it might be as well.
    pytest.param(
        "topo/dgx1_v100_mlx5names_nolegendnic", 32, "PIX", f"{UNREAD}, or PCIe", GEN5, id="dgx1"
    ),
    # B200 and 400G cards, both Gen5 x16: the wire.
    pytest.param("topo/gke_a4_b200_8nic", 64, "PIX", f"{UNREAD}, or PCIe", GEN5, id="a4-b200"),
    # H100 and 400G cards, the same.
    pytest.param(
        "topo/sglang30401_8xH100_8nic_pix", 64, "PIX", f"{UNREAD}, or PCIe", GEN5, id="h100-8-hcas"
    ),
    # Each card on a root port of its own: of Gen4 x16 the root complex leaves some part.
    pytest.param(
        "topo/esc8000a-e12_4xRTX6000Ada_4nic_node",
        16,
        "NODE",
        "root complex",
        "1.9-60 GB/s",
        id="root-ports",
    ),
    # The same machine without its NUMA nodes: one socket or two.
    pytest.param(
        "lspci/esc8000_tree_tv",
        16,
        "NODE or SYS",
        "root complex or sockets",
        "0.9-60 GB/s",
        id="sockets-not-told",
    ),
    # A list of a guest's functions, in domains of their own, without bridges.
    pytest.param(
        "lspci/a100_nn_list", 72, "?", "a path that was not told", "1.9-30 GB/s", id="bare-list"
    ),
]


def prediction(name: str) -> Prediction:
    ((_, evidence),) = read_saved(CORPUS / f"{name}.txt")
    assert isinstance(evidence, Evidence)
    return predict(Node(evidence))


@pytest.mark.parametrize(("name", "pairs", "distance", "limit", "gigabytes"), BY_HAND)
def test_what_limits_was_worked_out_by_hand(
    name: str, pairs: int, distance: str, limit: str, gigabytes: float | str
) -> None:
    found = prediction(name)
    assert len(found.pairs) == pairs
    kinds = Counter((e.distance.shown, e.with_gdr.limit[: len(limit)]) for e in found.nearest)
    assert list(kinds) == [(distance, limit)]
    best = found.nearest[0].with_gdr
    if isinstance(gigabytes, str):  # no rate is told: no figure in the middle is shown
        assert (best.open, best.figure) == (True, gigabytes)
    else:
        assert best.value == pytest.approx(gigabytes, abs=0.1)
    assert best.low < best.value < best.high
    assert best.assumptions


def test_every_file_is_predicted_or_says_why_not() -> None:
    """Whatever a capture is, the answer is a prediction with its notes, and no crash."""
    told, silent = Counter[str](), Counter[str]()
    for path in sorted(CORPUS.rglob("*.txt")):
        try:
            read = list(read_saved(path))
        except ToolkitError:  # not of a kind that is imported
            continue
        for _, evidence in read:
            if isinstance(evidence, ToolkitError):
                continue
            found = predict(Node(evidence))
            kind = path.parent.name
            assert found.pairs or found.source or found.notes, path
            if found.pairs:
                _drawn(path.stem, evidence, found)
            (told if found.pairs else silent)[kind] += 1
    assert set(told) >= {"lspci", "ncclxml", "topo"}
    assert silent


def _drawn(name: str, evidence: Evidence, found: Prediction) -> None:
    """The pictures of the same node: whole, and small enough to be sent."""
    seen = view(name, evidence)
    way = way_picture(seen, found, "way")
    assert way is not None
    tree = svg(tree_picture(seen, found, "tree"))
    assert len(tree) < 1_000_000
    ends = [
        each.attrib["aria-label"]
        for each in Xml.fromstring(tree).iter()
        if "aria-label" in each.attrib
    ]
    assert sum(label.startswith("GPU") for label in ends) == len(seen.gpus)
    Xml.fromstring(svg(way))
