"""Kubernetes: nodes and pods as kubectl prints them, and the logs of device plugins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.untrusted import read_json

# What ``kubectl describe node`` tells of its GPUs, and of what else it has to give.
# Sources: kubernetes/kubectl pkg/describe/describe.go, describeNode; NVIDIA/gpu-feature-discovery,
# the label nvidia.com/gpu.count; kubelet's device manager, GetCapacity: a device that its plugin
# calls unhealthy stays in Capacity and leaves Allocatable.
# Administrators name resources of RDMA as they like; these words stand in most of the names.
RDMA_NAME = re.compile(r"rdma|hca|roce|mlnx|sriov|ib_?dev|infiniband|efa\b|nic\b", re.IGNORECASE)
_COUNT = re.compile(r"\bnvidia\.com/gpu\.count=(\d+)\b")
_GPUS = re.compile(r"^\s+nvidia\.com/gpu:\s+(\d+)\s*$", re.MULTILINE)
_NODES = re.compile(r"^(?=Name: +\S+[ \t]*\nRoles: )", re.MULTILINE)
_RESOURCE = re.compile(r"^\s+([a-z0-9.-]+/[\w.-]+):\s+(\d+k?)\s*$", re.MULTILINE)
_SHARED = re.compile(r"^\s+nvidia\.com/(?:mig-|gpu\.shared)", re.MULTILINE)


class KubeGpus(Struct, frozen=True):
    """How many GPUs a node has and offers."""

    name: str  # the node's
    capacity: int
    allocatable: int
    found: int = 0  # by GPU feature discovery; 0 where it is not told, or GPUs are shared out

    @property
    def gone(self) -> str:
        """What shows that a GPU is no longer offered; "" where nothing does."""
        if self.allocatable < self.capacity:
            return f"{self.allocatable} of {self.capacity} GPUs allocatable"
        if 0 < self.capacity < self.found:
            return f"{self.capacity} GPUs, and the label nvidia.com/gpu.count says {self.found}"
        return ""


def parse_kube_node(text: str) -> KubeGpus | None:
    """The GPUs of the node; None where it offers none. Of several the first that lacks one.

    :raises Unparsable: where a list of its resources is not whole.
    """
    found = [gpus for each in _NODES.split(text) if each.strip() and (gpus := _of_one(each))]
    return next((each for each in found if each.gone), found[0] if found else None)


def _lists(text: str) -> tuple[str, dict[str, str]]:
    """The node's name, and its lists of resources.

    :raises Unparsable: where they are not whole.
    """
    name = re.search(r"^\s*Name:\s+(\S+)", text, re.MULTILINE)
    parts = re.split(r"^\s*(Capacity|Allocatable|System Info):[ \t]*$", text, flags=re.MULTILINE)
    lists = dict(zip(parts[1::2], parts[2::2], strict=True))
    if text.strip() and "Allocatable" not in lists:
        raise Unparsable("kubectl describe node", name[0].strip() if name else "no Allocatable")
    return name[1] if name else "", lists


def _of_one(text: str) -> KubeGpus | None:
    name, lists = _lists(text)
    counts = [_GPUS.search(lists.get(each, "")) for each in ("Capacity", "Allocatable")]
    told = [int(each[1]) for each in counts if each]
    if len(told) == 1:
        raise Unparsable("kubectl describe node", f"GPUs of {name or 'a node'}")
    if not told:
        return None
    label = _COUNT.search(text)
    found = int(label[1]) if label and not _SHARED.search(text) else 0
    return KubeGpus(name, told[0], told[1], found)


class Offered(Struct, frozen=True):
    """One resource of RDMA that a node has."""

    node: str
    resource: str  # "rdma/hca_shared_devices_a"
    capacity: int
    allocatable: int


def parse_offered(text: str) -> tuple[Offered, ...]:
    """The resources of RDMA of each node in ``kubectl describe node``, by their usual names.

    :raises Unparsable: where a list of resources is not whole.
    """
    found = []
    for each in _NODES.split(text):
        name, lists = _lists(each)
        can = dict(_RESOURCE.findall(lists.get("Allocatable", "")))
        for resource, count in _RESOURCE.findall(lists.get("Capacity", "")):
            if not RDMA_NAME.search(resource) or resource.startswith("nvidia.com/gpu"):
                continue
            if resource not in can:
                raise Unparsable("kubectl describe node", f"{resource} is not allocatable: cut?")
            found.append(Offered(name, resource, _size(count), _size(can[resource])))
    return tuple(found)


def _size(count: str) -> int:
    """Of a quantity: 1000 is printed as "1k"."""
    return int(count.removesuffix("k")) * (1000 if count.endswith("k") else 1)


# What gives containers their devices, each below what it waits for. Names: gpu-operator assets/,
# network-operator manifests/, and the daemon sets that the device plugins' own projects have.
CHAIN = (
    ("the pod of the DOCA driver", re.compile(r"mofed-|doca-driver-")),
    ("the pod of the GPU driver", re.compile(r"nvidia-(?:gpu-)?driver-|nvidia-vgpu-manager-")),
    ("the pod of the container toolkit", re.compile(r"nvidia-container-toolkit-")),
    ("the validator's pod", re.compile(r"nvidia-(?:operator|cuda)-validator-")),
    (
        "a device plugin's pod",
        re.compile(
            r"(?:\S*-)?(?:nvidia|nvdp|rdma|efa|sriov)-(?:\S*-)?dev(?:ice)?-plugin-"
            r"|rdma-shared-dp-|\S*sriov-?dp-"
        ),
    ),
    ("a pod of the operators", re.compile(r"(?:nvidia-)?(?:gpu|network)-operator-|sriov-network-")),
)
_POD = re.compile(
    r"^(?:\S+ +)?(?:pod/)?([a-z0-9][a-z0-9.-]+) +(\d+)/(\d+) +([A-Z]\S+) +(\d+)(?: \([^)\n]*\))? +"
    r"((?:\d+[smhdy])+)(?: +\S+ +(\S+))?",
    re.MULTILINE,
)
_WAITS = re.compile(
    r"Pending|ContainerCreating|PodInitializing|Init:\d+/\d+|SchedulingGated|Terminating|NotReady"
)
_LONG = re.compile(r"[hdy]|^[3-9]\d{1,2}m|^\d{3,}m")  # half an hour: a driver is built in less

# What was put off a node, or never let on it, and is kept beside what has taken its place.
_PUT_OFF = frozenset(
    {"Evicted", "Terminating", "Error", "ContainerStatusUnknown", "UnexpectedAdmissionError"}
)
# apimachinery util/rand, SafeEncodeString: what a deployment hashes has these characters alone.
_DEPLOYED = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[a-z0-9]{5}")


class Pod(Struct, frozen=True):
    """One line of ``kubectl get pods``."""

    name: str
    ready: int
    containers: int
    status: str  # "CrashLoopBackOff", "Init:0/1"
    restarts: int
    age: str  # "3d4h"
    node: str = ""  # with -o wide

    @property
    def rank(self) -> int:
        """Its place in CHAIN; beyond its end for a pod of another sort."""
        return next((at for at, (_, names) in enumerate(CHAIN) if names.match(self.name)), 99)

    @property
    def owner(self) -> str:
        """What makes pods of that name: a daemon set, or a deployment."""
        deployed = _DEPLOYED.fullmatch(self.name)
        return deployed[1] if deployed else self.name.rpartition("-")[0]

    def may_replace(self, other: Pod) -> bool:
        """Whether it does what the other one did: of one owner, and, but of a deployment, there."""
        if not self.well or self.owner != other.owner:
            return False
        nodes = {self.node, other.node} - {"", "<none>"}
        return len(nodes) < 2 or _DEPLOYED.fullmatch(self.name) is not None

    @property
    def well(self) -> bool:
        return self.status in {"Completed", "Succeeded"} or (
            self.status == "Running" and self.ready == self.containers
        )

    @property
    def waits(self) -> bool:
        """Not up, and not for so long that it never will be."""
        starts = self.status == "Running" or _WAITS.fullmatch(self.status) is not None
        return not self.well and starts and not _LONG.search(self.age)

    @property
    def ill(self) -> bool:
        return not self.well and not self.waits

    @property
    def words(self) -> str:
        at = f" on {self.node}" if self.node and self.node != "<none>" else ""
        again = f", restarted {self.restarts} times" if self.restarts else ""
        told = f"{self.status}, {self.ready} of {self.containers} ready"
        return f"{self.name}{at}: {told}{again}, for {self.age}"


def parse_pod_list(text: str) -> tuple[Pod, ...]:
    """Read ``kubectl get pods``, with -A and -o wide too.

    Source: kubernetes pkg/printers/internalversion/printers.go, printPod and its columns; since
    1.22 the last restart stands behind their number.

    :raises Unparsable: where no line is of a pod.
    """
    rows = [each.groups() for each in _POD.finditer(text)]
    if not rows:
        raise Unparsable("kubectl get pods", text.strip().split("\n")[0])
    return tuple(
        Pod(name, int(ready), int(all_), status, int(restarts), age, node or "")
        for name, ready, all_, status, restarts, age, node in rows
    )


def without_replaced(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """All but what was put off and has another, that is well, in its place."""
    return tuple(
        each
        for each in pods
        if each.status not in _PUT_OFF or not any(other.may_replace(each) for other in pods)
    )


_PLUGIN = re.compile(
    r"Updating \"(?P<named>[^\"]+)\" devices|exposing \"(?P<count>\d+)\" devices"
    r"|no devices in device pool, \w+ creating resource server for (?P<skipped>[\w.-]+)"
    r"|no devices in device pool, creating empty resource server for (?P<empty>[\w.-]+)"
    r"|no Rdma Devices were found for resource (?P<none>[\w.-]+)"
    r"|New resource server is created for (?P<made>[\w.-]+) ResourcePool"
    r"|Registered device plugin for '(?P<registered>[^']+)'"
    r"|device: \S+,(?P<efa>uverbs\d+),|(?P<no_efa>No valid EFA devices found)"
    r"|(?P<rdma>\] No devices found\.$)|(?P<served>Registered device plugin with Kubelet)"
    r"|(?P<no_rdma>RDMA resources for \S+ not found)"
    r"|(?P<bare>No devices found\. Waiting indefinitely|Failed to initialize NVML: "
    r"|If this is a GPU node, did you )"
    r"|error creating new device: \"(?P<left_out>(?:[^\"\\\n]|\\.)+)\""
    r"|' device marked unhealthy: (?P<ill>[\w-]+)|Xid=(?P<xid>\d+) on Device=(?P<device>[\w-]+)",
    re.MULTILINE,
)


class PluginLog(Struct, frozen=True):
    """What the log of a device plugin says last of its resources."""

    empty: tuple[str, ...] = ()  # resources of which it offers nothing
    offered: tuple[str, ...] = ()  # those of which it offers something
    ill: tuple[str, ...] = ()  # GPUs that it has called unhealthy, with their Xid where it is told
    left_out: tuple[str, ...] = ()  # why it left devices out that match its configuration


def parse_plugin_log(text: str) -> PluginLog:
    """Read a log of the plugins of shared RDMA devices, of SR-IOV or of GPUs.

    Sources, as read: Mellanox/k8s-rdma-shared-dev-plugin pkg/resources/server.go and
    resources_manager.go; k8snetworkplumbingwg/sriov-network-device-plugin cmd/sriovdp/manager.go;
    NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin/main.go, internal/plugin/server.go and
    internal/rm/health.go.
    """
    offers: dict[str, bool] = {}
    ill: dict[str, str] = {}
    left_out: list[str] = []
    named = ""
    for found in _PLUGIN.finditer(text):
        has = found.groupdict()
        none = has["skipped"] or has["empty"] or has["none"] or ("GPUs" if has["bare"] else "")
        if has["named"]:
            named = has["named"]
        elif has["count"] is not None:
            offers[_short(named)] = int(has["count"]) > 0
        elif none:
            offers[_short(none)] = False
        elif some := has["made"] or has["registered"]:
            offers[_short(some)] = True
        elif has["served"]:  # plugins of any maker say so
            offers.update({"EFA": True} if "EFA" in offers else {})
        elif has["efa"] or has["no_efa"]:
            offers["EFA"] = not has["no_efa"]
        elif has["rdma"]:
            offers[_short("")] = False
        elif why := has["left_out"] or has["no_rdma"]:
            left_out.append(why.replace('\\"', ""))
        else:
            ill.setdefault(has["ill"] or has["device"], has["xid"] or "")
    told = tuple(f"{gpu}, Xid {xid}" if xid else gpu for gpu, xid in ill.items())
    return PluginLog(
        tuple(name for name, some in offers.items() if not some),
        tuple(name for name, some in offers.items() if some),
        told,
        tuple(dict.fromkeys(left_out)),
    )


def _short(resource: str) -> str:
    """Without its prefix, which the plugins leave out in half of their lines."""
    name = resource.rpartition("/")[2]
    return "GPUs" if name == "gpu" else name or "a resource"


# What a cluster says of itself: its nodes, and whose DaemonSets bring drivers to them.
# Sources: kubectl get nodes,daemonsets -A -o json. NVIDIA/gpu-operator assets/state-driver: the
# driver's DaemonSet has the label app=nvidia-driver-daemonset, or the component nvidia-driver where
# it is made from an NVIDIADriver; it goes to nodes with nvidia.com/gpu.deploy.driver=true, which is
# "pre-installed" where the node's own driver was found. Mellanox/network-operator manifests/
# state-ofed-driver: its pods have the label nvidia.com/ofed-driver.
_OFED = "nvidia.com/ofed-driver"
_SOURCE = "kubectl get nodes,daemonsets -A -o json"


class Bringer(Struct, frozen=True):
    """A DaemonSet of an operator's, which brings a driver to nodes."""

    name: str  # "gpu-operator/nvidia-driver-daemonset"
    selector: Mapping[str, str]  # labels that its nodes have

    def reaches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node of these labels is one of its own. Affinity is not looked at: what it
        would leave out counts as reached, for we do not touch what may be another's."""
        return self.selector.items() <= labels.items()


class Cluster(Struct, frozen=True):
    """As far as it concerns who owns which driver."""

    labels: Mapping[str, Mapping[str, str]]  # of each node, by its name
    drivers: tuple[Bringer, ...] = ()
    ofeds: tuple[Bringer, ...] = ()

    def driver_of(self, node: str) -> str:
        """The DaemonSet that brings the node's GPU driver; "" for none."""
        return self._first(self.drivers, node)

    def ofed_of(self, node: str) -> str:
        """The DaemonSet that brings the node's OFED; "" for none."""
        return self._first(self.ofeds, node)

    def _first(self, bringers: Iterable[Bringer], node: str) -> str:
        labels = self.labels.get(node, {})
        return next((each.name for each in bringers if each.reaches(labels)), "")


def parse_cluster(text: str) -> Cluster:
    """Read the list that kubectl prints.

    :raises Unparsable: where it is none, or holds no node.
    """
    labels: dict[str, dict[str, str]] = {}
    drivers: list[Bringer] = []
    ofeds: list[Bringer] = []
    for item in _items(text):
        meta = _table(item.get("metadata"))
        name = str(meta.get("name", ""))
        if item.get("kind") == "Node":
            labels[name] = _words(meta.get("labels"))
        elif item.get("kind") == "DaemonSet":
            bringer, words = _bringer(item, f"{meta.get('namespace', '')}/{name}")
            component = words.get("app.kubernetes.io/component")
            if "nvidia-driver-daemonset" in words.get("app", "") or component == "nvidia-driver":
                drivers.append(bringer)
            elif _OFED in words:
                ofeds.append(bringer)
    if not labels:
        raise Unparsable(_SOURCE, "no node is in it")
    return Cluster(labels, tuple(drivers), tuple(ofeds))


def _bringer(item: Mapping[str, object], name: str) -> tuple[Bringer, dict[str, str]]:
    template = _table(_table(item.get("spec")).get("template"))
    own = _words(_table(item.get("metadata")).get("labels"))
    pods = _words(_table(template.get("metadata")).get("labels"))
    selector = _words(_table(template.get("spec")).get("nodeSelector"))
    return Bringer(name, selector), own | pods


def _items(text: str) -> Iterator[Mapping[str, object]]:
    try:
        document = read_json(text)
    except ValueError as why:
        raise Unparsable(_SOURCE, str(why)) from why
    items = _table(document).get("items")
    if not isinstance(items, list):
        raise Unparsable(_SOURCE, text[:80])
    for each in items:
        yield _table(each)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _words(value: object) -> dict[str, str]:
    return {str(key): str(word) for key, word in _table(value).items()}
