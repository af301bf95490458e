"""kubernetes --roll, as it is called: what it refuses before anything is touched."""

from __future__ import annotations

import io
from datetime import date
from pathlib import Path
from types import SimpleNamespace as Told_
from typing import Any

import pytest

from tests.evidence.build import node
from tests.invoked import here
from toolkit.cli import Gdr, verbs
from toolkit.errors import ApplyError, ExitCode, Outcome, UsageError
from toolkit.evidence import Evidence
from toolkit.features.kubernetes import cli as kubernetes
from toolkit.features.kubernetes.cli import _after_turn, _code
from toolkit.features.kubernetes.io import KubeCluster
from toolkit.features.kubernetes.run import Brought, RolloutLimits
from toolkit.report.document import Told
from toolkit.rollout.run import Rolled
from toolkit.verbs.doctor import examine_saved
from toolkit.want import Want

IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
STUB = Evidence.parse((Path(__file__).parents[2] / "evidence" / "stub.txt").read_text())


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's log, and a kubectl that writes down what it is asked; there is one GPU node."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "kubectl"
    listed = '{"items": [{"kind": "Node", "metadata": {"name": "gpu007"}}]}'
    heard = f'echo "$3" >>{tmp_path}/asked; echo "$*" >>{tmp_path}/words'
    put = f'case "$*" in *" -f -"*) cat >{tmp_path}/put ;; esac'
    program.write_text(f"#!/bin/sh\n{heard}\n{put}\necho '{listed}'\n")
    program.chmod(0o755)
    file = tmp_path / "pods.log"
    file.write_text(f"gdr-toolkit: node gpu007: probe\n{STUB.dump()}")
    return file


def roll(log: Path, *words: str) -> None:
    path = ("--profile", "peermem")  # whose plan mends the stub
    argv = ["gdr", "kubernetes", "--roll", "--from", str(log), "--image", IMAGE, *path, *words]
    Gdr(namespace=verbs()).run(argv, exit=False)


def asked(log: Path) -> list[str]:
    file = log.with_name("asked")
    return file.read_text().split() if file.exists() else []


def test_without_a_cluster_nothing_is_begun(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roll(log)
    assert "--roll needs a cluster" in capsys.readouterr().err
    assert asked(log) == []


def test_without_consent_nothing_but_looking_is_done(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    roll(log, "--kubeconfig", "kube.conf")
    assert "nobody to ask whether to change the nodes" in capsys.readouterr().err
    assert asked(log) == ["get", "get", "config"]


def test_sizes_of_nothing_are_refused_before_anything_is_touched(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roll(log, "--kubeconfig", "kube.conf", "--yes", "--max-unavailable", "0")
    assert "then no node may be touched at all" in capsys.readouterr().err
    assert asked(log) == ["get"]


def test_the_context_that_was_named_is_the_one_that_is_asked(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    roll(log, "--kubeconfig", "kube.conf", "--context", "train")
    assert "nobody to ask" in capsys.readouterr().err
    words = log.with_name("words").read_text().splitlines()
    assert len(words) == 2
    assert all(each.startswith("--kubeconfig=kube.conf --context=train ") for each in words)


def test_a_context_of_no_kubeconfig_is_refused(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["gdr", "kubernetes", "--check", "--from", str(log), "--context", "train"]
    Gdr(namespace=verbs()).run(argv, exit=False)
    assert "--context is one of a --kubeconfig, and none was named" in capsys.readouterr().err


AS_WANTED = Outcome("gpu007", Brought("", given_back=True))
STOPPED: Outcome[Brought] = Outcome("gpu007", error=ApplyError("gpu007: step 3 ended with 1"))
HOW = ("--drain-timeout", "5", "--job-timeout", "6", "--cordoned", "--delete-emptydir-data")


def carried_out(
    log: Path, monkeypatch: pytest.MonkeyPatch, rolled: Rolled[Brought], *words: str
) -> tuple[int, dict[str, Any]]:
    """The exit code of --roll that ends so, and what it was carried out with. Any: of all kinds."""
    seen: dict[str, Any] = {}

    def carry(cluster: KubeCluster, *_: object, **how: object) -> Rolled[Brought]:
        seen.update(how, cluster=cluster)
        return rolled

    monkeypatch.setattr(kubernetes, "roll_out_pods", carry)
    path = ("--profile", "peermem", "--kubeconfig", "kube.conf", "--yes")
    argv = ("kubernetes", "--roll", "--from", str(log), "--image", IMAGE, *path, *words)
    return here(monkeypatch, *argv), seen


@pytest.mark.parametrize(
    ("words", "limits"),
    [((), RolloutLimits()), (HOW, RolloutLimits(5.0, 6.0, taken=True, emptydir=True))],
    ids=["usual", "said"],
)
def test_what_was_agreed_to_is_what_is_carried_out(
    words: tuple[str, ...], limits: RolloutLimits, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, seen = carried_out(log, monkeypatch, Rolled({"gpu007": AS_WANTED}), *words)
    assert seen["limits"] == limits
    assert seen["agreed"].alone, "nothing is begun without a journal"
    assert seen["agreed"].reported == seen["cluster"].out
    put = log.with_name("put").read_text()
    kinds = [line for line in put.split("\n") if line.startswith("kind: ")]
    assert "kind: Job" in kinds
    assert "kind: DaemonSet" not in kinds, "whose nodes have been read"


@pytest.mark.parametrize(
    ("rolled", "code", "said"),
    [
        (Rolled({"gpu007": AS_WANTED}), ExitCode.OK, "gpu007: as wanted\n"),
        (Rolled({"gpu007": STOPPED}), ExitCode.STOPPED, "step 3 ended with 1"),
        (Rolled({"gpu007": AS_WANTED}, interrupted=True), ExitCode.INTERRUPTED, "as wanted"),
        (Rolled({"gpu007": AS_WANTED}, halt="a file"), ExitCode.OK, "stopped: a file"),
    ],
    ids=["well", "failed", "interrupted", "halted"],
)
def test_how_a_rollout_ended_is_told(
    rolled: Rolled[Brought],
    code: ExitCode,
    said: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert carried_out(log, monkeypatch, rolled)[0] == code
    told = capsys.readouterr()
    assert said in told.out + told.err


def test_that_no_cluster_was_asked_is_said(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Gdr(namespace=verbs()).run(["gdr", "kubernetes", "--check", "--from", str(log)], exit=False)
    assert "no cluster was asked" in capsys.readouterr().err


def test_a_node_after_its_turn_keeps_its_verdicts_as_those_of_before() -> None:
    judged = examine_saved([("gpu007", STUB)], Want(), date(2026, 11, 22))[0].get()
    planned = Outcome("gpu007", Told(judged=judged))
    ended = _after_turn(planned, Outcome("gpu007", Brought("a reboot", given_back=False))).get()
    assert (ended.judged, ended.before) == (None, judged)
    assert ended.steps == ("carried out; a reboot, and the node stays cordoned",)
    why = ApplyError("gpu007: step 3 ended with status 1")
    assert _after_turn(planned, Outcome("gpu007", error=why)) == Outcome("gpu007", error=why)
    assert _after_turn(planned, None) == planned
    as_wanted = Outcome("gpu007", Brought("", given_back=True))
    assert _after_turn(planned, as_wanted).get().steps == ("as wanted",)
    left = Outcome("gpu007", Brought("", given_back=False))
    assert _after_turn(planned, left).get().steps == ("as wanted; cordoned by others, and left so",)
    unread: Outcome[Told] = Outcome("gpu007", error=why)
    assert _after_turn(unread, as_wanted) == unread


@pytest.mark.parametrize("way", [("--roll", "--kubeconfig", "kube.conf"), ("--apply",)])
def test_where_all_is_as_wanted_nobody_is_asked_and_nothing_is_rendered(
    log: Path, capsys: pytest.CaptureFixture[str], way: tuple[str, ...]
) -> None:
    log.write_text(f"gdr-toolkit: node gpu007: probe\n{node().dump()}")
    argv = ["gdr", "kubernetes", *way, "--from", str(log), "--image", IMAGE]
    Gdr(namespace=verbs()).run(argv, exit=False)
    told = capsys.readouterr()
    assert "kind:" not in told.out
    assert "batch" not in told.out + told.err
    assert asked(log) == (["get"] if "--roll" in way else [])


@pytest.mark.parametrize(
    ("plan", "pending", "code"),
    [
        (Told_(blocked=("x",), empty=False), True, ExitCode.UNKNOWN),
        (Told_(blocked=("x",), empty=True), False, ExitCode.UNKNOWN),
        (Told_(blocked=(), empty=False), True, ExitCode.PENDING),
        (Told_(blocked=(), empty=False), False, ExitCode.OK),
        (Told_(blocked=(), empty=True), True, ExitCode.OK),
    ],
)
def test_a_plan_ends_with_what_is_open_then_with_what_is_pending(
    plan: Any, pending: bool, code: ExitCode
) -> None:
    planned: Any = Outcome("gpu007", Told_(plan=plan))
    assert _code(planned, pending=pending) is code
    assert _code(Outcome("gpu007", error=UsageError("x")), pending=pending) is ExitCode.USAGE
