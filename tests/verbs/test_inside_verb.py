"""doctor and capture with --inside, of simulated nodes and an image's file."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import invoked
from tests.kube.containers import LIBS
from tests.kube.image_files import layer, saved
from toolkit.errors import ExitCode, UsageError
from toolkit.evidence import Evidence
from toolkit.verbs.inside_archives import _unpacked

Gdr = Callable[..., subprocess.CompletedProcess[str]]
LACKS = {
    f"{LIBS}/libcuda.so.1": None,
    f"{LIBS}/libibverbs/libmlx5-rdmav34.so": None,
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of NCCL that is told to take TCP, and without a provider for ConnectX."""
    return saved(tmp_path_factory.mktemp("image"), LACKS, ("NCCL_IB_DISABLE=1",))


@pytest.fixture(scope="module")
def gdr(tmp_path_factory: pytest.TempPathFactory) -> Gdr:
    state = tmp_path_factory.mktemp("state")
    return lambda *words: invoked.gdr(*words, state=state)


def failures(said: str) -> dict[str, str]:
    hosts = json.loads(said)["hosts"]
    return {e["check"]: e["found"] for e in hosts[0]["verdicts"] if e["status"] == "fail"}


def test_an_image_is_judged_on_a_node_and_again_of_what_was_saved(
    gdr: Gdr, image: Path, tmp_path: Path
) -> None:
    where = f"image:{image}"
    plain = gdr("doctor", "--hosts", "demo-healthy", "--json")
    assert failures(plain.stdout) == {}, plain.stderr
    told = gdr("doctor", "--hosts", "demo-healthy", "--inside", where, "--json")
    wrong = failures(told.stdout)
    assert set(wrong) == {"inside.provider", "nccl.env", "consumer.gdr"}, told.stderr
    assert "NCCL 2.27.3: NCCL_IB_DISABLE=1" in wrong["consumer.gdr"]
    out = tmp_path / "out"
    gdr("capture", "--hosts", "demo-healthy", "--inside", where, "--out", str(out))
    kept = Evidence.parse((out / "demo-healthy.evidence").read_text())
    assert kept.text("inside").startswith("kind image\n")
    again = gdr("doctor", "--from", str(out), "--json")
    assert failures(again.stdout) == wrong


def test_a_saved_node_is_judged_with_another_image(gdr: Gdr, image: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    gdr("capture", "--hosts", "demo-healthy", "--out", out)
    told = gdr("doctor", "--from", out, "--inside", f"image:{image}", "--json")
    assert "inside.provider" in failures(told.stdout)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("doctor", "--hosts", "demo", "--wrapper"), "needs more than gdr-node may do"),
        (("doctor", "--hosts", "demo", "--next-boot"), "a kernel that does not run"),
        (("doctor", "--from", "tests/evidence/acs.txt"), "no host is asked"),
        (("capture", "--import", "topo=x"), "with --import no host is asked"),
    ],
)
def test_where_nothing_can_be_looked_into_it_is_refused(
    gdr: Gdr, words: tuple[str, ...], why: str
) -> None:
    told = gdr(*words, "--inside", "docker:train")
    assert told.returncode == 64, told.stderr
    assert why in told.stderr


def test_a_node_without_that_runtime_is_an_error_of_that_host(gdr: Gdr) -> None:
    told = gdr("doctor", "--hosts", "demo-healthy", "--inside", "podman:train")
    assert told.returncode == 4
    assert "there is no podman on the node" in " ".join(told.stdout.split())


def test_layers_that_need_zstd_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "zstd")

    monkeypatch.setattr("subprocess.Popen", missing)
    blobs: Any = "image.tar"
    with pytest.raises(UsageError, match=r"image\.tar: its layers need zstd") as refused:
        list(_unpacked(blobs, io.BytesIO(b"\x28\xb5\x2f\xfd")))
    assert refused.value.hint == "install zstd here"


def test_a_layer_goes_whole_through_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zstd").write_text('#!/bin/sh\n[ "$*" = -dc ] && exec cat\n')
    (tmp_path / "zstd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    blobs: Any = "image.tar"
    found = list(_unpacked(blobs, io.BytesIO(layer({"etc/a": b"x"}, "w"))))
    assert [member.path for member, _ in found] == ["etc/a"]


def test_of_a_container_no_saved_evidence_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = invoked.here(monkeypatch, "doctor", "--inside", "docker:a", "--from", str(tmp_path))
    assert code == ExitCode.USAGE
    assert "--inside docker:a and --from do not go together" in capsys.readouterr().err
