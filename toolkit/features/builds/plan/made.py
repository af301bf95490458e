"""What came of each step of a run of builds, and of what was asked of the cache."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.built.plan.gate import GateVerdict
from toolkit.built.plan.model import BuildFailure, Built
from toolkit.errors import ExitCode, ToolkitError, worst
from toolkit.features.builds.plan.graph import Blocked, Graph, Step


class State(StrEnum):
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


THERE = frozenset({State.GIVEN, State.CACHED, State.BUILT, State.SHARED})
_CODES = {
    **dict.fromkeys(THERE, ExitCode.OK),
    State.PLANNED: ExitCode.PENDING,
    State.EXCLUDED: ExitCode.UNSUPPORTED,
}


@dataclass(frozen=True, slots=True)
class Made:
    """One step, and what came of it."""

    step: Step
    state: State
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


@dataclass(frozen=True, slots=True)
class Need:
    """Builds that some nodes have in common: one graph is made for all of them."""

    kernels: tuple[str, ...] = ()  # kernel releases; () for all that have headers
    driver: str = ""  # "" for the only one, or the newest
    ofed: str = ""  # likewise
    nodes: tuple[str, ...] = ()  # who needs it; () where the operator said what to build
    arch: str = ""  # of the nodes, as uname -m prints it; "" for whatever the ground has


@dataclass(frozen=True, slots=True)
class Work:
    """One need and its graph."""

    need: Need
    graph: Graph


@dataclass(frozen=True, slots=True)
class Run:
    """All that one run of ``build`` came to."""

    made: tuple[Made, ...]  # each step once, in the order of the graphs
    works: tuple[Work, ...]

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        return tuple(dict.fromkeys(each for work in self.works for each in work.graph.blocked))

    @property
    def exit_code(self) -> ExitCode:
        codes = [each.exit_code for each in self.made]
        return worst([*codes, *(ExitCode.UNSUPPORTED for _ in self.blocked)])

    def nodes(self, step: Step) -> tuple[str, ...]:
        """The nodes that need what a step makes."""
        found = (work.need.nodes for work in self.works if step in work.graph.steps)
        return tuple(dict.fromkeys(node for nodes in found for node in nodes))
