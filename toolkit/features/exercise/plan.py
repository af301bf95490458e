"""Which tests to run between two nodes, or within one; what is left out, and why."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import UsageError
from toolkit.facts.rdma.devices import Kind as DeviceKind
from toolkit.facts.rdma.exercise import Buffer, End, Kind, Role, Test
from toolkit.features.exercise.plan_rails import (
    ExerciseNode,
    Rail,
    absent,
    gpu_buffer,
    nearest_gpu,
    rails,
)

DEEP, SHALLOW, SMALL = (1 << 20, 128), (128 << 10, 1), (8, 1)
_ROUNDS = 1000  # of a latency test: its percentiles want some, and they take no time
_MOST_S = 60  # of one test
_COLLECTIVE = 128 << 20  # bytes of a collective's largest message
_FEWEST, _UNCOUNTED = 5, 3  # rounds; two to warm up and one to compare values
_UCX, _UCX_WARM = 8 << 20, 10  # bytes of a message that UCX sends by rendezvous; rounds before
# Soft-RoCE copies by the processor: few and small, for it is the way that is tried, not the speed.
_SOFT_SIZE, _SOFT_DEPTH, _SOFT_ROUNDS = 16 << 10, 4, 200
_HOST_TESTS = (
    ("ib_write_bw", Kind.DEEP),
    ("ib_write_bw", Kind.SHALLOW),
    ("ib_send_lat", Kind.LATENCY),
)
_GPU_TESTS = (
    ("ib_write_bw", Kind.DEEP),
    ("ib_read_bw", Kind.DEEP),
    ("ib_write_bw", Kind.SHALLOW),
    # Writes into GPU memory cannot be watched by a processor: sends, which it is told of, can.
    ("ib_send_lat", Kind.LATENCY),
)
PERFTEST = frozenset(tool for tool, _ in (*_HOST_TESTS, *_GPU_TESTS))


class ExerciseTerms(Struct, frozen=True):
    """How much may be moved."""

    seconds: int = 5  # of one test
    gigabytes: int = 500  # of one test, 10^9
    hca: str = ""  # RDMA device of the first host; "" for the best one
    every: bool = False  # every rail, in place of the best one


class Exercise(Struct, frozen=True):
    """What would be done."""

    tests: tuple[Test, ...]
    left_out: tuple[str, ...]  # each a sentence
    labels: tuple[str, ...]  # what such tests can show at all

    @property
    def seconds(self) -> int:
        """How long traffic flows at most."""
        return sum(test.seconds for test in self.tests)


def read_terms(seconds: int, gigabytes: int, hca: str, *, every: bool) -> ExerciseTerms:
    """:raises UsageError: for what is no bound."""
    if not 1 <= seconds <= _MOST_S:
        raise UsageError(
            f"--seconds {seconds}: a test lasts from 1 to {_MOST_S} seconds",
            hint="leave it out for the usual length",
        )
    if gigabytes < 1:
        raise UsageError(
            f"--gigabytes {gigabytes}: a test moves 1 at least",
            hint="leave it out for the usual size",
        )
    return ExerciseTerms(seconds, gigabytes, hca, every)


def plan_exercise(one: ExerciseNode, other: ExerciseNode, terms: ExerciseTerms) -> Exercise:
    """Decide on the tests.

    :param one: the node that connects.
    :param other: the one that listens; the same again for tests within one node.
    """
    left: list[str] = []
    views = (one,) if one.name == other.name else (one, other)
    left += [f"{view.name}: {absent(view)}" for view in views if absent(view)]
    found = rails(one, other, terms.hca)
    if not found:
        what = f"{terms.hca} of {one.name}" if terms.hca else f"the HCAs of {one.name}"
        left.append(f"no port of {other.name} goes with {what}: up, of one link layer, with a GID")
    tests: list[Test] = []
    for rail in found if terms.every else found[:1]:
        tests += _of_rail(one, other, rail, terms, left)
    for view in views:
        tests += _collectives(view, terms, left)
    numbered = tuple(replace(test, number=at) for at, test in enumerate(tests, start=1))
    return Exercise(numbered, tuple(dict.fromkeys(left)), _labels(numbered))


def plan_rail(
    one: ExerciseNode, other: ExerciseNode, rail: Rail, terms: ExerciseTerms, first: int
) -> Exercise:
    """The tests between one pair of ends, among many: what bears on the wire and on its ends.

    :param first: the number of the first test.
    """
    left: list[str] = []
    # Both ways with host memory, too: of two ends that meet once, either may be slow one way.
    both = (*_HOST_TESTS, ("ib_read_bw", Kind.DEEP))
    tests = _of_rail(one, other, rail, terms, left, host_tests=both)
    found = (test for test in tests if test.tool in PERFTEST)
    numbered = tuple(replace(test, number=at) for at, test in enumerate(found, start=first))
    return Exercise(numbered, tuple(e for e in dict.fromkeys(left) if "UCX" not in e), ())


def _labels(tests: tuple[Test, ...]) -> tuple[str, ...]:
    found = []
    if any(test.looped for test in tests):
        found.append(
            "loopback: one port talks to itself, so nothing is shown of cable, switch or fabric"
        )
    elif any(test.within and test.serve is not None for test in tests):
        found.append(
            "within one node: the counters tell whether the wire was used, nothing else does"
        )
    return tuple(found)


def _of_rail(
    one: ExerciseNode,
    other: ExerciseNode,
    rail: Rail,
    terms: ExerciseTerms,
    left: list[str],
    *,
    host_tests: tuple[tuple[str, Kind], ...] = (),
) -> Iterator[Test]:
    both = one.tools & other.tools
    lacking = [view.name for view in (one, other) if "ib_write_bw" not in view.tools]
    if lacking:
        left.append(f"perftest is not installed on {', '.join(dict.fromkeys(lacking))}")
    bound = Bound(one, terms)
    plain = (rail.drive, rail.serve)
    found = [bound.perftest(*each, plain) for each in host_tests or _HOST_TESTS]
    ends = (_with_gpu(one, rail.drive, left), _with_gpu(other, rail.serve, left))
    if any(end.buffer.gpu for end in ends):
        found += [bound.perftest(*each, ends) for each in _GPU_TESTS]
        if "ucx_perftest" not in both:
            left.append("UCX is not tried: ucx_perftest is not on both")
        drive, serve = (
            replace(end, buffer=Buffer.GPU if end.buffer.gpu else Buffer.HOST) for end in ends
        )
        turns = min(int(terms.gigabytes * 1e9) // _UCX - _UCX_WARM, 200 * terms.seconds)
        found.append(
            Test(0, "ucx_perftest", Kind.DEEP, _UCX, 1, terms.seconds, turns, drive, serve)
        )
    yield from (test for test in found if test.tool in both)


class Bound(Struct, frozen=True):
    """How far a test between two ends may go."""

    view: ExerciseNode  # the node that connects
    terms: ExerciseTerms

    def perftest(self, tool: str, kind: Kind, ends: tuple[End, End]) -> Test:
        size, depth = {Kind.DEEP: DEEP, Kind.SHALLOW: SHALLOW, Kind.LATENCY: SMALL}[kind]
        drive, serve = ends
        turns = _ROUNDS if kind is Kind.LATENCY else self._messages(drive, size)
        if any(
            each.kind is DeviceKind.SOFTWARE and each.name == drive.hca
            for each in self.view.node.rdma_devices
        ):
            size, depth, turns = min(size, _SOFT_SIZE), min(depth, _SOFT_DEPTH), _SOFT_ROUNDS
        return Test(0, tool, kind, size, depth, self.terms.seconds, turns, drive, serve)

    def _messages(self, end: End, size: int) -> int:
        """How many messages, where the time alone would allow too many; else 0."""
        device = next((e for e in self.view.node.rdma_devices if e.name == end.hca), None)
        rate = max((port.gbits for port in device.ports), default=0.0) if device else 0.0
        if rate and rate / 8 * self.terms.seconds <= self.terms.gigabytes:
            return 0
        return max(5, int(self.terms.gigabytes * 1e9) // size)  # perftest wants five


def _with_gpu(view: ExerciseNode, end: End, left: list[str]) -> End:
    """The same with the nearest GPU's memory; as it is where that cannot be reached."""
    buffer, why = gpu_buffer(view)
    pair = nearest_gpu(view, end.hca)
    if buffer is None or pair is None:
        left.append(f"{view.name}: GPU memory is not tried: {why or 'no GPU goes with that HCA'}")
        return end
    uuid = view.uuids.get(pair.gpu, "")
    if not uuid:
        left.append(
            f"{view.name}: GPU memory is not tried: nvidia-smi does not tell the UUID of {pair.gpu}"
        )
        return end
    return replace(end, buffer=buffer, gpu=pair.gpu, uuid=uuid)


def _collectives(view: ExerciseNode, terms: ExerciseTerms, left: list[str]) -> Iterator[Test]:
    """NCCL between the GPUs of one node, through its HCAs: with GPUDirect or not."""
    if "all_reduce_perf" not in view.tools:
        left.append(f"{view.name}: NCCL is not tried: nccl-tests are not installed")
        return
    uuids = view.uuids
    if len(uuids) < 2:
        left.append(f"{view.name}: NCCL is not tried: it has fewer than two GPUs")
        return
    end = End(view.name, "", buffer=Buffer.GPU, uuid=",".join(uuids.values()))
    # Of each size there are two series, and a GPU sends each message twice, near enough.
    most = int(terms.gigabytes * 1e9) // (4 * len(uuids))
    size = _COLLECTIVE
    while size * (_FEWEST + _UNCOUNTED) > most and size > 1:
        size //= 2
    turns = max(_FEWEST, min(20, most // size - _UNCOUNTED))
    yield Test(0, "all_reduce_perf", Kind.COLLECTIVE, size, 1, terms.seconds, turns, end)


def settings_of(test: Test, role: Role) -> tuple[str, ...]:
    """Variables of the tool's environment at one end."""
    end = dict(test.ends)[role]
    found = []
    if end.buffer.gpu:
        # The order of CUDA's own indices is its business: of one GPU the index is 0.
        found.append(f"CUDA_VISIBLE_DEVICES={end.uuid}")
    if test.tool == "ucx_perftest":
        found += [f"UCX_NET_DEVICES={end.hca}:{end.port}", "UCX_LOG_LEVEL=info", "UCX_PROTO_INFO=y"]
        # Else it would go by shared memory, or by CUDA between processes.
        found += ["UCX_TLS=rc,cuda_copy,gdr_copy"] if test.within else []
    if test.kind is Kind.COLLECTIVE:
        found += ["NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV"]
        found += ["NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"]  # else no HCA would be used
    return tuple(found)


def words_of(test: Test, role: Role) -> tuple[str, ...]:
    """The command of one end, as it would be typed; the port is added where it is known."""
    end = dict(test.ends)[role]
    if test.kind is Kind.COLLECTIVE:
        count = str(end.uuid.count(",") + 1)
        size = str(test.size)
        turns = str(test.iterations)
        return (test.tool, "-b", size, "-e", size, "-g", count, "-n", turns, "-w", "2")
    away = (test.serve.address,) if role is Role.DRIVE and test.serve is not None else ()
    if test.tool == "ucx_perftest":
        if role is Role.SERVE:
            return (test.tool,)
        memory = ",".join("cuda" if each.buffer.gpu else "host" for each in _order(test))
        asked = ("-t", "tag_bw", "-m", memory, "-s", str(test.size), "-n", str(test.iterations))
        return (test.tool, *asked, "-w", str(_UCX_WARM), *away)
    words = [test.tool, "-d", end.hca, "-i", str(end.port), "-F", "-s", str(test.size)]
    words += ["-x", str(end.gid)] if end.gid >= 0 else []
    words += ["-t", str(test.depth)] if test.kind is not Kind.LATENCY else []
    words += ["-n", str(test.iterations)] if test.iterations else ["-D", str(test.seconds)]
    words += ["--use_cuda=0"] if end.buffer.gpu else []
    words += ["--use_cuda_dmabuf"] if end.buffer is Buffer.DMABUF else []  # behind --use_cuda
    return (*words, *away)


def _order(test: Test) -> tuple[End, ...]:
    """The sender first."""
    return (test.drive, test.serve) if test.serve is not None else (test.drive,)


def limit_of(test: Test) -> int:
    """Seconds after which a tool is ended: its own time, what it adds at both ends, and CUDA's."""
    return 2 * test.seconds + 25
