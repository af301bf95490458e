"""Lay nodes side by side; change nothing.

The verb that lays nodes side by side.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from toolkit.checks.agreement import Agreement, SmallSheets
from toolkit.checks.outliers import Comparison, Difference, Kind, Odd, Sheet, Sheets, compare
from toolkit.cli.options import HOSTS, REACH, SAVED, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, ToolkitError, UsageError, worst
from toolkit.evidence import Evidence
from toolkit.groups import Wants
from toolkit.hosts.host import fold
from toolkit.plural import counted, first_of
from toolkit.report.between import between_document, between_lines
from toolkit.report.document import Json, dumps, envelope, picked
from toolkit.report.table import Ink, Painter, clean, wrapped
from toolkit.report.text import errors
from toolkit.verbs.cli.nodes import each_node
from toolkit.verbs.cli.session import Session

# A comparison for a person, and the same as JSON (docs/compare.schema.json).
SCHEMA = "gdr-toolkit/compare/1"
_MANY = 4  # items of one topic that are named one by one


def text(compared: Comparison, paint: Painter) -> str:
    """What ``compare`` prints: kinds, then who differs in what."""
    lines: list[str] = []
    if len(compared.kinds) > 1:
        lines += _kinds(compared, paint)
    for number, kind in enumerate(compared.kinds, start=1):
        if len(compared.kinds) > 1:
            lines.append(paint(f"kind {number}", Ink.BOLD))
        lines += [line for odd in kind.odd for line in _odd(odd, compared, paint)]
        lines += _summary(kind)
        lines.append("")
    if compared.ignored:
        lines += _wrapped(f"each node has its own: {', '.join(compared.ignored)}", indent=0)
    return "\n".join(lines).rstrip("\n")


def _kinds(compared: Comparison, paint: Painter) -> list[str]:
    lines = []
    for number, kind in enumerate(compared.kinds, start=1):
        head = f"{len(kind.hosts)} of kind {number}: {clean(fold(kind.hosts))}"
        lines.append(paint(head, Ink.BOLD))
        for title, value, _ in _told(kind.marks, compared):
            lines += _wrapped(f"{title}: {value}")
    return [*lines, ""]


def _odd(odd: Odd, compared: Comparison, paint: Painter) -> list[str]:
    word, ink = ("differs", Ink.RED) if odd.differences else ("not read", Ink.YELLOW)
    lines = [f"{paint(word.ljust(9), ink)}{paint(clean(fold(odd.hosts)), Ink.BOLD)}"]
    for title, value, norm in _told(odd.differences, compared):
        lines += _wrapped(f"{title}: {value}; the others: {norm}")
    if odd.unread:
        lines += _wrapped(f"not read: {_unread(odd.unread)}")
    return lines


def _unread(names: tuple[str, ...]) -> str:
    """Topics by name, checks after them: a few by id, many by their number."""
    checks = [name.removeprefix("check ") for name in names if name.startswith("check ")]
    rest = [name for name in names if not name.startswith("check ")]
    if len(checks) > _MANY:
        rest.append(f"{counted(len(checks), 'check')}")
    elif checks:
        rest.append(f"what is judged by {', '.join(checks)}")
    return ", ".join(rest)


def _told(differences: Sequence[Difference], compared: Comparison) -> list[tuple[str, str, str]]:
    """Title, value and norm; items of one topic that changed alike are told in one line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for each in differences:
        product = compared.products.get(each.item, "")
        item = f"{product.partition(' ')[0]} {each.item}" if product else each.item
        alike.setdefault((each.topic, each.value, each.norm), []).append(item)
    return [(_title(topic, items), value, norm) for (topic, value, norm), items in alike.items()]


def _title(topic: str, items: list[str]) -> str:
    if len(items) <= _MANY:
        return f"{topic} {', '.join(filter(None, items))}".strip()
    kinds = Counter(item.partition(" ")[0] if " " in item else "" for item in items)
    if "" in kinds:
        return f"{topic} {first_of(items, _MANY)}"
    return f"{topic} of " + ", ".join(counted(count, kind) for kind, count in kinds.items())


def _summary(kind: Kind) -> list[str]:
    total, same = len(kind.hosts), len(kind.identical)
    if same == total:
        return [f"{total} nodes, all identical."]
    alike = total - sum(len(odd.hosts) for odd in kind.odd if odd.differences)
    lines = []
    if same:
        lines += _wrapped(
            f"{same} of {total} nodes {_differ(same)} in nothing: {clean(fold(kind.identical))}",
            indent=0,
        )
    if alike > same:
        more = f"{alike - same} more" if same else f"{alike} of {total} nodes"
        lines.append(f"{more} {_differ(alike - same)} in nothing that could be read.")
    return lines


def _differ(number: int) -> str:
    return "differ" if number > 1 else "differs"


def _wrapped(text: str, *, indent: int = 9) -> list[str]:
    """Lines of at most WIDTH; those that go on stand a little further in."""
    return wrapped(text, first=" " * indent, rest=" " * (indent + 2))


def document(
    compared: Comparison | None,
    errors: Sequence[tuple[str, ToolkitError]],
    code: ExitCode,
    when: datetime,
) -> dict[str, Json]:
    """The whole document; fields are only ever added within a version."""
    return {
        **envelope(SCHEMA, when, code),
        "kinds": [_kind(kind) for kind in compared.kinds] if compared else [],
        "each_its_own": list(compared.ignored) if compared else [],
        "errors": [
            {"host": host, "message": str(error), "hint": error.hint} for host, error in errors
        ],
    }


def _kind(kind: Kind) -> dict[str, Json]:
    odd = [picked(each, "hosts differences not_read=unread") for each in kind.odd]
    return {**picked(kind, "hosts identical marks"), "odd": odd}


def sheeting(wants: Wants, agreement: Agreement) -> Callable[[str, Evidence], Sheet]:
    """Makes a node's sheet, by its name and its evidence, of which nothing else remains."""
    sheets, small, turn = Sheets(wants), SmallSheets(), threading.Lock()

    def make(name: str, evidence: Evidence) -> Sheet:
        with turn:
            agreement.take(small.make(name, evidence))
            return sheets.make(name, evidence)

    return make


@verb(
    HOSTS,
    REACH,
    WANT,
    SAVED,
    (Option("json", False, "one JSON document on standard output (docs/compare.schema.json)"),),
)
def compare_(said: Said) -> ExitCode:
    """Find the nodes of a fleet that are unlike the others, and in what; change nothing.

    Exits 0 when all are identical, 2 when some differ, 3 when something could not be read
    on a node, 4 when a host is out of reach.

    Examples:
      invoke compare --hosts gpu[001-128]
      invoke compare --from evidence/ --json
    """
    session = Session.begin("compare", said)
    wants = session.wants()
    agreement = Agreement(wants)
    outcomes = each_node(session, sheeting(wants, agreement))
    sheets = [each.value for each in outcomes if each.value is not None]
    failed = [(each.host, each.error) for each in outcomes if each.error is not None]
    if len(outcomes) < 2:
        raise UsageError("one node has none to be compared with", hint="name two or more")
    compared = compare(sheets) if len(sheets) > 1 else None
    code = worst([*(error.exit_code for _, error in failed), _code(compared)])
    for line in errors(failed, session.paint):
        session.say(line)
    if compared is not None:
        session.say(text(compared, session.paint))
    between = agreement.verdicts()
    if lines := between_lines(between, session.paint):
        session.say("\n".join(["", "judged between the nodes:", "", *lines]).rstrip())
    told = dumps(document(compared, failed, code, session.now) | between_document(between))
    session.folder.keep("compare.json", told)
    if said.flag("json"):
        sys.stdout.write(told)
    session.kept()
    return code


def _code(compared: Comparison | None) -> ExitCode:
    if compared is None:
        return ExitCode.UNREACHABLE
    if not compared.identical:
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if compared.unread else ExitCode.OK
