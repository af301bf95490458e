"""What was learned of nodes: as the site's file would have it, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from toolkit.checks.learned import Dissent, Learned
from toolkit.errors import ExitCode, ToolkitError, UsageError
from toolkit.expect import Value
from toolkit.hosts.host import fold, members
from toolkit.plural import counted
from toolkit.report.document import Json, envelope
from toolkit.report.table import clean

SCHEMA = "gdr-toolkit/expect/1"
_HEAD = """\
# What most of these nodes have. Read it, take out what need not be so, and keep it in the
# site's file: doctor --site FILE holds the nodes to it.
"""


def text(kinds: Sequence[Learned], errors: Sequence[tuple[str, ToolkitError]]) -> str:
    """A table of [[group]] for each kind, with the nodes that differ named above it."""
    lines = [_HEAD.rstrip("\n")]
    lines += [_comment(f"not read: {host}: {error}") for host, error in errors]
    for kind in kinds:
        lines += ["", *_group(kind)]
    return "\n".join(lines) + "\n"


def _group(kind: Learned) -> list[str]:
    named, nameless = _named(kind.hosts)
    lines = [_comment(f"{counted(len(kind.hosts), 'node')}: {kind.about or 'a machine untold'}")]
    lines += [_comment(_dissent(each)) for each in kind.dissents]
    lines += [_comment(f"not told of {fold(hosts)}: {key}") for key, hosts in kind.unread]
    lines += [_comment(f"no {key} that most have: {why}") for key, why in kind.open]
    lines += [_comment(f"no node set can name {each!r}: left out") for each in nameless]
    if not named or not list(kind.expect):
        return [*lines, _comment("nothing to expect of them")]
    lines += ["[[group]]", f"hosts = {_quoted(fold(named))}", "[group.expect]"]
    return [*lines, *(f"{key} = {_toml(value)}" for key, value in kind.expect)]


def _named(hosts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names that a node set can have, and others: evidence may be called anything."""
    named: list[str] = []
    nameless: list[str] = []
    for host in hosts:
        try:
            (named if members(host)(host) else nameless).append(host)
        except UsageError:
            nameless.append(host)
    return named, nameless


def _dissent(each: Dissent) -> str:
    return f"differs: {fold(each.hosts)}: {each.key}: {each.found}; most have {each.expected}"


def _comment(words: str) -> str:
    """One line, whatever a node has said."""
    return f"# {clean(words)}".replace("\n", " ")


def _toml(value: Value) -> str:
    if isinstance(value, tuple):
        return "{ " + ", ".join(f"{_quoted(k)} = {_quoted(v)}" for k, v in value) + " }"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    """A basic string: JSON's escapes are TOML's too, but for one character."""
    return json.dumps(clean(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def document(
    kinds: Sequence[Learned],
    errors: Sequence[tuple[str, ToolkitError]],
    code: ExitCode,
    when: datetime,
) -> dict[str, Json]:
    """The whole document (docs/expect.schema.json); fields are only ever added."""
    return {
        **envelope(SCHEMA, when, code),
        "kinds": [_kind(each) for each in kinds],
        "errors": [
            {"host": host, "message": str(error), "hint": error.hint} for host, error in errors
        ],
    }


def _kind(kind: Learned) -> dict[str, Json]:
    return {
        "hosts": list(kind.hosts),
        "machine": kind.about,
        "expect": {
            str(key): dict(value) if isinstance(value, tuple) else value
            for key, value in kind.expect
        },
        "differ": [
            {
                "hosts": list(each.hosts),
                "key": str(each.key),
                "found": each.found,
                "expected": each.expected,
            }
            for each in kind.dissents
        ],
        "not_told": {str(key): list(hosts) for key, hosts in kind.unread},
        "no_majority": {str(key): why for key, why in kind.open},
    }
