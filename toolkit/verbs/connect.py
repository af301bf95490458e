"""Open a fleet: its hosts by name, and a transport to each."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolkit.errors import TransportError, UsageError
from toolkit.hosts.addresses import VAGRANT
from toolkit.hosts.host import NOTHING, Host, Machines, fold, narrow, refuse_many, select
from toolkit.ssh.become import Become
from toolkit.ssh.limits import Hearing, make_room
from toolkit.ssh.paramiko import SshTransport
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.transport import Transport
from toolkit.ssh.vagrant import read_machines
from toolkit.verbs.access import (
    TRANSPORTS,
    VIA,
    Access,
    Fleet,
    demo_folder,
    inventory_in,
    names_demo,
    names_ssh_config,
)

if TYPE_CHECKING:  # what speaks Redfish or Slurm is imported where either is given
    from toolkit.features.slurm.run.nodes import Site
    from toolkit.redfish.fleet import BmcFleet


def resolve(
    access: Access, machines: Callable[[], Machines], slurm: Site | None = None
) -> tuple[Host, ...]:
    """The hosts that ``access`` names, apart from demo nodes.

    :param machines: what Vagrant has; called only where one of its machines is named.
    :param slurm: whose nodes they must be.
    :raises UsageError: nothing named, an unknown name, or too many without consent.
    """
    inventory = inventory_in(access.inventory)
    if slurm is not None:
        from toolkit.features.slurm.run import nodes  # noqa: PLC0415 only they pay for it

        inventory = nodes.inventory_of(slurm, inventory)
    inventory = replace(inventory, machines=machines)
    named: list[Host] = []
    if access.hosts_file:
        from toolkit.hosts.inventory import read_host_file  # noqa: PLC0415 only they pay for it

        named += read_host_file(Path(access.hosts_file), inventory)
    if access.hosts:
        named += select(access.hosts, inventory)
    elif access.inventory and not access.hosts_file and slurm is None and not inventory.mixed:
        named += inventory.hosts.values()
    if not named:
        raise UsageError(
            "no hosts named",
            hint=f"{access.inventory} is an ssh_config, which has others as well: --hosts 'gpu*'"
            if inventory.mixed
            else "--hosts gpu[001-004], --hosts-file FILE, --inventory FILE, or --hosts demo",
        )
    hosts = narrow(named, inventory, exclude=access.exclude, limit=access.limit)
    refuse_many(hosts, yes=access.yes)
    if slurm is not None:
        nodes.refuse_strangers(hosts, slurm)
        slurm.watched = fold(map(nodes.node_name, hosts))
    return tuple(_by_option(host, user=access.user, key_file=access.key) for host in hosts)


def _by_option(host: Host, **said: str) -> Host:
    """With what options say of all hosts, where a host has nothing of its own."""
    ours = {name: text for name, text in said.items() if text and not getattr(host, name)}
    where = tuple((name, f"--{name.removesuffix('_file')}") for name in ours)
    return replace(host, **ours, sources=(*host.sources, *where)) if ours else host


@contextmanager
def open_fleet(access: Access, *, serve: bool = True) -> Iterator[Fleet]:
    """Resolve the hosts and start the demo nodes among them; they end with the block.

    :param serve: False for who asks none of them.
    :raises UsageError: likewise, and for an unknown transport.
    """
    if access.transport not in TRANSPORTS:
        raise UsageError(
            f"no transport {access.transport!r}", hint=f"known: {', '.join(TRANSPORTS)}"
        )
    if access.via not in VIA:
        raise UsageError(f"--via {access.via!r}: not known", hint="--via slurm, or leave it out")
    carried = access.transport == "srun"
    if carried and not access.via:
        raise UsageError("--transport srun is for the nodes of Slurm", hint="add --via slurm")
    if not access.ssh_config and names_ssh_config(access.inventory):
        access = replace(access, ssh_config=access.inventory)
    slurm = _slurm(access, carries=carried) if access.via else None
    with ExitStack() as stack:
        if names_demo(access.hosts, access.inventory or access.hosts_file, access.via):
            from toolkit.demo import fleet as demo  # noqa: PLC0415 only they pay for it

            if serve:
                nodes = stack.enter_context(demo.start(access.hosts, demo_folder())).hosts
            else:
                nodes = demo.named(access.hosts, demo_folder())
            hosts = narrow(nodes, NOTHING, exclude=access.exclude, limit=access.limit)
            refuse_many(hosts, yes=access.yes)
            connect = _connector(access, SshConfig(()))
            yield Fleet(hosts, connect, access, demo=True, bmcs=_bmcs(access, hosts, stack))
            return
        hosts = resolve(access, _vagrant(access, stack), slurm)
        make_room(min(access.fanout, len(hosts)), access.transport)
        file = Path(access.ssh_config) if access.ssh_config else None
        connect = _connector(access, SshConfig.load(file), slurm)
        bmcs = _bmcs(access, hosts, stack)
        yield Fleet(hosts, connect, access, bmcs=bmcs, slurm=slurm)


def _slurm(access: Access, *, carries: bool) -> Site:
    from toolkit.features.slurm.run.nodes import open_site  # noqa: PLC0415 only they pay for it

    return open_site(access.progress, carries=carries)


def _bmcs(access: Access, hosts: tuple[Host, ...], stack: ExitStack) -> BmcFleet | None:
    """The BMCs of the hosts, whose sessions end with ``stack``."""
    if access.bmc is None:
        return None
    from toolkit.redfish.fleet import open_bmcs  # noqa: PLC0415 only they pay for it

    return stack.enter_context(open_bmcs(access.bmc, hosts))


def _vagrant(access: Access, stack: ExitStack) -> Callable[[], Machines]:
    """Asks Vagrant, once; the keys of its machines are known for as long as ``stack`` is open."""

    @functools.cache
    def ask() -> Machines:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gdr-vagrant-"))
        return read_machines(str(Path(folder) / "known_hosts"), access.progress)

    return ask


def _connector(
    access: Access, config: SshConfig, slurm: Site | None = None
) -> Callable[[Host], Transport]:
    heard: dict[str, Hearing] = {}  # of a host, over all that is asked of it in this run

    def connect(host: Host) -> Transport:
        hearing = heard.setdefault(host.name, Hearing(host.name, access.room))
        if slurm is not None and slurm.carries:
            return _by_srun(host, access, slurm, hearing)
        _refuse_away(host, access)
        if access.transport in {"local", "openssh"}:
            return _by_program(host, access, hearing)
        return SshTransport(
            host,
            config=config,
            credentials=access.credentials,
            become=access.become,
            wrapped=access.wrapped,
            hearing=hearing,
        )

    return connect


def _refuse_away(host: Host, access: Access) -> None:
    """:raises TransportError: a machine of Vagrant does not run, or nothing of ours leads there."""
    name = host.name.removeprefix(VAGRANT)
    if host.away and host.name != name:
        raise TransportError(f"{host.name} is {host.away}", hint=f"vagrant up {name}")
    if host.away and access.transport != "local":
        hint = "leave it out, or say another way in its inventory"
        raise TransportError(f"{name} is {host.away}", hint=hint)


def _by_program(host: Host, access: Access, hearing: Hearing) -> Transport:
    """By a shell on this machine, or by the OpenSSH client."""
    if access.transport == "local":
        from toolkit.ssh.local import LocalTransport  # noqa: PLC0415 only they pay for it

        return LocalTransport(
            host.name,
            become=access.become,
            wrapped=access.wrapped,
            credentials=access.credentials,
            hearing=hearing,
        )
    from toolkit.ssh.openssh import OpensshTransport  # noqa: PLC0415 only they pay for it

    return OpensshTransport(
        host,
        config_file=access.ssh_config,
        credentials=access.credentials,
        become=access.become,
        wrapped=access.wrapped,
        hearing=hearing,
    )


def _by_srun(host: Host, access: Access, slurm: Site, hearing: Hearing) -> Transport:
    from toolkit.features.slurm.run.srun import SrunTransport  # noqa: PLC0415 only they pay for it

    become = Become(access.become, access.credentials.become_password, access.wrapped)
    say = functools.partial(access.progress.note, host.name)
    return SrunTransport(host, slurm, become, access.jobs_s, say, hearing)
