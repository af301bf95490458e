"""Files that are made from others: pages from the code, locks from pyproject.toml."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from dev import bill, reference
from dev.lab import rows
from dev.run import ROOT
from toolkit import __version__
from toolkit.checks.all import ALL
from toolkit.cli import table
from toolkit.errors import Unsupported

# uv writes the command into the head of a lock; ours is the one to repeat, and names no host.
_COMPILE = (
    *("uv", "pip", "compile", "--quiet", "--upgrade", "--generate-hashes"),
    *("--universal", "--python-version", "3.11"),  # one lock for every machine
    *("--no-emit-index-url", "--no-emit-find-links"),
    *("--custom-compile-command", "./invokew lock"),
)


_LOCK = "requirements.lock"
_ACCEPTED = "GDR_ACCEPT"  # named by the tests that then write what they would compare with


def texts() -> Mapping[str, str]:
    """What each generated file should hold, by its path in the project."""
    lock = (ROOT / _LOCK).read_text()
    return {
        "docs/checks.md": reference.page(ALL),
        "docs/boxes.md": rows.page(),
        "toolkit/cli/verbs.json": table.written(),
        bill.FILE: bill.bill(__version__, lock),
    }


def pages(root: Path, *, dry: bool = False) -> tuple[str, ...]:
    """Write the pages that are not as they should be; gives their paths.

    :param dry: write nothing, only tell.
    """
    stale = {
        path: text
        for path, text in texts().items()
        if not (root / path).exists() or (root / path).read_text() != text
    }
    for path, text in stale.items() if not dry else ():
        (root / path).write_text(text)
    return tuple(stale)


def goldens(*, evidence: bool = False) -> tuple[tuple[str, ...], ...]:
    """The commands that renew what tests compare with.

    :param evidence: what the probe reads of the demo nodes, too, on which much of it rests.
    """
    files = [str(each.relative_to(ROOT)) for each in sorted((ROOT / "tests").rglob("test_*.py"))]
    comparing = [each for each in files if _ACCEPTED in (ROOT / each).read_text()]
    capture = ((sys.executable, "-m", "tests.evidence.capture"),) if evidence else ()
    tests = (sys.executable, "-m", "pytest", "-q", "-n", "0", *comparing)
    return (*capture, ("env", f"{_ACCEPTED}=1", *tests))


def locks() -> tuple[tuple[str, ...], ...]:
    """The commands that make the locks; each keeps to what the first chose.

    :raises Unsupported: without uv, which alone locks for every platform at once.
    """
    if shutil.which("uv") is None:
        raise Unsupported("lock files are made by uv, and it is not here", hint="pip install uv")
    runtime, development = _LOCK, "requirements-dev.lock"
    # Tools of tests, in environments of their own: nothing of ours is imported there.
    apart = ("tests/bmc/emulator", "tests/fleet/ansible", "tests/kube/schemas")
    return (
        (*_COMPILE, "pyproject.toml", "--output-file", runtime),
        (*_COMPILE, "--group", "dev", "--constraints", runtime, "--output-file", development),
        *(
            (*_COMPILE, f"{name}.in", "--constraints", runtime, "--output-file", f"{name}.lock")
            for name in apart
        ),
        # Peers that pin what we have in newer versions: they share nothing with us.
        (*_COMPILE, "tests/bench/peers.in", "--output-file", "tests/bench/peers.lock"),
    )
