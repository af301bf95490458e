"""Who would use GPUDirect: NCCL, UCX, MPI, and their settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:  # read where a container was looked into
    from toolkit.facts.nccl.inside import Leader, Looked, Providers


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

    @fact
    def inside(self) -> Looked | None:
        """What runs the job and was looked into; None where nothing was."""
        if not self._given("inside"):
            return None
        from toolkit.facts.nccl.inside import parse_looked  # noqa: PLC0415 only they pay for it

        return parse_looked(self._text("inside"))

    @fact
    def inside_leader(self) -> Leader:
        """Limits and capabilities of what runs in it."""
        from toolkit.facts.nccl.inside import parse_leader  # noqa: PLC0415 likewise

        return parse_leader(self._text("inside/process"))

    @fact
    def inside_shm(self) -> int | None:
        """Bytes of its /dev/shm; -1 for no limit of its own, None where there is none."""
        from toolkit.facts.nccl.inside import parse_shm  # noqa: PLC0415 likewise

        return parse_shm(self._text("inside/shm"))

    @fact
    def inside_uverbs(self) -> dict[str, str]:
        """Its uverbs nodes, each with "ok" or why it cannot be opened."""
        from toolkit.facts.nccl.inside import parse_opened  # noqa: PLC0415 likewise

        return parse_opened(self._text("inside/rdma-open"))

    @fact
    def inside_nodes(self) -> tuple[str, ...]:
        """What lies in its /dev/infiniband."""
        return tuple(each for each in self._text("inside/rdma-nodes").split("\n") if each)

    @fact
    def inside_rdma(self) -> tuple[str, ...]:
        """The RDMA devices that its network namespace sees, by name."""
        paths = self._text("inside/rdma-devices").split("\n")
        return tuple(each.partition(" -> ")[0].rpartition("/")[2] for each in paths if each)

    @fact
    def inside_gpus(self) -> tuple[str, ...]:
        """Its nodes of GPUs: /dev/nvidia0 and so on."""
        paths = self._text("inside/gpu-nodes").split("\n")
        return tuple(each for each in paths if re.fullmatch(r"/dev/nvidia\d+", each))

    @fact
    def inside_providers(self) -> Providers:
        """Its libibverbs, and by which libraries that drives HCAs."""
        from toolkit.facts.nccl.inside import parse_providers  # noqa: PLC0415 likewise

        return parse_providers(self._text("inside/providers"))

    @fact
    def inside_drivers(self) -> frozenset[str]:
        """The providers that its libibverbs is told to load, by file or by variable."""
        from toolkit.facts.nccl.inside import parse_drivers  # noqa: PLC0415 likewise

        said = self.inside_variables
        more = said.get("RDMAV_DRIVERS") or said.get("IBV_DRIVERS") or ""
        return parse_drivers(self._text("inside/drivers")) | set(re.split("[:;]", more)) - {""}

    @fact
    def inside_variables(self) -> dict[str, str]:
        """What its environment tells loaders and runtimes."""
        from toolkit.facts.nccl.inside import parse_variables  # noqa: PLC0415 likewise

        return parse_variables(self._text("inside/environment"))

    @fact
    def inside_mlx5(self) -> tuple[Verbs, ...]:
        """Each libmlx5 in it, and whether that can ask for data-direct."""
        return parse_verbs(self._text("inside/mlx5-libraries"))

    @fact
    def inside_cuda(self) -> tuple[tuple[str, str], ...]:
        """Each libcuda in it that is no stub, and the driver that it is of."""
        from toolkit.facts.nccl.inside import parse_cuda  # noqa: PLC0415 likewise

        return parse_cuda(self._text("inside/cuda-libraries"))

    @fact
    def inside_stub(self) -> bool:
        """Whether it has a libcuda that is good for linking alone."""
        return "/stubs/libcuda.so" in self._text("inside/cuda-libraries")

    @fact
    def inside_named(self) -> tuple[tuple[str, str, bool], ...]:
        """Files that its settings name: the setting, the path, whether it is there."""
        from toolkit.facts.nccl.inside import parse_named  # noqa: PLC0415 likewise

        return parse_named(self._text("inside/named-files"))
