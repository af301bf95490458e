"""From a pod's log to a healed node: read, plan, render, carry out, read again, by pod.sh alone.

The node is a simulated one; nsenter is in the place of the real one, and enters the node's tree.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scripts.demo_nodes import KINDS, Node, Nodes
from toolkit.checks.judged import judge_node
from toolkit.demo.create import environment, make_nodes
from toolkit.errors import ExitCode
from toolkit.facts.text.pod_logs import parse_carried
from toolkit.features.kubernetes.plan import parse_terms, stream
from toolkit.features.kubernetes.run import (
    applying_manifests,
    carrying,
    plan_for_pods,
    reading_manifests,
)
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

pytestmark = pytest.mark.kube
TERMS = parse_terms("registry.example/busybox@sha256:" + "0123456789abcdef" * 4, "gdr", "", "")
WANT, TODAY = Want.load("peermem"), date(2026, 11, 22)
_LIMIT_S = 300


@pytest.fixture
def node(tmp_path: Path) -> Node:
    state = tmp_path / "state"
    make_nodes(state, (KINDS["stub"],))
    return Nodes(state, tmp_path, "dash")("stub")


@pytest.fixture
def beside() -> Iterator[int]:
    """A process in other namespaces than ours, as a node's first one is."""
    with subprocess.Popen(("unshare", "--mount", "sleep", "600")) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() == "unshare\n":
                time.sleep(0.02)
            yield process.pid
        finally:
            process.kill()


def pod(folder: Path, files: Mapping[str, str], node: Node, target: int, *words: str) -> str:
    """Run pod.sh over a ConfigMap's files, until it has read the node; what it said."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    told = shlex.join(f"{name}={value}" for name, value in environment(node.place).items())
    fake = folder / "bin" / "nsenter"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec env -i {told} "$@"\n'
    )
    fake.chmod(0o755)
    ready = folder / "ready"
    env = {
        "PATH": f"{fake.parent}:{os.environ['PATH']}", "GDR_NODE": "gpu007",
        "GDR_TARGET": str(target), "GDR_READY": str(ready),
    }  # fmt: skip
    # A DaemonSet's pod sits still once it has read: it is told to end then.
    script = f"sh {folder}/pod.sh {shlex.join(words)} & pid=$!\n" + (
        f"until [ -e {ready} ] || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done; kill $pid\n"
        if words == ("probe",)
        else ""
    )
    done = subprocess.run(
        ("sh", "-c", script + "wait $pid"), env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    return done.stdout


def files_of(manifests: str, kind: str) -> tuple[dict[str, str], dict[str, Any]]:
    """All files of the ConfigMaps, and the one object of that kind. Any: they share no type."""
    objects = list(yaml.safe_load_all(manifests))
    maps = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    (found,) = [each for each in objects if each["kind"] == kind]
    return {name: text for data in maps for name, text in data.items()}, found


def test_a_node_is_healed_by_what_is_rendered_and_a_second_plan_is_empty(
    tmp_path: Path, node: Node, beside: int
) -> None:
    scripts, _ = files_of(stream(reading_manifests(TERMS)), "DaemonSet")
    log = tmp_path / "pods.log"
    log.write_text(pod(tmp_path / "probe", scripts, node, beside, "probe"))
    ((name, evidence),) = read_saved(log)
    assert (name, evidence.complete) == ("gpu007", True)
    before = judge_node(name, evidence, WANT, TODAY)
    assert before.exit_code is ExitCode.FAILED

    carried = carrying(plan_for_pods([(name, evidence)], WANT, TODAY, None), "")
    bundle, job = files_of(stream(applying_manifests(TERMS, carried)), "Job")
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["sh", "/gdr/pod.sh"]
    said = pod(tmp_path / "apply", scripts | bundle, node, beside, *command[2:])

    (done,) = parse_carried(said)
    assert (done.ended, done.evidence.complete) == (0, True), said[-3000:]
    log.write_text(said)
    ((_, after),) = read_saved(log)
    assert judge_node(name, after, WANT, TODAY).exit_code is ExitCode.OK
    assert carrying(plan_for_pods([(name, after)], WANT, TODAY, None), "") == ()
