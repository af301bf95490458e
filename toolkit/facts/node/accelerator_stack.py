"""What stands beside: GDRCopy, GPUDirect Storage, containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolkit.errors import NotCollected, Unparsable
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.gpu.gdrcopy import GdrDrv, Sanity, built_for, parse_gdrcopy, parse_sanity
from toolkit.facts.gpu.gds import GdsCheck, NvidiaFs, parse_cufile, parse_gds, parse_gdscheck
from toolkit.facts.lines import blocks
from toolkit.facts.modules.kernel_modules import ModuleFile, parse_modinfo
from toolkit.facts.nccl.consumers import (
    Library,
    Mpi,
    Perftest,
    Setting,
    Ucx,
    Verbs,
    parse_libraries,
    parse_mpiname,
    parse_ompi_info,
    parse_perftest,
    parse_settings,
    parse_ucx,
    parse_verbs,
)
from toolkit.facts.nccl.containers import Containers, parse_containers
from toolkit.facts.rdma.ucx import UcxInfo, parse_ucx_info
from toolkit.facts.reading import Reading
from toolkit.facts.text.tool_reports import (
    DiagResult,
    FiInfo,
    TopoCheck,
    parse_dcgmi_diag,
    parse_fi_info,
    parse_rdma_topo,
    peermem_container,
)

if TYPE_CHECKING:  # read where a container was looked into
    from toolkit.facts.nccl.containers import Leader, Looked, Providers


class Companions(Reading):
    """What stands beside: GDRCopy, GPUDirect Storage, containers.

    ``gdscheck``, ``gdrcopy-sanity`` and ``ucx-info`` are no frames of the probe: they are
    what somebody ran and gave us, and None where nobody did.
    """

    @property
    def companions_probed(self) -> bool:
        """Whether the probe has looked; loose files are few of its frames."""
        return self._given("gds")

    @fact
    def gdrdrv(self) -> GdrDrv:
        return parse_gdrcopy(self._text("gdrcopy"))

    @fact
    def companion_modules(self) -> dict[str, ModuleFile]:
        """gdrdrv and nvidia-fs on disk for the running kernel, by these names."""
        return parse_modinfo(self._text("companion-modinfo"))

    @fact
    def gdrdrv_built_for(self) -> Flavor | None:
        """The driver's flavour that gdrdrv on disk was built for; None where it does not tell."""
        for name, lines in blocks(self._text("companion-modinfo"), "modinfo"):
            if name == "gdrdrv":
                return built_for("\n".join(lines))
        return None

    @fact
    def gdrcopy_sanity(self) -> Sanity | None:
        return parse_sanity(self._text("gdrcopy-sanity")) if self._given("gdrcopy-sanity") else None

    @fact
    def nvidia_fs(self) -> NvidiaFs:
        return parse_gds(self._text("gds"))

    @fact
    def cufile(self) -> dict[str, bool]:
        """The settings of cufile.json that decide how cuFile works; none where it is absent."""
        return parse_cufile(self._text("cufile"))

    @fact
    def gdscheck(self) -> GdsCheck | None:
        return parse_gdscheck(self._text("gdscheck")) if self._given("gdscheck") else None

    @fact
    def ucx_info(self) -> UcxInfo | None:
        return parse_ucx_info(self._text("ucx-info")) if self._given("ucx-info") else None

    @fact
    def fi_info(self) -> FiInfo | None:
        """What libfabric finds, from ``fi_info``; None where it was not given."""
        return parse_fi_info(self._text("fi-info")) if self._given("fi-info") else None

    @fact
    def dcgmi_diag(self) -> tuple[DiagResult, ...] | None:
        """The tests of ``dcgmi diag``; None where it was not given."""
        return parse_dcgmi_diag(self._text("dcgmi-diag")) if self._given("dcgmi-diag") else None

    @fact
    def peermem_container(self) -> str:
        """What the GPU Operator's nvidia-peermem-ctr said last; "" where its log was not given."""
        given = self._given("peermem-container")
        return peermem_container(self._text("peermem-container")) if given else ""

    @fact
    def rdma_topo(self) -> TopoCheck | None:
        """What ``rdma_topo check`` found; None where it was not given."""
        return parse_rdma_topo(self._text("rdma-topo")) if self._given("rdma-topo") else None

    @fact
    def containers(self) -> Containers:
        return parse_containers(self._text("containers"))

    @fact
    def companion_files(self) -> tuple[str, ...]:
        """Paths of HPC-X, NVSHMEM and DeepEP in their usual places; links without their aim."""
        lines = self._text("companion-files").split("\n")
        return tuple(line.partition(" -> ")[0] for line in lines if line)

    @fact
    def mpis(self) -> tuple[Mpi, ...]:
        """The MPIs whose commands the node finds."""
        found = []
        if self._there("ompi-info"):
            found.append(parse_ompi_info(self._text("ompi-info")))
        if self._there("mpiname"):
            found.append(parse_mpiname(self._text("mpiname")))
        return tuple(found)

    @fact
    def dcgm_gpus(self) -> int | None:
        """GPUs that DCGM's host engine sees; None where there is no DCGM or none runs.

        :raises NoEvidence: where dcgmi was there and gave no answer.
        """
        if not self._there("dcgm"):
            return None
        frame = self.sources.frame("dcgm")
        if frame.state is State.FAILED and re.search(r"connect", frame.text):
            return None
        answer = self._text("dcgm")
        found = re.search(r"^([0-9]{1,4}) GPUs? found", answer, re.MULTILINE)
        if found is None:
            raise Unparsable("dcgmi discovery -l", answer.split("\n", 1)[0])
        return int(found[1])


# Who would use GPUDirect: NCCL, UCX, MPI, and their settings.
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
        from toolkit.facts.nccl.containers import parse_looked  # noqa: PLC0415 only they pay for it

        return parse_looked(self._text("inside"))

    @fact
    def inside_leader(self) -> Leader:
        """Limits and capabilities of what runs in it."""
        from toolkit.facts.nccl.containers import parse_leader  # noqa: PLC0415 likewise

        return parse_leader(self._text("inside/process"))

    @fact
    def inside_shm(self) -> int | None:
        """Bytes of its /dev/shm; -1 for no limit of its own, None where there is none."""
        from toolkit.facts.nccl.containers import parse_shm  # noqa: PLC0415 likewise

        return parse_shm(self._text("inside/shm"))

    @fact
    def inside_uverbs(self) -> dict[str, str]:
        """Its uverbs nodes, each with "ok" or why it cannot be opened."""
        from toolkit.facts.nccl.containers import parse_opened  # noqa: PLC0415 likewise

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
        from toolkit.facts.nccl.containers import parse_providers  # noqa: PLC0415 likewise

        return parse_providers(self._text("inside/providers"))

    @fact
    def inside_drivers(self) -> frozenset[str]:
        """The providers that its libibverbs is told to load, by file or by variable."""
        from toolkit.facts.nccl.containers import parse_drivers  # noqa: PLC0415 likewise

        said = self.inside_variables
        more = said.get("RDMAV_DRIVERS") or said.get("IBV_DRIVERS") or ""
        return parse_drivers(self._text("inside/drivers")) | set(re.split("[:;]", more)) - {""}

    @fact
    def inside_variables(self) -> dict[str, str]:
        """What its environment tells loaders and runtimes."""
        from toolkit.facts.nccl.containers import parse_variables  # noqa: PLC0415 likewise

        return parse_variables(self._text("inside/environment"))

    @fact
    def inside_mlx5(self) -> tuple[Verbs, ...]:
        """Each libmlx5 in it, and whether that can ask for data-direct."""
        return parse_verbs(self._text("inside/mlx5-libraries"))

    @fact
    def inside_cuda(self) -> tuple[tuple[str, str], ...]:
        """Each libcuda in it that is no stub, and the driver that it is of."""
        from toolkit.facts.nccl.containers import parse_cuda  # noqa: PLC0415 likewise

        return parse_cuda(self._text("inside/cuda-libraries"))

    @fact
    def inside_stub(self) -> bool:
        """Whether it has a libcuda that is good for linking alone."""
        return "/stubs/libcuda.so" in self._text("inside/cuda-libraries")

    @fact
    def inside_named(self) -> tuple[tuple[str, str, bool], ...]:
        """Files that its settings name: the setting, the path, whether it is there."""
        from toolkit.facts.nccl.containers import parse_named  # noqa: PLC0415 likewise

        return parse_named(self._text("inside/named-files"))
