"""Small demo nodes for tests to change: each a clone whose commands run under one shell."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from toolkit.demo.create import environment
from toolkit.demo.nodes import UBUNTU_KERNEL
from toolkit.demo.tree import clone

SHELLS = ["dash", "busybox sh"]
KINDS = {
    "healthy": "demo1",
    "iommu": "demo2",
    "stub": "demo4",
    "kernel": "demo6",
    "rocky": "demo8",
    "acs": "demo-acs",
    "initramfs": "demo-initramfs",
}
PEERMEM = f"lib/modules/{UBUNTU_KERNEL}/updates/dkms/nvidia-peermem.ko"


@dataclass(frozen=True)
class Node:
    """A clone of a small demo node, for one test to change."""

    place: Path

    @property
    def tree(self) -> Path:
        return self.place / "tree"

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a line of sh on the node; errors go where output goes."""
        return subprocess.run(
            ["/bin/sh", "-c", script],
            env=environment(self.place),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def ok(self, script: str) -> str:
        done = self.sh(script)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def read(self, path: str) -> str:
        return (self.tree / path).read_text()

    def write(self, path: str, text: str) -> None:
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).unlink(missing_ok=True)
        (self.tree / path).write_text(text)

    def loaded(self, module: str) -> bool:
        return (self.tree / "sys/module" / module).is_dir()


class Nodes:
    """Makes clones whose commands run under one shell."""

    def __init__(self, state: Path, tmp_path: Path, shell: str) -> None:
        self._state, self._tmp_path, self._shell = state, tmp_path, shell

    def __call__(self, kind: str) -> Node:
        source, place = self._state / "nodes" / KINDS[kind], self._tmp_path / kind
        place.mkdir()
        clone(source / "tree", place / "tree")
        (place / "bin").mkdir()
        program, _, word = self._shell.partition(" ")
        first = f"#!{shutil.which(program)} {word}".strip()
        for script in (source / "bin").iterdir():
            text = script.read_text()
            copy = place / "bin" / script.name
            copy.write_text(text.replace("#!/bin/sh", first, 1))
            copy.chmod(0o755)
        return Node(place)


def digest(tree: Path) -> str:
    """Of every path, and of what stands there."""
    found = hashlib.sha256()
    for folder, _, files in sorted(os.walk(tree)):
        for name in sorted(files):
            path = Path(folder, name)
            found.update(f"{path.relative_to(tree)}\n".encode())
            found.update(str(path.readlink()).encode() if path.is_symlink() else path.read_bytes())
    return found.hexdigest()
