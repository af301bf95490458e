"""Running scripts of ours, or parts of them, by each shell that nodes may have."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from toolkit.reach import workshop

REACH = Path(workshop.__file__).parent


def say(shell: tuple[str, ...], script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell, "-s"], input=script, env={"PATH": os.environ["PATH"], **variables},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def parts(*names: str) -> str:
    return "\n".join((REACH / name).read_text() for name in names)
