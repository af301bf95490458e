"""Where nobody insists on a path, a node is measured by the one that it takes."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from tests.evidence.build import PROPRIETARY, node, without_module
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_consumers import LIBS
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.evidence.test_laws import NODES
from toolkit.checks.all import ALL
from toolkit.checks.check import Status
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.checks.judged import Judged, judge_node
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.verbs.plan import plan_node
from toolkit.want import PeerPath, Want

TODAY = date(2026, 11, 23)
AUTO = Want(path=None)
NO_PEERMEM: dict[str, Override] = {"module-state": without_module("nvidia_peermem")}
NOT_ASKED: dict[str, Override] = {**NO_PEERMEM, "modules-load": ""}
CLOSED: dict[str, Override] = {"nvidia-version": PROPRIETARY}
# The kernel's own stack: no interface for nvidia-peermem, and no OFED on disk.
INBOX: dict[str, Override] = {
    **NO_PEERMEM,
    "kallsyms": "",
    "ofed-info": ABSENT,
    "dkms-tree": "",
    "dkms-status": "",
    "dkms-confs": "",
    "rdma-modinfo": "",
    "symvers": "",
}
NO_IMPORTER: dict[str, Override] = {"verbs-libraries": f"{LIBS}/libibverbs.so.1 no\n"}

OLD_KERNEL: dict[str, Override] = {"kernel-release": "5.4.0-97-generic\n"}

TAKEN: dict[str, tuple[dict[str, Override], PeerPath | None]] = {
    "both": ({}, PeerPath.DMABUF),
    "dmabuf-alone": (NO_PEERMEM, PeerPath.DMABUF),
    "dmabuf-on-the-kernels-own-stack": (INBOX, PeerPath.DMABUF),
    "peermem-alone": (CLOSED, PeerPath.PEERMEM),
    "neither-with-the-closed-driver": ({**CLOSED, **NO_PEERMEM}, PeerPath.PEERMEM),
    "neither-with-the-closed-driver-and-no-ofed": ({**INBOX, **CLOSED}, PeerPath.PEERMEM),
    "neither-with-the-open-driver-and-no-ofed": ({**INBOX, **NO_IMPORTER}, PeerPath.DMABUF),
    "an-old-kernel-under-ofed": (OLD_KERNEL, PeerPath.PEERMEM),
    "no-driver-under-ofed": ({**NO_PEERMEM, "nvidia-version": ABSENT}, PeerPath.PEERMEM),
    "dmabuf-not-read-and-peermem-usable": ({"nvidia-version": DENIED}, PeerPath.PEERMEM),
    "dmabuf-not-read-and-no-peermem": ({**NO_PEERMEM, "nvidia-version": DENIED}, None),
    "neither-read": ({"nvidia-version": DENIED, "module-state": DENIED}, None),
}


@pytest.mark.parametrize(("frames", "path"), TAKEN.values(), ids=list(TAKEN))
def test_the_path_that_a_node_takes(frames: dict[str, Override], path: PeerPath | None) -> None:
    assert taken(Node(node(frames)), AUTO) == replace(AUTO, path=path, taken=True)


@pytest.mark.parametrize("path", PeerPath)
def test_who_insists_is_not_asked(path: PeerPath) -> None:
    assert taken(Node(Evidence()), Want(path=path)) == Want(path=path)


ROWS = [
    Row("both-work", "path.other", PASS, "nvidia-peermem works too", want=DMABUF),
    Row("asked-for-and-not-there", "path.other", FAIL, "loads nvidia-peermem", NO_PEERMEM,
        want=DMABUF),
    Row("not-asked-for", "path.other", NA, "nothing loads", NOT_ASKED, want=DMABUF),
    Row("no-interface", "path.other", NA, "no interface for it", {**NO_PEERMEM, "kallsyms": ""},
        want=DMABUF),
    Row("not-read", "path.other", UNKNOWN, "module-state", {"module-state": DENIED}, want=DMABUF),
    Row("insisted-on", "path.other", NA, "not part of the peermem path", NO_PEERMEM),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_is_half_set_up_of_the_other_path(row: Row) -> None:
    holds(row)


def judged(evidence: Evidence, path: PeerPath | None) -> Judged:
    return judge_node("n", evidence, Want(path=path), TODAY)


CASES: dict[str, Evidence] = {
    **NODES,
    **{name: node(frames) for name, (frames, _) in TAKEN.items()},
    "perftest-without-dmabuf": node(
        {"perftest": "path /usr/bin/ib_write_bw\ncuda yes\ndmabuf no\n"}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_is_ready_by_one_path_is_ready_by_the_one_that_it_takes(name: str) -> None:
    insisted = {judged(CASES[name], path).state for path in PeerPath}
    assert "ready" not in insisted or judged(CASES[name], None).state == "ready"


@pytest.mark.parametrize("name", CASES)
def test_who_is_ready_has_a_path_that_is_usable(name: str) -> None:
    here = Node(CASES[name])
    if judged(CASES[name], None).state == "ready":
        assert not (dmabuf_gap(here, AUTO) and peermem_gap(here))


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_the_path_not_taken_fails(name: str) -> None:
    here = Node(CASES[name])
    path = taken(here, AUTO).path
    failing = {each.check.id for each in judged(CASES[name], None).having(Status.FAIL)}
    other = {each.id for each in ALL if path not in each.paths}
    assert path is None or not failing & other
    assert path is not None or not failing & {e.id for e in ALL if len(e.paths) == 1}


def test_a_path_that_is_not_known_leaves_open_what_goes_by_it() -> None:
    frames, _ = TAKEN["dmabuf-not-read-and-no-peermem"]
    found = {each.check.id: each for each in judged(node(frames), None).verdicts}
    assert found["path.selected"].status is Status.UNKNOWN
    assert found["peermem.loaded"].status is Status.UNKNOWN
    assert found["rdma.port"].status is Status.PASS, "which goes by neither"


def test_the_report_names_the_path_that_is_taken() -> None:
    assert dict(judged(node(), None).about)["path"] == "dmabuf, as the node has it"
    assert "path" not in dict(judged(node(), PeerPath.DMABUF).about), "said by who asked"


def test_a_plan_brings_no_peermem_to_a_node_that_does_without() -> None:
    plan = plan_node("n", node(NOT_ASKED), AUTO, TODAY).plan
    assert plan.empty
    assert not plan.blocked
    insisted = plan_node("n", node(NOT_ASKED), Want(path=PeerPath.PEERMEM), TODAY).plan
    assert any("peermem" in each.artefact for each in insisted.changes)


def test_a_plan_mends_the_peermem_that_is_half_set_up() -> None:
    found = plan_node("n", node(NO_PEERMEM), AUTO, TODAY)
    assert [each.check.id for each in found.judged.having(Status.FAIL)] == ["path.other"]
    assert any("peermem" in each.artefact for each in found.plan.changes)


PLACED = "/etc/modules-load.d/gdr-toolkit.conf"


def test_a_plan_takes_away_nothing_that_was_placed_for_peermem() -> None:
    frames: dict[str, Override] = {
        "owned": f"{PLACED}\n",
        "placed": f"{'0' * 64} 644 0 0 {PLACED}\n",
    }
    plan = plan_node("n", node(frames), AUTO, TODAY).plan
    assert not [each for each in plan.changes if each.action == "remove"]
