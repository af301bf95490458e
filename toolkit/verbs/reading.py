"""All that is known of one node at one moment: what it says, and what its BMC says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each

T = TypeVar("T")


def read_node(fleet: Fleet, host: Host, transport: Transport) -> Evidence:
    """Ask the node, and then its BMC where one was given.

    :raises TransportError: the node could not be asked; a BMC that could not is in the evidence.
    """
    evidence = collect(transport)
    if fleet.bmcs is None:
        return evidence
    fleet.access.progress.note(host.name, "reading its BMC")
    return evidence.plus(fleet.bmcs.frames(host))


def read_each(
    fleet: Fleet, folder: RunFolder, work: Callable[[str, Evidence], T]
) -> list[Outcome[T]]:
    """Ask every node once, and keep its evidence in the run's folder; ``work`` has it next.

    :param work: is called from many threads, with the host's name.
    """

    def one(host: Host, transport: Transport) -> T:
        evidence = read_node(fleet, host, transport)
        folder.keep_evidence(host.name, evidence)
        return work(host.name, evidence)

    return on_each(fleet, "reading", one)
