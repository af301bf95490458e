"""A Slurm of our own: real slurmctld, a slurmd for each simulated node, munged with its own key.

All of it lives in one folder, talks over loopback, heeds who has its munge key alone, and ends
with the block that started it; the machine's own Slurm, munge and their settings are neither
read nor written.

A job's tasks find themselves on a simulated node: TaskProlog gives them its root and its
commands. RebootProgram asks us to boot one, and slurmd is then started as after a boot.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dev.tools import SBIN
from tests import invoked
from tests.ports import free_port
from toolkit.demo import fleet as demo
from toolkit.demo.create import environment
from toolkit.demo.fleet import public_file
from toolkit.hosts.host import Host

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0  # for anything that takes a second on a machine with nothing else to do
_PLUGINS = "usr/lib/*/slurm-wlm"  # Debian's; elsewhere Slurm finds its own


@dataclass
class Cluster:
    """Names are those of the simulated nodes; ``tree`` is the root of one."""

    folder: Path
    names: tuple[str, ...]
    hosts: dict[str, Host] = field(default_factory=dict)
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    boots: list[str] = field(default_factory=list)  # nodes that Slurm had rebooted
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """A controller's: Slurm's settings are ours, its state lies in our folder."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        return own | {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{os.environ['PATH']}:{SBIN}",
            "SSH_AUTH_SOCK": "",
        }

    def tree(self, name: str) -> Path:
        return self.folder / "demo/nodes" / name / "tree"

    def slurm(self, *words: str) -> str:
        """One of Slurm's commands; what it printed."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr or done.stdout}"
        return done.stdout

    def state(self, name: str) -> set[str]:
        """The words of a node's state, as Slurm has it."""
        words = self.slurm("scontrol", "show", "-o", "node", name).split()
        (said,) = (word for word in words if word.startswith("State="))
        return set(said.removeprefix("State=").split("+"))

    def log(self) -> list[str]:
        """What slurmctld has written so far."""
        return (self.folder / "slurmctld.log").read_text().splitlines()

    def reason(self, name: str) -> str:
        return self.slurm("sinfo", "-h", "-n", name, "-O", "Reason:200").strip()

    def submit(self, name: str, script: str, *words: str) -> str:
        """A user's job on one node; its id."""
        head = ("sbatch", "--parsable", "-w", name, "-n1", "-o", "/dev/null", "--chdir=/")
        return self.slurm(*head, *words, f"--wrap={script}").strip()

    def job(self, number: str) -> str:
        """A job's state."""
        return self.slurm("squeue", "-h", "-t", "all", "-j", number, "-o", "%T").strip()

    def command(self, verb: str, *words: str) -> list[str]:
        """What an operator types."""
        reach = ["--inventory", str(self.folder / "hosts.ini")]
        reach += ["--ssh-config", str(self.folder / "ssh_config")]
        return [sys.executable, "-m", "toolkit.cli", verb, "--via", "slurm", *reach, *words]

    def plain(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A verb that names no hosts: they are those of a run."""
        return invoked.gdr(
            *(verb, *words),
            state=self.folder,
            cwd=self.folder,
            timeout_s=4 * LIMIT_S,
            around=self.environment,
        )

    def begin(self, verb: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(verb, *words),
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.plain(*self.command(verb, *words)[3:])

    def start(self, name: str, *words: str, node: str = "") -> None:
        """A daemon, in the foreground of a process of ours."""
        log = (self.folder / f"{node or name}.out").open("ab")
        with log:
            self.daemons[node or name] = subprocess.Popen(
                (name, *words),
                env=self.environment | ({"GDR_TEST_NODE": node} if node else {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, daemon: str) -> None:
        child = self.daemons.pop(daemon)
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def carry_out_boots(self) -> None:
        """What RebootProgram asks for, until the cluster ends."""
        asked = self.folder / "boot"
        while not self._over.wait(0.1):
            for order in sorted(asked.iterdir()):
                name = order.name
                order.unlink()
                self.boots.append(name)
                self.stop(name)
                power = next((self.folder / "demo").glob("power.*"))
                power.write_text(f"{name}\n")  # the node's own reboot, as it asks for it
                self.start("slurmd", "-D", "-b", "-N", name, node=name)

    def close(self) -> None:
        self._over.set()
        with suppress(AssertionError, subprocess.TimeoutExpired):  # it may have died
            self.slurm("scancel", "--user", getpass.getuser())
            wait_for(lambda: not self.slurm("squeue", "-h"))
        for daemon in [*reversed(self.daemons)]:
            self.stop(daemon)


def until(what: Callable[[], bool], running: subprocess.Popen[str]) -> None:
    """Wait while a controller is at work; its own words where it ends before."""
    end = time.monotonic() + LIMIT_S
    while not what():
        assert running.poll() is None, "ended early: {}\n{}".format(*running.communicate())
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.1)


def wait_for(what: Callable[[], bool], why: Callable[[], str] = lambda: "") -> None:
    end = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < end, f"it never came to that: {why()}"
        time.sleep(0.1)


@contextmanager
def cluster(folder: Path, names: Sequence[str], features: dict[str, str]) -> Iterator[Cluster]:
    """Simulated nodes, reached over SSH and by a Slurm of their own.

    :param features: a node's, parted by commas; nodes without are in the partition "debug".
    """
    made = Cluster(folder, tuple(names))
    with ExitStack() as stack:
        served = stack.enter_context(demo.start(",".join(names), folder / "demo"))
        made.hosts = {host.name: host for host in served.hosts}
        _write(made, features)
        stack.callback(made.close)
        munge = [f"--{kind}={folder / f'munge.{kind}'}" for kind in ("socket", "seed-file")]
        munge += [f"--{kind}-file={folder / f'munge.{kind}'}" for kind in ("key", "log", "pid")]
        made.start("munged", "--foreground", "--force", "--num-threads=2", *munge)
        wait_for((folder / "munge.socket").exists, (folder / "munged.out").read_text)
        made.start("slurmctld", "-D", "-c")
        for name in names:
            made.start("slurmd", "-D", "-N", name, node=name)
        wait_for(lambda: _idle(made), lambda: made.slurm("sinfo", "-N"))
        threading.Thread(target=made.carry_out_boots, daemon=True).start()
        yield made


def _idle(made: Cluster) -> bool:
    with suppress(AssertionError):  # slurmctld does not listen yet
        return all(made.state(name) == {"IDLE"} for name in made.names)
    return False


def _write(made: Cluster, features: dict[str, str]) -> None:
    folder, user, here = made.folder, getpass.getuser(), socket.gethostname().partition(".")[0]
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    for name in ("save", "boot", "env", "prolog-env"):
        (folder / name).mkdir()
    conf = [
        *("ClusterName=test", f"SlurmctldHost={here}(127.0.0.1)", f"SlurmctldPort={free_port()}"),
        *(f"SlurmUser={user}", f"SlurmdUser={user}", "AuthType=auth/munge"),
        *(f"AuthInfo=socket={folder}/munge.socket", "CredType=cred/munge"),
        *(f"StateSaveLocation={folder}/save", f"SlurmctldPidFile={folder}/slurmctld.pid"),
        *(f"SlurmdPidFile={folder}/slurmd-%n.pid", f"SlurmdSpoolDir={folder}/spool-%n"),
        *(f"SlurmctldLogFile={folder}/slurmctld.log", f"SlurmdLogFile={folder}/slurmd-%n.log"),
        *("ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none"),
        *("SelectType=select/cons_tres", "SelectTypeParameters=CR_Core"),
        *("SchedulerParameters=sched_interval=1,batch_sched_delay=0", "KillWait=2"),
        "SlurmdParameters=config_overrides",  # more processors than this machine has
        *("ReturnToService=2", "SlurmdTimeout=300", "ResumeTimeout=120", "TreeWidth=65533"),
        # On a busy machine an answer takes its time, and is one all the same.
        *("MessageTimeout=60", "TCPTimeout=30", "BatchStartTimeout=60"),
        "CommunicationParameters=NoCtldInAddrAny",
        *(f"TaskProlog={folder}/on-node", f"RebootProgram={folder}/reboot"),
        f"Prolog={folder}/prolog",
    ]
    plugins = next(Path("/").glob(_PLUGINS), None)
    conf += [f"PluginDir={plugins}"] if plugins else []
    inventory, known_hosts = [], []
    for name in made.names:
        known = features.get(name, "")
        told = f"Features={known}" if known else ""
        where = f"NodeHostname={here} NodeAddr=127.0.0.1 Port={free_port()}"
        conf.append(f"NodeName={name} {where} CPUs=4 {told}")
        host = made.hosts[name]
        inventory.append(f"{name} ansible_host=127.0.0.1 ansible_port={host.port}")
        key = public_file(folder / "demo/nodes" / name / "host_key").read_text()
        known_hosts.append(f"[127.0.0.1]:{host.port} {key}")
        _enter(folder, name)
    first = next(iter(made.hosts.values()))
    inventory = [f"{line} ansible_user={first.user}" for line in inventory]
    (folder / "known_hosts").write_text("".join(known_hosts))
    settings = [f"UserKnownHostsFile {folder}/known_hosts", "GlobalKnownHostsFile /dev/null"]
    settings += [f"IdentityFile {first.key_file}", "IdentitiesOnly yes", "IdentityAgent none"]
    conf.append(f"PartitionName=gpu Nodes={','.join(features)} Default=YES MaxTime=INFINITE")
    conf.append(f"PartitionName=all Nodes={','.join(made.names)} MaxTime=INFINITE")
    conf.append(f"NodeSet=pair Nodes={','.join(made.names[:2])}")
    (folder / "slurm.conf").write_text("\n".join(conf) + "\n")
    (folder / "hosts.ini").write_text("\n".join(inventory) + "\n")
    (folder / "ssh_config").write_text("Host *\n  " + "\n  ".join(settings) + "\n")
    _script(folder / "on-node", f'cat "{folder}/env/$SLURMD_NODENAME"')
    gate = f"{folder}/gate.$SLURMD_NODENAME"  # where a test has put one
    lines = (f'[ -e "{gate}" ] || exit 0', f'. "{folder}/prolog-env/$SLURMD_NODENAME"')
    _script(folder / "prolog", "\n".join((*lines, f'GATE_ROOT=$GDR_ROOT exec "{gate}" prolog')))
    order = f"$(mktemp {folder}/order.XXXXXX)"
    _script(folder / "reboot", f'mv "{order}" "{folder}/boot/$GDR_TEST_NODE"')


def _enter(folder: Path, name: str) -> None:
    """What TaskProlog prints: each line sets a variable of the task that comes after it."""
    settings = environment(folder / "demo/nodes" / name)
    wanted = {key: value for key, value in settings.items() if key != "SSH_CONNECTION"}
    lines = "".join(f"export {key}={value}\n" for key, value in wanted.items())
    (folder / "env" / name).write_text(lines)
    own = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in wanted.items())
    path = f"export PATH=$PATH:{os.environ['PATH']}:{SBIN}\nexport SLURM_CONF={folder}/slurm.conf\n"
    (folder / "prolog-env" / name).write_text(own + path)


def _script(file: Path, line: str) -> None:
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)
