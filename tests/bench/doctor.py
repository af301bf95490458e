"""The same reading of 64 nodes, by us and by others, over real sshd on loopback.

    ./invokew bench [--hosts 64] [--rounds 3]

A round runs every contender once, one after the other, so that whatever else the machine
does falls on all of them; what counts are the ratios within a round. All of them run the
same probe on the same simulated node, except the last, which reads some of it by modules. Those
of others lie in environments of their own, which the first run makes from tests/bench/peers.lock
and tests/fleet/ansible.lock.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.ansible import programs
from tests.fleet.sshd import many
from toolkit.demo.create import environment
from toolkit.demo.fleet import prepare
from toolkit.node.collect import probe_script

ROOT = Path(__file__).parents[2]
NODE = "demo-healthy"
READS = tuple(
    f"cat $GDR_ROOT{path}"
    for path in ("/proc/version", "/etc/os-release", "/proc/cmdline", "/proc/modules")
)


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    command: Callable[[Site], list[str]]
    needs: str = ""  # a program of the machine


@dataclass(frozen=True, slots=True)
class Site:
    """What every contender is given."""

    folder: Path
    hosts: int

    @property
    def inventory(self) -> str:
        return str(self.folder / "hosts.ini")

    @property
    def probe(self) -> Path:
        """The probe as one file, for those who want it so."""
        file = self.folder / "probe.sh"
        file.write_text(probe_script())
        return file

    @property
    def ssh_config(self) -> str:
        return str(self.folder / "ssh_config")


def ours(site: Site) -> list[str]:
    reach = ["--inventory", site.inventory, "--ssh-config", site.ssh_config]
    return [sys.executable, "-m", "toolkit.cli", "doctor", *reach, "--quiet", "--json"]


def bare(site: Site) -> list[str]:
    """One connection, one exec, one script, and nothing made of the answers."""
    return [sys.executable, "-m", "tests.bench.bare", site.inventory, site.ssh_config]


def openssh(site: Site) -> list[str]:
    loop = (
        f"cut -d' ' -f1 {site.inventory} | xargs -P 64 -I HOST sh -c "
        f"'ssh -T -F {site.ssh_config} HOST sh -s <{site.probe} >{site.folder}/out.HOST'"
    )
    return ["sh", "-c", loop]


def clush(site: Site) -> list[str]:
    program = Path(sys.executable).with_name("clush")  # of ClusterShell, which we need ourselves
    last = f"{site.hosts - 1:03d}"
    run = f"{program} -w 'n[000-{last}]' -f 64 -o '-F {site.ssh_config}' sh -s <{site.probe}"
    return ["sh", "-c", f"{run} >{site.folder}/out.clush"]


def asyncssh(site: Site) -> list[str]:
    return loop(site, "asyncssh")


def fabric(site: Site) -> list[str]:
    return loop(site, "fabric")


def loop(site: Site, library: str) -> list[str]:
    files = (site.inventory, site.ssh_config, str(site.probe))
    return [str(peers() / "python"), str(ROOT / "tests/bench/peer_loops.py"), library, *files]


def pyinfra(site: Site) -> list[str]:
    names = [line.split()[0] for line in Path(site.inventory).read_text().splitlines()]
    inventory, deploy = site.folder / "inventory.py", site.folder / "deploy.py"
    known = {
        "ssh_config_file": site.ssh_config,
        "ssh_known_hosts_file": f"{site.folder}/known_hosts",
    }
    inventory.write_text(f"nodes = {[(name, known) for name in names]!r}\n")
    script = f"server.script(src={str(site.probe)!r})"
    deploy.write_text(f"from pyinfra.operations import server\n{script}\n")
    return [str(peers() / "pyinfra"), "-y", "--parallel", "64", str(inventory), str(deploy)]


def peers() -> Path:
    """The programs of those that are asked for by name alone."""
    return programs(Path(__file__).with_name("peers.lock"), "pyinfra")


def ansible_script(site: Site) -> list[str]:
    return [*ansible(site), "-m", "script", "-a", str(site.probe)]


def ansible_modules(site: Site) -> list[str]:
    playbook = site.folder / "reads.yml"
    tasks = "".join(f"    - shell: {read}\n" for read in READS)
    playbook.write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")
    return [str(programs() / "ansible-playbook"), "-i", site.inventory, "-f", "64", str(playbook)]


def ansible(site: Site) -> list[str]:
    return [str(programs() / "ansible"), "all", "-i", site.inventory, "-f", "64"]


CONTENDERS = (
    Contender("doctor", ours),
    Contender("bare paramiko loop, same probe", bare),
    Contender("OpenSSH client loop, same probe", openssh, "ssh"),
    Contender("clush, same probe", clush, "ssh"),
    Contender("asyncssh loop, same probe", asyncssh),
    Contender("Fabric, 64 threads, same probe", fabric),
    Contender("pyinfra, server.script, same probe", pyinfra),
    Contender("ansible, script module, same probe", ansible_script, "ssh"),
    Contender("ansible, 4 of the reads by modules", ansible_modules, "ssh"),
)


@contextmanager
def site(count: int) -> Iterator[Site]:
    """``count`` servers over one simulated node, with an inventory and an ssh configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder / "demo", (NODE,))
        node = environment(folder / "demo/nodes" / NODE)
        with many(count, folder / "sshd", env=node) as servers:
            rows, hosts = [], []
            for at, server in enumerate(servers):
                rows.append(
                    f"n{at:03d} ansible_host=127.0.0.1 ansible_port={server.port} "
                    f"ansible_ssh_common_args='-F {folder}/ssh_config' "
                    "ansible_python_interpreter=/usr/bin/python3"
                )
                hosts += [f"Host n{at:03d}", "  HostName 127.0.0.1", f"  Port {server.port}"]
            known = "".join(server.known_hosts.read_text() for server in servers)
            (folder / "known_hosts").write_text(known)
            (folder / "hosts.ini").write_text("\n".join(rows) + "\n")
            general = ["Host *", "  IdentitiesOnly yes", f"  IdentityFile {servers[0].keys.user}"]
            general += [f"  UserKnownHostsFile {folder}/known_hosts", "  ControlMaster no"]
            (folder / "ssh_config").write_text("\n".join([*hosts, *general]) + "\n")
            yield Site(folder, count)


def measured(contender: Contender, where: Site) -> tuple[float, float]:
    """Wall-clock seconds, and processor seconds of the controller with its children."""
    command = contender.command(where)  # which may install the contender
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    settings = {"ANSIBLE_PIPELINING": "1", "ANSIBLE_SSH_ARGS": "", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | settings | {"XDG_STATE_HOME": str(where.folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    wall = time.monotonic() - begun
    if ended.returncode != 0:
        said = (ended.stderr or ended.stdout)[-800:]
        sys.exit(f"{contender.name} ended with {ended.returncode}: {said!r}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    there = [each for each in CONTENDERS if not each.needs or shutil.which(each.needs)]
    rounds: list[dict[str, tuple[float, float]]] = []
    with site(chosen.hosts) as where:
        for number in range(chosen.rounds):
            print(f"round {number + 1}", file=sys.stderr)
            rounds.append({each.name: measured(each, where) for each in there})
    print(f"{chosen.hosts} hosts, medians of {chosen.rounds} rounds")
    print(f"{'contender':<38}{'wall s':>8}{'ratio':>8}{'cpu s':>8}")
    for each in there:
        wall = statistics.median(one[each.name][0] for one in rounds)
        ratio = statistics.median(one[each.name][0] / one["doctor"][0] for one in rounds)
        cpu = statistics.median(one[each.name][1] for one in rounds)
        print(f"{each.name:<38}{wall:>8.2f}{ratio:>8.2f}{cpu:>8.2f}")
    for missing in (each for each in CONTENDERS if each not in there):
        print(f"{missing.name:<38} not run: needs {missing.needs}")


if __name__ == "__main__":
    main()
