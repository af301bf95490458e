"""Ansible, which we did not write, as an operator runs it: real ssh, nodes without Python.

ansible-core is under the GPL: it is run as a program, in an environment of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from tests.builds.grounds import cache, kept
from tests.fleet.nodes import Nodes
from toolkit.demo.create import SYSTEM_PATH

_LOCK = Path(__file__).with_name("ansible.lock")
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)
LIMIT_S = 300  # for one run, on a machine that has other work


def _name(lock: Path, package: str) -> str:
    """ "ansible-core-2.19.14": a new lock makes a new environment."""
    line = next(x for x in lock.read_text().split("\n") if x.startswith(f"{package}=="))
    return line.split()[0].replace("==", "-")


def _install(lock: Path, package: str, folder: Path) -> None:
    python = folder / "bin" / "python"
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", str(folder)), check=True)
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet")
    subprocess.run((*pip, "--require-hashes", "-r", str(lock)), check=True)
    # The folder is renamed when it is whole, and ansible-lint starts its programs by name.
    for script in (folder / "bin").glob(f"{package.partition('-')[0]}*"):
        text = script.read_text().replace(str(folder), str(cache() / _name(lock, package)))
        script.write_text(text)


def programs(lock: Path = _LOCK, package: str = "ansible-core") -> Path:
    """The folder of ansible-playbook and its like, or of another lock's, installed once.

    :param package: of the lock, by whose version the environment is called.
    """
    return kept(_name(lock, package), partial(_install, lock, package)) / "bin"


def without_python(folder: Path) -> str:
    """A PATH with every command of this machine but Python."""
    folder.mkdir()
    for place in map(Path, SYSTEM_PATH.split(":")):
        for command in place.iterdir() if place.is_dir() else ():
            link = folder / command.name
            if not command.name.startswith(("python", "pypy")) and not link.is_symlink():
                link.symlink_to(command)
    return str(folder)


@dataclass(frozen=True, slots=True)
class Played:
    """One run of ansible-playbook."""

    exit: int
    text: str

    @property
    def changed(self) -> dict[str, int]:
        """How many tasks changed something, by host; those that were left out are not in it."""
        return {found[1]: int(found[2]) for found in _RECAP.finditer(self.text)}

    @property
    def failed(self) -> set[str]:
        found = _RECAP.finditer(self.text)
        return {each[1] for each in found if int(each[3]) + int(each[4])}


@dataclass(frozen=True, slots=True)
class Ansible:
    """A controller that has Ansible, and of ours nothing but the folder that playbook wrote."""

    folder: Path  # scratch
    site: Path  # what playbook wrote

    def env(self) -> dict[str, str]:
        """Nothing of the user's own configuration, and nothing left in anybody's home."""
        return {key: value for key, value in os.environ.items() if "PYTHON" not in key} | {
            "PATH": f"{programs()}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": tempfile.gettempdir(),  # sockets' names are short
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CONFIG": str(self.folder / "none.cfg"),
            "SSH_AUTH_SOCK": "",
        }

    def run(self, *words: str) -> Played:
        done = subprocess.run(
            words,
            env=self.env(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Played(done.returncode, done.stdout + done.stderr)

    def play(self, name: str, *words: str, **values: str) -> Played:
        """``ansible-playbook`` over one of the plays in the folder."""
        told = {"settle_s": "0", "poll_s": "1", **values}
        extra = [word for key, value in told.items() for word in ("-e", f"{key}='{value}'")]
        play = str(self.site / "playbooks" / f"{name}.yml")
        inventory = str(self.site / "inventory.yml")
        return self.run("ansible-playbook", "-i", inventory, play, *words, *extra)


def prepared(nodes: Nodes, name: str, *words: str) -> Ansible:
    """Have the command line write the folder; then no node has a Python that Ansible could use."""
    scratch = nodes.folder / name
    scratch.mkdir()
    site = scratch / "the site's folder"  # Ansible's own words are split by blanks and quotes
    wrote = nodes.run("playbook", "--out", str(site), *words)
    assert wrote.returncode == 0, wrote.stdout + wrote.stderr
    file = site / "inventory.yml"
    inventory = yaml.safe_load(file.read_text())
    for values in inventory["all"]["hosts"].values():
        values["ansible_python_interpreter"] = "/nowhere/python"
    file.write_text(yaml.safe_dump(inventory))
    return Ansible(scratch, site)
