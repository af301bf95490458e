"""The matrix of builds: kernels by driver sources, with and without OFED, by two ways.

    python -m tests.builds.matrix            the cells that the tests ask for
    python -m tests.builds.matrix --all      also the vendor's way with OFED, and a third source
    python -m tests.builds.matrix --whole    a whole driver, minutes long

Our way is that of ``build``: survey, graph, real DKMS aside, gate. The vendor's is what
happens to a node by itself: "dkms build" of the driver's own package, which lists
nvidia-peermem; where OFED is not seen it "succeeds" with a stub. OFED and nvidia.ko are stubs
of ours, nvidia-peermem is real.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from tests.builds import stubs
from tests.builds.judging import judge_files, modules_of
from tests.builds.sandbox import Sandbox
from tests.builds.sources import Source, place, source
from toolkit.built.plan.gate import GateVerdict, judge_modules
from toolkit.built.plan.model import BuildFailure, Built, Part
from toolkit.checks.kernel.build_failures import explain
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.io.sandbox import run_job
from toolkit.features.builds.plan.graph import BuildGraph, BuildStep, make_graph
from toolkit.features.builds.plan.outcome import read_outcome
from toolkit.features.builds.run.places import gate_ground, make_job, recipe, survey

LIMIT_S = 900.0
WHOLE_S = 7200.0  # four minutes on an idle machine; whoever asks for it may be busy with more
KERNELS = ("6.1.", "6.1.*-cloud-amd64", "6.12.", "6.1.*-rt-amd64")
SOURCES = ("nvidia-open", "nvidia-550")
THIRD = "nvidia"
_EXCLUDED = 77  # DKMS: the package does not want that kernel


class Way(StrEnum):
    OURS = "ours"
    VENDOR = "vendor's"


class Result(StrEnum):
    BUILT = "built"
    BLOCKED = "blocked"  # known before anything is tried
    EXCLUDED = "excluded"  # by the package: DKMS's 77
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Cell:
    kernel: str  # kernel release
    source: str  # one of sources.NAMES
    ofed: bool
    way: Way


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one cell."""

    cell: Cell
    result: Result
    seconds: float
    verdict: GateVerdict | None  # None where nothing came to the gate
    why: str  # "" where all is well

    @property
    def gate(self) -> str:
        if self.verdict is None:
            return "-"
        if self.verdict.passed:
            return "accepted"
        return f"refused: {self.verdict.refusals[0].cause}"


def rows(
    kernels: Sequence[str] = KERNELS, names: Sequence[str] = SOURCES, *, every: bool = False
) -> list[Row]:
    """Build every cell; the kernels of one source at once, as many as there are processors."""
    made: list[Row] = []
    with Sandbox.of("bookworm") as box:
        releases = [box.kernel(each) for each in kernels]
        for name in names:
            for ofed in (True, False):
                ways = [Way.OURS] if ofed and not every else [Way.OURS, Way.VENDOR]
                for way in ways:
                    with box.branch() as ground:
                        made += _of_ground(ground, releases, name, ofed=ofed, way=way)
                        print(f"{len(made)} cells done", file=sys.stderr)
    return made


def _of_ground(
    box: Sandbox, releases: Iterable[str], name: str, *, ofed: bool, way: Way
) -> list[Row]:
    """Lay the packages into a fresh tree, then build for each kernel."""
    vendors = source(name)
    peers = stubs.ofed(box) if ofed else None
    cells = [Cell(release, name, ofed, way) for release in releases]
    with ThreadPoolExecutor() as pool:
        if way is Way.OURS:
            stubs.driver(box, vendors.version, package=vendors.package, beside=vendors)
            ground = survey(str(box.root))
            return list(pool.map(lambda cell: _ours(box, ground, cell, vendors), cells))
        main = stubs.driver(box, vendors.version, package=vendors.package, peermem=vendors)
        box.run("dkms", "add", main.name)
    if peers is not None:
        stubs.install(box, peers, *(each for each in releases if "-rt-" not in each))
    return [_vendors(box, cell, main) for cell in cells]  # DKMS has one build folder a package


def _ours(box: Sandbox, ground: Ground, cell: Cell, vendors: Source) -> Row:
    """As ``build`` does it: nothing of what is built has to be installed in the tree."""
    began = time.monotonic()
    graph = make_graph(
        ground,
        [cell.kernel],
        parts=(Part.PEERMEM,),
        driver=vendors.version,
        recipe=recipe(),
    )
    if graph.blocked:
        real_time = [each for each in graph.blocked if "real-time" in each.found]
        stop = (*real_time, *graph.blocked)[0]
        return Row(cell, Result.BLOCKED, time.monotonic() - began, None, stop.found)
    built: dict[str, Built] = {}
    verdict = None
    for step in graph.steps:
        made = _step(box, graph, step, built)
        seconds = time.monotonic() - began
        if isinstance(made, BuildFailure):
            return Row(cell, Result.FAILED, seconds, None, f"{made.step}: {made.found}")
        verdict = judge_modules(made, gate_ground(ground, step, graph, built, made))
        if not verdict.passed:
            return Row(cell, Result.BUILT, seconds, verdict, str(verdict.refusals[0]))
        built[step.inputs.digest] = made
    return Row(cell, Result.BUILT, time.monotonic() - began, verdict, "")


def _step(
    box: Sandbox, graph: BuildGraph, step: BuildStep, built: dict[str, Built]
) -> Built | BuildFailure:
    job = make_job(step, graph, built, root=str(box.root), log="", limit_s=LIMIT_S, jobs=2)
    return read_outcome(run_job(job), step.inputs)


def _vendors(box: Sandbox, cell: Cell, main: stubs.Stub, limit_s: float = LIMIT_S) -> Row:
    """As a node does it: plain DKMS in the tree's own DKMS tree."""
    began = time.monotonic()
    done = box.run("dkms", "build", main.name, "-k", cell.kernel, check=False, limit_s=limit_s)
    seconds = time.monotonic() - began
    if done.status == _EXCLUDED:
        return Row(cell, Result.EXCLUDED, seconds, None, "BUILD_EXCLUSIVE does not match")
    if done.status:
        log = box.path(f"var/lib/dkms/{main.name}/build/make.log")
        said = explain(log.read_text().split("\n") if log.exists() else [], done.status, "3.0")
        return Row(cell, Result.FAILED, seconds, None, said.cause or said.line)
    folder = f"/var/lib/dkms/{main.name}/{cell.kernel}/x86_64/module"
    verdict = judge_files(box, cell.kernel, modules_of(box, folder), "peermem")
    why = str(verdict.refusals[0]) if verdict.refusals else ""
    return Row(cell, Result.BUILT, seconds, verdict, why)


def table(found: Sequence[Row]) -> str:
    """One line a cell."""
    heads = ("kernel", "driver", "OFED", "way", "result", "s", "gate", "why")
    lines = [heads]
    for row in found:
        cell = row.cell
        ofed = "with" if cell.ofed else "without"
        shown = (cell.kernel, cell.source, ofed, cell.way, row.result, f"{row.seconds:.1f}")
        lines.append((*shown, row.gate, row.why))
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads) - 1)]
    return "\n".join(
        "  ".join(
            [*(word.ljust(width) for word, width in zip(line, widths, strict=False)), line[-1]]
        )
        for line in lines
    )


def whole(kernel: str = "") -> Row:
    """Build a whole open driver, as its package comes, with OFED's symbols to be seen.

    :param kernel: kernel release; "" for the oldest that the release's archive has.
    """
    vendors = source("nvidia-open")
    with Sandbox.of("bookworm") as box:
        release = kernel or older_kernel(box)
        stubs.install(box, stubs.ofed(box), release)
        place(box, vendors)
        main = stubs.Stub(vendors.package, vendors.version)
        box.run("dkms", "add", main.name)
        return _vendors(box, Cell(release, "nvidia-open", True, Way.VENDOR), main, WHOLE_S)


def older_kernel(box: Sandbox) -> str:
    """Install the headers of the release's first kernel, which point updates left behind.

    535.261 as Debian has it does not compile for the newest of them.
    """
    box.run("apt-get", "-q", "update")
    policy = box.run("apt-cache", "madison", "linux-headers-amd64").out
    oldest = policy.strip().split("\n")[-1].split("|")[1].strip()
    shown = box.run("apt-cache", "show", f"linux-headers-amd64={oldest}").out
    name = next(word for word in shown.split() if word.startswith("linux-headers-6"))
    box.run("apt-get", "-q", "install", "-y", "--no-install-recommends", name)
    return name.removeprefix("linux-headers-")


def main(words: Sequence[str]) -> int:
    if "--whole" in words:
        found = [whole(*(word for word in words if not word.startswith("--")))]
    elif "--all" in words:
        found = rows(KERNELS, (*SOURCES, THIRD), every=True)
    else:
        found = rows()
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
