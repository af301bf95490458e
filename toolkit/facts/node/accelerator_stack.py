"""What stands beside: GDRCopy, GPUDirect Storage, containers."""

from __future__ import annotations

import re

from toolkit.errors import Unparsable
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.gpu.gdrcopy import GdrDrv, Sanity, built_for, parse_gdrcopy, parse_sanity
from toolkit.facts.gpu.gds import GdsCheck, NvidiaFs, parse_cufile, parse_gds, parse_gdscheck
from toolkit.facts.lines import blocks
from toolkit.facts.modules.kernel_modules import ModuleFile, parse_modinfo
from toolkit.facts.nccl.consumers import Mpi, parse_mpiname, parse_ompi_info
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
