"""What a run of builds came to: for a person, and as one document.

The schema of the document is docs/build.schema.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.built.plan.gate import Refusal
from toolkit.built.plan.model import BuildFailure
from toolkit.errors import ExitCode, Outcome, ToolkitError
from toolkit.features.builds.plan.graph import Blocked
from toolkit.features.builds.plan.made import Made, Run, State
from toolkit.hosts.host import fold
from toolkit.report.document import Json
from toolkit.report.table import Ink, Painter, clean, columns, labelled
from toolkit.report.text import errors

SCHEMA = "gdr-toolkit/build/1"

Unread = Sequence[Outcome[object]]  # nodes of which nothing could be learnt
Packages = Sequence[tuple[str, Sequence[str]]]  # path, and what must be known of it

_INK = {
    State.GIVEN: Ink.GREY,
    State.CACHED: Ink.GREEN,
    State.BUILT: Ink.GREEN,
    State.SHARED: Ink.GREEN,
    State.PLANNED: Ink.YELLOW,
    State.EXCLUDED: Ink.YELLOW,
    State.SKIPPED: Ink.YELLOW,
}
_WORDS = {State.CACHED: "in the cache", State.PLANNED: "to be built"}


def report(run: Run, paint: Painter, *, verbose: bool = False, unread: Unread = ()) -> str:
    """The table of all steps, then what went wrong, then a line that counts."""
    lines = _table(run, paint)
    for made in run.made:
        lines += _trouble(made, paint, verbose)
    for blocked in run.blocked:
        lines += _blocked(blocked, paint)
    lines += [""] if lines else []
    lines += errors(((each.host, each.error) for each in unread), paint)  # each ends in a blank
    return "\n".join([*lines, _count(run)])


def _table(run: Run, paint: Painter) -> list[str]:
    if not run.made:
        return []
    shows_nodes = any(work.need.nodes for work in run.works)
    head = ("part", "package", "kernel", "state", *(["nodes"] if shows_nodes else []), "why")
    rows = [head]
    for made in run.made:
        inputs = made.step.inputs
        nodes = [clean(fold(run.nodes(made.step)) or "-")] if shows_nodes else []
        package = f"{inputs.package}/{inputs.version}"
        cells = (inputs.part, package, inputs.kernel, _state(made), *nodes, _why(made))
        rows.append(tuple(clean(cell) for cell in cells))
    table = columns(rows)
    lines = [paint(table[0], Ink.GREY)]
    for line, made in zip(table[1:], run.made, strict=True):
        word = f" {_state(made)}"
        ink = _INK.get(made.state, Ink.RED)
        lines.append(line.replace(word, f" {paint(word[1:], ink)}", 1))
    return lines


def _state(made: Made) -> str:
    word = _WORDS.get(made.state, str(made.state))
    return f"{word} {made.seconds:.1f} s" if made.seconds else word


def _why(made: Made) -> str:
    if made.why:
        return made.why
    if made.state is State.GIVEN or made.state is State.PLANNED:
        return made.step.why
    if made.built is not None:
        modules = ", ".join(each.name for each in made.built.modules)
        return f"{modules or 'no module'}; {made.step.inputs.digest[:12]}"
    if made.verdict is not None and made.verdict.refusals:
        return str(made.verdict.refusals[0].cause)
    return made.failure.cause if made.failure and made.failure.cause else made.step.why


def _trouble(made: Made, paint: Painter, verbose: bool) -> list[str]:
    """The paragraph of one step; nothing where all is well and nothing was noted."""
    lines: list[str] = []
    if made.failure is not None:
        lines += _failure(made.failure, excluded=made.state is State.EXCLUDED)
    if made.verdict is not None:
        for refusal in made.verdict.refusals:
            lines += labelled("refused", f"{refusal} ({refusal.cause})")
            lines += labelled("next", refusal.action) if refusal.action else []
        if verbose and made.verdict.passed:
            lines += labelled("gate", f"accepted: {', '.join(made.verdict.accepted)}")
    if made.error is not None:
        lines += labelled("found", str(made.error))
        lines += labelled("next", made.error.hint) if made.error.hint else []
    for note in made.notes:
        lines += labelled("note", note)
    if verbose and made.built is not None:
        lines += [
            line
            for each in made.built.files
            for line in labelled("file", f"{each.name}  {len(each.data)}  {each.sha256}")
        ]
    if not lines:
        return []
    ink = _INK.get(made.state, Ink.RED)
    word = paint(str(made.state).ljust(8), ink)
    return ["", f"{word} {paint(clean(made.step.inputs.title), Ink.BOLD)}", *lines]


def _failure(failure: BuildFailure, *, excluded: bool) -> list[str]:
    lines = labelled("found", f"{failure.step}: {failure.found}")
    lines += labelled("cause", failure.cause) if failure.cause else []
    lines += labelled("next", failure.action) if failure.action else []
    if failure.tail and not excluded:
        lines += labelled("log", f"its last {len(failure.tail)} lines:")
        lines += [f"           | {clean(line)}" for line in failure.tail]
    return lines


def _blocked(blocked: Blocked, paint: Painter) -> list[str]:
    head = f"{paint('blocked '.ljust(8), Ink.RED)} {blocked.part} for {clean(blocked.kernel)}"
    lines = ["", head, *labelled("found", blocked.found)]
    return lines + (labelled("next", blocked.hint) if blocked.hint else [])


def _count(run: Run) -> str:
    """ "3 of 4 are there: 2 built, 1 in the cache, 1 failed." """
    counted = Counter(made.state for made in run.made)
    wanted = len(run.made) + len(run.blocked)
    there = sum(made.there for made in run.made)
    words = [f"{counted[state]} {_WORDS.get(state, state)}" for state in State if counted[state]]
    words += [f"{len(run.blocked)} blocked"] if run.blocked else []
    if not wanted:
        why = "no source of a part was found" if run.works else "of no node is known what it needs"
        return f"nothing to build: {why}."
    return f"{there} of {wanted} {'is' if wanted == 1 else 'are'} there: {', '.join(words)}."


def document(
    run: Run,
    code: ExitCode,
    when: datetime,
    *,
    cache: str,
    unread: Unread = (),
    packages: Packages = (),
) -> dict[str, Json]:
    """The whole document; ``when`` in any zone, written in UTC."""
    states = Counter(str(made.state) for made in run.made)
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "cache": cache,
        "summary": {"builds": len(run.made), "states": dict(sorted(states.items()))},
        "builds": [_made(run, made) for made in run.made],
        "blocked": [
            {"kernel": each.kernel, "part": each.part.value, "found": each.found, "hint": each.hint}
            for each in run.blocked
        ],
        "errors": unread_rows(unread),
        "packages": [{"path": path, "notes": list(notes)} for path, notes in packages],
    }


def unread_rows(unread: Unread) -> list[Json]:
    return [
        {"name": each.host, "error": str(each.error), "hint": each.error.hint}
        for each in unread
        if each.error is not None
    ]


def _made(run: Run, made: Made) -> dict[str, Json]:
    inputs = made.step.inputs
    graph = next(work.graph for work in run.works if made.step in work.graph.steps)
    return {
        "part": inputs.part.value,
        "package": inputs.package,
        "version": inputs.version,
        "kernel": inputs.kernel,
        "arch": inputs.arch,
        "digest": inputs.digest,
        "after": [each.inputs.digest for each in graph.upstream(made.step)],
        "state": made.state.value,
        "why": made.why or made.step.why,
        "seconds": round(made.seconds, 3),
        "nodes": list(run.nodes(made.step)),
        "files": [
            {"name": each.name, "size": len(each.data), "sha256": each.sha256}
            for each in (made.built.files if made.built else ())
        ],
        "accepted": list(made.verdict.accepted) if made.verdict else [],
        "refusals": [_refusal(each) for each in (made.verdict.refusals if made.verdict else ())],
        "failure": _failed(made.failure) if made.failure else None,
        "error": _error(made.error) if made.error else None,
        "notes": list(made.notes),
    }


def _refusal(refusal: Refusal) -> dict[str, Json]:
    return {
        "module": refusal.module,
        "cause": refusal.cause.value,
        "found": refusal.found,
        "action": refusal.action,
    }


def _failed(failure: BuildFailure) -> dict[str, Json]:
    return {
        "step": failure.step,
        "status": failure.status,
        "found": failure.found,
        "cause": failure.cause,
        "action": failure.action,
        "tail": list(failure.tail),
    }


def _error(error: ToolkitError) -> dict[str, Json]:
    return {"message": str(error), "hint": error.hint, "exit_code": int(error.exit_code)}
