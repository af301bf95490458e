"""As much of a Kubernetes API server as kubectl asks for while a rollout is at work.

A double of ours, over plain HTTP on loopback: discovery, objects by merge patch and by server-side
apply, versions that conflict, evictions, logs. It admits nobody's rights and runs no controller; a
Job that is let go has ended at once, with the log that the test gave for its node.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any  # Kubernetes' objects have no common type
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.kube.api_exec import Enter, is_exec, serve_exec

_RBAC = "rbac.authorization.k8s.io"
_KINDS = {  # by what they are called in addresses: group, kind, whether they have a namespace
    "namespaces": ("", "Namespace", False),
    "serviceaccounts": ("", "ServiceAccount", True),
    "configmaps": ("", "ConfigMap", True),
    "nodes": ("", "Node", False),
    "pods": ("", "Pod", True),
    "jobs": ("batch", "Job", True),
    "daemonsets": ("apps", "DaemonSet", True),
    "roles": (_RBAC, "Role", True),
    "rolebindings": (_RBAC, "RoleBinding", True),
    "clusterroles": (_RBAC, "ClusterRole", False),
    "clusterrolebindings": (_RBAC, "ClusterRoleBinding", False),
}
_GROUPS = ("apps", "batch", "policy", _RBAC)
_ADDRESS = re.compile(
    r"/(?:api/v1|apis/[^/]+/v1)(?:/namespaces/(?P<ns>[^/]+)(?=/[a-z]+))?"
    r"/(?P<many>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_STALE = "the object has been modified; please apply your changes to the latest version"
_PROTECTED = "Cannot evict pod as it would violate the pod's disruption budget."
_OPENAPI = b"\x0a\x032.0"  # OpenAPI 2, as protobuf: a document that knows no type
Answer = tuple[int, Any]


@dataclass
class ApiServer:
    """What it has; ``wrong`` is what must never happen."""

    objects: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)  # by node: what its pod says
    protected: set[str] = field(default_factory=set)  # pods that a PodDisruptionBudget keeps
    stuck: bool = False  # a Job that is let go does not end
    wrong: list[str] = field(default_factory=list)
    enter: Enter | None = None  # what kubectl exec runs; None: nothing
    version: int = 100
    lock: threading.RLock = field(default_factory=threading.RLock)

    def add_node(self, name: str) -> None:
        """A node with one pod on it, that a controller would start elsewhere."""
        self.put("nodes", "", {"metadata": {"name": name}, "spec": {}, "status": {}})
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "1"}
        meta = {"name": f"web-{name}", "ownerReferences": [owner | {"controller": True}]}
        pod = {"metadata": meta, "spec": {"nodeName": name}, "status": {"phase": "Running"}}
        self.put("pods", "default", pod)

    def put(self, many: str, ns: str, made: Any) -> Any:
        group, kind, _ = _KINDS[many]
        self.version += 1
        made |= {"kind": kind, "apiVersion": f"{group}/v1" if group else "v1"}
        made["metadata"] |= {"resourceVersion": str(self.version)} | (
            {"namespace": ns} if ns else {}
        )
        made["metadata"].setdefault("uid", made["metadata"]["name"])
        self.objects[many, ns, made["metadata"]["name"]] = made
        return made

    def node(self, name: str) -> Any:
        return self.objects["nodes", "", name]

    def pods_on(self, node: str) -> list[str]:
        pods = [each for (many, _, _), each in self.objects.items() if many == "pods"]
        return [each["metadata"]["name"] for each in pods if each["spec"]["nodeName"] == node]

    def let_go(self, job: Any) -> None:
        """Its pod runs, and has ended."""
        meta = job["metadata"]
        name, node = meta["name"], meta["annotations"]["gdr-toolkit/node"]
        if self.pods_on(node) or not self.node(node)["spec"].get("unschedulable"):
            self.wrong.append(f"{node}: a bundle was let go while pods were there")
        labels = {"job-name": name}
        job["spec"]["selector"] = {"matchLabels": labels}
        pod = {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node}}
        containers = {"containers": [{"name": "apply", "image": "x"}]}
        self.put("pods", meta["namespace"], pod | {"spec": pod["spec"] | containers})
        job["status"] = {} if self.stuck else {"succeeded": 1}

    def said(self, pod: str, ns: str) -> str:
        marks = self.objects["jobs", ns, pod]["metadata"]["annotations"]
        node, bundle = marks["gdr-toolkit/node"], marks["gdr-toolkit/bundle"]
        return f"gdr-toolkit: node {node}: apply {bundle}\n{self.logs[node]}"


def _failure(code: int, reason: str, message: str) -> Answer:
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return code, told | {"reason": reason, "message": message, "code": code}


def _resources(group: str) -> Answer:
    rows = [
        {"name": many, "singularName": kind.lower(), "namespaced": spaced, "kind": kind,
         "verbs": ["get", "list", "patch"]}
        for many, (of, kind, spaced) in _KINDS.items()
        if of == group
    ]  # fmt: skip
    if not group:
        rows.append({"name": "pods/eviction", "singularName": "", "namespaced": True,
                     "group": "policy", "version": "v1", "kind": "Eviction",
                     "verbs": ["create"]})  # fmt: skip
    return 200, {
        "kind": "APIResourceList", "apiVersion": "v1", "resources": rows,
        "groupVersion": f"{group}/v1" if group else "v1",
    }  # fmt: skip


def _discovery(path: str) -> Answer | None:
    """What there is, in the form that every kubectl since 1.20 reads."""
    if path == "/api":
        return 200, {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = {g: {"groupVersion": f"{g}/v1", "version": "v1"} for g in _GROUPS}
        groups = [
            {"name": g, "versions": [one], "preferredVersion": one} for g, one in versions.items()
        ]
        return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if found := re.fullmatch(r"/api/v1|/apis/([^/]+)/v1", path):
        return _resources(found[1] or "")
    return _openapi(path)


def _openapi(path: str) -> Answer | None:
    """Enough for it to see that the server validates for itself."""
    if path == "/openapi/v2":
        return 200, _OPENAPI
    if path == "/openapi/v3":
        parts = {"": "api/v1", **{g: f"apis/{g}/v1" for g in _GROUPS}}
        paths = {part: {"serverRelativeURL": f"/openapi/v3/{part}"} for part in parts.values()}
        return 200, {"paths": paths}
    if found := re.fullmatch(r"/openapi/v3/(api/v1|apis/([^/]+)/v1)", path):
        field_validation = [{"name": "fieldValidation", "in": "query"}]
        verbs = {
            f"/{found[1]}/{many}/{{name}}": {"patch": {
                "x-kubernetes-group-version-kind": {"group": of, "version": "v1", "kind": kind},
                "parameters": field_validation,
            }}
            for many, (of, kind, _) in _KINDS.items()
            if of == (found[2] or "")
        }  # fmt: skip
        return 200, {"openapi": "3.0.0", "info": {"title": "", "version": "1"}, "paths": verbs}
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: ApiServer

    def log_message(self, *_: object) -> None:
        pass

    def _go(self) -> None:
        if self.world.enter is not None and is_exec(self):
            serve_exec(self, self.world.enter)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        with self.world.lock:
            found = _discovery(address.path)
            code, told = found or self._objects(address.path, parse_qs(address.query), body)
            text = told if isinstance(told, bytes) else json.dumps(told).encode()
        kind = "application/octet-stream" if isinstance(told, bytes) else "application/json"
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = _go  # noqa: N815 names that http.server asks for

    def _objects(self, path: str, asked: dict[str, list[str]], body: bytes) -> Answer:
        found = _ADDRESS.fullmatch(path)
        if found is None or found["many"] not in _KINDS:
            return _failure(404, "NotFound", f"no {path}")
        many, ns, name = found["many"], found["ns"] or "", found["name"] or ""
        if not name:
            return self._listed(many, ns, asked)
        here = self.world.objects.get((many, ns, name))
        if self.command == "PATCH":
            return self._patched(many, ns, here, yaml.safe_load(body))
        if here is None:
            return _failure(404, "NotFound", f'{many} "{name}" not found')
        return self._pods_own(found["sub"] or "", ns, name) or (200, here)

    def _pods_own(self, sub: str, ns: str, name: str) -> Answer | None:
        if sub == "log":
            return 200, self.world.said(name, ns).encode()
        if sub == "eviction" and name in self.world.protected:
            return _failure(429, "TooManyRequests", _PROTECTED)
        if sub == "eviction":
            del self.world.objects["pods", ns, name]
            return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        return None

    def _listed(self, many: str, ns: str, asked: dict[str, list[str]]) -> Answer:
        labels = dict(
            w.split("=") for w in ",".join(asked.get("labelSelector", [])).split(",") if w
        )
        node = ",".join(asked.get("fieldSelector", [])).removeprefix("spec.nodeName=")
        items = [
            copy.deepcopy(each)
            for (of, where, _), each in self.world.objects.items()
            if of == many
            and (not ns or where == ns)
            and (not node or each["spec"].get("nodeName") == node)
            and labels.items() <= each["metadata"].get("labels", {}).items()
        ]
        return 200, {"kind": f"{_KINDS[many][1]}List", "apiVersion": "v1", "items": items}

    def _patched(self, many: str, ns: str, here: Any, patch: Any) -> Answer:
        if self.headers["Content-Type"].startswith("application/apply-patch"):
            return 200, self.world.put(many, ns, _merged(here or {}, patch))
        if here is None:
            return _failure(404, "NotFound", f"no such one of {many}")
        seen = patch.get("metadata", {}).get("resourceVersion", here["metadata"]["resourceVersion"])
        if seen != here["metadata"]["resourceVersion"]:
            return _failure(409, "Conflict", _STALE)
        made = self.world.put(many, ns, _merged(here, patch))
        if many == "jobs":
            self.world.let_go(made)
        return 200, made


def _merged(here: Any, patch: Any) -> Any:
    """As RFC 7386 has it."""
    for key, value in patch.items():
        if value is None:
            here.pop(key, None)
        elif isinstance(value, dict):
            here[key] = _merged(here.get(key) or {}, value)
        else:
            here[key] = value
    return here


@contextmanager
def serving(world: ApiServer, kubeconfig: Path) -> Iterator[None]:
    """Answer for it on loopback, and write how it is reached."""
    handler = type("Handler", (_Handler,), {"world": world})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    context = {"name": "train", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "train", "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
    }  # fmt: skip
    kubeconfig.write_text(json.dumps(config))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
