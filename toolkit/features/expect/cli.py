"""Read nodes for what they have; change nothing.

The verb that learns what the nodes of a site have.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from toolkit.checks.learned import Dissent, Had, Learned, had, learn
from toolkit.cli.options import HOSTS, REACH, SAVED, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, ToolkitError, UsageError, worst
from toolkit.evidence import Evidence
from toolkit.expect import Value
from toolkit.facts.node.node import Node
from toolkit.features.slurm.run.nodes import node_name
from toolkit.hosts.host import fold, members
from toolkit.plural import counted
from toolkit.report.document import Json, dumps, envelope, picked
from toolkit.report.table import clean
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_saved

# What was learned of nodes: as the site's file would have it, and as JSON.
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
            {**picked(each, "hosts"), "key": str(each.key), **picked(each, "found expected")}
            for each in kind.dissents
        ],
        "not_told": {str(key): list(hosts) for key, hosts in kind.unread},
        "no_majority": {str(key): why for key, why in kind.open},
    }


def had_of(name: str, evidence: Evidence) -> Had:
    """The summary of a node, which is all that remains of its evidence."""
    return had(name, Node(evidence))


@verb(
    HOSTS,
    REACH,
    SAVED,
    (Option("json", False, "one JSON document on standard output (docs/expect.schema.json)"),),
)
def expect(said: Said) -> ExitCode:
    """Write what most nodes of each kind have, as the site's file would say it; change nothing.

    Nodes that differ from their kind are named in comments. Exits 0 when none does, 2 when some
    do, 3 when something that most tell could not be read on a node, 4 when a host is out of reach.

    Examples:
      invoke expect --hosts gpu[001-128] > expect.toml
      invoke expect --hosts @h100 --via slurm > expect.toml
      invoke expect --from evidence/ --json
    """
    session = Session.begin("expect", said)
    gres: dict[str, int] = {}
    if said.text("from_"):
        outcomes = on_saved(read_saved(Path(said.text("from_"))), had_of)
    else:
        with fleet(said) as opened:
            outcomes = read_each(opened, session.folder, had_of)
            nodes = opened.slurm.nodes if opened.slurm else {}
            known = [host for host in opened.hosts if node_name(host) in nodes]
            told = {host.name: nodes[node_name(host)].gpus for host in known}  # by its Gres
            gres = {name: gpus for name, gpus in told.items() if gpus is not None}
    kinds = learn([each.value for each in outcomes if each.value is not None], gres)
    failed = [(each.host, each.error) for each in outcomes if each.error is not None]
    code = worst([*(error.exit_code for _, error in failed), _code(kinds)])
    toml = text(kinds, failed)
    session.say(toml.rstrip("\n"))
    session.folder.keep("expect.toml", toml)
    if said.flag("json"):
        sys.stdout.write(dumps(document(kinds, failed, code, session.now)))
    session.kept()
    return code


def _code(kinds: tuple[Learned, ...]) -> ExitCode:
    if any(each.dissents for each in kinds):
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if any(each.unread for each in kinds) else ExitCode.OK
