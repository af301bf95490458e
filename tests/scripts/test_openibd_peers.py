"""What a restart of openibd does to nvidia_peermem and nvidia_fs, under every shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.shell

SCRIPT = render_text("openibd/peers.sh.j2", {})


class Machine:
    """A root with modules, and commands that take notes."""

    def __init__(self, folder: Path, shell: tuple[str, ...]) -> None:
        self.folder, self.shell = folder, shell
        (folder / "bin").mkdir()
        for name in ("rmmod", "modprobe"):
            text = f'#!/bin/sh\necho {name} "$@" >>{folder}/log\n! [ -e {folder}/refuse-{name} ]\n'
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)

    def loaded(self, *modules: str) -> None:
        for module in modules:
            (self.folder / "sys/module" / module).mkdir(parents=True)

    def run(self, *words: str) -> str:
        """What it said; it ends well whatever happens."""
        done = subprocess.run(
            [*self.shell, "-s", *words],
            input=SCRIPT,
            env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "GDR_ROOT": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def log(self) -> list[str]:
        """What was called since it was asked last."""
        file = self.folder / "log"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        file.unlink(missing_ok=True)
        return lines


@pytest.fixture(params=sorted(SHELLS))
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, SHELLS[request.param])


def test_both_go_and_come_back_in_order(machine: Machine) -> None:
    machine.loaded("nvidia_peermem", "nvidia_fs", "nvidia")
    machine.run("stop")
    assert machine.log() == ["rmmod nvidia_fs", "rmmod nvidia_peermem"]
    machine.run("start")
    assert machine.log() == ["modprobe nvidia-fs", "modprobe nvidia-peermem"]


def test_nvidia_fs_is_not_loaded_where_it_was_not_before(machine: Machine) -> None:
    machine.loaded("nvidia_peermem")
    machine.run("stop")
    machine.run("start")
    assert machine.log() == ["rmmod nvidia_peermem", "modprobe nvidia-peermem"]
    machine.run("start")  # at boot: nobody has stopped anything
    assert machine.log() == ["modprobe nvidia-peermem"]


def test_what_is_in_use_stays_and_is_named(machine: Machine) -> None:
    machine.loaded("nvidia_peermem", "nvidia_fs")
    (machine.folder / "refuse-rmmod").touch()
    told = machine.run("stop")
    assert "nvidia_peermem is in use and stays" in told
    assert machine.log() == ["rmmod nvidia_fs", "rmmod nvidia_peermem"]  # and nothing by force
    machine.run("start")
    assert machine.log() == ["modprobe nvidia-peermem"]


def test_what_does_not_load_is_named(machine: Machine) -> None:
    (machine.folder / "refuse-modprobe").touch()
    assert machine.run("start") == "nvidia-peermem did not load\n"


@pytest.mark.parametrize("words", [(), ("restart",)])
def test_another_word_does_nothing(machine: Machine, words: tuple[str, ...]) -> None:
    machine.loaded("nvidia_peermem")
    assert machine.run(*words) == "openibd-peers start|stop\n"
    assert machine.log() == []
