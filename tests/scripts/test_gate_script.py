"""A gate on a tree of its own: what differs is told, in each mode, by each shell."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts.shells import parts
from toolkit.features.gate.plan import Expected, script

pytestmark = pytest.mark.shell
SHELL = pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh"), ("bash",)])
PCI, PORT = "/sys/bus/pci/devices/0000:17:00.0", "/sys/class/infiniband/mlx5_0/ports/1"
LOG = "[   12.3] NVRM: Xid (PCI:0000:18:00): {}, pid=1, name=train\n"
TABLE = (
    Expected("is", "", "kernel", "/proc/sys/kernel/osrelease", "6.8.0-60-generic", "boot it"),
    Expected("has", "", "argument iommu", "/proc/cmdline", "iommu=pt"),
    Expected("there", "", "peermem", "/sys/module/nvidia/holders/nvidia_peermem", "it holds it"),
    Expected("leads", "", "driver of GPU", f"{PCI}/driver", "nvidia"),
    Expected("least", "", "lanes", f"{PCI}/current_link_width", "16"),
    Expected("is", "", "port", f"{PORT}/state", "4: ACTIVE", "the cable"),
    Expected("bits", "", "ACS", f"{PCI}/config@334", "0041"),
    Expected("xids", "", "Xid since boot", "", "48,79,95", "drain it"),
)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A root on which all is as expected."""
    files = {
        "proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
        "proc/cmdline": "ro quiet iommu=pt",
        "sys/module/nvidia/holders/nvidia_peermem/initstate": "live\n",
        f"{PCI[1:]}/current_link_width": "16\n",
        f"{PORT[1:]}/state": "4: ACTIVE\n",
        "log": LOG.format(31),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / PCI[1:] / "config").write_bytes(bytes(334) + b"\x41\x00" + bytes(64))
    (tmp_path / PCI[1:] / "driver").symlink_to("../../../bus/pci/drivers/nvidia")
    (tmp_path / "bin").mkdir()
    command(tmp_path, "dmesg", 'cat "$GATE_ROOT/log"')
    return tmp_path


def command(node: Path, name: str, line: str) -> None:
    file = node / "bin" / name
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)


def asked(
    node: Path, *words: str, shell: tuple[str, ...] = ("dash",), **more: str
) -> subprocess.CompletedProcess[str]:
    file = node / "gate.sh"
    file.write_text(script(TABLE, "gpu[001-128]", "2026-11-28"))
    settings = {"GATE_ROOT": str(node), "GATE_STATE": str(node / "count")}
    return subprocess.run(
        (*shell, file, *words),
        env=settings | {"PATH": f"{node}/bin:{os.environ['PATH']}"} | more,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@SHELL
def test_a_node_as_expected_passes_with_the_digest_of_what_it_is_held_to(
    node: Path, shell: tuple[str, ...]
) -> None:
    done = asked(node, shell=shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("as expected: ")
    assert done.stdout.endswith(", of gpu[001-128] on 2026-11-28\n")


@SHELL
@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("proc/sys/kernel/osrelease", "6.8.0-64-generic\n", "kernel: 6.8.0-64-generic, expected"),
        ("proc/cmdline", "ro xiommu=pt iommu=ptx", "argument iommu: no iommu=pt, expected"),
        (f"{PCI[1:]}/current_link_width", "8\n", "lanes: 8, expected 16 or more"),
        (f"{PORT[1:]}/state", "1: DOWN\n", "port: 1: DOWN, expected 4: ACTIVE; next: the cable"),
        (f"{PORT[1:]}/state", "", "port: nothing, expected 4: ACTIVE"),
        (f"{PCI[1:]}/config", "x" * 400, "ACS: 7878, expected 0041"),
        ("log", LOG.format(79), "Xid since boot: Xid (PCI:0000:18:00): 79, pid=1"),
    ],
)
def test_each_thing_that_differs_is_told(
    node: Path, shell: tuple[str, ...], file: str, text: str, told: str
) -> None:
    (node / file).write_text(text)
    done = asked(node, shell=shell)
    assert done.returncode == 1
    assert done.stdout.startswith(told)
    assert done.stdout.count("\n") == 1


@SHELL
def test_what_is_gone_differs(node: Path, shell: tuple[str, ...]) -> None:
    (node / "sys/module/nvidia/holders/nvidia_peermem/initstate").unlink()
    (node / "sys/module/nvidia/holders/nvidia_peermem").rmdir()
    (node / PCI[1:] / "driver").unlink()
    told = asked(node, shell=shell).stdout.splitlines()
    assert told == [
        "peermem: nothing, expected it holds it",
        "driver of GPU: nothing, expected nvidia",
    ]


@SHELL
def test_what_only_root_may_read_is_not_known_and_no_difference(
    node: Path, shell: tuple[str, ...]
) -> None:
    command(node, "dmesg", "exit 1")
    (node / PCI[1:] / "config").write_bytes(bytes(64))
    done = asked(node, shell=shell)
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "ACS: not read: it takes root",
        "Xid since boot: not read: dmesg: it takes root",
    ]


@SHELL
def test_a_bridge_that_is_gone_differs_and_takes_no_root(
    node: Path, shell: tuple[str, ...]
) -> None:
    (node / PCI[1:] / "config").unlink()
    done = asked(node, shell=shell)
    assert (done.returncode, done.stdout) == (1, "ACS: nothing, expected 0041\n")


@SHELL
def test_a_prolog_drains_with_the_reason_and_fails(node: Path, shell: tuple[str, ...]) -> None:
    command(node, "scontrol", 'printf "%s\\n" "$*" >>"$GATE_ROOT/said"')
    assert asked(node, "prolog", shell=shell, SLURMD_NODENAME="gpu7").returncode == 0
    assert not (node / "said").exists()
    (node / PORT[1:] / "state").write_text("1: DOWN\n")
    (node / "proc/cmdline").write_text("ro")
    assert asked(node, "prolog", shell=shell, SLURMD_NODENAME="gpu7").returncode == 1
    reason = "gate: argument iommu: no iommu=pt, expected iommu=pt (and 1 more)"
    assert (node / "said").read_text() == f"update NodeName=gpu7 State=DRAIN Reason={reason}\n"
    more = {"SLURMD_NODENAME": "gpu7", "GATE_COMMENT": "1"}
    assert asked(node, "prolog", shell=shell, **more).returncode == 0
    assert (node / "said").read_text().splitlines()[-1] == f"update NodeName=gpu7 Comment={reason}"


@SHELL
def test_health_waits_for_failures_in_a_row_and_gives_back_what_it_took(
    node: Path, shell: tuple[str, ...]
) -> None:
    state = "State=IDLE+DRAIN Reason=gate: port [root]"
    line = (
        f'case $* in *show*) echo "{state}" ;; *) printf "%s\\n" "$*" >>"$GATE_ROOT/said" ;; esac'
    )
    command(node, "scontrol", line)
    (node / PORT[1:] / "state").write_text("1: DOWN\n")
    for _ in range(2):
        asked(node, "health", shell=shell, SLURMD_NODENAME="gpu7")
    assert not (node / "said").exists()
    asked(node, "health", shell=shell, SLURMD_NODENAME="gpu7")
    assert "State=DRAIN" in (node / "said").read_text()
    (node / PORT[1:] / "state").write_text("4: ACTIVE\n")
    asked(node, "health", shell=shell, SLURMD_NODENAME="gpu7")
    assert (node / "said").read_text().splitlines()[-1] == "update NodeName=gpu7 State=RESUME"
    assert not (node / "count").exists()


def test_what_others_drained_stays_theirs(node: Path) -> None:
    line = 'case $* in *show*) echo "State=IDLE+DRAIN Reason=fan [root]" ;; *) exit 9 ;; esac'
    command(node, "scontrol", line)
    assert asked(node, "health", SLURMD_NODENAME="gpu7").returncode == 0


def test_node_problem_detector_has_one_short_line_and_its_three_statuses(node: Path) -> None:
    done = asked(node, "npd")
    assert (done.returncode, done.stdout) == (0, "as expected\n")
    command(node, "dmesg", "exit 1")
    done = asked(node, "npd")
    assert (done.returncode, done.stdout.partition(":")[0]) == (2, "not known")
    (node / "proc/sys/kernel/osrelease").write_text("6.8.0-64-generic" + "x" * 200 + "\n")
    done = asked(node, "npd")
    assert done.returncode == 1
    assert len(done.stdout.encode()) <= 81


def test_an_event_is_json_whatever_the_node_says(node: Path) -> None:
    (node / "proc/sys/kernel/osrelease").write_text('6.8 "\\ <odd>\n')
    told = json.loads(asked(node, "event", NODE_NAME="gpu7").stdout)
    assert told["nodeName"] == "gpu7"
    assert (told["isHealthy"], told["isFatal"]) == (False, True)
    assert '6.8 "\\ <odd>' in told["message"]


def test_a_gate_that_was_cut_off_says_nothing(node: Path) -> None:
    """Wherever: half of a name of its own, such as "shut", may be one of a program's."""
    whole, dash = script(TABLE, "gpu1", "2026-11-28"), shutil.which("dash")
    assert dash is not None
    names = [at.start() + 2 for at in re.finditer(r"^\w+\(\) \{", whole, re.M)]
    for cut in (*names, *range(0, len(whole) - 40, 97), *range(len(whole) - 40, len(whole) - 1)):
        done = subprocess.run(
            (dash, "-c", whole[:cut]), env={"PATH": str(node / "none")}, capture_output=True,
            check=False,
        )  # fmt: skip
        assert done.stdout == b"", whole[:cut][-40:]
        assert b"not found" not in done.stderr, whole[:cut][-40:]


def test_a_row_of_a_machine_of_250_functions_starts_no_process(node: Path) -> None:
    """By pages that are touched first, dozens a process: time tells of the machine's load, too."""
    few = _pages(node, 0)
    assert _pages(node, 3 * 250) - few < 3 * 250


def _pages(node: Path, ports: int) -> int:
    """How many pages a gate of so many ports touches first, with all processes that it starts."""
    rows = [Expected("is", "", f"port {n}", f"{PORT}/state", "4: ACTIVE") for n in range(ports)]
    rows += [Expected("bits", "", f"ACS {n}", f"{PCI}/config@334", "0041") for n in range(16)]
    (node / "gate.sh").write_text(script(tuple(rows), "gpu1", "2026-11-28"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    done = subprocess.run(
        ("dash", node / "gate.sh"), env={"GATE_ROOT": str(node), "PATH": os.environ["PATH"]},
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before


def test_the_engine_alone_does_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        ("dash",), input=parts("gate.sh"), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")
