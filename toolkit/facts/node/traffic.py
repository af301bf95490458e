"""Traffic that somebody has measured, as tools printed it: loose files, no frames of the probe."""

from __future__ import annotations

from toolkit.facts.fact import fact
from toolkit.facts.gpu.gdsio import GdsioRun, parse_gdsio
from toolkit.facts.nccl.nccl_tests import CollectiveRun, parse_collectives
from toolkit.facts.rdma.perftest_text import PerftestSaid, parse_perftest
from toolkit.facts.rdma.ucx_perf import UcxPerf, parse_ucx_perf
from toolkit.facts.reading import Reading
from toolkit.facts.text.pasted_logs import IMPORTED


class Traffic(Reading):
    """Traffic that somebody has measured; none where no such text was given."""

    @fact
    def perftest_runs(self) -> tuple[PerftestSaid, ...]:
        """Runs of ib_write_bw and its kin."""
        key = "perftest-run"
        return parse_perftest(self._text(key), self._typed(key)) if self._given(key) else ()

    @fact
    def collective_runs(self) -> tuple[CollectiveRun, ...]:
        """Runs of nccl-tests."""
        key = "nccl-tests"
        return parse_collectives(self._text(key), self._typed(key)) if self._given(key) else ()

    @fact
    def ucx_run(self) -> UcxPerf | None:
        """What ucx_perftest came to; None where it was not given."""
        key = "ucx-perftest"
        return parse_ucx_perf(self._text(key)) if self._given(key) else None

    @fact
    def gdsio_runs(self) -> tuple[GdsioRun, ...]:
        """Lines of gdsio."""
        return parse_gdsio(self._text("gdsio")) if self._given("gdsio") else ()

    def _typed(self, key: str) -> str:
        """The commands behind whose prompts a text stood; "" where it had none."""
        return self.sources.source(key).partition(IMPORTED)[0]
