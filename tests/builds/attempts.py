"""Builds aside that are tried and may fail, by the script that nodes and builders have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.builds.sandbox import Sandbox
from tests.builds.stubs import Stub
from toolkit.checks.kernel.build_failures import Explained, cause_of, explain

ROOT = Path(__file__).parents[2]
SCRATCH = "/var/tmp/aside"  # where a full disk can be mounted without harm


@dataclass(frozen=True, slots=True)
class Attempt:
    """A build aside that was tried."""

    status: int  # what dkms ended with
    said: tuple[str, ...]  # what it printed, then the make.log
    explained: Explained
    row: str  # id of the row that matched; "" for none
    gated: str  # what gate.sh said of the modules; "" where there are none, or all are good


def attempt(box: Sandbox, package: Stub, kernel: str) -> Attempt:
    """Build a package aside, by the script that nodes and builders have, and explain the end."""
    parts = ("gate.sh", "aside.sh")
    script = "".join((ROOT / "templates/dkms" / part).read_text() for part in parts)
    box.write("/root/aside.sh", script)
    done = box.run(
        *("sh", "-c", '. /root/aside.sh; aside "$@"', "-"),
        *(SCRATCH, kernel, package.package, package.version),
        check=False,
    )
    log = box.path(f"{SCRATCH}/make.log")
    text = done.out + (log.read_text(errors="replace") if log.exists() else "")
    gated = ""
    if done.status == 0:
        files = [f"/{each.relative_to(box.root)}" for each in
                 sorted(box.path(f"{SCRATCH}/result").resolve().glob("*.ko*"))]  # fmt: skip
        gated = box.run(
            "sh", "-c", '. /root/aside.sh; gate "$@"', "-", kernel, *files, check=False
        ).out
        text += gated
    lines = tuple(text.split("\n"))
    matched = cause_of(lines)
    version = box.run("dkms", "--version", check=False).out
    found = re.search(r"\d+(\.\d+)+", version)
    return Attempt(
        done.status,
        lines,
        explain(lines, done.status, found[0] if found else ""),
        matched[0].id if matched else "",
        gated,
    )


def held(box: Sandbox) -> dict[str, str]:
    """Every file of DKMS's tree and of the modules that it installed, by its hash."""
    roots = (box.path("var/lib/dkms"), *box.path("usr/lib/modules").glob("*/updates"))
    return {
        str(path): sha256(path.read_bytes()).hexdigest()
        for root in roots
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
