"""The verb that tells what the paths of nodes can carry."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolkit.checks.check import Status
from toolkit.cli.options import HOSTS, REACH, SAVED, Option, Said
from toolkit.cli.verb import verb
from toolkit.compat.throughput import constants
from toolkit.errors import ExitCode, ToolkitError, UsageError, read_or, worst
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.predict.plan.jobs import JobState, JobVerdict, job_node, judge_job, judge_ras
from toolkit.features.predict.plan.quoted import quoted
from toolkit.features.predict.plan.totals import (
    NodeInputs,
    Prediction,
    Return,
    TrainingJob,
    gain,
    parse_parameters,
    predict_inputs,
    read_node,
)
from toolkit.features.predict.plan.what_if import WhatIf, parse_wishes, with_wishes
from toolkit.features.predict.show import (
    SCHEMA,
    as_json,
    job_json,
    job_text,
    quoted_json,
    quoted_text,
    return_json,
    return_text,
    state_json,
    text,
    wish_text,
)
from toolkit.package_data import program
from toolkit.report.document import Json, dumps
from toolkit.report.text import errors
from toolkit.throughput.inputs import Load
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.doctor import gather
from toolkit.verbs.saved import read_saved

if TYPE_CHECKING:  # imported where a job is named
    from toolkit.features.predict.read_jobs import JobsRead

_SIZE = {"": 0, "K": 10, "M": 20, "G": 30}
_CODES = {Status.FAIL: ExitCode.FAILED, Status.UNKNOWN: ExitCode.UNKNOWN}
_MOST = 1 << 40  # bytes of a message, messages of a queue: beyond it is a slip


class PredictRequest(Struct, frozen=True):
    """What the operator wants predicted, read before any node is reached."""

    load: Load
    wishes: tuple[WhatIf, ...]
    job: TrainingJob | None


class NodeForecast(Struct, frozen=True):
    """One node: as it is, and as it would be."""

    name: str
    now: Prediction
    wished: Prediction | None  # None where nothing was wished
    told: NodeInputs  # as wished, where something was
    addresses: frozenset[str]  # of its RoCE ports


@verb(
    HOSTS,
    REACH,
    SAVED,
    (
        Option("what_if", "", "wishes over what was read: acs=off,iommu=pt,link=gen5x16,mtu=4096"),
        Option("size", "1M", "bytes of a message: 4096, 64K, 1M"),
        Option("depth", 128, "messages in flight of one queue pair"),
        Option("nodes", "", "nodes of a job: what GPUDirect is worth to it; with --model-size"),
        Option("model_size", "", "its parameters: 70B"),
        Option("steps", 100_000, "its steps"),
        Option(
            "job", "", "hold against it what jobs did: NCCL Inspector's folder, nccl-tests, ncclras"
        ),
        Option("html", "", "draw both ways, and where the time goes, into this page", file=True),
        Option("all", False, "every GPU with every HCA, not only with the nearest"),
        Option("json", False, "one JSON document on standard output (docs/predict.schema.json)"),
    ),
)
def predict(said: Said) -> ExitCode:
    """Tell what the paths of nodes can carry: value, interval and limiting term. Moves no byte.

    For each GPU with its nearest HCA, and for the node: with GPUDirect, as an NCCL ring, and
    through host memory. What was not read widens the interval and is listed; exit 3 where a
    node tells of no pair at all. With --job each communicator is held against what its nodes carry:
    exit 2 where one falls short or NCCL's RAS has lost a rank, 3 where that is not known.

    Examples:
      invoke predict --hosts gpu007
      invoke predict --hosts gpu007 --what-if acs=off,iommu=pt
      invoke predict --from evidence/ --nodes 16 --model-size 70B
      invoke predict --hosts @rack1 --html rack1.html
      invoke predict --from evidence/ --job nccl-inspector-4711/
    """
    asked = _asked(said)
    read = _read_job(said)
    session = Session.begin("predict", said)
    found: list[NodeForecast] = []
    failures: list[tuple[str, ToolkitError]] = []
    for name, evidence in evidence_of(said):
        if isinstance(evidence, ToolkitError):
            failures.append((name, evidence))
        else:
            found.append(_forecast(name, evidence, asked))
    worth = _worth(found, asked)
    jobs = _judged(read, found)
    if said.text("html"):
        _draw(session, found, failures, worth, asked)
    if said.flag("json"):
        sys.stdout.write(dumps(_document(found, failures, worth, jobs)))
    else:
        _print(session, found, worth, asked)
        for each in jobs:
            session.say(job_text(each))
    for line in errors(failures, session.paint):
        session.say(line)
    dark = [ExitCode.UNKNOWN for each in found if not each.now.pairs]
    told = [_CODES[each.status] for each in jobs if each.status in _CODES]
    return worst([*dark, *told, *(why.exit_code for _, why in failures)])


def _asked(said: Said) -> PredictRequest:
    """:raises UsageError: for a size, a wish or a job that makes no sense."""
    size = re.fullmatch(r"(\d{1,13})([KMG]?)i?B?", said.text("size"), re.IGNORECASE)
    bytes_ = int(size[1]) << _SIZE[size[2].upper()] if size else 0
    if not 0 < bytes_ <= _MOST:
        raise UsageError(f"--size {said.text('size')!r} is no size of a message", hint="64K, 1M")
    depth = said.number("depth", 128)
    if not 0 < depth <= _MOST:
        raise UsageError(f"--depth {depth} is no number of messages", hint="1 and more")
    wishes = parse_wishes(said.text("what_if"))
    return PredictRequest(Load(bytes_, depth), wishes, _job(said))


def _read_job(said: Said) -> JobsRead | None:
    """:raises UsageError: where nothing of it is understood; no node has been asked then."""
    if not said.text("job"):
        return None
    from toolkit.features.predict.read_jobs import read_jobs  # noqa: PLC0415 only they pay for it

    return read_jobs(Path(said.text("job")))


def _judged(read: JobsRead | None, found: list[NodeForecast]) -> list[JobVerdict | JobState]:
    if read is None:
        return []
    c = constants()
    nodes = {each.name: job_node(each.told, each.wished or each.now, c) for each in found}
    names = {address: each.name for each in found for address in each.addresses}
    nothing = "at work, and nothing whole is written so far"
    return [
        *(judge_job(run, nodes, c) for run in read.runs),
        *(judge_ras(job, looks, names) for job, looks in read.looks.items()),
        *(JobState(job, Status.UNKNOWN, nothing) for job in read.begun),
    ]


def _job(said: Said) -> TrainingJob | None:
    if not said.text("nodes") and not said.text("model_size"):
        return None
    if not (said.text("nodes") and said.text("model_size")):
        raise UsageError(
            "a job is told by --nodes and --model-size together", hint="say both, or neither"
        )
    nodes, steps = said.number("nodes"), said.number("steps", 100_000)
    if nodes < 2 or steps < 1:
        raise UsageError("a job needs two nodes and one step at least", hint="--nodes 16")
    return TrainingJob(nodes, parse_parameters(said.text("model_size")), steps)


def _forecast(name: str, evidence: Evidence, asked: PredictRequest) -> NodeForecast:
    c, node = constants(), Node(evidence)
    inputs = read_node(node, c)
    now = predict_inputs(inputs, asked.load, c)
    ips = read_or(lambda: [gid.address.ipv4_mapped for gid in node.gids], [])
    addresses = frozenset(str(ip) for ip in ips if ip)
    if not asked.wishes:
        return NodeForecast(name, now, None, inputs, addresses)
    wished = with_wishes(inputs, asked.wishes)
    return NodeForecast(name, now, predict_inputs(wished, asked.load, c), wished, addresses)


def _worth(found: list[NodeForecast], asked: PredictRequest) -> Return | None:
    if asked.job is None:
        return None
    totals = tuple((each.name, (each.wished or each.now).total) for each in found)
    return gain(totals, asked.job, constants())


def _print(
    session: Session, found: list[NodeForecast], worth: Return | None, asked: PredictRequest
) -> None:
    words = ",".join(wish.said for wish in asked.wishes)
    for each in found:
        session.say(text(each.name, each.now, session.paint, whole=session.said.flag("all")))
        if each.wished is not None:
            session.say(wish_text(each.now, each.wished, words))
        session.say("")
    if worth is not None:
        session.say(f"{return_text(worth)}\n")
    elif asked.job is not None:
        session.say("what GPUDirect is worth: not told, for no node tells of a pair that carries\n")
    if any(each.now.pairs for each in found):
        session.say(quoted_text(quoted(constants())))


def _draw(
    session: Session,
    found: list[NodeForecast],
    failures: list[tuple[str, ToolkitError]],
    worth: Return | None,
    asked: PredictRequest,
) -> None:
    from toolkit.features.predict.page import Asked, Forecast, page  # noqa: PLC0415 only they pay for it

    said = session.said
    option, name = ("--from", "from_") if said.text("from_") else ("--hosts", "hosts")
    about = Asked(
        asked.load,
        f"{program()} {shlex.join(('predict', option, said.text(name)))}",
        ",".join(wish.said for wish in asked.wishes),
        worth,
        tuple(f"{host}: {why}" for host, why in failures),
    )
    nodes = [
        Forecast(each.name, each.told, each.wished or each.now, each.now if each.wished else None)
        for each in found
    ]
    if session.deliver("html", "".join(page(nodes, about, constants()))):
        session.remark(f"drawn in {said.text('html')}")


def _document(
    found: list[NodeForecast],
    failures: list[tuple[str, ToolkitError]],
    worth: Return | None,
    jobs: list[JobVerdict | JobState],
) -> dict[str, Json]:
    hosts: list[Json] = []
    for each in found:
        host = as_json(each.name, each.now)
        if each.wished is not None:
            host["wished"] = as_json(each.name, each.wished)
        hosts.append(host)
    return {
        "schema": SCHEMA,
        "hosts": hosts,
        "jobs": [job_json(each) for each in jobs if isinstance(each, JobVerdict)],
        "states": [state_json(each) for each in jobs if isinstance(each, JobState)],
        "cluster": return_json(worth) if worth is not None else None,
        "quoted": quoted_json(quoted(constants())),
        "errors": [{"name": name, "error": str(why), "hint": why.hint} for name, why in failures],
    }


def evidence_of(said: Said) -> Iterator[tuple[str, Evidence | ToolkitError]]:
    """Saved earlier, or asked now: each host's, or why there is none."""
    if said.text("from_"):
        yield from read_saved(Path(said.text("from_")))
        return
    with fleet(said) as opened:
        yield from gather(opened).items()
