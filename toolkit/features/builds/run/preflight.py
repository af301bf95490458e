"""Kernels that are not installed: their headers from packages, and what will come of builds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.plan.gate import REGISTER
from toolkit.built.plan.model import PEERMEM, BuildFailure, Part
from toolkit.compat.reader import Compat, Confidence
from toolkit.errors import UsageError
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.io.executors import DASK
from toolkit.features.builds.io.headers import Headers, unpack_headers
from toolkit.features.builds.plan.graph import BuildGraph, BuildStep
from toolkit.features.builds.plan.outcome import Need, read_outcome
from toolkit.features.builds.plan.preflight import (
    CompileAnswer,
    Outlook,
    Preflight,
    Reason,
    after_trial,
    foresee,
)
from toolkit.features.builds.run.places import BuildPlace, make_job, survey
from toolkit.features.builds.run.run import Surveyed

_TRIAL = "compiled on this machine, in {:.0f} s"
# What nvidia-peermem of any version imports; versions of symbols are not asked for here.
_P2P = (
    "cap_persistent_pages",
    "dma_map_pages",
    "dma_unmap_pages",
    "free_dma_mapping",
    "free_page_table",
    "get_pages",
    "get_pages_persistent",
    "put_pages",
    "put_pages_persistent",
)


class LaidHeaders(Struct, frozen=True):
    """A place above which headers lie."""

    place: BuildPlace
    releases: tuple[str, ...]  # kernels that they are of
    said: tuple[str, ...]  # names of the packages

    def needs(self, asked: Sequence[Need]) -> tuple[Need, ...]:
        """What was asked for; where no kernel was named, those of the headers."""
        return tuple(
            replace(each, kernels=self.releases) if self.releases and not each.kernels else each
            for each in asked
        )


@contextmanager
def with_headers(
    place: BuildPlace, given: Sequence[str], sources: Sequence[str] = ()
) -> Iterator[LaidHeaders]:
    """The same place, where what these packages hold is seen; nothing is installed.

    :param sources: of the driver.
    :raises UsageError: for a place that is not on this machine, and for what is no headers.
    """
    if not given and not sources:
        yield LaidHeaders(place, (), ())
        return
    word = "headers" if given else "sources"
    if not place.here or place.executor.startswith(DASK):
        raise UsageError(
            f"--{word} are laid above a tree of this machine, or above this machine",
            hint=f"leave out --on and --executor, or install the {word} there",
        )
    if os.geteuid() != 0:
        raise UsageError(f"--{word} needs root: they are mounted aside", hint="run it by sudo")
    with unpack_headers(given, place.root, sources=sources) as found:
        yield lay(place, found)


def lay(place: BuildPlace, headers: Headers) -> LaidHeaders:
    """The place with unpacked headers above it."""

    def look(names: Sequence[str]) -> Ground:
        return survey(place.root, names or headers.releases, layer=headers.layer)

    laid = replace(place, survey=look, layer=headers.layer)
    return LaidHeaders(laid, headers.releases, headers.said)


def preflight(
    laid: LaidHeaders, surveyed: Surveyed, compat: Compat, *, compile_it: bool, limit_s: float
) -> Preflight:
    """What will come of builds, by rule; nothing is built.

    :param compile_it: compile nvidia-peermem too, aside, and throw it away.
    """
    outlooks: list[Outlook] = []
    for work in surveyed.works:
        found = foresee(surveyed.ground, work.graph, compat)
        if compile_it:
            found = tuple(_tried(laid.place, work.graph, each, limit_s) for each in found)
        outlooks += found
    return Preflight(tuple(outlooks), laid.said, laid.place.title)


def _tried(place: BuildPlace, graph: BuildGraph, outlook: Outlook, limit_s: float) -> Outlook:
    """What really came of compiling it, for nvidia-peermem as a package of ours."""
    step = next(
        (
            each
            for each in graph.steps
            if each.inputs.package == PEERMEM
            and each.inputs.kernel == outlook.kernel
            and outlook.part is Part.PEERMEM
        ),
        None,
    )
    if step is None:
        return outlook
    stood_in = _stood_in(graph, step)
    job = make_job(step, stood_in, {}, root=place.root, log="", limit_s=limit_s, layer=place.layer)
    began = time.monotonic()
    outcome = read_outcome(place.run_job(job), step.inputs)
    took = _TRIAL.format(time.monotonic() - began)
    if not isinstance(outcome, BuildFailure):
        found = "it compiles; what it was linked against stood in for OFED and the driver"
        return after_trial(outlook, Reason(CompileAnswer.WILL, found, took, Confidence.HIGH))
    # The compiler was not reached, had its way, or was cut off: it ended with no status then.
    if outcome.step in {"prepare", "pack"} or not outcome.status:
        return after_trial(outlook, Reason(None, outcome.found, took, Confidence.HIGH))
    found = f"{outcome.found}{f': {outcome.cause}' if outcome.cause else ''}"
    reason = Reason(CompileAnswer.WILL_NOT, found, took, Confidence.HIGH, outcome.action)
    return after_trial(outlook, reason)


def _stood_in(graph: BuildGraph, step: BuildStep) -> BuildGraph:
    """The graph with stand-ins in place of what it rests on: names without true versions.

    Whether it compiles does not turn on them, and the driver takes minutes to build.
    """
    names = {
        Part.OFED: [REGISTER, REGISTER.replace("ib_", "ib_un", 1)],
        Part.DRIVER: [f"nvidia_p2p_{each}" for each in _P2P],
    }
    modules = {Part.OFED: "ib_uverbs", Part.DRIVER: "nvidia"}
    above = []
    for each in graph.upstream(step):
        part = each.inputs.part
        rows = "".join(f"0x00c0ffee\t{n}\t{modules[part]}\tEXPORT_SYMBOL\t\n" for n in names[part])
        above.append(replace(each, given=True, exports=each.exports if each.given else rows))
    return BuildGraph((*above, step), ())
