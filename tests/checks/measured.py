"""Measurements as their tools print them, in any version's form: drawn from the sources' formats.

linux-rdma/perftest src/perftest_parameters.h (RESULT_FMT, REPORT_FMT) and perftest_parameters.c;
NVIDIA/nccl-tests src/common.cu and src/util.cu; openucx/ucx src/tools/perf/perftest_run.c; NVIDIA's
guide to gdsio; infiniband-diags ibstat.c and ibstatus; rdma-core libibverbs/examples/devinfo.c.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

MIB, GIB = 1 << 20, 1 << 30
RULE = "-" * 87
UNITS = {"MB/sec": MIB / 1e9, "MiB/sec": MIB / 1e9, "Gb/sec": 1 / 8}
CLOCK = "Conflicting CPU frequency values detected: 1200.5 != 1251.3. CPU Frequency is not max."
CUDA = (
    "initializing CUDA\nListing all CUDA devices in system:\nCUDA device 0: PCIe address is 18:00\n"
    "\nPicking device No. 0\n[pid = 4711, dev = 0] device name = [NVIDIA H100 80GB HBM3]\n"
    "creating CUDA Ctx\nmaking it the current CUDA Ctx\n"
)
IN_GPU = "allocated GPU buffer of a 131072 address at 0x5594ca for type CUDA_MEM_DEVICE\n"


@dataclass(frozen=True, slots=True)
class Run:
    """One bandwidth as verbs measure it."""

    value: float  # GB/s, one way
    device: str = "mlx5_0"
    link: str = "IB"
    mtu: int = 4096
    size: int = 65536
    depth: int = 128
    qps: int = 1
    gpu: bool = False
    both_ways: bool = False


def perftest(run: Run, draw: Random | None = None) -> str:
    """What the end that sends prints."""
    draw = draw or Random(0)  # noqa: S311 # of no secret
    unit = draw.choice(list(UNITS))
    gap = draw.choice(("\t\t", "          "))
    margin = draw.choice((" ", "", " "))
    told = [
        f"Dual-port       : OFF{gap}Device         : {run.device}",
        f"Number of qps   : {run.qps}{gap}Transport type : IB",
        f"Connection type : RC{gap}Using SRQ      : OFF",
        *draw.choice(((), (f"PCIe relax order: ON{gap}Lock-free      : OFF",))),
        f"ibv_wr* API     : ON{draw.choice(('', f'{gap}Using DDP      : OFF'))}",
        f"TX depth        : {run.depth}",
        "CQ Moderation   : 1",
        f"Mtu             : {run.mtu}[B]",
        f"Link type       : {run.link}",
        "rdma_cm QPs     : OFF",
        "Data ex. method : Ethernet",
    ]
    ways = "Bidirectional " if run.both_ways else ""
    title = f"{' ' * 20}{draw.choice(('RDMA_Write', 'RDMA_Read', 'Send'))} {ways}BW Test"
    ends = [
        "local address: LID 0x01 QPN 0x0084 PSN 0xac1 RKey 0x1 VAddr 0x1",
        "remote address: LID 0x02 QPN 0x0084 PSN 0xac2 RKey 0x2 VAddr 0x2",
    ]
    lines = [
        RULE,
        title,
        *(margin + each for each in told),
        RULE,
        *(margin + e for e in ends),
        RULE,
    ]
    head, rows = _table(run, unit, draw)
    noise = draw.choice(((), (CLOCK,)))
    body = [margin + head, *noise, *(margin + each for each in rows), RULE]
    return (CUDA + IN_GPU if run.gpu else "") + "\n".join([*lines, *body]) + "\n"


def _table(run: Run, unit: str, draw: Random) -> tuple[str, list[str]]:
    """Its head and rows: one size, or all up to it, of which the last has the bandwidth."""
    lanes, used = draw.choice((True, False)), draw.choice((True, False))
    columns = ["#bytes", *(["#sl"] if lanes else []), "#iterations"]
    columns += [f"BW peak[{unit}]", f"BW average[{unit}]", "MsgRate[Mpps]"]
    columns += ["CPU_Util[%]"] if used else []
    sizes = [size for at in range(draw.choice((1, 8))) if (size := run.size >> at)][::-1]
    rows = []
    for size in sizes:
        moved = run.value * (2 if run.both_ways else 1) * (size / run.size) ** 0.3
        average = moved / UNITS[unit]
        lane = ["3"] if lanes else []
        words = [str(size), *lane, "5000", f"{average * 1.01:.2f}", f"{average:.2f}"]
        words += [f"{moved * 1e3 / size:.6f}", *(["0.52"] if used else [])]
        rows.append("    ".join(f"{each:<7}" for each in words))
    return "    ".join(columns), rows


def perftest_json(run: Run, draw: Random) -> str:
    """What --out_json writes, which names no unit."""
    moved = run.value * (2 if run.both_ways else 1)
    average = moved / draw.choice(list(UNITS.values()))
    cuda = '"cuda_device": 0,\n' if run.gpu else ""
    ways = "Bidirectional_" if run.both_ways else ""
    return (
        f'{{\n"test_info": {{\n"test": "RDMA_Write_{ways}BW_Test",\n"Dual_port": "OFF",\n'
        f'"Device": "{run.device}",\n"Number_of_qps": {run.qps},\n"TX_depth": {run.depth},\n'
        f'"Mtu": {run.mtu},\n"Link_type": "{run.link}",\n{cuda}"Data_ex_method": "Ethernet"\n}},\n'
        f'"results": {{\n"MsgSize": {run.size},\n{draw.choice(("", "sl: 3," + chr(10)))}'
        f'"n_iterations": 5000,\n"BW_peak": {average:.2f},\n"BW_average": {average:.2f},\n'
        f'"MsgRate": {moved * 1e3 / run.size:.6f}\n}}\n}}\n'
    )


@dataclass(frozen=True, slots=True)
class Job:
    """One collective."""

    bus: float  # GB/s of the largest message
    test: str = "all_reduce"
    nodes: int = 2
    gpus: int = 8  # of a node
    wrong: int = 0
    size: int = 8 * GIB


def _job_rows(job: Job) -> list[tuple[int, float]]:
    """Sizes with their bus bandwidth; the last two are at the plateau."""
    shares = (0.01, 0.05, 0.4, 0.99, 1.0)
    return [(job.size >> (4 - at), job.bus * share) for at, share in enumerate(shares)]


def nccl_tests(job: Job, draw: Random | None = None) -> str:
    draw = draw or Random(0)  # noqa: S311 # of no secret
    form = draw.choice(("new", "new", "unchecked", "error", "iterations", "stamped"))
    redop = "sum" if "reduce" in job.test else "none"
    last = "error" if form == "error" else "#wrong"
    each = [
        "time",
        "algbw",
        "busbw",
        last,
        *(["i_min", "i_max", "i_p99", "i_cv%"] * (form == "iterations")),
    ]
    lines = [
        *draw.choice(((), (f"# Collective test starting: {job.test}_perf",))),
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
        *(_rank(job, rank, draw) for rank in range(job.nodes * job.gpus)),
        *draw.choice(((), ("NCCL version 2.27.3+cuda12.8",))),
        "#",
        "#                                  out-of-place                       in-place",
        f"#       size  count  type  redop  root  {'  '.join(each + each)}",
        "#        (B)    (elements)    (us)  (GB/s)  (GB/s)    (us)  (GB/s)  (GB/s)",
    ]
    for size, bus in _job_rows(job):
        lines += [_job_row(job, size, bus, form, redop)]
    average = sum(bus for _, bus in _job_rows(job)) / 5
    lines += [f"# Out of bounds values : {job.wrong} {'FAILED' if job.wrong else 'OK'}"]
    lines += [f"# Avg bus bandwidth    : {average:g} ", "#"]
    lines += [f"# Collective test concluded: {job.test}_perf"]
    before = draw.choice(("", "", "[1,0]<stdout>:", "[1,0]<stdout>: ", "0: "))
    return "".join(f"{before}{line}\n" for line in lines)


def _rank(job: Job, rank: int, draw: Random) -> str:
    host, device = f"gpu{rank // job.gpus:02d}", rank % job.gpus
    group = draw.choice(("Group  0 ", ""))
    bus = f"0000:{0x18 + device:02x}:00"
    return (
        f"#  Rank {rank:2d} {group}Pid {4711 + rank} on {host} device {device:2d} [{bus}] NVIDIA X"
    )


def _job_row(job: Job, size: int, bus: float, form: str, redop: str) -> str:
    count = {"unchecked": "N/A", "error": "4e-07"}.get(form, str(job.wrong))
    halves = []
    for share in (1.0, 0.99):
        half = [f"{size / 1e3:.1f}", f"{bus * share / 1.875:.2f}", f"{bus * share:.2f}", count]
        halves += [*half, *(["1.0", "9.0", "8.0", "4.2"] * (form == "iterations"))]
    stamp = " 2026-11-21 10:11:12" if form == "stamped" else ""
    return f"{size:12d}  {size // 4:12d}     float  {redop:>6}      -1  {'  '.join(halves)}{stamp}"


def nccl_json(job: Job) -> str:
    """What -J writes."""
    redop = "sum" if "reduce" in job.test else "none"
    results = [
        {"size": size, "count": size // 4, "type": "float", "redop": redop, "root": "-1"}
        | {way: {"time": 1.0, "alg_bw": bus, "bus_bw": bus, "nwrong": job.wrong} for way in WAYS}
        for size, bus in _job_rows(job)
    ]
    devices = [
        {"rank": rank, "group": 0, "pid": 1, "hostname": f"gpu{rank // job.gpus:02d}", "device": 0}
        for rank in range(job.nodes * job.gpus)
    ]
    told = {
        "version": 1,
        "args": [f"./build/{job.test}_perf", "-J", "out"],
        "config": {"devices": devices},
        "results": results,
        "out_of_bounds": {"count": job.wrong, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 1.0, "okay": "unchecked"},
    }
    return json.dumps(told)


WAYS = ("out_of_place", "in_place")


def ucx(value: float, draw: Random | None = None, *, size: int = 8 * MIB, cuda: bool = True) -> str:
    draw = draw or Random(0)  # noqa: S311 # of no secret
    rate = value * 1e9 / MIB
    memory = "cuda" if cuda else "host"
    asked = (
        f"| API:          protocol layer{' ' * 40}|\n| Test:         tag match bandwidth        |\n"
        f"| Data layout:  (automatic)        |\n| Send memory:  {memory}       |\n"
        f"| Recv memory:  {memory}       |\n| Message size: {size}          |\n"
    )
    table = (
        "+--------------+-----------------------------+---------------------+------------------+\n"
        "|              |       overhead (usec)       |   bandwidth (MB/s)  |  "
        "message rate (msg/s) |\n"
        "+--------------+---------+---------+---------+----------+----------+-----------+------+\n"
    )
    time = size / value / 1e3
    times, rates = f"{time:10.3f} {time:9.3f} {time:9.3f}", f"{rate:11.2f} {rate:10.2f}"
    numbers = f"{1000:18d} {times} {rates} {99:11d} {99:11d}"
    form = draw.choice(("final", "plain", "grouped", "named", "threads"))
    last = {
        "final": f"Final:    {numbers}",
        "plain": numbers,
        "grouped": f"Final:    {numbers.replace('1000', chr(39).join(('1', '000')), 1)}",
        "named": f"tag_bw {numbers}",
        "threads": f"Final:    {1000:18d} {time:29.3f} {rate:22.2f} {99:23d}",
    }[form]
    early = "" if form in {"threads", "named"} else numbers.replace("1000", " 500", 1) + "\n"
    return f"{asked}{table}{early}{last}\n"


def gdsio(value: float, way: str, draw: Random | None = None, operation: str = "READ") -> str:
    draw = draw or Random(0)  # noqa: S311 # of no secret
    gap = draw.choice((" ", "\n"))
    return (
        f"IoType: {operation} XferType: {way} Threads: 8 DataSetSize: 838860/838860(KiB) "
        f"IOSize: {draw.choice(('1024(KiB)',))}{gap}Throughput: {value * 1e9 / GIB:.6f} GiB/sec, "
        f"Avg_Latency: 619.42 usecs ops: 8192 total_time 0.619 secs\n"
    )


def ports(gbits: int, names: tuple[str, ...], layer: str, draw: Random | None = None) -> str:
    """Ports that are up, as one of three tools lists them."""
    form = (draw or Random(0)).choice((_ibstat, _ibstatus, _ibstat))  # noqa: S311 # of no secret
    return "".join(form(gbits, name, layer) for name in names)


def nccl_speeds(gbits: int, names: tuple[str, ...]) -> str:
    """The same in NCCL's own words, src/transport/net_ib."""
    return "".join(
        f"gpu00:1:1 [0] NCCL INFO NET/IB: [{at}] {name}:uverbs{at}:1/IB provider=Mlx5 "
        f"speed={gbits * 1000} context=0x55\n"
        for at, name in enumerate(names)
    )


def _ibstat(gbits: int, name: str, layer: str) -> str:
    return (
        f"CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.3004\n"
        f"\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {gbits}\n"
        f"\t\tBase lid: 1\n\t\tLink layer: {layer}\n"
    )


def _ibstatus(gbits: int, name: str, layer: str) -> str:
    return (
        f"Infiniband device '{name}' port 1 status:\n\tdefault gid:\t fe80::1\n\tbase lid:\t 0x1\n"
        f"\tsm lid:\t\t 0x1\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n"
        f"\trate:\t\t {gbits} Gb/sec (4X)\n\tlink_layer:\t {layer}\n\n"
    )
