"""One host at a distance: the same reading of it, or the same changes to it, by us and by others.

    python -m tests.bench.distance [--rtt 100] [--rounds 3] [--only doctor,clush]
    python -m tests.bench.distance --change [--rtt 20] [--rounds 3]

A relay on loopback hands each byte on half a round trip later, and takes one and a half to open
a connection, as a handshake and the greeting after it do: this needs neither root nor netem. The
window of TCP, which grows from round trip to round trip, is not simulated, for nobody.

With --change all place the eight files of our own bundle for a node that lacks them, and run its
three commands. Before each run the node is as it was, with the files' folders for those who make
none. ``provision`` reads and judges the node before and after, which the others do not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tests.bench.doctor import HEALTHY, ROOT, Contender, Site, compare, named, peers, site
from tests.fleet.ansible import programs

BARE = replace(HEALTHY, autoload=False, hooks=False, memlock=False)  # none of our files
COMMANDS = ("modprobe -r nvidia_peermem", "modprobe nvidia-peermem", "systemctl daemon-reload")
PROFILE = ("--profile", "peermem")


class Distance:
    """A port of its own for each server, behind which that is half a round trip away."""

    def __init__(self, rtt_s: float) -> None:
        self._half_s = rtt_s / 2

    def port(self, server: int) -> int:
        if not self._half_s:
            return server
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, args=(listener, server), daemon=True).start()
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket, server: int) -> None:
        while True:
            near, _ = listener.accept()
            threading.Thread(target=self._serve, args=(near, server), daemon=True).start()

    def _serve(self, near: socket.socket, server: int) -> None:
        time.sleep(3 * self._half_s)  # SYN, its answer, and the acknowledgement
        far = socket.create_connection(("127.0.0.1", server))
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A client speaks as soon as it has a connection: what it said meanwhile is there by now.
        for source, target, first_s in ((near, far, 0.0), (far, near, self._half_s)):
            way = (source, target, first_s)
            threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, first_s: float) -> None:
        """Hand on what comes, each part when it is due; an empty one is the end."""
        coming: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def read() -> None:
            said, takes_s = b"some", first_s
            while said:
                try:
                    said = source.recv(1 << 16)
                except OSError:
                    said = b""
                coming.put((time.monotonic() + takes_s, said))
                takes_s = self._half_s

        threading.Thread(target=read, daemon=True).start()
        with contextlib.suppress(OSError):
            while True:
                due, said = coming.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not said:
                    break
                target.sendall(said)
            target.shutdown(socket.SHUT_WR)


def provision(where: Site) -> list[str]:
    reach = ["--inventory", where.inventory, "--ssh-config", where.ssh_config]
    words = ["provision", *reach, *PROFILE, "--yes", "--quiet", "--json"]
    return [sys.executable, "-m", "toolkit.cli", *words]


def pyinfra(where: Site) -> list[str]:
    inventory, deploy = where.folder / "inventory.py", where.folder / "changes.py"
    lines = ["from pyinfra.operations import files, server"]
    for file, place, mode in placed(where):
        lines.append(f"files.put(src={file!r}, dest={place!r}, mode={mode!r}, user='root')")
    lines += [f"server.shell(commands=[{command!r}])" for command in COMMANDS]
    deploy.write_text("\n".join(lines) + "\n")
    known = {
        "ssh_config_file": where.ssh_config,
        "ssh_known_hosts_file": f"{where.folder}/known_hosts",
    }
    inventory.write_text(f"nodes = {[('n000', known)]!r}\n")
    return [str(peers() / "pyinfra"), "-y", str(inventory), str(deploy)]


def ansible_modules(where: Site) -> list[str]:
    playbook = where.folder / "changes.yml"
    tasks = [
        f"    - copy: {{src: {file}, dest: {place}, mode: '{mode}', owner: root}}\n"
        for file, place, mode in placed(where)
    ]
    tasks += [f"    - command: {command}\n" for command in COMMANDS]
    playbook.write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{''.join(tasks)}")
    return [str(programs() / "ansible-playbook"), "-i", where.inventory, str(playbook)]


def placed(where: Site) -> list[tuple[str, str, str]]:
    """The files of our own bundle for the node: here, there, and their modes."""
    files = sorted(each for each in (where.folder / "bundle/files").rglob("*") if each.is_file())
    steps = (where.folder / "bundle/steps").read_text().split("\n")
    modes = dict(line.split()[1:3] for line in steps if line.startswith("place "))
    found = []
    for file in files:
        path = f"/{file.relative_to(where.folder / 'bundle/files')}"
        found.append((str(file), f"{where.node}/tree{path}", modes[path]))
    return found


CHANGES = (
    Contender("provision, judged before and after", provision),
    Contender("pyinfra, 8 files.put, 3 server.shell", pyinfra),
    Contender("ansible, 8 copy, 3 command", ansible_modules, "ssh"),
)


def bundle(where: Site) -> None:
    """Ours for the node as it is; its files' folders are made, and the node is kept so."""
    captured, out = where.folder / "captured", where.folder / "bundles"
    words = ("--inventory", where.inventory, "--ssh-config", where.ssh_config, "--out")
    gdr(where, "capture", *words, str(captured))
    gdr(where, "bundle", *PROFILE, "--from", str(captured), "--out", str(out))
    next(out.iterdir()).rename(where.folder / "bundle")
    for _, place, _ in placed(where):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", where.node / "tree", where.folder / "before"], check=True)


def gdr(where: Site, *words: str) -> None:
    env = os.environ | {"XDG_STATE_HOME": str(where.folder / "state")}
    command = [sys.executable, "-m", "toolkit.cli", *words, "--quiet"]
    subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)


def restore(where: Site) -> None:
    shutil.rmtree(where.node / "tree")
    subprocess.run(["cp", "-a", where.folder / "before", where.node / "tree"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt", type=float, default=20.0, help="milliseconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="how the contenders' names begin: doctor,clush")
    parser.add_argument("--change", action="store_true", help="change the node")
    chosen = parser.parse_args()
    reached = Distance(chosen.rtt / 1000).port
    print(f"{chosen.rtt:g} ms")
    if not chosen.change:
        with site(1, reached=reached) as where:
            compare(named(chosen.only), where, chosen.rounds)
        return
    with site(1, BARE, reached) as where:
        bundle(where)
        compare(CHANGES, where, chosen.rounds, before=partial(restore, where))


if __name__ == "__main__":
    main()
