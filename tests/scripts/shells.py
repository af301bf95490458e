"""Running scripts of ours, or parts of them, by each shell that nodes may have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from toolkit.node.scripts import FOLDER

REACH = FOLDER
SHARE = 10  # one of so many cases is run by busybox and bash, too


def say(shell: tuple[str, ...], script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell, "-s"], input=script, env={"PATH": os.environ["PATH"], **variables},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def parts(*names: str) -> str:
    return "\n".join((REACH / name).read_text() for name in names)


@dataclass(frozen=True, slots=True)
class Case:
    """A test of a script, by one shell."""

    name: str  # pytest's whole one
    file: str
    shell: str  # "" for what is run by no other
    same: Hashable = None  # equal where all but the shell is


def usual(cases: Sequence[Case]) -> list[bool]:
    """Which cases a run takes that does not ask for every shell: a tenth of each other shell's.

    All are taken that dash runs, or that it does not have; of each file the same tenth every
    time, and at least one.
    """
    by_dash = {(case.file, case.same) for case in cases if case.shell == "dash"}
    others: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if case.shell not in {"", "dash"} and (case.file, case.same) in by_dash:
            others.setdefault((case.file, case.shell), []).append(case.name)
    left: set[str] = set()
    for names in others.values():
        chosen = -(-len(names) // SHARE)
        left.update(sorted(names, key=lambda each: sha256(each.encode()).digest())[chosen:])
    return [case.name not in left for case in cases]
