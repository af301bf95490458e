"""Which hosts, and how to get in: everything an operator says about reaching nodes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import UsageError
from toolkit.hosts.addresses import VAGRANT, is_name
from toolkit.hosts.host import NOTHING, Host, Inventory
from toolkit.package_data import PACKAGE, kept
from toolkit.progress import Progress, Silent
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import ANSWER, ROOM_S
from toolkit.ssh.pool import FANOUT
from toolkit.untrusted import read_host_text
from toolkit.want import Want

if TYPE_CHECKING:  # imported where a fleet is opened
    from toolkit.features.slurm.run.nodes import Site
    from toolkit.node.collect import Register
    from toolkit.node.inside import Inside
    from toolkit.redfish.access import BmcAccess
    from toolkit.redfish.fleet import BmcFleet
    from toolkit.ssh.transport import Transport

TRANSPORTS = ("paramiko", "openssh", "local", "srun")
VIA = ("", "slurm")


class Access(Struct, frozen=True):
    """What was said; nothing has been opened yet."""

    hosts: str = ""
    exclude: str = ""
    limit: str = ""
    inventory: str = ""
    hosts_file: str = ""
    user: str = ""
    key: str = ""
    ssh_config: str = ""
    transport: str = "paramiko"
    become: bool = True
    wrapped: bool = False  # by gdr-node, which runs the probe alone
    credentials: Credentials = field(default_factory=Credentials)
    fanout: int = FANOUT
    max_fail: str = ""
    yes: bool = False
    progress: Progress = field(default_factory=Silent)
    bmc: BmcAccess | None = None  # None: no BMC is asked
    via: str = ""  # "slurm": its nodes, and nothing is done to one that it has for others
    room: int = ANSWER  # bytes that one command of a node may say
    register: Register | None = None  # what the probe tries beside reading; None: nothing
    inside: Inside | None = None  # what runs the job and is looked into; None: nothing
    jobs_s: float = ROOM_S  # so long jobs are waited for, where we need a node to ourselves


def _close(_: Host, transport: Transport) -> None:
    transport.close()


class Fleet(Struct, frozen=True):
    """The resolved hosts, and a way to each."""

    hosts: tuple[Host, ...]
    connect: Callable[[Host], Transport]
    access: Access
    demo: bool = False  # simulated nodes: a reboot harms nobody
    bmcs: BmcFleet | None = None  # None: no BMC is asked
    slurm: Site | None = None  # None: nobody schedules jobs there, as far as we were told
    leave: Callable[[Host, Transport], None] = _close  # after looking

    def only(self, names: Iterable[str]) -> Fleet:
        """The same with the hosts of these names alone: those that an earlier run changed.

        :raises UsageError: one of them is known no more.
        """
        wanted = set(names)
        hosts = tuple(host for host in self.hosts if host.name in wanted)
        if lacking := sorted(wanted - {host.name for host in hosts}):
            raise UsageError(
                f"no host of that name any more: {', '.join(lacking)}",
                hint="name those that there are with --hosts",
            )
        return replace(self, hosts=hosts)


def site_file(site: str) -> Path | None:
    """The site's file, of its folder where that is named; None without one."""
    file = Path(site, "site.toml") if site and Path(site).is_dir() else Path(site)
    return file if site and (file.exists() or file == Path(site)) else None


def wanted(profile: str, site: str) -> Want:
    """The wanted state, by the name of a profile and the site's file or folder; "" for none.

    :raises UsageError: one of them cannot be read.
    """
    if site and Path(site).is_dir():
        from toolkit.verbs.site_folder import load  # noqa: PLC0415 only they pay for it

        return load(profile, Path(site))
    return Want.load(profile, site=site_file(site))


def state_dir() -> Path:
    """Where runs and demo nodes are kept.

    :raises UsageError: nobody knows where the user keeps state.
    """
    return kept("XDG_STATE_HOME", "~/.local/state")


def demo_folder() -> Path:
    """Where the demo nodes of this very installation lie: what another one heals is not ours."""
    name = hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:12]  # no path: PATH takes no colon
    return state_dir() / "demo" / name


def inventory_in(file: str) -> Inventory:
    """The site's own inventory; "" for none. Of an ssh_config its Host lines name the hosts.

    :raises UsageError: it cannot be read.
    """
    if not file:
        return NOTHING
    if names_ssh_config(file):
        from toolkit.safe_file import others_may_write  # noqa: PLC0415 likewise
        from toolkit.ssh.ssh_config_file import host_names  # noqa: PLC0415 likewise

        if why := others_may_write(Path(file)):  # it says what ssh runs here
            raise UsageError(f"{file}: {why}", hint="ssh runs what stands in it: chmod go-w FILE")
        names = [each for each in host_names(Path(file)) if is_name(each)]
        return Inventory({name: Host(name) for name in names}, mixed=True)
    from toolkit.hosts.inventory import read_inventory  # noqa: PLC0415 only they pay for it

    return read_inventory(Path(file))


def names_ssh_config(inventory: str) -> bool:
    """Whether the inventory is an ssh_config, by its text."""
    if not Path(inventory).is_file():
        return False
    from toolkit.ssh.ssh_config_file import is_ssh_config  # noqa: PLC0415 likewise

    return is_ssh_config(read_host_text(Path(inventory)))


def names_demo(hosts: str, listed: str, via: str) -> bool:
    """Whether simulated nodes are meant.

    :param listed: a site's own inventory or host file; it goes first, whatever is in it.
    :param via: who else knows the nodes, which goes first likewise.
    :raises UsageError: others are, too.
    """
    if listed or via or "demo" not in hosts:
        return False
    from toolkit.demo.nodes import fleet_names  # noqa: PLC0415 only they pay for it

    if VAGRANT not in hosts:
        return bool(fleet_names(hosts))
    others = ",".join(each for each in hosts.split(",") if VAGRANT not in each)
    if fleet_names(others):
        raise UsageError(
            f"{hosts}: demo nodes cannot be mixed with machines of Vagrant",
            hint="one run for each",
        )
    return False
