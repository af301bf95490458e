"""What loose files tell of modules, bridges and clusters, which the probe reads elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.facts.fact import fact
from toolkit.facts.gpu.smi_query import parse_bar1_alone
from toolkit.facts.kube_described import Offered, parse_offered
from toolkit.facts.reading import Reading
from toolkit.facts.text.pasted_logs import IMPORTED

if TYPE_CHECKING:  # a parser is imported where its text was given: no node that is asked has one
    from toolkit.facts.kube_pods import PluginLog, Pod
    from toolkit.facts.modules.pasted_modules import ConfigLines, Symbols
    from toolkit.facts.pci.config_space import AcsRegisters
    from toolkit.facts.rdma.ethtool import DriverInfo

_FIRMWARE = "mlxfwmanager"


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

        return parse_config_lines(self._text("modprobe-d-said"))

    @property
    def openibd_given(self) -> bool:
        """Whether the output of openibd itself was given."""
        return self._given("openibd-said")

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
        from toolkit.facts.pci.acs_text import parse_setpci  # noqa: PLC0415 see above

        return parse_setpci(self._text(key), self.sources.source(key).partition(IMPORTED)[0])

    @fact
    def bar1_alone(self) -> tuple[tuple[int, int], ...]:
        """MiB of BAR1 and of memory where nvidia-smi's sections were given without their GPUs."""
        return parse_bar1_alone(self._text("nvidia-smi-q")) if self._given("nvidia-smi-q") else ()

    @fact
    def shared_netns(self) -> bool | None:
        """Whether network namespaces share the RDMA devices, says rdma system; None: not asked."""
        if not self._given("rdma-system"):
            return None
        from toolkit.facts.rdma.rdma_lists import parse_rdma_system  # noqa: PLC0415 see above

        return parse_rdma_system(self._text("rdma-system"))

    @fact
    def said_firmware(self) -> tuple[DriverInfo, ...]:
        """Cards and their firmware, by mlxfwmanager; none where it was not asked."""
        if not self._given(_FIRMWARE):
            return ()
        from toolkit.facts.rdma.firmware_text import parse_mlxfwmanager  # noqa: PLC0415 see above

        return parse_mlxfwmanager(self._text(_FIRMWARE))

    @fact
    def pod_list(self) -> tuple[Pod, ...]:
        """Pods that kubectl listed; none where it was not asked."""
        if not self._given("kubectl-pods"):
            return ()
        from toolkit.facts.kube_pods import parse_pod_list  # noqa: PLC0415 see above

        return parse_pod_list(self._text("kubectl-pods"))

    @fact
    def offered(self) -> tuple[Offered, ...]:
        """Resources of RDMA that Kubernetes has on a node that was described."""
        if not self._given("kubectl-node"):
            return ()
        return parse_offered(self._text("kubectl-node"))

    @fact
    def plugin_log(self) -> PluginLog | None:
        """What a device plugin logged; None where no such log was given."""
        if not self._given("device-plugin-log"):
            return None
        from toolkit.facts.kube_pods import parse_plugin_log  # noqa: PLC0415 see above

        return parse_plugin_log(self._text("device-plugin-log"))
