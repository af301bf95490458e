"""Give idle IOMMU groups another domain while their nodes run; else say who depends on them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import ApplyError, Outcome
from toolkit.evidence import Evidence
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.iommu_groups import parse_domains, parse_groups
from toolkit.features.iommu_groups import io as reach
from toolkit.features.iommu_groups.plan import Switching, back, switches
from toolkit.hosts.host import Host
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each


class GroupsRequest(Struct, frozen=True):
    """What the operator asked for."""

    to: Domain | None  # None: what each group had before we changed it
    addresses: tuple[str, ...] = ()  # devices whose groups are meant; () for those of HCAs
    wait_s: int = 60  # for another run's lock
    audit: str = ""  # who has it done, and why: for the node's own log


class GroupsReading(Struct, frozen=True):
    """A node as it was judged."""

    look: Evidence
    switching: Switching


def look(fleet: Fleet, asked: GroupsRequest) -> list[Outcome[GroupsReading]]:
    """What would be done on each node; changes nothing."""
    ssh = fleet.access.transport != "local"

    def work(_: Host, transport: Transport) -> GroupsReading:
        evidence = reach.ask(transport)
        domains = parse_domains(evidence)
        if asked.to is None:
            found = back(domains, ssh=ssh)
        else:
            found = switches(domains, asked.to, asked.addresses, ssh=ssh)
        return GroupsReading(evidence, Switching(found))

    return on_each(fleet, "looking at IOMMU groups", work)


def change(
    fleet: Fleet, looked: Sequence[Outcome[GroupsReading]], asked: GroupsRequest
) -> list[Outcome[Switching]]:
    """Change the groups that nothing stands in the way of; the others stay as they are."""
    before = {each.host: each.value for each in looked if each.value is not None}
    meant = [
        each for each in fleet.hosts if each.name in before and before[each.name].switching.ready
    ]

    def work(host: Host, transport: Transport) -> Switching:
        now = before[host.name]
        ready = now.switching.ready
        text = reach.change_script(
            now.look, [each.word for each in ready], asked.wait_s, asked.audit
        )
        changed = reach.change(transport, text)
        after = {each.number: each.domain for each in parse_groups(changed.groups)}
        wrong = [each for each in ready if after.get(each.group.number) is not each.to]
        if wrong:
            told = ", ".join(f"{e.group.number}: {after.get(e.group.number)}" for e in wrong)
            raise ApplyError(
                f"{transport.name}: groups have another domain than they were given: {told}",
                hint="look again: iommu --check",
            )
        return replace(now.switching, steps=changed.steps, done=True)

    told = {each.host: each.map(lambda look: look.switching) for each in looked}
    if meant:
        told |= {each.host: each for each in on_each(fleet, "changing", work, hosts=meant)}
    return list(told.values())
