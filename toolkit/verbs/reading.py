"""All that is known of one node at one moment: what it says, and what its BMC says."""

from __future__ import annotations

from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet


def read_node(fleet: Fleet, host: Host, transport: Transport) -> Evidence:
    """Ask the node, and then its BMC where one was given.

    :raises TransportError: the node could not be asked; a BMC that could not is in the evidence.
    """
    evidence = collect(transport, register=fleet.access.register)
    if fleet.bmcs is None:
        return evidence
    fleet.access.progress.note(host.name, "reading its BMC")
    return evidence.plus(fleet.bmcs.frames(host))
