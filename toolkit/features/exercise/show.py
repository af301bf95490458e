"""Exercise: tests planned, judged and of earlier runs, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import asdict

from toolkit.checks.check import Status
from toolkit.errors import ExitCode
from toolkit.facts.rdma.exercise import Kind, Test
from toolkit.features.exercise.plan import Exercise, settings_of, words_of
from toolkit.features.exercise.plan_judge import JudgedTest, shown
from toolkit.features.exercise.plan_past import Decline
from toolkit.features.exercise.plan_proof import Earlier, ProofState, in_short
from toolkit.report.document import Json, envelope, picked
from toolkit.report.table import Ink, Painter, clean, columns, wrapped
from toolkit.throughput.estimate import Unit

SCHEMA = "gdr-toolkit/exercise/1"
_DECLINES = 20  # lines of a table
_INKS = {
    Status.PASS: Ink.GREEN,
    Status.FAIL: Ink.RED,
    Status.UNKNOWN: Ink.YELLOW,
    Status.NA: Ink.GREY,
}


class EarlierFigures(Struct, frozen=True):
    """The same test in an earlier run."""

    when: str  # "2026-11-20T09:00:00+00:00"
    value: float


def planned_lines(exercise: Exercise) -> list[str]:
    """What would be run, as it would be typed; and what is left out."""
    lines = []
    for test in exercise.tests:
        head = clean(f"{test.number}. {test.title}: {_between(test)}")
        lines += wrapped(head, rest="   ")
        for role, end in test.ends:
            words = [*settings_of(test, role), *words_of(test, role)]
            typed = f"{end.host}$ {shlex.join(words)}"
            lines += wrapped(typed, first="   ", rest="      ")
    lines += _remarks(exercise.left_out, exercise.labels)
    return lines


def result_lines(
    results: Sequence[JudgedTest],
    paint: Painter,
    *,
    earlier: Mapping[int, EarlierFigures],
    verbose: bool = False,
) -> list[str]:
    """A table, then what falls short or is open, with the suspect."""
    rows = [_row(each, earlier.get(each.test.number)) for each in results]
    lines = columns([("", "test", "measured", "predicted", "ratio", "before"), *rows])
    shown = [lines[0]]
    for line, each in zip(lines[1:], results, strict=True):
        head = f"{each.test.number}. {each.status}"
        shown.append(paint(head, _INKS[each.status]) + line[len(head) :])
    for each in results:
        shown += _part(each, paint, verbose=verbose)
    return shown


def _row(each: JudgedTest, before: EarlierFigures | None) -> tuple[str, ...]:
    told = each.expected.estimate if each.expected else None
    unit = Unit.US if each.test.kind is Kind.LATENCY else Unit.GBS
    return (
        f"{each.test.number}. {each.status}",
        in_short(each.test),
        shown(each.value, each.unit) if each.value is not None else "-",
        told.figure if told else "-",
        f"{each.ratio:.2f}" if each.ratio is not None else "-",
        f"{shown(before.value, unit)} on {before.when[:10]}" if before else "-",
    )


def _part(each: JudgedTest, paint: Painter, *, verbose: bool) -> Iterator[str]:
    """What there is to say of one test beside its figures."""
    open_ = [point for point in each.points if point.proof is not ProofState.SHOWN]
    short = each.status in {Status.FAIL, Status.UNKNOWN}
    if not (short or open_ or verbose):
        return
    yield ""
    yield paint(f"{each.test.number}. {each.test.title}", Ink.BOLD)
    yield from _wrapped("between", _between(each.test))
    if each.value is None:
        yield from _wrapped("no result", each.found)
    if each.suspect:
        yield from _wrapped("suspect", each.suspect)
    if each.expected and each.expected.estimate and (short or verbose):
        yield from _wrapped("predicted", each.expected.estimate.said)
        for note in each.expected.estimate.assumptions if verbose else ():
            yield from _wrapped("assumed", note)
    elif each.expected and not each.expected.estimate and each.value is not None:
        yield from _wrapped("predicted", f"nothing: {each.expected.why}")
    for point in each.points if verbose else open_:
        yield from _wrapped(point.proof.value, point.words)
    for trouble in each.troubles:
        yield from _wrapped("counter", trouble)


def _between(test: Test) -> str:
    if test.serve is None:
        return f"the GPUs of {test.drive.host}"
    return f"{test.drive.said} to {test.serve.said}"


def _wrapped(label: str, text: str) -> list[str]:
    head = f"   {label:<10} "
    return wrapped(text, first=head, rest=" " * len(head))


def _remarks(left_out: Sequence[str], labels: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for label, texts in (("note", labels), ("left out", left_out)):
        for text in texts:
            lines += wrapped(f"{label}: {text}", rest=" " * (len(label) + 2))
    return lines


def decline_lines(found: Sequence[Decline]) -> list[str]:
    """Tests that are worse than they used to be, whether or not they still pass."""
    rows = [
        (
            " with ".join(f"{end.host} {end.hca}" for _, end in reversed(one.test.test.ends)),
            in_short(one.test.test),
            shown(one.test.value or 0.0, one.test.unit),
            f"{shown(one.usual, one.test.unit)} in {one.runs} runs since {one.since}",
        )
        for one in found[:_DECLINES]
    ]
    more = [f"and {len(found) - _DECLINES} more: --json"] if len(found) > _DECLINES else []
    head = ("worse than it used to be", "test", "now", "usually")
    return ["", *columns([head, *rows]), *more] if rows else []


def remarks(left_out: Sequence[str], labels: Sequence[str], troubles: Sequence[str]) -> list[str]:
    """What was not tested and why; what such tests can show; what broke off."""
    return [*_remarks(left_out, labels), *_remarks(troubles, ())]


class ExerciseReport(Struct, frozen=True):
    """All that a document tells."""

    hosts: tuple[str, ...]
    results: tuple[JudgedTest, ...]
    exercise: Exercise | None  # None where it was judged again
    threshold: float
    code: ExitCode
    when: datetime
    earlier: Mapping[int, EarlierFigures]
    troubles: tuple[str, ...] = ()
    simulated: bool = False
    declined: tuple[Decline, ...] = ()


def document(sheet: ExerciseReport) -> dict[str, Json]:
    """The document that docs/exercise.schema.json describes."""
    plan = sheet.exercise
    return {
        **envelope(SCHEMA, sheet.when, sheet.code),
        **picked(sheet, "hosts threshold simulated"),
        "planned": [_test_json(each) for each in plan.tests] if plan else [],
        "results": [
            _result_json(each, sheet.earlier.get(each.test.number)) for each in sheet.results
        ],
        **(picked(plan, "left_out labels") if plan else {"left_out": [], "labels": []}),
        "troubles": list(sheet.troubles),
        "declined": [
            picked(each, "number=test.test.number usual runs since share")
            for each in sheet.declined
        ],
    }


def _test_json(test: Test) -> dict[str, Json]:
    ends: dict[str, Json] = {
        str(role): {name: str(value) for name, value in asdict(end).items()}
        for role, end in test.ends
    }
    commands: dict[str, Json] = {
        str(role): shlex.join([*settings_of(test, role), *words_of(test, role)])
        for role, _ in test.ends
    }
    return {
        **picked(test, "number tool kind size depth gpu loopback=looped within_node=within"),
        "ends": ends,
        "commands": commands,
    }


def _result_json(each: JudgedTest, before: EarlierFigures | None) -> dict[str, Json]:
    told = each.expected.estimate if each.expected else None
    return {
        **_test_json(each.test),
        **picked(each, "status found value unit"),
        "predicted": picked(told, "value low high limit assumptions") if told else None,
        "not_predicted": each.expected.why if each.expected and told is None else "",
        **picked(each, "ratio suspect points troubles"),
        "before": picked(before, "time=when value") if before else None,
    }


PAST_SCHEMA = "gdr-toolkit/exercise-past/1"


def past_lines(found: Sequence[Earlier]) -> list[str]:
    """A table, newest run first."""
    rows = [
        (
            one.when[:16].replace("T", " "),
            one.status,
            one.title,
            shown(one.value, Unit(one.unit)),
            ", ".join(f"{part.host} {part.hca}" for part in one.same.parts),
        )
        for one in found
    ]
    return columns([("when", "", "test", "measured", "between"), *rows])


def past_document(found: Sequence[Earlier], now: datetime) -> dict[str, Json]:
    """The whole document (docs/exercise-past.schema.json).

    :param now: when it was asked, of a time zone.
    """
    names = (
        "run time=when same.tool same.kind same.size gpu ends=same.parts status value unit "
        "simulated fell_back"
    )
    past: list[Json] = [picked(one, names) for one in found]
    return {"schema": PAST_SCHEMA, "time": now.isoformat(timespec="seconds"), "past": past}
