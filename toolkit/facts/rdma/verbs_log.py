"""What programs say of calls of verbs that failed: UCX, NVSHMEM, and whoever tells the errno.

NCCL's logs and perftest's have readers of their own. Sources: openucx/ucx src/uct/ib/base/ib_md.c,
uct_ib_reg_mr and uct_ib_md_open_common, and src/uct/{cuda,rocm}/copy; ofiwg/libfabric src/log.c,
src/fabric.c and prov/efa/src/efa_mr.c; kvcache-ai/Mooncake rdma_endpoint.cpp; NVIDIA/nvshmem
src/include/non_abi/nvshmemx_error.h, src/host/transport/transport.cpp, src/modules/transport;
Linux Documentation of errno.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from toolkit.facts.kinds import VERBS_LINE


class Trouble(StrEnum):
    """What a program could not do."""

    NO_WAY = "found no way to register GPU memory"  # neither peer memory nor dma-buf
    LIBRARY = "the library knows no GPU"  # built without, or its modules are not found
    REGISTER = "memory could not be registered"
    CONNECT = "queue pairs could not be connected"
    QUEUES = "queues could not be set up"
    DEVICES = "no device was found"


class Errno(StrEnum):
    """What a program told of the reason, as far as it matters here."""

    FAULT = "Bad address"
    MEMORY = "Cannot allocate memory"
    RANGE = "Numerical result out of range"
    NONE = ""


class VerbsTrouble(Struct, frozen=True):
    """One line of a program."""

    trouble: Trouble
    words: str  # "NVSHMEM: ibv_modify_qp failed"
    errno: Errno = Errno.NONE

    @property
    def of_memory(self) -> bool:
        """Whether it is memory that was not taken, rather than the other end that is not there."""
        return self.trouble in {Trouble.NO_WAY, Trouble.LIBRARY, Trouble.REGISTER}


_TROUBLES = (
    # Without its copying transport, that is; gdr_copy and cuda_ipc it can do without.
    (
        Trouble.LIBRARY,
        r"\bUCX +WARN +transports? (?:'\w+',){0,9}'(?:cuda|rocm)(?:_c\w+)?'[^:]* not available",
    ),
    (Trouble.NO_WAY, r"neither nv_peer_mem,? (?:n?or) nvidia_peermem detected"),
    (Trouble.NO_WAY, r"Couldn't enable GPUDirect RDMA\b|\bdmabuf support requested but not found"),
    # Any program's, in a line that says where in its source it stands.
    (
        Trouble.NO_WAY,
        r"\.(?:cpp|cc|cu|c|h|py|rs|go):\d+\b.*\b(?:without|no|missing) nv\w*[_-]peer_?mem",
    ),
    (
        Trouble.NO_WAY,
        r"\.(?:cpp|cc|cu|c|h|py|rs|go):\d+\b.*\bnv\w*[_-]peer_?mem\w*.*\bnot (?:found|loaded"
        r"|available|detected)",
    ),
    (Trouble.REGISTER, r"\b(?:ibv_\w*reg\w*mr\w*|mlx5dv_reg\w*|fi_mr_reg\w*)\b.*\bfail"),
    (Trouble.REGISTER, r"\b[Ff]ail\w* to register (?:\w+ )?(?:memory|MR|mr)\b"),
    (Trouble.REGISTER, r"\bcannot register \w+ buf\b|\bUnable to register\b"),
    (Trouble.REGISTER, r"\b[Rr]egister\w*M(?:emory|[rR])\w* failed\b"),
    (
        Trouble.CONNECT,
        r"\bibv_modify_qp\w*\b.*\bfail|\bUnable to create ah\b|\bibv_create_ah\b.*fail"
        r"|\b[Ff]ail\w* to modify QP\b",
    ),
    (Trouble.CONNECT, r"\bconnect EPS failed\b|\bep_connect failed\b"),
    (Trouble.CONNECT, r"\bUCX +ERROR +tcp_ep .*\bfailed: |\bUCX +ERROR .*: Endpoint timeout"),
    (
        Trouble.QUEUES,
        r"\b(?:ibv_create_\w+|mlx5dv_\w+)\b.*\bfail|\bcannot allocate mlx5dv_\w+"
        r"|\bError in mlx5dv_\w+",
    ),
    (Trouble.QUEUES, r"\b[Ff]ail\w* to create (?:QP|CQ)\b|\binit failed for transport: \w+"),
    (Trouble.DEVICES, r"\bprovider efa (?:output empty list|returned -61\b)"),
)
_LINE = re.compile(VERBS_LINE)
_TROUBLE = tuple((trouble, re.compile(shape)) for trouble, shape in _TROUBLES)
# "FILE:FUNCTION:LINE: ", "FILE:LINE: non-zero status: 7 ", "HOST:PID:TID [0] F:L NVSHMEM WARN "
_NVSHMEM = re.compile(
    r".*?(?:nvshmem|/transport/ib\w+/)\S*\.(?:cpp|cc|cu|h)(?::\w+)?[: ]\d+:? "
    r"|.*?\bNVSHMEM (?:INFO|WARN|TRACE|ABORT) ",
    re.IGNORECASE,
)
_UCX = re.compile(r".*?\bUCX +(?:ERROR|DIAG|WARN) +")
_LIBFABRIC = re.compile(r".*?libfabric:\S*\(\):\d+<warn> ")
_CHAT = re.compile(
    r"\bUCX +(?:WARN|INFO|DEBUG|TRACE\w*|REQ|DATA|ASYNC|FUNC|POLL) +"
    r"|libfabric:\S*<(?:trace|info|debug)> "
)
_DETECTED = re.compile(
    r"\bUCX +DEBUG +([^\s:]+): (?:cuda GPUDirect RDMA is (?P<no>not (?=d)|(?=disabled))?"
    r"(?:detected by checking |enabled|disabled)"
    r"|(?P<dmabuf>(?:ibv_reg_dmabuf_mr\(.*, )?dmabuf is )(?P<no2>not )?supported)"
)
_SAID = (
    (
        Errno.FAULT,
        re.compile(r"Bad address|\bEFAULT\b|\berr(?:no|or|or_code)?\W{0,2}-?14\b|\[14\]"),
    ),
    (Errno.MEMORY, re.compile(r"Cannot allocate memory|\bENOMEM\b|\berr(?:no|or)?\W{0,2}-?12\b")),
    (Errno.RANGE, re.compile(r"Numerical result out of range|\bERANGE\b")),
)
_LONGEST = 2000  # of a line that is looked at
_SHOWN = 200


def parse_verbs_log(text: str) -> tuple[VerbsTrouble, ...]:
    """What failed by a log, each thing once, in the order logged."""
    lines = [line[:_LONGEST] for line in text.split("\n")]
    found = [each for each in map(_of_line, lines) if each is not None]
    # UCX says of these that it found neither a peer-memory module nor dma-buf.
    found += [
        VerbsTrouble(Trouble.NO_WAY, f"UCX: {device}: neither peer memory nor dma-buf detected")
        for device, ways in detected(text).items()
        if not ways
    ]
    return tuple(dict.fromkeys(found))


def detected(text: str) -> dict[str, set[str]]:
    """By HCA the ways to GPU memory that UCX found; an empty set where it looked for both in vain.

    Where it looked for one alone, and found none, nothing is told.
    """
    found: dict[str, tuple[set[str], set[str]]] = {}
    for each in filter(None, map(_DETECTED.search, text.split("\n"))):
        asked, there = found.setdefault(each[1], (set(), set()))
        way = "dma-buf" if each["dmabuf"] else "peer memory"
        asked.add(way)
        if each["no"] is None and each["no2"] is None:
            there.add(way)
    return {hca: there for hca, (asked, there) in found.items() if there or len(asked) > 1}


# ucp_worker.c, "NAME inter-node cfg#3 rma(rc_mlx5/mlx5_2:1) am(tcp/eth1) ka(tcp/eth1)": ka and cm
# keep a connection and carry no data.
_LANES = re.compile(r"\binter-node cfg#\d+ (.{1,2000})")
_LANE = re.compile(r"[\s(]([a-z]\w*)/")


def by_tcp(text: str) -> str:
    """UCX's lanes between nodes, where no configuration of them has another than TCP; else "".

    A connection begins by the lanes that both ends have for certain, and may change them.
    """
    chosen = [each[1] for each in _LANES.finditer(text)]
    data = [set(_LANE.findall(re.sub(r"\b(?:ka|cm)\([^)]*\)", "", each))) for each in chosen]
    return chosen[-1].strip() if chosen and all(each == {"tcp"} for each in data) else ""


def _of_line(line: str) -> VerbsTrouble | None:
    trouble = next((each for each, shape in _TROUBLE if shape.search(line)), None)
    chat = trouble is not Trouble.LIBRARY and _CHAT.search(line)
    if trouble is None or chat or not (_UCX.match(line) or _LINE.match(line)):
        return None
    who, words = "", line
    for name, before in (("UCX: ", _UCX), ("NVSHMEM: ", _NVSHMEM), ("libfabric: ", _LIBFABRIC)):
        if opened := before.match(line):
            who, words = name, line[opened.end() :]
            break
    return VerbsTrouble(trouble, who + " ".join(words.split())[:_SHOWN], errno_of(words))


def errno_of(words: str) -> Errno:
    return next((each for each, shape in _SAID if shape.search(words)), Errno.NONE)
