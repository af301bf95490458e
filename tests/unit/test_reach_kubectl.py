"""kubectl as a process: what it is asked with, and that its refusals are heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import TransportError, UsageError
from toolkit.reach.kubectl import Kubectl


def kubectl(tmp_path: Path, script: str) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Kubectl("kube.conf", str(program))


def test_kubectl_is_asked_with_the_kubeconfig_that_was_named(tmp_path: Path) -> None:
    said = kubectl(tmp_path, 'echo "$@"').answer("get", "nodes", limit_s=7)
    assert said == "--kubeconfig=kube.conf --request-timeout=7s get nodes\n"


def test_a_kubectl_that_refuses_is_heard(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="kubectl get nodes: error: You must be logged in"):
        kubectl(tmp_path, "echo x >&2; echo error: You must be logged in >&2; exit 1").answer(
            "get", "nodes"
        )


def test_without_kubectl_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not here"):
        Kubectl("kube.conf", "nowhere").answer("get", "nodes")
