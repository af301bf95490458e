"""The verbs that tell of earlier runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.cli.options import RUN, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, worst
from toolkit.hosts.host import fold, select
from toolkit.plural import counted
from toolkit.report.document import Json, dumps, picked
from toolkit.report.table import Ink, Painter, clean, columns, labelled, shortened, wants_colour
from toolkit.rollout.history import (
    PastRun,
    Unread,
    Vouched,
    history_of,
    read_run,
    read_runs,
    verify_runs,
)
from toolkit.rollout.journal import Event, Turn, by_host
from toolkit.rollout.plan.batches import Past
from toolkit.untrusted import read_json
from toolkit.verbs.access import state_dir

# Runs of the past, for a person and for machines: docs/runs.schema.json.
SCHEMA = "gdr-toolkit/runs/1"
_INK = {"ended": Ink.GREEN, "running": Ink.BOLD, "stopped": Ink.YELLOW, "broken off": Ink.RED}
_WHO, _WIDEST = 14, 18  # characters of who and why in the table


class HostRow(Struct, frozen=True):
    """One host in one run."""

    name: str
    phase: str
    batch: int  # from 1; 0 where it was in none
    events: tuple[Event, ...] = ()


class RunRow(Struct, frozen=True):
    """One run, as it is told of."""

    id: str
    began: str  # ISO 8601, UTC
    who: str
    verb: str
    state: str
    reason: str
    hosts: tuple[HostRow, ...]
    turns: tuple[Turn, ...] = ()
    undoes: str = ""
    words: Mapping[str, Json] = field(default_factory=dict)

    def count(self, *phases: str) -> int:
        return sum(host.phase in phases for host in self.hosts)


def runs_table(rows: Sequence[RunRow], paint: Painter) -> list[str]:
    """One line a run. Counts: hosts that were to be changed, done, failed."""
    head = ("run", "who", "hosts", "done", "failed", "state", "reason")
    table = columns([head, *map(_cells, rows)])
    lines = [paint(table[0], Ink.GREY)]
    for line, row in zip(table[1:], rows, strict=True):
        ink = _INK.get(row.state, Ink.BOLD)
        lines.append(line.replace(f"  {row.state}", f"  {paint(row.state, ink)}", 1))
    return lines


def _cells(row: RunRow) -> tuple[str, ...]:
    touched = sum(host.batch > 0 for host in row.hosts)
    reason = shortened(clean(row.reason), _WIDEST)
    counts = (str(touched), str(row.count("done")), str(row.count("failed")))
    return (row.id, clean(row.who)[:_WHO], *counts, row.state, reason)


def run_lines(row: RunRow, paint: Painter) -> list[str]:
    """One run in full: who, why, how it ended, and where each host was left."""
    lines = [f"{paint(row.id, Ink.BOLD)}  {row.verb}, {row.state}"]
    lines += labelled("who", f"{row.who}, {_time(row.began)}", indent=2)
    lines += labelled("why", row.reason, indent=2)
    lines += labelled("undoes", row.undoes, indent=2)
    for turn in row.turns:
        lines += labelled("turn", _turn(turn), indent=2)
    lines.append("")
    # A line for hosts of one batch that were left at the same point.
    groups: dict[tuple[int, str], list[str]] = {}
    for host in row.hosts:
        groups.setdefault((host.batch, host.phase), []).append(host.name)
    cells = [
        (f"batch {batch}" if batch else "no batch", phase, str(len(names)), clean(fold(names)))
        for (batch, phase), names in sorted(groups.items(), key=lambda each: each[0][0] or 9999)
    ]
    lines += columns([("batch", "left at", "count", "hosts"), *cells])
    for host in row.hosts:
        lines += _trouble(host, paint)
    return lines


def _turn(turn: Turn) -> str:
    if turn.ended is None:
        return f"{turn.who} from {_time(turn.began)}: no end is written down"
    ended = f"exit code {turn.code}, {turn.how}"
    return f"{turn.who} from {_time(turn.began)} to {_time(turn.ended)}: {ended}"


def _trouble(host: HostRow, paint: Painter) -> list[str]:
    """Why a host failed, in the words of its error; what fails on it otherwise."""
    if host.phase != "failed" or not host.events:
        return []
    told = _detail(host.events[-1].detail)
    lines = ["", f"{paint('failed', Ink.RED)}   {clean(host.name)}"]
    error, fails = str(told.get("error", "")), told.get("fails")
    for number, line in enumerate(error.split("\n")):
        lines += labelled("" if number else "found", line)
    lines += labelled("next", str(told.get("hint") or ""))
    if isinstance(fails, list):
        lines += labelled("fails", ", ".join(map(str, fails)))
    for name in ("missed", "blocked"):
        listed = told.get(name)
        for each in listed if isinstance(listed, list) else []:
            lines += labelled(name, str(each))
    return lines + labelled("no reset", str(told.get("busy") or ""))


def history_table(rows: Iterable[tuple[str, RunRow]], paint: Painter) -> list[str]:
    """:param rows: host and run, newest run first."""
    cells = []
    for name, row in rows:
        host = next(each for each in row.hosts if each.name == name)
        reason = shortened(clean(row.reason), _WIDEST)
        cells.append((clean(name), row.id, host.phase, clean(row.who)[:_WHO], reason))
    table = columns([("host", "run", "left at", "who", "reason"), *cells])
    return [paint(table[0], Ink.GREY), *table[1:]]


def runs_document(rows: Iterable[RunRow], unread: Mapping[str, str]) -> dict[str, Json]:
    """The document for machines.

    :param unread: runs whose journals cannot be read, and why.
    """
    return {
        "schema": SCHEMA,
        "runs": [_json(row) for row in rows],
        "unread": [{"id": name, "why": why} for name, why in unread.items()],
    }


def verified_document(
    found: Iterable[tuple[str, Sequence[str], str]], unread: Mapping[str, str]
) -> dict[str, Json]:
    """The same document for ``--verify``: of each journal, whether it is as it was written.

    :param found: a run's id, what was changed by other hands, and what else is to be said of it.
    :param unread: as above.
    """
    rows: list[Json] = [
        {"id": name, "intact": not broken, "broken": list(broken), "note": note}
        for name, broken, note in found
    ]
    return runs_document((), unread) | {"verified": rows}


def _json(row: RunRow) -> Json:
    return {
        **picked(row, "id began who verb state reason undoes words"),
        "turns": [picked(each, "who began ended how exit_code=code") for each in row.turns],
        "hosts": [
            {
                **picked(host, "name phase batch"),
                "events": [
                    {**picked(each, "time phase boot_id"), "detail": _detail(each.detail)}
                    for each in host.events
                ],
            }
            for host in row.hosts
        ],
    }


def _detail(text: str) -> Mapping[str, Json]:
    """What was written with an event; words that are no JSON are a text."""
    if not text:
        return {}
    try:
        loaded = read_json(text)
    except ValueError:
        return {"text": text}
    return loaded if isinstance(loaded, dict) else {"text": text}


def _time(stamp: str) -> str:
    """ "2026-11-21 22:00:03" for an ISO time; UTC."""
    return stamp[:19].replace("T", " ")


_NONE = "no run has left a journal yet"
JSON = Option("json", False, "one JSON document on standard output (docs/runs.schema.json)")


def _place() -> Path:
    return state_dir() / "runs"


@verb(
    (
        Option("count", 20, "so many, newest first; 0 for all"),
        Option(
            "verify", False, "whether any row of their journals was changed since; exit 2 if so"
        ),
        JSON,
    )
)
def list_(said: Said) -> ExitCode:
    """Earlier runs that changed nodes, or meant to: who, how many hosts, how they ended.

    A run that broke off is gone on with by: invoke provision --resume RUN

    Examples:
      invoke runs
      invoke runs --count 0 --json
      invoke runs --verify --json
    """
    if said.flag("verify"):
        return _verify(said)
    count = said.number("count", 20)
    found = [each for at, each in enumerate(read_runs(_place())) if not count or at < count]
    rows = [row_of(each) for each in found if isinstance(each, PastRun)]
    unread = {each.id: each.why for each in found if isinstance(each, Unread)}
    if said.flag("json"):
        sys.stdout.write(dumps(runs_document(rows, unread)))
        return ExitCode.OK
    paint = Painter(wants_colour(sys.stdout))
    print("\n".join(runs_table(rows, paint) if rows else [_NONE]))
    _tell_unread(unread)
    return ExitCode.OK


def _verify(said: Said) -> ExitCode:
    read = tuple(verify_runs(_place()))
    if said.flag("json"):
        unread = {each.id: each.why for each in read if isinstance(each, Unread)}
        kept = [(e.id, e.broken, e.note) for e in read if isinstance(e, Vouched)]
        sys.stdout.write(dumps(verified_document(kept, unread)))
        return worst([ExitCode.OK, *map(_vouched, read)])
    if not read:
        print(_NONE)
    for each in read:
        if isinstance(each, Unread):
            print(f"{each.id}: cannot be read: {clean(each.why)}")
        elif each.broken:
            print("\n  ".join([f"{each.id}: changed by other hands", *map(clean, each.broken)]))
        else:
            print(f"{each.id}: {each.note or 'as it was written'}")
    return worst([ExitCode.OK, *map(_vouched, read)])


def _vouched(found: Vouched | Unread) -> ExitCode:
    if isinstance(found, Unread):
        return ExitCode.UNKNOWN
    return ExitCode.FAILED if found.broken else ExitCode.OK


@verb(RUN, (JSON,))
def show(said: Said) -> ExitCode:
    """One run in full: who, why, how it ended, where each host was left, and what failed.

    Examples:
      invoke runs.show 2026-11-21T22-00-00-provision
    """
    row = row_of(read_run(_place(), said.text("run")))
    if said.flag("json"):
        sys.stdout.write(dumps(runs_document([row], {})))
    else:
        print("\n".join(run_lines(row, Painter(wants_colour(sys.stdout)))))
    return ExitCode.OK


@verb((Option("hosts", "", "node set: gpu[001-004]"), JSON))
def history(said: Said) -> ExitCode:
    """What earlier runs did on these hosts, newest first.

    Examples:
      invoke history --hosts gpu007
    """
    wanted = [host.name for host in select(said.text("hosts"))]
    found = list(history_of(_place(), wanted))
    unread = {each.id: each.why for each in found if isinstance(each, Unread)}
    rows = [row_of(each) for each in found if isinstance(each, PastRun)]
    if said.flag("json"):
        kept = [replace(r, hosts=tuple(h for h in r.hosts if h.name in wanted)) for r in rows]
        sys.stdout.write(dumps(runs_document(kept, unread)))
        return ExitCode.OK
    paint = Painter(wants_colour(sys.stdout))
    pairs = [(host.name, row) for row in rows for host in row.hosts if host.name in wanted]
    print("\n".join(history_table(pairs, paint) if pairs else ["no run has seen these hosts"]))
    from toolkit.features.exercise.run import earlier  # noqa: PLC0415 only who asks of hosts pays for it

    if (count := sum(1 for _ in earlier(_place(), wanted))) and wanted:
        print(f"{counted(count, 'measurement')}: exercise --past --hosts {said.text('hosts')}")
    _tell_unread(unread)
    return ExitCode.OK


def _tell_unread(unread: Mapping[str, str]) -> None:
    for name, why in unread.items():
        print(f"note: {name}: {why}", file=sys.stderr)


def row_of(run: PastRun) -> RunRow:
    """A run as it is told of."""
    story = run.story
    batch_of = {host: at for at, batch in enumerate(story.batches, 1) for host in batch}
    events = by_host(story.events)
    hosts = tuple(
        HostRow(
            name,
            run.pasts.get(name, Past()).last.value,
            batch_of.get(name, 0),
            tuple(events.get(name, ())),
        )
        for name in dict.fromkeys([*story.hosts, *run.pasts])
    )
    return RunRow(
        run.id,
        story.about.began,
        story.about.who,
        story.about.verb,
        run.state.value,
        story.about.reason,
        hosts,
        story.turns,
        story.about.undoes,
        read_json(story.about.words or "{}"),
    )
