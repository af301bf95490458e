"""A checkout in miniature: invokew, its locks, and a PATH of which we know every program."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLAIN = (
    "sh",
    "cat",
    "id",
    "ls",
    "mkdir",
    "rm",
    "mv",
    "cp",
    "readlink",
    "cksum",
    "flock",
    "sleep",
    "tail",
)

# Stands for every Python: the one that is found, and its copy in the environment.
PYTHON = """\
#!/bin/sh
case "$1 $2" in
    "-c "*ensurepip*) echo "$0"; exit "${PROBE:-0}" ;;
    "-c "*flock*) exit 0 ;;
    "-m venv") echo "venv $3" >>"$LOG"; mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
        cp "$0" "$3/bin/python" ;;
    "-m pip") [ "$3" = install ] || exit 0
        for word; do :; done
        echo "pip ${word##*/}" >>"$LOG"; echo "Collecting invoke==3.0.3 (from -r $word (line 1))"
        echo "WARNING: it is slow today" >&2
        [ -z "${SLOW:-}" ] || sleep "$SLOW"
        exit "${PIP:-0}" ;;
    *) shift 2; echo "invoke $* in $PWD with path ${PYTHONPATH:-none}"; exit "${INVOKE:-0}" ;;
esac
"""
UV = """\
#!/bin/sh
for word; do :; done
echo "uv $1 $word" >>"$LOG"
[ "$1" != venv ] || { mkdir -p "$word/bin" "$word/lib/python3.11/site-packages" &&
    cp "${0%/*}/python" "$word/bin/python"; }
exit "${UV:-0}"
"""


@dataclass(frozen=True, slots=True)
class Checkout:
    shell: tuple[str, ...]
    root: Path
    bin: Path  # all of PATH
    home: Path

    @property
    def env(self) -> Path:
        return self.root / ".venv"

    @property
    def log(self) -> list[str]:
        """What was made and installed so far."""
        file = self.home / "log"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def words(self, *arguments: str) -> list[str]:
        return [*self.shell, str(self.root / "invokew"), *arguments]

    def environ(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.home), "LOG": str(self.home / "log")} | more

    def start(self, *arguments: str, **more: str) -> Said:
        done = subprocess.run(
            self.words(*arguments),
            cwd=self.root,
            env=self.environ(**more),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def give(self, name: str, text: str) -> None:
        """Put a program of ours on the PATH."""
        file = self.bin / name
        file.write_text(text)
        file.chmod(0o755)


@dataclass(frozen=True, slots=True)
class Said:
    status: int
    stdout: str
    stderr: str


def make(folder: Path, shell: str) -> Checkout:
    """A checkout with a Python 3.11 called python3 and without uv."""
    words = tuple(
        shutil.which(word) or word if n == 0 else word for n, word in enumerate(shell.split())
    )
    checkout = Checkout(words, folder / "checkout", folder / "bin", folder / "home")
    for each in (checkout.root, checkout.bin, checkout.home):
        each.mkdir()
    shutil.copy(ROOT / "invokew", checkout.root)
    (checkout.root / "requirements.lock").write_text("invoke==3.0.3\n")
    (checkout.root / "requirements-dev.lock").write_text("ruff==0.17.6\n")
    for name in PLAIN:
        real = shutil.which(name)
        if real is not None:
            (checkout.bin / name).symlink_to(real)
    checkout.give("python3", PYTHON)
    return checkout
