"""Triggers that an interrupted run still owes, as the node remembers them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from toolkit.facts.distros import Family
from toolkit.facts.node.node import Node
from toolkit.plan.act import Act
from toolkit.plan.acts import keeps_of
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Blocked


def owed(node: Node, family: Family, planned: tuple[Act, ...]) -> Iterator[Act | Blocked]:
    """What is pending on the node and neither planned anyway nor moot by now."""
    calls = {act.call for act in planned}
    builds = {_package(act.command) for act in planned if act.trigger is Trigger.BUILD_DKMS}
    for line in node.pending:
        words = _words(line)
        if not words or words[0] not in Trigger.__members__ or len(words) == 1:
            yield Blocked(
                "",
                f"/var/lib/gdr-toolkit/pending: a trigger that is not known: {line[:120]!r}",
                hint="another version of the toolkit left it; finish with that one, or roll back",
            )
            continue
        act = Act(Trigger[words[0]], words[1:], keeps_of(Trigger[words[0]], node, family))
        if act.call not in calls and not _moot(act, builds, node):
            yield act


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return ()


def _moot(act: Act, builds: set[tuple[str, str]], node: Node) -> bool:
    """DKMS refuses to add, remove or install twice; whatever else is owed may be repeated."""
    if act.command[0] != "dkms":
        return False
    package, version = _package(act.command)
    if (package, version) in builds:
        return True
    known = [each for each in node.dkms if (each.module, each.version) == (package, version)]
    match act.command[1:2]:
        case ("add",):
            return bool(known)
        case ("build" | "install",):
            kernel = act.command[act.command.index("-k") + 1 :][:1] if "-k" in act.command else ()
            return any((each.kernel,) == kernel and each.usable for each in known)
    return not known


def _package(command: tuple[str, ...]) -> tuple[str, str]:
    """Package and version that a DKMS command names: "-m P -v V" or "P/V"."""
    if "-m" in command and "-v" in command:
        return command[command.index("-m") + 1], command[command.index("-v") + 1]
    name, _, version = next((word for word in command[2:] if "/" in word), "").partition("/")
    return name, version
