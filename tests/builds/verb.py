"""The verb ``build`` as a process of its own, over a tree with a driver and OFED in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builds.sandbox import Sandbox

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """One whole process of ``build``."""

    told: dict[str, Any]  # Any: JSON
    code: int
    seconds: float
    cpu_s: float  # of it and all that it waited for
    err: str

    @property
    def states(self) -> dict[str, str]:
        return {each["part"]: each["state"] for each in self.told["builds"]}

    def of(self, part: str) -> dict[str, Any]:  # Any: JSON
        found: dict[str, Any] = next(e for e in self.told["builds"] if e["part"] == part)
        return found

    @property
    def module(self) -> str:
        """The hash of nvidia-peermem.ko."""
        files = self.of("peermem")["files"]
        return str(next(e["sha256"] for e in files if e["name"] == "nvidia-peermem.ko"))


def begin(folder: Path, box: Sandbox, *words: str) -> subprocess.Popen[str]:
    what = ["--root", str(box.root), "--kernel", box.kernel("6.1."), "--part", "peermem"]
    return subprocess.Popen(
        [sys.executable, "-m", "toolkit.cli", "build", *what, "--json", *words],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def build(folder: Path, box: Sandbox, *words: str, limit_s: float = 300) -> Ended:
    before, begun = os.times(), time.monotonic()
    with begin(folder, box, *words) as run:
        out, err = run.communicate(timeout=limit_s)
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    assert out, err
    return Ended(json.loads(out), run.returncode, time.monotonic() - begun, spent, err)


def entry(folder: Path, ended: Ended) -> Path:
    return folder / "gdr-toolkit/builds" / str(ended.of("peermem")["digest"])
