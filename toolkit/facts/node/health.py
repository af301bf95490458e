"""What tells that hardware or firmware is failing: the kernel log, nvidia-smi, port counters."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.errors import NoEvidence, NotCollected
from toolkit.facts.fact import fact
from toolkit.facts.gpu.kernel_trouble import Trouble, fallen, sxids, uvm_troubles, when, xids
from toolkit.facts.gpu.smi_health import SmiSaid, parse_smi_said
from toolkit.facts.kube import parse_kube_node
from toolkit.facts.node.devices import Devices
from toolkit.facts.pci.iommu import dma_faults
from toolkit.facts.pci.kernel_log import BusError, bus_errors
from toolkit.facts.rdma.hca_health import (
    Counters,
    hca_troubles,
    parse_hca_counters,
    refused_commands,
)
from toolkit.facts.reading import where_given
from toolkit.facts.text.pasted_logs import EARLIER_BOOT, IMPORTED
from toolkit.facts.text.tool_reports import fabric_manager_end, fabric_manager_errors

_SMI = ("nvidia-smi", "nvidia-smi-q", "nvidia-smi-table", "nvlink-status")
_FM_LOG = "fabricmanager-log"  # another that no probe prints
Read = Callable[[tuple[str, ...]], tuple[Trouble, ...]]
EARLIER = "earlier-ports"  # a frame that no probe prints: of an earlier run, since the same boot


class Health(Devices):
    """What tells that hardware or firmware is failing."""

    @fact
    def xids(self) -> tuple[Trouble, ...]:
        """What the driver logged of its GPUs, oldest first."""
        return self._logged(xids)

    @fact
    def uvm_troubles(self) -> tuple[Trouble, ...]:
        """Fatal errors of unified memory, which end CUDA on the whole node."""
        return self._logged(uvm_troubles)

    @fact
    def sxids(self) -> tuple[Trouble, ...]:
        """What the driver logged of NVSwitches, and the fabric manager in a log given with it."""
        told = (
            fabric_manager_errors(self._text(_FM_LOG).split("\n")) if self._given(_FM_LOG) else ()
        )
        if told and not self._given("dmesg"):
            return told
        return told + self._logged(sxids)

    # What the fabric manager said last of its start, in a log of its own; {} without one.
    fm_said = where_given(_FM_LOG, fabric_manager_end, dict[str, str]())

    @fact
    def fallen_gpus(self) -> tuple[Trouble, ...]:
        """GPUs that the kernel log says fell off the bus."""
        return self._logged(fallen)

    @fact
    def bus_errors(self) -> tuple[BusError, ...]:
        """Errors of links and functions that the kernel log tells, by whoever handled them."""
        return tuple(bus_errors(self.dmesg))

    @fact
    def dma_faults(self) -> tuple[Trouble, ...]:
        """Transfers that an IOMMU refused, of whatever device."""
        return self._logged(dma_faults)

    @fact
    def hca_troubles(self) -> tuple[Trouble, ...]:
        """What the drivers of HCAs logged of their health."""
        return self._logged(hca_troubles)

    @fact
    def refused_commands(self) -> tuple[Trouble, ...]:
        """Keys of memory and queues that an HCA's firmware refused to make."""
        return refused_commands(self.dmesg)

    def _logged(self, read: Read) -> tuple[Trouble, ...]:
        """What the log of this boot tells.

        :raises NoEvidence: without one; what that of an earlier boot tells is said as such.
        """
        if not self._given("dmesg") and self._given(EARLIER_BOOT):
            before = read(tuple(self._text(EARLIER_BOOT).split("\n")))
            if before:
                told = f", {before[-1].when}" if before[-1].when else ""
                raise NoEvidence(
                    f"in an earlier boot: {before[-1].text}{told}; this one's log is not given",
                    hint="journalctl -k -b 0",
                )
        return read(self.dmesg)

    @fact
    def log_reaches(self) -> str:
        """How far back the kernel log goes, in words.

        :raises NoEvidence: where it is empty, or an excerpt that someone chose.
        """
        lines = self.dmesg
        if not any(lines):
            raise NoEvidence("the kernel log is empty", hint="journalctl -k -b")
        if IMPORTED in self.sources.frame("dmesg").source:
            raise NotCollected("an excerpt of a kernel log: what it leaves out is not known")
        if self.log_since_boot:
            return "since boot"
        first = next((told for line in lines if (told := when(line))), "")
        return f"since {first}, its beginning is overwritten" if first else "as far as it goes back"

    @fact
    def smi_said(self) -> SmiSaid:
        """What nvidia-smi says in place of an answer, whatever it ended with.

        :raises NoEvidence: where it was not asked, refused or gave no answer in time.
        """
        given = [key for key in _SMI if self._given(key)]
        if not given:
            self._text(_SMI[0])  # says that it is not there
        told, why = [], ""
        for key in given:
            self.cited.append(key)
            frame = self.sources.frame(key)
            told.append(frame.text)
            why = why or ("" if frame.text else frame.trouble)
        said = parse_smi_said("".join(told))
        if why and said == SmiSaid((), (), ()):
            raise NoEvidence(why)
        return said

    # The GPUs that Kubernetes has here, from ``kubectl describe node`` as a loose file.
    kube_gpus = where_given("kubectl-node", parse_kube_node, None)

    @fact
    def port_errors(self) -> Counters:
        """Error counters of RDMA ports; none of an older probe, which did not look."""
        lines = (line for line in self._text("infiniband").split("\n") if "counters/" in line)
        return parse_hca_counters("".join(f"{line}\n" for line in lines))

    @fact
    def earlier_ports(self) -> tuple[int, Counters] | None:
        """Uptime in seconds and the error counters of an earlier run; None where there was none."""
        if not self._given(EARLIER):
            return None
        head, _, lines = self._text(EARLIER).partition("\n")
        return int(head.removeprefix("uptime:")), parse_hca_counters(lines)
