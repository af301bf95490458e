"""What is told of a machine that gave us loose files instead of a probe's frames."""

from __future__ import annotations

import re

from toolkit.errors import NoEvidence
from toolkit.facts.fact import fact
from toolkit.facts.firmware.machine import guest_of, parse_cpu, parse_dmi
from toolkit.facts.nccl.nccl_log import NcclLog
from toolkit.facts.nccl.nccl_log_reader import parse_nccl_log
from toolkit.facts.reading import Reading
from toolkit.facts.text.pasted_logs import IMPORTED

# nvidia-smi -q, "GPU Virtualization Mode": None, Pass-Through and VGPU in a guest, Host VGPU.
_GUEST_GPU = re.compile(
    r"^\s*(?:Virtualization Mode\s*: |<virtualization_mode>)(?:Pass-Through|VGPU|vGPU)"
    r"(?:</virtualization_mode>)?\s*$",
    re.MULTILINE,
)
_GUEST_KERNEL = re.compile(r"\bHypervisor detected: |\bBooting paravirtualized kernel on (?!bare)")

_DRIVERS = re.compile(r"^\s+Kernel (?:driver in use|modules): ", re.MULTILINE)


class Imported(Reading):
    """What is told of a machine that gave us loose files instead of a probe's frames."""

    @fact
    def is_guest(self) -> bool:
        """Whether it is a virtual machine: from its processor, else from what tools say of it.

        Loose files that say nothing of it are taken to be of bare metal, the normal case;
        the operator knows better (``role`` in the site's file).
        """
        if not self.live:
            return False  # an image is what it is booted as, which nobody knows yet
        if self._given("cpu"):
            cpu = parse_cpu(self._text("cpu"))
            if cpu.hypervisor or cpu.vendor:
                return cpu.hypervisor
            # arm64 has no such flag; DMI names the hypervisor.
            return self._given("dmi") and bool(guest_of(parse_dmi(self._text("dmi"))))
        if self._given("nvidia-smi-q") and self._smi_of_guest():
            return True
        return self._given("dmesg") and bool(_GUEST_KERNEL.search(self._text("dmesg")))

    def _smi_of_guest(self) -> bool:
        """Whether nvidia-smi tells of a guest's GPU; where it gives no answer it tells nothing."""
        try:
            return bool(_GUEST_GPU.search(self._text("nvidia-smi-q")))
        except NoEvidence:
            return False

    @fact
    def role_told(self) -> bool:
        """Whether the evidence says if it is a virtual machine."""
        return self._given("cpu") or self.is_guest

    @fact
    def knows_pci(self) -> bool:
        """Whether the evidence has PCI functions at all: from the probe, or from lspci."""
        return self._given("pci") or self._given("lspci")

    @fact
    def nccl_log(self) -> NcclLog | None:
        """The log of a job that ran here; None where none was given."""
        return parse_nccl_log(self._text("nccl-log")) if self._given("nccl-log") else None

    @fact
    def drivers_told(self) -> bool:
        """Whether the evidence says which driver has a PCI function; lspci says it with -k."""
        if self._given("pci"):
            return True
        return self._given("lspci") and bool(_DRIVERS.search(self._text("lspci")))

    @fact
    def log_is_whole(self) -> bool:
        """Whether the kernel log is the node's own answer; a loose file may be an excerpt."""
        self.cited.append("dmesg")
        return IMPORTED not in self.sources.frame("dmesg").source
