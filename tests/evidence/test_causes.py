"""What follows from what: no failure is lost, none is told twice, and none hides another.

A node with several faults has a cause for each of them, and mending one of them on the evidence
makes what followed from it pass, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from itertools import combinations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, PORTS, REDIRECTS
from tests.evidence.build import (
    HEALTHY,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    UPDATES,
    node,
    rdma_core,
    without_module,
)
from tests.evidence.frames import Override
from tests.evidence.machines.composed import COMPOSED
from tests.evidence.machines.edits import HERE
from tests.evidence.machines.held import evidence_of
from tests.evidence.test_laws import NODES
from tests.laws import few
from tests.unit.fleets import CAPTURES, TODAY, capture
from tests.unit.planning import LITTLE_MEMLOCK, NO_AUTOLOAD, NO_HOOKS, STUBBED, TRANSLATED
from toolkit.checks.all import ALL
from toolkit.checks.check import Gap, Status, failed
from toolkit.checks.follows import AFTER, UNKNOWN, Step
from toolkit.checks.judged import Cause, Judged, causes, judge_node
from toolkit.evidence import Evidence, Frame
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Waiver, Want

OPEN = {Status.FAIL, Status.UNKNOWN}
BOTH = {"": Want(path=None), **{str(path): Want(path=path) for path in PeerPath}}


@cache
def judged_by(path: str) -> tuple[Judged, ...]:
    """Every evidence that the tests have; in a quick run other ones by each path."""
    every = few([*_every()], 3, f"causes {path}")
    return tuple(judge_node(name, each, BOTH[path], TODAY) for name, each in every)


def _every() -> Iterator[tuple[str, Evidence]]:
    yield from ((path.stem, capture(path.stem)) for path in sorted(CAPTURES.glob("*.txt")))
    machines = [*COMPOSED, *(path.stem for path in sorted((HERE / "nodes").glob("*.edits")))]
    yield from ((name, evidence_of(name)) for name in machines)
    yield from NODES.items()


def told(evidence: Evidence, want: Want | None = None) -> Judged:
    return judge_node("gpu01", evidence, want or Want(), TODAY)


def roots(evidence: Evidence) -> dict[str, set[str]]:
    """Each cause that fails, with what follows from it."""
    return {
        each.root.check.id: {verdict.check.id for verdict in each.follows}
        for each in causes(told(evidence))
    }


def status_of(evidence: Evidence) -> dict[str, Status]:
    return {each.check.id: each.status for each in told(evidence).verdicts}


@pytest.mark.parametrize("path", BOTH)
def test_each_open_verdict_of_each_evidence_is_in_exactly_one_block(path: str) -> None:
    for judged in judged_by(path):
        inside = [
            verdict.check.id
            for each in causes(judged)
            for verdict in (each.root, *each.follows)
        ]  # fmt: skip
        open_ = [each.check.id for each in judged.verdicts if each.status in OPEN]
        assert sorted(inside) == sorted(open_), judged.host


@pytest.mark.parametrize("path", BOTH)
def test_what_fails_follows_from_what_fails_and_an_unknown_hides_no_failure(path: str) -> None:
    for judged in judged_by(path):
        for each in causes(judged):
            if each.root.status is Status.UNKNOWN:
                assert {one.status for one in each.follows} <= {Status.UNKNOWN}, judged.host


def test_no_check_follows_from_itself_by_whatever_way() -> None:
    ids = {check.id for check in ALL}
    above = {name: {after for after, _ in rules} for name, rules in AFTER.items()}
    assert ids.issuperset(above)
    assert ids.issuperset({after for after, _ in UNKNOWN}.union(*above.values()))
    for name, direct in above.items():
        reached: set[str] = set()
        ways = set(direct)
        while ways:
            step = ways.pop()
            reached.add(step)
            ways |= above.get(step, set()) - reached
        assert name not in reached, name


@pytest.mark.parametrize("path", BOTH)
def test_nothing_follows_from_anything_on_a_healthy_node(path: str) -> None:
    ill = failed("x", expected="y")
    for name, rules in AFTER.items():
        for after, rule in rules:
            assert rule(Node(node()), BOTH[path], ill) == "", (name, after)


# The kinds of the demo, beside the healthy node: one cause each, and what is wrong besides.

OLD, NEW = "6.8.0-60-generic", "6.8.0-64-generic"
BUILT = {"kernel.pending_reboot", "nvidia.present", "nvidia.version", "nvidia.flavor"} | {
    "path.selected", "ib.peer_symbol", "peermem.file", "peermem.loadable", "peermem.loaded",
    "ofed.flavor", "ofed.kernel_match", "ofed.headers_link",
}  # fmt: skip


def beside(kind: str, *keys: str) -> list[Frame]:
    """Those frames of an ill node that its repair leaves as they are."""
    return [capture(kind).frames[key] for key in keys]


def on_new_kernel(evidence: Evidence) -> Evidence:
    """The same node had it been set up for the newer kernel."""
    return Evidence.parse(evidence.dump().replace(OLD, NEW))


def passing_through(evidence: Evidence) -> Evidence:
    """The same node after a boot with the argument, in the menu too."""
    text = evidence.dump().replace("DMA-FQ", "identity")
    return Evidence.parse(text.replace("intel_iommu=on", "intel_iommu=on iommu=pt"))


KINDS = [
    pytest.param(
        "kernel",
        "peermem",
        {"dkms.state": BUILT, "peermem.rebuild": set()},
        on_new_kernel(capture("healthy")).plus(beside("kernel", "rebuild-hooks")),
        "dkms.state",
        id="kernel",
    ),
    pytest.param(
        "stub",
        "peermem",
        {
            "peermem.stub": {"path.selected", "peermem.loadable", "peermem.loaded"},
            "peermem.autoload": set(),
            "peermem.rebuild": set(),
        },
        capture("healthy").plus(beside("stub", "rebuild-hooks", "modules-load")),
        "peermem.stub",
        id="stub",
    ),
    pytest.param(
        "rocky",
        "",
        {"rdma.memlock": set(), "iommu.passthrough": {"iommu.boot"}},
        passing_through(capture("rocky")),
        "iommu.passthrough",
        id="rocky",
    ),
]


@pytest.mark.parametrize(("kind", "path", "expected", "mended", "root"), KINDS)
def test_a_kind_of_the_demo_has_one_cause_for_all_that_its_repair_mends(
    kind: str, path: str, expected: dict[str, set[str]], mended: Evidence, root: str
) -> None:
    want = BOTH[path]
    before = judge_node("gpu01", capture(kind), want, TODAY)
    after = judge_node("gpu01", mended, want, TODAY)
    found = {each.root.check.id: {v.check.id for v in each.follows} for each in causes(before)}
    assert found == expected
    now = {each.check.id: each.status for each in after.verdicts}
    assert {now[each] for each in (root, *expected[root])} <= {Status.PASS, Status.NA}
    others = {name for name in expected if name != root}
    assert {each.check.id for each in after.having(Status.FAIL)} == others


# Faults that have nothing to do with each other: none may hide another.

LONE: dict[str, Override] = {**STUBBED}
LONE.pop("rebuild-hooks")
FAULTS: dict[str, dict[str, Override]] = {
    "peermem.stub": LONE,
    "peermem.loaded": {"module-state": without_module("nvidia_peermem")},
    "iommu.passthrough": TRANSLATED,
    "rdma.memlock": LITTLE_MEMLOCK,
    "peermem.autoload": NO_AUTOLOAD,
    "peermem.rebuild": NO_HOOKS,
}
FENCED = BOARD.but(PORTS[0], acs=REDIRECTS)


@pytest.mark.parametrize(
    ("one", "other"),
    [pytest.param(*pair, id="+".join(pair)) for pair in combinations(FAULTS, 2)
     if set(pair) != {"peermem.stub", "peermem.loaded"}],  # the first brings the second about
)  # fmt: skip
def test_of_two_faults_each_keeps_a_cause_of_its_own(one: str, other: str) -> None:
    both = roots(node({**FAULTS[one], **FAULTS[other]}))
    assert {one, other} <= both.keys()
    alone = roots(node(FAULTS[one]))
    assert both[one] == alone[one]


INBOX = f"/lib/modules/{KERNEL}/kernel/drivers/infiniband/core"
NOT_LOADED = without_module("nvidia_peermem")
OLDER = NOT_LOADED.replace("5" * 22, "9" * 22)  # ib_core: not the one on disk
IN_INITRAMFS = f"usr{INBOX}/ib_core.ko\n"
ODD: list[tuple[str, str, Mapping[str, Override], Want]] = [
    (
        "no-modules-at-all-for-the-next-kernel",
        "kernel.pending_reboot",
        {"boot-entries": str(HEALTHY["boot-entries"]).replace(KERNEL, NEXT_KERNEL)},
        Want(),
    ),
    (
        "a-symbol-of-the-driver-beside-another-rdma-stack",
        "peermem.unknown_symbol",
        {
            "module-state": OLDER,
            "kallsyms": "",
            "dmesg": "[9.0] nvidia_peermem: Unknown symbol nvidia_p2p_get_pages (err -2)\n",
        },
        Want(),
    ),
    (
        "two-stacks-on-disk-beside-an-inbox-one-in-the-initramfs",
        "modules.origin",
        {
            "module-state": OLDER,
            "rdma-modinfo": rdma_core().replace(f"{UPDATES}/ib_uverbs.ko", f"{INBOX}/ib_uverbs.ko"),
            "initramfs": IN_INITRAMFS,
        },
        Want(),
    ),
    (
        "an-older-ofed-loaded-beside-an-inbox-one-in-the-initramfs",
        "modules.origin",
        {"module-state": f"{OLDER}ib_core/taint:OE\n", "initramfs": IN_INITRAMFS},
        Want(),
    ),
    (
        "another-stack-wanted-than-the-one-that-is-not-built",
        "ofed.flavor",
        {
            "rdma-modinfo": "@ib_core\n",
            "dkms-status": f"mlnx-ofed-kernel/{OFED}: added\n",
            "kernels": f"@{KERNEL}\nimage\nheaders\n",
        },
        Want(ofed="inbox"),
    ),
    (
        "a-module-that-hangs-while-it-loads-beside-the-older-one",
        "peermem.loaded",
        {
            "module-state": f"{NOT_LOADED}nvidia_peermem/initstate:coming\n"
            "nv_peer_mem/initstate:live\n",
            "legacy": "/etc/init.d/nv_peer_mem\n",
        },
        Want(),
    ),
]


@pytest.mark.parametrize(
    ("root", "frames", "want"), [pytest.param(*row[1:], id=row[0]) for row in ODD]
)
def test_what_another_s_repair_would_not_mend_is_a_cause_of_its_own(
    root: str, frames: Mapping[str, Override], want: Want
) -> None:
    assert root in {each.root.check.id for each in causes(told(node(frames), want))}


def test_acs_beside_a_translating_iommu_is_a_cause_of_its_own() -> None:
    assert {"acs.redirect", "iommu.passthrough"} <= roots(node(TRANSLATED, board=FENCED)).keys()


# Where facts say otherwise, the table alone makes nothing a consequence.


def test_the_driver_lets_go_of_a_gpu_that_does_not_answer_and_of_no_other() -> None:
    gone, other = GPUS
    log = {"dmesg": f"[9.1] NVRM: GPU {gone}: GPU has fallen off the bus.\n"}
    let_go = BOARD.but(gone, driver="")
    assert "nvidia.present" in roots(node(log, board=let_go))["gpu.lost"]
    assert "nvidia.present" in roots(node(log, board=let_go.but(other, driver="")))


def test_a_module_that_would_load_and_is_not_loaded_follows_from_nothing() -> None:
    found = roots(node(FAULTS["peermem.loaded"]))
    assert found["peermem.loaded"] == {"path.selected"}


def test_an_argument_that_is_live_and_not_kept_is_not_the_passthrough_s_affair() -> None:
    kept = {key: TRANSLATED[key] for key in ("boot-entries",)}
    assert roots(node(kept)) == {"iommu.boot": set()}


def test_a_group_that_translates_against_the_argument_is_not_the_next_boot_s_cause() -> None:
    """The running kernel was asked for passthrough: that the next is not has other reasons."""
    some = {key: TRANSLATED[key] for key in ("boot-entries", "iommu-groups")}
    assert {"iommu.boot", "iommu.passthrough"} <= roots(node(some)).keys()


def test_what_a_lost_gpu_keeps_from_being_known_follows_from_it() -> None:
    found = causes(told(evidence_of("gpu-lost"), BOTH[""]))
    lost = next(each for each in found if each.root.check.id == "gpu.lost")
    unknown = [each for each in lost.follows if each.status is Status.UNKNOWN]
    assert {each.finding.gap for each in unknown} == {Gap.LOST}
    assert [each.check.id for each in lost.follows if each not in unknown] == ["gpu.xid"]


def test_an_xid_of_another_kind_is_a_cause_of_its_own_beside_a_lost_gpu() -> None:
    lost = evidence_of("gpu-lost")
    text = lost.text("dmesg")
    more = "NVRM: Xid (PCI:0000:18:00): 95, pid=4711, name=python3, Uncontained: LTC TAG\n"
    both = lost.plus([replace(lost.frames["dmesg"], text=text + more)])
    assert {"gpu.lost", "gpu.xid"} <= roots(both).keys()


def test_a_gpu_whose_hca_is_gone_is_far_from_the_next_one_for_that_alone() -> None:
    found = {
        each.root.check.id: {one.check.id for one in each.follows}
        for each in causes(told(evidence_of("hca-missing"), BOTH[""]))
    }
    assert found == {"hca.count": {"pcie.distance"}}


def _judged(*steps: Step, waiver: Waiver | None = None) -> Judged:
    healthy = told(capture("healthy"))
    broken = failed("x", expected="y")
    ill = {"peermem.stub", "peermem.loadable", "peermem.loaded"}
    verdicts = tuple(
        replace(each, finding=broken, waiver=waiver if each.check.id == "peermem.stub" else None)
        if each.check.id in ill
        else each
        for each in healthy.verdicts
    )
    return replace(healthy, verdicts=verdicts, steps=steps)


CHAIN = (
    Step("peermem.loadable", "peermem.stub", "a stub"),
    Step("peermem.loaded", "peermem.loadable", "not loadable"),
)


def named(found: tuple[Cause, ...]) -> list[tuple[str, list[str]]]:
    return [(each.root.check.id, [v.check.id for v in each.follows]) for each in found]


def test_a_chain_ends_at_its_root() -> None:
    assert named(causes(_judged(*CHAIN))) == [
        ("peermem.stub", ["peermem.loadable", "peermem.loaded"])
    ]


def test_what_follows_from_a_waived_failure_is_not_waived_with_it() -> None:
    waiver = Waiver("peermem.stub", "known", date(2027, 1, 1))
    assert named(causes(_judged(*CHAIN, waiver=waiver))) == [
        ("peermem.loadable", ["peermem.loaded"])
    ]


def test_steps_in_a_circle_lose_nothing() -> None:
    circle = (*CHAIN, Step("peermem.stub", "peermem.loaded", "no"))
    inside = [
        name for root, follows in named(causes(_judged(*circle))) for name in (root, *follows)
    ]
    assert sorted(inside) == ["peermem.loadable", "peermem.loaded", "peermem.stub"]
