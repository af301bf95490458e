"""Why a check fails on a node, or a log says what it says."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.all import BY_ID, named
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged, causes, judge_node
from toolkit.checks.why import cause, chain, matching
from toolkit.cli.options import BMC, HOSTS, REACH, READS, SAVED, WANT, Option, Said, parted
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, ToolkitError, UsageError
from toolkit.evidence import Evidence
from toolkit.plan.plan import Plan
from toolkit.report.document import dumps
from toolkit.report.text import errors
from toolkit.report.why import Answer, Way, document, tree
from toolkit.verbs.access import wanted
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.passport import sealed
from toolkit.verbs.plan import plan_node
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_all, read_saved
from toolkit.want import Want

_LONGEST = 80  # characters of a mistyped id; what is longer is a line
ABOUT = Option(
    "about",
    "",
    "a node, then the id of a check or a line of a log, as bare words",
    bare="NODE [CHECK | 'LINE']",
)


@verb(
    HOSTS,
    REACH,
    READS,
    BMC,
    WANT,
    SAVED,
    (ABOUT, Option("json", False, "one JSON document on standard output (docs/why.schema.json)")),
)
def why(said: Said) -> ExitCode:
    """Tell why a check fails: symptom, rule, evidence, the step that breaks it, the repair.

    The way from the check to its cause is a tree. Without a check each cause of the node is told,
    with what follows from it. A line of a log, or several as they were copied, is held against what
    the checks read and against the table of causes. Nothing is changed. Exits as doctor does, by
    what was asked about.

    Examples:
      invoke why gpu007
      invoke why gpu007 peermem.loaded
      invoke why gpu007 "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
      invoke why peermem.loaded --from evidence/
      invoke why gpu007 path.selected --json
    """
    said, about = asked(said)
    session = Session.begin("why", said)
    outcomes = [each.map(lambda node: _answer(node, about)) for each in _looked(session)]
    code = session.ended(outcomes, _code)
    for each in outcomes:
        if each.value:
            session.say("\n".join([*tree(each.host, each.value, session.paint), ""]))
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    if said.flag("json"):
        sys.stdout.write(dumps(document(outcomes)))
    if not said.text("from_"):
        session.kept()
    return code


def asked(said: Said) -> tuple[Said, str]:
    """What was said with the node in --hosts, and the check or the line.

    :raises UsageError: for more words than two, a blank one, or no such check.
    """
    words = parted(said.text("about"))
    named_already = any(said.text(each) for each in ("from_", "hosts", "hosts_file"))
    is_line = bool(words) and " " in words[0].strip()  # which no node set is
    if words and not named_already and not is_line and words[0] not in BY_ID:
        said = replace(said, values={**said.values, "hosts": words.pop(0)})
    if len(words) > 1:
        node = named_already and not _is_check(words[0])
        raise UsageError(
            f"{words[1]!r}: one check or one line is asked about",
            hint="--from or --hosts say which nodes: leave the node out, or quote the whole line"
            if node
            else 'a line goes into quotes: why gpu007 "modprobe: ERROR: ..."',
        )
    about = words[0] if words else ""
    if words and not about.strip():
        raise UsageError("nothing is asked about", hint="name a check or a line, or leave it out")
    if _is_check(about) and about not in BY_ID:
        named(about, wanted(said.text("profile"), said.text("site")).own)
    return said, about


def _is_check(word: str) -> bool:
    """Whether a word is meant as an id: whoever mistypes one is told the nearest."""
    plain = len(word) <= _LONGEST and not {" ", ":", "["} & set(word)
    return word in BY_ID or (plain and "." in word)


def _looked(session: Session) -> list[Outcome[ExplainedNode]]:
    said, wants = session.said, session.wants()

    def work(name: str, evidence: Evidence) -> ExplainedNode:
        return explained(name, evidence, wants.of(name), session.today)

    if said.text("from_"):
        return on_saved(read_all(map(Path, parted(said.text("from_"))), [], read_saved), work)
    with fleet(said) as opened:
        return read_each(opened, session.folder, work, earlier=True)


def _answer(found: ExplainedNode, about: str) -> Answer:
    answer = Answer(found.judged.about, (), found.plan, found.unplanned)
    if not about:
        roots = [each.root.check.id for each in causes(found.judged)]
        return replace(answer, ways=_ways(found, roots))
    if _is_check(about):
        return replace(answer, ways=_ways(found, [about]))
    matched = matching(about, found.evidence, found.want)
    open_ = [each for each in matched.checks if cause(found.judged, each) is not None]
    rest = set(matched.checks) - set(open_)
    passing = tuple(each for each in found.judged.verdicts if each.check.id in rest)
    return replace(answer, ways=_ways(found, open_), matched=matched, passing=passing)


def _ways(found: ExplainedNode, checks: list[str]) -> tuple[Way, ...]:
    """One for each check, but for those that lie on the way of another."""
    evidence: Evidence = found.evidence
    chains = {each: chain(found.judged, evidence, each) for each in checks}
    passed = {
        link.verdict.check.id for each in chains.values() for link in each[1:]
    }  # what others lead through
    return tuple(
        Way(links, cause(found.judged, name), found.judged.steps)
        for name, links in chains.items()
        if name not in passed
    )


def _code(outcome: Outcome[Answer]) -> ExitCode:
    """By what was asked about: 2 where it fails, 3 where it is not known."""
    if outcome.error is not None:
        return outcome.error.exit_code
    answer = outcome.get()
    states = {way.links[0].verdict.status for way in answer.ways}
    if Status.FAIL in states:
        return ExitCode.FAILED
    unread = answer.matched is not None and not answer.matched.checks and not answer.matched.row
    return ExitCode.UNKNOWN if Status.UNKNOWN in states or unread else ExitCode.OK


class ExplainedNode(Struct, frozen=True):
    """One node, all that its verdicts rest on, and what provision would do."""

    judged: Judged
    evidence: Evidence
    want: Want
    plan: Plan | None  # None where none can be made
    unplanned: str = ""  # why


def explained(name: str, evidence: Evidence, want: Want, today: date) -> ExplainedNode:
    """Judge one node, and plan for it where its distribution has rules."""
    given = sealed(evidence, want)
    judged = judge_node(name, given, want, today)
    if judged.text:
        return ExplainedNode(judged, given, want, None, "what tools printed is no node to plan for")
    try:
        return ExplainedNode(judged, given, want, plan_node(name, given, want, today).plan)
    except ToolkitError as why:
        return ExplainedNode(judged, given, want, None, f"{why}; {why.hint}".rstrip("; "))
