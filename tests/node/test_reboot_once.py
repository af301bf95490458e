"""A reboot is asked for the boot that it ends: asked twice, a node reboots once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import ApplyError, TransportError
from toolkit.node import reboot as asking
from toolkit.node.reboot import note, reboot
from toolkit.ssh.transport import Result, Sink, quiet


class Tree:
    """A node that is a folder; its reboot writes another boot id and counts."""

    name = "gpu07"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.boot_id = folder / "proc/sys/kernel/random/boot_id"
        self.boot_id.parent.mkdir(parents=True)
        self.boot_id.write_text("one\n")
        program = folder / "bin/reboot"
        program.parent.mkdir()
        # The boot id comes last: it is what shows that the reboot is over.
        program.write_text(f"#!/bin/sh\necho reboot >>{folder}/count\necho two >{self.boot_id}\n")
        program.chmod(0o755)
        (folder / "bin/systemctl").symlink_to("/bin/false")

    @property
    def reboots(self) -> int:
        count = self.folder / "count"
        return count.read_text().count("reboot") if count.exists() else 0

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        settings = os.environ | {"GDR_ROOT": str(self.folder), "GDR_BIN": str(self.folder / "bin")}
        ended = subprocess.run(
            ["/bin/sh", "-s"],
            input=script.replace("sleep 1", ":"),
            env=settings,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Result(ended.returncode, ended.stdout, ended.stderr)

    def close(self) -> None: ...


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(asking, "_POLL_S", 0.02)
    return Tree(tmp_path)


def test_the_boot_that_was_read_is_ended(node: Tree) -> None:
    assert reboot(node, "one", limit_s=60) == "two"
    assert node.reboots == 1


def test_a_later_boot_is_left_alone(node: Tree) -> None:
    reboot(node, "one", limit_s=60)
    assert reboot(node, "one", limit_s=60) == "two"
    assert node.reboots == 1


def test_a_node_that_boots_is_asked_at_intervals(
    node: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sshd counts who knocks, and a site's firewall bans who knocks too often."""
    monkeypatch.setattr(asking, "restart", lambda *_, **__: None)  # and it never comes back
    asked: list[str] = []

    def run(script: str, **_: object) -> Result:
        asked.append(script)
        return Result(255, "", "")

    monkeypatch.setattr(node, "run", run)
    with pytest.raises(TransportError, match="was not back within 0 s"):
        reboot(node, "one", limit_s=0.1)
    assert 0 < len(asked) <= 6


class Stale(Tree):
    """The first question after its reboot meets it down, on a connection that never comes back."""

    went, dead = False, False

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        if self.reboots and not self.went:
            self.went = self.dead = True
        if self.dead:
            raise TransportError("gpu07: the connection is gone")
        return super().run(script, limit_s=limit_s, sink=sink)

    def close(self) -> None:
        self.dead = False


def test_a_connection_that_died_with_the_node_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_POLL_S", 0.02)
    assert reboot(Stale(tmp_path), "one", limit_s=60) == "two"


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (Result(0, "noted\n", ""), ""),
        (Result(0, "", ""), "trials cannot be written: 0"),
        (Result(1, "noted\n", "no room\n"), "trials cannot be written: no room"),
        (Result(1, "", ""), "trials cannot be written: 1"),
    ],
)
def test_a_trial_that_is_not_written_down_is_not_begun(ended: Result, says: str) -> None:
    node: Any = SimpleNamespace(name="gpu1", run=lambda *_, **__: ended)
    if not says:
        note(node, "id", "open")
        return
    with pytest.raises(ApplyError, match=says):
        note(node, "id", "open")
