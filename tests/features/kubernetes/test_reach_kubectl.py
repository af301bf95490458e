"""kubectl as a process: what it is asked with, and that its refusals are heard."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from toolkit.errors import TransportError, UsageError
from toolkit.features.kubernetes.io import Kubectl


def kubectl(tmp_path: Path, script: str) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Kubectl("kube.conf", str(program))


def test_kubectl_is_asked_with_the_kubeconfig_that_was_named(tmp_path: Path) -> None:
    said = kubectl(tmp_path, 'echo "$@"').answer("get", "nodes", limit_s=7)
    assert said == "--kubeconfig=kube.conf --request-timeout=7s get nodes\n"


def test_what_it_prints_is_kept_word_for_word(tmp_path: Path) -> None:
    said = kubectl(tmp_path, "printf 'a\\rb\\377\\n'").answer("logs", "job/x")
    assert said == "a\rb\udcff\n"


def test_a_kubectl_that_refuses_is_heard(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="kubectl get nodes: error: You must be logged in"):
        kubectl(tmp_path, "echo x >&2; echo error: You must be logged in >&2; exit 1").answer(
            "get", "nodes"
        )


CONFLICT = 'error: Apply failed with 1 conflict: conflict with "kubectl-patch": .spec.suspend'
FORBIDDEN = 'Error from server (Forbidden): nodes "gpu1" is forbidden'

EVICTING = 'error when evicting pods/"w" -n "d" (will retry after 5s): it would violate the budget.'
IN_VAIN = 'error when evicting pods/"w" -n "d": global timeout reached: 2s'


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param([CONFLICT, "Please review the fields above", "See https://x.example"],
                     CONFLICT, id="advice-below-it"),
        pytest.param([FORBIDDEN, "There are pending nodes to be drained:", " gpu1"],
                     FORBIDDEN, id="nodes-below-it"),
        pytest.param([EVICTING, "There are pending nodes to be drained:", IN_VAIN],
                     f"{IN_VAIN}; it would violate the budget.", id="tried-again-and-again"),
        pytest.param(["Warning: x", "exec: no such plugin"], "exec: no such plugin", id="neither"),
        pytest.param([], "status 1", id="silent"),
    ],
)  # fmt: skip
def test_the_reason_is_told_and_not_what_stands_below_it(
    tmp_path: Path, said: list[str], reason: str
) -> None:
    script = "".join(f"echo {shlex.quote(line)} >&2\n" for line in said) + "exit 1"
    with pytest.raises(TransportError) as caught:
        kubectl(tmp_path, script).answer("apply", "-f", "-")
    assert str(caught.value) == f"kubectl apply -f: {reason}"


def test_without_kubectl_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not here"):
        Kubectl("kube.conf", "nowhere").answer("get", "nodes")


def test_a_kubectl_that_cannot_be_run_is_no_bug_of_ours(tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="cannot be run: Permission denied"):
        Kubectl("kube.conf", str(tmp_path / "kubectl")).answer("get", "nodes")
