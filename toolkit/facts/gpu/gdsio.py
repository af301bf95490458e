"""What gdsio measured: one line a run, by each way of moving data between files and GPUs.

Source: NVIDIA's GPUDirect Storage Benchmarking and Configuration Guide, gdsio: -x picks the way,
0 GPUD, 1 CPUONLY, 2 CPU_GPU, 3 CPU_ASYNC_GPU, 4 CPU_CACHED_GPU, 5 GPUD_ASYNC, 6 GPU_BATCH. The line
is the same whether cuFile went directly or fell back to host memory (its compatibility mode).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

SOURCE = "gdsio"
_GIB = (1 << 30) / 1e9
_LINE = re.compile(
    r"IoType:\s*(\w+)\s+XferType:\s*(\w+)\s+Threads:\s*(\d+)\s.*?IOSize:\s*(\S+?)\(?KiB\)?\s*"
    r"Throughput:\s*([\d.]+)\s*GiB/sec",
    re.S,
)


@dataclass(frozen=True, slots=True)
class GdsioRun:
    """One line."""

    operation: str  # "READ", "WRITE", "RANDREAD"
    way: str  # "GPUD", "CPUONLY", "CPU_GPU"
    threads: int
    size: str  # KiB of one request, as printed
    throughput: float  # GB/s (10^9)

    @property
    def direct(self) -> bool:
        """Whether cuFile was asked to move data between file and GPU itself."""
        return self.way.startswith(("GPUD", "GPU_"))

    @property
    def bounced(self) -> bool:
        """Through host memory to the GPU."""
        return self.way.startswith("CPU_")

    @property
    def load(self) -> tuple[str, int, str]:
        """What has to be the same for two figures to be compared."""
        return (self.operation, self.threads, self.size)


def parse_gdsio(text: str) -> tuple[GdsioRun, ...]:
    """Read every line of figures.

    :raises Unparsable: where there is none.
    """
    found = tuple(
        GdsioRun(operation, way, int(threads), size.rstrip("("), float(value) * _GIB)
        for operation, way, threads, size, value in _LINE.findall(text)
    )
    if not found:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    return found
