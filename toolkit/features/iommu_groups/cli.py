"""IOMMU groups: the verb that gives idle ones another domain while nodes run, and its output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from toolkit.cli.options import HOSTS, REACH, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, code_of
from toolkit.facts.pci.iommu import Domain
from toolkit.features.iommu_groups.plan import WANTED, Switch, Switching
from toolkit.features.iommu_groups.run import GroupsRequest, change, look
from toolkit.hosts.host import fold
from toolkit.node.audit import of_run
from toolkit.plural import counted
from toolkit.report.document import Told
from toolkit.report.table import Ink, Painter, clean, labelled
from toolkit.report.text import errors
from toolkit.ssh.pool import broken_off
from toolkit.verbs.cli.session import Session, consent, fleet


def domain_lines(outcomes: Sequence[Outcome[Switching]], paint: Painter) -> list[str]:
    """One part a set of nodes of which the same is told, then what went wrong."""
    groups: dict[Switching, list[str]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            groups.setdefault(outcome.value, []).append(outcome.host)
    lines: list[str] = []
    for told, hosts in groups.items():
        lines += [paint(clean(fold(hosts)), Ink.BOLD), *_node(told, paint), ""]
    return lines + errors(((each.host, each.error) for each in outcomes), paint)


def _node(told: Switching, paint: Painter) -> Iterator[str]:
    if not told.switches:
        yield "  nothing to change: no IOMMU group of an HCA, or none that was changed before"
    for switch in told.switches:
        yield from _group(switch, told, paint)
    for step in told.steps:
        yield from labelled("did", step)


def _group(switch: Switch, told: Switching, paint: Painter) -> Iterator[str]:
    word, ink = "would change", Ink.YELLOW
    if switch.same:
        word, ink = "as wanted", Ink.GREEN
    elif switch.obstacles:
        word, ink = "refused", Ink.RED
    elif told.done:
        word, ink = "changed", Ink.GREEN
    devices = ", ".join(
        f"{each.address} ({each.driver})" if each.driver else each.address
        for each in switch.group.devices
    )
    way = f"{switch.group.domain} -> {switch.to}" if not switch.same else switch.to.value
    head = f"  group {switch.group.number}".ljust(12)
    yield f"{head} {paint(word.ljust(13), ink)}{way}"
    yield from labelled("devices", devices)
    for obstacle in switch.obstacles:
        yield from labelled("because", obstacle.text)
        yield from labelled("next", obstacle.hint)


DOMAINS = (
    Option("to", "identity", "identity (passed through), DMA or DMA-FQ (translated)"),
    Option("device", "", "groups of these PCI addresses, in place of those of all HCAs", many=True),
    Option("check", False, "change nothing; exit 7 where something would be changed"),
    Option("undo", False, "give groups what they had before, as far as this boot remembers"),
    Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
)


@verb(HOSTS, REACH, DOMAINS)
def iommu(said: Said) -> ExitCode:
    """Give the IOMMU groups of idle HCAs another domain, without a reboot.

    Their drivers let go of them for it, so it refuses where our SSH session, the default route,
    a mount, a disk or a process depends on them, and names it. It lasts until the next boot:
    provision sees to that one. See docs/iommu.md.

    Exits 0 when all have it, 5 where a node refused or a step failed, 3 where it cannot be told
    what depends.

    Examples:
      invoke iommu --hosts gpu[001-128] --check
      invoke iommu --hosts gpu007 --device 0000:19:00.0
      invoke iommu --hosts gpu007 --undo
    """
    session = Session.begin("iommu", said)
    asked = replace(_asked(said), audit=of_run(session.folder.path.name))
    with fleet(said) as opened:
        looked = look(opened, asked)
        if said.looks or broken_off(looked):
            outcomes = [each.map(lambda look: look.switching) for each in looked]
        else:
            todo = [each.value.switching.ready for each in looked if each.value]
            if not opened.demo and any(todo):
                nodes = sum(bool(each) for each in todo)
                on = counted(nodes, "node")
                consent(f"change IOMMU groups on {on}, under drivers that let go?", said)
            outcomes = change(opened, looked, asked)
    session.say("\n".join(domain_lines(outcomes, session.paint)).rstrip())
    told = [each.map(lambda done: Told(steps=done.steps)) for each in outcomes]
    return session.finish(told, session.ended(outcomes, code_of))


def _asked(said: Said) -> GroupsRequest:
    if said.flag("undo"):
        return GroupsRequest(None)
    known = {each.value: each for each in WANTED}
    if said.text("to") not in known:
        raise UsageError(f"--to {said.text('to')!r}", hint=f"one of {', '.join(known)}")
    addresses = tuple(each for each in said.text("device").lower().split(",") if each)
    return GroupsRequest(Domain(said.text("to")), addresses)
