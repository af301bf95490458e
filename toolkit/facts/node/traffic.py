"""Traffic that somebody has measured, as tools printed it: loose files, no frames of the probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.facts.fact import fact
from toolkit.facts.reading import Reading
from toolkit.facts.text.pasted_logs import IMPORTED

if TYPE_CHECKING:  # a parser is imported where its text was given: no node that is asked has one
    from toolkit.facts.gpu.gdsio import GdsioRun
    from toolkit.facts.nccl.nccl_tests import CollectiveRun
    from toolkit.facts.rdma.perftest_text import PerftestSaid
    from toolkit.facts.rdma.ucx_perf import UcxPerf


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
