"""Containers and the traces of Kubernetes operators, judged; UCX's own words, parsed."""

from __future__ import annotations

from datetime import date

import pytest

from tests.evidence.build import PROPRIETARY, node, without_module
from tests.evidence.frames import DENIED
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.judged import judge_node
from toolkit.errors import Unparsable
from toolkit.facts.nccl.containers import Containers, PerJob, parse_containers
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.ucx import parse_ucx_info
from toolkit.want import Want

NETNS = "sys/module/ib_core/parameters/netns_mode:Y\n"
HERE = f"runtime:containerd\n{NETNS}memlock/containerd:unlimited\n"
STARTED = "run/nvidia/validations/.driver-ctr-ready:GPU_DIRECT_RDMA_ENABLED: {}\n"
VALIDATED = "run/nvidia/validations/driver-ready:IS_HOST_DRIVER={}\n"
BOTH = STARTED.format("true") + VALIDATED.format("false")
NEWER = "ofed:ready\nofed:newer\n"
UNLOADED = without_module("nvidia_peermem")

ROWS: list[Row] = [
    Row("all-there", "ctr.rdma_devices", PASS, "containerd: "),
    Row("no-runtime", "ctr.rdma_devices", NA, "no container runtime", {"containers": NETNS}),
    Row("no-rdma", "ctr.rdma_devices", NA, "no RDMA device", {"infiniband": ""}),
    Row("a-device-without-node", "ctr.rdma_devices", FAIL, "1 uverbs nodes for 3 RDMA devices",
        {"rdma-nodes": "/dev/infiniband/rdma_cm\n/dev/infiniband/uverbs0\n"}),
    Row("no-connection-manager", "ctr.rdma_devices", FAIL, "no /dev/infiniband/rdma_cm",
        {"rdma-nodes": "".join(f"/dev/infiniband/uverbs{n}\n" for n in range(3))}),
    Row("unread", "ctr.rdma_devices", UNKNOWN, "permission denied", {"containers": DENIED}),
    Row("odd-mode", "ctr.rdma_devices", UNKNOWN, "cannot read",
        {"containers": HERE.replace(":Y", ":?")}),
    Row("no-operator", "ctr.peermem_sidecar", NA, "no trace"),
    Row("the-node's-own-driver", "ctr.peermem_sidecar", NA, "the node's own driver",
        {"containers": HERE + VALIDATED.format("true")}),
    # Clouds touch the file beside a driver of their own, to let the operator go on.
    Row("a-file-touched-by-others", "ctr.peermem_sidecar", NA, "the node's own driver",
        {"containers": HERE + "run/nvidia/validations/.driver-ctr-ready:\n",
         "module-state": UNLOADED}),
    Row("loaded", "ctr.peermem_sidecar", PASS, "by the driver's container",
        {"containers": HERE + BOTH}),
    Row("told-not-to", "ctr.peermem_sidecar", FAIL, "GPU_DIRECT_RDMA_ENABLED is false",
        {"containers": HERE + STARTED.format("false") + VALIDATED.format("false"),
         "module-state": UNLOADED}),
    Row("pods-in-the-wrong-order", "ctr.peermem_sidecar", FAIL, "B15: not loaded",
        {"containers": HERE + BOTH + NEWER, "module-state": UNLOADED}),
    Row("not-loaded", "ctr.peermem_sidecar", FAIL, "not loaded by the driver's container",
        {"containers": HERE + BOTH, "module-state": UNLOADED}),
    Row("modules-unread", "ctr.peermem_sidecar", UNKNOWN, "permission denied",
        {"containers": HERE + BOTH, "module-state": DENIED}),
    Row("dmabuf-needs-none", "ctr.peermem_sidecar", NA, "not part of the dmabuf path",
        {"containers": HERE + BOTH, "module-state": UNLOADED}, want=DMABUF),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_containers_are_judged(row: Row) -> None:
    holds(row)


def test_a_limited_runtime_is_told_and_no_failure() -> None:
    """A container with CAP_IPC_LOCK may pin memory whatever the limit."""
    limited = HERE.replace("unlimited", "8388608")
    finding = judged(Row("", "ctr.rdma_devices", PASS, "", {"containers": limited})).finding
    assert finding.status is PASS
    assert finding.details == (
        "containerd: memlock 8388608; its RDMA containers need CAP_IPC_LOCK",
    )


@pytest.mark.parametrize(("driver", "offered"), [(None, True), (PROPRIETARY, False)])
def test_dmabuf_is_offered_where_the_driver_can(driver: str | None, offered: bool) -> None:
    frames = {
        "containers": HERE + STARTED.format("false") + VALIDATED.format("false"),
        "module-state": UNLOADED,
        **({"nvidia-version": driver} if driver else {}),
    }
    finding = judged(Row("", "ctr.peermem_sidecar", FAIL, "", frames)).finding
    assert ("dma-buf" in finding.hint) is offered


def test_a_driver_without_validator_is_known_by_its_mounted_root() -> None:
    found = parse_containers(STARTED.format("true") + "driver-root:/run/nvidia/driver\n")
    assert (found.driver_container, found.rdma_enabled) == (True, True)


def test_a_node_without_containers_has_none() -> None:
    assert parse_containers("") == Containers()
    assert not Node(node()).containers.driver_container


# --- ucx_info ---

NEW = """\
# Library version: 1.17.0
# Library path: /opt/ucx/lib/libucs.so.0
# Configured with: --disable-logging --with-cuda=/usr/local/cuda --with-verbs
#
# Memory domain: mlx5_0
#     Component: ib
#             register: unlimited, dmabuf, cost: 16000 + 0.060 * N nsec
#           remote key: 8 bytes
#         memory types: host (access,reg,cache), cuda (access,reg,cache)
#
#      Transport: dc_mlx5
#         Device: mlx5_0:1
#           Type: network
#  System device: mlx5_0 (1)
#
#      Transport: rc_mlx5
#         Device: mlx5_0:1
"""
OLD = """\
#   Transport: cuda_copy
#
#   Device: cudacopy0
#
#      capabilities:
#            bandwidth: 6911.00 MB/sec
# Memory domain: gdr_copy
#            component: gdr_copy
#             register: unlimited, cost: 0 nsec
#
#   Transport: gdr_copy
#
#   Device: gdrcopy0
"""


@pytest.mark.parametrize("text", [NEW, NEW.replace("# ", "").replace("#\n", "\n")])
def test_the_newer_layout_tells_of_memory(text: str) -> None:
    found = parse_ucx_info(text)
    assert (found.version, "--with-cuda" in found.configured) == ("1.17.0", True)
    (domain,) = found.domains
    assert (domain.name, domain.component, domain.dmabuf) == ("mlx5_0", "ib", True)
    assert domain.memory == ("host", "cuda")
    assert domain.transports == (("dc_mlx5", "mlx5_0:1"), ("rc_mlx5", "mlx5_0:1"))


def test_the_older_layout_tells_none_and_may_begin_in_the_middle() -> None:
    found = parse_ucx_info(OLD)
    assert [(each.name, each.memory) for each in found.domains] == [("", None), ("gdr_copy", None)]
    assert found.transports == {"cuda_copy", "gdr_copy"}
    assert found.knows_cuda


def test_a_ucx_without_cuda_is_known_as_such() -> None:
    assert not parse_ucx_info(NEW).knows_cuda


def test_other_text_is_refused() -> None:
    with pytest.raises(Unparsable, match="ucx_info"):
        parse_ucx_info("ucx_info: command not found\n")


@pytest.mark.parametrize(
    ("told", "ending"), [("false", "open, from a container"), ("true", "open")]
)
def test_a_driver_that_came_from_a_container_is_named_as_such(told: str, ending: str) -> None:
    evidence = node({"containers": HERE + VALIDATED.format(told)})
    about = dict(judge_node("gpu01", evidence, Want(), date(2026, 11, 21)).about)
    assert about["driver"].endswith(ending)


def test_an_older_probe_did_not_look_for_a_kubelet() -> None:
    assert parse_containers("runtime:docker\n").kubelet is None
    assert parse_containers("kubelet:no\n").kubelet is False
    assert parse_containers("kubelet:yes\n").kubelet is True


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("imex:masked", {PerJob.MASKED}),
        ("imex:compute-domain", {PerJob.COMPUTE_DOMAIN}),
        ("run/slurm/conf/slurm.conf:  switchtype = switch/nvidia_imex", {PerJob.SLURM}),
        ("etc/slurm/slurm.conf:SwitchType=switch/none # switch/nvidia_imex", set()),
    ],
)
def test_what_brings_imex_to_each_job_is_told_apart(line: str, shown: set[PerJob]) -> None:
    assert parse_containers(f"{line}\n").imex == shown
