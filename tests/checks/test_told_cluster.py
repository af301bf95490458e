"""Pods that kubectl lists, resources of a node and logs of device plugins, in all their words.

Texts are drawn from the format strings of the sources that stand above each.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from tests.checks.test_told_otherwise import CHECKS, HOSTS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.facts.kube import parse_plugin_log
from toolkit.facts.node.node import Node
from toolkit.want import Want

FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN
CHECK = "ctr.rdma_devices"


def found(text: str) -> str:
    return CHECKS[CHECK](Node(read(text)), Want()).finding.found


# kubernetes pkg/printers/internalversion/printers.go, printPod, printPodList and the columns of
# pods; apimachinery util/duration, HumanDuration; kubectl get's printer: two blanks and more.
WELL = (("Running", 1), ("Completed", 0))
STARTS = (("Init:0/1", 0), ("Pending", 0), ("ContainerCreating", 0), ("Running", 0))
ILL = (
    *(("CrashLoopBackOff", 0), ("Init:CrashLoopBackOff", 0), ("Error", 0), ("Init:Error", 0)),
    *(("ImagePullBackOff", 0), ("Init:ErrImagePull", 0), ("OOMKilled", 0), ("ExitCode:1", 0)),
    *(("CreateContainerError", 0), ("Unknown", 0), ("UnexpectedAdmissionError", 0)),
)
YOUNG, OLD = ("42s", "9m12s", "29m"), ("30m", "119m", "3h20m", "47h", "2d5h", "97d", "2y45d")
CHAIN = (  # each waits for those before it
    "mofed-ubuntu22.04-5bc8b54b7f-ds-{}",
    "nvidia-driver-daemonset-{}",
    "nvidia-container-toolkit-daemonset-{}",
    "nvidia-operator-validator-{}",
    "nvidia-device-plugin-daemonset-{}",
)
OTHERS = ("rdma-shared-dp-ds-{}", "network-operator-sriov-device-plugin-{}", "gpu-operator-7b9-{}")
NOBODYS = ("coredns-76f75df574-{}", "kube-proxy-{}", "train-worker-{}")


def pod_rows(draw: Random, pods: list[tuple[str, str, int, str]]) -> str:
    """:param pods: name, status, containers that are ready of one, age."""
    everywhere, wide, new = draw.random() < 0.6, draw.random() < 0.5, draw.random() < 0.7
    again = draw.choice(("12 (3m2s ago)", "1 (5d ago)")) if new else "12"
    rows = [("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE")]
    for name, state, ready, age in pods:
        count = again if state not in {"Running", "Completed", "Pending"} else "0"
        at = (draw.choice(("10.0.0.7", "<none>")), draw.choice(HOSTS))
        rows.append(("nvidia-gpu-operator", name, f"{ready}/1", state, count, age, *at))
    columns = [row[0 if everywhere else 1 : 8 if wide else 6] for row in rows]
    widths = [max(map(len, column)) + 3 for column in zip(*columns, strict=True)]
    if draw.random() < 0.2:
        del columns[0]  # --no-headers, or grep
    lines = ("".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in columns)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def listed_pods(draw: Random, *, ill: int | None, late: bool = False) -> str:
    """:param ill: which of CHAIN is ill, so that those behind it wait."""
    pods = []
    for at, name in enumerate(CHAIN):
        state, ready = draw.choice(WELL) if ill is None or at < ill else ("Init:0/1", 0)
        age = draw.choice(OLD)
        if at == ill:
            state, ready = draw.choice(ILL if draw.random() < 0.7 else STARTS)
        elif late and at == len(CHAIN) - 1:
            (state, ready), age = draw.choice(STARTS), draw.choice(YOUNG)
        pods.append((name.format(draw.choice(("x7c2p", "9qz4l"))), state, ready, age))
    pods += [(e.format("abcde"), *draw.choice(WELL), "8d") for e in draw.sample(OTHERS, 2)]
    pods += [(e.format("abcde"), *draw.choice((*WELL, *ILL)), "8d") for e in NOBODYS]
    draw.shuffle(pods)
    prompt = draw.choice(("", "$ kubectl get pods -A\n", "$ oc get pods -n nvidia-gpu-operator\n"))
    return prompt + pod_rows(draw, pods)


def test_the_first_pod_of_the_chain_that_is_not_up_is_named_and_the_rest_waits_for_it() -> None:
    draw = Random(81)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        ill = draw.choice((None, None, *range(len(CHAIN))))
        late = draw.random() < 0.5
        text = listed_pods(draw, ill=ill, late=late and ill is None)
        assert set(read(text).frames) == {"kubectl-pods"}, text
        assert status(CHECK, text) is (UNKNOWN if ill is None else FAIL), text
        if ill is not None:
            assert CHAIN[ill].partition("{")[0] in found(text), text
            quoted = "".join(f"> {line}\n" for line in text.split("\n"))
            assert status(CHECK, quoted) is FAIL, quoted
        elif late:
            assert "still starting" in found(text), text


@pytest.mark.parametrize(
    ("text", "want", "words"),
    [
        pytest.param(
            "NAME READY STATUS RESTARTS AGE\nnvidia-driver-daemonset-x 1/2 CrashLoopBackOff 7 (2m "
            "ago) 31m\n",
            FAIL,
            "the pod of the GPU driver is not up: nvidia-driver-daemonset-x: CrashLoopBackOff, 1",
            id="one-container-of-two",
        ),
        pytest.param(
            "$ kubectl get pods\nNAME READY STATUS RESTARTS AGE\ntrain-0 0/1 Error 0 1d\n",
            UNKNOWN,
            "no pod of the GPU or the network operator among 1 pod",
            id="somebody-elses",
        ),
        pytest.param(
            "$ kubectl get all -n network-operator\nNAME READY STATUS RESTARTS AGE\n"
            "pod/rdma-shared-dp-ds-x 0/1 Init:0/1 0 3d\n",
            FAIL,
            "a device plugin's pod is not up: rdma-shared-dp-ds-x: Init:0/1",
            id="waits-for-days",
        ),
        pytest.param("$ kubectl get pods -A\nNo resources found\n", UNKNOWN, "", id="none"),
    ],
)
def test_lists_of_pods_as_people_paste_them(text: str, want: Status, words: str) -> None:
    assert status(CHECK, text) is want
    assert found(text).startswith(words)


# kubernetes pkg/kubelet/eviction, nodeshutdown, lifecycle/predicate.go and kubelet_pods.go: what
# was put off a node is kept, beside what took its place, until it is collected.
PUT_OFF = ("Evicted", "Terminating", "Error", "ContainerStatusUnknown", "UnexpectedAdmissionError")
HEAD, WIDE = "NAME READY STATUS RESTARTS AGE\n", "NAME READY STATUS RESTARTS AGE IP NODE\n"


@pytest.mark.parametrize("state", PUT_OFF)
@pytest.mark.parametrize(
    ("gone", "well"),
    [
        pytest.param("gpu-operator-x", "gpu-operator-y", id="of-one-owner"),
        pytest.param(
            "gpu-operator-7bf6f7d669-x7c2p", "gpu-operator-84c9b5f7cd-9qz4l", id="of-a-deployment"
        ),
        pytest.param(
            "nvidia-driver-daemonset-x", "nvidia-driver-daemonset-y", id="of-a-daemon-set"
        ),
    ],
)
def test_a_pod_that_was_put_off_is_not_missed_where_another_has_taken_its_place(
    state: str, gone: str, well: str
) -> None:
    row, beside = f"{gone} 0/1 {state} 0 5d", f"{well} 1/1 Running 0 4d"
    told = f"{HEAD}{row}\n{beside}\n"
    assert status(CHECK, told) is UNKNOWN
    assert found(told) == "1 of 1 pod of the operators up"
    assert status(CHECK, f"{HEAD}{row}\n") is FAIL, "nothing in its place"
    assert status(CHECK, f"{HEAD}{row}\nmofed-ubuntu-ds-y 1/1 Running 0 4d\n") is FAIL, "another's"
    not_up = f"{HEAD}{row}\n{well} 0/1 CrashLoopBackOff 9 4d\n"
    assert status(CHECK, not_up) is FAIL
    same = f"{WIDE}{row} 10.0.0.7 gpu01\n{beside} 10.0.0.8 gpu01\n"
    assert status(CHECK, same) is UNKNOWN, "on the same node"
    other = f"{WIDE}{row} 10.0.0.7 gpu02\n{beside} 10.0.0.8 gpu01\n"
    anywhere = "-7bf6f7d669-" in gone  # a deployment's pods have no node of their own
    assert status(CHECK, other) is (UNKNOWN if anywhere else FAIL), "on another node"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        *((name, True) for name in (
            "nvidia-device-plugin-daemonset-x7c2p", "nvdp-nvidia-device-plugin-x7c2p",
            "nvidia-gpu-device-plugin-small-cos-x7c2p", "kube-sriov-device-plugin-amd64-x7c2p",
            "rdma-shared-dp-ds-x7c2p", "k8s-rdma-shared-dev-plugin-ds-x7c2p",
            "network-operator-sriov-device-plugin-x7c2p", "aws-efa-k8s-device-plugin-x7c2p",
            "nvidia-sandbox-device-plugin-daemonset-x7c2p",
        )),
        *((name, False) for name in (
            "intel-qat-device-plugin-x7c2p", "intel-gpu-device-plugin-x7c2p",
            "amdgpu-device-plugin-daemonset-x7c2p", "generic-device-plugin-x7c2p",
            "hami-device-plugin-x7c2p", "xrdma-device-plugin-x7c2p",
        )),
    ],
)  # fmt: skip
def test_of_device_plugins_those_of_gpus_and_of_rdma_count(name: str, ours: bool) -> None:
    text = f"{HEAD}{name} 0/1 CrashLoopBackOff 120 3d\n"
    assert status(CHECK, text) is (FAIL if ours else UNKNOWN)


# kubernetes/kubectl pkg/describe/describe.go, describeNode; kubelet's device manager, GetCapacity.
RESOURCES = (
    "rdma/hca_shared_devices_a",
    "openshift.io/mlnxnics",
    "nvidia.com/sriov_ib",
    "rdma/roce",
)


def node_offers(draw: Random, has: dict[str, tuple[int, int]]) -> str:
    def rows(at: int) -> str:
        lines = [f"  {name}:  {counts[at]}" for name, counts in has.items()]
        lines += ["  cpu:                128", "  memory:             1056Ki", "  pods:   110"]
        return "\n".join(draw.sample(lines, len(lines)))

    used = "".join(f"  {name}  0  0\n" for name in has)
    return (
        f"Name:               {draw.choice(HOSTS)}\nRoles:              worker\n"
        f"Capacity:\n{rows(0)}\nAllocatable:\n{rows(1)}\nSystem Info:\n  Machine ID:  7\n"
        f"Allocated resources:\n  Resource   Requests  Limits\n{used}"
    )


def test_devices_of_rdma_that_a_node_does_not_offer_are_told() -> None:
    draw = Random(82)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        has = {}
        for name in draw.sample(RESOURCES, draw.randrange(1, 4)):
            capacity = draw.choice((0, 1, 63, 1000))
            has[name] = (capacity, draw.choice((capacity, capacity, capacity // 2)))
        text = draw.choice(("", "$ kubectl describe node gpu1\n")) + node_offers(draw, has)
        text = re.sub(r"(?m)^(  \S+:  )1000$", r"\g<1>1k", text)
        short = any(some < all_ for all_, some in has.values())
        assert status(CHECK, text) is (FAIL if short else UNKNOWN), text
        cut = text[: text.index("Allocatable:") + draw.randrange(60)]
        assert status(CHECK, cut) is not Status.PASS, cut


# Mellanox/k8s-rdma-shared-dev-plugin pkg/resources; sriov-network-device-plugin's
# cmd/sriovdp/manager.go; NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin, internal/plugin and rm.
GO, GLOG = "2026/11/28 09:01:02 ", "I1128 09:01:02.123456       1 manager.go:122] "


def plugin_log(draw: Random, *, some: bool, late: bool = False) -> str:
    kind = draw.choice(("shared", "sriov", "gpu"))
    stamp = GO if kind == "shared" else GLOG
    name = draw.choice(("hca_shared_devices_a", "mlnxnics", "sriov_rdma"))
    exposed = f'Updating "rdma/{name}" devices\n{{0}}exposing "{63 if some else 0}" devices'
    lines = {
        "shared": [
            "Starting K8s RDMA Shared Device Plugin version= master",
            f"Resource: &{{ResourceName:{name} ResourcePrefix:rdma RdmaHcaMax:63}}",
            *([] if some else [f"Warning: no devices in device pool, creating empty resource server"
                               f" for {name}",
                               f"Warning: no Rdma Devices were found for resource {name}"]),
            f"starting rdma/{name} device plugin endpoint at: {name}.sock",
            exposed.format(GO),
        ],
        "sriov": [
            f"Creating new ResourcePool: {name}",
            f"New resource server is created for {name} ResourcePool"
            if some
            else f"no devices in device pool, skipping creating resource server for {name}",
        ],
        "gpu": [
            "Starting FS watcher.",
            *(["Registered device plugin for 'nvidia.com/gpu' with Kubelet"] if some else [
                "Failed to initialize NVML: could not load NVML library",
                "If this is a GPU node, did you configure the NVIDIA Container Toolkit?",
                "No devices found. Waiting indefinitely."]),
        ],
    }[kind]  # fmt: skip
    before = draw.choice(("", "[pod/rdma-shared-dp-ds-x7c2p/k8s] ", "2026-11-28T09:01:02.1Z "))
    text = "".join(f"{before}{stamp}{line}\n" for line in lines)
    if late and kind == "shared":  # its periodic update has found them since
        text += f'{GO}Updating "rdma/{name}" devices\n{GO}exposing "63" devices\n'
    prompt = draw.choice(("", "$ kubectl logs -n network-operator rdma-shared-dp-ds-x7c2p\n"))
    return prompt + text


def test_a_device_plugin_that_has_nothing_to_offer_says_so_in_each_of_its_words() -> None:
    draw = Random(83)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        some = draw.random() < 0.5
        text = plugin_log(draw, some=some, late=not some and draw.random() < 0.3)
        keys = set(read(text).frames)
        assert keys == {"device-plugin-log"}, (keys, text)
        late = text.count("exposing") > 1
        assert status(CHECK, text) is (UNKNOWN if some or late else FAIL), text


@pytest.mark.parametrize(
    ("before", "offered"), [("", ()), ("device: rdmap1s0,uverbs0,/x\n", ("EFA",))]
)
def test_that_a_plugin_is_registered_tells_of_efa_after_its_own_words_alone(
    before: str, offered: tuple[str, ...]
) -> None:
    """The plugins of a dozen makers register by the same line."""
    assert parse_plugin_log(f"{before}Registered device plugin with Kubelet\n").offered == offered


def test_what_stands_first_in_the_chain_is_told_first_and_the_rest_beside_it() -> None:
    draw = Random(84)  # noqa: S311 # drawn again the same
    log = (
        "$ kubectl logs x\n2026/11/28 09:01:02 no devices in device pool, creating empty resource "
    )
    node = node_offers(draw, {"rdma/hca": (63, 0)})
    text = f"{log}server for hca\n$ kubectl describe node gpu1\n{node}"
    text += "$ kubectl get pods\nNAME READY STATUS RESTARTS AGE\nmofed-x-ds-7 0/1 Error 3 1h\n"
    finding = CHECKS[CHECK](Node(read(text)), Want()).finding
    assert "the pod of the DOCA driver is not up" in finding.found
    plugin, offered = finding.details
    assert plugin == "the device plugin offers none of hca"
    assert "0 of 63 rdma/hca allocatable" in offered


@pytest.mark.parametrize(
    "line",
    [
        "I1128 09:01:02.1 1 server.go:300] 'nvidia.com/gpu' device marked unhealthy: GPU-1f2e-3d",
        "I1128 09:01:02.1 1 health.go:187] XidCriticalError: Xid=79 on Device=GPU-1f2e-3d; marking "
        "device as unhealthy.",
        "2026/11/28 09:01:02 XidCriticalError: Xid=48 on Device=GPU-1f2e-3d, the device will go "
        "unhealthy.",
    ],
)
def test_a_gpu_that_its_plugin_has_called_unhealthy_is_lost(line: str) -> None:
    assert status("gpu.lost", f"$ kubectl logs nvidia-device-plugin-daemonset-x\n{line}\n") is FAIL
