"""What nodes need built: each kernel, driver and OFED once, however many nodes have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from toolkit.errors import ExitCode, NoEvidence, Outcome, Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.features.builds.plan.made import Need
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each

INBOX = "inbox"  # as a version of OFED: none is installed


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """What one node needs: a need for each kernel that it runs or boots next."""

    needs: tuple[Need, ...]
    remark: str = ""  # "" or a sentence: what could not be learnt


def needs_of(
    fleet: Fleet, folder: RunFolder, kernels: Sequence[str] = ()
) -> list[Outcome[NodeNeeds]]:
    """Ask every node once.

    :param kernels: in place of those that the nodes run and boot next.
    """

    def work(host: Host, transport: Transport) -> NodeNeeds:
        evidence = collect(transport)
        folder.keep_evidence(host.name, evidence)
        return needs_of_node(host.name, evidence, kernels)

    return on_each(fleet, "reading", work)


def needs_of_node(host: str, evidence: Evidence, kernels: Sequence[str] = ()) -> NodeNeeds:
    """What one node needs, from its evidence.

    :raises NoEvidence: its driver or its kernel is not known.
    """
    node = Node(evidence)
    driver = _driver(node)
    if not driver:
        raise NoEvidence(
            f"{host}: no NVIDIA driver is loaded, and DKMS has none: nothing tells its version",
            hint="say what to build: --driver VERSION --kernel RELEASE, without --hosts",
        )
    wanted, remark = (tuple(kernels), "") if kernels else _kernels(host, node)
    ofed = _ofed(node)
    arch = node.arch
    return NodeNeeds(tuple(Need((each,), driver, ofed, (host,), arch) for each in wanted), remark)


def shared(found: Iterable[NodeNeeds]) -> tuple[Need, ...]:
    """The same needs of many nodes as one, in the order in which they came up."""
    nodes: dict[Need, list[str]] = {}
    for each in found:
        for need in each.needs:
            nodes.setdefault(replace(need, nodes=()), []).extend(need.nodes)
    return tuple(replace(need, nodes=tuple(names)) for need, names in nodes.items())


def _kernels(host: str, node: Node) -> tuple[tuple[str, ...], str]:
    """The kernel that runs and the one that boots next; a sentence where one is not known."""
    running = [node.kernel] if node.live else []
    try:
        return tuple(dict.fromkeys([*running, node.default_kernel])), ""
    except (NoEvidence, Unparsable) as why:
        if not running:
            raise
        return tuple(running), f"{host}: only for the kernel that runs: the next boot's: {why}"


def _driver(node: Node) -> str:
    """What DKMS would install decides over what happens to be loaded; "" where neither tells."""
    if node.driver_dkms:
        found = {each.version for each in node.dkms if each.module == node.driver_dkms}
        if len(found) == 1:
            return found.pop()
    return str(node.driver.version) if node.driver else ""


def _ofed(node: Node) -> str:
    """Version of OFED in DKMS's words; what its packages say where it is not by DKMS."""
    if node.ofed_dkms:
        found = {each.version for each in node.dkms if each.module == node.ofed_dkms}
        if len(found) == 1:
            return found.pop()
    if node.ofed.flavour is OfedFlavour.INBOX:
        return INBOX
    return str(node.ofed.version) if node.ofed.version else ""


def unread(outcomes: Iterable[Outcome[NodeNeeds]]) -> list[Outcome[object]]:
    """The nodes of which nothing could be learnt."""
    # Not Outcome[object](...): a frozen class with slots cannot be told its parameter.
    return [Outcome(each.host, error=each.error) for each in outcomes if each.error]


def codes_of(unread: Iterable[Outcome[object]]) -> list[ExitCode]:
    """What they make the run end with, however well the rest goes."""
    return [each.error.exit_code for each in unread if each.error is not None]
