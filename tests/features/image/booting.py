"""Programs that stand in for QEMU's, and a machine for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.features.image.boot.qemu import QemuMachine

Fake = Callable[[str, str], None]


def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Programs of our own, and no others: name and what sh does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "sleep", "cat"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


def machine(folder: Path) -> QemuMachine:
    return QemuMachine(
        folder / "disk,1.qcow2", "qcow2", folder, 2222, folder / "credential", folder / "seed"
    )
