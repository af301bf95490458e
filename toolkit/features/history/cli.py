"""The verbs that tell of earlier runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toolkit.cli.options import RUN, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, worst
from toolkit.features.history.show import (
    HostRow,
    RunRow,
    TurnRow,
    history_table,
    run_lines,
    runs_document,
    runs_table,
    verified_document,
)
from toolkit.hosts.host import select
from toolkit.plural import counted
from toolkit.report.document import dumps
from toolkit.report.table import Painter, clean, wants_colour
from toolkit.rollout.history import (
    PastRun,
    Unread,
    Vouched,
    history_of,
    read_run,
    read_runs,
    verify_runs,
)
from toolkit.rollout.journal import Event, by_host
from toolkit.untrusted import read_json
from toolkit.verbs.access import state_dir

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
    names = dict.fromkeys([*story.hosts, *run.pasts])
    events = by_host(story.events)
    return RunRow(
        run.id,
        story.about.began,
        story.about.who,
        story.about.verb,
        run.state.value,
        story.about.reason,
        tuple(_host_row(run, name, batch_of.get(name, 0), events.get(name, ())) for name in names),
        tuple(TurnRow(t.who, t.began, t.ended, t.how, t.code) for t in story.turns),
        story.about.undoes,
        read_json(story.about.words or "{}"),
    )


def _host_row(run: PastRun, name: str, batch: int, events: Sequence[Event]) -> HostRow:
    phase = run.pasts[name].last.value if name in run.pasts else "planned"
    return HostRow(
        name, phase, batch, tuple((e.time, e.phase, e.boot_id, e.detail) for e in events)
    )
