"""What the program does that clears ACS at boot, by every shell, on a tree of bridges."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.shell

SCRIPT = render_text("acs/acs.sh.j2", {})
PORT, OTHER, BESIDE = "0000:17:00.0", "0000:17:01.0", "0000:17:02.0"
PATH, OTHER_PATH = "0000:15:01.0/00.0/00.0", "0000:15:01.0/00.0/01.0"

# As the real one: prints what it read; a refused write is told on stderr, and ends well.
SETPCI = """#!/bin/sh
at=$root/registers/$2
if [ ! -e "$at" ]; then echo "setpci: $2: Capability 0010000d not found." >&2; exit 1; fi
shift 2
for each; do
    case $each in
        ECAP_ACS+6.w) cat "$at" ;;
        ECAP_ACS+6.w=*)
            if [ -e "$root/locked" ]; then
                echo "pcilib: sysfs_write: write failed: Operation not permitted" >&2
            else
                echo "${each#*=}" >"$at"
            fi
            echo "$each" >>"$root/log" ;;
    esac
done
"""


class Machine:
    """A switch below a root port, with three ports, as sysfs shows it."""

    def __init__(self, folder: Path, shell: tuple[str, ...]) -> None:
        self.folder, self.shell = folder, shell
        (folder / "bin").mkdir()
        (folder / "bin/setpci").write_text(SETPCI.replace("$root", str(folder)))
        (folder / "bin/setpci").chmod(0o755)
        (folder / "registers").mkdir()
        self.plug("0000:16:00.0", "0000:15:01.0")
        for address in (PORT, OTHER, BESIDE):
            self.plug(address, "0000:15:01.0/0000:16:00.0")
            self.sets(address, "001d")
        self.lists(f"002c {PATH}", f"002c {OTHER_PATH}")

    def plug(self, address: str, below: str) -> None:
        """A function, in the tree of devices and in the list of all."""
        bus = self.folder / "sys/bus/pci/devices"
        bus.mkdir(parents=True, exist_ok=True)
        device = self.folder / "sys/devices/pci0000:15" / below / address
        device.mkdir(parents=True)
        for each in (device, device.parent):
            link = bus / each.name
            if not link.is_symlink():
                link.symlink_to(each)

    def lists(self, *lines: str) -> None:
        file = self.folder / "etc/gdr-toolkit/acs"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# bits, bridge\n" + "".join(f"{line}\n" for line in lines))

    def sets(self, address: str, value: str) -> None:
        (self.folder / "registers" / address).write_text(f"{value}\n")

    def registers(self) -> tuple[str, str, str]:
        read = [(self.folder / "registers" / a).read_text().strip() for a in (PORT, OTHER, BESIDE)]
        return (read[0], read[1], read[2])

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.shell, "-s", *words],
            input=SCRIPT,
            env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "GDR_ROOT": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(params=sorted(SHELLS))
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, SHELLS[request.param])


def test_bits_are_cleared_on_the_bridges_of_the_list_alone(machine: Machine) -> None:
    done = machine.run("start")
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.registers() == ("0011", "0011", "001d")
    assert done.stdout == (
        f"{PORT} ({PATH}): ACSCtl 001d -> 0011\n{OTHER} ({OTHER_PATH}): ACSCtl 001d -> 0011\n"
    )


def test_what_was_found_is_given_back(machine: Machine) -> None:
    machine.sets(OTHER, "0015")
    machine.run("start")
    machine.sets(PORT, "0051")  # somebody has set another bit since
    done = machine.run("stop")
    assert (done.returncode, machine.registers()) == (0, ("005d", "0015", "001d"))
    assert machine.run("stop").stdout == ""  # once


def test_a_second_start_finds_nothing_to_do_and_forgets_nothing(machine: Machine) -> None:
    machine.run("start")
    assert "ACSCtl 0011, as it should be" in machine.run("start").stdout
    machine.run("stop")
    assert machine.registers() == ("001d", "001d", "001d")


def test_a_write_that_lockdown_refused_is_no_success(machine: Machine) -> None:
    (machine.folder / "locked").touch()
    done = machine.run("start")
    assert done.returncode == 1
    assert "ACSCtl was to become 0011 and is 001d; lockdown?" in done.stdout
    assert machine.registers() == ("001d", "001d", "001d")


def test_a_bridge_that_has_moved_to_another_bus_is_found(machine: Machine) -> None:
    machine.lists("002c 0000:15:02.0/00.0")
    machine.plug("0000:2a:00.0", "0000:15:02.0")
    machine.sets("0000:2a:00.0", "001d")
    assert "0000:2a:00.0 (0000:15:02.0/00.0): ACSCtl 001d -> 0011" in machine.run("start").stdout


def test_a_bridge_that_is_gone_keeps_no_other_from_being_set(machine: Machine) -> None:
    machine.lists("002c 0000:15:03.0/00.0", "002c 0000:15:01.0/05.0", f"002c {PATH}")
    done = machine.run("start")
    assert done.returncode == 0
    assert done.stdout.count("there is no such bridge today") == 2
    assert machine.registers()[0] == "0011"


def test_a_bridge_without_the_register_is_told(machine: Machine) -> None:
    machine.lists("002c 0000:15:01.0/00.0", f"002c {PATH}")
    done = machine.run("start")
    assert done.returncode == 1
    assert "its ACS control register cannot be read" in done.stdout
    assert machine.registers()[0] == "0011"


def test_what_cannot_be_noted_is_not_written(machine: Machine) -> None:
    (machine.folder / "run").write_text("a file where the folder would be\n")
    done = machine.run("start")
    assert (done.returncode, machine.registers()) == (1, ("001d", "001d", "001d"))


@pytest.mark.parametrize("words", [(), ("status",)])
def test_other_words_do_nothing(machine: Machine, words: tuple[str, ...]) -> None:
    done = machine.run(*words)
    assert (done.returncode, done.stdout) == (64, "acs start|stop\n")
    assert not (machine.folder / "log").exists()
