"""Does one HCA with its peer move what its port, and the path to the GPU, carry?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Finding, Status, failed, passed, unknown
from toolkit.checks.consumers.nccl_log import OF_STATUS
from toolkit.checks.gpu.gpu import NEVER, for_consumers
from toolkit.checks.traffic.ports import RATES, by_path, named, pairs_told, wire_told
from toolkit.checks.traffic.verdict import Goal, together, weigh
from toolkit.compat.throughput import constants
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pairs import NamedPair, PairSource
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.facts.rdma.perftest import Bandwidth, Memory, PerftestRun
from toolkit.facts.rdma.perftest_text import PerftestSaid, PerftestTrouble, Why
from toolkit.facts.rdma.ucx import UcxPerf
from toolkit.facts.rdma.verbs_log import Trouble
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import HcaWire, Load
from toolkit.throughput.ports import host_bandwidth, host_bound

_PATH = "nvidia-smi topo -m and lspci -vvv of that node, in the same paste"
_SHORT = (
    "the HCA's own link (pcie.link), cable and fabric, the other end's port; for GPU memory ACS"
)
_BY_HCA = "rc or dc by an HCA"
_NOT_BY_TCP = "UCX_TLS=rc,cuda_copy,gdr_copy and UCX_NET_DEVICES; see ucx.paths"
_SOFTWARE = ("rxe", "siw")
_NEAR = 0.96  # of a line's rate: headers take the rest at an MTU of 4096 bytes
_LARGE = 1 << 20  # bytes from which a library's own costs no longer count
_OF_STATUS = OF_STATUS | {
    10: "remote access error: the other end offered less memory; give both ends the same -s or -a"
}
_WAYS_OUT = {
    Trouble.CONNECT: "do the ports reach each other? their state, MTU and GIDs (rdma.port, "
    "roce.gid); NVSHMEM_IB_GID_INDEX of the job",
    Trouble.QUEUES: "may the job use them? /dev/infiniband and CAP_IPC_LOCK in its container; "
    "for IBGDA see nvshmem's checks",
    Trouble.DEVICES: "fi_info -p efa there; are the devices in the container (ctr.rdma_devices)?",
}


class _Measured(Struct, frozen=True):
    """One figure, whoever measured it."""

    value: float  # GB/s, one way
    device: str  # "" where not told
    load: Load
    gpu: bool  # whether GPU memory was used, as far as it says so
    cuda: str = ""  # "17:00": of the GPU; "" where not told
    link: str = ""
    mtu: int = 0
    ports: int = 1
    loop: bool = False
    depth_told: bool = True

    @property
    def shown(self) -> str:
        where = f" by {self.device}" if self.device else ""
        memory = "GPU memory" if self.gpu else "host memory, as far as it tells"
        loop = ", within one port" if self.loop else ""
        return f"{self.value:.1f} GB/s ({self.value * 8:.0f} Gb/s){where}, {memory}{loop}"


def judge(node: Node) -> Finding:
    """The check traffic.pair, where a measurement was given."""
    findings = [_of_perftest(node, each) for each in node.perftest_runs]
    if node.ucx_run is not None:
        findings.append(_of_ucx(node, node.ucx_run))
    if node.ucx_tcp:
        found = f"UCX goes by TCP between nodes: {node.ucx_tcp}"
        findings.append(failed(found, expected=_BY_HCA, hint=_NOT_BY_TCP))
    findings += [
        unknown(f"it ended amid: {each.words}", hint=_WAYS_OUT[each.trouble])
        for each in node.verbs_troubles
        if not each.of_memory
    ]
    return together(findings)


def _of_perftest(node: Node, said: PerftestSaid) -> Finding:
    run, trouble = said.run, said.trouble
    if trouble is not None and (run is None or trouble.why is Why.COMPLETION):
        return _broke_off(run, trouble, said.gpu_name)
    if run is None or not run.bandwidths:
        return unknown("a latency test: nothing of its bandwidth", hint="ib_write_bw -a, both ends")
    if run.memory is Memory.MANAGED:
        return unknown(
            "its buffer was managed memory, which an HCA reaches on the host",
            hint="--use_cuda=N without --cuda_mem_type",
        )
    return _judged(node, _measured(run, gpu=said.told_memory))


def _measured(run: PerftestRun, *, gpu: bool) -> _Measured:
    best = max(run.bandwidths, key=lambda each: each.average)
    load = Load(best.size, run.depth or Load().depth, run.qps or 1)
    return _Measured(
        best.average / (2 if run.bidirectional else 1),
        run.device,
        load,
        gpu,
        run.cuda,
        run.link,
        run.mtu,
        run.ports,
        run.loop,
        bool(run.depth),
    )


def _broke_off(run: PerftestRun | None, trouble: PerftestTrouble, gpu_name: str) -> Finding:
    rows: tuple[Bandwidth, ...] = run.bandwidths if run is not None else ()
    reached = max((each.average for each in rows), default=0.0)
    before = f"; {reached:.1f} GB/s before" if reached else ""
    if trouble.unregistered and for_consumers(gpu_name):
        expected = "a data-centre or professional GPU"
        return failed(f"{trouble}, of {gpu_name}", expected=expected, hint=NEVER)
    if trouble.unregistered:
        return failed(
            f"{trouble}",
            expected="GPU memory that the HCA can register",
            hint="see path.selected, and perftest.path for the tool",
        )
    hint = _OF_STATUS.get(trouble.completion, "run it again, both ends with the same options")
    return unknown(f"it ended amid: {trouble}{before}", hint=hint)


def _of_ucx(node: Node, run: UcxPerf) -> Finding:
    if run.tcp:
        return failed(
            f"{run.bandwidth:.1f} GB/s, and UCX went by TCP", expected=_BY_HCA, hint=_NOT_BY_TCP
        )
    if run.test and "bandwidth" not in run.test:
        return unknown(f"{run.test}: nothing of its bandwidth", hint="ucx_perftest -t tag_bw")
    if run.size and run.size < _LARGE:
        return unknown(
            f"messages of {run.size} bytes: the library's own costs limit",
            hint=f"ucx_perftest -s {_LARGE}, or more",
        )
    devices = [device for name, device in run.lanes if name.startswith(("rc", "dc", "ud"))]
    if run.lanes and not devices:
        ways = ", ".join(sorted({name for name, _ in run.lanes}))
        return unknown(
            f"{run.bandwidth:.1f} GB/s, and by no HCA: {ways}", hint="run its ends on two nodes"
        )
    gpu = any("cuda" in each for each in run.memory)
    size = max(run.size, _LARGE)
    device = devices[0] if devices else ""
    return _judged(node, _Measured(run.bandwidth, device, Load(size), gpu))


def _judged(node: Node, told: _Measured) -> Finding:
    if told.device.startswith(_SOFTWARE):
        return unknown(f"{told.shown}: its speed is the processor's", hint="use an HCA")
    device = named(node, told.device)
    if device is None and (rate := _line_rate(told)):
        return passed(f"{told.shown}: the line rate of a port of {rate} Gb/s")
    if device is None:
        return unknown(f"{told.shown}; the rate of its port is not told", hint=RATES)
    c = constants()
    wire = wire_told(node, device, c, told.link, told.mtu)
    if told.ports > 1:
        wire = replace(wire, gbits=wire.gbits * told.ports)
    goal = _goal(node, told, device, wire)
    finding = weigh(told.value, told.shown, goal, short=_SHORT)
    if told.loop and finding.status is Status.FAIL:
        why = "within one port both directions share its link"
        return unknown(f"{finding.found}: {why}", hint="measure between two nodes")
    return finding


def _line_rate(told: _Measured) -> int:
    """The rate that a transfer of GPU memory has reached as no accident does; 0 for none.

    Not of slower ports: PCI Express has bounds of its own about 100 Gb/s.
    """
    near = (rate for rate in (200, 400, 800) if _NEAR * rate <= told.value * 8 <= rate)
    return next(near, 0) if told.gpu and told.ports == 1 and not told.loop else 0


def _goal(node: Node, told: _Measured, device: RdmaDevice, wire: HcaWire) -> Goal:
    c = constants()
    bound = host_bound(node, device, c, [], wire)
    most = host_bandwidth(bound, told.load, c, [])
    ceiling = float("inf") if told.loop else bound.ceiling
    shallow = replace(told.load, depth=1)
    low = most if told.depth_told else host_bandwidth(bound, shallow, c, [])
    if not told.gpu:
        return Goal(low, most, ceiling, "" if told.depth_told else "the end that sent")
    ways = sorted(_by_path(node, told, device, wire), key=lambda each: each.value)
    if not ways:  # the farthest that there is
        far = [NamedPair("a GPU", device.name, Distance.SYS, PairSource.MATRIX)]
        ways = [*_predicted(node, far, told, wire), most]
    return Goal(ways[0] if told.depth_told else None, ways[-1], ceiling, _PATH)


def _by_path(node: Node, told: _Measured, device: RdmaDevice, wire: HcaWire) -> Iterator[Estimate]:
    """What each GPU that may be meant does with this HCA."""
    ours = [each for each in pairs_told(node) if each.hca in {device.name, device.address}]
    picked = [each for each in ours if told.cuda and told.cuda.lower() in each.gpu]
    yield from _predicted(node, picked or ours, told, wire)


def _predicted(
    node: Node, pairs: list[NamedPair], told: _Measured, wire: HcaWire
) -> Iterator[Estimate]:
    """Of both directions the slower."""
    for _, found in by_path(node, pairs, wire, told.load):
        yield min(found.with_gdr, found.read, key=lambda one: one.value)
