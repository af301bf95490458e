"""Why a run of ib_write_bw and its kin came to no table: its own words, with what they mean.

Source: linux-rdma/perftest src/perftest_resources.c, perftest_parameters.c, cuda_memory.c and
perftest_communication.c; the numbers behind "error=" are the kernel's errno.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    NO_DEVICE = "no such HCA"
    NO_CUDA = "built without CUDA"
    NO_DMABUF_BUILD = "built without dma-buf"
    CUDA = "CUDA does not start"
    GPU_DMABUF = "the driver exports no dma-buf of this GPU"
    PEERMEM = "GPU memory could not be registered: no peer memory"
    DMABUF = "GPU memory could not be registered by dma-buf"
    REGISTER = "memory could not be registered"
    MEMLOCK = "too little memory may be locked"
    CONNECT = "the other end did not answer"
    LOST = "the other end went away"
    GID = "no usable GID"
    QUEUE_PAIR = "the queue pairs could not be connected"
    COMPLETION = "a transfer failed"
    CLOCK = "its clock was not steady, so nothing was measured"
    OPTION = "an option is not known"
    OTHER = "no result"


@dataclass(frozen=True, slots=True)
class PerftestTrouble:
    """Why there is no result."""

    why: Why
    words: str  # the tool's own line

    @property
    def completion(self) -> int:
        """The status of a transfer that failed, as enum ibv_wc_status has it; 0 where not told."""
        found = re.search(r"Failed status (\d+)", self.words)
        return int(found[1]) if found else 0

    def __str__(self) -> str:
        return f"{self.why} ({self.words})" if self.words else self.why.value


_EFAULT, _ENOMEM, _EPROTONOSUPPORT, _EOPNOTSUPP = 14, 12, 93, 95
# The first that is found is told: those that name a cause stand before those that follow from it.
_TABLE: tuple[tuple[Why, str], ...] = (
    (Why.NO_CUDA, r".*unrecognized option '--use_cuda(?:_bus_id)?=.*|.*Unsupported memory type.*"),
    (Why.NO_DMABUF_BUILD, r".*unrecognized option '--use_cuda_dmabuf.*"),
    (Why.OPTION, r".*unrecognized option .*|.*Invalid Command or flag.*"),
    (Why.NO_DEVICE, r"IB device \S+ not found|.*Unable to find the Infiniband/RoCE device.*"),
    (Why.GPU_DMABUF, r"DMA-BUF is not supported on this GPU"),
    (Why.CUDA, r"cuInit\(0\) returned .*|cuDeviceGet\w*\(?\)? .*|.*No such device ID .*"),
    (Why.CUDA, r"There are no available device\(s\) that support CUDA|cuCtxCreate\(\) error=.*"),
    (Why.CUDA, r"Couldn't init GPU context.*|cuMem\w+ error=.*"),
    (Why.GID, r".*(?:Failed to (?:get|read) GID|Found Incompatibility issue with GID).*"),
    (Why.QUEUE_PAIR, r".*Failed to modify QP.*|.*Unable to Connect the HCA's through the link.*"),
    (Why.COMPLETION, r".*Failed status \d+.*"),
    (Why.COMPLETION, r".*Completion with error.*"),
    (Why.CLOCK, r" \d+ +\d+ +.*\b(?:inf|nan)\b.*"),
    (Why.CONNECT, r"Couldn't connect to \S+"),
    (Why.LOST, r".*(?:Couldn't read remote address|Failed to exchange data between).*"),
)
_REGISTER = re.compile(r"Couldn't allocate MR(?: with error=(\d+))?")


def parse_perftest_trouble(text: str) -> PerftestTrouble:
    """Why there is no table, from what one end printed; OTHER with its last line at worst."""
    failed = _REGISTER.search(text)
    if failed is not None:
        # What registering failed for: before 24 perftest told no number.
        error = int(failed[1] or 0)
        if "using DMA-BUF" in text or error in {_EPROTONOSUPPORT, _EOPNOTSUPP}:
            registering = Why.DMABUF
        elif "GPU buffer" in text:
            registering = Why.PEERMEM if error in {0, _EFAULT} else Why.REGISTER
        else:
            registering = Why.MEMLOCK if error == _ENOMEM else Why.REGISTER
        return PerftestTrouble(registering, failed[0])
    for why, pattern in _TABLE:
        found = re.search(f"^{pattern}$", text, re.M)
        if found is not None:
            return PerftestTrouble(why, found[0].strip()[:200])
    lines = [line.strip() for line in text.split("\n") if line.strip(" -*")]
    return PerftestTrouble(Why.OTHER, lines[-1][:200] if lines else "")
