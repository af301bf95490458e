"""The table of GPUs and HCAs, of simulated nodes: printed, kept, judged again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from tests import invoked
from toolkit.errors import ExitCode

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/register.schema.json").read_text())
Gdr = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def gdr(tmp_path_factory: pytest.TempPathFactory) -> Gdr:
    state = tmp_path_factory.mktemp("state")
    return lambda *words: invoked.gdr("exercise", "--register", *words, state=state)


@pytest.fixture(scope="module")
def ran(gdr: Gdr) -> subprocess.CompletedProcess[str]:
    return gdr("--hosts", "demo-healthy,demo-iommu,demo-stub,demo-kernel")


def test_hosts_alike_have_one_table(ran: subprocess.CompletedProcess[str]) -> None:
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("simulated:")
    assert lines[1].startswith("demo-healthy,demo-iommu:")
    first = next(line for line in lines if line.startswith("  mlx5_0"))
    assert first.split() == ["mlx5_0", "EBADF", *["dvp"] * 8]
    assert all(len(line) <= 100 for line in lines)


def test_each_way_that_is_refused_has_its_dot_and_its_cause(
    ran: subprocess.CompletedProcess[str],
) -> None:
    of_stub = ran.stdout.partition("demo-stub:")[2].partition("demo-kernel:")[0]
    assert of_stub.splitlines()[2].split() == ["mlx5_0", "EBADF", *["..."] * 8]
    assert "EFAULT: no peer-memory client took the" in of_stub
    assert ran.returncode == ExitCode.FAILED


def test_a_node_of_which_nothing_could_be_tried_is_unknown(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-kernel")
    assert done.returncode == ExitCode.UNKNOWN
    assert "libcuda: cuInit CUDA_ERROR_NO_DEVICE" in done.stdout


def test_the_document_has_every_pair_and_its_cause(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-stub,demo-healthy", "--json")
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    stub, healthy = (
        next(e for e in told["hosts"] if e["host"] == f"demo-{name}")
        for name in ("stub", "healthy")
    )
    assert {each["said"] for each in healthy["pairs"]} == {"ok"}
    assert len(healthy["pairs"]) == 8 * 8 * 3
    assert {(e["way"], e["said"]) for e in stub["pairs"]} == {("peermem", "EFAULT")}
    assert all(each["cause"].startswith("EFAULT: no peer-memory") for each in stub["pairs"])


def test_what_was_kept_is_judged_again_with_no_host(gdr: Gdr) -> None:
    first = gdr("--hosts", "demo-stub", "--json")
    folder = first.stderr.split("kept in ")[1].splitlines()[0]
    again = gdr("--from", folder, "--json")
    assert again.returncode == first.returncode
    assert json.loads(again.stdout)["hosts"] == json.loads(first.stdout)["hosts"]


def test_a_library_without_a_registration_is_refused(tmp_path: Path) -> None:
    named = ("--libibverbs", "/opt/libibverbs.so.1")
    done = invoked.gdr("verify", "--hosts", "demo-healthy", *named, state=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "--register" in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--hosts", "demo-healthy", "--inside", "podman:train"), "data is moved by the node's"),
        (("--register", "--from", ".", "--inside", "podman:train"), "has what was looked into"),
        (("--register", "--hosts", "demo-healthy", "--inside", "image:x"), "nothing is run"),
    ],
)
def test_what_cannot_be_tried_in_a_container_is_refused(
    words: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    done = invoked.gdr("exercise", *words, state=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert why in done.stderr
    assert "--register" in done.stderr or "--from" in words


def test_a_dry_run_allocates_nothing(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-healthy", "--check")
    assert done.returncode == ExitCode.PENDING
    assert "would be given 2 MiB of each GPU" in done.stdout
    assert "mlx5_0" not in done.stdout
