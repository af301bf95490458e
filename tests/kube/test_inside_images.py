"""Images' files, real squashfs and OCI archives, looked into without being run."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.evidence.build import node
from tests.kube.containers import FILES, LIBS, laid_out
from tests.kube.test_inside import TODAY, wrong
from toolkit.checks.judged import judge_node
from toolkit.errors import UsageError
from toolkit.verbs.inside import opened_inside
from toolkit.want import Want

pytestmark = [pytest.mark.kube, pytest.mark.podman]
Changes = Mapping[str, bytes | str | None]
# What the container toolkit mounts when it is run is in no image.
PLAIN: Changes = {f"{LIBS}/libcuda.so.1": None, f"{LIBS}/libcuda.so.580.126.16": None}
ENV = ("NCCL_IB_DISABLE=1", "PATH=/usr/bin:/bin")


def squashfs(folder: Path, changes: Changes, env: Sequence[str]) -> Path:
    """As enroot imports one: what the image's configuration sets is in /etc/environment."""
    said = {"etc/environment": "".join(f"{each}\n" for each in env).encode()}
    root = laid_out(folder / "root", {**changes, **said})
    file = folder / "train.sqsh"
    subprocess.run(("mksquashfs", root, file, "-quiet", "-no-progress"), check=True)
    return file


def blob(folder: Path, data: bytes) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    place = folder / "blobs" / "sha256" / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data), "mediaType": "x"}


def layer(files: Changes, how: str = "w:gz") -> bytes:
    """A tar of these; None is a whiteout, as a layer has it for what those below it have."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=how) as tar:  # type: ignore[call-overload] # a mode by name
        for name, content in files.items():
            folder, _, base = name.rpartition("/")
            about = tarfile.TarInfo(f"./{name}" if content is not None else f"{folder}/.wh.{base}")
            data = content if isinstance(content, bytes) else b""
            if isinstance(content, str):
                about.type, about.linkname = tarfile.SYMTYPE, content
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return held.getvalue()


def layout(folder: Path, changes: Changes, env: Sequence[str]) -> Path:
    """Two layers: all that an image should have, and what differs; the second packed by zstd."""
    place = folder / "layout"
    place.mkdir()
    upper = subprocess.run(
        ("zstd", "-q"), input=layer(changes, "w"), capture_output=True, check=True
    ).stdout
    layers = [blob(place, layer(FILES)), blob(place, upper)]
    config = blob(place, json.dumps({"config": {"Env": list(env)}}).encode())
    manifest = blob(place, json.dumps({"config": config, "layers": layers}).encode())
    (place / "index.json").write_text(json.dumps({"manifests": [manifest]}))
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return place


def archive(folder: Path, changes: Changes, env: Sequence[str]) -> Path:
    place = layout(folder, changes, env)
    file = folder / "train.tar"
    with tarfile.open(file, "w") as tar:
        for each in sorted(place.rglob("*")):
            tar.add(each, str(each.relative_to(place)), recursive=False)
    return file


def saved(folder: Path, changes: Changes, env: Sequence[str]) -> Path:
    """As docker save writes it."""
    (folder / "config.json").write_text(json.dumps({"config": {"Env": list(env)}}))
    (folder / "1.tar").write_bytes(layer(FILES, "w"))
    (folder / "2.tar").write_bytes(layer(changes, "w"))
    told = [{"Config": "config.json", "RepoTags": ["train"], "Layers": ["1.tar", "2.tar"]}]
    (folder / "manifest.json").write_text(json.dumps(told))
    file = folder / "saved.tar"
    with tarfile.open(file, "w") as tar:
        for name in ("manifest.json", "config.json", "1.tar", "2.tar"):
            tar.add(folder / name, name)
    return file


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
