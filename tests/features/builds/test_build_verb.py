"""The verb ``build``: what it prints, its document, its exit codes, and its sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from msgspec.structs import replace

from tests.features.builds.building import KERNEL, WHEN, Fakes, printed, step, work
from tests.invoked import gdr
from toolkit.built.io.store import DAY_S, StoreRow
from toolkit.built.plan.model import Part
from toolkit.cli import Gdr, verbs
from toolkit.errors import ExitCode, NoEvidence, Outcome, TransportError
from toolkit.features.builds import cli as building
from toolkit.features.builds.io.executor import Crew
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph
from toolkit.features.builds.plan.outcome import BuildRun, Need, NeedGraph
from toolkit.features.builds.run.build import run_builds
from toolkit.features.builds.run.places import BuildPlace
from toolkit.features.builds.run.run import BuildOptions, NodeNeeds, Surveyed
from toolkit.features.builds.show import build_document, build_report, listing
from toolkit.report.table import Painter

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/build.schema.json").read_text())
PLAIN = Painter(coloured=False)
OFED = step(Part.OFED, version="24.10")
GIVEN = step(Part.DRIVER, given=True)
PEERMEM = step(Part.PEERMEM, Part.OFED, Part.DRIVER)
FS = step(Part.NVIDIA_FS, Part.DRIVER)
BLOCKED = BlockedPart("6.1.0-rt", Part.DRIVER, "it is a real-time kernel", "boot another one")
LOG = "\n".join([*(f"  CC [M] file{n}.o" for n in range(30)), "x.c:1: fatal error: y.h: No such"])


def _run(fakes: Fakes, *works: NeedGraph) -> BuildRun:
    with ThreadPoolExecutor(2) as executor:
        return run_builds(works, fakes.ways(), Crew(executor, 2))


def _mixed(folder: Path) -> BuildRun:
    """One of each: built, given, failed, refused, lost, blocked."""
    said: dict[str, str | Exception] = {
        OFED.inputs.title: printed(failed="make", status=10, lines=LOG),
        step(Part.GDRDRV).inputs.title: TransportError("builder: gone", hint="is it on?"),
    }
    fakes = Fakes(folder, said, refused=frozenset({FS.inputs.title}))
    nodes = ("gpu001", "gpu002")
    works = [
        work(OFED, GIVEN, PEERMEM, FS, step(Part.GDRDRV), nodes=nodes),
        work(step(Part.DRIVER, kernel="6.12.1"), nodes=("gpu003",)),
        NeedGraph(Need(), BuildGraph((), (BLOCKED,))),
    ]
    return _run(fakes, *works)


def test_a_run_is_told_to_a_person(tmp_path: Path) -> None:
    text = build_report(_mixed(tmp_path), PLAIN)
    rows = [line.split() for line in text.split("\n")[1:7]]
    assert [row[0] for row in rows] == [
        "ofed",
        "driver",
        "peermem",
        "nvidia-fs",
        "gdrdrv",
        "driver",
    ]
    assert [row[3] for row in rows] == ["failed", "given", "skipped", "refused", "lost", "built"]
    assert "gpu[001-002]" in rows[0]
    assert "gpu003" in rows[5]
    assert text.endswith(
        "2 of 7 are there: 1 given, 1 built, 1 failed, 1 refused, 1 skipped, 1 lost, 1 blocked."
    )


TOLD = """\
failed   mlnx-ofed-kernel/24.10 for 6.1.0-49-amd64
         found     make: the build stopped: x.c:1: fatal error: y.h: No such
         next      read the whole log of this build, in the folder of the run
         log       where it failed, and its last lines:
{log}
           | x.c:1: fatal error: y.h: No such

refused  nvidia-fs/535.261.03 for 6.1.0-49-amd64
         refused   nvidia-fs.ko: it is a stub (stub)
         next      build OFED

lost     gdrdrv/535.261.03 for 6.1.0-49-amd64
         found     builder: gone
         next      is it on?

blocked  driver for 6.1.0-rt
         found     it is a real-time kernel
         next      boot another one

2 of 7 are there: 1 given, 1 built, 1 failed, 1 refused, 1 skipped, 1 lost, 1 blocked."""


def test_below_the_table_each_failure_is_told_with_what_is_next(tmp_path: Path) -> None:
    log = "\n".join(f"           |   CC [M] file{number}.o" for number in range(11, 30))
    told = build_report(_mixed(tmp_path), PLAIN).partition("\n\n")[2]
    assert told == TOLD.format(log=log)


def test_what_was_noted_is_told_and_control_characters_are_not(tmp_path: Path) -> None:
    lines = "a line \x1b[2Jthat would clear the screen"
    fakes = Fakes(tmp_path, {OFED.inputs.title: printed(failed="make", lines=lines)})
    assert "\x1b" not in build_report(_run(fakes, work(OFED)), PLAIN)


def test_of_what_was_refused_nothing_is_told_as_accepted(tmp_path: Path) -> None:
    told = build_report(_mixed(tmp_path), PLAIN, verbose=True)
    refused = told[told.index("refused  nvidia-fs") :].partition("\n\n")[0]
    assert "accepted" not in refused


@pytest.mark.parametrize(
    ("size", "days", "shown"),
    [
        (99_999, 0.0, "100.0 kB  today"),
        (100_000, 0.99, "0.1 MB  today"),
        (1, 1.0, "0.0 kB  1 day ago"),
        (1, 2.5, "0.0 kB  2 days ago"),
        (1, -3.0, "0.0 kB  today"),
    ],
)
def test_a_build_in_the_cache_is_listed_with_its_size_and_its_last_use(
    size: int, days: float, shown: str
) -> None:
    about = (("package", "gdrdrv"), ("version", "2.4"), ("kernel", KERNEL))
    row = StoreRow("ab" * 32, about, 1e9 - days * DAY_S, size)
    line = listing([row], 1e9).split("\n")[1]
    assert "  ".join(line.split("  ")[3:]).split() == shown.split()
    assert line.startswith("abababababab  gdrdrv/2.4  ")
    damaged = listing([StoreRow("cd" * 32, (), 0.0, 5)], 1e9).split("\n")[1]
    assert damaged.split("  ")[:2] == ["cdcdcdcdcdcd", "cannot be read"]


def test_files_are_told_where_more_is_asked_for(tmp_path: Path) -> None:
    run = _run(Fakes(tmp_path), work(OFED))
    assert "sha256" not in build_report(run, PLAIN)
    built = run.made[0].built
    assert built is not None
    told = build_report(run, PLAIN, verbose=True)
    assert built.modules[0].sha256 in told
    assert "accepted: ib_uverbs.ko" in told


def test_a_run_without_anything_to_build_says_so(tmp_path: Path) -> None:
    text = build_report(_run(Fakes(tmp_path), NeedGraph(Need(), BuildGraph((), ()))), PLAIN)
    assert text == "nothing to build: no source of a part was found."


def test_the_document_keeps_its_schema_and_says_the_same(tmp_path: Path) -> None:
    run = _mixed(tmp_path)
    unread: list[Outcome[NodeNeeds]] = [Outcome("gpu009", error=NoEvidence("gpu009: no driver"))]
    told = json.loads(
        json.dumps(build_document(run, run.exit_code, WHEN, cache="/c", unread=unread))
    )
    jsonschema.validate(told, SCHEMA)
    assert told["exit_code"] == 4  # a place out of reach is worse than a failed build
    by_part = {each["part"]: each for each in told["builds"] if each["kernel"] == KERNEL}
    assert by_part["peermem"]["after"] == [OFED.inputs.digest, GIVEN.inputs.digest]
    assert by_part["ofed"]["failure"]["status"] == 10
    assert len(by_part["ofed"]["failure"]["tail"]) == 20
    assert by_part["nvidia-fs"]["refusals"][0]["cause"] == "stub"
    assert by_part["gdrdrv"]["error"] == {
        "message": "builder: gone",
        "hint": "is it on?",
        "exit_code": 4,
    }
    assert by_part["ofed"]["nodes"] == ["gpu001", "gpu002"]
    assert told["blocked"][0]["found"] == "it is a real-time kernel"
    assert told["errors"][0]["name"] == "gpu009"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """The verb as it is, over a place that builds nothing."""
    fakes = Fakes(tmp_path)
    works = (work(OFED, GIVEN, PEERMEM),)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))

    @contextmanager
    def place(*_: object, **__: object) -> Iterator[BuildPlace]:
        yield BuildPlace(
            "here", "", "threads", lambda _: pytest.fail("not asked"), fakes.ways().run_job
        )

    def graphs(*_: object) -> Surveyed:
        return Surveyed(None, works)  # type: ignore[arg-type] # only a real build looks at it

    def build_in(_: BuildPlace, surveyed: Surveyed, *rest: object) -> BuildRun:
        store, _folder, options = rest
        assert isinstance(options, BuildOptions)
        ways = replace(fakes.ways(), store=store, force=options.force)
        with ThreadPoolExecutor(1) as executor:
            return run_builds(surveyed.works, ways, Crew(executor, 1))

    for name, fake in (("open_place", place), ("graphs_for", graphs), ("build_in", build_in)):
        monkeypatch.setattr(building, name, fake)
    return fakes


def _verb(**values: str | int | bool) -> ExitCode:
    try:
        building.build(Context(), **values)
    except Exit as ended:
        return ExitCode(ended.code)
    return ExitCode.OK


def test_the_verb_builds_once_and_then_has_it(
    ground: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _verb(json=True) is ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, SCHEMA)
    assert [each["state"] for each in told["builds"]] == ["built", "given", "built"]
    assert told["cache"].endswith("caches/gdr-toolkit/builds")
    assert _verb(json=True) is ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in told["builds"]] == ["cached", "given", "cached"]
    assert len(ground.ran) == 2


def test_a_plan_builds_nothing_and_says_what_is_pending(
    ground: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _verb(plan=True) is ExitCode.PENDING
    assert "to be built" in capsys.readouterr().out
    assert ground.ran == []
    assert _verb() is ExitCode.OK
    assert _verb(plan=True) is ExitCode.OK
    assert "in the cache" in capsys.readouterr().out


def test_force_builds_again(ground: Fakes) -> None:
    assert _verb() is ExitCode.OK
    assert _verb(force=True) is ExitCode.OK
    assert len(ground.ran) == 4


def test_a_cache_of_our_own_is_listed_and_pruned(
    ground: Fakes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = str(tmp_path / "mine")
    assert _verb(cached=True, cache=cache) is ExitCode.OK
    assert capsys.readouterr().out == "the cache is empty\n"
    _verb(cache=cache, quiet=True)
    capsys.readouterr()
    assert _verb(cached=True, cache=cache) is ExitCode.OK
    rows = capsys.readouterr().out.split("\n")
    assert sorted(row.split()[1] for row in rows[1:3]) == [
        "mlnx-ofed-kernel/24.10",
        "nvidia-peermem/535.261.03",
    ]
    assert rows[1].endswith("today")
    assert rows[4].startswith("2 builds, ")
    _verb(cached=True, cache=cache, json=True)
    assert [each["version"] for each in json.loads(capsys.readouterr().out)["entries"]] != []
    assert _verb(prune=1, cache=cache) is ExitCode.OK
    assert capsys.readouterr().out == "removed: 0 builds, 0.0 kB\n"
    assert _verb(prune=0, cache=cache) is ExitCode.OK
    assert capsys.readouterr().out.startswith("removed: 2 builds, ")


def test_the_log_of_each_build_lies_in_the_folder_of_the_run(ground: Fakes, tmp_path: Path) -> None:
    _verb()
    assert len(list(tmp_path.glob("runs/*/*.log"))) == 2
    assert len(list(tmp_path.glob("state/gdr-toolkit/runs/*/build.json"))) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--part", "ofde"), "no part 'ofde'", id="part"),
        pytest.param(("--executor", "slurm"), "no executor 'slurm'", id="executor"),
        pytest.param(("--jobs", "-1"), "--jobs -1: at least 1 build at a time", id="jobs"),
        pytest.param(("--jobs", "many"), "--jobs 'many' is not a whole number", id="no-number"),
        pytest.param(("--timeout", "0"), "--timeout 0: at least one second", id="limit"),
        pytest.param(
            ("--executor", "slurm", "--plan"), "no executor 'slurm'", id="executor-of-a-plan"
        ),
        pytest.param(("--timeout", "0", "--try"), "--timeout 0: at least one", id="limit-of-a-try"),
        pytest.param(("--prune", "-5"), "--prune -5: 0 days", id="prune-what-will-be"),
        pytest.param(("--prune", "-1"), "--prune -1: 0 days", id="prune-tomorrow"),
        pytest.param(("--flags", "V=1 -i"), "--flags '-i' is not NAME=value", id="flags"),
        pytest.param(("--root", "/usr/.."), "/usr/.. is this machine itself", id="root-itself"),
        pytest.param(("--prune", "x"), "--prune 'x' is not a whole number", id="prune"),
        pytest.param(("--on", "a", "--root", "/"), "--on and --root name two places", id="places"),
        pytest.param(("--on", "h", "--executor", "dask://x:1"), "do not go together", id="on-dask"),
        pytest.param(
            ("--executor", "threads"), "--executor threads is for --on", id="threads-here"
        ),
        pytest.param(("--on", "gpu[001-002]"), "names 2 hosts", id="two-builders"),
        pytest.param(("--root", "/nowhere"), "/nowhere is no tree of a system", id="root"),
        pytest.param(("--kernel", ""), "--kernel is empty", id="empty"),
        pytest.param(("--kernel", "6.1.0-1/"), "--kernel '6.1.0-1/' is no kernel", id="a-folder"),
        pytest.param(("--kernel", "6.1, ../6"), "--kernel '../6' is no kernel", id="a-way-out"),
        pytest.param(("--kernel", "6.1 6.2"), "--kernel '6.1 6.2' is no kernel", id="blanks"),
        pytest.param(("--kernel", ","), "--kernel ',' names no kernel", id="a-comma"),
        pytest.param(("--cache", "/proc/x"), "the cache /proc/x cannot be used", id="cache"),
    ],
)
def test_mistakes_get_a_sentence_and_begin_nothing(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ended = gdr("build", *words, state=tmp_path / "s")
    assert ended.returncode == ExitCode.USAGE, ended.stderr
    first = ended.stderr.split("\n")[0]
    assert first.startswith("error: ")
    assert said in first
    assert not (tmp_path / "s").exists()


def test_a_kernel_may_be_said_more_than_once(
    ground: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Need] = []

    def graphs(_: object, needs: tuple[Need, ...], *__: object) -> Surveyed:
        heard.extend(needs)
        return Surveyed(None, ())  # type: ignore[arg-type] # nothing is built

    monkeypatch.setattr(building, "graphs_for", graphs)
    Gdr(namespace=verbs()).run(
        ["gdr", "build", "--plan", "--kernel", "6.1,6.12", "--kernel", "6.6"]
    )
    assert heard == [Need(("6.1", "6.12", "6.6"))]
