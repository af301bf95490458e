"""Exercise: move data between two nodes, or within one; keep and find what both ends said."""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from toolkit.errors import (
    ApplyError,
    ExitCode,
    NoEvidence,
    Outcome,
    TransportError,
    Unparsable,
    UsageError,
    read_or,
    worst,
)
from toolkit.evidence import Evidence, Frame
from toolkit.facts.modules.module_users import parse_users
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Buffer, Kind, Role, Test, frames_of, parse_exercise
from toolkit.facts.rdma.perftest import SIMULATED, MeasuredPair
from toolkit.features.exercise.io import look, take_part
from toolkit.features.exercise.plan import (
    Exercise,
    ExerciseTerms,
    limit_of,
    plan_exercise,
    settings_of,
    words_of,
)
from toolkit.features.exercise.plan_judge import JudgedTest, exit_code, judge
from toolkit.features.exercise.plan_proof import Earlier, parse_kept
from toolkit.features.exercise.plan_rails import ExerciseNode
from toolkit.hosts.host import Host
from toolkit.interrupts import heeded
from toolkit.node.collect import ask, patience
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.untrusted import read_json
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each
from toolkit.verbs.reading import read_node
from toolkit.verbs.saved import read_saved

_MOST_HOSTS = 2
Answers = dict[Role, Evidence | TransportError]  # of one test: what each end said, or why not
_START_S = 10  # until the other end has been told of the port, and has begun


class AtWork(ApplyError):
    """Somebody's job is at work, or nobody can tell: nothing was moved."""


class NodeReading(Struct, frozen=True):
    """One node before a test."""

    evidence: Evidence  # of the probe
    look: Evidence  # of exercise.sh
    busy: str  # who is at work; "" for nobody


class ExerciseRun(Struct):
    """What came of it, host by host."""

    evidence: dict[str, Evidence]  # with the frames of the tests
    troubles: list[str] = field(default_factory=list)  # what broke off, each a sentence
    stopped: str = ""  # whose job began amid the tests, so that the rest was not run

    def add(self, test: Test, said: Answers, keep: Callable[[str, Evidence], object]) -> None:
        """Add what both ends said of a test.

        :param keep: is given each host's evidence, with that in it.
        """
        for role, answer in said.items():
            host = dict(test.ends)[role].host
            if isinstance(answer, TransportError):
                self.troubles.append(f"{test.number}. {test.title}: {answer}")
            # Of an end that broke off what was asked is kept: else nobody would miss it.
            told = () if isinstance(answer, TransportError) else answer.frames.values()
            self.evidence[host] = self.evidence[host].plus(frames_of(test, role, told))
            keep(host, self.evidence[host])


def read_nodes(fleet: Fleet) -> list[Outcome[NodeReading]]:
    """Read the nodes, what they have of tools, and who is at work; moves nothing.

    :raises UsageError: for no host, or more than two.
    """
    if not 1 <= len(fleet.hosts) <= _MOST_HOSTS:
        raise UsageError(
            f"a test is between two hosts, or within one: {len(fleet.hosts)} were named",
            hint="--hosts gpu01,gpu02, or of more the pairs: --pairs bisect",
        )
    return read_all(fleet)


def read_all(fleet: Fleet) -> list[Outcome[NodeReading]]:
    """The same of any number of nodes."""

    def work(host: Host, transport: Transport) -> NodeReading:
        evidence = read_node(fleet, host, transport)
        seen = look(transport)
        return NodeReading(evidence, seen, _busy(seen))

    return on_each(fleet, "reading", work)


def plan(looked: Sequence[Outcome[NodeReading]], terms: ExerciseTerms) -> Exercise:
    """What would be done; the first host connects, the second listens.

    :raises ToolkitError: a host could not be read.
    """
    views = [ExerciseNode(each.host, Node(each.get().evidence), each.get().look) for each in looked]
    return plan_exercise(views[0], views[-1], terms)


def refuse_jobs(looked: Sequence[Outcome[NodeReading]]) -> None:
    """:raises AtWork: tests would disturb a job, and be disturbed by it."""
    for each in looked:
        if each.get().busy:
            raise _at_work(each.host, each.get().busy)


def _at_work(host: str, busy: str) -> AtWork:
    hint = "nothing was moved; once the job has ended, or: --over-jobs"
    return AtWork(f"{host}: {busy}", hint=hint)


def _busy(seen: Evidence) -> str:
    """Who is at work; where it cannot be told, that is the sentence."""
    try:
        found = [each for each in parse_users(seen) if each.works]
    except (NoEvidence, Unparsable) as why:
        return f"it cannot be told whether a job is at work ({why})"
    return f"at work: {'; '.join(map(str, found[:3]))}" if found else ""


def run(
    fleet: Fleet,
    looked: Sequence[Outcome[NodeReading]],
    exercise: Exercise,
    folder: RunFolder,
    *,
    over_jobs: bool = False,
) -> ExerciseRun:
    """Run the tests one after the other; what each end said is kept as it comes.

    Before each the nodes are asked again who is at work: answers and tests take minutes.

    :param over_jobs: nobody is asked: the operator has said that jobs are not in the way.
    :raises AtWork: a job began before the first test; one that begins later ends them.
    """
    read = {each.host: each.get() for each in looked}
    ran = ExerciseRun({host: each.evidence.plus(look_frames(each)) for host, each in read.items()})
    hosts = {host.name: host for host in fleet.hosts}
    progress = fleet.access.progress
    progress.begin("moving data", len(exercise.tests))
    with ExitStack() as stack:
        stack.callback(progress.finish)  # on Ctrl-C too: a board that stays hides the cursor

        @cache
        def way(host: str, role: Role) -> Transport:  # noqa: ARG001 each role has a way of its own
            opened = fleet.connect(hosts[host])
            stack.callback(opened.close)
            return opened

        for test in exercise.tests:
            progress.note(test.drive.host, f"{test.number}. {test.title}")
            own = {role: way(end.host, role) for role, end in test.ends}
            if not over_jobs and (found := begun(test, own)):
                if test is exercise.tests[0]:
                    raise _at_work(*found)
                ran.stopped = str(_at_work(*found))
                break
            ran.add(test, answers(test, own), folder.keep_evidence)
            progress.done(test.drive.host)
    return ran


def begun(test: Test, ways: Mapping[Role, Transport]) -> tuple[str, str] | None:
    """Whose job is at work by now, at either end: the host, and a sentence."""
    for role, end in test.ends:
        try:
            busy = _busy(ask(ways[role], "occupied"))
        except TransportError as why:
            busy = f"it cannot be told whether a job is at work ({why})"
        if busy:
            return end.host, busy
    return None


def look_frames(looked: NodeReading) -> Iterator[Frame]:
    return (each for key, each in looked.look.frames.items() if key.startswith("exercise-"))


def answers(test: Test, ways: Mapping[Role, Transport]) -> Answers:
    """Both ends of one test; an end that broke off is told as such."""
    ports: queue.Queue[int] = queue.Queue()

    def part(role: Role, port: int = 0) -> Evidence | TransportError:
        limit = limit_of(test) + (_START_S if role is Role.SERVE else 0)  # it waits for the other
        settings, words = settings_of(test, role), words_of(test, role)
        try:
            return take_part(
                ways[role], role, limit, settings, words, port=port, listening=ports.put
            )
        except TransportError as why:
            return why

    if Role.ALONE in ways:
        return {Role.ALONE: part(Role.ALONE)}
    crew = ThreadPoolExecutor(2, thread_name_prefix="exercise")
    try:
        serving = crew.submit(part, Role.SERVE)
        serving.add_done_callback(lambda _: ports.put(0))  # else who waits would wait for ever
        port = ports.get(timeout=(limit_of(test) + 120) * patience())
        said: Answers = {}
        if port:
            said[Role.DRIVE] = heeded(crew.submit(part, Role.DRIVE, port))
        return {Role.SERVE: heeded(serving), **said}
    except BaseException:
        for way in ways.values():
            way.close()  # Ctrl-C waits for nobody; tools that were started have deadlines
        raise
    finally:
        crew.shutdown()


def judged(
    evidence: Mapping[str, Evidence], threshold: float, wanted: float | None
) -> tuple[JudgedTest, ...]:
    """Judge what the evidence of these hosts tells of tests, with no host.

    :raises Unparsable: where what was asked of a test makes no sense.
    """
    nodes = {name: Node(each) for name, each in evidence.items()}
    return judge(parse_exercise(dict(evidence)), nodes, threshold=threshold, wanted=wanted)


def code_of(
    evidence: Mapping[str, Evidence], results: Sequence[JudgedTest]
) -> tuple[ExitCode, str]:
    """What a run ends with; and why, where no result tells."""
    code = exit_code(results)
    found = [count_gpus(each) for each in evidence.values()]
    if any(each.test.gpu for each in results) or not any(each != 0 for each in found):
        return code, ""
    known = "there are some" if any(found) else "whether there are some was not read"
    return worst([code, ExitCode.UNKNOWN]), f"no test moved the memory of a GPU, and {known}"


def count_gpus(evidence: Evidence) -> int | None:
    """How many; None where that was not read."""
    return read_or(lambda: len(Node(evidence).pairs.gpus), None)


def saved(source: Path) -> dict[str, Evidence]:
    """The evidence of an earlier run.

    :raises UsageError: there is none, or it tells of no test.
    """
    found = dict(read_saved(source))
    if not parse_exercise(found):
        raise UsageError(
            f"{source}: tells of no test", hint="it is the folder that exercise named as kept"
        )
    return found


FILE = "exercise.json"
_LOOKED = 200  # runs, newest first: more are not searched


def earlier(runs: Path, hosts: Sequence[str] = ()) -> Iterator[Earlier]:
    """Tests that came to a figure, newest run first.

    :param hosts: only those that one of these was part of; all for none.
    """
    for file in sorted(runs.glob(f"*/{FILE}"), reverse=True)[:_LOOKED]:
        try:
            told = read_json(file.read_text("utf-8"))
            for one in parse_kept(file.parent.name, told):
                if not hosts or any(part.host in hosts for part in one.same.parts):
                    yield one
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # another toolkit's, or cut off: it is no evidence, and nothing rests on it


_TOOL = "ib_write_bw"  # what is predicted of a pair is what an HCA writes into GPU memory
_UNIT = "GB/s"
_GPU = frozenset(each.value for each in Buffer if each.gpu)


def measured(runs: Path, hosts: Collection[str]) -> dict[str, tuple[MeasuredPair, ...]]:
    """By host, the newest figure of each GPU and HCA; a figure counts for both of its ends.

    Left out is what does not answer the prediction: latencies, shallow queues, other tools, host
    memory at either end, what fell back to another way, and what never left a node.
    """
    found: dict[str, dict[tuple[str, str], MeasuredPair]] = {}
    for one in earlier(runs):
        ends = _ends(one)
        for host, gpu, hca in ends if len({host for host, _, _ in ends}) == 2 else ():
            if host in hosts:
                tool = _TOOL + SIMULATED * one.simulated
                figure = MeasuredPair(gpu, hca, one.value, tool, one.when[:10])
                found.setdefault(host, {}).setdefault((gpu, hca), figure)
    return {host: tuple(each.values()) for host, each in found.items()}


def _ends(one: Earlier) -> list[tuple[str, str, str]]:
    """Host, GPU and HCA of both ends; none where this is no such figure."""
    test = one.same
    if test.tool != _TOOL or test.kind != Kind.DEEP or one.unit != _UNIT or one.fell_back:
        return []
    if any(part.buffer not in _GPU for part in test.parts):
        return []
    return [(part.host, part.gpu, part.hca) for part in test.parts]
