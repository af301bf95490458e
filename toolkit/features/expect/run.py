"""Read nodes for what they have; change nothing."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.checks.learned import Had, had
from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.slurm.run.nodes import node_name
from toolkit.hosts.host import Host
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each, on_saved
from toolkit.verbs.reading import read_node


def had_all(fleet: Fleet, folder: RunFolder) -> list[Outcome[Had]]:
    """Ask every node once; of its evidence, kept in the run's folder, only a summary remains."""

    def work(host: Host, transport: Transport) -> Had:
        evidence = read_node(fleet, host, transport)
        folder.keep_evidence(host.name, evidence)
        return had(host.name, Node(evidence))

    return on_each(fleet, "reading", work)


def had_saved(saved: Iterable[tuple[str, Evidence]]) -> list[Outcome[Had]]:
    """The same of evidence that was saved earlier; one node's at a time is held."""
    return on_saved(saved, lambda name, evidence: had(name, Node(evidence)))


def gres_of(fleet: Fleet) -> dict[str, int]:
    """GPUs by host, as Slurm's Gres has them; none where Slurm was not asked."""
    nodes = fleet.slurm.nodes if fleet.slurm else {}
    told = {host.name: nodes[node_name(host)].gpus for host in fleet.hosts} if nodes else {}
    return {name: gpus for name, gpus in told.items() if gpus is not None}
