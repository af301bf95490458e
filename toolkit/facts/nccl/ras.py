"""What NCCL's RAS (``ncclras``) says of a job that runs: its answer as text or JSON, its monitor.

Source: NVIDIA/nccl src/ras/client_support.cc, peers.cc and rasnet.cc, 2.24 to 2.30. Up to 2.25
missing ranks are numbers alone, and all collectives are counted together. JSON is there since
2.28.7; up to 2.28.9 it lacks a comma behind the nvml_dev of a missing rank. The monitor is there
since 2.29. Nodes are told by the address that NCCL's bootstrap uses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from toolkit.plural import counted
from toolkit.untrusted import Unreadable, read_json


class RasKind(StrEnum):
    DEAD = "considered dead"
    INCOMPLETE = "no answer"
    ERROR = "error"
    MISMATCH = "ranks differ"  # also of a job that is well: it moves on while it is asked


class RasRank(Struct, frozen=True):
    """A rank of a communicator, or a process."""

    host: str  # "172.16.64.210"; "" where not told
    pid: int
    gpu: str = ""  # CUDA's index: "5", "0,1", "0 (NVML 3)"
    rank: int | None = None  # None: the process itself

    @property
    def said(self) -> str:
        return f"process {self.pid}, GPU {self.gpu}" if self.rank is None else f"rank {self.rank}"


class RasTrouble(Struct, frozen=True):
    kind: RasKind
    communicator: str  # "0x27a079b828ff1a75"; "" of the job
    words: str
    who: tuple[RasRank, ...] = ()  # who stands out, as far as they are named


class RasLook(Struct, frozen=True):
    """One answer."""

    communicators: int
    ranks: int  # of the largest
    troubles: tuple[RasTrouble, ...]
    whole: bool = True  # else it was read while it was being written


_HEAD = re.compile(r"^NCCL version \S+ compiled with CUDA \S+$", re.M)
_EVENT = re.compile(r"^\[[\d-]{10} [\d:]{8}\] (PEER_\w+): (?:(Process .*)|(\S+<\d+>).*)$", re.M)
_JSON = ('"communicators_count"', '"event": "PEER_')


def is_ras(head: str) -> bool:
    """Whether the head of a text is of it."""
    told = any(mark in head for mark in _JSON)
    return told or bool(_HEAD.search(head) or _EVENT.search(head))


def read_ras(text: str) -> tuple[RasLook, ...]:
    """Every answer of a text, the oldest first; what the monitor told is one, as it was last."""
    looks: list[RasLook] = []
    events: dict[RasRank, str] = {}
    for part in re.split(r"^(?=\{|NCCL version \S+ compiled with|\[[\d-]{10} )", text, flags=re.M):
        if _HEAD.match(part):
            looks.append(_of_text(part))
        elif event := _EVENT.match(part):
            named = _PROCESS.match(event[2] or "")
            who = _process(named) if named else RasRank((event[3] or "").split("<")[0], -1)
            events[who] = event[1]
        elif part.startswith("{"):
            try:
                told = read_json(re.sub(r'("nvml_dev": \d+)(\s+"status")', r"\1,\2", part))
                if "event" in told:
                    events[_peer(told.get("peer", {}))] = str(told["event"])
                    continue
                every = told["communicators"]
                troubles = tuple(trouble for each in every for trouble in _of_communicator(each))
                most = max((int(each["size"]) for each in every), default=0)
                looks.append(RasLook(len(every), most, troubles))
            except (Unreadable, KeyError, TypeError, ValueError, OverflowError, AttributeError):
                looks.append(RasLook(0, 0, (), whole=False))
    if events:
        lost = [(who, _LOST[event]) for who, event in events.items() if event in _LOST]
        troubles = tuple(RasTrouble(kind, "", f"{kind}: {who.said}", (who,)) for who, kind in lost)
        looks.append(RasLook(0, 0, troubles))
    return tuple(looks)


# The last event of a process; one of another kind says that it is there, or about to be.
_LOST = {
    "PEER_DEAD": RasKind.DEAD,
    "PEER_TIMEOUT_DEAD": RasKind.DEAD,
    **dict.fromkeys(
        ("PEER_UNRESPONSIVE", "PEER_KEEPALIVE_TIMEOUT", "PEER_SEND_STUCK", "PEER_INIT_TIMEOUT"),
        RasKind.INCOMPLETE,
    ),
}
_GROUP = re.compile(r" *\d+ +(\d+) +\d+ +[\d-]+ +(\d+) +\d+ +([A-Z]+) +[A-Z,]+")
_TITLE = re.compile(r"(?:#\d+-\d+ \(([0-9a-f]{16})\) )?(INCOMPLETE|DEAD|ERROR|MISMATCH|TIMEOUT)")
_PROCESS = re.compile(r" *Process (\d+) on node (\S+) managing GPUs? ([\d,]+(?: \(NVML [\d,]+\))?)")
_RANK = re.compile(
    r" *Rank (\d+) (?:(.*) )?-- (?:GPU (.+) managed by process (\d+) on node (\S+)|\[.*)"
)


# Any: what somebody's JSON holds is looked at as it comes; whatever does not fit raises.
def _peer(told: Mapping[str, Any]) -> RasRank:
    where = str(told.get("host") or str(told.get("addr", "")).split("<")[0])
    return RasRank(where, int(told.get("pid", -1)), ",".join(map(str, told.get("cuda_devs", ()))))


def _process(found: re.Match[str]) -> RasRank:
    return RasRank(found[2], int(found[1]), found[3])


def _of_text(text: str) -> RasLook:
    """One answer: a table of groups of communicators, then what is wrong by title."""
    lines = text.split("\n")[:-1]  # the last one is cut, or empty
    groups = [each for each in map(_GROUP.fullmatch, lines) if each]
    found: list[tuple[str, str, list[str], list[RasRank]]] = []
    for line in lines:
        if title := _TITLE.fullmatch(line):
            found.append((title[2], f"0x{int(title[1], 16):x}" if title[1] else "", [], []))
        elif line.startswith("  ") and found:
            _, _, words, who = found[-1]
            if process := _PROCESS.match(line):
                who.append(_process(process))
            elif rank := _RANK.match(line):
                words += [f"rank {rank[1]} {rank[2]}"] if rank[2] else []
                pid = int(rank[4]) if rank[4] else -1
                who.append(RasRank(rank[5] or "", pid, rank[3] or "", int(rank[1])))
            else:
                words.append(line.strip())
    troubles = [
        RasTrouble(RasKind[kind], communicator, "; ".join(words), tuple(who))
        for kind, communicator, words, who in found
        if kind != "TIMEOUT"
    ]
    troubles += [
        RasTrouble(RasKind.ERROR, "", f"{each[1]} of {each[2]} ranks aborted")
        for each in groups
        if each[3] == "ABORT"
    ]
    whole = "Warnings" in lines or "No communicator data collected!" in lines
    most = max((int(each[2]) for each in groups), default=0)
    return RasLook(sum(int(each[1]) for each in groups), most, tuple(troubles), whole)


_RESULTS = (
    *("success", "unhandled CUDA error", "system error", "internal error", "invalid argument"),
    *("invalid usage", "remote process error"),
)
_FINE = frozenset({0, 7})  # ncclSuccess, ncclInProgress


def _of_communicator(told: Mapping[str, Any]) -> Iterator[RasTrouble]:
    """What the text would tell, from what each rank says."""
    communicator = str(told["hash"])
    ranks = {_rank(each): each for each in told["ranks"]}
    states = {who: _state(each["status"]) for who, each in ranks.items()}
    lost = {_rank(each): _lost(each["status"]) for each in told.get("missing_ranks", ())}
    states |= {who: "NOCOMM" for who, kind in lost.items() if kind is None}
    failed: dict[tuple[RasKind, str], list[RasRank]] = {}
    for who, kind in lost.items():
        if kind:
            failed.setdefault((kind, kind.value), []).append(who)
    for who, each in ranks.items():
        for words in _errors(each["status"]):
            failed.setdefault((RasKind.ERROR, words), []).append(who)
    for (kind, words), odd in failed.items():
        said = f"{words}: {counted(len(odd), 'rank')}"
        yield RasTrouble(kind, communicator, said, tuple(odd))
    yield from _unlike(communicator, "status", states)
    for name in dict.fromkeys(
        name for each in ranks.values() for name in each["collective_counts"]
    ):
        counts = {who: str(each["collective_counts"].get(name)) for who, each in ranks.items()}
        yield from _unlike(communicator, f"count of {name}", counts)


def _lost(status: Mapping[str, Any]) -> RasKind | None:
    """Of a rank that is missing; None where its process answers, and knows no such communicator."""
    if status["considered_dead"]:
        return RasKind.DEAD
    return RasKind.INCOMPLETE if status["unresponsive"] else None


def _errors(status: Mapping[str, Any]) -> Iterator[str]:
    for key, words in (("init_state", "initialization error"), ("async_error", "async error")):
        code = int(status[key])
        if code not in _FINE:
            name = _RESULTS[code] if 0 < code < len(_RESULTS) else f"result {code}"
            yield f"{words}, {name}"
    if status["abort_flag"]:
        yield "aborted"


def _rank(told: Mapping[str, Any]) -> RasRank:
    host, gpu = str(told["host"]), str(told["cuda_dev"])
    return RasRank("" if host == "unknown" else host, int(told["pid"]), gpu, int(told["rank"]))


def _state(status: Mapping[str, Any]) -> str:
    if status["abort_flag"]:
        return "ABORT"
    if status["finalize_called"] or status["destroy_flag"]:
        return "FINALIZE"
    return "RUNNING" if status["init_state"] == 0 else "INIT"


def _unlike(communicator: str, what: str, values: Mapping[RasRank, str]) -> Iterator[RasTrouble]:
    """Whether ranks differ; who is in a small part of them stands out, as RAS counts it."""
    parts = Counter(values.values()).most_common()
    if len(parts) < 2:
        return
    words = ", ".join(f"{value} on {counted(count, 'rank')}" for value, count in parts)
    odd = {value for value, count in parts if count == 1 or count * 4 <= len(values)}
    who = tuple(each for each, value in values.items() if value in odd)
    yield RasTrouble(RasKind.MISMATCH, communicator, f"{what}: {words}", who)
