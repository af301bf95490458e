"""What a cluster says of itself: its nodes, and whose DaemonSets bring drivers to them.

Sources: kubectl get nodes,daemonsets -A -o json. NVIDIA/gpu-operator assets/state-driver: the
driver's DaemonSet has the label app=nvidia-driver-daemonset, or the component nvidia-driver where
it is made from an NVIDIADriver; it goes to nodes with nvidia.com/gpu.deploy.driver=true, which is
"pre-installed" where the node's own driver was found. Mellanox/network-operator manifests/
state-ofed-driver: its pods have the label nvidia.com/ofed-driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from toolkit.errors import Unparsable
from toolkit.untrusted import read_json

_OFED = "nvidia.com/ofed-driver"
_SOURCE = "kubectl get nodes,daemonsets -A -o json"


@dataclass(frozen=True, slots=True)
class Bringer:
    """A DaemonSet of an operator's, which brings a driver to nodes."""

    name: str  # "gpu-operator/nvidia-driver-daemonset"
    selector: Mapping[str, str]  # labels that its nodes have

    def reaches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node of these labels is one of its own. Affinity is not looked at: what it
        would leave out counts as reached, for we do not touch what may be another's."""
        return self.selector.items() <= labels.items()


@dataclass(frozen=True, slots=True)
class Cluster:
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
            if _brings_driver(words):
                drivers.append(bringer)
            elif _OFED in words:
                ofeds.append(bringer)
    if not labels:
        raise Unparsable(_SOURCE, "no node is in it")
    return Cluster(labels, tuple(drivers), tuple(ofeds))


def _brings_driver(labels: Mapping[str, str]) -> bool:
    return "nvidia-driver-daemonset" in labels.get("app", "") or (
        labels.get("app.kubernetes.io/component") == "nvidia-driver"
    )


def _bringer(item: Mapping[str, object], name: str) -> tuple[Bringer, dict[str, str]]:
    """The DaemonSet, and its labels with those of its pods."""
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
