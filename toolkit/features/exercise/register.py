"""Which HCA takes the memory of which GPU, of many nodes: tried, judged, and shown as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from toolkit.checks.check import Status, Verdict
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.consumers.path import dmabuf_nic
from toolkit.checks.rdma.registration import by_dmabuf, by_peermem
from toolkit.errors import ExitCode, NoEvidence, Outcome, Unparsable, worst
from toolkit.evidence import INSIDE, Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.registration import (
    BY_PCIE,
    DATA_DIRECT,
    DMABUF,
    MAPPED,
    PEERMEM,
    Registration,
    cause,
)
from toolkit.groups import Wants
from toolkit.hosts.host import fold
from toolkit.report.document import Json, picked
from toolkit.report.table import columns, wrapped
from toolkit.report.text import verdict_text
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.reading import read_each
from toolkit.want import Want

SCHEMA = "gdr-toolkit/register/1"
_LETTERS = {DMABUF: "d", MAPPED: "v", BY_PCIE: "b", DATA_DIRECT: "x", PEERMEM: "p"}
_LEGEND = (
    "d dma-buf of cuMemAlloc, v of cuMemCreate, b by PCIe mapping, x data-direct, p peermem; "
    ". refused, ? not tried"
)
_CHECKS = (dmabuf_nic, by_dmabuf, by_peermem)


class RegisterTrial(Struct, frozen=True):
    """What came of one node."""

    host: str
    registration: Registration | None
    why: str  # why there is none; "" where there is one
    verdicts: tuple[Verdict, ...]
    inside: str = ""  # the container that was asked, such as "podman train"; "" for the node

    @property
    def code(self) -> ExitCode:
        """A node of which no check could be judged has not been shown to be well."""
        said = {each.status for each in self.verdicts}
        if Status.FAIL in said:
            return ExitCode.FAILED
        if Status.UNKNOWN in said or Status.PASS not in said:
            return ExitCode.UNKNOWN
        return ExitCode.OK


def register(fleet: Fleet, wants: Wants, folder: RunFolder) -> list[Outcome[RegisterTrial]]:
    """Try it on every node, at once; the evidence goes into the run's folder."""
    return read_each(
        fleet, folder, lambda name, found: judged(name, found, wants.of(name)), title="registering"
    )


def judged(host: str, evidence: Evidence, want: Want) -> RegisterTrial:
    """Judge what the evidence tells of a registration."""
    node = Node(evidence)
    tried, why = None, ""
    try:
        tried = node.fresh().registration
        why = "" if tried else "it has no registration: exercise --register makes one"
    except (NoEvidence, Unparsable) as open_:
        why = str(open_)
    taking = taken(node.fresh(), want)
    entered = evidence.frames.get(INSIDE)
    verdicts = tuple(each(node, taking) for each in _CHECKS)
    return RegisterTrial(host, tried, why, verdicts, entered.source if entered else "")


def code_of(outcomes: Iterable[Outcome[RegisterTrial]]) -> ExitCode:
    """The worst of all hosts."""
    return worst([each.error.exit_code if each.error else each.get().code for each in outcomes])


def table_lines(outcomes: Sequence[Outcome[RegisterTrial]]) -> list[str]:
    """A table of HCAs by GPUs, and below it what is not well; once for all hosts alike."""
    alike: dict[tuple[str, ...], list[Outcome[RegisterTrial]]] = {}
    for each in outcomes:
        key = (str(each.error),) if each.error else tuple(_host_lines("", each.get()))
        alike.setdefault(key, []).append(each)
    lines: list[str] = []
    for hosts in alike.values():
        name, first = fold(each.host for each in hosts), hosts[0]
        lines += [f"{name}: {first.error}"] if first.error else _host_lines(name, first.get())
        lines.append("")
    return [*lines, *wrapped(_LEGEND)]


def _host_lines(host: str, tried: RegisterTrial) -> Iterator[str]:
    told = tried.registration
    host = f"{host} in {tried.inside}" if tried.inside else host
    if told is None:
        yield f"{host}: {tried.why}"
        return
    yield from wrapped(f"{host}: {', '.join(_libraries(told))}", rest="  ")
    gpus = told.every_gpu()
    head = ("", "HCA", "asked", *(gpu.removeprefix("0000:") for gpu in gpus), "")
    rows = [
        ("", name, asked.public, *(_cell(told, gpu, name) for gpu in gpus), "")
        for name, asked in told.hcas.items()
    ]
    yield from columns([head, *rows]) if rows else ()
    for name, why in told.left.items():
        yield from wrapped(f"{name}: {why}", first="  ", rest="    ")
    for verdict in tried.verdicts:
        if verdict.status in {Status.FAIL, Status.UNKNOWN}:
            yield verdict_text(host, verdict)


def _libraries(told: Registration) -> Iterator[str]:
    for name in ("libibverbs", "libcuda"):
        file = told.libraries.get(name, name)
        yield f"{name}: {told.missing[name]}" if name in told.missing else file


def _cell(told: Registration, gpu: str, hca: str) -> str:
    said = told.of(gpu, hca)
    tried = {way: said.get(way) == "ok" for way in _LETTERS if way in said} | {
        way: False for each, way in told.unexported if each == gpu and way in _LETTERS
    }
    return "".join(_LETTERS[way] if tried[way] else "." for way in _LETTERS if way in tried) or "?"


def register_document(
    outcomes: Sequence[Outcome[RegisterTrial]], code: ExitCode, now: datetime
) -> dict[str, Json]:
    """The whole document (docs/register.schema.json).

    :param now: when it was asked, of a time zone.
    """
    hosts: list[Json] = [
        {"host": each.host, "error": str(each.error)} if each.error else _document(each.get())
        for each in outcomes
    ]
    time = now.isoformat(timespec="seconds")
    return {"schema": SCHEMA, "time": time, "exit_code": int(code), "hosts": hosts}


def _document(tried: RegisterTrial) -> dict[str, Json]:
    verdicts: list[Json] = [
        picked(each, "check=check.id status finding.found") for each in tried.verdicts
    ]
    told = tried.registration
    asked: dict[str, Json] = {"host": tried.host}
    if tried.inside:
        asked["inside"] = tried.inside
    if told is None:
        return {**asked, "error": tried.why, "verdicts": verdicts}
    hcas: list[Json] = [
        {"name": name, **picked(each, "public kernel able why=why_not")}
        for name, each in told.hcas.items()
    ]
    pairs: list[Json] = [
        {
            **picked(each, "gpu hca way said"),
            "cause": "" if each.taken else cause(each.way, each.said, told.memlock),
        }
        for each in told.pairs
    ]
    unexported: list[Json] = [
        {"gpu": gpu, "way": way, "why": why} for (gpu, way), why in told.unexported.items()
    ]
    return {
        **asked,
        **picked(told, "libraries missing memlock whole"),
        "hcas": hcas,
        **picked(told, "left"),
        "unexported": unexported,
        "pairs": pairs,
        "verdicts": verdicts,
    }
