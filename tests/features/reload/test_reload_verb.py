"""The verb: what it refuses, what it does, what it prints and what it ends with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from tests.invoked import here
from tests.scripts.depending import first, make, process, put, reloadable
from toolkit.errors import ExitCode
from toolkit.features.reload import cli
from toolkit.hosts.host import Host
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet

ROOT = Path(__file__).parents[3]
UVERBS = "/dev/infiniband/uverbs0"


class Node:
    """A tree that answers as a node."""

    name = "gpu01"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.begins: list[str] = []  # files to be there once the node was looked at, one by one

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        if "gdr_reload" in script and self.begins:
            process(self.root, 50 + len(self.begins), self.begins.pop(), UVERBS)
        done = subprocess.run(
            ["sh", "-s"],
            input=script,
            env={
                "PATH": first(self.root),
                "GDR_ROOT": str(self.root),
                "GDR_BIN": f"{self.root}/bin",
                "SSH_CONNECTION": "192.0.2.1 40000 198.51.100.7 22",
            },
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """Nothing is open."""

    @property
    def calls(self) -> list[str]:
        file = self.root / "calls"
        return file.read_text().split("\n")[:-1] if file.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(reloadable(make(tmp_path / "node")))


class Run:
    """``gdr reload --hosts gpu01 --quiet WORDS``: the exit code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str) -> int:
        return here(self._monkeypatch, "reload", "--hosts", "gpu01", "--quiet", *words)


@pytest.fixture
def run(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    @contextmanager
    def opened(_: object) -> Iterator[Fleet]:
        yield Fleet((Host("gpu01"),), lambda _: node, Access())

    monkeypatch.setattr(cli, "fleet", opened)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Run(monkeypatch)


def test_check_says_what_would_go_and_touches_nothing(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--what", "driver", "--check") == ExitCode.PENDING
    told = capsys.readouterr().out
    assert "gpu01  would be reloaded" in told
    assert "  out   nvidia_peermem nvidia_uvm nvidia\n" in told
    assert "used by nvidia_peermem, nvidia_uvm\n" in told
    assert node.calls == []


def test_it_reloads_and_says_so(run: Run, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--what", "peermem", "--yes") == ExitCode.OK
    assert node.calls == ["rmmod nvidia_peermem", "modprobe nvidia_peermem"]
    assert "gpu01  reloaded" in capsys.readouterr().out


def test_a_job_is_named_and_nothing_is_touched(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    process(node.root, 42, "python3", UVERBS)
    assert run("--yes") == ExitCode.STOPPED
    told = capsys.readouterr().out
    assert f"python3, pid 42 of alice, job 42 has {UVERBS} open" in told
    assert "--over job:python3" in told
    assert node.calls == []


def test_who_names_the_job_goes_over_it(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    process(node.root, 42, "python3", UVERBS)
    assert run("--yes", "--over", "job:python3") == ExitCode.OK
    assert "over  job:python3, as was said" in capsys.readouterr().out
    assert len(node.calls) == 2


def test_another_job_is_not_meant(run: Run, node: Node) -> None:
    process(node.root, 42, "python3", UVERBS)
    process(node.root, 43, "a.out", UVERBS)
    assert run("--yes", "--over", "job:python3") == ExitCode.STOPPED
    assert node.calls == []


def test_the_interface_of_our_session_is_named(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = (node.root / "proc/modules").read_text()
    put(node.root, "proc/modules", loaded + "mlx5_core 9 0 - Live 0x0\n")
    dep = node.root / "lib/modules/6.8.0-45-generic/modules.dep"
    dep.write_text(dep.read_text() + "kernel/mlx5_core.ko.zst:\n")
    assert run("--what", "rdma", "--yes") == ExitCode.STOPPED
    told = capsys.readouterr().out
    assert "our SSH session from 192.0.2.1 comes over ens1np0, which mlx5_core drives" in told
    assert node.calls == []
    assert run("--what", "rdma", "--yes", "--over", "ssh:ens1np0") == ExitCode.USAGE
    assert "needs --reboot" in capsys.readouterr().err
    assert node.calls == []


def test_a_job_that_begins_meanwhile_is_left_alone(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.begins = ["late"]
    assert run("--yes") == ExitCode.STOPPED
    assert "late, pid 51 of alice" in capsys.readouterr().out
    assert node.calls == []


def test_a_node_that_comes_to_no_rest_is_left_alone(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.begins = ["same"] * 9
    assert run("--yes", "--over", "job:same") == ExitCode.STOPPED
    assert "who depends on the modules has changed" in capsys.readouterr().out
    assert node.calls == []


def test_what_does_not_load_is_told(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    put(node.root, "fails", "nvidia_peermem\n")
    assert run("--yes") == ExitCode.STOPPED
    told = capsys.readouterr().out
    assert "load nvidia_peermem: failed: modprobe: ERROR: could not insert" in told
    assert "not loaded now: nvidia_peermem" in told


def test_what_nobody_knows_ends_as_unknown(run: Run, node: Node) -> None:
    (node.root / "bin/ip").unlink()
    assert run("--yes") == ExitCode.UNKNOWN
    assert node.calls == []


def test_nothing_loaded_is_nothing_to_do(run: Run, node: Node) -> None:
    assert run("--what", "rdma", "--yes") == ExitCode.OK
    assert node.calls == []


def test_it_asks_before_it_acts(run: Run, node: Node) -> None:
    assert run() == ExitCode.USAGE
    assert node.calls == []


@pytest.mark.parametrize("words", [("--check",), ("--yes",)], ids=["check", "done"])
def test_the_document_keeps_its_schema(
    run: Run, node: Node, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    process(node.root, 42, "python3", UVERBS)
    assert run("--json", *words) == ExitCode.STOPPED
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((ROOT / "docs/report.schema.json").read_text()))
    [host] = told["hosts"]
    assert host["reload"]["result"] == "refused"
    assert [each["over"] for each in host["reload"]["obstacles"]] == ["job:python3"]
