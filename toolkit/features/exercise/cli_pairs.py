"""Pairs of a set: what ``exercise --pairs`` asks, runs, prints and keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import ExitCode, Outcome, UsageError, worst
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Test
from toolkit.features.exercise.plan import Exercise, ExerciseTerms, limit_of
from toolkit.features.exercise.plan_bisect import Bisect, FixedRounds, PairLedger
from toolkit.features.exercise.plan_judge import JudgedTest
from toolkit.features.exercise.plan_pairs import Ends, PairSet, PairWay, rounds, turns
from toolkit.features.exercise.plan_past import declines
from toolkit.features.exercise.plan_rails import ExerciseNode, fabric_frame, parse_fabric
from toolkit.features.exercise.run import FILE, NodeReading, count_gpus, earlier, read_all
from toolkit.features.exercise.run_pairs import (
    PairRounds,
    PairsRan,
    PairTerms,
    run_pairs,
    taking_part,
)
from toolkit.features.exercise.show import ExerciseReport, decline_lines, document
from toolkit.features.exercise.show_matrix import matrix_html, matrix_page
from toolkit.features.exercise.show_pairs import (
    PairsReport,
    left_lines,
    pair_lines,
    pairs_json,
    planned_pairs_lines,
)
from toolkit.hosts.host import fold
from toolkit.package_data import program
from toolkit.plural import counted
from toolkit.report.document import Json, dumps
from toolkit.report.table import wrapped
from toolkit.untrusted import read_json
from toolkit.verbs.access import state_dir
from toolkit.verbs.cli.rollout import counting
from toolkit.verbs.cli.session import Session, consent, fleet
from toolkit.verbs.slurm_service import not_idle


def pairs_measured(
    session: Session, way: PairWay, terms: ExerciseTerms, judging: PairTerms
) -> ExitCode:
    """Run the pairs of a set, and tell what came of them."""
    said = session.said
    fabric = _fabric(said.text("fabric"))
    with fleet(said) as opened:
        if len(opened.hosts) < 2:
            raise UsageError("pairs are of two hosts or more", hint="--hosts gpu[001-128]")
        looked = [each.map(partial(_with_fabric, fabric)) for each in read_all(opened)]
        views, left = taking_part(looked, not_idle(opened), over_jobs=judging.over_jobs)
        pairs = PairSet(views, terms)
        ahead = _ahead(way, pairs)
        tests = (asked := _exercise(pairs, ahead)).tests
        sheet = ExerciseReport(
            tuple(each.host for each in looked), (), asked, judging.threshold,
            ExitCode.PENDING if tests else ExitCode.UNKNOWN, session.now, {}, simulated=opened.demo,
        )  # fmt: skip
        if said.looks or not tests:
            return _planned(session, pairs, ahead, sheet, left)
        meant = replace(opened, hosts=tuple(host for host in opened.hosts if host.name in views))
        how = counting(session, meant)
        if not opened.demo:
            _consent(session, pairs, ahead, tests)
        rounds_of = _rounds(way, pairs, judging.threshold)
        ran = run_pairs(meant, looked, pairs, rounds_of, terms=judging, how=how)
    ran.left.update(left)
    return _told(session, *_reported(way, sheet, ran, looked, views))


def _fabric(file: str) -> dict[int, list[str]]:
    """:raises UsageError: no switch with an HCA is told in it; no node has been asked then."""
    try:
        found = parse_fabric(Path(file).read_text("utf-8", "replace").split("\n") if file else ())
    except OSError as why:
        raise UsageError(f"--fabric {file}: {why.strerror or why}", hint="name a file") from why
    if file and not found:
        raise UsageError(
            f"--fabric {file}: it tells of no HCA at a switch", hint=f"ibnetdiscover > {file}"
        )
    return found


def _with_fabric(fabric: Mapping[int, list[str]], reading: NodeReading) -> NodeReading:
    if not fabric:
        return reading
    told = fabric_frame(fabric, Node(reading.evidence))
    return replace(reading, look=reading.look.plus([told]))


def _reported(
    way: PairWay,
    sheet: ExerciseReport,
    ran: PairsRan,
    looked: Sequence[Outcome[NodeReading]],
    views: Iterable[str],
) -> tuple[ExerciseReport, PairsReport]:
    """What came of all runs, judged together."""
    ledger = PairLedger(sheet.threshold)
    ledger.learn(run.run for run in ran.runs)
    met = {end.host for run in ran.runs for end in run.ends}
    if not ran.interrupted and not ran.halt:
        alone = "no port of another node goes with one of its own"
        ran.left.update((host, alone) for host in {*views} - met - {*ran.left})
    report = PairsReport(way, len(met), tuple(ran.runs), ledger, ran.left)
    why = _untried(ran.evidence, ran.results)
    more = [f"the rest was not run: {ran.halt}"] if ran.halt else []
    more += ["interrupted: the rest was not run"] if ran.interrupted else []
    past = earlier(state_dir() / "runs", sheet.hosts)
    told = replace(
        sheet,
        results=ran.results,
        code=_code(report, ran, looked, why),
        troubles=(*ran.troubles, *filter(None, [why]), *more),
        declined=tuple(declines(ran.results, past, simulated=sheet.simulated)),
    )
    return told, report


class _Ahead(Struct, frozen=True):
    """What is known before anything is run."""

    first: tuple[Ends, ...]  # of a tournament the first round, else all
    runs: int
    rounds: int


def _ahead(way: PairWay, pairs: PairSet) -> _Ahead:
    hosts = list(pairs.views)
    if len(hosts) < 2:
        return _Ahead((), 0, 0)
    every = pairs.terms.every
    if way is PairWay.ALL:
        first = next(rounds(way, hosts, pairs.ways, every=every), ())
        rails = max((len(pairs.ways(*hosts[:2])) if every else 1), 1)
        return _Ahead(first, len(hosts) * (len(hosts) - 1) // 2 * rails, turns(hosts) * rails)
    known = list(iter(_rounds(way, pairs, 1.0).next, ()))
    first = tuple(ends for found in known for ends in found)
    return _Ahead(first, len(first), len(known))


def _rounds(way: PairWay, pairs: PairSet, threshold: float) -> PairRounds:
    hosts, ledger = list(pairs.views), PairLedger(threshold)
    if way is PairWay.BISECT:
        return Bisect(hosts, pairs.ways, ledger)
    return FixedRounds(rounds(way, hosts, pairs.ways, every=pairs.terms.every), ledger)


def _exercise(pairs: PairSet, ahead: _Ahead) -> Exercise:
    """The tests of the first pair stand for all; what is left out is told of every node."""
    planned = [pairs.tests(ends, at) for at, ends in enumerate(ahead.first, start=1)]
    left = dict.fromkeys(each for one in planned for each in one.left_out)
    return Exercise(next((one.tests for one in planned if one.tests), ()), tuple(left), ())


def _planned(
    session: Session, pairs: PairSet, ahead: _Ahead, sheet: ExerciseReport, left: Mapping[str, str]
) -> ExitCode:
    rows = [(ends, pairs.predicted(ends)) for ends in ahead.first]
    way = session.said.text("pairs")
    verbose = session.said.flag("verbose")
    lines = planned_pairs_lines(rows, ahead.runs, ahead.rounds, way, verbose=verbose)
    assert sheet.exercise is not None  # noqa: S101 # what is planned is there
    tests = sheet.exercise.tests
    lines += ["", f"Each run is of {counted(len(tests), 'test')}:"]
    lines += [f"   {test.title}" for test in tests]
    session.say("\n".join([*lines, *_left_out(sheet, left)]))
    if session.said.flag("json"):
        sys.stdout.write(dumps(document(sheet)))
    return sheet.code


def _left_out(sheet: ExerciseReport, left: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Lines that tell why some tests are left out, and which nodes took no part."""
    told = sheet.exercise.left_out if sheet.exercise else ()
    parts = [each.partition(": ") for each in told]
    by_host = {host: why for host, _, why in parts if host in sheet.hosts}
    others = [
        each for each, (host, _, _) in zip(told, parts, strict=True) if host not in sheet.hosts
    ]
    lines = [line for each in others for line in wrapped(f"left out   {each}", rest=11 * " ")]
    return left_lines(by_host) + left_lines(left) + (["", *lines] if lines else [])


def _consent(session: Session, pairs: PairSet, ahead: _Ahead, tests: Sequence[Test]) -> None:
    runs = f"{counted(ahead.runs, 'run')} in {counted(ahead.rounds, 'round')}"
    most = max(map(limit_of, tests), default=0)
    each = f"{counted(len(tests), 'test')} each, of {pairs.terms.seconds} s and {most} s at most"
    consent(f"move data among {counted(len(pairs.views), 'node')}: {runs}, {each}?", session.said)


def _untried(evidence: Mapping[str, Evidence], results: Sequence[JudgedTest]) -> str:
    """Which nodes have GPUs, or may have, whose memory no test moved; "" for none."""
    ends = [end for each in results for _, end in each.test.ends]
    moved = {end.host for end in ends if end.buffer.gpu}
    rest = {end.host for end in ends} - moved
    if not results:
        return "nothing was run"
    found = [host for host in sorted(rest) if count_gpus(evidence[host]) != 0]
    return f"{fold(found)}: no test moved the memory of a GPU, and there are some" if found else ""


def _code(
    report: PairsReport, ran: PairsRan, looked: Sequence[Outcome[NodeReading]], why: str
) -> ExitCode:
    ledger, named = report.ledger, report.named
    codes = [each.error.exit_code for each in looked if each.error is not None]
    if named or ledger.open(named) or ledger.norms.whole(ledger.threshold):
        codes.append(ExitCode.FAILED)
    if ledger.void or report.left or why:
        codes.append(ExitCode.UNKNOWN)
    codes += [ExitCode.STOPPED] * bool(ran.halt) + [ExitCode.INTERRUPTED] * ran.interrupted
    return worst(codes) if codes else ExitCode.OK


def _told(session: Session, sheet: ExerciseReport, report: PairsReport) -> ExitCode:
    lines = ["simulated: no data was moved, the figures are made up"] if sheet.simulated else []
    lines += pair_lines(report, session.paint, verbose=session.said.flag("verbose"))
    lines += decline_lines(sheet.declined)
    lines += _left_out(sheet)
    lines += [line for each in sheet.troubles for line in wrapped(f"note: {each}", rest="      ")]
    session.say("\n".join(lines).rstrip())
    if session.said.text("html"):
        page = matrix_page(
            report,
            sheet.declined,
            when=Path(session.said.text("from_")).name or f"{sheet.when:%Y-%m-%d %H:%M} UTC",
            simulated=sheet.simulated,
            threshold=sheet.threshold,
            notes=sheet.troubles,
        )
        if session.deliver("html", "".join(matrix_html(page, f"{program()} exercise"))):
            session.remark(f"written to {session.said.text('html')}")
    return delivered(session, sheet, pairs=pairs_json(report))


def delivered(session: Session, sheet: ExerciseReport, **more: Json) -> ExitCode:
    """Print the document if that was asked for; keep it where something was run."""
    text = dumps({**document(sheet), **more})
    if session.said.flag("json"):
        sys.stdout.write(text)
    if sheet.results and sheet.exercise is not None:
        session.folder.keep(FILE, text)
        session.kept()
    return sheet.code


def _simulated(run: Path) -> bool:
    """Whether that run moved no data; what it kept says so."""
    try:
        return bool(read_json((run / FILE).read_text("utf-8")).get("simulated"))
    except (OSError, ValueError, AttributeError):
        return False


def pairs_again(
    session: Session,
    evidence: Mapping[str, Evidence],
    results: tuple[JudgedTest, ...],
    threshold: float,
) -> ExitCode:
    """An earlier run of pairs, judged again; no host is asked."""
    views = {host: ExerciseNode(host, Node(each), each) for host, each in evidence.items()}
    runs = tuple(PairSet(views, ExerciseTerms()).again(results))
    ledger = PairLedger(threshold)
    ledger.learn(run.run for run in runs)
    met = {end.host for run in runs for end in run.ends}
    report = PairsReport("", len(met), runs, ledger)
    why = _untried(evidence, results)
    sheet = ExerciseReport(
        tuple(evidence), results, None, threshold, _code(report, PairsRan({}), (), why),
        session.now, {}, (why,) if why else (), _simulated(Path(session.said.text("from_"))),
    )  # fmt: skip
    return _told(session, sheet, report)
