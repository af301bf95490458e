"""What stands beside, and who uses it: GDRCopy, GPUDirect Storage, containers, libraries."""

from __future__ import annotations

import re

from toolkit.errors import NotCollected, Unparsable
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.gpu.gdrcopy import built_for, parse_gdrcopy, parse_sanity
from toolkit.facts.gpu.gds import parse_cufile, parse_cufile_log, parse_gds, parse_gdscheck
from toolkit.facts.lines import blocks, filled
from toolkit.facts.modules.kernel_modules import parse_modinfo
from toolkit.facts.nccl.consumers import (
    Mpi,
    Setting,
    parse_libraries,
    parse_mpiname,
    parse_ompi_info,
    parse_perftest,
    parse_settings,
    parse_ucx,
    parse_verbs,
)
from toolkit.facts.nccl.containers import (
    parse_containers,
    parse_cuda,
    parse_drivers,
    parse_leader,
    parse_looked,
    parse_named,
    parse_opened,
    parse_providers,
    parse_shm,
    parse_variables,
)
from toolkit.facts.rdma.ucx import parse_ucx_info
from toolkit.facts.reading import Reading, given, parsed, where_given, where_there
from toolkit.facts.text.tool_reports import (
    cuda_not_ready,
    parse_dcgmi_diag,
    parse_fi_info,
    parse_rdma_topo,
)
from toolkit.facts.text.tool_reports import peermem_container as said_by_its_container


class Companions(Reading):
    """What stands beside: GDRCopy, GPUDirect Storage, containers.

    ``gdscheck``, ``gdrcopy-sanity`` and ``ucx-info`` are no frames of the probe: they are
    what somebody ran and gave us, and None where nobody did.
    """

    # Whether the probe has looked; loose files are few of its frames.
    companions_probed = given("gds")
    gdrdrv = parsed("gdrcopy", parse_gdrcopy)
    # gdrdrv and nvidia-fs on disk for the running kernel, by these names.
    companion_modules = parsed("companion-modinfo", parse_modinfo)

    @fact
    def gdrdrv_built_for(self) -> Flavor | None:
        """The driver's flavour that gdrdrv on disk was built for; None where it does not tell."""
        for name, lines in blocks(self._text("companion-modinfo"), "modinfo"):
            if name == "gdrdrv":
                return built_for("\n".join(lines))
        return None

    gdrcopy_sanity = where_given("gdrcopy-sanity", parse_sanity, None)
    nvidia_fs = parsed("gds", parse_gds)
    # The settings of cufile.json that decide how cuFile works; none where it is absent.
    cufile = parsed("cufile", parse_cufile)
    gdscheck = where_given("gdscheck", parse_gdscheck, None)
    # What cuFile could not do, by its own log.
    cufile_said = where_given("cufile-log", parse_cufile_log, ())
    # A program's line that CUDA is not ready (error 802); "" where none was given.
    cuda_said = where_given("cuda-said", cuda_not_ready, "")
    ucx_info = where_given("ucx-info", parse_ucx_info, None)
    # What libfabric finds, from ``fi_info``; None where it was not given.
    fi_info = where_given("fi-info", parse_fi_info, None)
    # The tests of ``dcgmi diag``; None where it was not given.
    dcgmi_diag = where_given("dcgmi-diag", parse_dcgmi_diag, None)
    # What the GPU Operator's nvidia-peermem-ctr said last; "" where its log was not given.
    peermem_container = where_given("peermem-container", said_by_its_container, "")
    # What ``rdma_topo check`` found; None where it was not given.
    rdma_topo = where_given("rdma-topo", parse_rdma_topo, None)
    containers = parsed("containers", parse_containers)

    @fact
    def companion_files(self) -> tuple[str, ...]:
        """Paths of HPC-X, NVSHMEM and DeepEP in their usual places; links without their aim."""
        lines = filled(self._text("companion-files"))
        return tuple(line.partition(" -> ")[0] for line in lines)

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


class Consumers(Reading):
    """Who would use GPUDirect: NCCL, UCX, MPI, and their settings."""

    # Version files that peer-memory clients show in sysfs; none since OFED 24.04.
    memory_peers = parsed("memory-peers", filled)
    # NCCL, NVSHMEM and UCX on the node itself; containers bring their own.
    libraries = parsed("libraries", parse_libraries)
    # Every libibverbs on the node itself.
    verbs = parsed("verbs-libraries", parse_verbs)
    # What ib_write_bw here can do; None where there is none.
    perftest = where_there("perftest", parse_perftest, None)
    # The UCX that ucx_info is of; None where there is no ucx_info.
    ucx = where_there("ucx-info", parse_ucx, None)

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

    # What runs the job and was looked into; None where nothing was.
    inside = where_given("inside", parse_looked, None)
    # Limits and capabilities of what runs in it.
    inside_leader = parsed("inside/process", parse_leader)
    # Bytes of its /dev/shm; -1 for no limit of its own, None where there is none.
    inside_shm = parsed("inside/shm", parse_shm)
    # Its uverbs nodes, each with "ok" or why it cannot be opened.
    inside_uverbs = parsed("inside/rdma-open", parse_opened)
    # What lies in its /dev/infiniband.
    inside_nodes = parsed("inside/rdma-nodes", filled)

    @fact
    def inside_rdma(self) -> tuple[str, ...]:
        """The RDMA devices that its network namespace sees, by name."""
        paths = filled(self._text("inside/rdma-devices"))
        return tuple(each.partition(" -> ")[0].rpartition("/")[2] for each in paths)

    @fact
    def inside_gpus(self) -> tuple[str, ...]:
        """Its nodes of GPUs: /dev/nvidia0 and so on."""
        paths = self._text("inside/gpu-nodes").split("\n")
        return tuple(each for each in paths if re.fullmatch(r"/dev/nvidia\d+", each))

    # Its libibverbs, and by which libraries that drives HCAs.
    inside_providers = parsed("inside/providers", parse_providers)

    @fact
    def inside_drivers(self) -> frozenset[str]:
        """The providers that its libibverbs is told to load, by file or by variable."""
        said = self.inside_variables
        more = said.get("RDMAV_DRIVERS") or said.get("IBV_DRIVERS") or ""
        return parse_drivers(self._text("inside/drivers")) | set(re.split("[:;]", more)) - {""}

    # What its environment tells loaders and runtimes.
    inside_variables = parsed("inside/environment", parse_variables)
    # Each libmlx5 in it, and whether that can ask for data-direct.
    inside_mlx5 = parsed("inside/mlx5-libraries", parse_verbs)
    # Each libcuda in it that is no stub, and the driver that it is of.
    inside_cuda = parsed("inside/cuda-libraries", parse_cuda)

    @fact
    def inside_stub(self) -> bool:
        """Whether it has a libcuda that is good for linking alone."""
        return "/stubs/libcuda.so" in self._text("inside/cuda-libraries")

    # Files that its settings name: the setting, the path, whether it is there.
    inside_named = parsed("inside/named-files", parse_named)
