"""What the probe reads of firmware, from a small tree of files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.shells import parts, say
from tests.scripts.test_probe_builds import NO_RIGHTS
from toolkit.demo.sysfs import dmar
from toolkit.errors import NeedsRoot
from toolkit.evidence import Evidence, State
from toolkit.facts.firmware.cpu_setup import parse_setup
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

SHELLS = [
    pytest.param(("dash", "-s"), id="dash"),
    pytest.param(("busybox", "sh", "-s"), id="busybox"),
    pytest.param(("bash", "-s"), id="bash"),
]
_CPU = "sys/devices/system/cpu"
FILES = {
    f"{_CPU}/online": "0-3",
    f"{_CPU}/smt/control": "off",
    f"{_CPU}/cpu0/cpuidle/state1/name": "C1",
    f"{_CPU}/cpu0/cpuidle/state1/latency": "2",
    f"{_CPU}/cpu0/topology/physical_package_id": "0",
    f"{_CPU}/cpu2/topology/physical_package_id": "1",
    "sys/devices/system/node/node0/cpulist": "0-1",
    f"{_CPU}/cpu5/topology/physical_package_id": "2",
    "sys/devices/system/node/node1/cpulist": "2-3,5",
    "sys/devices/system/node/node2/cpulist": "",  # memory without processors, as on Grace
    "proc/iomem": "00001000-0009ffff : System RAM\n"
    "90000000-9fffffff : PCI Bus 0000:00\n"
    "  90000000-900fffff : PCI Bus 0000:01\n"
    "    90000000-900fffff : 0000:01:00.0\n"
    "      90000000-900fffff : PCI Bus 0000:02",
    "sys/class/dmi/id/product_serial": "S1",
}


def _probe(root: Path, shell: tuple[str, ...]) -> Evidence:
    (root / "bin").mkdir(exist_ok=True)
    environment = {"GDR_ROOT": str(root), "GDR_BIN": str(root / "bin"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        shell, input=probe_script(), env=environment, capture_output=True, text=True, check=True
    )
    return Evidence.parse(done.stdout)


@pytest.mark.parametrize("shell", SHELLS)
def test_setup_windows_and_tables_are_read(tmp_path: Path, shell: tuple[str, ...]) -> None:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    tables = tmp_path / "sys/firmware/acpi/tables"
    tables.mkdir(parents=True)
    (tables / "DMAR").write_bytes(dmar())
    node = Node(_probe(tmp_path, shell))
    assert (node.setup.online, node.setup.smt) == (4, "off")
    assert node.setup.packages == ((0, 0), (1, 1), (1, 2))
    assert [each.name for each in node.setup.idle] == ["C1"]
    assert [each.bus for each in node.windows] == ["0000:00"]
    assert node.iommu_table is not None
    assert node.iommu_table.ats is True
    assert node.dmi["product_serial"] == "S1"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_not_there_is_told_as_such(tmp_path: Path, shell: tuple[str, ...]) -> None:
    evidence = _probe(tmp_path, shell)
    assert evidence.frame("iomem").state is State.ABSENT
    assert evidence.text("setup") == ""
    assert Node(evidence).iommu_table is None


def test_a_table_that_shows_no_byte_is_not_taken_for_none(tmp_path: Path) -> None:
    tables = tmp_path / "sys/firmware/acpi/tables"
    tables.mkdir(parents=True)
    (tables / "DMAR").write_bytes(b"")
    with pytest.raises(NeedsRoot):
        _ = Node(_probe(tmp_path, ("dash", "-s"))).iommu_table


def test_a_map_of_addresses_that_is_refused_is_not_taken_for_one_without_windows(
    tmp_path: Path,
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/iomem").write_text("90000000-9fffffff : PCI Bus 0000:00\n")
    (tmp_path / "proc/iomem").chmod(0)
    frame = _probe(tmp_path, (*NO_RIGHTS, "sh", "-s")).frame("iomem")
    assert (frame.state, frame.source) == (State.DENIED, "/proc/iomem")


@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=" ".join)
def test_sockets_are_read_of_a_kernel_that_gives_lists_only_as_a_whole(
    shell: tuple[str, ...],
) -> None:
    """Of this machine: asked for single bytes of a cpulist, a kernel gives none; a file would."""
    script = parts("frames.sh", "probe_firmware.sh")
    script += "\nbegin_frames\ngive setup /sys setup\nend_frames\n"
    evidence = Evidence.parse(say(shell, script, GDR_ROOT="", GDR_BIN="").stdout)
    assert evidence.complete
    nodes = Path("/sys/devices/system/node").glob("node*/cpulist")
    told = {int(each.parent.name[4:]) for each in nodes if each.read_text().strip()}
    assert {number for number, _ in parse_setup(evidence.text("setup")).packages} == told
