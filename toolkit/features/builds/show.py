"""Builds, what will come of them, and what the cache has: for a person, and as documents.

Schemas: docs/build.schema.json, docs/preflight.schema.json, docs/build-cached.schema.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.built.io.store import DAY_S, StoreRow
from toolkit.built.plan.model import BuildFailure
from toolkit.errors import ExitCode, Outcome
from toolkit.features.builds.plan.outcome import BuildRun, BuildState, StepResult
from toolkit.features.builds.plan.preflight import CompileAnswer, Outlook, Preflight
from toolkit.features.builds.run.run import NodeNeeds
from toolkit.hosts.host import fold
from toolkit.report.document import Json, envelope, picked, plain
from toolkit.report.table import Ink, Painter, clean, columns, labelled
from toolkit.report.text import errors

SCHEMA = "gdr-toolkit/build/1"

Unread = Sequence[Outcome[NodeNeeds]]  # nodes of which nothing could be learnt
Packages = Sequence[tuple[str, Sequence[str]]]  # path, and what must be known of it

_INK = {
    BuildState.GIVEN: Ink.GREY,
    BuildState.CACHED: Ink.GREEN,
    BuildState.BUILT: Ink.GREEN,
    BuildState.SHARED: Ink.GREEN,
    BuildState.PLANNED: Ink.YELLOW,
    BuildState.EXCLUDED: Ink.YELLOW,
    BuildState.SKIPPED: Ink.YELLOW,
}
_WORDS = {BuildState.CACHED: "in the cache", BuildState.PLANNED: "to be built"}


def build_report(
    run: BuildRun, paint: Painter, *, verbose: bool = False, unread: Unread = ()
) -> str:
    """The table of all steps, then what went wrong, then a line that counts."""
    lines = _table(run, paint)
    for made in run.made:
        lines += _trouble(made, paint, verbose)
    for each in run.blocked:
        head = f"{paint('blocked '.ljust(8), Ink.RED)} {each.part} for {clean(each.kernel)}"
        lines += ["", head, *labelled("found", each.found), *labelled("next", each.hint)]
    lines += [""] if lines else []
    lines += errors(((each.host, each.error) for each in unread), paint)  # each ends in a blank
    return "\n".join([*lines, _count(run)])


def _table(run: BuildRun, paint: Painter) -> list[str]:
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


def _state(made: StepResult) -> str:
    word = _WORDS.get(made.state, str(made.state))
    return f"{word} {made.seconds:.1f} s" if made.seconds else word


def _why(made: StepResult) -> str:
    if made.why:
        return made.why
    if made.state is BuildState.GIVEN or made.state is BuildState.PLANNED:
        return made.step.why
    if made.built is not None:
        modules = ", ".join(each.name for each in made.built.modules)
        return f"{modules or 'no module'}; {made.step.inputs.digest[:12]}"
    if made.verdict is not None and made.verdict.refusals:
        return str(made.verdict.refusals[0].cause)
    return made.failure.cause if made.failure and made.failure.cause else made.step.why


def _trouble(made: StepResult, paint: Painter, verbose: bool) -> list[str]:
    lines: list[str] = []
    if made.failure is not None:
        lines += _failure(made.failure, excluded=made.state is BuildState.EXCLUDED)
    if made.verdict is not None:
        for refusal in made.verdict.refusals:
            lines += labelled("refused", f"{refusal} ({refusal.cause})")
            lines += labelled("next", refusal.action)
        if verbose and made.verdict.passed:
            lines += labelled("gate", f"accepted: {', '.join(made.verdict.accepted)}")
    if made.error is not None:
        lines += labelled("found", str(made.error))
        lines += labelled("next", made.error.hint)
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
    lines += labelled("cause", failure.cause)
    lines += labelled("next", failure.action)
    if failure.tail and not excluded:
        lines += labelled("log", f"its last {len(failure.tail)} lines:")
        lines += [f"           | {clean(line)}" for line in failure.tail]
    return lines


def _count(run: BuildRun) -> str:
    """ "3 of 4 are there: 2 built, 1 in the cache, 1 failed." """
    counted = Counter(made.state for made in run.made)
    wanted = len(run.made) + len(run.blocked)
    there = sum(made.there for made in run.made)
    words = [
        f"{counted[state]} {_WORDS.get(state, state)}" for state in BuildState if counted[state]
    ]
    words += [f"{len(run.blocked)} blocked"] if run.blocked else []
    if not wanted:
        why = "no source of a part was found" if run.works else "no node is known to need any"
        return f"nothing to build: {why}."
    return f"{there} of {wanted} {'is' if wanted == 1 else 'are'} there: {', '.join(words)}."


def build_document(
    run: BuildRun,
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
        **envelope(SCHEMA, when, code),
        "cache": cache,
        "summary": {"builds": len(run.made), "states": dict(sorted(states.items()))},
        "builds": [_step_json(run, made) for made in run.made],
        "blocked": [picked(each, "kernel part found hint") for each in run.blocked],
        "errors": unread_rows(unread),
        "packages": [{"path": path, "notes": list(notes)} for path, notes in packages],
    }


def unread_rows(unread: Unread) -> list[Json]:
    return [
        {"name": each.host, "error": str(each.error), "hint": each.error.hint}
        for each in unread
        if each.error is not None
    ]


def _step_json(run: BuildRun, made: StepResult) -> dict[str, Json]:
    graph = next(work.graph for work in run.works if made.step in work.graph.steps)
    return {
        **picked(made.step.inputs, "part package version kernel arch digest"),
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
        "refusals": plain(made.verdict.refusals) if made.verdict else [],
        "failure": picked(made.failure, "step status found cause action tail")
        if made.failure
        else None,
        "error": {"message": str(made.error), **picked(made.error, "hint exit_code")}
        if made.error
        else None,
        "notes": list(made.notes),
    }


PREFLIGHT_SCHEMA = "gdr-toolkit/preflight/1"
_ANSWER_INK = {
    CompileAnswer.WILL: Ink.GREEN,
    CompileAnswer.WILL_NOT: Ink.RED,
    CompileAnswer.UNKNOWN: Ink.YELLOW,
}


def preflight_report(found: Preflight, paint: Painter, unread: Unread = ()) -> str:
    """Each part with its answer, and below it what the answer rests on."""
    lines: list[str] = []
    kernel = ""
    for each in found.outlooks:
        if each.kernel != kernel:
            kernel = each.kernel
            lines += [clean(kernel)]
        lines += _outlook_lines(each, paint)
    lines.append("")
    lines += errors(((each.host, each.error) for each in unread), paint)  # each ends in a blank
    counted = Counter(each.answer for each in found.outlooks)
    said = ", ".join(f"{counted[answer]} {answer}" for answer in CompileAnswer if counted[answer])
    return "\n".join([*lines, said or "nothing would be built"])


def _outlook_lines(outlook: Outlook, paint: Painter) -> list[str]:
    answer = paint(str(outlook.answer), _ANSWER_INK[outlook.answer])
    lines = [f"  {clean(outlook.part)} {clean(outlook.package)}".rstrip() + f": {answer}"]
    for each in outlook.reasons:
        basis = f"{each.basis}: " if each.basis else ""
        lines.append(f"    {clean(each.found)} ({basis}{clean(each.source)}; {each.confidence})")
        if each.hint:
            lines.append(f"    next: {clean(each.hint)}")
    return lines


def preflight_document(
    found: Preflight, code: ExitCode, now: datetime, unread: Unread = ()
) -> Mapping[str, Json]:
    """The same for machines."""
    return {
        **envelope(PREFLIGHT_SCHEMA, now, code),
        **picked(found, "place headers answer"),
        "parts": [
            {
                **picked(each, "kernel part package answer tried"),
                "reasons": [
                    {
                        "answer": reason.answer.value if reason.answer else "",
                        **picked(reason, "found basis source confidence next=hint"),
                    }
                    for reason in each.reasons
                ],
            }
            for each in found.outlooks
        ],
        "errors": unread_rows(unread),
    }


CACHED_SCHEMA = "gdr-toolkit/build-cached/1"
_NAMES = ("package", "version", "kernel")  # each "" where a manifest cannot be read


def listing(rows: Sequence[StoreRow], now: float) -> str:
    """A line an entry, the last used first, and one that counts.

    :param now: seconds since 1970.
    """
    if not rows:
        return "the cache is empty"
    head = ("digest", "package", "kernel", "size", "last used")
    table = columns([head, *(_cells(row, now) for row in rows)])
    return "\n".join([*table, "", f"{_entries(rows)}, {_size_text(sum(r.size for r in rows))}"])


def pruned(rows: Sequence[StoreRow]) -> str:
    """What was removed."""
    return f"removed: {_entries(rows)}, {_size_text(sum(row.size for row in rows))}"


def _cells(row: StoreRow, now: float) -> tuple[str, ...]:
    package, version, kernel = (row.value(name) for name in _NAMES)
    if not package:
        return (row.digest[:12], "cannot be read", "-", _size_text(row.size), "-")
    days = int(max(0.0, now - row.used) // DAY_S)
    used = "today" if days == 0 else f"{days} day{'' if days == 1 else 's'} ago"
    package = clean(f"{package}/{version}")
    return (row.digest[:12], package, clean(kernel), _size_text(row.size), used)


def cached_document(
    rows: Sequence[StoreRow], folder: str, when: datetime, *, removed: bool = False
) -> dict[str, Json]:
    """The same for machines; ``when`` in any zone, written in UTC."""
    entries: list[Json] = [
        {
            "digest": row.digest,
            **{name: row.value(name) for name in _NAMES},
            "size": row.size,
            "used": int(row.used),
        }
        for row in rows
    ]
    return {
        "schema": CACHED_SCHEMA,
        "toolkit": __version__,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "cache": folder,
        "removed": removed,
        "entries": entries,
    }


def _entries(rows: Sequence[StoreRow]) -> str:
    return f"{len(rows)} build{'' if len(rows) == 1 else 's'}"


def _size_text(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"
