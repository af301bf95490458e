"""What a probe costs: programs that it starts, counted by wrappers around each of them.

Where a node is emulated, or has hundreds of PCI functions, processes are all that a probe costs.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.scripts.shells import parts
from tests.scripts.test_probe import SHELLS, TOOLS, probed
from toolkit.demo.create import SYSTEM_PATH, environment, make_node
from toolkit.demo.machine import Machine
from toolkit.demo.nodes import Recipe
from toolkit.evidence import Evidence
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

# How many tools and commands of the node one probe may start; it was 333 on the large node
# before they were counted.
CEILING = 110
_COUNTED = '#!/bin/sh\necho {name} >>"{log}"\n{then}\n'
_BY_TIME = {"sleep"}  # once in two seconds, and so no count


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A node with few PCI functions and one with many, whose commands only say that they ran."""
    folder = tmp_path_factory.mktemp("cost")
    few, many = Machine(pairs=2, nvswitches=0), Machine(vfs=24)
    for name, machine in {"few": few, "many": many}.items():
        (folder / name).mkdir()
        make_node(folder / name, Recipe(name, machine=machine), name)
    return {name: folder / name for name in ("few", "many")}


def programs(node: Path, shell: tuple[str, ...], place: Path) -> list[str]:
    """The names of all programs that a probe of the node starts, in order."""
    log = place / "log"
    log.write_text("")
    for folder in ("bin", "tools"):
        (place / folder).mkdir(parents=True)
    for name in (each.name for each in (node / "bin").iterdir()):
        _wrap(place / "bin" / name, log, "echo answered")
    for name in (*TOOLS.split(), "wc"):
        real = shutil.which(name)
        assert real is not None, name
        _wrap(place / "tools" / name, log, f'exec {real} "$@"')
    bins = {"GDR_BIN": str(place / "bin"), "PATH": f"{place / 'bin'}:{place / 'tools'}"}
    ended = probed(shell, environment(node) | bins)
    assert Evidence.parse(ended.stdout).complete
    return [name for name in log.read_text().split() if name not in _BY_TIME]


def _wrap(path: Path, log: Path, then: str) -> None:
    path.write_text(_COUNTED.format(name=path.name, log=log, then=then))
    path.chmod(0o755)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_probe_starts_few_programs_and_no_more_for_many_functions(
    shell: tuple[str, ...], nodes: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few = programs(nodes["few"], shell, tmp_path / "few")
    many = programs(nodes["many"], shell, tmp_path / "many")
    assert few.count("od") >= 1  # the wrappers are what runs
    assert sorted(many) == sorted(few)
    assert len(many) <= CEILING, sorted(many)


def test_no_number_below_proc_sys_is_read_byte_by_byte() -> None:
    """Asked for one byte, the kernel gives the first digit and then nothing (proc_dointvec)."""
    read = re.findall(r"\bshort (\S+) /proc/sys/", probe_script())
    assert set(read) == {"boot-id", "hostname", "kernel-release"}  # strings, which it goes on with


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_signal_ended_is_told_as_that_and_the_clock_stops_with_the_probe(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    for name, line in {"dies": "kill -9 $$", "slow": "sleep 5; exit 7", "quick": "echo a"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    # Where all takes fifteen times as long, two seconds are thirty.
    calls = "begin_frames\npatience=15\ncmd a 5 dies\ncmd b 2 slow\ncmd c 5 quick\nend_frames\n"
    settings = {"GDR_ROOT": str(tmp_path), "GDR_BIN": str(tmp_path / "bin")}
    ended = probed(shell, settings | {"PATH": SYSTEM_PATH}, parts("frames.sh") + "\n" + calls)
    frames = Evidence.parse(ended.stdout).frames
    assert {key: each.exit for key, each in frames.items()} == {"a": 137, "b": 7, "c": 0}
    assert ended.stderr == ""
