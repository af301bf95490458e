"""Rows of the tables over checks: what is different on a node, and what a check says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.evidence.board import BOARD, Board
from tests.evidence.build import node
from tests.evidence.frames import Override
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status, Verdict
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

PASS, FAIL, UNKNOWN, NA = Status
DMABUF = Want(path=PeerPath.DMABUF)


@dataclass(frozen=True, slots=True)
class Row:
    """One judgement."""

    claim: str  # the id of the case
    check: str
    status: Status
    found: str  # what the finding says, or part of it
    frames: Mapping[str, Override] = field(default_factory=dict)
    board: Board = BOARD
    want: Want = field(default_factory=Want)


def judged(row: Row) -> Verdict:
    """The verdict on the healthy node as the row changes it."""
    evidence = node(row.frames, board=row.board)
    return BY_ID[row.check](Node(evidence), row.want)


def name(row: Row) -> str:
    """The id of a case: what is judged, and the claim."""
    return f"{row.check}-{row.claim}"


def holds(row: Row) -> None:
    """Assert that the check says what the row claims, and that each verdict is well made."""
    verdict = judged(row)
    finding = verdict.finding
    assert finding.status is row.status, finding
    assert row.found in finding.found, finding
    assert bool(finding.expected) == (finding.status is FAIL), "expected goes with a failure"
    assert "\n" not in finding.found + finding.expected + finding.hint, "one line each"


def shown(finding: Finding, head: str) -> list[str]:
    """A finding in full: what was found, what should be, what to do, and each device."""
    return [
        f"{finding.status:<7} {head}: {finding.found}",
        *([f"        expected: {finding.expected}"] if finding.expected else []),
        *([f"        hint: {finding.hint}"] if finding.hint else []),
        *(f"        {detail}" for detail in finding.details),
    ]
