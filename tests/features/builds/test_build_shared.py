"""Two runs on one cache, and logs and progress of builds."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.features.builds.building import (
    KERNEL,
    WHEN,
    Fakes,
    build_all,
    of,
    printed,
    states,
    step,
    work,
)
from toolkit.built.delivery_cache import to_entry
from toolkit.built.io.store import MANIFEST, Store
from toolkit.built.plan.model import BuiltFile, Part
from toolkit.features.builds.io.executor import Crew
from toolkit.features.builds.io.sandbox import SandboxJob, written
from toolkit.features.builds.plan.outcome import BuildState
from toolkit.features.builds.run.build import Logs, readable, run_builds
from toolkit.progress import Silent
from toolkit.rollout.runs import RunFolder
from toolkit.safe_file import FileLock

OFED = step(Part.OFED, version="24.10")
DRIVER = step(Part.DRIVER)
PEERMEM = step(Part.PEERMEM, Part.OFED, Part.DRIVER)
FS = step(Part.NVIDIA_FS, Part.DRIVER)
ALL = work(OFED, DRIVER, PEERMEM, FS)


class Waits(Silent):
    """Says when a run has found that another one builds what it is to build."""

    def __init__(self) -> None:
        self.heard = threading.Event()

    def note(self, host: str, text: str) -> None:
        if text == "waiting for another process that builds it":
            self.heard.set()


def test_what_another_process_builds_is_waited_for_and_taken(tmp_path: Path) -> None:
    """One run holds the lock of the driver and finishes while the other one waits."""
    begun, go_on = threading.Event(), threading.Event()

    def slowly(job: SandboxJob) -> None:
        if job.title == DRIVER.inputs.title:
            begun.set()
            assert go_on.wait(120)

    waits = Waits()
    first, second = Fakes(tmp_path, before=slowly), Fakes(tmp_path, progress=waits)
    only = work(DRIVER)
    with ThreadPoolExecutor(2) as runs:
        one = runs.submit(build_all, first, only)
        assert begun.wait(120)
        two = runs.submit(build_all, second, only)
        assert waits.heard.wait(120)
        assert not two.done()
        go_on.set()
        assert states(one.result(120)) == ["built"]
        shared = two.result(120)
    assert states(shared) == ["shared"]
    assert second.ran == []
    assert shared.made[0].notes == (
        "another process was building it; its result was waited for",
    )  # fmt: skip
    assert shared.made[0].built == one.result().made[0].built


@pytest.mark.parametrize("ends", ["built", "failed"])
def test_force_never_takes_the_build_that_lay_there_before(tmp_path: Path, ends: str) -> None:
    """The other run forces it too: its new build is taken, the old one never."""
    build_all(Fakes(tmp_path), work(DRIVER))
    begun, go_on = threading.Event(), threading.Event()

    def slowly(_: SandboxJob) -> None:
        begun.set()
        assert go_on.wait(120)

    new = printed(BuiltFile("nvidia.ko", b"new"), failed="make" if ends == "failed" else "")
    first = Fakes(tmp_path, {DRIVER.inputs.title: new}, force=True, before=slowly)
    waits = Waits()
    second = Fakes(tmp_path, force=True, progress=waits)
    with ThreadPoolExecutor(2) as runs:
        one = runs.submit(build_all, first, work(DRIVER))
        assert begun.wait(120)
        two = runs.submit(build_all, second, work(DRIVER))
        assert waits.heard.wait(120)
        early = two.done()
        go_on.set()
        assert states(one.result(120)) == [ends]
        made = two.result(120).made[0]
    assert not early
    if ends == "failed":
        assert (made.state, second.ran) == (BuildState.BUILT, [DRIVER.inputs.title])
    else:
        assert (made.state, second.ran) == (BuildState.SHARED, [])
        assert made.built is not None
        assert made.built.modules[0].data == b"new"


def test_what_another_process_finished_between_our_look_and_our_lock_is_taken(
    tmp_path: Path,
) -> None:
    built = build_all(Fakes(tmp_path / "other"), work(DRIVER)).made[0].built
    assert built is not None
    entry = to_entry(built)

    class Late(Store):
        def hold(self, digest: str) -> FileLock | None:
            self.keep(entry)
            return super().hold(digest)

    fakes = Fakes(tmp_path)
    ways = replace(fakes.ways(), store=Late(tmp_path / "late"))
    with ThreadPoolExecutor(1) as executor:
        run = run_builds((work(DRIVER),), ways, Crew(executor, 1))
    assert states(run) == ["cached"]
    assert fakes.ran == []


def test_what_another_process_gave_up_is_built_by_us(tmp_path: Path) -> None:
    waits = Waits()
    fakes = Fakes(tmp_path, progress=waits)
    held = fakes.store.hold(DRIVER.inputs.digest)
    assert held is not None
    with ThreadPoolExecutor(1) as runs:
        run = runs.submit(build_all, fakes, work(DRIVER))
        assert waits.heard.wait(120)
        assert not run.done()
        held.let_go()
        assert states(run.result(120)) == ["built"]


def test_a_damaged_entry_is_said_and_built_anew(tmp_path: Path) -> None:
    build_all(Fakes(tmp_path), ALL)
    fakes = Fakes(tmp_path)
    (fakes.store.folder / PEERMEM.inputs.digest / MANIFEST).write_text("{}")
    run = build_all(fakes, ALL)
    made = of(run, Part.PEERMEM)
    assert made.state is BuildState.BUILT
    assert "was damaged: its manifest cannot be read; put aside" in made.notes[0]
    assert fakes.ran == [PEERMEM.inputs.title]


def test_nothing_stays_held_after_a_run_that_was_ended(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, before=lambda _: time.sleep(1))

    class Interrupting(ThreadPoolExecutor):
        def submit(self, *args: object, **kwargs: object) -> object:  # type: ignore[override] # ends it
            super().submit(*args, **kwargs)  # type: ignore[arg-type] # passed on as they came
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Interrupting(1) as executor:
        run_builds((work(DRIVER),), fakes.ways(), Crew(executor, 1))
    held = fakes.store.hold(DRIVER.inputs.digest)
    assert held is not None
    held.let_go()


def test_the_log_of_a_build_is_kept_without_its_files(tmp_path: Path) -> None:
    text = printed(BuiltFile("nvidia-peermem.ko", b"x" * 99), lines="  CC [M] nvidia-peermem.o")
    build_all(Fakes(tmp_path, {PEERMEM.inputs.title: text}), ALL)
    (log,) = tmp_path.glob("runs/*/nvidia-peermem-535.261.03.6.1.0-49-amd64.log")
    said = log.read_text()
    assert "= make.output ok make\n  CC [M] nvidia-peermem.o\n= make ok make\n" in said
    assert "file.nvidia-peermem.ko" in said
    assert len(said) < len(text)
    assert list(readable(text)) == said.split("\n")[:-1]


def test_builds_of_one_title_have_a_log_each(tmp_path: Path) -> None:
    """nvidia-peermem of one driver, for one kernel, against two releases of OFED."""
    logs = Logs(RunFolder(tmp_path, "build", WHEN))
    names = [Path(logs.begin("nvidia-peermem/1 for 6.1").path).name for _ in range(2)]
    assert names == ["nvidia-peermem-1.6.1.log", "nvidia-peermem-1.6.1.2.log"]


@pytest.mark.parametrize("log", ["/dev/full", "/nowhere/at/all.log", ""])
def test_a_log_that_cannot_be_written_costs_no_build(log: str) -> None:
    with written(log) as write:
        write("  CC [M] nvidia.o")
        write("  LD [M] nvidia.ko")


def test_progress_hears_the_steps_of_each_build(tmp_path: Path) -> None:
    class Ear:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def begin(self, title: str, total: int) -> None:
            self.heard.append(f"{title} {total}")

        def note(self, host: str, text: str) -> None:
            self.heard.append(f"{host}: {text}")

        def done(self, host: str, trouble: str = "") -> None:
            self.heard.append(f"{host} done {trouble}".strip())

        def finish(self) -> None:
            self.heard.append("finish")

    def before(job: SandboxJob) -> None:
        with Path(job.log).open("a") as log:
            log.write("= prepare.output ok unpacking\n|x\n= make.output ok dkms build\n")
            log.flush()
            end = time.monotonic() + 120
            while f"{title}: make" not in ear.heard and time.monotonic() < end:
                time.sleep(0.02)

    ear = Ear()
    title = f"nvidia-current-open/535.261.03 for {KERNEL}"
    build_all(Fakes(tmp_path, before=before, progress=ear), work(DRIVER))
    assert ear.heard[0] == "building 1"
    assert f"{title}: make" in ear.heard
    assert ear.heard[-2:] == [f"{title} done", "finish"]
