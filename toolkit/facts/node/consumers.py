"""Who would use GPUDirect: NCCL, UCX, MPI, and their settings."""

from __future__ import annotations

import re

from toolkit.errors import NotCollected
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.nccl.consumers import (
    Library,
    Perftest,
    Setting,
    Ucx,
    Verbs,
    parse_libraries,
    parse_perftest,
    parse_settings,
    parse_ucx,
    parse_verbs,
)
from toolkit.facts.reading import Reading


class Consumers(Reading):
    """Who would use GPUDirect: NCCL, UCX, MPI, and their settings."""

    @fact
    def memory_peers(self) -> tuple[str, ...]:
        """Version files that peer-memory clients show in sysfs; none since OFED 24.04."""
        return tuple(line for line in self._text("memory-peers").split("\n") if line)

    @fact
    def libraries(self) -> tuple[Library, ...]:
        """NCCL, NVSHMEM and UCX on the node itself; containers bring their own."""
        return parse_libraries(self._text("libraries"))

    @fact
    def verbs(self) -> tuple[Verbs, ...]:
        """Every libibverbs on the node itself."""
        return parse_verbs(self._text("verbs-libraries"))

    @fact
    def perftest(self) -> Perftest | None:
        """What ib_write_bw here can do; None where there is none."""
        return parse_perftest(self._text("perftest")) if self._there("perftest") else None

    @fact
    def ucx(self) -> Ucx | None:
        """The UCX that ucx_info is of; None where there is no ucx_info."""
        return parse_ucx(self._text("ucx-info")) if self._there("ucx-info") else None

    @fact
    def settings(self) -> dict[str, Setting]:
        """What everybody's processes are told, by the variable's name.

        :raises NotCollected: where none of the files was looked for.
        """
        if not self._given("nccl-conf") and not self._given("consumer-settings"):
            raise NotCollected("settings of NCCL, UCX and NVSHMEM: not part of this evidence")
        conf = self._text("nccl-conf") if self._there("nccl-conf") else ""
        told = {e.name: e for e in parse_settings(conf, self._text("consumer-settings"))}
        # Where nothing names a topology, NCCL takes the one that a virtual machine was given.
        given = self._text("nccl-topology").strip() if self._given("nccl-topology") else ""
        if given and "NCCL_TOPO_FILE" not in told:
            told["NCCL_TOPO_FILE"] = Setting("NCCL_TOPO_FILE", given, "its default place")
        return told

    @fact
    def nvlinked(self) -> bool:
        """Whether ``nvidia-smi topo -m`` shows NVLink between GPUs.

        :raises NoEvidence: where the matrix was not read or is empty.
        """
        return re.search(r"\bNV\d+\b", self._text("nvidia-topology")) is not None

    @fact
    def has_nvidia_topology(self) -> bool:
        return self._state("nvidia-topology") is State.OK
