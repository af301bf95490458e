"""Outcomes: of one build, from what it printed; of each step of a run, and of the cache.

Source: toolkit/node/scripts/build.sh. Each step has a frame KEY.output with its lines, then a frame
KEY with its state; what the build left follows, a frame file.NAME each.
"""

from __future__ import annotations

import gzip
import re
import zlib
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from toolkit.built.plan.gate import GateVerdict
from toolkit.built.plan.model import BuildFailure, Built, BuiltFile, Inputs
from toolkit.checks.kernel.build_failures import explain
from toolkit.errors import ExitCode, ToolkitError, Unparsable, worst
from toolkit.evidence import Evidence, Frame, State
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph, BuildStep

STEPS = ("prepare", "make", "gate", "pack")
LOG = "make.log"
_READ = "read the whole log of this build, in the folder of the run"
_TAIL = 20
_EXCLUDED = 77  # of DKMS: BUILD_EXCLUSIVE_... does not match
_FILE = "file."
_TOLD = re.compile(r"(\d{1,12}) ([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_LARGEST = 512 << 20  # bytes; nvidia.ko with its debug information has a tenth of it
_RUNNING = re.compile(r"= ([a-z]+)\.output ok (.*)")


def running(line: str) -> str | None:
    """The step that begins with a line of a build's output; None where none does."""
    found = _RUNNING.fullmatch(line)
    return found[1] if found else None


def read_outcome(text: str, inputs: Inputs) -> Built | BuildFailure:
    """Read what a build printed.

    Output that was cut, or a file whose hash is another than the one told, is a failure.
    """
    try:
        evidence = Evidence.parse(text)
        for step in STEPS:
            frame = evidence.frames.get(step)
            if frame is None:
                return _cut(inputs, step, text, evidence)
            if frame.state is not State.OK:
                return _stopped(inputs, frame, evidence)
        if not evidence.complete:
            return _cut(inputs, STEPS[-1], text, evidence)
        return _built(evidence, inputs)
    except Unparsable as why:
        return _failure(inputs, STEPS[-1], str(why), text.split("\n"))


def _built(evidence: Evidence, inputs: Inputs) -> Built | BuildFailure:
    files = [_file(frame) for key, frame in evidence.frames.items() if key.startswith(_FILE)]
    # What DKMS and make said, as one file.
    said = evidence.frames["make.output"].text if "make.output" in evidence.frames else ""
    log = BuiltFile(LOG, said.encode("utf-8", "surrogateescape"))
    built = Built(inputs, tuple(sorted([*files, log], key=lambda each: each.name)))
    if not built.modules:
        return _failure(inputs, STEPS[-1], "the build left no module", _lines(evidence, "make"))
    return built


def _file(frame: Frame) -> BuiltFile:
    """:raises Unparsable: it is not as it was told."""
    name = frame.key.removeprefix(_FILE)
    told = _TOLD.fullmatch(frame.source)
    if told is None or not _NAME.fullmatch(name) or frame.state is not State.OK:
        raise Unparsable(name, frame.source)
    size = int(told[1])
    if size > _LARGEST:
        raise Unparsable(name, f"{size} bytes")
    try:
        unpacker = zlib.decompressobj(wbits=31)
        data = unpacker.decompress(b64decode(frame.text.replace("\n", ""), validate=True), size + 1)
    except (NoBase64, ValueError, zlib.error, gzip.BadGzipFile) as why:
        raise Unparsable(name, f"damaged on its way: {why}") from why
    file = BuiltFile(name, data)
    if len(data) != size or file.sha256 != told[2]:
        raise Unparsable(name, f"{len(data)} bytes of {size} came, and their hash is another")
    return file


def _stopped(inputs: Inputs, frame: Frame, evidence: Evidence) -> BuildFailure:
    """A step that ended by itself, or at its limit."""
    lines = _lines(evidence, frame.key)
    if frame.state is not State.FAILED:
        return _failure(inputs, frame.key, frame.source, lines)
    # Only in that step is the status one of dkms.
    status = frame.exit if frame.key == "make" else 0
    said = explain(
        [line for line in lines if line.strip()],
        status,
        kernel=inputs.kernel,
        module=f"{inputs.package}/{inputs.version}",
    )
    return BuildFailure(
        inputs,
        frame.key,
        frame.exit,
        said.found
        if frame.key == "make"
        else next((line.strip() for line in reversed(lines) if line.strip()), "") or said.found,
        said.cause,
        # What DKMS would have one read lay in a scratch folder, which is gone.
        _READ if "make.log" in said.action else said.action,
        _last(lines, said.line),
        excluded=status == _EXCLUDED or said.excluded,
    )


def _last(lines: Sequence[str], telling: str) -> tuple[str, ...]:
    """With the line that tells in front: other jobs of make go on for long behind it."""
    tail = lines[-_TAIL:]
    there = not telling or any(telling in line for line in tail)
    return tuple(tail) if there else (telling, *tail[1:])


def _cut(inputs: Inputs, step: str, text: str, evidence: Evidence) -> BuildFailure:
    """The output ended in the midst of a step: it was killed, or the connection was lost."""
    lines = text.split("\n")
    begun = [number for number, line in enumerate(lines) if running(line) == step]
    said = lines[begun[-1] + 1 :] if begun else lines
    found = f"it was killed, or cut off, in the midst of: {step}"
    if not evidence.frames and not begun:
        found = "it was killed, or cut off, before it began"
    told = [line[1:] for line in said if line.startswith("|")] or [line for line in said if line]
    return _failure(inputs, step, found, told)


def _failure(inputs: Inputs, step: str, found: str, lines: list[str]) -> BuildFailure:
    return BuildFailure(inputs, step, 0, found, tail=tuple(lines[-_TAIL:]))


def _lines(evidence: Evidence, step: str) -> list[str]:
    frame = evidence.frames.get(f"{step}.output")
    return frame.text.split("\n")[:-1] if frame else []


class BuildState(StrEnum):
    """Where a step stands at the end; the words of reports and documents."""

    GIVEN = "given"  # taken as it is installed
    CACHED = "cached"
    BUILT = "built"
    SHARED = "shared"  # another process built it meanwhile
    PLANNED = "planned"  # would be built
    FAILED = "failed"
    REFUSED = "refused"  # compiled, and not accepted by the gate
    EXCLUDED = "excluded"  # the package itself does not want that kernel
    SKIPPED = "skipped"  # what it rests on is not there
    LOST = "lost"  # where it was built is out of reach, or its process died


THERE = frozenset({BuildState.GIVEN, BuildState.CACHED, BuildState.BUILT, BuildState.SHARED})
_CODES = {
    **dict.fromkeys(THERE, ExitCode.OK),
    BuildState.PLANNED: ExitCode.PENDING,
    BuildState.EXCLUDED: ExitCode.UNSUPPORTED,
}


class StepResult(Struct, frozen=True):
    """One step, and what came of it."""

    step: BuildStep
    state: BuildState
    built: Built | None = None  # what lies in the cache now; None for what is given
    failure: BuildFailure | None = None
    verdict: GateVerdict | None = None  # None where nothing came to the gate
    error: ToolkitError | None = None  # LOST
    seconds: float = 0.0  # from its begin to its end; 0 where nothing ran
    why: str = ""  # why it is where it is, where the step's own reason does not say
    notes: tuple[str, ...] = ()  # sentences: a damaged entry, a process that was waited for

    @property
    def there(self) -> bool:
        return self.state in THERE

    @property
    def exit_code(self) -> ExitCode:
        if self.error is not None:
            return self.error.exit_code
        return _CODES.get(self.state, ExitCode.FAILED)


class Need(Struct, frozen=True):
    """Builds that some nodes have in common: one graph is made for all of them."""

    kernels: tuple[str, ...] = ()  # kernel releases; () for all that have headers
    driver: str = ""  # "" for the only one, or the newest
    ofed: str = ""  # likewise
    nodes: tuple[str, ...] = ()  # who needs it; () where the operator said what to build
    arch: str = ""  # of the nodes, as uname -m prints it; "" for whatever the ground has
    module: str = ""  # their nvidia.ko where it did not come by DKMS: its path, and what it exports
    exports: tuple[tuple[str, int], ...] = ()


class NeedGraph(Struct, frozen=True):
    """One need and its graph."""

    need: Need
    graph: BuildGraph


class BuildRun(Struct, frozen=True):
    """All that one run of ``build`` came to."""

    made: tuple[StepResult, ...]  # each step once, in the order of the graphs
    works: tuple[NeedGraph, ...]

    @property
    def blocked(self) -> tuple[BlockedPart, ...]:
        return tuple(dict.fromkeys(each for work in self.works for each in work.graph.blocked))

    @property
    def exit_code(self) -> ExitCode:
        codes = [each.exit_code for each in self.made]
        return worst([*codes, *(ExitCode.UNSUPPORTED for _ in self.blocked)])

    def nodes(self, step: BuildStep) -> tuple[str, ...]:
        """The nodes that need what a step makes."""
        found = (work.need.nodes for work in self.works if step in work.graph.steps)
        return tuple(dict.fromkeys(node for nodes in found for node in nodes))
