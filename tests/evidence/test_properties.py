"""What holds for any machine and any accident: laws, tried on boards and cuts that are drawn.

``test_laws`` tries every cut of a few nodes; here the nodes are drawn as well.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import BOARD, GPUS, HCAS, PORTS, Board, Fn
from tests.evidence.boards import SPEEDS, WIDTHS, boards, unrelated
from tests.evidence.build import INFINIBAND, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.laws import tried
from toolkit.checks.all import ALL
from toolkit.checks.check import Finding, Status
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.imports import KINDS, evidence_of, frames_of
from toolkit.facts.node import Node
from toolkit.facts.topology import all_pairs, pair
from toolkit.want import PeerPath, Want

Told = tuple[Status, str, str]
UP = ("4: ACTIVE", "5: LinkUp")
# What one verdict may be worth: a machine that got worse must not climb.
RANK = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.NA: 2, Status.PASS: 2}


def told(finding: Finding) -> Told:
    return finding.status, finding.found, finding.expected


def judge(evidence: Evidence, path: PeerPath = PeerPath.PEERMEM) -> dict[str, Told]:
    shared = Node(evidence)
    return {check.id: told(check(shared, Want(path=path)).finding) for check in ALL}


def machine(board: Board, frames: dict[str, Override] | None = None) -> Evidence:
    """The healthy node on another board, with an RDMA device for each HCA of it."""
    hcas = [each.address for each in board.functions if each.driver == "mlx5_core"]
    devices = "".join(hca_lines(f"mlx5_{at}", address, UP) for at, address in enumerate(hcas))
    return node({"infiniband": devices, **(frames or {})}, board=board)


LOST = st.dictionaries(
    st.sampled_from(sorted(node().frames)), st.sampled_from((ABSENT, DENIED, TIMEOUT)), max_size=4
)


@tried(60)
@given(boards(), LOST, st.data())
def test_a_cut_at_any_byte_leaves_each_verdict_as_it_is_or_unknown(
    board: Board, lost: dict[str, Override], data: st.DataObject
) -> None:
    text = machine(board, lost).dump().encode()
    whole = judge(Evidence.parse(text.decode()))
    cut = text[: data.draw(st.integers(0, len(text)), label="cut")]
    for check, verdict in judge(Evidence.parse(cut.decode("utf-8", "surrogateescape"))).items():
        assert verdict == whole[check] or verdict[0] is Status.UNKNOWN, check


@tried(40)
@given(boards(), LOST, st.randoms())
def test_the_order_of_frames_changes_no_verdict(
    board: Board, lost: dict[str, Override], chance: object
) -> None:
    evidence = machine(board, lost)
    frames = list(evidence.frames.items())
    chance.shuffle(frames)  # type: ignore[attr-defined] # hypothesis' Random, which has no name to import
    assert judge(Evidence(dict(frames), evidence.complete)) == judge(evidence)


@cache
def healthy_text() -> bytes:
    return node().dump().encode()


@tried(120)
@given(st.data(), st.binary(min_size=1, max_size=40))
def test_bytes_that_nobody_wrote_end_no_run(data: st.DataObject, odd: bytes) -> None:
    text = healthy_text()
    at = data.draw(st.integers(0, len(text)), label="at")
    over = data.draw(st.sampled_from((0, len(odd))), label="written over")
    damaged = text[:at] + odd + text[at + over :]
    begun = damaged.startswith(b"= begin ok gdr-toolkit/1\n")
    evidence = Evidence.parse(damaged.decode("utf-8", "surrogateescape")) if begun else Evidence()
    assert set(judge(evidence)) == {check.id for check in ALL}


@tried(25)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(text=st.binary(max_size=300))
def test_a_loose_file_of_any_content_ends_no_run(kind: object, text: bytes) -> None:
    named = next(each for each in KINDS if each is kind)
    try:
        frames = frames_of(text.decode("utf-8", "surrogateescape"), "file", named)
    except UsageError:
        return  # all of it stood behind prompts of commands that nobody knows
    verdicts = judge(evidence_of(frames))
    assert set(verdicts) == {check.id for check in ALL}


@tried(40)
@given(boards(), unrelated())
def test_a_device_that_has_no_part_in_it_changes_no_verdict(
    board: Board, more: tuple[Fn, ...]
) -> None:
    before, after = judge(machine(board)), judge(machine(board.plus(*more)))
    assert {check: each[0] for check, each in after.items()} == {
        check: each[0] for check, each in before.items()
    }


@tried(60)
@given(boards(), unrelated())
def test_a_device_that_has_no_part_in_it_changes_no_pair(
    board: Board, more: tuple[Fn, ...]
) -> None:
    alone, joined = (Node(machine(each)) for each in (board, board.plus(*more)))
    assert all_pairs(joined.pci, joined.hcas) == all_pairs(alone.pci, alone.hcas)


@tried(100)
@given(boards())
def test_a_distance_is_the_same_from_either_end(board: Board) -> None:
    tree = Node(machine(board)).pci
    ends = [f for f in tree.functions.values() if f.driver in {"nvidia", "mlx5_core"}]
    for one in ends:
        for other in ends:
            there, back = pair(tree, one, other), pair(tree, other, one)
            assert there.pcie is back.pcie, (one.address, other.address)
            assert there.distance is back.distance, (one.address, other.address)
            assert set(there.bridges) == set(back.bridges)


@tried(50)
@given(
    st.sampled_from((*GPUS, *HCAS, *PORTS)),
    st.sampled_from(SPEEDS),
    st.sampled_from(WIDTHS),
    st.sampled_from(SPEEDS),
    st.sampled_from(WIDTHS),
)
def test_a_slower_link_improves_no_verdict(
    address: str, speed: str, width: int, then_speed: str, then_width: int
) -> None:
    slower = (max(speed, then_speed, key=SPEEDS.index), min(width, then_width))
    first = judge(node(board=BOARD.but(address, now=(speed, width))))
    after = judge(node(board=BOARD.but(address, now=slower)))
    for check, (status, *_) in after.items():
        assert RANK[status] <= RANK[first[check][0]], (check, first[check], after[check])


@tried(40)
@given(boards(), st.data())
def test_a_slower_link_improves_no_verdict_on_any_board(board: Board, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(board.functions), label="at")
    slow = data.draw(st.sampled_from(SPEEDS)), data.draw(st.sampled_from(WIDTHS))
    first, after = judge(machine(board)), judge(machine(board.but(chosen.address, now=slow)))
    for check, (status, *_) in after.items():
        assert RANK[status] <= RANK[first[check][0]], (check, first[check], after[check])


def test_the_drawn_machines_are_like_the_composed_one() -> None:
    """Were the helper to forget the HCAs, the laws above would hold for nothing."""
    frames = machine(BOARD).frames["infiniband"].text
    assert frames.count("/device:") == INFINIBAND.count("/device:")
    assert len(Node(machine(BOARD)).hcas) == len(HCAS)
