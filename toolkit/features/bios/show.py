"""BIOS: current, pending, wanted; what would be sent, what came of it; as text and as JSON.

The document is versioned: docs/bios.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.errors import ExitCode, Outcome
from toolkit.facts.firmware.redfish_bmc import Trust
from toolkit.facts.firmware.redfish_values import words_of
from toolkit.features.bios.plan import BiosPlan, Edit
from toolkit.features.bios.plan_reading import ILL, BiosLine, BiosOutcome, BiosReading, LineState
from toolkit.features.bios.plan_wishes import BlockedWish, BlockKind
from toolkit.hosts.host import fold
from toolkit.report.document import Json, picked
from toolkit.report.table import Ink, Painter, clean, columns, labelled, shortened
from toolkit.report.text import errors

_HEADS = ("setting", "attribute", "current", "pending", "wanted", "")
_INK = {LineState.DIFFERS: Ink.RED, LineState.LEAVING: Ink.RED, LineState.COMING: Ink.YELLOW}
_WIDE = 28  # of an attribute's name and of a value; longer ones are cut in the table
_EFFECTS = 8  # that are shown without --verbose


def looked_lines(
    outcomes: Sequence[Outcome[BiosReading]], paint: Painter, *, verbose: bool = False
) -> list[str]:
    """What ``bios`` prints without ``--set``: folded by who says the same."""
    lines: list[str] = []
    for looked, hosts in _folded(outcomes):
        lines += [*_head(looked, hosts, paint), *_table(looked.lines, paint, verbose=verbose)]
        missing = [
            each.setting.value for each in looked.lines if each.stand is LineState.NOT_EXPOSED
        ]
        not_exposed = labelled("not exposed", f" {', '.join(missing)}", indent=2)
        lines += [*not_exposed, ""]
    return [*lines, *errors(((each.host, each.error) for each in outcomes), paint)]


def planned_lines(
    outcomes: Sequence[Outcome[BiosReading]], paint: Painter, *, verbose: bool = False
) -> list[str]:
    """What would be sent to whom, and what stands in the way."""
    lines: list[str] = []
    for looked, hosts in _folded(outcomes):
        lines += [
            *_head(looked, hosts, paint),
            *_plan_lines(looked.plan, paint, verbose=verbose),
            "",
        ]
    return [*lines, *errors(((each.host, each.error) for each in outcomes), paint)]


def changed_lines(outcomes: Sequence[Outcome[BiosOutcome]], paint: Painter) -> list[str]:
    """What came of each."""
    lines: list[str] = []
    for outcome in outcomes:
        if outcome.value is not None:
            lines += [*_outcome_lines(outcome.host, outcome.value, paint), ""]
    return [*lines, *errors(((each.host, each.error) for each in outcomes), paint)]


def _folded(outcomes: Sequence[Outcome[BiosReading]]) -> Iterator[tuple[BiosReading, list[str]]]:
    groups: dict[tuple[object, ...], tuple[BiosReading, list[str]]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            one = outcome.value
            key = (one.machine, one.about.verified, one.lines, one.plan, one.role, one.remarks)
            groups.setdefault(key, (one, []))[1].append(outcome.host)
    yield from groups.values()


def _head(looked: BiosReading, hosts: Sequence[str], paint: Painter) -> Iterator[str]:
    role = f", as {looked.role}" if looked.role else ""
    yield f"{paint(clean(fold(hosts)), Ink.BOLD)}  {clean(looked.machine)}{role}"
    if looked.about.verified is Trust.NO:
        yield paint("  its BMC's certificate was not verified: --bmc-insecure", Ink.YELLOW)
    for remark in looked.remarks:
        yield from labelled("note", remark, indent=2)


def _table(lines: Sequence[BiosLine], paint: Painter, *, verbose: bool) -> list[str]:
    shown = [each for each in lines if each.name and (verbose or each.wanted or each.pending)]
    rows = [_HEADS, *(_row(each) for each in shown)]
    table = columns(tuple(clean(cell) for cell in row) for row in rows)
    found = [paint(f"  {table[0]}", Ink.GREY)] if shown else []
    for line, text in zip(shown, table[1:], strict=True):
        ink = _INK.get(line.stand)
        found.append("  " + (paint(text, ink) if ink and line.stand in ILL else text))
    left = sum(1 for each in lines if each.name) - len(shown)
    if left:
        found.append(f"  and {left} attributes of which nothing is wanted: --verbose")
    return found


def _row(line: BiosLine) -> tuple[str, ...]:
    name = f"{line.setting}{'.' * bool(line.part)}{line.part}"
    where = f" ({line.scope})" if line.scope else ""
    locked = ", read-only" if line.read_only and line.stand in ILL else ""
    return (
        name + where,
        shortened(line.name, _WIDE),
        shortened(line.current, _WIDE),
        shortened(line.pending, _WIDE),
        shortened(line.wanted, _WIDE),
        line.stand.value + locked,
    )


def _plan_lines(plan: BiosPlan, paint: Painter, *, verbose: bool) -> Iterator[str]:
    if not plan.pending and not plan.blocked:
        yield from labelled("nothing", "all is as asked", indent=2)
    for number, group in enumerate(plan.passes):
        label = "send" if not number else f"after reset {number} "
        for edit in group:
            shown = f" ({edit.display})" if edit.display not in {"", edit.name} else ""
            yield from labelled(label, f"{edit}{shown}", indent=2)
    for edit in plan.owed:
        text = f"{edit.name}: {words_of(edit.before)} -> {words_of(edit.after)}, at the next reset"
        yield from labelled("pending", text, indent=2)
    for edit in plan.strangers:
        text = f"{edit.name}: {words_of(edit.before)} -> {words_of(edit.after)}, by other hands"
        yield from labelled("besides", text, indent=2)
    yield from _effects(plan, verbose=verbose)
    for blocked in plan.blocked:
        yield from _blocked(blocked, paint)
    if plan.stopped and plan.pending:
        yield from labelled("so", "nothing is sent here: not all that was named can be", indent=2)
    elif plan.pending:
        count = plan.resets
        yield from labelled("takes", f"{count} reset{'s' * (count > 1)}", indent=2)


def _effects(plan: BiosPlan, *, verbose: bool) -> Iterator[str]:
    shown = plan.effects if verbose else plan.effects[:_EFFECTS]
    for effect in shown:
        yield from labelled("follows", f"{effect.name}: {effect.text}", indent=2)
    if more := len(plan.effects) - len(shown):
        yield from labelled("follows", f"{more} more: --verbose", indent=2)


def _blocked(blocked: BlockedWish, paint: Painter) -> Iterator[str]:
    ink = Ink.GREY if blocked.block is BlockKind.NOT_EXPOSED else Ink.RED
    first, *rest = labelled(blocked.block.value, f" {blocked.wish}: {blocked.reason}", indent=2)
    yield from (paint(line, ink) for line in (first, *rest))
    yield from labelled("next", blocked.hint, indent=2)


def _outcome_lines(host: str, done: BiosOutcome, paint: Painter) -> Iterator[str]:
    state, ink = _state(done)
    yield f"{paint(clean(host), Ink.BOLD)}  {paint(state, ink)}"
    for step in done.steps:
        yield from labelled("did", step, indent=2)
    for edit in done.missed:
        now = done.after.bios.attributes.get(edit.name)
        value = words_of(now.current) if now else "not there"
        yield from labelled("missed", f"{edit}: is {value} after the start", indent=2)
    yield from labelled("no reset", done.busy, indent=2)
    for blocked in done.after.plan.blocked:
        yield from _blocked(blocked, paint)


def _state(done: BiosOutcome) -> tuple[str, Ink]:
    if done.missed:
        return "not in force after its start", Ink.RED
    if done.after.plan.stopped:
        return ("stopped midway" if done.sent else "nothing was sent"), Ink.RED
    if done.after.plan.pending:
        return "pending: a reset is owed", Ink.YELLOW
    return ("changed" if done.steps else "as asked already"), Ink.GREEN


def summary(outcomes: Iterable[Outcome[BiosOutcome]]) -> str:
    """ "2 of 3 BIOSes are as asked." """
    every = list(outcomes)
    done = sum(1 for each in every if each.value and not each.value.exit_code)
    return f"{done} of {len(every)} {'BIOS is' if len(every) == 1 else 'BIOSes are'} as asked."


SCHEMA = "gdr-toolkit/bios/1"


def document(
    outcomes: Sequence[Outcome[BiosReading] | Outcome[BiosOutcome]], code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; fields are only ever added within a version."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "verb": "bios",
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "hosts": [_host_json(each) for each in outcomes],
    }


def _host_json(outcome: Outcome[BiosReading] | Outcome[BiosOutcome]) -> dict[str, Json]:
    value, error = outcome.value, outcome.error
    changed = value if isinstance(value, BiosOutcome) else None
    looked = value.after if isinstance(value, BiosOutcome) else value
    return {
        "name": outcome.host,
        "error": {"message": str(error), "hint": error.hint} if error else None,
        "bmc": picked(looked.about, "address verified vendor model bios firmware")
        if looked
        else None,
        "machine": looked.machine if looked else "",
        "role": looked.role.value if looked and looked.role else None,
        "remarks": list(looked.remarks) if looked else [],
        "settings": [picked(each, _LINE) for each in looked.lines] if looked else [],
        "plan": _plan_json(looked.plan) if looked else None,
        "done": {
            **picked(changed, "steps resets"),
            "missed": [_edit_json(each) for each in changed.missed],
            "not_reset": changed.busy,
        }
        if changed
        else None,
    }


_LINE = "setting part scope attribute=name current pending wanted standing=stand read_only why"


def _plan_json(plan: BiosPlan) -> dict[str, Json]:
    return {
        "pending": plan.pending,
        "stopped": bool(plan.stopped),
        "resets": plan.resets,
        "passes": [[_edit_json(each) for each in group] for group in plan.passes],
        "owed": [_edit_json(each) for each in plan.owed],
        "strangers": [_edit_json(each) for each in plan.strangers],
        "effects": [picked(each, "attribute=name text") for each in plan.effects],
        "blocked": [picked(each, "wish kind=block reason hint named") for each in plan.blocked],
    }


def _edit_json(edit: Edit) -> dict[str, Json]:
    return {
        "attribute": edit.name,
        "setting": edit.setting.value if edit.setting else None,
        **picked(edit, "current=before pending wanted=after wish"),
    }
