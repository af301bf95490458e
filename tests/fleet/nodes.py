"""Simulated nodes behind real OpenSSH servers, and a controller that is a process of its own.

The demo server is not in play here: what carries the scripts is sshd, what reaches it is
the command line as an operator types it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct, field

from tests import invoked
from tests.fleet.sshd import Keys, Sshd
from toolkit.demo.create import SYSTEM_PATH, environment
from toolkit.demo.fleet import prepare
from toolkit.verbs.provision import SETTLE_S

ROOT = Path(__file__).parents[2]
JUDGING = frozenset({"doctor", "plan", "provision", "verify", "playbook"})
# What a node changes by itself, and the journal that a rollback must keep.
VOLATILE = ("proc", "sys", "run", "dev", "tmp", "var/log", "var/lib/gdr-toolkit", ".node")
# Nodes of the demo have one ill each; here some have files and kernel arguments to be given.
TWICE_ILL = {"demo-iommu", "demo-rocky"}
LOCKING = ("etc/security/limits.d/90-rdma.conf", "etc/systemd/system.conf.d/rdma.conf")
Digest = dict[str, tuple[int, int, int, str]]  # mode, uid, gid, hash or link by path


class Nodes(Struct):
    """Nodes by name, each behind its own sshd."""

    folder: Path
    names: tuple[str, ...]
    servers: dict[str, Sshd] = field(default_factory=dict)

    def tree(self, name: str) -> Path:
        return self.folder / "demo/nodes" / name / "tree"

    @property
    def environment(self) -> dict[str, str]:
        """The controller's own: its state in our folder, nothing of the user's."""
        return os.environ | {
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": str(ROOT),
            "SSH_AUTH_SOCK": "",
        }

    def command(self, verb: str, *words: str, transport: str = "paramiko") -> list[str]:
        """The controller's command line for these nodes."""
        reach = ["--inventory", str(self.folder / "hosts.ini"), "--hosts", ",".join(self.names)]
        ssh = ["--ssh-config", str(self.folder / "ssh_config"), "--transport", transport]
        # Whoever insists on peermem has something to mend on each of them.
        insisting = verb in JUDGING and "--resume" not in words
        path = ["--profile", "peermem"] if insisting else []
        return [sys.executable, "-m", "toolkit.cli", verb, *reach, *ssh, *path, *words]

    def run(
        self, verb: str, *words: str, transport: str = "paramiko"
    ) -> subprocess.CompletedProcess[str]:
        # A run may wait so long for a node that is worse off, twice.
        return self.gdr(
            *self.command(verb, *words, transport=transport)[3:], timeout_s=2 * SETTLE_S + 60
        )

    def gdr(self, *words: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """A verb that names no hosts of its own: they are those of a run, or none."""
        state = self.folder / "state"
        return invoked.gdr(*words, state=state, cwd=self.folder, timeout_s=timeout_s)

    def wait_for_boots(self, limit_s: float = 300) -> None:
        """Wait while any node works for us, is about to reboot, or boots.

        A real node cannot be reached then. Here sshd is no part of the node and would let
        us read one that is half up, which nobody ever will.
        """
        end = time.monotonic() + limit_s
        while self._boots():
            assert time.monotonic() < end, "a boot that does not end"
            time.sleep(0.1)

    def _boots(self) -> bool:
        place = f"GDR_ROOT={self.folder}".encode()
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if not _booting(words) or place not in (process / "environ").read_bytes():
                    continue
            except OSError:  # it has ended meanwhile, or is not ours
                continue
            return True
        return False

    def digest(self) -> dict[str, Digest]:
        """Every file that somebody could miss, by node."""
        return {name: dict(_files(self.tree(name))) for name in self.names}


def _booting(words: list[bytes]) -> bool:
    """A script of a controller that may be gone, the pause before a reboot, or the boot itself."""
    if Path(words[0].decode(errors="replace")).name == "sh" and words[1:2] == [b"-s"]:
        return True
    names = {Path(word.decode(errors="replace")).name for word in words[:2]}
    return words[:2] == [b"sleep", b"1"] or bool(names & {"reboot", "boot"})


def _files(tree: Path) -> Iterator[tuple[str, tuple[int, int, int, str]]]:
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if name.startswith(VOLATILE):
            continue
        status = path.lstat()
        if path.is_symlink():
            content = f"-> {path.readlink()}"
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        elif any(path.iterdir()):
            content = "folder"
        else:
            continue  # an empty folder is nobody's file: dkms leaves them behind
        yield name, (status.st_mode, status.st_uid, status.st_gid, content)


@contextmanager
def served(
    folder: Path, names: Sequence[str], keys: Keys, *, system_path: str = SYSTEM_PATH
) -> Iterator[Nodes]:
    """Make the nodes, start a server for each, write inventory and ssh configuration.

    :param system_path: where nodes find commands beside their own.
    """
    nodes = Nodes(folder, tuple(names))
    # Made once in a session, and copied: no file is shared, as tests write to these in place.
    made, place = keys.user.with_name("demo"), folder / "demo/nodes"
    prepare(made, nodes.names)
    place.mkdir(parents=True)
    subprocess.run(["cp", "-a", *(made / "nodes" / name for name in names), place], check=True)
    inventory, config = [], ["IdentitiesOnly yes", f"IdentityFile {keys.user}"]
    for name in TWICE_ILL & set(names):
        for file in LOCKING:
            (place / name / "tree" / file).unlink()
    with ExitStack() as stack:
        for name in names:
            settings = environment(place / name)
            settings |= {"PATH": f"{place / name / 'bin'}:{system_path}"}
            server = stack.enter_context(Sshd(folder / "sshd" / name, env=settings, keys=keys))
            nodes.servers[name] = server
            inventory.append(f"{name} ansible_host=127.0.0.1 ansible_port={server.port}")
        known = folder / "known_hosts"
        known.write_text("".join(each.known_hosts.read_text() for each in nodes.servers.values()))
        config += [f"UserKnownHostsFile {known}", "GlobalKnownHostsFile /dev/null"]
        (folder / "hosts.ini").write_text("\n".join(inventory) + "\n")
        (folder / "ssh_config").write_text("Host *\n  " + "\n  ".join(config) + "\n")
        yield nodes
