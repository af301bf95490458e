"""A cluster of a few nodes that answers as kubectl would, as far as a rollout asks it."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from msgspec import field

from toolkit.errors import TransportError
from toolkit.features.kubernetes.io import Kubectl

_CONFLICT = "the object has been modified; please apply your changes to the latest version"
_PROTECTED = "Cannot evict pod as it would violate the pod's disruption budget."


@dataclass
class KubeNode:
    name: str
    cordoned: bool = False
    ready: bool = True
    marks: dict[str, str] = dataclasses.field(default_factory=dict)  # annotations
    pods: list[str] = dataclasses.field(default_factory=lambda: ["web"])
    version: int = 7
    protected: bool = False  # a PodDisruptionBudget keeps its pods
    scratch: bool = False  # they have an emptyDir

    def shown(self) -> dict[str, Any]:
        """Any: Kubernetes' objects have no common type."""
        meta = {
            "name": self.name, "annotations": self.marks, "resourceVersion": str(self.version),
        }  # fmt: skip
        told = {"type": "Ready", "status": "True" if self.ready else "Unknown"}
        return {
            "metadata": meta,
            "spec": {"unschedulable": True} if self.cordoned else {},
            "status": {"conditions": [{"type": "DiskPressure", "status": "False"}, told]},
        }


@dataclass
class KubeWorld:
    """The cluster; ``wrong`` is what must never happen."""

    nodes: dict[str, KubeNode]
    said: dict[str, str]  # what the pod on a node says after its first line
    jobs: dict[str, Any] = dataclasses.field(default_factory=dict)  # as they were applied
    wrong: list[str] = dataclasses.field(default_factory=list)
    most: int = 0  # so many nodes were cordoned at once
    meddled: str = ""  # a node that somebody else cordons before our next request about it
    away: int = 0  # so many answers about Jobs fail
    flutters: bool = False  # a node's kubelet reports something before our next request

    def kubectl(self) -> Kubectl:
        return _Answers("kube.conf", world=self)

    def patch(self, name: str, patch: Any) -> None:
        node = self.nodes[name]
        node.version += self.flutters
        self.flutters = False
        if self.meddled == name:
            node.cordoned, node.version, self.meddled = True, node.version + 1, ""
        if patch["metadata"]["resourceVersion"] != str(node.version):
            raise TransportError(f'kubectl patch node: nodes "{name}": {_CONFLICT}')
        node.version += 1
        node.cordoned = bool(patch["spec"]["unschedulable"])
        for key, value in patch["metadata"]["annotations"].items():
            node.marks.pop(key, None)
            if value is not None:
                node.marks[key] = value
        self.most = max(self.most, sum(each.cordoned for each in self.nodes.values()))

    def drain(self, name: str, words: tuple[str, ...]) -> None:
        if self.nodes[name].scratch and "--delete-emptydir-data" not in words:
            raise TransportError("kubectl drain: cannot delete Pods with local storage")
        if self.nodes[name].protected:
            raise TransportError(f"kubectl drain {name}: error when evicting pods: {_PROTECTED}")
        self.nodes[name].pods.clear()

    def job(self, name: str) -> Any:
        """As the server has it, where there is a server and a Job."""
        if self.away:
            self.away -= 1
            raise TransportError("kubectl get job: The connection to the server was refused")
        if self.jobs[name] is None:
            raise TransportError(f'kubectl get job: (NotFound): jobs.batch "{name}" not found')
        return self.jobs[name]

    def let_go(self, job: Any) -> None:
        if job is None:
            return
        job["spec"]["suspend"] = False
        node = self.nodes[_marks(job)["gdr-toolkit/node"]]
        if not node.cordoned or (node.pods and node.marks):
            self.wrong.append(f"{node.name}: a bundle was let go while pods were there")

    def log(self, job: Any) -> str:
        name, told = _marks(job)["gdr-toolkit/node"], _marks(job)["gdr-toolkit/bundle"]
        return f"gdr-toolkit: node {name}: apply {told}\n{self.said[name]}"

    def apply(self, manifests: str) -> None:
        for each in yaml.safe_load_all(manifests):
            if each["kind"] == "Job":
                self.jobs[each["metadata"]["name"]] = each


def _marks(job: Any) -> Mapping[str, str]:
    marks: Mapping[str, str] = job["metadata"]["annotations"]
    return marks


class _Answers(Kubectl, frozen=True, kw_only=True):
    """In place of the program."""

    world: KubeWorld
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, *words: str, stdin: str = "", limit_s: float = 120) -> str:
        with self.lock:
            return self._read(words) if words[0] in {"get", "logs"} else self._act(words, stdin)

    def _read(self, words: tuple[str, ...]) -> str:
        world = self.world
        match words:
            case ("get", "nodes", "-o", "json"):
                return json.dumps({"items": [each.shown() for each in world.nodes.values()]})
            case ("get", "node", name, "-o", "json"):
                return json.dumps(world.nodes[name].shown())
            case ("get", "jobs", "-n", "gdr-toolkit", "-o", "json"):
                return json.dumps({"items": [each for each in world.jobs.values() if each]})
            case ("get", "job", name, "-n", "gdr-toolkit", "-o", "json"):
                going = world.job(name)["spec"]["suspend"]
                return json.dumps({"status": {} if going else {"succeeded": 1}})
            case ("logs", name, "-n", "gdr-toolkit", "--tail=-1"):
                return world.log(world.job(name.removeprefix("job/")))
        raise AssertionError(words)

    def _act(self, words: tuple[str, ...], stdin: str) -> str:
        match words:
            case ("patch", "node", name, "--type=merge", "-p", patch):
                self.world.patch(name, json.loads(patch))
            case ("drain", name, "--ignore-daemonsets", *more):
                self.world.drain(name, tuple(more))
            case ("apply", "--server-side", "-f", "-"):
                self.world.apply(stdin)
            case ("patch", "job", name, "-n", "gdr-toolkit", "--type=merge", "-p", patch):
                assert json.loads(patch) == {"spec": {"suspend": False}}
                self.world.let_go(self.world.jobs[name])
            case _:
                raise AssertionError(words)
        return ""
