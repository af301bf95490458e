"""Nodes of a cluster, taken out of service and given back: what kubectl is asked, and answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import TransportError, Unparsable, UsageError
from toolkit.features.kubernetes.io import MARK, KubeCluster, Kubectl, _reason


class Kube:
    """Answers in turn, and notes what it was asked."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = [*answers]
        self.asked: list[tuple[str, ...]] = []
        self.limits: list[float] = []

    def answer(self, *words: str, stdin: str = "", limit_s: float = 120) -> str:
        self.asked.append((*words, *([stdin] if stdin else [])))
        self.limits.append(limit_s)
        told = self.answers.pop(0)
        if isinstance(told, Exception):
            raise told
        return told


def cluster(*answers: str | Exception) -> tuple[Any, KubeCluster]:
    kube: Any = Kube(*answers)
    return kube, KubeCluster(kube, "ns", poll_s=3)


def node(version: str = "7", *, run: str = "", cordoned: bool = False) -> str:
    meta = {"resourceVersion": version, "annotations": {MARK: run} if run else {}}
    return json.dumps({"metadata": meta, "spec": {"unschedulable": True} if cordoned else {}})


MODIFIED = TransportError("the object has been modified")


def test_a_node_is_cordoned_in_the_name_of_a_run() -> None:
    kube, on = cluster(node(), MODIFIED, node("8"), "")
    assert on.cordon("gpu7", "run1")
    assert kube.asked[0] == ("get", "node", "gpu7", "-o", "json")
    patch = {"metadata": {"resourceVersion": "8", "annotations": {MARK: "run1"}}}
    words = ("patch", "node", "gpu7", "--type=merge", "-p")
    assert kube.asked[3][:-1] == words
    assert json.loads(kube.asked[3][-1]) == patch | {"spec": {"unschedulable": True}}
    kube, on = cluster(node("9", run="run1", cordoned=True), "")
    assert on.uncordon("gpu7", "run1")
    patch = {"metadata": {"resourceVersion": "9", "annotations": {MARK: None}}}
    assert json.loads(kube.asked[1][-1]) == patch | {"spec": {"unschedulable": None}}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda on: on.cordon("gpu7", "run1"), "gpu7: changes faster than it can be cordoned"),
        (lambda on: on.uncordon("gpu7", "run1"), "gpu7: changes faster than it can be given back"),
    ],
)
def test_a_node_that_changes_and_changes(call: Callable[[KubeCluster], bool], says: str) -> None:
    seen = node(run="run1", cordoned="back" in says)
    answers: list[str | Exception] = [seen, MODIFIED]
    kube, on = cluster(*answers * 5, seen)
    with pytest.raises(TransportError, match=says):
        call(on)
    assert len(kube.asked) == 10


@pytest.mark.parametrize(
    ("run", "after", "takes"),
    [
        ("", "", False),
        ("run1", "", True),
        ("old", "", False),
        ("old", "old", None),
        ("x", "old", False),
    ],
)
def test_whose_cordon_it_is(run: str, after: str, takes: bool | None) -> None:
    kube, on = cluster(node(run=run, cordoned=True), "")
    assert on.cordon("gpu7", "run1", after=after) is (takes is not False)
    assert len(kube.asked) == 1 + (takes is None)


def test_another_refusal_of_the_server_is_told() -> None:
    _, on = cluster(node(), TransportError("forbidden"))
    with pytest.raises(TransportError, match="forbidden"):
        on.cordon("gpu7", "run1")
    _, on = cluster("no json")
    with pytest.raises(Unparsable, match="kubectl get nodes"):
        on.out()


def test_pods_are_asked_to_leave() -> None:
    kube, on = cluster("", "", "")
    on.drain("gpu7", 30.4)
    on.drain("gpu7", 30, emptydir=True)
    words = ("drain", "gpu7", "--ignore-daemonsets", "--timeout=30s")
    assert kube.asked == [words, (*words, "--delete-emptydir-data")]
    assert kube.limits == [90.4, 90]
    on.put("text")
    assert kube.asked[2] == ("apply", "--server-side", "-f", "-", "text")


def test_nodes_and_jobs_of_a_cluster() -> None:
    def row(name: str, **more: object) -> dict[str, object]:
        return {"metadata": {"name": name}, **more}

    def ready(status: str) -> dict[str, object]:
        return {
            "conditions": [{"type": "Disk", "status": "False"}, {"type": "Ready", "status": status}]
        }

    rows = [
        row("a", status=ready("True")),
        row("b", status=ready("False")),
        row("c", status=ready("Unknown")),
        row("d", spec={"unschedulable": True}),
        row("e"),
    ]
    jobs = [row("j1", spec={"suspend": True}), row("j2", spec={"suspend": False}), row("j3")]
    kube, on = cluster(json.dumps({"items": rows}), json.dumps({"items": jobs}), "{}", "[]")
    assert on.out() == {"b": "not ready", "c": "not ready", "d": "cordoned"}
    assert on.let_go() == {"j2", "j3"}
    assert kube.asked[1] == ("get", "jobs", "-n", "ns", "-o", "json")
    assert on.out() == {}
    assert on.let_go() == frozenset()


def test_a_job_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda s: now.__setitem__(0, now[0] + s))
    kube, on = cluster("", "{}", TransportError("away"), '{"status": {"failed": 1}}', "log")
    assert on.run_job("j", 60) == "log"
    assert now == [6]
    assert kube.asked[0][:5] == ("patch", "job", "j", "-n", "ns")
    assert json.loads(kube.asked[0][-1]) == {"spec": {"suspend": False}}
    assert kube.asked[-1] == ("logs", "job/j", "-n", "ns", "--tail=-1")
    kube, on = cluster("", *["{}"] * 9)
    with pytest.raises(TransportError, match="job j has not ended within 7 s"):
        on.run_job("j", 7)
    assert now == [15]
    assert len(kube.asked) == 5
    _, on = cluster("", TransportError('jobs "j" NotFound'))
    with pytest.raises(TransportError, match="NotFound"):
        on.run_job("j", 7)
    _, on = cluster("", *[TransportError("away")] * 200)
    with pytest.raises(TransportError, match="away"):
        on.run_job("j", 1000)
    assert now == [15 + 300]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", ""),
        ("one\n two \n\n", "two"),
        ("noise\nError from server: no\nadvice\n", "Error from server: no"),
        ("error: x (will retry after 5s): why it is\nerror: last\n", "error: last; why it is"),
        ("error: x (will retry after 5s): why\nerror: last why\n", "error: last why"),
    ],
)
def test_why_kubectl_refuses(said: str, reason: str) -> None:
    assert _reason(said) == reason


def test_how_kubectl_is_called(tmp_path: Path) -> None:
    tool = tmp_path / "kubectl"
    tool.write_text('#!/bin/sh\nprintf "%s|" "$@"; cat; printf "\\377\\r\\n"\n')
    tool.chmod(0o755)
    on = Kubectl("/cfg", str(tool), "ctx")
    words = "--kubeconfig=/cfg|--context=ctx|--request-timeout=7.5s|get|x|in\udcfe\udcff\r\n"
    assert on.answer("get", "x", stdin="in\udcfe", limit_s=7.5) == words
    assert Kubectl("/cfg", str(tool)).answer("a").startswith("--kubeconfig=/cfg|--request-")
    assert on.where() == "ctx"
    tool.write_text(f"#!/bin/sh\necho error: {'x' * 400} >&2; exit 4\n")
    with pytest.raises(TransportError) as raised:
        on.answer("get", "node", "y")
    assert str(raised.value) == "kubectl get node: " + ("error: " + "x" * 400)[:300]
    assert raised.value.hint.endswith(f"{tool} --kubeconfig=/cfg --context=ctx get node")
    tool.write_text("#!/bin/sh\nexit 4\n")
    with pytest.raises(TransportError, match="kubectl get: status 4"):
        on.answer("get")
    tool.write_text("#!/bin/sh\nexec sleep 99\n")
    with pytest.raises(TransportError, match="kubectl get: no answer within -9"):
        on.answer("get", limit_s=-9.95)
    tool.chmod(0o644)
    with pytest.raises(UsageError, match="cannot be run: "):
        Kubectl("/cfg", str(tmp_path)).answer("get")
    tool.unlink()
    with pytest.raises(UsageError, match="kubectl is not here"):
        on.answer("get")
