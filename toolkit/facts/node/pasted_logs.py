"""What is told of a machine that gave us loose files instead of a probe's frames."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolkit.errors import NoEvidence
from toolkit.facts.fact import fact
from toolkit.facts.firmware.machine import guest_of, parse_cpu, parse_dmi
from toolkit.facts.gpu.gds import parse_gdsio
from toolkit.facts.gpu.smi_query import parse_bar1_alone
from toolkit.facts.kube import parse_offered, parse_plugin_log, parse_pod_list
from toolkit.facts.nccl.nccl_log import parse_nccl_log
from toolkit.facts.rdma.ethtool import EthtoolSaid, parse_ethtool
from toolkit.facts.rdma.firmware_tools import (
    Link,
    parse_mlxconfig,
    parse_mlxfwmanager,
    parse_mlxlink,
    parse_mlxlink_pcie,
)
from toolkit.facts.rdma.rdma_lists import parse_rdma_system
from toolkit.facts.rdma.registration import Limit, parse_limits
from toolkit.facts.rdma.roce import Qos, parse_mlnx_qos
from toolkit.facts.rdma.ucx import parse_ucx_perf
from toolkit.facts.reading import Reading, given, where_given
from toolkit.facts.text.pasted_logs import IMPORTED
from toolkit.facts.text.tool_reports import driver_container

if TYPE_CHECKING:  # a parser is imported where its text was given: no node that is asked has one
    from toolkit.facts.modules.pasted_modules import ConfigLines, Symbols
    from toolkit.facts.nccl.nccl_tests import CollectiveRun
    from toolkit.facts.nccl.pasted_containers import Asked
    from toolkit.facts.pci.config_space import AcsRegisters
    from toolkit.facts.rdma.perftest_text import PerftestSaid
    from toolkit.facts.rdma.verbs_log import VerbsTrouble

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

    # The log of a job that ran here; None where none was given.
    nccl_log = where_given("nccl-log", parse_nccl_log, None)

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


# What loose files tell of ports, cards, modules and containers, by sources of their own.
_DEVICE = r" (?:-d|--device)[ =]?(\S+)"
_INTERFACE = r" (?:-i|--interface)[ =]?(\S+)"
_COUNTED = r" ethtool (?:-S|--statistics) (\S+)"
_VERBS_LOGS = ("ucx-log", "verbs-log")
_FIRMWARE = "mlxfwmanager"
_OF_CONTAINERS = (
    *("kubectl-pod", "kubectl-pods", "kubectl-node", "container-inspect"),
    *("device-plugin-log", "rdma-system", "driver-container"),
)
_HEAD_OF_QOS = re.compile(r"^(?=DCBX mode: )", re.MULTILINE)


class ToldPorts(Reading):
    """What loose files tell of single ports that no probe asks about."""

    @fact
    def said_links(self) -> dict[str, Link]:
        """The ports that mlxlink was asked about, by the device that its command names."""
        if not self._given("mlxlink"):
            return {}
        links = parse_mlxlink(self._text("mlxlink"))
        return dict(zip(self._asked("mlxlink", _DEVICE, len(links)), links, strict=True))

    # What mlxlink said of the cards' PCIe links; () where it was not asked.
    said_pcie_links = where_given("mlxlink", parse_mlxlink_pcie, ())

    @fact
    def asked_containers(self) -> tuple[Asked, ...]:
        """Containers that were inspected, and pods that were described; () where none was."""
        pods, inspected = self._given("kubectl-pod"), self._given("container-inspect")
        if not pods and not inspected:
            return ()
        from toolkit.facts.nccl import pasted_containers as asked  # noqa: PLC0415 see above

        found = asked.parse_pods(self._text("kubectl-pod")) if pods else ()
        return found + asked.parse_inspect(self._text("container-inspect")) if inspected else found

    @fact
    def said_limits(self) -> tuple[Limit, ...]:
        """How much may be locked, by shells and files that were asked; () where none was."""
        key = "limits-said"
        if not self._given(key):
            return ()
        return parse_limits(self._text(key), self._typed(key))

    @fact
    def verbs_troubles(self) -> tuple[VerbsTrouble, ...]:
        """Calls of verbs that failed, by logs of UCX, NVSHMEM and others; none without a log."""
        given = [key for key in _VERBS_LOGS if self._given(key)]
        if not given:
            return ()
        from toolkit.facts.rdma.verbs_log import parse_verbs_log  # noqa: PLC0415 see above

        return tuple(each for key in given for each in parse_verbs_log(self._text(key)))

    # The settings of cards that mlxconfig was asked about; () where it was not.
    cards = where_given("mlxconfig", parse_mlxconfig, ())

    @fact
    def ucx_ways(self) -> dict[str, set[str]]:
        """By HCA the ways to GPU memory that UCX has found, where its log tells of its search."""
        if not self._given("ucx-log"):
            return {}
        from toolkit.facts.rdma.verbs_log import detected  # noqa: PLC0415 see above

        return detected(self._text("ucx-log"))

    @fact
    def ucx_tcp(self) -> str:
        """The lanes between nodes, where UCX's log has TCP alone; "" otherwise."""
        if not self._given("ucx-log"):
            return ""
        from toolkit.facts.rdma.verbs_log import by_tcp  # noqa: PLC0415 see above

        return by_tcp(self._text("ucx-log"))

    @fact
    def said_qos(self) -> dict[str, Qos]:
        """Priorities of the ports that mlnx_qos was asked about, by net device."""
        if not self._given("mlnx-qos-said"):
            return {}
        text = self._text("mlnx-qos-said")
        answers = [each for each in _HEAD_OF_QOS.split(text) if "Priority trust" in each] or [text]
        told = [parse_mlnx_qos(each) for each in answers]
        return dict(zip(self._asked("mlnx-qos-said", _INTERFACE, len(told)), told, strict=True))

    # Drivers, counters and modules as ethtool tells them; nothing where it was not asked.
    ethtool_said = where_given("ethtool", parse_ethtool, EthtoolSaid())

    @fact
    def counted_ports(self) -> dict[str, dict[str, int]]:
        """The counters of ``ethtool -S``, by net device."""
        told = self.ethtool_said.statistics
        names = self._asked("ethtool", _COUNTED, len(told)) if told else ()
        return {name: dict(each) for name, each in zip(names, told, strict=True)}

    def _asked(self, key: str, name: str, answers: int) -> tuple[str, ...]:
        """Whom the commands of a loose file asked; numbers where they do not tell of each answer.

        :param name: pattern of what stands in a command for the one that it asks.
        """
        names = tuple(each.strip(",") for each in re.findall(name, f" {self._typed(key)}"))
        if len(names) == answers == len(set(names)):
            return names
        return tuple(f"port {number} of this text" for number in range(1, answers + 1))


class ToldStack(Reading):
    """What loose files tell of modules, bridges and clusters."""

    @fact
    def said_symbols(self) -> Symbols | None:
        """Lines of /proc/kallsyms; None where none were given."""
        if not self._given("kallsyms-said"):
            return None
        from toolkit.facts.modules.pasted_modules import parse_kallsyms_lines  # noqa: PLC0415 see above

        return parse_kallsyms_lines(self._text("kallsyms-said"))

    @fact
    def tagged_modules(self) -> frozenset[str]:
        """Modules whose symbols stand in lines of /proc/kallsyms: they are loaded."""
        return self.said_symbols.loaded if self.said_symbols is not None else frozenset()

    @fact
    def said_config(self) -> ConfigLines | None:
        """Lines of /etc/modprobe.d; None where none were given."""
        if not self._given("modprobe-d-said"):
            return None
        from toolkit.facts.modules.pasted_modules import parse_config_lines  # noqa: PLC0415 see above

        key = "modprobe-d-said"
        return parse_config_lines(self._text(key), self._typed(key))

    # Whether the output of openibd itself was given.
    openibd_given = given("openibd-said")

    @fact
    def openibd_said(self) -> tuple[str, ...] | None:
        """What openibd could not do, by its own output; None where it has not come up either."""
        from toolkit.facts.modules.pasted_modules import parse_openibd  # noqa: PLC0415 see above

        return parse_openibd(self._text("openibd-said"))

    @fact
    def acs_said(self) -> tuple[tuple[str, AcsRegisters | None], ...]:
        """ACS control registers that setpci printed, by bridge; "" where that is not told."""
        key = "setpci-said"
        if not self._given(key):
            return ()
        from toolkit.facts.pci.acs_commands import parse_setpci  # noqa: PLC0415 see above

        return parse_setpci(self._text(key), self._typed(key))

    # MiB of BAR1 and of memory where nvidia-smi's sections were given without their GPUs.
    bar1_alone = where_given("nvidia-smi-q", parse_bar1_alone, ())
    # Whether network namespaces share the RDMA devices, says rdma system; None: not asked.
    shared_netns = where_given("rdma-system", parse_rdma_system, None)
    # Cards and their firmware, by mlxfwmanager; none where it was not asked.
    said_firmware = where_given(_FIRMWARE, parse_mlxfwmanager, ())

    @property
    def tells_containers(self) -> bool:
        """Whether any text was given of containers, or of what gives them devices."""
        return any(map(self._given, _OF_CONTAINERS))

    # Pods that kubectl listed; none where it was not asked.
    pod_list = where_given("kubectl-pods", parse_pod_list, ())
    # Resources of RDMA that Kubernetes has on a node that was described.
    offered = where_given("kubectl-node", parse_offered, ())
    # Whether a driver's container came up, and why not; None where no such log was given.
    driver_pod = where_given("driver-container", driver_container, None)
    # What a device plugin logged; None where no such log was given.
    plugin_log = where_given("device-plugin-log", parse_plugin_log, None)


class Traffic(Reading):
    """Traffic that somebody has measured; none where no such text was given."""

    @fact
    def perftest_runs(self) -> tuple[PerftestSaid, ...]:
        """Runs of ib_write_bw and its kin."""
        key = "perftest-run"
        if not self._given(key):
            return ()
        from toolkit.facts.rdma.perftest_text import parse_perftest  # noqa: PLC0415 see above

        return parse_perftest(self._text(key), self._typed(key))

    @fact
    def collective_runs(self) -> tuple[CollectiveRun, ...]:
        """Runs of nccl-tests."""
        key = "nccl-tests"
        if not self._given(key):
            return ()
        from toolkit.facts.nccl.nccl_tests import parse_collectives  # noqa: PLC0415 see above

        return parse_collectives(self._text(key), self._typed(key))

    # What ucx_perftest came to; None where it was not given.
    ucx_run = where_given("ucx-perftest", parse_ucx_perf, None)
    # Lines of gdsio.
    gdsio_runs = where_given("gdsio", parse_gdsio, ())
