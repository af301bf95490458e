"""What the paths of nodes can carry, as text for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.compat.throughput import Range
from toolkit.features.predict.plan.jobs import JobState, JobVerdict
from toolkit.features.predict.plan.quoted import Quoted
from toolkit.features.predict.plan.totals import NodeTotal, Prediction, Return, model_size
from toolkit.plural import and_more, figure, first_of
from toolkit.report.document import Json, picked
from toolkit.report.table import Ink, Painter, clean, columns, wrapped
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.pair import PairPrediction

SCHEMA = "gdr-toolkit/predict/1"
_HEAD = ("GPU", "HCA", "path", "with GPUDirect, GB/s", "NCCL ring", "without")


def text(host: str, found: Prediction, paint: Painter, *, whole: bool) -> str:
    """One node.

    :param whole: every GPU with every HCA, not only with its nearest.
    """
    source = f"read from: {found.source}" if found.source else ""
    if not found.pairs:
        source = f"no pair of GPU and HCA is told{f'; {source}' if source else ''}"
    lines = [paint(clean(f"{host}  {source}"), Ink.BOLD)]
    pairs = found.pairs if whole else found.nearest
    lines += _pairs(pairs, paint)
    if (total := found.total) is not None:
        blocked = any(each.blocked for each in found.nearest)
        once, now = (" once GPUDirect works", ", as now") if blocked else ("", "")
        lines += ["", *_wrapped(f"node, ring bound{once}: {total.with_gdr.said}", "")]
        lines += _wrapped(f"node, without{now}:    {total.without_gdr.said}", "")
        latency = pairs[0].latency  # of the first pair: they differ by path alone
        words = "; ".join(f"{each.layer} {each.figure}" for each in latency)
        lines += _wrapped(f"latency of {latency.size} B: {words}", "")
    lines += [line for note in found.notes for line in _wrapped(f"note: {note}", "")]
    return "\n".join(lines)


def _pairs(pairs: tuple[PairPrediction, ...], paint: Painter) -> Iterator[str]:
    """A row for each pair; those that differ in nothing but their names share one."""
    if not pairs:
        return
    groups = alike(pairs)
    rows: list[tuple[str, ...]] = [_HEAD]
    for first, *more in groups:
        name = first.name + and_more(len(more))
        figures = map(short, (first.with_gdr, first.collective, first.without_gdr))
        rows.append((clean(first.gpu), clean(name), first.distance.shown, *figures))
    head, *body = columns(rows)
    yield head
    before = ""
    for (first, *_), line in zip(groups, body, strict=True):
        yield line
        limits = why(first)
        if limits != before:
            yield from _wrapped(limits, "    ")
        before = limits
        if first.blocked:
            words = f"now without: {first.blocked}"
            yield from (paint(row, Ink.RED) for row in _wrapped(words, "    "))


def alike(pairs: tuple[PairPrediction, ...]) -> list[list[PairPrediction]]:
    """Those that differ in nothing but their names, together."""
    groups: dict[tuple[str, ...], list[PairPrediction]] = {}
    for each in pairs:
        figures = map(short, (each.with_gdr, each.collective, each.without_gdr))
        key = (each.distance.shown, *figures, why(each), each.blocked)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def why(each: PairPrediction) -> str:
    """What limits, each thing named once."""
    words = [f"limited by {each.with_gdr.limit}"]
    if each.read.value < 0.95 * each.with_gdr.value:
        words.append(f"reads of GPU memory {short(each.read)} by {each.read.limit}")
    if each.collective.limit not in {each.with_gdr.limit, each.read.limit}:
        words.append(f"ring by {each.collective.limit}")
    return "; ".join(words)


def short(found: Estimate) -> str:
    return found.figure.replace(f" {found.unit}", "")


def _wrapped(words: str, indent: str) -> list[str]:
    return wrapped(words, first=indent, rest=indent + "  ")


def quoted_text(rows: tuple[Quoted, ...]) -> str:
    """The figures that people quote, with where they belong."""
    lines = ["figures that are quoted, and the layer of each:"]
    for each in rows:
        lines += _wrapped(f"{each.figure:<8} {each.layer}: {each.say}", "  ")
    return "\n".join(lines)


def wish_text(before: Prediction, after: Prediction, words: str) -> str:
    """What the wishes would buy, pair by pair and for the node, and what limits then."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for old, new in zip(before.nearest, after.nearest, strict=False):
        direct, ring = _change(old.now, new.now), _change(_ring(old), _ring(new))
        alike.setdefault((*direct, *ring, _then(new)), []).append(f"{old.gpu} {old.name}")
    rows = [("GB/s", "as it stands", "then", "NCCL ring", "then")]
    for (a, b, d, e, _), names in alike.items():
        rows.append((first_of(names), a, b, d, e))
    if before.total and after.total:
        rows.append(
            ("node", "", "", *_change(_node(before, before.total), _node(after, after.total)))
        )
    limits = dict.fromkeys(f"then {key[-1]}" for key in alike)
    head = f"what if {words}: now, and then"
    shown = columns([tuple(map(clean, row)) for row in rows])
    return "\n".join(
        [clean(head), *shown, *(row for each in limits for row in _wrapped(each, "    "))]
    )


def _then(each: PairPrediction) -> str:
    if each.blocked:
        return f"limited by {each.now.limit}; still without GPUDirect: {each.blocked}"
    return why(each)


def _ring(each: PairPrediction) -> Estimate:
    """What a ring does as it stands."""
    return each.without_gdr if each.blocked else each.collective


def _node(found: Prediction, total: NodeTotal) -> Estimate:
    """All HCAs as they stand: one pair without GPUDirect bounds the ring of all."""
    blocked = any(each.blocked for each in found.nearest)
    return total.without_gdr if blocked else total.with_gdr


def _change(old: Estimate, new: Estimate) -> tuple[str, str]:
    gain = "" if old.open or new.open else _gain(old.value, new.value)
    return short(old), f"{short(new)} {gain}".rstrip()


def _gain(old: float, new: float) -> str:
    if not old:
        return "new" if new else "="
    share = new / old - 1
    return "=" if abs(share) < 0.005 else f"{share:+.0%}"


def return_text(found: Return) -> str:
    """The cluster's return on GPUDirect, with what it takes for granted."""
    head, *rows = return_rows(found)
    lines = [
        f"{job_words(found)}:",
        *columns([head, *((f"  {name}", *times) for name, *times in rows)]),
    ]
    lines += [
        line for each in found.assumptions for line in _wrapped(f"taken for granted: {each}", "  ")
    ]
    return "\n".join(lines)


def job_words(found: Return) -> str:
    job = found.job
    size = model_size(job.parameters)
    return f"all-reduce of {size} parameters over {job.nodes} nodes, {job.steps} steps"


def return_rows(found: Return) -> list[tuple[str, ...]]:
    """Of a step and of a run, with a head."""
    fast, slow = found.hours
    return [
        ("", "a step, s", "a run, hours"),
        ("with GPUDirect", *_times(found, found.with_gdr, fast)),
        ("without", *_times(found, found.without_gdr, slow)),
        ("saved at most", "", *_times(found, found.saved)),
    ]


def _times(found: Return, *spans: Range) -> tuple[str, ...]:
    return tuple(_seconds(each, shown=not found.open) for each in spans)


def _seconds(span: Range, *, shown: bool) -> str:
    """:param shown: the value as well, not only what it may be."""
    bounds = f"{figure(span.low)}-{figure(span.high)}"
    return f"{figure(span.value)} ({bounds})" if shown else bounds


def as_json(host: str, found: Prediction) -> dict[str, Json]:
    total = found.total
    return {
        "name": host,
        "source": found.source,
        "pairs": [_pair(each) for each in found.pairs],
        "total": {"hcas": list(total.hcas), **_estimates(total, "with_gdr without_gdr")}
        if total
        else None,
        "notes": list(found.notes),
    }


def _pair(each: PairPrediction) -> dict[str, Json]:
    return {
        **picked(each, "gpu hca name distance=distance.shown nearest blocked"),
        **_estimates(each, "with_gdr read collective without_gdr now"),
        "latency_bytes": each.latency.size,
        "latency": [_estimate(found) for found in each.latency],
    }


def _estimates(thing: object, names: str) -> dict[str, Json]:
    return {name: _estimate(getattr(thing, name)) for name in names.split()}


def _estimate(found: Estimate) -> dict[str, Json]:
    return {**_rounded(found, 4), **picked(found, "unit limit layer confidence assumptions open")}


def _rounded(span: Estimate | Range, digits: int) -> dict[str, Json]:
    return {name: round(getattr(span, name), digits) for name in ("value", "low", "high")}


def return_json(found: Return) -> dict[str, Json]:
    fast, slow = found.hours
    spans = {
        "step_seconds_with": found.with_gdr,
        "step_seconds_without": found.without_gdr,
        "run_hours_with": fast,
        "run_hours_without": slow,
        "run_hours_saved": found.saved,
    }
    return {
        **picked(found, "job.nodes job.parameters job.steps slowest open"),
        **{name: _rounded(span, 6) for name, span in spans.items()},
        **picked(found, "assumptions"),
    }


def quoted_json(rows: tuple[Quoted, ...]) -> list[Json]:
    return [picked(each, "figure layer say") for each in rows]


def job_text(found: JobVerdict | JobState) -> str:
    if isinstance(found, JobVerdict):
        words = job_said(found)
    else:
        words = (
            f"job {found.job}: {'; '.join(filter(None, [found.why, ', '.join(found.suspects)]))}"
        )
    return "\n".join(_wrapped(clean(words), ""))


def state_json(found: JobState) -> dict[str, Json]:
    return picked(found, "job status why suspects")


def job_said(found: JobVerdict) -> str:
    """ "job 4711: ... has 0.41 of what its paths carry; suspect gpu017 (acs.redirect)"."""
    run = found.run
    name = f"{run.name} ({run.communicator})" if run.name else run.communicator
    where = f"{run.ranks} ranks on {run.nodes} nodes" if run.nodes > 1 else f"{run.ranks} ranks"
    did = f"job {run.job}: {name}: {run.test} of {run.size / (1 << 20):.4g} MiB, {where}"
    carried = found.carried
    if carried is None:
        return f"{did}: {run.bus:.1f} GB/s; {found.why}"
    share = f"{run.bus / carried.value:.2f}"
    of = f"has {share} of what its paths carry, {carried.figure}; {found.why}"
    suspects = f"; suspect {'; '.join(found.suspects)}" if found.suspects else ""
    return f"{did}: {run.bus:.1f} GB/s {of}{suspects}"


def job_json(found: JobVerdict) -> dict[str, Json]:
    names = "job communicator name test size bus ranks nodes count hosts"
    return {
        **picked(found, "status why ratio"),
        **picked(found.run, names),
        "carried": _rounded(found.carried, 4) if found.carried else None,
        **picked(found, "suspects"),
    }
