"""The report for machines: one versioned JSON document.

Its schema is docs/report.schema.json; fields are only ever added within a version.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from msgspec.structs import asdict

from toolkit import __version__
from toolkit.checks.check import Check, Status
from toolkit.errors import ExitCode, Outcome, ToolkitError
from toolkit.package_data import as_called
from toolkit.report.table import unjudged

if TYPE_CHECKING:  # who has none of them to write imports none
    from toolkit.checks.check import Verdict
    from toolkit.checks.consumers.chosen import Chosen
    from toolkit.checks.judged import Judged
    from toolkit.checks.kernel.forecast import Forecast
    from toolkit.features.enrol.plan import Enrolling
    from toolkit.features.reload.plan import Reloading
    from toolkit.plan.plan import Plan
    from toolkit.plan.trial import Trial

SCHEMA = "gdr-toolkit/report/1"

Judgements = Sequence["Outcome[Judged]"]  # of hosts, as a format of reports takes them
Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None


class Told(Struct, frozen=True):
    """Everything that one host's part of a document can be made of."""

    judged: Judged | None = None
    before: Judged | None = None  # provision: the verdicts it started from
    plan: Plan | None = None
    steps: tuple[str, ...] = field(default=())  # what apply reported, one step a line
    rebooted: bool = False
    forecast: Forecast | None = None  # doctor --kernel, --next-boot
    enrolling: Enrolling | None = None  # enrol
    reloading: Reloading | None = None  # reload
    written: tuple[str, ...] = ()  # files and folders made for this host
    complete: bool = True  # capture: false where the evidence was cut off


class ReportRun(Struct, frozen=True):
    """What a report says of the run itself."""

    verb: str
    began: datetime  # any zone, as ``ended``
    ended: datetime
    code: ExitCode
    evidence: str  # the folder of the hosts' evidence, an absolute path; "" where none was kept
    file_of: Callable[[str], str]  # a host's evidence in that folder


def document(
    verb: str, profile: str, outcomes: Sequence[Outcome[Told]], code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; ``when`` in any zone, written in UTC."""
    head = _head(verb, profile, outcomes, code, when)
    return {**head, "hosts": [_host(outcome) for outcome in outcomes]}


def document_parts(
    verb: str,
    profile: str,
    outcomes: Sequence[Outcome[Told]],
    code: ExitCode,
    when: datetime,
    *,
    more: Mapping[str, Json] | None = None,
) -> Iterator[str]:
    """The text of the same document, host by host: a large fleet's is never held whole.

    :param more: what this verb tells of no host.
    """
    head = json.dumps({**_head(verb, profile, outcomes, code, when), **(more or {})}, indent=2)
    yield head.removesuffix("\n}") + ',\n  "hosts": ['
    written: dict[tuple[int, bool], str] = {}
    for at, outcome in enumerate(outcomes):
        yield ("," if at else "") + _host_text(outcome, written)
    yield "\n  ]\n}\n" if outcomes else "]\n}\n"


def _host_text(outcome: Outcome[Told], written: dict[tuple[int, bool], str]) -> str:
    """One host; a verdict, or what a library would do, that many share is written once.

    :param written: of these by identity and whether it is waived, each as it stands there.
    """
    text = _indented(_host(outcome, shared=False), 4)
    judged = outcome.value.judged if outcome.value else None
    if judged is None:
        return text

    def put(
        name: str, things: Iterable[tuple[object, bool]], make: Callable[[Any, bool], Json]
    ) -> str:
        parts = []
        for thing, waived in things:
            if (key := (id(thing), waived)) not in written:
                written[key] = _indented(make(thing, waived), 8)
            parts.append(written[key])
        # No text of JSON holds a line break of its own: lines are those of the layout.
        empty = f'\n      "{name}": []'
        return text.replace(empty, f"{empty[:-1]}{','.join(parts)}\n      ]", 1) if parts else text

    verdicts = ((each, each.waived(judged.today)) for each in judged.verdicts)
    text = put("verdicts", verdicts, _verdict)
    return put("chosen", ((each, False) for each in judged.chosen), lambda one, _: _chosen(one))


def _indented(value: Json, depth: int) -> str:
    lines = json.dumps(value, indent=2, ensure_ascii=True).split("\n")
    return "".join(f"\n{'':{depth}}{line}" for line in lines)


def _head(
    verb: str, profile: str, outcomes: Sequence[Outcome[Told]], code: ExitCode, when: datetime
) -> dict[str, Json]:
    states = Counter(map(_state, outcomes))
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "verb": verb,
        "profile": profile,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "summary": {"hosts": len(outcomes), "states": dict(sorted(states.items()))},
    }


def checks_told(only: str, skip: str, own: Sequence[Check] = ()) -> dict[str, Json]:
    """Which checks count, as --only and --skip were said; {} where none is left out.

    :param own: a site's.
    """
    if not only and not skip:
        return {}
    from toolkit.checks.all import BY_ID  # noqa: PLC0415 only they pay for it
    from toolkit.checks.selection import selection  # noqa: PLC0415 likewise

    every = [*BY_ID, *(each.id for each in own)]
    count = sum(map(selection(only, skip, own).has, every))
    said = {"only": only, "skip": skip}
    names = {name: [each.strip() for each in v.split(",") if v] for name, v in said.items()}
    return {"checks": {"judged": count, "of": len(every), **names}}


def envelope(schema: str, when: datetime, code: ExitCode) -> dict[str, Json]:
    """What every other document begins with; ``when`` in any zone, written in UTC."""
    return {
        "schema": schema,
        "toolkit": __version__,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
    }


def dumps(value: Mapping[str, Json]) -> str:
    """Readable, with one trailing newline; surrogates from undecodable bytes are escaped."""
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def picked(thing: object, names: str) -> dict[str, Json]:
    """Some attributes of a thing, as ``plain`` has them.

    :param names: apart by spaces: "found", "check.impact", "path=way" where its key is another.
    """
    pairs = [word.rpartition("=") for word in names.split()]
    return {
        key or name.rpartition(".")[2]: plain(attrgetter(name)(thing)) for key, _, name in pairs
    }


def plain(value: object) -> Json:
    """A value as JSON has it: a record by its fields, a tuple as a list, an Enum by value."""
    if isinstance(value, Struct):
        return {name: plain(held) for name, held in asdict(value).items()}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return cast("Json", value.value if isinstance(value, Enum) else value)


def _host(outcome: Outcome[Told], *, shared: bool = True) -> dict[str, Json]:
    told = outcome.value or Told()
    judged = told.judged
    return {
        "name": outcome.host,
        "state": _state(outcome),
        "about": dict(judged.about) if judged else {},
        "complete": judged.complete if judged else bool(told.written) and told.complete,
        "error": _error(outcome.error) if outcome.error else None,
        "verdicts": _verdicts(judged) if shared else [],
        "before": _verdicts(told.before) if told.before else None,
        "plan": _plan(told.plan) if told.plan else None,
        "steps": list(told.steps),
        "rebooted": told.rebooted,
        "written": list(told.written),
        "forecast": _forecast(told.forecast) if told.forecast else None,
        "enrolment": picked(told.enrolling, "standing found secure_boot todo")
        if told.enrolling
        else None,
        "reload": _reload(told.reloading) if told.reloading else None,
        "known": [picked(each, "id title found effect action checks") for each in judged.known]
        if judged
        else [],
        "chosen": [_chosen(each) for each in judged.chosen] if judged and shared else [],
        "causes": _causes(judged) if judged else [],
        **({"text": _text(judged)} if judged and judged.text else {}),
    }


def _text(judged: Judged) -> dict[str, Json]:
    """Of what is no node but what tools printed: what it comes to, and what would tell more."""
    from toolkit.checks.judged import wanted  # noqa: PLC0415 only they pay for it

    return {
        "shows": [each.check.id for each in judged.having(Status.PASS)],
        "fails": [each.check.id for each in judged.having(Status.FAIL)],
        "wanted": [picked(each, "command checks") for each in wanted(judged)],
    }


def _reload(told: Reloading) -> dict[str, Json]:
    obstacles = [picked(each, "kind text hint over=word") for each in told.reload.obstacles]
    return {
        **picked(told, "result reload.unload reload.load"),
        "obstacles": obstacles,
        **picked(told, "reload.over steps missing"),
    }


def _state(outcome: Outcome[Told]) -> str:
    if outcome.value and not outcome.value.complete:
        return "cut off"
    return state_of(outcome.value.judged if outcome.value else None, outcome.error)


def state_of(judged: Judged | None, error: ToolkitError | None) -> str:
    """A host in one or two words: what its verdicts come to, or why there are none."""
    if judged is not None:
        return judged.state
    return "done" if error is None else unjudged(error)


def _error(error: ToolkitError) -> dict[str, Json]:
    return {
        "kind": type(error).__name__,
        "message": str(error),
        "hint": as_called(error.hint),
        "exit_code": int(error.exit_code),
    }


def _verdicts(judged: Judged | None) -> list[Json]:
    if judged is None:
        return []
    return [_verdict(each, each.waived(judged.today)) for each in judged.verdicts]


def _verdict(verdict: Verdict, waived: bool) -> dict[str, Json]:
    fix = verdict.check.fix if verdict.finding.status is Status.FAIL else ""
    return {
        **picked(verdict, "check=check.id finding.status check.impact check.tense"),
        **picked(verdict.finding, "found expected"),
        "hint": as_called(verdict.finding.hint or fix),
        **picked(verdict, "finding.details cited"),
        "waived": waived,
    }


def _causes(judged: Judged) -> list[Json]:
    from toolkit.checks.judged import causes  # noqa: PLC0415 only they pay for it

    steps = {each.check: each for each in judged.steps}

    def follower(check: str) -> dict[str, Json]:
        step = steps.get(check)
        return {
            "check": check,
            "after": step.after if step else "",
            "why": step.why if step else "",
        }

    return [
        {
            "check": each.root.check.id,
            "follows": [follower(verdict.check.id) for verdict in each.follows],
        }
        for each in causes(judged)
    ]


def _chosen(chosen: Chosen) -> dict[str, Json]:
    return {
        **picked(chosen, "consumer version origin path=way otherwise"),
        "groups": [picked(each, "path=way why directions pairs") for each in chosen.groups],
        "nearest": [list(pair) for pair in chosen.nearest],
        "settings": [f"{each.name}={each.value}: {each.file}" for each in chosen.settings],
        "not_known": list(chosen.not_known),
    }


def _forecast(ahead: Forecast) -> dict[str, Json]:
    rows = "topic finding.status finding.found finding.expected finding.hint finding.details cited"
    return {
        **picked(ahead, "kernel state"),
        "prospects": [picked(each, rows) for each in ahead.prospects],
    }


def _trial(plan: Plan, trial: Trial) -> dict[str, Json]:
    """What is booted once before it is kept; ``changes`` are those that wait for it."""
    done_without = plan.rest.changes if plan.rest else ()
    return {
        **picked(trial, "id kernel adds=words removes=gone entry=file.path"),
        "changes": [each.artefact for each in plan.changes if each not in done_without],
    }


def _plan(plan: Plan) -> dict[str, Json]:
    from toolkit.report.plan_text import trigger_name  # noqa: PLC0415 only they pay for it

    return {
        **picked(plan, "empty needs_reboot"),
        "changes": [picked(each, "artefact action path why") for each in plan.changes],
        "triggers": [trigger_name(trigger) for trigger in plan.triggers],
        "trial": _trial(plan, plan.trial) if plan.trial else None,
        "blocked": [picked(each, "artefact reason hint") for each in plan.blocked],
    }
