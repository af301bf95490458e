"""Who passes what is dead: other people's health checks over machines whose state is known.

``python -m dev.referee`` lays each captured machine out as far as these checks look (lsmod,
nvidia-smi, files of /sys and /proc, the kernel log), runs each rule there by sh, as its source
has it, and prints who passes a machine that is dead and who alarms on one that is well. A program
that Debian or PyPI carries is run itself where it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dev.run import ROOT
from tests.evidence.machines.held import DEFAULT, TODAY, evidence_of, rows, want_of
from toolkit.checks.judged import judge_node
from toolkit.errors import NoEvidence
from toolkit.evidence import Evidence, State
from toolkit.facts.node.node import Node
from toolkit.report.table import columns

WELL = frozenset({"ready"})
DEAD = frozenset({"broken", "sick", "slow"})
# What ails those of the demo that are captured: docs/guide.md, The demo fleet.
DEMO = {"healthy": "ready", "acs": "slow", "kernel": "broken", "rocky": "slow", "stub": "broken"}
OURS = "gdr doctor"


@dataclass(frozen=True, slots=True)
class Rule:
    """One check of others."""

    name: str
    line: str  # of sh: 0 where the node passes; $ROOT is the node's, $GPUS what it was bought with
    source: str
    program: str = ""  # that has to be installed; "" where the line says all


RULES = (
    Rule("lsmod", "lsmod | grep -q nvidia_peermem", "Azure/azhpc-images; NVIDIA's guides"),
    Rule(
        "gcm",
        "health_checks check-node check-module -m nvidia_peermem --log-folder . site nagios",
        "PyPI gpucm: lsmod | grep MODULE | wc -l",
        program="health_checks",
    ),
    Rule(
        "gpud",
        "lsmod | awk '$1 == \"ib_core\" && $3 && /nvidia_peermem/ { ok = 1 } END { exit !ok }'",
        "leptonai/gpud nvidia/peermem/peermem.go",
    ),
    Rule(
        "nccl file",
        'test -e "$ROOT/sys/kernel/mm/memory_peers/nv_mem/version"'
        ' || test -e "$ROOT/sys/module/nvidia_peermem/version"',
        "NVIDIA/nccl ncclIbGdrSupport; openucx/ucc tl_mlx5",
    ),
    Rule(
        "aznhc gdr",
        'test -d "$ROOT/sys/kernel/mm/memory_peers"'
        ' || grep -qE "^(nvidia_peermem|nv_peer_mem) " "$ROOT/proc/modules"',
        "Azure/azurehpc-health-checks azure_gdr_detect.nhc",
    ),
    Rule(
        "gpu count",
        'test "$(nvidia-smi --list-gpus | wc -l)" -eq "$GPUS"',
        "Azure/azurehpc-health-checks azure_gpu_count.nhc",
    ),
    Rule(
        "kubelet",
        'test "$(nvidia-smi --list-gpus | wc -l)" -eq "$GPUS"'
        ' && ! grep "NVRM: Xid" "$ROOT/dmesg" | grep -qvE "\\): (13|31|43|45|68),"',
        "NVIDIA/k8s-device-plugin internal/rm/health.go",
    ),
    Rule(
        "ports",
        '! cat "$ROOT"/sys/class/infiniband/*/ports/*/state | grep -qv ACTIVE',
        "mej/nhc check_hw_ib; Debian's ibstat, node_exporter",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """One that is known, and who passes it."""

    name: str
    state: str
    passed: frozenset[str]


def known() -> Iterator[tuple[str, str, Evidence]]:
    """Name, true state and evidence of each machine: the demo's captured ones, and the experts'."""
    for name, state in DEMO.items():
        text = (ROOT / f"tests/evidence/{name}.txt").read_text()
        yield f"demo-{name}", state, Evidence.parse(text)
    for row in rows():
        if DEFAULT in row.profiles and row.state in WELL | DEAD:
            yield row.machine, row.state, evidence_of(row.machine)


def laid_out(evidence: Evidence, place: Path) -> None:
    """The machine as far as a rule looks: commands in ``bin``, files below ``root``."""
    modules = _text(evidence, "modules")
    listed = (line.split() for line in modules.split("\n") if line)
    lines = [f"{name:<24}{size} {uses} {by.strip('-,')}" for name, size, uses, by, *_ in listed]
    files = {"proc/modules": modules, "dmesg": _text(evidence, "dmesg"), "lsmod": "\n".join(lines)}
    files["gpus"] = "".join(
        f"GPU {number}: {line.split(',')[1].strip()}\n"
        for number, line in enumerate(filter(None, _text(evidence, "nvidia-smi").split("\n")))
    )
    for key, folder in (("module-state", "sys/module"), ("infiniband", "sys/class/infiniband")):
        for line in _text(evidence, key).split("\n"):
            path, found, value = line.partition(":")
            if found and re.fullmatch(r"[\w./-]+", path) and ".." not in path:
                files[f"{folder}/{path}"] = f"{value}\n"
    for path, text in files.items():
        (place / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "root" / path).write_text(text)
    peers = evidence.frames.get("memory-peers")
    if peers is not None and peers.state is State.OK:
        (place / "root/sys/kernel/mm/memory_peers").mkdir(parents=True)
    smi = evidence.frames.get("nvidia-smi")
    status = 0 if smi and smi.state is State.OK else (smi and smi.exit) or 124
    (place / "bin").mkdir()
    for name, text in {
        "lsmod": 'echo "Module Size Used by"; cat "$ROOT/lsmod"',
        "nvidia-smi": f'cat "$ROOT/gpus"; exit {status}',
    }.items():
        (place / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / "bin" / name).chmod(0o755)


def _text(evidence: Evidence, key: str) -> str:
    try:
        return evidence.text(key)
    except NoEvidence:
        return ""


def bought(evidence: Evidence) -> int:
    """How many GPUs it should have: boards come with 1, 2, 4, 8 or 16, whatever still answers."""
    try:
        there = len(Node(evidence).pci.gpus)
    except NoEvidence:
        there = 0
    return next(size for size in (1, 2, 4, 8, 16) if size >= there)


def judged(name: str, state: str, evidence: Evidence, rules: Iterable[Rule]) -> Machine:
    """Who passes it, we among them by the default profile."""
    passed = set()
    if judge_node(name, evidence, want_of(DEFAULT), TODAY).state in WELL:
        passed.add(OURS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        laid_out(evidence, place)
        env = os.environ | {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HOME": folder}
        env |= {"ROOT": str(place / "root"), "GPUS": str(bought(evidence))}
        for rule in rules:
            words = ("/bin/sh", "-c", rule.line)
            ended = subprocess.run(words, env=env, cwd=place, capture_output=True, check=False)
            passed |= {rule.name} if ended.returncode == 0 else set()
    return Machine(name, state, frozenset(passed))


def text(machines: list[Machine], rules: Iterable[Rule]) -> str:
    """Both tables: how often each is wrong, and who passes each machine that is dead."""
    dead = [each for each in machines if each.state in DEAD]
    well = [each for each in machines if each.state in WELL]
    names = {OURS: "toolkit/checks", **{rule.name: rule.source for rule in rules}}
    wrong = [("check", "passes dead", "alarms on well", "source")] + [
        (
            name,
            f"{sum(name in each.passed for each in dead)} of {len(dead)}",
            f"{sum(name not in each.passed for each in well)} of {len(well)}",
            source,
        )
        for name, source in names.items()
    ]
    who = [("dead", "how", "passed by")] + [
        (each.name, each.state, ", ".join(n for n in names if n in each.passed) or "nobody")
        for each in dead
    ]
    return "\n".join([*columns(wrong), "", *columns(who)])


def main() -> int:
    """Run and print. :returns: 1 where we pass one that is dead, or alarm on one that is well."""
    rules = [rule for rule in RULES if not rule.program or shutil.which(rule.program)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        machines = list(pool.map(lambda it: judged(it[0], it[1], it[2], rules), known()))
    print(text(machines, rules))
    for rule in RULES:
        if rule not in rules:
            print(f"\nnot run: {rule.name}, {rule.program} is not installed ({rule.source})")
    return int(any((OURS in each.passed) is (each.state in DEAD) for each in machines))


if __name__ == "__main__":
    sys.exit(main())
