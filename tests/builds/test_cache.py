"""The cache of builds, with real builds: cold, warm, after one change, raced, damaged, killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builds import stubs
from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox
from tests.builds.verb import Ended, begin, build, entry

pytestmark = pytest.mark.builds
LONG = True

DRIVER = "535.261.03"
# Of processor, for a build that is in the cache already: the whole process. Beside others' work
# 1.4 s of an idle machine have been 2.1; a build that is not in the cache takes 10 and more.
QUICK_S = 4.0


@pytest.fixture(scope="module")
def ground() -> Iterator[Sandbox]:
    """A tree with a driver and OFED for one kernel: nvidia-peermem is to be built."""
    with stack("bookworm") as made:
        yield made


@dataclass(frozen=True, slots=True)
class Cold:
    """The first build of all, and the folder with its cache."""

    folder: Path
    ended: Ended


@pytest.fixture(scope="module")
def first(ground: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Cold:
    folder = tmp_path_factory.mktemp("first")
    return Cold(folder, build(folder, ground))


def _copied(first: Cold, folder: Path) -> Ended:
    """Its cache, once more."""
    shutil.copytree(first.folder / "gdr-toolkit", folder / "gdr-toolkit", dirs_exist_ok=True)
    return first.ended


def test_cold_warm_and_one_input_changed(tmp_path: Path, ground: Sandbox, first: Cold) -> None:
    """Each input that changes makes another build; what is left of it makes the old one again."""
    cold = _copied(first, tmp_path)
    assert cold.states == {"ofed": "given", "driver": "given", "peermem": "built"}
    warm = build(tmp_path, ground)
    assert warm.states == {"ofed": "given", "driver": "given", "peermem": "cached"}
    assert warm.module == cold.module
    # The processor's time, not the clock's: other tests run beside this one.
    assert warm.cpu_s < QUICK_S, warm
    with ground.branch() as changed:
        file = f"/usr/src/nvidia-current-open-{DRIVER}/nvidia-peermem/nvidia-peermem.c"
        changed.write(file, changed.read(file) + "\n/* one comment more */\n")
        other = build(tmp_path, changed)
        assert other.states["peermem"] == "built"
        assert other.of("peermem")["digest"] != cold.of("peermem")["digest"]
    with ground.branch() as changed:  # OFED with another shape of what it hands over
        stubs.install(
            changed,
            stubs.ofed(changed, "26.01", shape=stubs.Shape.OTHER),
            changed.kernel("6.1."),
        )
        third = build(tmp_path, changed)
        assert third.states["peermem"] == "built"
        assert third.module != cold.module
    again = build(tmp_path, ground)
    assert again.states["peermem"] == "cached"
    assert again.module == cold.module
    print(
        f"\ncold {cold.seconds:.1f} s, warm {warm.seconds:.2f} s (processor {warm.cpu_s:.2f} s), "
        f"one line of source changed {other.seconds:.1f} s, other OFED {third.seconds:.1f} s"
    )


def test_two_builders_at_once_build_once(tmp_path: Path, ground: Sandbox) -> None:
    runs = [begin(tmp_path, ground) for _ in range(2)]
    told = []
    for run in runs:
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
        told.append(json.loads(out))
    states = [next(e for e in one["builds"] if e["part"] == "peermem") for one in told]
    assert sorted(each["state"] for each in states) == ["built", "shared"]
    assert states[0]["files"] == states[1]["files"]
    waited = next(each for each in states if each["state"] == "shared")
    assert waited["notes"] == ["another process was building it; its result was waited for"]


def test_a_damaged_entry_is_noticed_and_built_anew(
    tmp_path: Path, ground: Sandbox, first: Cold
) -> None:
    good = _copied(first, tmp_path)
    file = entry(tmp_path, good) / "nvidia-peermem.ko"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)
    mended = build(tmp_path, ground)
    assert mended.states["peermem"] == "built"
    assert "nvidia-peermem.ko is not the file that was kept" in mended.of("peermem")["notes"][0]
    assert mended.module == good.module  # the same inputs: the same bytes
    assert build(tmp_path, ground).states["peermem"] == "cached"


def test_a_run_that_was_killed_midway_leaves_nothing_in_the_way(
    tmp_path: Path, ground: Sandbox
) -> None:
    before = _processes(ground)
    with begin(tmp_path, ground) as run:
        _until(lambda: "make" in _names(ground), run)
        os.kill(run.pid, signal.SIGKILL)  # it alone: what it has started must see to itself
        run.communicate()
    _until(lambda: _processes(ground) <= before)
    builds = tmp_path / "gdr-toolkit/builds"
    assert [each for each in builds.iterdir() if len(each.name) == 64] == []
    again = build(tmp_path, ground)
    assert again.states["peermem"] == "built"
    assert not list(builds.glob(".making-*"))
    _until(lambda: not list((ground.root / "var/tmp").glob("gdr-build.*")))


def test_ctrl_c_ends_the_build_and_all_that_it_started(tmp_path: Path, ground: Sandbox) -> None:
    before = _processes(ground)
    with begin(tmp_path, ground) as run:
        _until(lambda: "make" in _names(ground), run)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "interrupted" in err
    _until(lambda: _processes(ground) <= before)
    _until(lambda: not list((ground.root / "var/tmp").glob("gdr-build.*")))


def _processes(box: Sandbox) -> frozenset[int]:
    """Those that run in the tree."""
    found = set()
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and Path(each / "root").readlink() == box.root:
                found.add(int(each.name))
        except OSError:
            continue
    return frozenset(found)


def _names(box: Sandbox) -> set[str]:
    names = set()
    for pid in _processes(box):
        try:
            names.add(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            continue
    return names


def _until(
    there: Any,
    run: subprocess.Popen[str] | None = None,
    limit_s: float = 120,
) -> None:
    end = time.monotonic() + limit_s
    while not there():
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)
