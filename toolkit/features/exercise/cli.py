"""The verb that moves data, and holds what came of it against the prediction."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from toolkit.cli.options import HOSTS, INSIDE, REACH, REGISTER, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, worst
from toolkit.features.exercise import register
from toolkit.features.exercise.cli_pairs import delivered, pairs_again, pairs_measured
from toolkit.features.exercise.plan import Exercise, ExerciseTerms, limit_of, read_terms
from toolkit.features.exercise.plan_judge import THRESHOLD, JudgedTest
from toolkit.features.exercise.plan_pairs import OF_A_RUN, PairWay
from toolkit.features.exercise.plan_past import declines
from toolkit.features.exercise.plan_proof import Earlier, same
from toolkit.features.exercise.run import (
    code_of,
    earlier,
    judged,
    plan,
    read_nodes,
    refuse_jobs,
    run,
    saved,
)
from toolkit.features.exercise.run_pairs import PairTerms
from toolkit.features.exercise.show import (
    EarlierFigures,
    ExerciseReport,
    decline_lines,
    past_document,
    past_lines,
    planned_lines,
    remarks,
    result_lines,
)
from toolkit.hosts.host import select
from toolkit.plural import counted
from toolkit.report.document import dumps
from toolkit.verbs.access import state_dir
from toolkit.verbs.cli.rollout import COUNTED
from toolkit.verbs.cli.session import Session, consent, fleet, refuse_inside
from toolkit.verbs.saved import read_saved

EXERCISE = (
    Option("check", False, "move nothing: what would be run, as it would be typed; exit 7"),
    Option("seconds", 5, "how long each test lasts at most, 1 to 60"),
    Option("gigabytes", 500, "how much each test moves at most (10^9 bytes)"),
    Option("hca", "", "the HCA of the first host, such as mlx5_0; else the best one"),
    Option("every", False, "every HCA that serves a GPU, in place of the best one"),
    Option("pairs", "", "of a set of hosts: ring, rail, all, or bisect, which names what is slow"),
    Option("threshold", "0.8", "share of the prediction below which a test fails"),
    Option("expect", "", "GB/s that deep tests are held to in place of the prediction"),
    Option("over_jobs", False, "move data also where a job is at work, or nobody can tell"),
    Option("from_", "", "judge an earlier run again, by its folder; no host is asked"),
    Option("past", False, "what earlier runs measured on these hosts; moves nothing"),
    Option("html", "", "with --pairs: write the matrix of pairs into this page", file=True),
    Option("fabric", "", "with --pairs: what ibnetdiscover printed, which names leaves"),
    Option("verbose", False, "what was shown, assumed and predicted for every test", "v"),
    Option(
        "json",
        False,
        "one JSON document on standard output (docs/exercise.schema.json; with --past"
        " docs/exercise-past.schema.json, with --register docs/register.schema.json)",
    ),
)

MOST = tuple(each for each in COUNTED if each.name == "max_unavailable")


@verb(HOSTS, REACH, WANT, EXERCISE, REGISTER, INSIDE, MOST)
def exercise(said: Said) -> ExitCode:
    """Measure between two nodes, or within one, and hold it against the prediction.

    Moves data: asks before it does, for at most --seconds and --gigabytes a test, and not where a
    job is at work. Host and GPU memory, deep and with one message in flight, by the path that
    jobs would use; counters before and after tell which port moved the bytes.

    Exits 0 when every test reaches the threshold, 2 where one falls short or fell back silently,
    3 where one came to no result, nothing predicts it or no GPU's memory was moved, 5 where a job
    is at work or begins.

    With --pairs a set of hosts is run in pairs, as many at once as --max-unavailable allows: each
    with the next one (ring; rail: over every HCA), each with each (all), or every HCA once and
    then what falls short, with partners that do well, until a part is named (bisect). Nodes with
    a job are left out. docs/exercise.md tells how.

    With --register no byte moves: each HCA of any number of hosts is given memory of each GPU,
    which is a matter of seconds (docs/register.md).

    Examples:
      invoke exercise --hosts gpu[001-128] --register
      invoke exercise --hosts gpu007 --register --inside podman:train
      invoke exercise --hosts gpu01,gpu02 --check
      invoke exercise --hosts gpu01,gpu02 --yes
      invoke exercise --hosts gpu01,gpu02 --every --seconds 2 --json > measured.json
      invoke exercise --hosts gpu01
      invoke exercise --hosts @rack1 --pairs bisect --max-unavailable 16 --yes
      invoke exercise --hosts @rack1 --pairs all --every --yes --html pairs.html
      invoke exercise --from ~/.local/state/gdr-toolkit/runs/2026-11-22T10-00-00-exercise
      invoke exercise --hosts gpu01 --past
    """
    threshold, wanted = _share(said, "threshold") or THRESHOLD, _number(said, "expect")
    _refuse_pairs(said)
    if said.flag("past"):
        return _past(said)
    if said.flag("register"):
        return _registered(Session.begin("exercise", said))
    refuse_inside(said, "data is moved by the node's own tools", "add --register, which enters it")
    return _judged_or_measured(Session.begin("exercise", said), threshold, wanted)


def _judged_or_measured(session: Session, threshold: float, wanted: float | None) -> ExitCode:
    said = session.said
    if said.text("from_"):
        return _judged_again(session, threshold, wanted)
    way, most, every = _way(said), said.number("gigabytes", 500), said.flag("every")
    terms = read_terms(said.number("seconds", 5), most, said.text("hca"), every=every)
    if way is None:
        return _measured(session, terms, threshold, wanted)
    held = PairTerms(threshold, wanted, said.flag("over_jobs"))
    return pairs_measured(session, way, terms, held)


def _way(said: Said) -> PairWay | None:
    """:raises UsageError: for a way that there is not, and what says nothing without one."""
    text = said.text("pairs")
    for option in ("html", "fabric"):
        if not text and said.text(option):
            raise _no_pairs(option)
    if not text and said.text("max_unavailable"):
        raise UsageError("--max-unavailable is for many pairs", hint="say --pairs bisect, too")
    try:
        return PairWay(text) if text else None
    except ValueError:
        raise UsageError(
            f"--pairs {text!r}: no such way", hint=f"one of {', '.join(PairWay)}"
        ) from None


def _refuse_pairs(said: Said) -> None:
    """:raises UsageError: --pairs was said where nothing is run."""
    for other in ("past", "register", "from_"):
        if said.text("pairs") and said.values.get(other):
            raise UsageError(
                f"--pairs runs tests, and --{other.rstrip('_')} runs none",
                hint="say one of them; an earlier run knows its pairs by itself",
            )


def _no_pairs(option: str) -> UsageError:
    return UsageError(f"--{option} is of the pairs of a set", hint="say --pairs all, too")


def _registered(session: Session) -> ExitCode:
    said, wants = session.said, session.wants()
    if source := said.text("from_"):
        refuse_inside(said, "what was kept has what was looked into then")
        found = read_saved(Path(source))
        outcomes = [Outcome(host, register.judged(host, e, wants.of(host))) for host, e in found]
    elif said.looks:
        session.say("each HCA of these hosts would be given 2 MiB of each GPU, and give it back")
        return ExitCode.PENDING
    else:
        with fleet(said) as opened:
            outcomes = register.register(opened, wants, session.folder)
            if opened.demo:
                session.say("simulated: no GPU was asked, the answers are made up")
    code = register.code_of(outcomes)
    session.say("\n".join(register.table_lines(outcomes)))
    if said.flag("json"):
        sys.stdout.write(dumps(register.register_document(outcomes, code, session.now)))
    if not source:
        session.kept()
    return code


def _judged_again(session: Session, threshold: float, wanted: float | None) -> ExitCode:
    """An earlier run by its folder; no host is asked."""
    evidence = saved(Path(session.said.text("from_")))
    results = judged(evidence, threshold, wanted)
    if any(each.test.number >= OF_A_RUN for each in results):
        return pairs_again(session, evidence, results, threshold)
    if session.said.text("html"):
        raise _no_pairs("html")
    code, why = code_of(evidence, results)
    sheet = ExerciseReport(tuple(evidence), results, None, threshold, code, session.now, {})
    return _told(session, replace(sheet, troubles=(why,) if why else ()))


def _measured(
    session: Session, terms: ExerciseTerms, threshold: float, wanted: float | None
) -> ExitCode:
    said = session.said
    with fleet(said) as opened:
        looked = read_nodes(opened)
        planned = plan(looked, terms)
        names = tuple(each.host for each in looked)
        if said.looks or not planned.tests:
            session.say("\n".join(planned_lines(planned)))
            code = ExitCode.PENDING if planned.tests else ExitCode.UNKNOWN
            return delivered(
                session, ExerciseReport(names, (), planned, threshold, code, session.now, {})
            )
        over_jobs = said.flag("over_jobs")
        if not over_jobs:
            refuse_jobs(looked)
        if not opened.demo:
            _consent(planned, names, said)
        ran = run(opened, looked, planned, session.folder, over_jobs=over_jobs)
        simulated = opened.demo
    results = judged(ran.evidence, threshold, wanted)
    code, why = code_of(ran.evidence, results)
    rest = f"the rest was not run: {ran.stopped}" if ran.stopped else ""
    more = filter(None, [why, rest])
    code = worst([code, ExitCode.STOPPED]) if ran.stopped else code
    past = list(earlier(state_dir() / "runs", names))
    sheet = ExerciseReport(
        names,
        results,
        planned,
        threshold,
        code,
        session.now,
        _before(results, past),
        (*ran.troubles, *more),
        simulated,
        tuple(declines(results, past, simulated=simulated)),
    )
    return _told(session, sheet)


def _consent(planned: Exercise, names: tuple[str, ...], said: Said) -> None:
    between = " and ".join(dict.fromkeys(names))
    where = f"between {between}" if len(names) > 1 else f"within {between}"
    tests = counted(len(planned.tests), "test")
    most = max(map(limit_of, planned.tests))
    bounds = f"{planned.seconds} s of traffic, each ended after {most} s whatever comes"
    consent(f"move data {where}: {tests}, {bounds}?", said)


def _told(session: Session, sheet: ExerciseReport) -> ExitCode:
    lines = ["simulated: no data was moved, the figures are made up"] if sheet.simulated else []
    verbose = session.said.flag("verbose")
    lines += result_lines(sheet.results, session.paint, earlier=sheet.earlier, verbose=verbose)
    lines += decline_lines(sheet.declined)
    plan = sheet.exercise
    left, labels = (plan.left_out, plan.labels) if plan else ((), ())
    session.say("\n".join([*lines, "", *remarks(left, labels, sheet.troubles)]).rstrip())
    return delivered(session, sheet)


def _before(
    results: tuple[JudgedTest, ...], past: Sequence[Earlier]
) -> Mapping[int, EarlierFigures]:
    """The latest figure of the same test in an earlier run, by the test's number."""
    keys = {same(each.test): each.test.number for each in results}
    found: dict[int, EarlierFigures] = {}
    for one in past:
        number = keys.get(one.same)
        if number is not None and number not in found:
            found[number] = EarlierFigures(one.when, one.value)
    return found


def _past(said: Said) -> ExitCode:
    if said.text("from_"):
        raise UsageError("--past and --from tell of two things", hint="say one of them")
    wanted = [host.name for host in select(said.text("hosts"))] if said.text("hosts") else []
    found = list(earlier(state_dir() / "runs", wanted))
    if said.flag("json"):
        sys.stdout.write(dumps(past_document(found, datetime.now(UTC))))
    elif found:
        print("\n".join(past_lines(found)))
    else:
        print("no run has measured anything on these hosts")
    return ExitCode.OK


def _share(said: Said, name: str) -> float | None:
    """:raises UsageError: for what is no share; most likely it is a percentage."""
    value = _number(said, name)
    if value is not None and value > 1:
        raise UsageError(f"--{name} {said.text(name)} is more than all of it", hint="a share: 0.8")
    return value


def _number(said: Said, name: str) -> float | None:
    """A number above 0; None where none was said.

    :raises UsageError: for anything else.
    """
    text = said.text(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(
            f"--{name} {text!r} is no number above 0",
            hint="leave it out, or say a number such as 0.9",
        )
    return value
