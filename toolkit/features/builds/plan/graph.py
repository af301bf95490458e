"""What is built for which kernel, out of what, in which order, and why.

Sources: NVIDIA/open-gpu-kernel-modules conftest.sh and nvidia-peermem.Kbuild; dkms(8);
mlnx-ofa_kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.plan.model import Inputs, Part
from toolkit.facts.modules.build_env import Ground, GroundKernel, Provider
from toolkit.facts.versions import Version
from toolkit.features.builds.plan.obstacles import BuildObstacle, kernel_obstacle, part_obstacle
from toolkit.features.builds.plan.wanted import (
    P2P,
    ChosenPart,
    choose,
    given_exports,
    linked_against,
    rows_digest,
    rows_text,
)

_NO_KERNEL = (
    "no kernel has headers there",
    "install linux-headers-RELEASE (kernel-devel on RPM systems), or name a kernel: --kernel",
)


class BuildStep(Struct, frozen=True):
    """One part for one kernel: built, or taken as it is installed."""

    inputs: Inputs
    after: tuple[Part, ...]  # parts of the same kernel that it is linked against
    why: str  # why it is built, or why it is not: half a sentence
    given: bool = False  # taken as it is installed: never built, never looked up in the cache
    source: str = ""  # folder below /usr/src; "" for what is given and has none there
    source_name: str = ""  # DKMS name of the package there
    left_out: tuple[str, ...] = ()  # modules of the package that are not wanted from it
    hidden: tuple[str, ...] = ()  # folders below /usr/src that the build is not to see
    exports: str = ""  # of what is given: rows of a Module.symvers


class BlockedPart(Struct, frozen=True):
    """A part that cannot be built for a kernel: known before anything is tried."""

    kernel: str
    part: Part
    found: str  # one sentence
    hint: str


class BuildGraph(Struct, frozen=True):
    """The steps of all kernels: each stands after those that it rests on."""

    steps: tuple[BuildStep, ...]
    blocked: tuple[BlockedPart, ...]

    def upstream(self, step: BuildStep) -> tuple[BuildStep, ...]:
        """The steps that one rests on."""
        return tuple(
            each
            for each in self.steps
            if each.inputs.kernel == step.inputs.kernel and each.inputs.part in step.after
        )


def _buildable(ground: Ground) -> list[str]:
    """Releases of the kernels that have headers, oldest first."""
    found = (each.release for each in ground.kernels if each.headers)
    return sorted(found, key=lambda each: (Version(each), each))


def make_graph(
    ground: Ground,
    kernels: Sequence[str],
    *,
    parts: Sequence[Part] = (),
    driver: str = "",
    ofed: str = "",
    flags: str = "",
    recipe: str = "",
    given: Provider | None = None,
) -> BuildGraph:
    """The steps for these kernels.

    :param kernels: kernel releases; none for all that have headers.
    :param parts: what is wanted; none for all that the ground has sources for. What they
        rest on comes in by itself.
    :param driver: version of the driver; "" for the installed one, or the newest there is.
    :param ofed: version of OFED; likewise. "inbox" for none of it.
    :param flags: NAME=value words for the make line.
    :param recipe: hash of what of the toolkit takes part.
    :param given: the driver of the nodes, in place of what the ground has installed.
    """
    steps: list[BuildStep] = []
    blocked: list[BlockedPart] = []
    releases = kernels or _buildable(ground)
    if not releases:  # or a run that built nothing would end well
        blocked = [BlockedPart("any kernel", next(iter(parts), Part.PEERMEM), *_NO_KERNEL)]
    for release in releases:
        kernel = _with_driver(ground.kernel(release), given)
        chosen = choose(ground, kernel, parts, driver=driver, ofed=ofed)
        if (stop := kernel_obstacle(ground, kernel, release)) is not None:
            first = next((each.part for each in chosen if not each.given), Part.PEERMEM)
            blocked.append(BlockedPart(release, first, stop.found, stop.hint))
            continue
        assert kernel is not None  # noqa: S101 # an unknown one is an obstacle
        made, refused = _for_kernel(ground, kernel, chosen, flags, recipe)
        steps += made
        blocked += refused
    return BuildGraph(tuple(steps), tuple(blocked))


def _with_driver(kernel: GroundKernel | None, given: Provider | None) -> GroundKernel | None:
    if kernel is None or given is None:
        return kernel
    own = (each for each in kernel.providers if P2P not in each.crcs)
    return replace(kernel, providers=(*own, given))


def _for_kernel(
    ground: Ground, kernel: GroundKernel, chosen: Sequence[ChosenPart], flags: str, recipe: str
) -> tuple[list[BuildStep], list[BlockedPart]]:
    steps: dict[Part, BuildStep] = {}
    blocked: list[BlockedPart] = []
    stopped: set[Part] = set()
    for each in chosen:  # in the order of Part, so that what it rests on is settled
        below = next((part for part in each.after if part in stopped), None)
        stop = part_obstacle(ground, kernel, each, chosen)
        if below is not None:
            stop = BuildObstacle(
                f"{each.part} rests on {below}, which cannot be built", "see there"
            )
        if stop is not None:
            stopped.add(each.part)
            blocked.append(BlockedPart(kernel.release, each.part, stop.found, stop.hint))
        elif each.given:
            steps[each.part] = _given(ground, kernel, each)
        else:
            upstream = [steps[part] for part in each.after]
            step = _built(_inputs(ground, kernel, each), each, upstream, flags, recipe)
            # Of drivers that it does not rest on no source is seen: nvidia-fs takes the first.
            own = {e.source for e in upstream if e.inputs.part is Part.DRIVER and e.source}
            others = (s.folder for s in ground.sources if own and s.licence)
            steps[each.part] = replace(step, hidden=tuple(s for s in others if s not in own))
    return list(steps.values()), blocked


def _inputs(ground: Ground, kernel: GroundKernel, chosen: ChosenPart) -> Inputs:
    return Inputs(
        part=chosen.part,
        package=chosen.package,
        version=chosen.version,
        kernel=kernel.release,
        arch=ground.arch,
        source=chosen.source.digest if chosen.source else "",
        headers=kernel.headers,
        compiler=kernel.compiler,
        symvers="",
        flags="",
        recipe="",
    )


def _given(ground: Ground, kernel: GroundKernel, chosen: ChosenPart) -> BuildStep:
    rows = given_exports(ground, kernel, chosen.part)
    inputs = replace(_inputs(ground, kernel, chosen), symvers=rows_digest(rows))
    folder = chosen.source.folder if chosen.source else ""
    exports = rows_text(rows)
    return BuildStep(inputs, chosen.after, chosen.why, given=True, source=folder, exports=exports)


def _built(
    inputs: Inputs, chosen: ChosenPart, upstream: Sequence[BuildStep], flags: str, recipe: str
) -> BuildStep:
    given = frozenset(each.inputs.part for each in upstream if each.given)
    symvers = linked_against([each.inputs for each in upstream], given)
    return BuildStep(
        replace(inputs, symvers=symvers, flags=flags, recipe=recipe),
        chosen.after,
        chosen.why,
        source=chosen.source.folder if chosen.source else "",
        source_name=chosen.source.name if chosen.source else "",
        left_out=chosen.left_out,
    )
