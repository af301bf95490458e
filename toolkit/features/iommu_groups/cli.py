"""The verb that gives idle IOMMU groups another domain while their nodes run."""

from __future__ import annotations

from dataclasses import replace

from toolkit.cli.options import HOSTS, REACH, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.facts.pci.iommu import Domain
from toolkit.features.iommu_groups.plan import WANTED, Switching
from toolkit.features.iommu_groups.run import Asked, change, look, seen
from toolkit.features.iommu_groups.show import domain_lines
from toolkit.node.audit import of_run
from toolkit.plural import counted
from toolkit.report.document import Told
from toolkit.ssh.pool import broken_off
from toolkit.verbs.cli.session import Session, consent, fleet

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
        if said.flag("check") or said.dry or broken_off(looked):
            outcomes = [seen(each) for each in looked]
        else:
            todo = [each.value.switching.ready for each in looked if each.value]
            if not opened.demo and any(todo):
                nodes = sum(bool(each) for each in todo)
                on = counted(nodes, "node")
                consent(f"change IOMMU groups on {on}, under drivers that let go?", said)
            outcomes = change(opened, looked, asked)
    session.say("\n".join(domain_lines(outcomes, session.paint)).rstrip())
    told = [Outcome(e.host, _told(e.value), e.error) for e in outcomes]
    return session.finish(told, session.ended(outcomes, _code))


def _asked(said: Said) -> Asked:
    if said.flag("undo"):
        return Asked(None)
    known = {each.value: each for each in WANTED}
    if said.text("to") not in known:
        raise UsageError(f"--to {said.text('to')!r}", hint=f"one of {', '.join(known)}")
    addresses = tuple(each for each in said.text("device").lower().split(",") if each)
    return Asked(Domain(said.text("to")), addresses)


def _told(switching: Switching | None) -> Told | None:
    return Told(steps=switching.steps) if switching else None


def _code(outcome: Outcome[Switching]) -> ExitCode:
    return outcome.error.exit_code if outcome.error else outcome.get().exit_code
