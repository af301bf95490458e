"""A check with nothing to judge is n/a: what is not there is never as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import BOARD, GPUS, HCAS, Board
from tests.evidence.boards import boards
from tests.evidence.build import INFINIBAND, node
from tests.evidence.frames import ABSENT, Override
from tests.evidence.test_properties import machine
from tests.laws import tried
from toolkit.checks.all import ALL, BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import PeerPath, Role, Want

# "0 GPUs", "0 of 3 ports"; not "bias 0," nor "--use_cuda=0".
NONE_OF_THEM = re.compile(r"(?<![\w.=:/-])0 (?:of )?\w")
WANTS = (
    Want(),
    Want(path=PeerPath.DMABUF),
    Want(role=Role.VM_HOST),
    Want(role=Role.VM),
)
# An excerpt of lspci that shows no GPU: whether there is one, nobody can tell.
LSPCI = "05:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
CAPTURES = sorted(
    path for path in Path(__file__).parent.rglob("*.txt") if path.parent.name != "findings"
)
OF_HCAS = (
    "acs.redirect", "acs.mask", "ats.nic", "datadirect.bound", "dmabuf.nic", "iommu.passthrough",
    "pcie.distance", "pcie.mps", "pcie.mrrs", "pcie.relaxed_ordering", "rdma.devices",
    "rdma.firmware", "rdma.gid", "rdma.mtu", "rdma.port", "rdma.rate", "rdma.sriov", "roce.qos",
)  # fmt: skip
OF_PORTS = ("rdma.gid", "rdma.mtu", "rdma.port", "rdma.rate", "roce.qos")
PORTLESS = "".join(f"{line}\n" for line in INFINIBAND.split("\n") if line and "/ports/" not in line)


def passing(evidence: Evidence) -> Iterator[tuple[str, Finding]]:
    here = Node(evidence)
    for want in WANTS:
        for check in ALL:
            finding = check(here, want).finding
            if finding.status is Status.PASS:
                yield check.id, finding


def counting_none(evidence: Evidence) -> list[tuple[str, str]]:
    return [
        (name, each.found) for name, each in passing(evidence) if NONE_OF_THEM.search(each.found)
    ]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_what_passes_on_a_capture_counts_something(capture: Path) -> None:
    assert not counting_none(Evidence.parse(capture.read_text()))


def test_what_passes_on_an_excerpt_counts_something() -> None:
    assert not counting_none(evidence_of(frames_of(LSPCI, "lspci.txt")))


LOST = st.dictionaries(
    st.sampled_from(sorted(node().frames)), st.sampled_from(("", ABSENT)), max_size=4
)


@tried(40)
@given(boards(), LOST)
def test_what_passes_on_any_machine_counts_something(
    board: Board, lost: dict[str, Override]
) -> None:
    assert not counting_none(machine(board, lost))


@tried(20)
@given(boards())
def test_without_hcas_no_check_of_hcas_passes(board: Board) -> None:
    hcas = [each.address for each in board.functions if each.driver == "mlx5_core"]
    passed = {name for name, _ in passing(machine(board.without(*hcas)))}
    assert not passed & set(OF_HCAS)


@tried(20)
@given(boards())
def test_without_gpus_no_check_that_needs_one_passes(board: Board) -> None:
    gpus = [each.address for each in board.functions if each.ids[0] == 0x10DE]
    passed = {name for name, _ in passing(machine(board.without(*gpus)))}
    assert not {name for name in passed if BY_ID[name].needs_gpu}


def test_without_ports_no_check_of_ports_passes() -> None:
    passed = {name for name, _ in passing(node({"infiniband": PORTLESS}))}
    assert not passed & set(OF_PORTS)


def test_the_healthy_node_passes_what_the_laws_are_about() -> None:
    """Else they would hold of checks that never pass."""
    passed = {name for name, _ in passing(node())}
    assert {"rdma.port", "rdma.rate", "iommu.passthrough", "acs.redirect", "pcie.mrrs"} <= passed
    assert len(BOARD.functions) > len(GPUS) + len(HCAS)


def test_a_count_of_none_is_seen_in_all_its_forms() -> None:
    assert NONE_OF_THEM.search("above 4 GiB on 0 GPUs")
    assert NONE_OF_THEM.search("DirectTrans on 0 of 1 ports")
    assert not NONE_OF_THEM.search("energy bias 0, turbo; --use_cuda=0 --use; 10 of 10")
