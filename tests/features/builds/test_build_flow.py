"""Graphs are carried out in order, once, and as far as they can be."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.features.builds.building import (
    WHEN,
    Fakes,
    build_all,
    graph,
    of,
    printed,
    states,
    step,
    work,
)
from toolkit.built.delivery_cache import find, kept
from toolkit.built.io.store import Store
from toolkit.built.plan.model import BuiltFile, Part
from toolkit.errors import ExitCode, TransportError
from toolkit.features.builds.io.executor import WorkerLost
from toolkit.features.builds.io.sandbox import SandboxJob
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph
from toolkit.features.builds.plan.outcome import BuildState, Need, NeedGraph
from toolkit.features.builds.run.build import Logs, plan_builds
from toolkit.rollout.runs import RunFolder

OFED = step(Part.OFED, version="24.10")
DRIVER = step(Part.DRIVER)
PEERMEM = step(Part.PEERMEM, Part.OFED, Part.DRIVER)
FS = step(Part.NVIDIA_FS, Part.DRIVER)
ALL = work(OFED, DRIVER, PEERMEM, FS)


def test_each_part_is_built_after_those_that_it_rests_on(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    run = build_all(fakes, ALL)
    assert states(run) == ["built"] * 4
    order = [fakes.ran.index(each.inputs.title) for each in (OFED, DRIVER, PEERMEM, FS)]
    assert order[2] > max(order[0], order[1])
    assert order[3] > order[1]
    assert fakes.upstream[PEERMEM.inputs.title] == [OFED.inputs.title, DRIVER.inputs.title]
    assert run.exit_code is ExitCode.OK


def test_of_a_log_the_step_that_began_last_is_told_however_long_a_line_before_it(
    tmp_path: Path,
) -> None:
    log = Logs(RunFolder(tmp_path, "build", WHEN)).begin("gdrdrv/2.4 for 6.1")
    file = Path(log.path)
    assert log.step() == "", "there is no log yet"
    begun = b"= prepare.output ok x\n|y\n= make.output ok y"
    file.write_bytes(begun)
    assert [log.step(), log.step()] == ["prepare", ""]
    long = b"\n" + b"x" * 70_000
    file.write_bytes(begun + long)
    assert [log.step(), log.step()] == ["make", ""]
    file.write_bytes(begun + long + b"\n= gate.output ok z\n= pack.output ok z\n")
    assert [log.step(), log.step()] == ["pack", ""]


def test_a_log_that_is_written_elsewhere_tells_nothing_until_it_is_here(tmp_path: Path) -> None:
    log = Logs(RunFolder(tmp_path, "build", WHEN), here=False).begin("gdrdrv/2.4 for 6.1")
    assert (log.path, log.step()) == ("", "")


def test_a_plan_says_which_build_of_the_cache_was_damaged(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    build_all(fakes, work(OFED))
    (fakes.store.folder / OFED.inputs.digest / "make.log").write_bytes(b"other")
    (made,) = plan_builds([work(OFED)], fakes.store).made
    assert made.state is BuildState.PLANNED
    assert "was damaged: make.log" in made.notes[0]
    (again,) = plan_builds([work(OFED)], fakes.store).made
    assert again.notes == ()


def test_the_second_run_builds_nothing(tmp_path: Path) -> None:
    first = build_all(Fakes(tmp_path), ALL)
    again = Fakes(tmp_path)
    second = build_all(again, ALL)
    assert again.ran == []
    assert states(second) == ["cached"] * 4
    assert [made.built for made in second.made] == [made.built for made in first.made]


def test_force_builds_what_is_in_the_cache(tmp_path: Path) -> None:
    build_all(Fakes(tmp_path), ALL)
    other = {PEERMEM.inputs.title: printed(BuiltFile("nvidia-peermem.ko", b"new"))}
    again = Fakes(tmp_path, other, force=True)
    assert states(build_all(again, ALL)) == ["built"] * 4
    assert len(again.ran) == 4
    found = find(again.store, PEERMEM.inputs).built
    assert found is not None
    assert found.modules[0].data == b"new"


def test_parts_that_do_not_rest_on_one_another_are_built_at_once(tmp_path: Path) -> None:
    meet = threading.Barrier(2, timeout=120)

    def before(job: SandboxJob) -> None:
        if job.title in {OFED.inputs.title, DRIVER.inputs.title}:
            meet.wait()

    assert states(build_all(Fakes(tmp_path, before=before), ALL)) == ["built"] * 4


def test_no_more_is_begun_than_is_worked_on_at_once(tmp_path: Path) -> None:
    """What waits for a free process holds no lock that keeps other runs from it."""
    fakes = Fakes(tmp_path)
    busy: list[int] = []

    def before(job: SandboxJob) -> None:
        held = [fakes.store.hold(each.inputs.digest) for each in (OFED, DRIVER)]
        busy.append(held.count(None))
        for each in held:
            if each is not None:
                each.let_go()

    fakes.before = before
    assert states(build_all(fakes, work(OFED, DRIVER), jobs=1)) == ["built", "built"]
    assert busy == [1, 1]


def test_what_is_given_is_neither_built_nor_looked_up(tmp_path: Path) -> None:
    given = step(Part.DRIVER, given=True)
    fakes = Fakes(tmp_path)
    run = build_all(fakes, work(OFED, given, PEERMEM))
    assert states(run) == ["built", "given", "built"]
    assert given.inputs.title not in fakes.ran
    assert [each.inputs.part for each in kept(fakes.store)].count(Part.DRIVER) == 0


def test_a_failure_stops_what_rests_on_it_and_nothing_else(tmp_path: Path) -> None:
    text = printed(failed="make", status=10, lines="nvidia.c:1:10: fatal error: x.h: No such file")
    fakes = Fakes(tmp_path, {OFED.inputs.title: text})
    run = build_all(fakes, ALL)
    assert states(run) == ["failed", "built", "skipped", "built"]
    failure = of(run, Part.OFED).failure
    assert failure is not None
    assert (failure.step, failure.status) == ("make", 10)
    assert failure.tail[-1].endswith("x.h: No such file")
    skipped = of(run, Part.PEERMEM)
    assert skipped.why == "mlnx-ofed-kernel/24.10 for 6.1.0-49-amd64 is not there: failed"
    assert PEERMEM.inputs.title not in fakes.ran
    assert run.exit_code is ExitCode.FAILED


def test_what_failed_is_tried_again_the_next_time(tmp_path: Path) -> None:
    build_all(Fakes(tmp_path, {PEERMEM.inputs.title: printed(failed="make")}), ALL)
    fakes = Fakes(tmp_path)
    assert states(build_all(fakes, ALL)) == ["cached", "cached", "built", "cached"]
    assert fakes.ran == [PEERMEM.inputs.title]


def test_an_excluded_kernel_is_no_failure(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {FS.inputs.title: printed(failed="make", status=77)})
    run = build_all(fakes, ALL)
    assert of(run, Part.NVIDIA_FS).state is BuildState.EXCLUDED
    assert run.exit_code is ExitCode.UNSUPPORTED


def test_what_the_gate_refuses_is_not_kept(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, refused=frozenset({PEERMEM.inputs.title}))
    run = build_all(fakes, ALL)
    made = of(run, Part.PEERMEM)
    assert made.state is BuildState.REFUSED
    assert made.built is None
    assert find(fakes.store, PEERMEM.inputs).built is None
    assert run.exit_code is ExitCode.FAILED


def test_the_gate_judges_what_comes_from_the_cache_too(tmp_path: Path) -> None:
    build_all(Fakes(tmp_path), ALL)
    run = build_all(Fakes(tmp_path, refused=frozenset({DRIVER.inputs.title})), ALL)
    assert states(run) == ["cached", "refused", "skipped", "skipped"]


def test_output_that_was_cut_is_a_failure_and_not_kept(tmp_path: Path) -> None:
    whole = printed(BuiltFile("nvidia-peermem.ko", b"x" * 999))
    fakes = Fakes(tmp_path, {PEERMEM.inputs.title: whole[: whole.index("= end")]})
    run = build_all(fakes, ALL)
    assert of(run, Part.PEERMEM).state is BuildState.FAILED
    assert find(fakes.store, PEERMEM.inputs).built is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(TransportError("builder: gone"), ExitCode.UNREACHABLE, id="host"),
        pytest.param(WorkerLost("killed, twice"), ExitCode.FAILED, id="process"),
        pytest.param(KeyError("oops"), ExitCode.BUG, id="bug"),
    ],
)
def test_a_place_that_is_lost_costs_what_was_built_there(
    tmp_path: Path, error: Exception, code: ExitCode
) -> None:
    run = build_all(Fakes(tmp_path, {OFED.inputs.title: error}), ALL)
    assert states(run) == ["lost", "built", "skipped", "built"]
    assert run.exit_code is code


def test_nodes_with_the_same_inputs_share_one_build(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    works = [work(DRIVER, PEERMEM, nodes=("gpu001", "gpu002")), work(DRIVER, FS, nodes=("gpu003",))]
    run = build_all(fakes, *works)
    assert fakes.ran.count(DRIVER.inputs.title) == 1
    assert len(run.made) == 3
    assert run.nodes(DRIVER) == ("gpu001", "gpu002", "gpu003")
    assert run.nodes(FS) == ("gpu003",)


def test_a_result_that_cannot_be_kept_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.built.io.store.os.fsync", full)
    run = build_all(Fakes(tmp_path), work(DRIVER))
    failure = run.made[0].failure
    assert failure is not None
    assert "could not be kept" in failure.found
    assert failure.found.endswith("No space left on device")
    assert run.exit_code is ExitCode.FAILED


def test_a_lock_that_cannot_be_made_is_a_failure_of_that_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Store, digest: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "hold", full)
    run = build_all(Fakes(tmp_path), work(DRIVER, FS))
    assert states(run) == ["failed", "skipped"]
    failure = run.made[0].failure
    assert failure is not None
    assert failure.found.startswith("no lock could be made in ")


def test_a_plan_holds_and_builds_nothing(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    build_all(fakes, work(OFED))
    held = fakes.store.hold(DRIVER.inputs.digest)  # somebody builds it: a plan does not wait
    assert held is not None
    run = plan_builds((ALL,), fakes.store)
    held.let_go()
    assert states(run) == ["cached", "planned", "planned", "planned"]
    assert run.exit_code is ExitCode.PENDING
    assert states(plan_builds((ALL,), fakes.store, force=True)) == ["planned"] * 4


def test_what_is_blocked_makes_the_run_unsupported(tmp_path: Path) -> None:
    blocked = BlockedPart("6.1.0-rt", Part.PEERMEM, "it is an RT kernel", "boot another one")
    works = [
        work(DRIVER),
        NeedGraph(Need(), BuildGraph((), (blocked,))),
        NeedGraph(Need(), BuildGraph((), (blocked,))),
    ]
    run = build_all(Fakes(tmp_path), *works)
    assert run.blocked == (blocked,)
    assert run.exit_code is ExitCode.UNSUPPORTED


def test_one_graph_knows_what_its_steps_rest_on() -> None:
    assert graph(OFED, DRIVER, PEERMEM).upstream(PEERMEM) == (OFED, DRIVER)
