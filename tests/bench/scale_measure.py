"""What one controller costs, by number of nodes: ``python -m tests.bench.scale_measure``.

The nodes are names for one real sshd that listens on loopback alone; each
connection has a session process of its own, as on a node. What they answer is evidence of a
simulated node of full size, read from a file: so the node costs next to nothing, and what is
measured is the controller. ``--probe`` has them carry the probe out, which is what a node costs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.judge import captured
from tests.fleet.sshd import Sshd
from toolkit.demo.create import environment
from toolkit.demo.fleet import prepare

ROOT = Path(__file__).parents[2]
NODE = "demo-healthy"
_ANSWERING = """#!/bin/sh
[ "$1" = -s ] || exec /bin/sh "$@"
cat >/dev/null
exec cat {evidence}
"""
_EVERY_S = 0.1  # between looks at the controller


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of ``doctor`` over real SSH."""

    nodes: int
    fanout: int
    wall_s: float
    start_s: float  # until the first evidence is there
    read_s: float  # from the first evidence to the last
    report_s: float  # from then to the end
    controller_s: float  # processor, user and system
    nodes_s: float  # processor, of sshd with all that it started
    resident_mib: float  # at most
    descriptors: int  # at most
    threads: int  # at most
    raw_kib: float  # evidence of one node
    gzip_kib: float  # the same, by itself


@contextmanager
def nodes(count: int, folder: Path, *, probe: bool) -> Iterator[tuple[Sshd, Path]]:
    """One sshd under so many names, with an inventory and an ssh configuration."""
    if probe:
        prepare(folder / "demo", (NODE,))
        env = environment(folder / "demo/nodes" / NODE)
    else:
        evidence = folder / "answer.evidence"
        evidence.write_text(captured(NODE, folder / "captured"))
        tools = folder / "tools"
        tools.mkdir()
        (tools / "sh").write_text(_ANSWERING.format(evidence=evidence))
        (tools / "sh").chmod(0o755)
        # A home of its own: what the user's shell reads at a login is no part of a node.
        env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}
    settings = ("MaxStartups 5000", "LogLevel ERROR", "MaxSessions 5000")
    with Sshd(folder / "sshd", env=env, settings=settings) as sshd:
        hosts = [f"n{at:05d} ansible_host=127.0.0.1" for at in range(1, count + 1)]
        (folder / "hosts.ini").write_text("\n".join(hosts) + "\n")
        kind, key, *_ = sshd.keys.host.with_suffix(".pub").read_text().split()
        (folder / "known_hosts").write_text(f"node {kind} {key}\n")
        lines = ["Host *", f"  Port {sshd.port}", f"  IdentityFile {sshd.keys.user}"]
        lines += ["  IdentitiesOnly yes", "  HostKeyAlias node"]
        lines += [f"  UserKnownHostsFile {folder}/known_hosts"]
        (folder / "ssh_config").write_text("\n".join(lines) + "\n")
        yield sshd, folder


def doctor(folder: Path, fanout: int) -> tuple[Measured, Path]:
    """One run; the controller is a process of its own, looked at from outside."""
    state = folder / "state"
    reach = ["--inventory", f"{folder}/hosts.ini", "--ssh-config", f"{folder}/ssh_config"]
    words = ["doctor", *reach, "--yes", "--quiet", "--json", "--fanout", str(fanout)]
    begun = time.time()
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        run = subprocess.Popen(
            [sys.executable, "-m", "toolkit.cli", *words],
            cwd=ROOT,
            env=os.environ | {"XDG_STATE_HOME": str(state)},
            stdout=out,
            stderr=err,
        )
        descriptors, threads = _watched(run)
    ended = time.time()
    if run.returncode not in {0, 2, 3}:
        sys.exit(f"doctor ended with {run.returncode}: {(folder / 'err').read_text()[-800:]}")
    (place,) = sorted((state / "gdr-toolkit/runs").iterdir())[-1:]
    files = sorted(place.glob("*.evidence"), key=lambda file: file.stat().st_mtime)
    first, last = files[0].stat().st_mtime, files[-1].stat().st_mtime
    text = files[0].read_bytes()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measured(
        nodes=len(files),
        fanout=fanout,
        wall_s=ended - begun,
        start_s=first - begun,
        read_s=last - first,
        report_s=ended - last,
        controller_s=used.ru_utime + used.ru_stime,
        nodes_s=0.0,
        resident_mib=used.ru_maxrss / 1024,
        descriptors=descriptors,
        threads=threads,
        raw_kib=len(text) / 1024,
        gzip_kib=len(gzip.compress(text, 6)) / 1024,
    ), place


def _watched(run: subprocess.Popen[bytes]) -> tuple[int, int]:
    """The most descriptors and threads that the process was seen with, until its end."""
    descriptors = threads = 0
    while run.poll() is None:
        try:
            descriptors = max(descriptors, _entries(f"/proc/{run.pid}/fd"))
            threads = max(threads, _entries(f"/proc/{run.pid}/task"))
        except OSError:
            continue
        time.sleep(_EVERY_S)
    return descriptors, threads


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def measured(count: int, fanout: int, *, probe: bool) -> Measured:
    """In a process of its own, so that what children used is those of this run alone."""
    words = [sys.executable, "-m", "tests.bench.scale_measure", "--one", "--nodes", str(count)]
    words += ["--fanout", str(fanout), *(["--probe"] if probe else [])]
    said = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return Measured(**json.loads(said))


def _one(count: int, fanout: int, *, probe: bool) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        with nodes(count, Path(name), probe=probe) as (_, folder):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run, _ = doctor(folder, fanout)
        # The sessions are sshd's children: what they used is known once sshd has ended.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = before.ru_utime + before.ru_stime
    total = used.ru_utime + used.ru_stime
    values = asdict(run) | {
        "controller_s": run.controller_s - ours,
        "nodes_s": total - run.controller_s,
    }
    return Measured(**values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="100,300,1000")
    parser.add_argument("--fanout", type=int, default=64)
    parser.add_argument("--probe", action="store_true", help="nodes carry the probe out")
    parser.add_argument("--one", action="store_true", help="one run, as JSON")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(asdict(_one(int(chosen.nodes), chosen.fanout, probe=chosen.probe))))
        return
    for count in map(int, chosen.nodes.split(",")):
        run = measured(count, chosen.fanout, probe=chosen.probe)
        print("  ".join(f"{name} {value:.5g}" for name, value in asdict(run).items()), flush=True)


if __name__ == "__main__":
    main()
