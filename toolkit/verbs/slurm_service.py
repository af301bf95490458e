"""How nodes are reached while Slurm has them: whose they are is asked before each word."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import ToolkitError
from toolkit.features.slurm.plan import IN_HAND, SlurmStand, left_alone, reason, stand
from toolkit.features.slurm.run.nodes import Site, SlurmHeld, node_name
from toolkit.features.slurm.run.service import refuse
from toolkit.features.slurm.run.srun import SrunTransport
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.rollout.budget import Unavailable, nobody
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs.access import Fleet


def kept_off(fleet: Fleet, run: str) -> Fleet:
    """The fleet, with no way to nodes that are not this run's to change.

    They count as out of reach: unavailable, whatever becomes of the others.
    """
    site = fleet.slurm
    if site is None:
        return fleet

    def connect(host: Host) -> Transport:
        refuse(host, site.settled(site.glance(node_name(host))), run)
        inner = fleet.connect(host)
        if not isinstance(inner, SrunTransport):
            return Scheduled(inner, host, site, run)
        inner.owner = run
        return Scheduled(inner, host, site, run, let_go=inner.close)

    return replace(fleet, connect=connect)


def held_elsewhere(site: Site | None, run: str) -> Unavailable:
    """Whom of a run's hosts Slurm has out of service for others, or down; asked as it goes on."""
    if site is None:
        return nobody

    def ask() -> Mapping[str, str]:
        nodes = site.glances(time.monotonic())  # whoever asks has waited since it last did
        told = {name: left_alone(node, run) for name, node in nodes.items()}
        return {name: f"Slurm has it {why}" for name, why in told.items() if why}

    return ask


def not_idle(fleet: Fleet) -> dict[str, str]:
    """By host, why Slurm would have us leave it alone: its jobs, a drain of others, or it is down.

    Nodes that srun reaches are held by jobs of ours, and are not asked of.
    """
    site = fleet.slurm
    if site is None or site.carries:
        return {}
    nodes = site.glances()
    found: dict[str, str] = {}
    for host in fleet.hosts:
        node = nodes.get(node_name(host))
        if node is None:
            found[host.name] = "Slurm has no such node any more"
        elif node.working:
            found[host.name] = "Slurm has jobs on it"
        elif why := left_alone(node, ""):
            found[host.name] = f"Slurm has it {why}"
    return found


class Scheduled(Struct, frozen=True):
    """A node on the way that it always has, but rebooted by Slurm.

    Then slurmctld does not wonder, and the site's own RebootProgram is what reboots.
    """

    inner: Transport
    host: Host
    site: Site
    run_id: str
    let_go: Callable[[], None] = lambda: None  # of jobs of ours, which a reboot waits for

    @property
    def name(self) -> str:
        return self.inner.name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        return self.inner.run(script, limit_s=limit_s, sink=sink)

    def close(self) -> None:
        self.inner.close()

    def restart(self, boot_id: str, wait_s: int) -> None:
        """As ``deliver.restart``, by ``scontrol reboot`` where the site has a RebootProgram.

        Said without ASAP and without a next state: with either, Slurm takes the drain away as
        the node comes back, before anybody has looked, and with it a drain that others have
        put on meanwhile. Ours is on already, so there is nothing to hasten.

        :raises Held: others have taken the node, or given it back, since we drained it.
        """
        name = node_name(self.host)
        node = self.site.look(name)
        if stand(node, self.run_id) is not SlurmStand.OURS:
            others = left_alone(node, self.run_id) or "it was given back to service"
            raise SlurmHeld(
                f"{self.host.name}: not rebooted: {others}",
                hint="what was done before stands, and a reboot is owed: run again later",
            )
        if not self.site.config.reboot_program:
            deliver.restart(self.inner, boot_id, wait_s=wait_s)
            return
        deliver.restart(self.inner, boot_id, wait_s=wait_s, by_itself=False)
        try:
            self.let_go()
            self.site.commands.reboot(name, reason(self.run_id, f"{IN_HAND}, rebooting"))
        except ToolkitError:
            deliver.release(self.inner)
            raise
