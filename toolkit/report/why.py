"""The way from a symptom to its cause, as a tree for a person and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from toolkit import __version__
from toolkit.checks.check import Status, Verdict
from toolkit.checks.follows import Step
from toolkit.checks.judged import Cause
from toolkit.checks.why import Link, Matched, Quote
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import State
from toolkit.plan.change import Change
from toolkit.plan.plan import Plan
from toolkit.plural import counted
from toolkit.report.causes import addressed
from toolkit.report.document import Json, picked
from toolkit.report.plan_text import trigger_name
from toolkit.report.table import Ink, Painter, clean, wrapped

SCHEMA = "gdr-toolkit/why/1"
_LABEL = 10
_LINES = 8  # of those that were pasted
_LONG = 400  # characters of a line that are shown to a person
_INKS = {Status.FAIL: Ink.RED, Status.UNKNOWN: Ink.YELLOW, Status.PASS: Ink.GREEN}


class Way(Struct, frozen=True):
    """One symptom's way to its cause, and what else the cause brings about."""

    links: tuple[Link, ...]  # the symptom first, the cause last
    cause: Cause | None  # None where the check neither fails nor is unknown
    steps: tuple[Step, ...] = ()  # of the node


class Answer(Struct, frozen=True):
    """What is told of one node."""

    about: tuple[tuple[str, str], ...]
    ways: tuple[Way, ...]
    plan: Plan | None
    unplanned: str = ""  # why there is none
    matched: Matched | None = None  # where a line was asked about
    passing: tuple[Verdict, ...] = ()  # of the checks that the line matches


Answers = Sequence[Outcome[Answer]]


def tree(host: str, answer: Answer, paint: Painter) -> list[str]:
    """What is printed of one node."""
    known = dict(answer.about)
    heads = [
        f"{each} {known[each]}" for each in ("kernel", "driver", "ofed", "path") if each in known
    ]
    lines = wrapped(f"{host}: {', '.join(heads) or 'nothing is known'}", rest="  ")
    if answer.matched is not None:
        lines += _matched(answer.matched, answer.passing)
    for way in answer.ways:
        lines += ["", *_way(host, way, answer, paint)]
    return lines


def _matched(matched: Matched, passing: Sequence[Verdict]) -> Iterator[str]:
    for at, line in enumerate(matched.line.strip("\n").split("\n")[:_LINES]):
        yield from _said("" if at else "line", _cut(line.strip()), "")
    row = matched.row
    if row is not None:
        yield from _said("means", f"{row.cause} ({row.source})", "")
        yield from _said("do", row.action, "")
    for quote in matched.quotes:
        yield from _quoted(quote, "stands in", "")
    if not matched.quotes:
        yield from _said("stands in", "nothing that was read of this node", "")
    for each in passing:
        yield from _said(each.status.value, f"{each.check.id}: {each.finding.found}", "")
    if row is None and not matched.checks:
        yield from _said("read by", "no check knows a line like this", "")


def _way(host: str, way: Way, answer: Answer, paint: Painter) -> Iterator[str]:
    for at, link in enumerate(way.links):
        indent = "   " * at
        before = f"{'   ' * (at - 1)}└─ " if at else ""
        yield f"{before}{paint(link.verdict.check.id, Ink.BOLD)}  {_state(link.verdict, paint)}"
        yield from _link(link, indent)
    last = way.links[-1].verdict
    indent = "   " * (len(way.links) - 1)
    if last.status in {Status.FAIL, Status.UNKNOWN}:
        yield from _repair(host, last, way, answer, indent)
    if way.cause is not None:
        yield from _followers(way, indent)


def _state(verdict: Verdict, paint: Painter) -> str:
    failing = verdict.status is Status.FAIL
    word = f"fails ({verdict.check.impact})" if failing else verdict.status.value
    return paint(word, _INKS.get(verdict.status, Ink.GREY))


def _link(link: Link, indent: str) -> Iterator[str]:
    check, finding = link.verdict.check, link.verdict.finding
    yield from _said("found", finding.found, indent)
    if finding.expected:
        yield from _said("expected", finding.expected, indent)
    yield from _said("rule", f"{check.title.rstrip('.')} ({check.source})", indent)
    for quote in link.quotes:
        yield from _quoted(quote, "evidence", indent)
    if link.step is not None:
        yield from _said("because", link.step.why, indent)


def _quoted(quote: Quote, label: str, indent: str) -> Iterator[str]:
    frame = quote.frame
    lacks = f" has no line with {' or '.join(quote.lacks[:3])}" if quote.lacks else ""
    empty = " is empty" if not frame.text.strip() else lacks
    said = f"{frame.source}{empty}" if frame.state is State.OK else frame.trouble
    yield from _said(label, f"{frame.key}: {said}", indent)
    blank = f"{indent}  {' ' * _LABEL}"
    for line in quote.lines:
        yield from wrapped(_cut(line.strip()), first=f"{blank}| ", rest=f"{blank}|   ")


def _cut(line: str) -> str:
    left = len(line) - _LONG
    return line if left <= 0 else f"{line[:_LONG]} ... and {left} characters more"


def _repair(host: str, root: Verdict, way: Way, answer: Answer, indent: str) -> Iterator[str]:
    if hint := _repair_of(root):
        hint = addressed(hint, [host]) if answer.plan is not None else hint
        yield from _said("repair", hint, indent)
    if answer.plan is None:
        yield from _said("plan", f"none: {answer.unplanned}", indent)
        return
    changes = mending(answer.plan, way)
    for change in changes:
        yield from _said("plan", f"{change.action} {change.path}: {change.title}", indent)
    if then := _then(answer.plan, changes):
        yield from _said("then", ", ".join(then), indent)
    for blocked in answer.plan.blocked:
        yield from _said("blocked", f"{blocked.artefact}: {blocked.reason}", indent)
    if not changes:
        yield from _said("plan", "no file of ours mends it: by hand, as above", indent)


def _repair_of(verdict: Verdict) -> str:
    fix = verdict.check.fix if verdict.status is Status.FAIL else ""
    return verdict.finding.hint or fix


def mending(plan: Plan, way: Way) -> tuple[Change, ...]:
    """What the plan changes for the cause, or for what follows from it."""
    ids = {each.verdict.check.id for each in way.links}
    if way.cause is not None:
        ids |= {way.cause.root.check.id, *(each.check.id for each in way.cause.follows)}
    return tuple(
        each for each in plan.changes if any(why.partition(":")[0] in ids for why in each.why)
    )


def _then(plan: Plan, changes: Sequence[Change]) -> list[str]:
    called = {trigger for each in changes for trigger in each.triggers}
    return [trigger_name(each) for each in plan.triggers if each in called]


def _followers(way: Way, indent: str) -> Iterator[str]:
    if way.cause is None or not way.cause.follows:
        return
    after = {each.check: each.after for each in way.steps}
    root = way.cause.root.check.id
    ids = [each.check.id for each in way.cause.follows]
    yield from _said("follow", counted(len(ids), "check"), indent)

    def below(name: str, lead: str) -> Iterator[str]:
        here = [each for each in ids if _above(after.get(each, root), root, ids) == name]
        for each in here:
            last = each == here[-1]
            yield f"{indent}  {' ' * _LABEL}{lead}{'└─' if last else '├─'} {each}"
            yield from below(each, f"{lead}{'   ' if last else '│  '}")

    yield from below(root, "")


def _above(after: str, root: str, ids: Sequence[str]) -> str:
    """What a follower stands below: the cause itself where the step leads out of it."""
    return after if after in ids else root


def _said(label: str, text: str, indent: str) -> list[str]:
    head = f"{indent}  {label.ljust(_LABEL)}"
    return wrapped(text, first=head, rest=" " * len(head)) or [head.rstrip()]


def document(answers: Answers) -> dict[str, Json]:
    """The same for programs: docs/why.schema.json."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "hosts": [_host(each.host, each.value, each.error) for each in answers],
    }


def _host(name: str, answer: Answer | None, error: ToolkitError | None) -> dict[str, Json]:
    plan = answer.plan if answer is not None else None
    return {
        "name": name,
        "error": {"message": str(error), "hint": error.hint} if error is not None else None,
        "about": dict(answer.about) if answer is not None else {},
        "line": _line(answer.matched) if answer is not None and answer.matched else None,
        "ways": [_way_json(each, plan) for each in answer.ways] if answer is not None else [],
        "blocked": [picked(each, "artefact reason hint") for each in plan.blocked]
        if plan is not None
        else [],
        "unplanned": answer.unplanned if answer is not None else "",
    }


def _line(matched: Matched) -> dict[str, Json]:
    names = "cause action source"
    return {
        **picked(matched, "text=line checks"),
        **(picked(matched.row, names) if matched.row else dict.fromkeys(names.split(), "")),
        "stands_in": [_quote(each) for each in matched.quotes],
    }


def _way_json(way: Way, plan: Plan | None) -> dict[str, Json]:
    changes = mending(plan, way) if plan is not None else ()
    return {
        "links": [_link_json(each) for each in way.links],
        "follows": [each.check.id for each in way.cause.follows] if way.cause else [],
        "plan": [picked(each, "artefact action path title") for each in changes],
        "then": _then(plan, changes) if plan is not None else [],
    }


def _link_json(link: Link) -> dict[str, Json]:
    check, finding = link.verdict.check, link.verdict.finding
    return {
        **picked(link.verdict, "check=check.id finding.status check.impact"),
        **picked(finding, "found expected details"),
        **picked(check, "rule=title source"),
        "evidence": [_quote(each) for each in link.quotes],
        "because": link.step.why if link.step else "",
        "repair": _repair_of(link.verdict),
    }


def _quote(quote: Quote) -> dict[str, Json]:
    return {
        **picked(quote.frame, "frame=key state source"),
        "lines": [clean(each) for each in quote.lines],
        "lacks": list(quote.lacks),
    }
