"""The same reading of 64 nodes, by us and by others, over real sshd on loopback.

    ./invokew bench [--hosts 64] [--rounds 3]
    python -m tests.bench.doctor [--hosts 256] [--rounds 1] [--only doctor,clush]

A round runs every contender once, one after the other, so that whatever else the machine
does falls on all of them; what counts are the ratios within a round. All of them run the
same probe on the same simulated node, except the last, which reads some of it by modules. Those
of others lie in environments of their own, which the first run makes from tests/bench/peers.lock
and tests/fleet/ansible.lock. Memory is that of a contender's largest process: some have one a host.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.ansible import programs
from tests.fleet.sshd import many
from toolkit.demo.create import environment, make_node
from toolkit.demo.nodes import READY, Recipe
from toolkit.node.collect import probe_script

ROOT = Path(__file__).parents[2]
HEALTHY = READY["demo-healthy"]
READS = tuple(
    f"cat $GDR_ROOT{path}"
    for path in ("/proc/version", "/etc/os-release", "/proc/cmdline", "/proc/modules")
)

# In a process of its own: what a child has at the most counts from what its parent had.
MEASURE = """
import os, sys, time
begun = time.monotonic()
_, status, used = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:]), 0)
wall, cpu = time.monotonic() - begun, used.ru_utime + used.ru_stime
open(sys.argv[1], "w").write(f"{wall} {cpu} {used.ru_maxrss / 1024}")
sys.exit(os.waitstatus_to_exitcode(status))
"""


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
    def node(self) -> Path:
        """The simulated node, which is all of the hosts."""
        return self.folder / "node"

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
    return ["/bin/sh", "-c", loop]


def clush(site: Site) -> list[str]:
    program = Path(sys.executable).with_name("clush")  # of ClusterShell, which we need ourselves
    last = f"{site.hosts - 1:03d}"
    run = f"{program} -w 'n[000-{last}]' -f 64 -o '-F {site.ssh_config}' sh -s <{site.probe}"
    return ["/bin/sh", "-c", f"{run} >{site.folder}/out.clush"]


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
def site(
    count: int, recipe: Recipe = HEALTHY, reached: Callable[[int], int] = lambda port: port
) -> Iterator[Site]:
    """``count`` servers over one simulated node, with an inventory and an ssh configuration.

    :param reached: by which port contenders come to that of a server.
    """
    with tempfile.TemporaryDirectory() as name:
        where = Site(Path(name), count)
        make_node(where.node, recipe, "node")
        with many(count, where.folder / "sshd", env=environment(where.node)) as servers:
            rows, hosts, known = [], [], []
            for at, server in enumerate(servers):
                port = reached(server.port)
                rows.append(
                    f"n{at:03d} ansible_host=127.0.0.1 ansible_port={port} "
                    f"ansible_ssh_common_args='-F {where.ssh_config}' "
                    "ansible_python_interpreter=/usr/bin/python3"
                )
                hosts += [f"Host n{at:03d}", "  HostName 127.0.0.1", f"  Port {port}"]
                known.append(
                    server.known_hosts.read_text().replace(f":{server.port} ", f":{port} ")
                )
            (where.folder / "known_hosts").write_text("".join(known))
            Path(where.inventory).write_text("\n".join(rows) + "\n")
            general = ["Host *", "  IdentitiesOnly yes", f"  IdentityFile {servers[0].keys.user}"]
            general += [f"  UserKnownHostsFile {where.folder}/known_hosts", "  ControlMaster no"]
            general += ["  KexAlgorithms curve25519-sha256"]  # the fastest of each contender's
            Path(where.ssh_config).write_text("\n".join([*hosts, *general]) + "\n")
            yield where


@dataclass(frozen=True, slots=True)
class Cost:
    wall_s: float
    cpu_s: float  # of the controller with its children
    mib: float  # of its largest process


def measured(contender: Contender, where: Site) -> Cost:
    command = contender.command(where)  # which may install the contender
    settings = {"ANSIBLE_PIPELINING": "1", "ANSIBLE_SSH_ARGS": "", "PYTHONPATH": str(ROOT)}
    told = where.folder / "cost"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", MEASURE, str(told), *command],
        cwd=ROOT,
        env=os.environ | settings | {"XDG_STATE_HOME": str(where.folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout)[-800:]
        sys.exit(f"{contender.name} ended with {done.returncode}: {said!r}")
    return Cost(*map(float, told.read_text().split()))


def compare(
    contenders: Sequence[Contender],
    where: Site,
    rounds: int,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Run all of them, the first of which is ours, and print medians.

    :param before: is called before each run, and not timed.
    """
    there = [each for each in contenders if not each.needs or shutil.which(each.needs)]
    costs: dict[str, list[Cost]] = {each.name: [] for each in there}
    for number in range(rounds):
        print(f"round {number + 1}", file=sys.stderr)
        for each in there:
            before()
            costs[each.name].append(measured(each, where))
    print(f"{where.hosts} hosts, medians of {rounds} rounds; ratio: ours to theirs")
    print(f"{'contender':<38}{'wall s':>8}{'ratio':>8}{'cpu s':>8}{'ms/host':>9}{'MiB':>6}")
    for each in there:
        its = costs[each.name]
        pairs = zip(costs[there[0].name], its, strict=True)
        ratio = statistics.median(ours.wall_s / theirs.wall_s for ours, theirs in pairs)
        wall, cpu = (
            statistics.median(getattr(one, of) for one in its) for of in ("wall_s", "cpu_s")
        )
        mib = max(one.mib for one in its)
        row = f"{wall:>8.2f}{ratio:>8.2f}{cpu:>8.2f}{cpu / where.hosts * 1000:>9.1f}{mib:>6.0f}"
        print(f"{each.name:<38}{row}")
    for missing in (each for each in contenders if each not in there):
        print(f"{missing.name:<38} not run: needs {missing.needs}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="how the contenders' names begin: doctor,clush")
    chosen = parser.parse_args()
    with site(chosen.hosts) as where:
        compare(named(chosen.only), where, chosen.rounds)


def named(beginnings: str) -> list[Contender]:
    """Those whose names begin so, doctor before all; every one where nothing is said."""
    words = ("doctor", *filter(None, beginnings.split(",")))
    return [each for each in CONTENDERS if not beginnings or each.name.startswith(words)]


if __name__ == "__main__":
    main()
