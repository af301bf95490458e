"""What one container or pod was given: ``docker inspect``, ``kubectl describe pod``, pods as YAML.

Sources, as read: kubernetes/kubectl pkg/describe/describe.go (of 2026), describePod, which prints
no security context; kubernetes pkg/kubelet/cm/devicemanager/manager.go, devicesToAllocate;
moby/moby api/types/container hostconfig.go (of 2026) and daemon/cdi.go; containers/podman
libpod/define/container_inspect.go, container_inspect.go and container_inspect_linux.go: its
Ulimits say "RLIMIT_MEMLOCK", its capabilities begin with "CAP_" as those of newer docker do, its
runtime is always "oci", and of a privileged container it lists neither devices nor capabilities;
resources by the names that Mellanox/k8s-rdma-shared-dev-plugin and sriov-network-device-plugin
give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.kube import RDMA_NAME
from toolkit.untrusted import read_json

_RESOURCE = re.compile(
    r"^[\s\"'-]*([a-z0-9.-]+/[\w.-]+)[\"']?:\s+[\"']?(\d+)[\"']?,?\s*$", re.MULTILINE
)
_SHORT = re.compile(r"Insufficient ([\w.-]+/[\w.-]*\w)")
# What kubelet's device manager, drivers of resource claims and CNI plugins could not give.
_REFUSED = re.compile(
    r"^.*\b(?:UnexpectedAdmissionError|FailedCreatePodSandBox|FailedMount|FailedAttachVolume"
    r"|FailedPrepareDynamicResources|Allocate failed"
    r"|Error: failed to (?:create|start|generate))\b.*"
    r"(?:rdma|sriov|mlnx|hca|roce|infiniband|nvidia\.com/|\.nvidia\.com|imex|dra\.net).*$",
    re.MULTILINE | re.IGNORECASE,
)
_EVENT = re.compile(r"^(?:.*[ \t])?Warning[ \t]+[A-Z]\w+[ \t]", re.MULTILINE)
_WELL = re.compile(r"(?:.*[ \t])?Normal[ \t]+(Scheduled|Started)[ \t]")
_OF_POD = re.compile(r"\bpod/([\w.-]+)")
_DESCRIBED = re.compile(r"^(?=Name: +\S+ *\nNamespace: )", re.MULTILINE)
_RUNS = re.compile(r"^\s*\"?(?:Status|phase)\"?: +\"?(?:Running|Succeeded)\b", re.MULTILINE)
_GPU = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?$|mig-)")
_PINS = frozenset({"IPC_LOCK", "ALL"})
_UNLIMITED = 1 << 62  # bytes; docker writes -1, podman the largest number that it has
_HEAD = re.compile(r"^Name: +(\S+) *$", re.MULTILINE)
# Settings by which somebody asks for RDMA; that it is off asks for none. Images set no such ones.
_WANTS = re.compile(
    r"\b(?:NCCL_IB_(?!DISABLE)[A-Z_]+|NCCL_NET_GDR_(?:LEVEL|READ)\b|NVSHMEM_(?:HCA|IB)_\w+"
    r"|UCX_NET_DEVICES\W+(?:value\W+)?(?:mlx|roce|ib)|NVIDIA_MOFED\W+(?:value\W+)?enabled\b)"
)
_IB_OFF = re.compile(r"\bNCCL_IB_DISABLE\W+(?:value\W+)?1\b")
_YAML_NAME = re.compile(r"^metadata:\n(?:  .*\n)*?  name: (\S+)$", re.MULTILINE)


class Asked(Struct, frozen=True):
    """One container or pod; None for what its text does not tell."""

    name: str
    gpus: bool | None = None  # it was given some
    rdma: bool | None = None  # it was given devices of RDMA, or may open all
    memlock: int | None = None  # bytes; -1 for unlimited
    pins: bool | None = None  # it may lock memory whatever the limit (CAP_IPC_LOCK)
    trouble: str = ""  # why it did not get what it asked for
    wants: str = ""  # the setting by which it asks for RDMA; "" where nothing does


def parse_inspect(text: str) -> tuple[Asked, ...]:
    """Read ``docker inspect`` or ``podman inspect``.

    :raises Unparsable: where it is no whole JSON list.
    """
    try:
        listed = read_json(text[text.index("[") :])
        return tuple(_inspected(each) for each in listed if "HostConfig" in each)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as why:
        raise Unparsable("inspect", f"{why}: it may be cut") from why


def _inspected(each: dict[str, Any]) -> Asked:
    host = each["HostConfig"]
    privileged = host.get("Privileged") is True
    devices = [str(one.get("PathOnHost", "")) for one in host.get("Devices") or ()]
    said = (str(one).partition("=") for one in (each.get("Config") or {}).get("Env") or ())
    env = {name: value for name, _, value in said}
    seen = env.get("NVIDIA_VISIBLE_DEVICES", "")
    runtime = host.get("Runtime") == "nvidia" and seen not in {"", "void", "none"}
    requests = host.get("DeviceRequests") or ()
    by_cdi = [str(name) for one in requests for name in one.get("DeviceIDs") or ()]
    asked = any("gpu" in str(one.get("Capabilities")) for one in requests)
    asked = asked or any(name.startswith("nvidia.com/gpu=") for name in by_cdi)
    gpus = asked or runtime or any(re.search(r"/dev/nvidia|nvidia\.com/gpu", e) for e in devices)
    mofed = env.get("NVIDIA_MOFED") == "enabled" and (runtime or asked)
    has = (*(host.get("CapAdd") or ()), *(each.get("EffectiveCaps") or ()))
    caps = {str(one).upper().removeprefix("CAP_") for one in has}
    limits = {str(e["Name"]).lower().removeprefix("rlimit_"): e for e in host.get("Ulimits") or ()}
    soft = limits["memlock"].get("Soft") if "memlock" in limits else None
    return Asked(
        str(each.get("Name", "")).removeprefix("/") or str(each.get("Id", ""))[:12],
        gpus or privileged,
        privileged or mofed or _rdma_nodes(host, devices, by_cdi),
        -1 if soft is not None and not 0 <= soft < _UNLIMITED else soft,
        privileged or not caps.isdisjoint(_PINS),
        wants=_wants("\n".join(f"{name}={value}" for name, value in env.items())),
    )


def _rdma_nodes(host: dict[str, Any], devices: list[str], by_cdi: list[str]) -> bool | None:
    """A folder that is only mounted shows the nodes; whether they open, a rule of cgroups says."""
    if any(path.startswith("/dev/infiniband") for path in devices):
        return True
    if any(map(RDMA_NAME.search, (name.partition("=")[0] for name in by_cdi))):
        return True
    mounts = (str(one.get("Source", "")) for one in host.get("Mounts") or ())
    sources = {*(str(one).partition(":")[0] for one in host.get("Binds") or ()), *mounts}
    shown = any(re.fullmatch(r"/dev(?:/infiniband\S*)?/?", path) for path in sources)
    return None if shown or host.get("DeviceCgroupRules") else False


def _wants(text: str) -> str:
    """The first setting that asks for RDMA, of what a container or a pod was given."""
    found = None if _IB_OFF.search(text) else _WANTS.search(text)
    return re.split(r"\W", found[0])[0] if found else ""


def parse_pods(text: str) -> tuple[Asked, ...]:
    """Read ``kubectl describe pod``, one pod as YAML or JSON, or what stands of its events.

    :raises Unparsable: where it is no pod.
    """
    blocks = [each for each in _DESCRIBED.split(text) if _DESCRIBED.match(each)]
    if not blocks and _EVENT.search(text):
        return tuple(_by_events(text))
    return tuple(map(_described, blocks)) or (_written(text),)


def _by_events(text: str) -> Iterator[Asked]:
    """Each pod by its own events: until it has a node, and its containers run, some fail by turns.

    Below a pod's description no line names it.
    """
    pods: dict[str, list[str]] = {}
    name = "the pod"
    for line in text.split("\n"):
        found = _OF_POD.search(line)
        name = found[1] if found else name
        pods.setdefault(name, []).append(line)
    for name, lines in pods.items():
        if not any(map(_EVENT.match, lines)):
            continue
        went = {each[1] for each in map(_WELL.match, lines) if each}
        past = "FailedScheduling" if "Scheduled" in went else "\n"
        left = "\n".join(each for each in lines if past not in each)
        yield Asked(name, trouble="" if "Started" in went else _trouble(left, {}))


def _described(text: str) -> Asked:
    resources = _resources(text)
    name = _HEAD.search(text)
    given = bool(re.search(r"^\s+Path:\s+/dev(?:/infiniband)?\s*$", text, re.MULTILINE))
    whole = "\nQoS Class:" in text  # behind all containers and volumes
    return Asked(
        name[1] if name else "a pod",
        _gpus(resources, whole=whole),
        given or _rdma(resources, whole=whole),
        trouble=_trouble(text, resources),
        wants=_wants(text),
    )


def _written(text: str) -> Asked:
    """Of YAML or JSON, by lines: a cut text has no status, which comes last."""
    if not re.search(r"^\s*\"?kind\"?: \"?Pod\b", text, re.MULTILINE):
        raise Unparsable("kubectl", text.strip().split("\n")[0])
    resources = _resources(text)
    plain = re.sub(r"[\"',]", "", text)
    privileged = bool(re.search(r"^\s*privileged: true\s*$", plain, re.MULTILINE))
    name = _YAML_NAME.search(text) or re.search(r'"name": "([^"]+)"', text)
    whole = bool(re.search(r"^\s*status:|^\s*qosClass: ", plain, re.MULTILINE))
    given = bool(re.search(r"^\s*path: /dev(?:/infiniband)?\s*$", plain, re.MULTILINE))
    added = re.search(r"\badd:([\s\[\]\-A-Z_]*)", plain)
    pins = added is not None and not _PINS.isdisjoint(re.findall(r"[A-Z_]+", added[1]))
    return Asked(
        name[1] if name else "",
        _gpus(resources, whole=whole),
        given or privileged or _rdma(resources, whole=whole),
        pins=True if privileged or pins else False if whole else None,
        trouble=_trouble(text, resources),
        wants=_wants(text),
    )


def _resources(text: str) -> dict[str, int]:
    found = {name: int(count) for name, count in _RESOURCE.findall(text)}
    return {name: count for name, count in found.items() if "kubernetes.io/" not in name}


def _gpus(resources: dict[str, int], *, whole: bool) -> bool | None:
    if any(count for name, count in resources.items() if _GPU.match(name)):
        return True
    return False if whole else None


def _rdma(resources: dict[str, int], *, whole: bool) -> bool | None:
    """Administrators name such resources as they like: another one may be of RDMA."""
    others = [name for name, count in resources.items() if count and not _GPU.match(name)]
    if any(map(RDMA_NAME.search, others)):
        return True
    return False if whole and not others else None


def _trouble(text: str, resources: dict[str, int]) -> str:
    """Why it does not run; what was so before it ran is past."""
    if _RUNS.search(text):
        return ""
    short = dict.fromkeys(_SHORT.findall(text))
    ours = [each for each in short if each.startswith("nvidia.com/") or RDMA_NAME.search(each)]
    if ours:
        asked = ", ".join(f"{resources[e]} of {e}" if e in resources else e for e in ours)
        return f"no node has enough of what it asks for: {asked}"
    refused = _REFUSED.search(text)
    return " ".join(refused[0].split())[:160] if refused else ""
