"""A box as a container's disk: podman loads the image and gives the disk back."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from dev.lab import exported
from tests.kube.containers import podman_in
from toolkit import __version__

pytestmark = [pytest.mark.kube, pytest.mark.podman]


def test_podman_loads_it_and_gives_the_disk_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, key = tmp_path / "disk.raw", tmp_path / "a-key"
    disk.write_bytes(b"system" * 100)
    key.write_text("secret")
    monkeypatch.setattr(exported, "login", lambda: key)
    monkeypatch.setattr(exported, "_convert", lambda disk, target, *_: shutil.copy(disk, target))
    exported._pack_oci(tmp_path / "made", "acs", disk, tmp_path)
    name = f"localhost/gdr-toolkit/acs:{__version__}"
    with tempfile.TemporaryDirectory(prefix="gdr-pod-", dir="/tmp") as folder:
        podman = podman_in(Path(folder))
        loaded = podman("load", "--quiet", "--input", str(tmp_path / "made"))
        assert loaded.stdout == f"Loaded image: {name}\n", loaded.stderr
        made = podman("create", "--name", "disk", name, "/none")
        assert made.returncode == 0, made.stderr
        podman("cp", "disk:/disk/acs.qcow2", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == disk.read_bytes()
