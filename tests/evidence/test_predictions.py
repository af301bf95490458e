"""What is predicted of boards of every kind, in full: figures, intervals, limits, assumptions.

The laws and the limits worked out by hand (tests/unit/test_predict_*.py) say that it is right;
here a change of any figure shows as a difference to be read in review. To accept all of them,
run these tests with GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, FLAT, GPUS, HCAS, PORTS, Board, Registers
from tests.evidence.build import GUEST_CPU, INFINIBAND, PROPRIETARY, groups, node
from tests.evidence.frames import ABSENT, MISSING, Override
from tests.evidence.platforms import DATA_DIRECT, GRACE, INLINE
from toolkit.compat.throughput import constants
from toolkit.facts.node.node import Node
from toolkit.facts.pci.topology import Distance
from toolkit.features.predict.plan.totals import predict, read_node
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import Load
from toolkit.throughput.pair import PairPrediction, predict_pair

FOLDER = Path(__file__).parent / "predictions"
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"
GENOA = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
CORE = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 183\n"
TRANSLATED: dict[str, Override] = {"iommu-groups": groups("DMA-FQ")}
ROCE: dict[str, Override] = {
    "infiniband": INFINIBAND.replace("InfiniBand", "Ethernet").replace("net:ib0", "net:ens1np0"),
    "ibv-devinfo": "",
    "net-devices": "ens1np0/mtu:1500\nens1np0/operstate:up\n",
}
X8 = ("32.0 GT/s PCIe", 8)
REDIRECTED = BOARD.but(PORTS[0], acs=0x1D)
FEW = BOARD.but(HCAS[0], express=Registers(payload=128, tags_8bit=False, read_request=128))
NODES: dict[str, tuple[Board, dict[str, Override]]] = {
    "healthy": (BOARD, {}),
    "genoa": (BOARD, {"cpu": GENOA}),
    "client": (BOARD, {"cpu": CORE}),
    "narrow-hca": (BOARD.but(HCAS[0], now=X8), {}),
    "narrow-gpu": (BOARD.but(GPUS[0], now=X8), {}),
    "few-tags": (FEW, {"cpu": GENOA}),
    "redirected": (REDIRECTED, {}),
    "translated": (BOARD, TRANSLATED),
    "translated-client": (BOARD, {**TRANSLATED, "cpu": CORE}),
    "translated-and-redirected": (REDIRECTED, {**TRANSLATED, "cpu": GENOA}),
    "iommu-not-read": (BOARD, {"iommu-groups": MISSING, "cpu": CORE}),
    "iommu-off": (BOARD, {"iommu-groups": ""}),
    "roce": (BOARD, ROCE),
    "flat": (FLAT, {}),
    "guest": (FLAT, {"cpu": GUEST_CPU}),
    "ports-not-read": (BOARD, {"infiniband": MISSING, "ibv-devinfo": MISSING}),
    "registers-not-read": (BOARD, {"pci-config": MISSING}),
    "no-way": (BOARD, {"module-state": "", "nvidia-version": PROPRIETARY}),
    "nothing-of-the-driver": (BOARD, {"module-state": MISSING, "nvidia-version": ABSENT}),
    "grace": (GRACE, {}),
    "inline": (INLINE, {}),
    "data-direct": (DATA_DIRECT, {}),
}
LOADS = {"deep": Load(), "shallow": Load(8192, 4), "two-queues": Load(65536, 16, 2)}


def told(found: Estimate) -> str:
    figures = f"{found.value:.4g} {found.low:.4g}-{found.high:.4g} {found.unit}"
    return f"{figures} | {found.limit} | {found.layer} | {found.confidence}"


def pair(found: PairPrediction) -> Iterator[str]:
    yield f"{found.gpu} {found.hca} {found.name} {found.distance.name} nearest={found.nearest}"
    yield f"  blocked: {found.blocked}" if found.blocked else f"  now {found.now.figure}"
    yield f"  write   {told(found.with_gdr)}"
    yield f"  read    {told(found.read)}"
    yield f"  ring    {told(found.collective)}"
    yield f"  without {told(found.without_gdr)}"
    yield from (f"  {found.latency.size} B     {told(each)}" for each in found.latency)
    yield f"  assumes {'; '.join(found.with_gdr.assumptions)}"


def lines(name: str) -> Iterator[str]:
    board, frames = NODES[name]
    for word, load in LOADS.items():
        found = predict(Node(node(frames, board=board)), load)
        yield f"# {word}, from {found.source}"
        pairs = [each for each in found.pairs if each.gpu == found.pairs[0].gpu]
        shown = pairs if word == "deep" else pairs[:1]
        yield from (line for each in shown for line in pair(each))
        if found.total is not None:
            yield f"total of {found.total.gpus} GPUs by {' '.join(found.total.hcas)}"
            yield f"  with    {told(found.total.with_gdr)}"
            yield f"  without {told(found.total.without_gdr)}"
        yield from (f"note: {note}" for note in found.notes if word == "deep")


def distances() -> Iterator[str]:
    """One pair at every distance, of a processor that is known and of one that is not."""
    c = constants()
    told = read_node(Node(node({**TRANSLATED, "cpu": GENOA})), c).pairs[0]
    for distance in Distance:
        for cpu in (told.cpu, None):
            yield from pair(predict_pair(replace(told, distance=distance, cpu=cpu), Load(), c))


@pytest.mark.parametrize("name", [*NODES, "distances"])
def test_predictions(name: str) -> None:
    kept = FOLDER / f"{name}.txt"
    text = "\n".join(lines(name) if name in NODES else distances()) + "\n"
    if ACCEPT:
        kept.write_text(text)
    assert text == kept.read_text()


def test_every_file_of_predictions_is_some_nodes() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(
        FOLDER / f"{name}.txt" for name in (*NODES, "distances")
    )
