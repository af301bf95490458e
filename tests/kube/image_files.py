"""Files of images, made for tests: squashfs, an OCI layout and its archive, docker save."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kube.containers import FILES, laid_out

Changes = Mapping[str, bytes | str | None]


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
