"""An expert's verdicts on whole machines, and ours held against them.

A row of ``machines.toml`` is written from the words of its source, never from what our tool
says. It names the state, each fault that must be told, and what must not be said. Every failure
has to tell of one of the row's faults: one that tells of none is a false alarm.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from tests.evidence.machines.composed import COMPOSED
from tests.evidence.machines.edits import HERE
from tests.evidence.machines.making import edit
from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.cli.options import WANT
from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.plan.plan import Plan
from toolkit.report.plan_text import plan_lines, trigger_name
from toolkit.report.table import Painter
from toolkit.report.text import report
from toolkit.verbs.plan import plan_node
from toolkit.want import PeerPath, Want

TODAY = date(2026, 11, 23)
# The base was taken when this program of ours was of an earlier text: each plan renews it.
OURS = "/usr/lib/gdr-toolkit/rebuild"
DEFAULT, PLAN = "default", "plan"  # beside the paths that a profile may insist on
PROFILES = (DEFAULT, PLAN, *PeerPath)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a machine: a failure of the check (a pattern) that has these words."""

    words: str  # a regular expression
    check: str = "*"
    needed: bool = True  # False: a consequence, that may be told besides
    why: str = ""  # of what it is a consequence

    def told_by(self, verdict: Verdict) -> bool:
        return fnmatchcase(verdict.check.id, self.check) and bool(
            re.search(self.words, text_of(verdict))
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One machine, and what an expert says of it."""

    machine: str
    profiles: tuple[str, ...]
    source: str
    says: str  # in the expert's words, or the vendor's
    state: str  # that of the report; "" for rows of plans alone
    faults: tuple[Fault, ...] = ()
    told: tuple[str, ...] = ()  # patterns that the report has to have
    untold: tuple[str, ...] = ()  # that neither report nor plan may have
    plan: str = ""  # "empty": there is nothing to do; else a pattern that it has to have
    mended: str = ""  # an artefact of the expert's edit that was taken out, and how


@dataclass(frozen=True, slots=True)
class Held:
    """A row beside what we say."""

    row: Row
    profile: str
    state: str  # ours
    disagreements: tuple[str, ...]

    @property
    def agree(self) -> bool:
        return not self.disagreements


def rows() -> tuple[Row, ...]:
    """The table, in its order."""
    tables = tomllib.loads((HERE / "machines.toml").read_text())["machine"]
    return tuple(map(_row, tables))


def _row(table: dict[str, Any]) -> Row:
    names = {each.name for each in fields(Row)}
    assert set(table) <= names, f"{table.get('machine')}: {set(table) - names}"
    faults = tuple(Fault(**each) for each in table.pop("faults", ()))
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    return Row(**values, faults=faults)


def evidence_of(machine: str) -> Evidence:
    """What the probe prints on this machine."""
    if machine in COMPOSED:
        return COMPOSED[machine]()
    return edit(machine)


def want_of(profile: str) -> Want:
    """What ``--profile`` asks for, or where it is not given what its default does."""
    (default,) = (str(each.default) for each in WANT if each.name == "profile")
    return Want.load(default if profile in {DEFAULT, PLAN} else profile)


def held(row: Row, profile: str) -> Held:
    """What we say of the machine, against the row."""
    planned = plan_node(row.machine, evidence_of(row.machine), want_of(profile), TODAY)
    wrong = [*_of_plan(row, planned.plan)]
    if profile != PLAN:
        wrong = [*_of_verdicts(row, planned.judged), *wrong]
    return Held(row, profile, planned.judged.state, tuple(wrong))


def _of_verdicts(row: Row, one: Judged) -> Iterator[str]:
    failing = one.having(Status.FAIL)
    if one.state != row.state:
        yield f"{one.state}, not {row.state}{_first(one)}"
    for each in failing:
        if not any(fault.told_by(each) for fault in row.faults):
            yield f"false alarm: {each.check.id}: {each.finding.found}"
    for fault in row.faults:
        if fault.needed and not any(map(fault.told_by, failing)):
            yield f"no failure of {fault.check} tells of {fault.words!r}"
    said = report([Outcome(row.machine, one)], Painter(False), verbose=True)
    for words in row.told:
        if not re.search(words, said):
            yield f"the report does not say {words!r}"
    wrong = "\n".join(text_of(e) for e in (*failing, *one.having(Status.UNKNOWN)))
    for words in row.untold:
        if found := re.search(words, wrong):
            yield f"the report says {found[0]!r}"


def _first(one: Judged) -> str:
    """What keeps the node from being ready, for a table of one line each."""
    open_ = one.having(Status.UNKNOWN)
    return f" ({open_[0].check.id}: {open_[0].finding.found})" if one.state == "unknown" else ""


def _of_plan(row: Row, plan: Plan) -> Iterator[str]:
    text = "\n".join(plan_lines([(row.machine, plan)], Painter(False), diffs=True))
    changes = [each.path for each in plan.changes if each.path != OURS]
    if row.plan == "empty" and (changes or plan.triggers):
        yield f"the plan has {', '.join((*changes, *map(trigger_name, plan.triggers)))}"
    elif row.plan and row.plan != "empty" and not re.search(row.plan, text):
        yield f"the plan does not say {row.plan!r}"
    for words in row.untold:
        if found := re.search(words, text):
            yield f"the plan says {found[0]!r}"


def text_of(verdict: Verdict) -> str:
    """All that a finding says."""
    finding = verdict.finding
    return "\n".join((finding.found, finding.expected, finding.hint, *finding.details))


def cases() -> list[tuple[Row, str]]:
    """Every row with each of its profiles."""
    return [(row, profile) for row in rows() for profile in row.profiles]
