"""Images' files, real squashfs and OCI archives, looked into without being run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.evidence.build import node
from tests.kube.containers import LIBS
from tests.kube.image_files import Changes, archive, layer, layout, saved, squashfs
from tests.kube.test_inside import TODAY, wrong
from toolkit.checks.judged import judge_node
from toolkit.errors import UsageError
from toolkit.verbs.inside import opened_inside
from toolkit.want import Want

pytestmark = [pytest.mark.kube, pytest.mark.podman]
# What the container toolkit mounts when it is run is in no image.
PLAIN: Changes = {f"{LIBS}/libcuda.so.1": None, f"{LIBS}/libcuda.so.580.126.16": None}
ENV = ("NCCL_IB_DISABLE=1", "PATH=/usr/bin:/bin")


FORMS: list[Callable[[Path, Changes, Sequence[str]], Path]] = [squashfs, layout, archive, saved]


def verdict(file: Path) -> dict[str, str]:
    """What is wrong with that image on the healthy node."""
    inside = opened_inside(f"image:{file}")
    return wrong(judge_node("gpu007", node().plus(inside.frames), Want(), TODAY))


@pytest.mark.parametrize("form", FORMS, ids=lambda each: each.__name__)
def test_an_image_with_all_that_a_job_needs_is_well(
    form: Callable[[Path, Changes, Sequence[str]], Path], tmp_path: Path
) -> None:
    assert verdict(form(tmp_path, PLAIN, ("PATH=/bin",))) == {}


@pytest.mark.parametrize("form", FORMS, ids=lambda each: each.__name__)
def test_what_an_image_lacks_and_what_it_sets_is_told(
    form: Callable[[Path, Changes, Sequence[str]], Path], tmp_path: Path
) -> None:
    lacking = {**PLAIN, f"{LIBS}/libibverbs/libmlx5-rdmav34.so": None}
    told = verdict(form(tmp_path, lacking, ENV))
    assert set(told) == {"inside.provider", "nccl.env", "consumer.gdr"}, told
    assert "no provider for mlx5" in told["inside.provider"]
    assert "NCCL_IB_DISABLE=1" in told["nccl.env"]


def test_a_driver_that_was_baked_in_is_told(tmp_path: Path) -> None:
    told = verdict(squashfs(tmp_path, {f"{LIBS}/libcuda.so.1": "libcuda.so.550.54.14"}, ()))
    assert list(told) == ["inside.cuda"]


def test_a_link_in_an_image_leads_to_no_file_of_ours(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("NCCL_KEY=ours\n")
    links = {**PLAIN, "etc/nccl.conf": str(secret), "etc/ld.so.conf": "../../../.." + str(secret)}
    inside = opened_inside(f"image:{layout(tmp_path, links, ())}")
    assert "ours" not in "".join(each.text for each in inside.frames)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"no image", "no image that we know", id="text"),
        pytest.param(b"hsqs" + bytes(200), "unsquashfs: ", id="cut-squashfs"),
        pytest.param(layer({"x": b""}, "w"), "no manifest.json in it", id="a-tar-of-others"),
    ],
)
def test_what_is_no_image_is_said_before_any_node_is_asked(
    content: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match=why):
        opened_inside(f"image:{tmp_path / 'file'}")


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="No such file"):
        opened_inside("image:/nowhere/train.sqsh")


def test_without_unsquashfs_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = squashfs(tmp_path, PLAIN, ())
    monkeypatch.setenv("PATH", str(Path(shutil.which("sh") or "/bin/sh").parent / "none"))
    with pytest.raises(UsageError, match="unsquashfs cannot be run here") as why:
        opened_inside(f"image:{file}")
    assert "squashfs-tools" in why.value.hint
