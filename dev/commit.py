"""Hatchling's hook: a wheel and an sdist carry the commit that they were made of.

Without git, and in what is built from an sdist, which has the file, nothing is added.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE = "toolkit/commit.txt"  # which toolkit.package_data reads


class CommitHook(BuildHookInterface[Any]):
    """Names the commit of a checkout; Any: hatchling's own parameter."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file. Any: hatchling's own."""
        del version
        words = ("git", "-C", self.root, "describe", "--always", "--dirty", "--exclude=*")
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError:
            return
        root = Path(self.root)
        if done.returncode or not (root / ".git").exists() or (root / FILE).exists():
            return
        file = Path(tempfile.mkdtemp(prefix="gdr-commit-"), "commit.txt")
        file.write_text(done.stdout)
        self._made = file
        build_data["force_include"][str(file)] = FILE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind. Any: as above."""
        del version, build_data, artifact_path
        if file := getattr(self, "_made", None):
            file.unlink()
            file.parent.rmdir()
