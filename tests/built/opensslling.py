"""An OpenSSL of our own, which says what a test lays there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.built.io.openssl import PIN

# Notes words, environment and what is on its pipe; says what lies there for each kind of call.
PROGRAM = """#!/bin/sh
what=$1
[ "$1" = cms ] && what=$2
printf '%s\\n' "$*" >>"$SSL/log"
env >"$SSL/env.$what"
for each; do
    [ "$last" = -passin ] && cat "/proc/$$/fd/${each#fd:}" >"$SSL/secret"
    [ "$last" = -signer ] && cat "$each" >"$SSL/pem"
    [ "$last" = -in ] && cat "$each" >"$SSL/message"
    last=$each
done
cat >"$SSL/input.$what"
cat "$SSL/out.$what" 2>/dev/null
cat "$SSL/err.$what" >&2 2>/dev/null
exit "$(cat "$SSL/status.$what" 2>/dev/null || echo 0)"
"""


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def say(self, what: str, out: str = "", err: str = "", status: int = 0) -> None:
        (self.folder / f"out.{what}").write_text(out)
        (self.folder / f"err.{what}").write_text(err)
        (self.folder / f"status.{what}").write_text(str(status))

    def told(self, name: str) -> str:
        return (self.folder / name).read_text()

    def environment(self, what: str) -> dict[str, str]:
        rows = (line.partition("=") for line in self.told(f"env.{what}").split("\n"))
        return {key: value for key, _, value in rows}

    @property
    def log(self) -> list[str]:
        return self.told("log").split("\n")[:-1]


def lay_openssl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Put it first on the path, in an environment that is not to count."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/openssl").write_text(PROGRAM)
    (tmp_path / "bin/openssl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("SSL", str(tmp_path))
    monkeypatch.setenv(PIN, "of the environment")
    monkeypatch.setenv("LC_ALL", "xx_XX")
    return Program(tmp_path)
