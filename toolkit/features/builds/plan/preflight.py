"""Will it compile for that kernel? By rule, before anything is tried.

Three answers: yes and no need a row of the tables or an obstacle that is there to be seen; all
else is not known. Silence of the tables is never a yes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.plan.model import Part
from toolkit.compat.reader import Compat, Confidence
from toolkit.errors import ExitCode, Unparsable
from toolkit.facts.modules.build_env import Ground, GroundKernel, parse_cc_version
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph, BuildStep

_OPEN = "Dual MIT/GPL"  # the licence that the open modules declare
_SEEN = "the ground, as it was surveyed"
_COMPILERS = "NVIDIA/open-gpu-kernel-modules conftest.sh, cc_sanity_check; kernel Makefile"
_PARTS = 4  # of headers, that are looked for: see hashes.sh
_MEMBERS = (Part.DRIVER, Part.PEERMEM, Part.OFED)  # that the tables know


class CompileAnswer(StrEnum):
    WILL = "will compile"
    WILL_NOT = "will not compile"
    UNKNOWN = "not known"


# Of several answers the first of these counts.
_WORST = (CompileAnswer.WILL_NOT, CompileAnswer.UNKNOWN, CompileAnswer.WILL)
_CODES = {
    CompileAnswer.WILL: ExitCode.OK,
    CompileAnswer.WILL_NOT: ExitCode.FAILED,
    CompileAnswer.UNKNOWN: ExitCode.UNKNOWN,
}


class Reason(Struct, frozen=True):
    """One thing that an answer rests on."""

    answer: CompileAnswer | None  # what it speaks for; None: worth knowing, and decides nothing
    found: str  # one sentence
    source: str
    confidence: Confidence
    hint: str = ""  # what to do about it
    basis: str = ""  # who knows it of a row of the table: a value of CompileBasis


class Outlook(Struct, frozen=True):
    """One part for one kernel."""

    kernel: str
    part: Part
    package: str  # DKMS name and version: "nvidia-peermem/535.261.03"
    reasons: tuple[Reason, ...]
    tried: bool = False  # it was compiled, so that rules count no more

    @property
    def answer(self) -> CompileAnswer:
        """A rule that says no counts most; then whatever is known to compile."""
        said = [each.answer for each in self.reasons if each.answer is not None]
        return next((each for each in (CompileAnswer.WILL_NOT, CompileAnswer.WILL) if each in said),
                    CompileAnswer.UNKNOWN)  # fmt: skip


class Preflight(Struct, frozen=True):
    """All that was asked about."""

    outlooks: tuple[Outlook, ...]
    headers: tuple[str, ...] = ()  # the packages that were read
    place: str = ""

    @property
    def answer(self) -> CompileAnswer:
        said = [each.answer for each in self.outlooks]
        return min(said, key=_WORST.index, default=CompileAnswer.UNKNOWN)

    @property
    def exit_code(self) -> ExitCode:
        return _CODES[self.answer]


def foresee(ground: Ground, graph: BuildGraph, compat: Compat) -> tuple[Outlook, ...]:
    """What is to be expected of each part that would be built; what is installed is left out.

    :param graph: as it was made for the kernels in question.
    """
    found = [
        Outlook(
            step.inputs.kernel,
            step.inputs.part,
            f"{step.inputs.package}/{step.inputs.version}",
            tuple(_reasons(ground, step, compat)),
        )
        for step in graph.steps
        if not step.given
    ]
    found += [_blocked(ground, each) for each in graph.blocked]
    order = list(Part)
    return tuple(sorted(found, key=lambda each: (each.kernel, order.index(each.part))))


def after_trial(outlook: Outlook, reason: Reason) -> Outlook:
    """The same, once it was compiled: what really happened stands in place of the rules."""
    notes = [replace(each, answer=None) for each in outlook.reasons]
    return replace(outlook, reasons=(reason, *notes), tried=True)


def _blocked(ground: Ground, blocked: BlockedPart) -> Outlook:
    kernel, hint = ground.kernel(blocked.kernel), blocked.hint
    if kernel is not None and not kernel.headers and 0 < len(kernel.missing) < _PARTS:
        hint = "give the packages that they depend on too: --headers linux-kbuild-..., ...-common"
    reason = Reason(CompileAnswer.WILL_NOT, blocked.found, _SEEN, Confidence.HIGH, hint)
    return Outlook(blocked.kernel, blocked.part, "", (reason,))


def _reasons(ground: Ground, step: BuildStep, compat: Compat) -> Iterator[Reason]:
    inputs = step.inputs
    kernel = ground.kernel(inputs.kernel)
    if kernel is None:
        raise ValueError(f"{inputs.kernel}: the graph was made of another ground")
    yield from _compiler(kernel)
    yield from _rows(ground, step, compat)
    if inputs.part is Part.PEERMEM and not compat.branch(inputs.version).peermem:
        row = compat.branch(inputs.version)
        yield Reason(
            CompileAnswer.WILL_NOT,
            f"drivers of branch {row.branch} bring no nvidia-peermem",
            row.source,
            row.confidence,
        )
    yield from _notes(kernel)


def _compiler(kernel: GroundKernel) -> Iterator[Reason]:
    try:
        here = parse_cc_version(kernel.compiler)
        needed = parse_cc_version(kernel.config.get("CONFIG_CC_VERSION_TEXT", ""))
    except Unparsable:
        found = f"not known: which compiler built {kernel.release}, or which one is here"
        yield Reason(None, found, "CONFIG_CC_VERSION_TEXT", Confidence.HIGH)
        return
    hint = f"install {kernel.compiler_named or needed}"
    if here.clang != needed.clang:
        found = (
            f"{here} is here, and {needed} built the kernel: they do not know each other's flags"
        )
        yield Reason(CompileAnswer.WILL_NOT, found, _COMPILERS, Confidence.HIGH, hint)
    elif here.major < needed.major:
        found = (
            f"{here} is here, and {needed} built the kernel: it may pass flags unknown to {here}"
        )
        yield Reason(CompileAnswer.WILL_NOT, found, _COMPILERS, Confidence.MEDIUM, hint)
    elif here.major != needed.major:
        found = f"{here} is here, and {needed} built the kernel"
        plugins = ("CONFIG_GCC_PLUGINS", "CONFIG_RANDSTRUCT")
        if all(kernel.config.get(option) == "y" for option in plugins):
            found += ", whose plugins want the same one"
            yield Reason(CompileAnswer.WILL_NOT, found, _COMPILERS, Confidence.MEDIUM, hint)
        else:
            yield Reason(None, f"{found}: it only warns", _COMPILERS, Confidence.MEDIUM)


def _rows(ground: Ground, step: BuildStep, compat: Compat) -> Iterator[Reason]:
    inputs = step.inputs
    source = next((each for each in ground.sources if each.folder == step.source), None)
    flavour = ""
    if source is not None and source.licence:
        flavour = "open" if source.licence == _OPEN else "proprietary"
    hits = compat.compiling(inputs.part, inputs.version, inputs.kernel, flavour)
    for row in hits:
        answer = CompileAnswer.WILL if row.works else CompileAnswer.WILL_NOT
        sure = row.confidence is not Confidence.LOW
        yield Reason(
            answer if sure else None, row.note, row.source, row.confidence, basis=row.basis
        )
    if any(row.confidence is not Confidence.LOW for row in hits) or inputs.part not in _MEMBERS:
        return
    yield Reason(
        None,
        f"nothing tells of {inputs.package} {inputs.version} and a kernel like {inputs.kernel}",
        "toolkit/compat/data/compiles.toml",
        Confidence.HIGH,
        "try it aside: --try" if inputs.part is Part.PEERMEM else "build it: nothing is installed",
    )


def _notes(kernel: GroundKernel) -> Iterator[Reason]:
    """What decides nothing about compiling, and everything about loading."""
    if not kernel.config:
        found = f"the configuration of {kernel.release} was not read"
        yield Reason(None, found, _SEEN, Confidence.HIGH)
        return
    if kernel.config.get("CONFIG_MODVERSIONS", "n") != "y":
        found = "the kernel keeps no symbol versions: a module of another driver would load"
        yield Reason(None, found, "CONFIG_MODVERSIONS", Confidence.HIGH)
    if kernel.config.get("CONFIG_MODULE_SIG_FORCE", "n") == "y":
        found = "the kernel loads signed modules alone"
        yield Reason(None, found, "CONFIG_MODULE_SIG_FORCE", Confidence.HIGH, "--sign-key")
