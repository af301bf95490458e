"""Containers and pods, in all forms in which docker, podman and kubectl tell of them."""

from __future__ import annotations

import json
from random import Random

import pytest
import yaml

from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.facts.node.node import Node
from toolkit.want import Want

FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN
SMALL, ENOUGH, LARGE = (1 << 30) - 1, 1 << 30, -1


# moby api/types/container, HostConfig; podman's inspect says RLIMIT_MEMLOCK and CAP_IPC_LOCK.
def inspected(
    draw: Random, *, rdma: bool, memlock: int | None, pins: bool, asks: bool = True
) -> str:
    podman = draw.random() < 0.5
    devices = [{"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse"}]
    if rdma:
        path = draw.choice(("/dev/infiniband", "/dev/infiniband/uverbs0"))
        devices.append({"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"})
    limits = [{"Name": "RLIMIT_NOFILE" if podman else "nofile", "Hard": 9, "Soft": 9}]
    if memlock is not None:
        unlimited = 9223372036854775807 if podman else -1
        size = unlimited if memlock < 0 else memlock
        name = "RLIMIT_MEMLOCK" if podman else "memlock"
        limits.append({"Name": name, "Hard": size, "Soft": size})
    added = [f"{'CAP_' if podman else ''}IPC_LOCK"] if pins else []
    host = {
        "NetworkMode": "host",
        "Privileged": False,
        "CapAdd": added or (None if podman else added),
        "Devices": draw.sample(devices, len(devices)),
        "DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}],
        "Ulimits": draw.sample(limits, len(limits)),
        "IpcMode": draw.choice(("host", "private")),
    }
    keys = draw.sample(list(host), len(host))
    if not podman and draw.random() < 0.5:  # by CDI
        host["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]
    environment = {"Env": ["PATH=/bin", f"{'NCCL_IB_HCA' if asks else 'NCCL_DEBUG'}=mlx5"]}
    hosted = {"HostConfig": {key: host[key] for key in keys}}
    listed = [{"Id": "4f" * 32, "Name": "/train", **hosted, "Config": environment}]
    return json.dumps(listed, indent=draw.choice((2, 4))) + "\n"


def test_a_container_without_devices_or_memory_to_lock_is_told_by_inspect() -> None:
    draw = Random(61)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        rdma, pins = draw.random() < 0.7, draw.random() < 0.5
        memlock, asks = draw.choice((None, SMALL, ENOUGH, LARGE)), draw.random() < 0.5
        text = inspected(draw, rdma=rdma, memlock=memlock, pins=pins, asks=asks)
        text = draw.choice(("", "$ docker inspect train\n")) + text
        ill = (not rdma and asks) or (rdma and memlock == SMALL and not pins)
        got = CHECKS["ctr.rdma_devices"](Node(read(text)), Want()).status
        assert got is (FAIL if ill else UNKNOWN), text


RDMA = (
    "rdma/hca_shared_devices_a",
    "nvidia.com/mlnxnics",
    "openshift.io/sriov_ib",
    "rdma/roce_gdr",
)
OTHER = "example.com/fpga"


# kubernetes/kubectl pkg/describe/describe.go, describePod: tabs made into blanks.
def described(
    draw: Random, resources: dict[str, int], *, status_: str, event: str, setting: str = ""
) -> str:
    rows = [("cpu", "8"), ("memory", "64Gi"), *((k, str(v)) for k, v in resources.items())]
    listed = "".join(f"      {key}:  {value}\n" for key, value in draw.sample(rows, len(rows)))
    node = "<none>" if status_ == "Pending" else "gpu01/10.0.0.1"
    middle = draw.choice(("", "Priority:         0\n", "Service Account:  default\n"))
    return (
        f"Name:             train-0\nNamespace:        jobs\n{middle}Node:             {node}\n"
        f"Labels:           app=train\nStatus:           {status_}\nIP:               \n"
        f"Containers:\n  main:\n    Limits:\n{listed}    Requests:\n{listed}"
        f"    Environment:\n      {setting or 'A'}:  1\n"
        f"Conditions:\n  Type           Status\n  PodScheduled   False \n"
        f"Volumes:\n  shm:\n    Type:       EmptyDir (a directory)\n    Medium:     Memory\n"
        f"QoS Class:                   Burstable\nNode-Selectors:              <none>\n"
        f"Events:\n  Type     Reason            Age   From               Message\n"
        f"  ----     ------            ----  ----               -------\n{event}"
    )


def written(
    draw: Random, resources: dict[str, int], *, status_: str, event: str, setting: str = ""
) -> str:
    counts = {key: str(count) for key, count in resources.items()}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "jobs"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": setting or "A", "value": "1"}],
                    "resources": {"limits": counts, "requests": dict(counts)},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                }
            ]
        },
        "status": {"conditions": [{"message": event.strip()}], "phase": status_},
    }
    if draw.random() < 0.3:
        return json.dumps(pod, indent=4) + "\n"
    return yaml.safe_dump(pod, width=10_000)


def test_a_pod_that_asks_for_rdma_and_gets_none_is_told_in_each_form() -> None:
    draw = Random(62)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        kind = draw.choice((None, OTHER, *RDMA))
        resources = {"nvidia.com/gpu": 8} | ({kind: 1} if kind else {})
        runs = draw.random() < 0.5
        lacking = draw.choice(("nvidia.com/gpu", kind or "cpu", "cpu", "memory"))
        event = (
            "  Warning  FailedScheduling  10s  default-scheduler  0/3 nodes are available: "
            f"1 node(s) had untolerated taint, 2 Insufficient {lacking}. preemption: 0/3 nodes.\n"
        )
        form = draw.choice((described, written))
        setting = draw.choice(("", "NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX"))
        state = "Running" if runs else "Pending"
        text = form(draw, resources, status_=state, event=event, setting=setting)
        asks = kind is None and setting == "NCCL_IB_GID_INDEX"
        short = not runs and "/" in lacking and lacking != OTHER
        got = CHECKS["ctr.rdma_devices"](Node(read(text)), Want())
        assert got.status is (FAIL if short or asks else UNKNOWN), text


# kubernetes pkg/kubelet/cm/devicemanager/manager.go, devicesToAllocate; pkg/kubelet/events;
# containerd's words for a device that is gone.
@pytest.mark.parametrize(
    "event",
    [
        "UnexpectedAdmissionError  5s  kubelet  Allocate failed due to requested number of devices"
        " unavailable for rdma/hca_shared_devices_a. Requested: 1, Available: 0, which is",
        "UnexpectedAdmissionError  5s  kubelet  Allocate failed due to no healthy devices present; "
        "cannot allocate unhealthy devices rdma/hca_shared_devices_a, which is unexpected",
        "UnexpectedAdmissionError  5s  kubelet  Allocate failed due to cannot allocate unregistered"
        " device rdma/hca_shared_devices_a, which is unexpected",
        'FailedMount  5s (x9 over 2m)  kubelet  MountVolume.SetUp failed for volume "ib" : '
        "hostPath type check failed: /dev/infiniband is not a directory",
        "FailedCreatePodSandBox  5s  kubelet  Failed to create pod sandbox: rpc error: code = "
        "Unknown desc = failed to setup network for sandbox: error adding container to network "
        '"sriov-net": failed to find the pod\'s VF',
        "FailedPrepareDynamicResources  5s  kubelet  Failed to prepare dynamic resources: "
        "NodePrepareResources failed for ResourceClaim imex-channel: rpc error: code = x",
        "Failed  5s  kubelet  Error: failed to generate container spec: lstat "
        "/dev/infiniband/uverbs0: no such file or directory",
    ],
)
def test_what_kubelet_could_not_give_is_told(event: str) -> None:
    draw = Random(1)  # noqa: S311 # drawn again the same
    text = described(draw, POD, status_="Pending", event=f"  Warning  {event}\n")
    assert status("ctr.rdma_devices", text) is FAIL
    draw = Random(1)  # noqa: S311 # drawn again the same
    runs = described(draw, POD, status_="Running", event=f"  Warning  {event}\n")
    assert status("ctr.rdma_devices", runs) is UNKNOWN


REFUSED = (
    "  Warning  UnexpectedAdmissionError  5s  kubelet  Allocate failed due to requested number of "
    "devices unavailable for rdma/hca_shared_devices_a. Requested: 1, Available: 0, which is\n"
)
POD = {"nvidia.com/gpu": 8, "rdma/hca_shared_devices_a": 1}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            described(Random(1), POD, status_="Failed", event=REFUSED),  # noqa: S311 # drawn again the same
            FAIL,
            id="the-device-plugin-has-none-left",
        ),
        pytest.param(
            described(Random(1), {"nvidia.com/gpu": 8}, status_="Running", event="").partition(  # noqa: S311 # drawn again the same
                "Conditions:"
            )[0],
            UNKNOWN,
            id="cut-before-all-is-told",
        ),
        pytest.param(
            described(
                Random(1),  # noqa: S311 # drawn again the same
                {"nvidia.com/gpu": 8},
                status_="Running",
                event="",
            ).replace(
                "Type:       EmptyDir", "Type:  HostPath\n    Path:  /dev/infiniband\n    X:"
            ),
            UNKNOWN,
            id="the-folder-of-devices-as-a-volume",
        ),
        pytest.param("$ kubectl describe pods\nNo resources found\n", UNKNOWN, id="no-pod"),
    ],
)
def test_pods_as_people_paste_them(text: str, want: Status) -> None:
    assert status("ctr.rdma_devices", text) is want


@pytest.mark.parametrize(
    ("host", "want"),
    [
        pytest.param({"Privileged": True}, UNKNOWN, id="privileged"),
        pytest.param({"Runtime": "nvidia"}, FAIL, id="by-the-runtime"),
        pytest.param({}, UNKNOWN, id="without-gpus"),
        pytest.param(
            {"Runtime": "nvidia", "Binds": ["/dev/infiniband:/dev/infiniband"]},
            UNKNOWN,
            id="its-folder-of-devices-mounted-alone",
        ),
        pytest.param(
            {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]},
            FAIL,
            id="gpus-by-cdi",
        ),
    ],
)
def test_containers_as_people_paste_them(host: dict[str, object], want: Status) -> None:
    env = ["NVIDIA_VISIBLE_DEVICES=all", "NCCL_IB_HCA=mlx5"]
    one = {"Name": "/x", "HostConfig": host, "Config": {"Env": env}}
    text = json.dumps([one], indent=4)
    assert status("ctr.rdma_devices", f"{text}\n") is want
    cut = f"$ docker inspect x\n{text[:-20]}\n"
    assert status("ctr.rdma_devices", cut) is UNKNOWN


SHORT = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
EVENT = "{}m  {}  {}  pod/{}  {}\n"


@pytest.mark.parametrize(
    ("events", "ill"),
    [
        pytest.param("", "train-0: no node has enough", id="one-waits"),
        pytest.param(EVENT.format(1, "Normal", "Scheduled", "train-0", "x"), "", id="it-waited"),
        pytest.param(EVENT.format(1, "Normal", "Started", "train-0", "x"), "", id="it-runs"),
        pytest.param(
            EVENT.format(1, "Normal", "Started", "web-1", "x"),
            "train-0: no node has enough",
            id="another-runs",
        ),
    ],
)
def test_of_events_each_pods_own_count_and_what_it_waited_for_is_past(
    events: str, ill: str
) -> None:
    text = EVENT.format(4, "Normal", "Scheduled", "web-1", "x")
    text += EVENT.format(3, "Warning", "FailedScheduling", "train-0", SHORT) + events
    finding = CHECKS["ctr.rdma_devices"](Node(read(text)), Want()).finding
    assert (finding.status is FAIL, finding.found.startswith(ill)) == (bool(ill), True)


@pytest.mark.parametrize("end", ["", "Successfully uninstalled NVIDIA driver components\n"])
def test_a_driver_that_goes_once_the_node_is_drained_is_no_fault(end: str) -> None:
    """NVIDIA/k8s-driver-manager: "Unable to cleanup driver modules, attempting again ..."."""
    text = "Unloading NVIDIA driver kernel modules...\nCould not unload NVIDIA driver kernel "
    text += f"modules, driver is in use\nUnable to cleanup driver modules, attempting again\n{end}"
    assert status("ctr.rdma_devices", text) is (UNKNOWN if end else FAIL)
