"""What holds for the checks on ACS, ATS and IOMMU on every kind of board.

The laws of every check are in test_checks_framework; there the board is an ordinary one.
"""

from __future__ import annotations

import pytest

from tests.evidence.board import Board
from tests.evidence.build import HEALTHY, node
from tests.evidence.frames import DENIED, MISSING, TIMEOUT, Override
from tests.evidence.platforms import ALTRA, DATA_DIRECT, GRACE, INLINE, INLINE_HOST, VERA
from toolkit.checks.all import ALL
from toolkit.checks.check import Check, Status, Verdict
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

TOPICS = ("iommu.", "acs.", "ats.", "rdma.sriov", "nvidia.topo_", "datadirect.", "grace.")
OURS = tuple(each for each in ALL if each.id.startswith(TOPICS))
BOARDS = {
    "inline": INLINE,
    "inline-host": INLINE_HOST,
    "data-direct": DATA_DIRECT,
    "grace": GRACE,
    "vera": VERA,
    "altra": ALTRA,
}
SPECIAL: dict[str, Override] = {
    "infiniband": "",
    "arch": "aarch64\n",
    "iommu-units": "/sys/class/iommu/smmu3.0x0000000012000000 -> x\n",
    "iommu-groups": "".join(f"{number}/type:DMA-FQ\n" for number in (1, 2, 3, 7, 8, 9)),
    "acs-units": "",
}


def judge(board: Board, frames: dict[str, Override], want: Want) -> dict[Check, Verdict]:
    shared = Node(node({**SPECIAL, **frames}, board=board))
    return {check: check(shared, want) for check in OURS}


def test_there_are_checks_to_hold_to_it() -> None:
    assert len(OURS) == 15


@pytest.mark.parametrize("role", [None, *Role], ids=str)
@pytest.mark.parametrize("name", BOARDS)
def test_a_lost_source_leaves_a_verdict_open_and_is_cited(name: str, role: Role | None) -> None:
    board, want = BOARDS[name], Want(role=role)
    whole = judge(board, {}, want)
    for key in (*HEALTHY, *board.frames()):
        for bad in (DENIED, TIMEOUT, MISSING):
            if key == "boot-id" or not any(key in each.cited for each in whole.values()):
                continue
            for check, verdict in judge(board, {key: bad}, want).items():
                if verdict.status is whole[check].status:
                    continue
                assert verdict.status is Status.UNKNOWN, f"{check.id} without {key}"
                if not key.startswith("pci"):  # whether it applies at all
                    assert key in whole[check].cited, f"{check.id} rests on {key}"


@pytest.mark.parametrize("name", BOARDS)
def test_without_a_frame_at_all_nothing_is_healthy(name: str) -> None:
    for key in BOARDS[name].frames():
        for check, verdict in judge(BOARDS[name], {key: MISSING}, Want()).items():
            if key in verdict.cited and verdict.status is Status.PASS:
                pytest.fail(f"{check.id} passes without {key}, which it cites")


@pytest.mark.parametrize("name", BOARDS)
def test_a_cut_leaves_each_verdict_as_it_is_or_unknown(name: str) -> None:
    evidence = node(SPECIAL, board=BOARDS[name])
    frames = list(evidence.frames.items())
    whole = judge(BOARDS[name], {}, Want())
    for count in range(len(frames) + 1):
        part = Node(Evidence(dict(frames[:count])))
        for check in OURS:
            status = check(part, Want()).status
            assert status in {whole[check].status, Status.UNKNOWN}, f"{check.id} after {count}"
