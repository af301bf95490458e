"""RDMA ports beyond their state, daemons, and what the driver says of its GPUs."""

from __future__ import annotations

import re

from msgspec.structs import replace

from toolkit.errors import NeedsRoot, NoEvidence, Unparsable
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.firmware.machine import CONTAINERS, parse_detect_virt
from toolkit.facts.gpu.smi_forms import parse_nvlink_status
from toolkit.facts.gpu.smi_query import SmiReport, parse_smi_csv, parse_smi_query, parse_smi_table
from toolkit.facts.lines import filled
from toolkit.facts.nccl.containers import Daemon, parse_daemons
from toolkit.facts.rdma.devices import Kind, RdmaDevice
from toolkit.facts.rdma.ibstat import parse_ibdev2netdev, parse_ibstat, parse_ibv_devinfo
from toolkit.facts.rdma.rdma_lists import (
    parse_device_names,
    parse_ibstatus,
    parse_rdma_link,
    parse_show_gids,
)
from toolkit.facts.rdma.roce import (
    Gid,
    Qos,
    parse_ecn,
    parse_gids,
    parse_mlnx_qos,
    parse_net_devices,
    parse_pkeys,
)
from toolkit.facts.reading import Reading, given, parsed, where_given, where_there
from toolkit.facts.services import Service, parse_services
from toolkit.facts.versions import Version

SMI_TABLE, NVLINKS = "nvidia-smi-table", "nvlink-status"  # frames that no probe prints
_PORTS = {  # the more telling first
    "ibstat": parse_ibstat,
    "ibv-devinfo": parse_ibv_devinfo,
    "ibstatus": parse_ibstatus,
    "rdma-link": parse_rdma_link,
    "ibdev2netdev": parse_ibdev2netdev,
}
_PROVIDER = re.compile(
    r"couldn't load driver '([^']+)'|no userspace device-specific driver found ()"
)


class Fabric(Reading):
    """RDMA ports beyond their state, daemons, and what the driver says of its GPUs."""

    @property
    def probed(self) -> bool:
        """Whether the probe read this; else it was put together from loose files.

        What the probe lost is lost: what another tool says does not take its place.
        """
        return self._given("uid") or self._given("hostname")

    @fact
    def said_devices(self) -> tuple[RdmaDevice, ...]:
        """RDMA devices as a tool printed them, for evidence put together from loose files.

        Their net devices and GUIDs, and devices that were cut off, are told by others beside it.

        :raises NoEvidence: where no such output is given, it cannot tell of a port, or all that
            it tells is up and another list has a device more.
        """
        found = {each.name: each for each in self._ports_said()}
        others = (*self._ports_beside(), *(self.listed_devices or ()))
        for each in others:
            if each.ports and all(port.state for port in each.ports):
                found.setdefault(each.name, each)
        lost = [e.name for e in others if e.kind is Kind.HCA and e.name not in found]
        if lost and all(any(port.up for port in each.ports) for each in found.values()):
            why = f"{lost[0]} stands in one list of RDMA devices and not in another: cut?"
            raise NoEvidence(why, hint="ibstat, whole")
        return tuple(self._with_names(each, others) for each in found.values())

    @staticmethod
    def _with_names(one: RdmaDevice, others: tuple[RdmaDevice, ...]) -> RdmaDevice:
        same = [each for each in others if each.name == one.name]
        nets = next((each.netdevs for each in same if each.netdevs), ())
        guids = next((each.guids for each in same if any(each.guids)), one.guids)
        return replace(
            one, netdevs=one.netdevs or nets, guids=one.guids if any(one.guids) else guids
        )

    def _ports_beside(self) -> tuple[RdmaDevice, ...]:
        """What further lists of ports name; those that cannot be read name none."""
        found: tuple[RdmaDevice, ...] = ()
        for key, parse in _PORTS.items():
            if self._given(key):
                try:
                    found += parse(self._text(key))
                except Unparsable:
                    continue
        return found

    def _ports_said(self) -> tuple[RdmaDevice, ...]:
        key = next(filter(self._given, _PORTS), "infiniband")  # which is not given: it says so
        devices = _PORTS.get(key, parse_ibstat)(self._text(key))
        up = all(port.up for each in devices for port in each.ports)
        if key == "ibdev2netdev" and not up:
            why = "ibdev2netdev: a net device is down, which tells nothing of its port"
            raise NoEvidence(why, hint="ibstat")
        return devices

    @fact
    def listed_devices(self) -> tuple[RdmaDevice, ...] | None:
        """RDMA devices by name alone, from ibv_devices or rdma dev; None where neither is given."""
        given = [key for key in ("ibv-devices", "rdma-dev") if self._given(key)]
        return parse_device_names(self._text(given[0])) if given else None

    @fact
    def devinfo(self) -> dict[str, RdmaDevice] | None:
        """What user space sees, by name; None where the node has no ibv_devinfo."""
        if not self._there("ibv-devinfo"):
            return None
        return {each.name: each for each in parse_ibv_devinfo(self._text("ibv-devinfo"))}

    @fact
    def devinfo_trouble(self) -> str:
        """Why user space sees no RDMA device, where ibv_devinfo says so; "" else."""
        state = self._state("ibv-devinfo")
        if state is not State.FAILED and (self.probed or state is not State.OK):
            return ""
        said = self.sources.frame("ibv-devinfo").text
        # libibverbs warns of each provider that is missing, of adapters that are not here as well.
        if re.search(r"^hca_id:", said, re.MULTILINE) or (not self.probed and self.listed_devices):
            return ""
        names = dict.fromkeys(each[1] for each in _PROVIDER.finditer(said))
        if names:
            named = ", ".join(each for each in names if each) or "for its device"
            return f"user space has no provider {named}"
        return "user space finds no RDMA device" if "No IB devices found" in said else ""

    devinfo_given = given("ibv-devinfo")

    @fact
    def devinfo_failed(self) -> bool:
        return self._state("ibv-devinfo") is State.FAILED

    @fact
    def gids(self) -> tuple[Gid, ...]:
        """GIDs in use, of every port."""
        if self._given("show-gids") and not self._given("rdma-gids"):
            return parse_show_gids(self._text("show-gids"))
        return parse_gids(self._text("rdma-gids"))

    @fact
    def pkeys(self) -> dict[tuple[str, int, int], str]:
        """P_Keys by device, port and index: "0xffff".

        :raises NoEvidence: where there is none at all: each port has one, so none was read.
        """
        found = parse_pkeys(self._text("rdma-gids"))
        if not found:
            raise NoEvidence("/sys/class/infiniband/*/ports/*/pkeys: not read")
        return found

    # Units by name, from ``systemctl`` given as a loose file; none where it was not.
    services = where_given("systemctl-status", parse_services, dict[str, Service]())
    # Network devices by name, without those of containers.
    net_devices = parsed("net-devices", parse_net_devices)

    @fact
    def qos_asked(self) -> dict[str, str]:
        """The frame of priorities of each RoCE port that was asked, by its net device."""
        keys = [k for k in self.sources.names() if re.fullmatch(r"mlnx-qos(-[0-9]{1,3})?", k)]
        return {
            self.sources.frame(key).source.split(" ")[-1]: key for key in keys if self._there(key)
        }

    def qos(self, net: str) -> Qos:
        """Priorities of a port that was asked.

        :raises NoEvidence: where it did not answer; Unparsable where it said something else.
        """
        return parse_mlnx_qos(self._text(self.qos_asked[net]))

    # By net device where ECN is on, for those whose driver shows it, which is OFED's.
    roce_ecn = parsed("roce-ecn", parse_ecn)

    @fact
    def container(self) -> str:
        """The kind of container that the probe ran in; "" for none."""
        if self._there("virt"):
            return self.virtualization if self.virtualization in CONTAINERS else ""
        return "container" if self._text("container-marks").strip() else ""

    @fact
    def virtualization(self) -> str:
        """What systemd-detect-virt says: "none", "kvm", "docker"; "" where it is not there."""
        state = self._state("virt")
        if state is State.ABSENT:
            return ""
        # It fails where there is nothing to detect, and says so.
        said = self.sources.frame("virt").text if state is State.FAILED else self._text("virt")
        return parse_detect_virt(said)

    @fact
    def daemons(self) -> tuple[Daemon, ...]:
        """Daemons that run, of those that matter here.

        :raises NoEvidence: where those of the node cannot be seen.
        """
        found = parse_daemons(self._text("daemons"))
        if self.container:
            raise NoEvidence(f"/proc: inside a {self.container} daemons of the node are not seen")
        root = self._text("uid").strip() == "0"
        # With hidepid a user sees no process of others, not even the first.
        if not root and self._state("limits-now") is not State.OK:
            raise NeedsRoot("/proc: processes of others are hidden")
        return found

    @fact
    def imex_channels(self) -> tuple[str, ...]:
        return tuple(self._text("imex-channels").split())

    @fact
    def fabric_manager(self) -> Version | None:
        """Version of the fabric manager on disk; None where it is not installed on the node."""
        if not self._there("fabricmanager-version"):
            return None
        said = self._text("fabricmanager-version")
        found = re.search(r"\b\d{3,}(\.\d+)+", said)
        if found is None:
            raise Unparsable("nv-fabricmanager --version", said.strip())
        return Version(found[0])

    @fact
    def smi(self) -> SmiReport:
        """The GPUs as nvidia-smi tells them, all of them.

        :raises NoEvidence: where the text is cut, so that some may be missing.
        """
        told = self.smi_shown
        if told.lacks:
            raise NoEvidence(f"nvidia-smi -q: {told.lacks}", hint="nvidia-smi -q, whole")
        return told

    @fact
    def smi_shown(self) -> SmiReport:
        """The GPUs that ``nvidia-smi -q`` shows, or its CSV or table given as a loose file."""
        if not self._given("nvidia-smi-q") and self._given("nvidia-smi-csv"):
            return parse_smi_csv(self._text("nvidia-smi-csv"))
        if not self._given("nvidia-smi-q") and self._given(SMI_TABLE):
            return parse_smi_table(self._text(SMI_TABLE))
        return parse_smi_query(self._text("nvidia-smi-q"))

    has_nvlinks = given(NVLINKS)
    # The NVLinks of each GPU, from ``nvidia-smi nvlink -s`` given as a loose file.
    nvlinks = parsed(NVLINKS, parse_nvlink_status)

    @fact
    def selinux(self) -> bool | None:
        """Whether SELinux enforces; None where the kernel has it not, or off."""
        return self._text("selinux").strip() == "1" if self._there("selinux") else None

    # What SELinux kept from RDMA devices, oldest first; None without an audit log.
    rdma_denials = where_there("selinux-denials", filled, None)
