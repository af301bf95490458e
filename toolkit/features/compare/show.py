"""A comparison for a person, and the same as JSON (docs/compare.schema.json)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from toolkit.checks.outliers import Comparison, Difference, Kind, Odd
from toolkit.errors import ExitCode, ToolkitError
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.document import Json, envelope, picked
from toolkit.report.table import Ink, Painter, clean, wrapped

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
        return f"{topic} {', '.join(items[:_MANY])} and {len(items) - _MANY} more"
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
