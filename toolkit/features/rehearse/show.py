"""A rehearsal for a person, folded by what would happen, and for machines.

Schema: docs/rehearse.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from toolkit.errors import ExitCode, Outcome
from toolkit.features.rehearse.plan import CheckTurn, RebuiltPart, Rehearsal
from toolkit.hosts.host import fold
from toolkit.report.document import Json, envelope, picked
from toolkit.report.table import Ink, Painter, clean, columns, labelled, unjudged
from toolkit.report.text import errors
from toolkit.upgrade import Upgrade

SCHEMA = "gdr-toolkit/rehearse/1"
_INK = {"keeps": Ink.GREEN, "unknown": Ink.YELLOW, "loses": Ink.RED}
_COMPILES = {True: "compiles", False: "does not compile", None: "not known"}


def rehearse_report(outcomes: Sequence[Outcome[Rehearsal]], paint: Painter) -> str:
    """Nodes with the same future once, a table, and a line that counts."""
    groups: dict[Rehearsal, list[str]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            groups.setdefault(outcome.value, []).append(outcome.host)
    lines: list[str] = []
    for rehearsal, hosts in groups.items():
        lines += [*_one(rehearsal, hosts, paint), ""]
    lines += errors(((each.host, each.error) for each in outcomes), paint)
    head = ("state", "to build", "path now", "then", "boots", "nodes")
    rows = [head, *(_row(each, hosts) for each, hosts in groups.items())]
    rows += [("-", "-", "-", unjudged(e.error), "-", e.host) for e in outcomes if e.error]
    kept = sum(each.value is not None and each.value.state == "keeps" for each in outcomes)
    total = len(outcomes)
    count = f"{kept} of {total} {'node' if total == 1 else 'nodes'} would lose nothing."
    return "\n".join([*lines, *columns([tuple(map(clean, row)) for row in rows]), "", count])


def _row(each: Rehearsal, hosts: list[str]) -> tuple[str, ...]:
    return (each.state, str(len(each.parts)), *each.path, str(each.boots), fold(hosts))


def _one(each: Rehearsal, hosts: list[str], paint: Painter) -> list[str]:
    lines = [f"{paint(each.state.ljust(8), _INK[each.state])} {clean(fold(hosts))}"]
    for number, part in enumerate(each.parts, start=1):
        lines += labelled("build" if number == 1 else "", f"{number}. {_part(part)}")
    for label, said in (
        ("install", each.packages),
        ("goes", each.dies),
        ("restart", each.restarts),
        ("unclear", each.unclear),
    ):
        for number, one in enumerate(said):
            lines += labelled("" if number else label, one)
    lines += labelled("boots", str(each.boots))
    now, then = each.path
    lines += labelled("path", now if now == then else f"{now}, then {then}")
    for turn in (*each.libraries, *each.turns):
        lines += labelled("worse" if turn.worse else "better", _turn(turn))
    return lines


_WHO = {"vendor": "the vendor's lists", "source": "its source", "build": "a build of ours"}
_SURE = {"H": "surely", "M": "likely", "L": "perhaps"}


def _part(part: RebuiltPart) -> str:
    told = f"{part.part} {part.version} for {part.kernel}: {_COMPILES[part.compiles]}"
    who = f", {_SURE[part.confidence]} by {_WHO[part.basis]}" if part.basis else ""
    return f"{told}{who}; {part.found}"


def _turn(turn: CheckTurn) -> str:
    return f"{turn.what}: {turn.before}, then {turn.after}: {turn.found}"


def rehearse_document(
    outcomes: Sequence[Outcome[Rehearsal]], upgrade: Upgrade, code: ExitCode, when: datetime
) -> Mapping[str, Json]:
    """The same for machines; ``when`` in any zone."""
    return {
        **envelope(SCHEMA, when, code),
        "upgrade": picked(upgrade, "driver ofed kernel firmware"),
        "hosts": [_host(e.host, e.value) for e in outcomes if e.value is not None],
        "errors": [
            {"name": e.host, "error": str(e.error), "hint": e.error.hint}
            for e in outcomes
            if e.error is not None
        ],
    }


def _host(name: str, each: Rehearsal) -> Json:
    names = "state parts turns libraries dies packages restarts boots unclear"
    return {
        "name": name,
        **picked(each, names),
        "path": {"now": each.path[0], "then": each.path[1]},
    }
