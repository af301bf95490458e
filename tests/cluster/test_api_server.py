"""What is rendered, before a real API server: that of the cluster which GDR_TEST_KUBECONFIG names.

Makes a namespace and a ClusterRole of its own there, and takes both away again. No node is
touched: Jobs stay suspended, and the DaemonSet selects a label that no node has. Validation is
strict, so that a field which this server does not know is an error.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from toolkit.facts.kube import parse_cluster
from toolkit.features.kubernetes.plan import NodeBundle, PodTerms, parse_terms, stream
from toolkit.features.kubernetes.run import applying_manifests, reading_manifests

pytestmark = pytest.mark.cluster

IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
NODE = "gpu007"
JOB = NodeBundle(NODE, "echo\n")


def kubectl(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    config = f"--kubeconfig={os.environ['GDR_TEST_KUBECONFIG']}"
    return subprocess.run(
        ("kubectl", config, *words), input=stdin, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def terms() -> Iterator[PodTerms]:
    """All that can be rendered, applied; taken away again whatever happens."""
    made = parse_terms(IMAGE, f"gdr-test-{uuid4().hex[:8]}", "gdr-test/no-node-has-this", "")
    manifests = stream((*reading_manifests(made), *applying_manifests(made, (JOB,))))
    try:
        done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=manifests)
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        kubectl("delete", "--ignore-not-found", "-f", "-", stdin=manifests)


def test_applying_again_changes_nothing(terms: PodTerms) -> None:
    manifests = stream((*reading_manifests(terms), *applying_manifests(terms, (JOB,))))
    done = kubectl("diff", "--server-side", "-f", "-", stdin=manifests)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_pod_of_a_job_is_there_before_it_is_let_go(terms: PodTerms) -> None:
    where = ("-n", terms.namespace)
    pods = kubectl("get", "pods", *where, "-l", "app.kubernetes.io/name=gdr-apply", "-o", "name")
    assert (pods.returncode, pods.stdout) == (0, ""), pods.stderr


@pytest.mark.parametrize(
    ("account", "may", "words"),
    [
        pytest.param("gdr-roller", "yes", ("patch", f"node/{NODE}"), id="cordons-its-node"),
        pytest.param("gdr-roller", "no", ("patch", "node/another"), id="cordons-no-other"),
        pytest.param("gdr-roller", "yes", ("create", "pods/eviction"), id="evicts"),
        pytest.param("gdr-roller", "no", ("delete", "pods"), id="deletes-no-pod"),
        pytest.param("gdr-roller", "yes", ("patch", "jobs"), id="lets-jobs-go"),
        pytest.param("gdr-roller", "no", ("create", "jobs"), id="makes-no-job"),
        pytest.param("gdr-roller", "no", ("get", "secrets"), id="reads-no-secret"),
        pytest.param("gdr-node", "no", ("get", "pods"), id="a-pod-asks-nothing"),
    ],
)
def test_accounts_may_what_they_are_for(
    terms: PodTerms, account: str, may: str, words: tuple[str, ...]
) -> None:
    who = f"--as=system:serviceaccount:{terms.namespace}:{account}"
    done = kubectl("auth", "can-i", *words, who, "-n", terms.namespace)
    assert done.stdout.strip() == may, done.stderr


def test_what_the_cluster_says_of_itself_is_understood() -> None:
    done = kubectl("get", "nodes,daemonsets.apps", "-A", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert parse_cluster(done.stdout).labels
