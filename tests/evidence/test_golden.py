"""What we say of captured nodes, in full: every verdict, word for word.

Each ``NAME.txt`` is evidence of one node, ``NAME.verdicts`` what every check says of it.
A change of wording or judgement shows here as a difference to be read in review; to
accept all of them, run these tests with GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.evidence.capture import NODES, REPLACED
from tests.evidence.judging import shown
from toolkit.checks.all import ALL
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

HERE = Path(__file__).parent
CAPTURES = sorted(HERE.glob("*.txt"))
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"


def told(capture: Path) -> str:
    """Every verdict on both paths, with what should be, what to do, and each device."""
    node = Node(Evidence.parse(capture.read_text()))
    lines = []
    for path in PeerPath:
        lines.append(f"# {path}")
        for check in ALL:
            if path not in check.paths:
                continue
            finding = check(node, Want(path=path)).finding
            lines += shown(finding, check.id)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_verdicts(capture: Path) -> None:
    golden = capture.with_suffix(".verdicts")
    if ACCEPT:
        golden.write_text(told(capture))
    assert told(capture) == golden.read_text()


def test_every_captured_node_is_whole_and_has_its_verdicts() -> None:
    assert [path.stem for path in CAPTURES] == sorted(
        name.removeprefix("demo-") for name in (*NODES, REPLACED)
    )
    assert sorted(HERE.glob("*.verdicts")) == [path.with_suffix(".verdicts") for path in CAPTURES]
    assert all(Evidence.parse(path.read_text()).complete for path in CAPTURES)


def test_captures_are_small_enough_to_be_read() -> None:
    passport = HERE / f"{REPLACED.removeprefix('demo-')}.txt"
    assert all(path.stat().st_size < 64_000 for path in CAPTURES if path != passport)
    assert passport.stat().st_size < 96_000
