"""What holds for the verdicts on any node when its evidence is cut, damaged or judged again.

For every cut: each verdict is what it is on the whole, or unknown. A lost connection never
turns a failure into a pass, and neither into "does not apply".
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import BOARD, GPUS, PORTS, REDIRECTS
from tests.evidence.build import groups, modinfo, node, without_module
from tests.evidence.frames import ABSENT, TIMEOUT
from tests.laws import few, sample, tried
from toolkit.checks.all import ALL
from toolkit.checks.check import Finding, Status
from toolkit.checks.consumers.chosen import taken
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import PeerPath, Want

LONG = True
ILL = node(
    {
        "peermem-modinfo": modinfo("/lib/modules/x/nvidia-peermem.ko", depends=""),
        "peermem-resolve": "insmod /lib/modules/x/nvidia-peermem.ko\n",
        "module-state": without_module("nvidia_peermem"),
        "modules-load": "",
        "iommu-groups": groups("DMA-FQ"),
        "limits": "",
        "nvidia-smi": TIMEOUT,
    },
    board=BOARD.but(PORTS[0], acs=REDIRECTS),
)
# Loose files: whole, and nearly everything is not part of them.
LOOSE = {
    "matrix": "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nNIC0\tSYS\t X \t\n",
    "kernel-log": (
        "[    0.207585] DMAR: IOMMU enabled\n"
        "[   31.683273] nvidia_peermem: disagrees about version of symbol ib_get_peer_client\n"
    ),
    "other-tools": (
        "$ nvidia-smi nvlink -s\nGPU 0: NVIDIA L40S (UUID: GPU-1)\n\t Link 0: 25 GB/s\n"
        "$ fi_info -p efa\nprovider: efa\n    fabric: EFA\n    domain: rdmap0s6-rdm\n"
        "$ rdma_topo check\nFAIL\tACS for grace_rp 0009:00:00.0 has incorrect values\n"
        "$ dcgmi diag -r 1\n| Diagnostic  | Result |\n| pcie  | Pass  |\n+------+------+\n"
        "$ cat /var/log/fabricmanager.log\n[Mar 03 2025 18:39:57] [ERROR] [tid 9] detected "
        "NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 port 33\n"
    ),
    "dkms": "nvidia/580.1, 6.2.0-36-generic, x86_64: installed\nmlnx-ofed-kernel/25.10: added\n",
}
NODES = {
    **{name: evidence_of(frames_of(text, f"{name}.txt")) for name, text in LOOSE.items()},
    "healthy": node(),
    "ill": ILL,
    "without-gpus": node(board=BOARD.without(*GPUS)),
    "image": node({"boot-id": ABSENT}),
    **{
        path.stem: Evidence.parse(path.read_text())
        for path in sorted(Path(__file__).parent.glob("*.txt"))
    },
}
Told = tuple[Status, str, str]


def told(finding: Finding) -> Told:
    """Status, found and expected: hints and details may tell less of less."""
    return finding.status, finding.found, finding.expected


PATHS = (*PeerPath, None)  # None: the one that the node takes


def judge(evidence: Evidence, path: PeerPath | None) -> dict[str, Told]:
    return judged(Node(evidence), path)


def judged(shared: Node, path: PeerPath | None) -> dict[str, Told]:
    want = taken(shared.fresh(), Want(path=path))
    return {check.id: told(check(shared, want).finding) for check in ALL}


def cuts(evidence: Evidence) -> list[Evidence]:
    """Every different evidence that a cut of the text can leave.

    What is cut inside a line is as if it were cut before it (``test_evidence`` tries every
    byte), and a frame counts once the next header is there: so a cut leaves some number of
    whole frames. The first law checks that against the parser.
    """
    frames = list(evidence.frames.items())
    return [Evidence(dict(frames[:count])) for count in range(len(frames) + 1)]


@pytest.mark.parametrize("name", few([*NODES], 3, "frames"))
def test_a_cut_leaves_some_number_of_whole_frames(name: str) -> None:
    text = NODES[name].dump()
    possible = cuts(NODES[name])
    starts = [at for at in range(len(text)) if text.startswith("\n= ", at)]
    edges = {0, *range(0, len(text), 997), *(edge + d for edge in starts for d in (0, 1, 2))}
    for cut in sample(sorted(edge for edge in edges if edge < len(text)), name):
        part = Evidence.parse(text[:cut])
        assert part == possible[len(part.frames)], f"cut at {cut}"


@pytest.mark.parametrize("name", few([*NODES], 3, "verdicts"))
def test_a_cut_leaves_each_verdict_as_it_is_or_unknown(name: str) -> None:
    """By each path in turn: what the text says is read once for all of them."""
    whole = {path: judge(NODES[name], path) for path in PATHS}
    for part in sample(cuts(NODES[name]), name):
        shared = Node(part)
        for path in PATHS:
            for check, (status, *rest) in judged(shared, path).items():
                same = (status, *rest) == whole[path][check]
                last = list(part.frames)[-1:]
                assert same or status is Status.UNKNOWN, f"{check}, {path}, after {last}"


def test_nothing_at_all_proves_nothing_at_all() -> None:
    statuses = {status for status, *_ in judge(Evidence(), PeerPath.PEERMEM).values()}
    assert statuses == {Status.UNKNOWN, Status.NA}
    assert {
        found for status, found, _ in judge(Evidence(), PeerPath.PEERMEM).values()
        if status is Status.NA
    } == {"not part of the peermem path"}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_saved_evidence_is_judged_as_the_node_was(name: str) -> None:
    again = Evidence.parse(NODES[name].dump())
    assert judge(again, PeerPath.PEERMEM) == judge(NODES[name], PeerPath.PEERMEM)


@pytest.mark.parametrize("name", ["healthy", "ill"])
def test_the_order_of_checks_changes_no_verdict(name: str) -> None:
    want, shared = Want(), Node(NODES[name])
    backwards = {check.id: told(check(shared, want).finding) for check in reversed(ALL)}
    alone = {check.id: told(check(Node(NODES[name]), want).finding) for check in ALL}
    assert backwards == alone == judge(NODES[name], PeerPath.PEERMEM)


ODD = st.text(st.characters(exclude_characters="\n", codec=None), max_size=20)


class Damaged:
    """Evidence of which one frame was damaged. No dataclass: those are printed in full."""

    def __init__(self, evidence: Evidence, node: str, frame: Frame) -> None:
        self.evidence, self.node, self.frame = evidence, node, frame

    def __repr__(self) -> str:
        return f"{self.node} with {self.frame.key} as {self.frame.text[:400]!r}"


@st.composite
def damaged(draw: st.DrawFn) -> Damaged:
    """A node of which one frame was damaged: lines lost, doubled, cut short or made odd."""
    name = draw(st.sampled_from(["healthy", "ill", "rocky"]))
    frames = dict(NODES[name].frames)
    key = draw(st.sampled_from(list(frames)))
    frame = frames[key]
    lines = frame.text.split("\n")[:-1] or [""]
    at = draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    lines[at : at + 1] = draw(
        st.one_of(
            st.just([]),
            st.just([line, line]),
            st.integers(0, max(0, len(line) - 1)).map(lambda end: [line[:end]]),
            st.integers(0, len(line)).map(lambda end: [line[end:]]),
            st.tuples(st.integers(0, len(line)), ODD).map(
                lambda where: [line[: where[0]] + where[1] + line[where[0] :]]
            ),
            ODD.map(lambda odd: [odd]),
        )
    )
    text = "".join(each + "\n" for each in lines)
    frames[key] = Frame(key, State.OK, frame.source, text)
    return Damaged(Evidence(frames, complete=True), name, frames[key])


@tried(400)
@given(damaged(), st.sampled_from(PATHS))
def test_damaged_content_is_judged_or_refused_and_never_ends_the_run(
    case: Damaged, path: PeerPath | None
) -> None:
    assert set(judge(case.evidence, path)) == {check.id for check in ALL}
