"""IOMMU groups with their devices, and what these carry: what domains.sh read."""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.compat.reader import maker
from toolkit.errors import Unparsable
from toolkit.evidence import Evidence, State
from toolkit.facts.lines import rows
from toolkit.facts.modules.module_users import Holding, parse_holding
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.versions import Version

NETWORK = 0x02  # the base class of PCI that HCAs have
_INFINIBAND = 0x0207
_CARRIED = re.compile(r"([^ ]*) ([^ ]*) (.*)")
_BEFORE = re.compile(r"([^ ]*) ([^ ]*)")


class GroupDevice(Struct, frozen=True):
    """One device of a group."""

    address: str  # "0000:19:00.0"; another name for one that is not of PCI
    klass: int  # 24 bits: 0x020700; -1 for one that is not of PCI
    vendor: int  # likewise
    driver: str  # "mlx5_core"; "" for none
    functions: int  # virtual functions that hang on it
    device: int = -1  # its id; likewise

    @property
    def network(self) -> bool:
        """Whether it is a card of a network, HCAs among them."""
        return self.klass >> 16 == NETWORK

    @property
    def hca(self) -> bool:
        """Whether it may be an HCA of any maker by what it says of itself, driven or not."""
        known = maker(self.vendor, self.device) is not None
        return self.network and (self.klass >> 8 == _INFINIBAND or known)


class Group(Struct, frozen=True):
    """One IOMMU group."""

    number: str
    domain: Domain
    writable: bool  # the kernel takes another type
    devices: tuple[GroupDevice, ...]  # () where the node lists none: then they are not known


class CarriedDevice(Struct, frozen=True):
    """A net device, a disk or an RDMA device, and what it hangs on."""

    kind: str  # "net", "block", "infiniband"
    name: str
    path: str  # below /sys: "/sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0/net/ens1"

    def below(self, addresses: frozenset[str]) -> bool:
        """Whether one of these devices is on its way to the root complex."""
        return bool(addresses.intersection(self.path.split("/")))


class Domains(Struct, frozen=True):
    """What a node says of its groups."""

    kernel: Version
    groups: tuple[Group, ...]
    carried: tuple[CarriedDevice, ...]
    holding: Holding
    before: dict[str, str]  # by address: the type before we changed it in this boot


def parse_domains(evidence: Evidence) -> Domains:
    """Read the frames of domains.sh.

    :raises NoEvidence: where something could not be read: then nobody knows what depends.
    :raises Unparsable: at a line of another shape.
    """
    before = evidence.frame("domains-before")
    gone = before.state is State.ABSENT
    changed = "" if gone else evidence.text("domains-before")
    # Of a device that was changed twice the first row tells what it had before.
    rows_before = reversed(list(rows(changed, _BEFORE, "/run/gdr-toolkit/domains")))
    return Domains(
        Version(evidence.text("kernel-release").strip()),
        parse_groups(evidence.text("groups")),
        tuple(
            CarriedDevice(*row.groups())
            for row in rows(evidence.text("carried"), _CARRIED, "/sys/class")
        ),
        parse_holding(evidence),
        {row[1]: row[2] for row in rows_before},
    )


def parse_groups(text: str) -> tuple[Group, ...]:
    """Read "GROUP TYPE WRITABLE ADDRESS CLASS IDS DRIVER VFS" lines; IDS "0x15b3:0x1021", or "-".

    ADDRESS is "-" where the node lists no device.

    :raises Unparsable: at a line of another shape, or a type that the kernel does not document.
    """
    found: dict[str, Group] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            group, kind, writable, *rest = line.split(" ")
            device = _device(*rest)
            known = found.get(group) or Group(group, Domain(kind), writable == "yes", ())
        except (TypeError, ValueError) as why:
            raise Unparsable("/sys/kernel/iommu_groups", line, number) from why
        devices = (*known.devices, device) if device.address != "-" else known.devices
        found[group] = Group(group, known.domain, known.writable, devices)
    return tuple(found.values())


def _device(address: str, klass: str, ids: str, driver: str, functions: str) -> GroupDevice:
    vendor, _, device = ids.partition(":")
    return GroupDevice(
        address,
        -1 if klass == "-" else int(klass, 16),
        -1 if vendor == "-" else int(vendor, 16),
        "" if driver == "-" else driver,
        int(functions),
        -1 if device in {"", "-"} else int(device, 16),
    )
