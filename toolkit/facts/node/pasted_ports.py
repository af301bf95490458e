"""What loose files tell of single ports, cards and containers, which no probe asks about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolkit.facts.fact import fact
from toolkit.facts.rdma.ethtool import EthtoolSaid, parse_ethtool
from toolkit.facts.rdma.roce import Qos, parse_mlnx_qos
from toolkit.facts.reading import Reading
from toolkit.facts.text.pasted_logs import IMPORTED

if TYPE_CHECKING:  # a parser is imported where its text was given: no node that is asked has one
    from toolkit.facts.gpu.gdsio import GdsioRun
    from toolkit.facts.nccl.nccl_tests import CollectiveRun
    from toolkit.facts.nccl.pasted_containers import Asked
    from toolkit.facts.rdma.limits_said import Limit
    from toolkit.facts.rdma.mlxconfig import Card
    from toolkit.facts.rdma.mlxlink import Link, PcieLink
    from toolkit.facts.rdma.perftest_text import PerftestSaid
    from toolkit.facts.rdma.ucx_perf import UcxPerf

_DEVICE = r" (?:-d|--device)[ =]?(\S+)"
_INTERFACE = r" (?:-i|--interface)[ =]?(\S+)"
_COUNTED = r" ethtool (?:-S|--statistics) (\S+)"
_UCX_LOG = "ucx-log"
# openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_reg_mr and uct_ib_md_print_mem_reg_err_msg.
_UCX_REFUSED = re.compile(
    r"UCX +(?:ERROR|DIAG) +(ibv_\w*reg\w*mr\b.* failed: .*?)[ \t]*$", re.MULTILINE
)
_HEAD_OF_QOS = re.compile(r"^(?=DCBX mode: )", re.MULTILINE)


class ToldPorts(Reading):
    """What loose files tell of single ports that no probe asks about."""

    @fact
    def said_links(self) -> dict[str, Link]:
        """The ports that mlxlink was asked about, by the device that its command names."""
        if not self._given("mlxlink"):
            return {}
        from toolkit.facts.rdma.mlxlink import parse_mlxlink  # noqa: PLC0415 see above

        links = parse_mlxlink(self._text("mlxlink"))
        return dict(zip(self._asked("mlxlink", _DEVICE, len(links)), links, strict=True))

    @fact
    def said_pcie_links(self) -> tuple[PcieLink, ...]:
        """What mlxlink said of the cards' PCIe links; () where it was not asked."""
        if not self._given("mlxlink"):
            return ()
        from toolkit.facts.rdma.mlxlink import parse_mlxlink_pcie  # noqa: PLC0415 see above

        return parse_mlxlink_pcie(self._text("mlxlink"))

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
        from toolkit.facts.rdma.limits_said import parse_limits  # noqa: PLC0415 see above

        return parse_limits(self._text(key), self.sources.source(key).partition(IMPORTED)[0])

    @fact
    def ucx_refused(self) -> tuple[str, ...]:
        """What UCX logged of memory that it could not register."""
        return tuple(_UCX_REFUSED.findall(self._text(_UCX_LOG))) if self._given(_UCX_LOG) else ()

    @fact
    def cards(self) -> tuple[Card, ...]:
        """The settings of cards that mlxconfig was asked about; () where it was not."""
        if not self._given("mlxconfig"):
            return ()
        from toolkit.facts.rdma.mlxconfig import parse_mlxconfig  # noqa: PLC0415 see above

        return parse_mlxconfig(self._text("mlxconfig"))

    @fact
    def said_qos(self) -> dict[str, Qos]:
        """Priorities of the ports that mlnx_qos was asked about, by net device."""
        if not self._given("mlnx-qos-said"):
            return {}
        text = self._text("mlnx-qos-said")
        answers = [each for each in _HEAD_OF_QOS.split(text) if "Priority trust" in each] or [text]
        told = [parse_mlnx_qos(each) for each in answers]
        return dict(zip(self._asked("mlnx-qos-said", _INTERFACE, len(told)), told, strict=True))

    @fact
    def ethtool_said(self) -> EthtoolSaid:
        """Drivers, counters and modules as ethtool tells them; nothing where it was not asked."""
        return parse_ethtool(self._text("ethtool")) if self._given("ethtool") else EthtoolSaid()

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
        commands = self.sources.source(key).partition(IMPORTED)[0]
        names = tuple(each.strip(",") for each in re.findall(name, f" {commands}"))
        if len(names) == answers == len(set(names)):
            return names
        return tuple(f"port {number} of this text" for number in range(1, answers + 1))


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

    @fact
    def ucx_run(self) -> UcxPerf | None:
        """What ucx_perftest came to; None where it was not given."""
        key = "ucx-perftest"
        if not self._given(key):
            return None
        from toolkit.facts.rdma.ucx_perf import parse_ucx_perf  # noqa: PLC0415 see above

        return parse_ucx_perf(self._text(key))

    @fact
    def gdsio_runs(self) -> tuple[GdsioRun, ...]:
        """Lines of gdsio."""
        if not self._given("gdsio"):
            return ()
        from toolkit.facts.gpu.gdsio import parse_gdsio  # noqa: PLC0415 see above

        return parse_gdsio(self._text("gdsio"))

    def _typed(self, key: str) -> str:
        """The commands behind whose prompts a text stood; "" where it had none."""
        return self.sources.source(key).partition(IMPORTED)[0]
