"""What there is, for machines: checks, hosts and demo nodes, each by its schema in docs/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from toolkit import __version__
from toolkit.checks.check import Check
from toolkit.hosts.host import Host
from toolkit.package_data import as_called
from toolkit.report import table
from toolkit.report.document import Json, picked
from toolkit.report.table import Ink, Painter, columns, labelled

CHECKS = "gdr-toolkit/checks/1"
HOSTS = "gdr-toolkit/hosts/1"
DEMO = "gdr-toolkit/demo/1"
NO_KEYS: Mapping[str, Json] = {}


class Row(Struct, frozen=True):
    """Something that holds for a host, and where it was said."""

    what: str  # "port"
    value: str
    source: str  # "hosts.ini:7, ansible_port"; "default" where nobody says so


def checks_document(checks: Iterable[Check]) -> dict[str, Json]:
    """What checks and explain print: docs/checks.schema.json."""
    return {"schema": CHECKS, "toolkit": __version__, "checks": [_check(each) for each in checks]}


def _check(check: Check) -> dict[str, Json]:
    return {
        **picked(check, "id title why impact tense"),
        "paths": sorted(path.value for path in check.paths),
        "roles": sorted(role.value for role in check.roles),
        **picked(check, "needs_gpu source"),
        "fix": as_called(check.fix),
        "code": home(check),
    }


def hosts_document(
    hosts: Iterable[tuple[Host, tuple[Row, ...]]], keys: Mapping[str, Json] = NO_KEYS
) -> dict[str, Json]:
    """What hosts prints: docs/hosts.schema.json. Null: left to the configuration of SSH.

    :param hosts: each with what --explain says of it; () without it.
    :param keys: what --scan-keys says of each, by its name.
    """
    return {
        "schema": HOSTS,
        "hosts": [
            {
                "name": host.name,
                "address": host.address or host.name,
                "user": host.user or None,
                "port": host.port or None,
                "groups": list(host.groups),
                "jump": host.jump or None,
                "key_file": host.key_file or None,
                "bmc": host.bmc or None,
                "away": host.away or None,
                **({"key": keys[host.name]} if host.name in keys else {}),
                **({"explained": [picked(e, "what value source") for e in rows]} if rows else {}),
            }
            for host, rows in hosts
        ],
    }


def demo_document(
    nodes: Iterable[tuple[str, str, bool]], folder: str, *, reset: bool
) -> dict[str, Json]:
    """What demo prints: docs/demo.schema.json.

    :param nodes: name, what ails it, whether ``demo`` names it.
    :param reset: whether they were made anew just now.
    """
    return {
        "schema": DEMO,
        "folder": folder,
        "reset": reset,
        "nodes": [{"name": name, "about": about, "in_demo": small} for name, about, small in nodes],
    }


def explain(check: Check, paint: Painter) -> str:
    """What ``explain CHECK`` prints."""
    lines = [paint(check.id, Ink.BOLD), f"  {check.title}", ""]
    if check.why:
        lines += [*(f"  {line}".rstrip() for line in check.why.split("\n")), ""]
    paths = " and ".join(sorted(path.value for path in check.paths))
    lines += labelled("impact", f"{check.impact} when it fails", indent=2)
    lines += labelled("holds", check.tense.value, indent=2)
    lines += labelled("path", paths, indent=2)
    lines += labelled("fix", check.fix, indent=2)
    lines += labelled("source", check.source, indent=2)
    lines += labelled("code", home(check), indent=2)
    return "\n".join(lines)


def home(check: Check) -> str:
    """The file of a check, below a checkout: "toolkit/checks/modules/peermem.py"."""
    return check.judge.__module__.replace(".", "/") + ".py"


def listing(checks: tuple[Check, ...], *, wrapped: bool = False) -> str:
    """All checks, one line each, for grep; or wrapped as a terminal needs it."""
    rows = columns((check.id, check.impact.value, check.title) for check in checks)
    if not wrapped or not checks:
        return "\n".join(rows)
    indent = len(rows[0]) - len(checks[0].title)
    return "\n".join(line for row in rows for line in table.wrapped(row, rest=" " * indent))
