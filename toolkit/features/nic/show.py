"""Firmware settings of HCAs for a person, folded by what is so, and for machines.

Schema: docs/nic.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from toolkit.compat.nic import SETTINGS, without_port
from toolkit.errors import ExitCode, Outcome
from toolkit.facts.rdma.firmware_tools import Card
from toolkit.features.nic.plan import NicReading
from toolkit.hosts.host import fold
from toolkit.report.document import Json, envelope, picked
from toolkit.report.table import Ink, Painter, clean, labelled
from toolkit.report.text import errors

SCHEMA = "gdr-toolkit/nic/1"
COLD = (
    "in force after a cold boot: drain the node, power it off and on (bios --reboot is a warm one)"
)


def nic_lines(
    outcomes: Sequence[Outcome[NicReading]], paint: Painter, *, planned: bool, verbose: bool
) -> list[str]:
    """Nodes that say the same once.

    :param planned: something was to be written; else it was only looked.
    """
    groups: list[tuple[list[str], list[str]]] = []
    for outcome in outcomes:
        if outcome.value is None:
            continue
        lines = list(_node(outcome.value, paint, planned=planned, verbose=verbose))
        same = next((hosts for hosts, told in groups if told == lines), None)
        if same is None:
            groups.append(([outcome.host], lines))
        else:
            same.append(outcome.host)
    found: list[str] = []
    for hosts, told in groups:
        found += [paint(clean(fold(hosts)), Ink.BOLD), *told, ""]
    return found + errors(((each.host, each.error) for each in outcomes), paint)


def _node(each: NicReading, paint: Painter, *, planned: bool, verbose: bool) -> Iterator[str]:
    if not (each.cards or each.others or each.unread):
        yield "  no HCA"
    for card in each.cards:
        yield from _card(card, each, paint, planned=planned, verbose=verbose)
    for line in each.others:
        yield from labelled("other", f"{line} (read by its own tool, and not changed here)")
    for line in each.unread:
        yield from labelled("unread", line)
    for block in each.plan.blocked:
        yield from labelled("not", f"{block.card} {block.wish}: {block.reason}")
    for step in each.steps:
        yield from labelled("did", step)
    yield from labelled("failed", each.failed)
    if each.plan.owed or each.steps:
        yield from labelled("next", COLD)


def _card(
    card: Card, each: NicReading, paint: Painter, *, planned: bool, verbose: bool
) -> Iterator[str]:
    yield f"  {clean(card.device)} {clean(card.type)}".rstrip()
    edits = {e.name: e.after for e in each.plan.edits if e.card == card.device}
    owed = {e.name for e in each.plan.owed if e.card == card.device}
    for name, told in card.settings.items():
        known = without_port(name) in SETTINGS
        if not (known if verbose or not planned else name in {*edits, *owed}):
            continue
        word, ink = "", Ink.GREY
        if name in edits:
            word, ink = f"{'would be' if planned else 'wanted'} {edits[name]}", Ink.YELLOW
        elif told.pending:
            word, ink = f"waits for a cold boot; now {told.now}", Ink.YELLOW
        yield f"    {name.ljust(30)} {clean(told.word).ljust(20)} {paint(word, ink)}".rstrip()


def nic_document(
    outcomes: Sequence[Outcome[NicReading]], code: ExitCode, when: datetime
) -> Mapping[str, Json]:
    """The same for machines; ``when`` in any zone."""
    return {
        **envelope(SCHEMA, when, code),
        "hosts": [_host(e.host, e.value) for e in outcomes if e.value is not None],
        "errors": [
            {"name": e.host, "error": str(e.error), "hint": e.error.hint}
            for e in outcomes
            if e.error is not None
        ],
    }


def _host(name: str, each: NicReading) -> Json:
    return {
        "name": name,
        "role": each.role.value if each.role else "",
        "cards": [
            {
                **picked(card, "device type"),
                "settings": [
                    picked(told, "name word now next pending")
                    for told in card.settings.values()
                    if without_port(told.name) in SETTINGS
                ],
            }
            for card in each.cards
        ],
        **picked(each, "others unread steps failed"),
        "edits": [picked(edit, "card name now before after") for edit in each.plan.edits],
        "owed": [picked(edit, "card name now before after") for edit in each.plan.owed],
        "blocked": [picked(b, "card wish reason") for b in each.plan.blocked],
    }
