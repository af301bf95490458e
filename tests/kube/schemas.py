"""Kubernetes' own schemas of many versions, and yamllint, in an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.builds.grounds import kept

_LOCK = Path(__file__).parent / "schemas.lock"


def _install(folder: Path) -> None:
    where = folder / "venv"
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", str(where)), check=True)
    pip = (sys.executable, "-m", "pip", "--python", str(where / "bin" / "python"), "install")
    subprocess.run((*pip, "--quiet", "--require-hashes", "-r", str(_LOCK)), check=True)


def _program(module: str) -> tuple[str, ...]:
    """A program of that environment, which the tests' cache keeps; a new lock makes a new one."""
    digest = sha256(_LOCK.read_bytes()).hexdigest()[:12]
    where = kept(f"kubernetes-schemas-{digest}", _install)
    return (str(where / "venv" / "bin" / "python"), "-m", module)


def validated(folder: Path, version: str) -> tuple[int, str]:
    """Every manifest of a folder against the schemas of one version, unknown fields refused.

    :returns: the status, and what was said.
    """
    files = sorted(map(str, folder.glob("*.yaml")))
    return _ran(*_program("kubernetes_validate"), "-k", version, "--strict", *files)


def linted(folder: Path) -> tuple[int, str]:
    """yamllint, as it comes."""
    return _ran(*_program("yamllint"), "--strict", "-d", "extends: default", str(folder))


def _ran(*argv: str) -> tuple[int, str]:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout
