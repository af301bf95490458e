"""Kubernetes: kubectl as a process, and by it a node taken out of service, served and given back.

Whatever way of logging in to a cluster the operator has, kubectl knows it. What we cordon carries
an annotation that names our run, written in the same request: a run that is killed leaves no node
that nobody owns up to. Each request names the version of the node that was looked at, so that what
somebody else has done meanwhile makes it fail instead of being undone.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping

from msgspec import Struct

from toolkit.errors import TransportError, Unparsable, UsageError
from toolkit.node.collect import probe_script
from toolkit.node.scripts import FOLDER
from toolkit.ssh.local import answer
from toolkit.untrusted import read_json


class Kubectl(Struct, frozen=True):
    """One cluster, by its kubeconfig, and a context of it."""

    kubeconfig: str
    program: str = "kubectl"
    context: str = ""  # "" for the current one

    def where(self) -> str:
        """Which cluster that is, in the words of the kubeconfig; nobody is asked for it."""
        return self.context or self.answer("config", "current-context").strip()

    def answer(self, *words: str, stdin: str = "", limit_s: float = 120) -> str:
        """What one command prints.

        :raises UsageError: there is no kubectl here.
        :raises TransportError: it refused or did not end in time; its own last words are told.
        """
        which = [f"--kubeconfig={self.kubeconfig}"]
        which += [f"--context={self.context}"] if self.context else []
        argv = (self.program, *which, f"--request-timeout={limit_s:g}s")
        try:
            done = answer(
                (*argv, *words), stdin.encode("utf-8", "surrogateescape"), limit_s=limit_s + 10
            )
        except FileNotFoundError as why:
            raise UsageError(
                f"{self.program} is not here", hint="install it, or leave --kubeconfig out"
            ) from why
        except OSError as why:
            raise UsageError(
                f"{self.program} cannot be run: {why.strerror}",
                hint="is kubectl installed here, and in PATH?",
            ) from why
        except subprocess.TimeoutExpired as why:
            raise TransportError(
                f"kubectl {words[0]}: no answer within {limit_s:g} s",
                hint="is the API server in reach? kubectl version",
            ) from why
        if done.returncode:
            reason = _reason(_text(done.stderr)) or f"status {done.returncode}"
            raise TransportError(
                f"kubectl {' '.join(words[:2])}: {reason[:300]}",
                hint=f"try it by hand: {' '.join((self.program, *which, *words[:2]))}",
            )
        return _text(done.stdout)


def _text(said: bytes) -> str:
    """Word for word: a carriage return within evidence ends no line."""
    return said.decode("utf-8", "surrogateescape")


def _reason(stderr: str) -> str:
    """The line that says what went wrong; below it kubectl may give advice, or list nodes.

    Where it tried again and again, why that was in vain stands above it.
    """
    lines = [line.strip() for line in stderr.split("\n") if line.strip()]
    told = [line for line in lines if line.lower().startswith("error")]
    vain = [line.partition("(will retry")[2] for line in told if "(will retry" in line]
    last = (told or lines or [""])[-1]
    why = vain[-1].partition("): ")[2] if vain else ""
    return f"{last}; {why}" if why and why not in last else last


MARK = "gdr-toolkit/run"  # the annotation
_TRIES = 5  # a node's status changes by itself, and with it its version


class NodeState(Struct, frozen=True):
    """A node, as the API server has it."""

    cordoned: bool
    run: str  # that cordoned it; "" for none of ours
    version: str


class KubeCluster(Struct, frozen=True):
    """One cluster, and our namespace in it."""

    kubectl: Kubectl
    namespace: str
    poll_s: float = 5.0
    silence_s: float = 300.0  # so long a server or a kubelet may be away: they restart, too

    def put(self, manifests: str) -> None:
        """Have these objects there.

        :raises TransportError: in the words of kubectl.
        """
        self.kubectl.answer("apply", "--server-side", "-f", "-", stdin=manifests)

    def look(self, node: str) -> NodeState:
        found = _table(self._json("get", "node", node))
        meta = _table(found.get("metadata"))
        marks = _table(meta.get("annotations"))
        cordoned = bool(_table(found.get("spec")).get("unschedulable"))
        return NodeState(cordoned, str(marks.get(MARK, "")), str(meta.get("resourceVersion", "")))

    def out(self) -> Mapping[str, str]:
        """The nodes that are out of service, whoever did it: by name, why in a clause."""
        nodes = _tables(_table(self._json("get", "nodes")).get("items"))
        why = {str(_table(node.get("metadata")).get("name")): _why_out(node) for node in nodes}
        return {name: clause for name, clause in why.items() if clause}

    def let_go(self) -> frozenset[str]:
        """The Jobs of our namespace that are not suspended (any more), by name."""
        jobs = _tables(_table(self._json("get", "jobs", "-n", self.namespace)).get("items"))
        return frozenset(
            str(_table(job.get("metadata")).get("name"))
            for job in jobs
            if not _table(job.get("spec")).get("suspend")
        )

    def cordon(self, node: str, run: str, *, after: str = "") -> bool:
        """Cordon it in the name of a run; false where somebody else has meanwhile.

        :param after: a run that has ended, and whose cordon becomes this one's.
        """
        for _ in range(_TRIES):
            seen = self.look(node)
            if seen.cordoned and (seen.run == run or not after or seen.run != after):
                return seen.run == run
            if self._marked(node, seen, run=run, cordoned=True):
                return True
        raise TransportError(
            f"{node}: changes faster than it can be cordoned",
            hint="see who changes it: kubectl get node --watch",
        )

    def uncordon(self, node: str, run: str) -> bool:
        """Give it back where this run has cordoned it; false where that is not so (any more)."""
        for _ in range(_TRIES):
            seen = self.look(node)
            if seen.run != run or not seen.cordoned:
                return False
            if self._marked(node, seen, run=None, cordoned=None):
                return True
        raise TransportError(
            f"{node}: changes faster than it can be given back",
            hint=f"give it back by hand: kubectl uncordon {node}",
        )

    def _marked(
        self, node: str, seen: NodeState, *, run: str | None, cordoned: bool | None
    ) -> bool:
        patch = {
            "metadata": {"resourceVersion": seen.version, "annotations": {MARK: run}},
            "spec": {"unschedulable": cordoned},
        }
        try:
            self.kubectl.answer("patch", "node", node, "--type=merge", "-p", json.dumps(patch))
        except TransportError as why:
            if "the object has been modified" in str(why):
                return False
            raise
        return True

    def drain(self, node: str, limit_s: float, *, emptydir: bool = False) -> None:
        """Ask the pods to leave: evictions, which PodDisruptionBudgets may refuse.

        :param emptydir: also those that lose what they wrote into an emptyDir.
        :raises TransportError: some did not leave in time.
        """
        more = ("--delete-emptydir-data",) if emptydir else ()
        words = ("drain", node, "--ignore-daemonsets", f"--timeout={limit_s:.0f}s", *more)
        self.kubectl.answer(*words, limit_s=limit_s + 60)

    def run_job(self, job: str, limit_s: float) -> str:
        """Let a Job go, wait for its end, and give its log.

        :raises TransportError: it has not ended in time, or its log is not to be had.
        """
        where = ("-n", self.namespace)
        self.kubectl.answer("patch", "job", job, *where, "--type=merge", "-p", _GO)
        end = time.monotonic() + limit_s
        while True:
            told = self._patiently("get", "job", job, *where, "-o", "json")
            status = _table(_table(_read_answer(told, "get job")).get("status"))
            if status.get("succeeded") or status.get("failed"):
                return self._patiently("logs", f"job/{job}", *where, "--tail=-1")
            if time.monotonic() >= end:
                raise TransportError(
                    f"job {job} has not ended within {limit_s:.0f} s",
                    hint=f"it goes on: kubectl -n {self.namespace} logs -f job/{job}",
                )
            time.sleep(self.poll_s)

    def _json(self, *words: str) -> object:
        return _read_answer(self.kubectl.answer(*words, "-o", "json"), " ".join(words))

    def _patiently(self, *words: str) -> str:
        """An answer, though nobody gives one for a while; a bundle is at work meanwhile."""
        end = time.monotonic() + self.silence_s
        while True:
            try:
                return self.kubectl.answer(*words)
            except TransportError as why:
                if time.monotonic() >= end or "NotFound" in str(why):
                    raise
            time.sleep(self.poll_s)


_GO = '{"spec":{"suspend":false}}'


def _why_out(node: Mapping[str, object]) -> str:
    """ "" for a node that takes pods. One that says nothing of itself may be new: it counts not."""
    if _table(node.get("spec")).get("unschedulable"):
        return "cordoned"
    rows = _tables(_table(node.get("status")).get("conditions"))
    ready = [row.get("status") for row in rows if row.get("type") == "Ready"]
    return "not ready" if any(each != "True" for each in ready) else ""


def _read_answer(text: str, words: str) -> object:
    try:
        return read_json(text)
    except ValueError as why:
        raise Unparsable(f"kubectl {words}", str(why)) from why


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> list[Mapping[str, object]]:
    return [_table(each) for each in value] if isinstance(value, list) else []


def pod_files() -> dict[str, str]:
    """The files that lie beside one another in every pod of ours, by name."""
    return {"pod.sh": (FOLDER / "pod.sh").read_text("utf-8"), "probe.sh": probe_script()}
