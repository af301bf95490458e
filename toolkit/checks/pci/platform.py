"""What Grace, Altra and data-direct boards need beyond what all boards need."""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.modules.fixes import reload
from toolkit.checks.pci.pcie import no_refusal
from toolkit.checks.role import PASSED_THROUGH
from toolkit.compat.gpus import chip
from toolkit.facts.gpu.driver import option_values
from toolkit.facts.node.node import Node
from toolkit.facts.pci.platform import Platform, common_bridge, is_data_direct, refusing_chipset
from toolkit.want import Role, Want

_HOSTS = frozenset({Role.BARE_METAL, Role.VM_HOST})
_SMMU_NEEDED = frozenset({Platform.COHERENT, Platform.DATA_DIRECT})
_OVERRIDE = "GrdmaPciTopoCheckOverride"
_MODE = "CoherentGPUMemoryMode"
_GATE_SINCE = (580, 65, 6)  # 570 to 575 judge coherent systems alone
_DEAD_SINCE = (595, 44, 2)
# kernel-open/nvidia/nv-dmabuf.c, nv_dma_buf_attach; the last is how the 550 branch puts it.
_REFUSALS = (
    "PCI topology not supported for dma-buf",
    "topology not supported for mapping type FORCE_PCIE",
    "importer unable to handle MMIO without struct page",
    "failed to map dynamic attachment with no P2P support",
)


def absent(node: Node, what: str) -> Finding:
    """Does not apply for want of a PCI function; an excerpt of lspci proves no absence."""
    if not node.pci.whole:
        return unknown(f"an excerpt of lspci: perhaps {what}")
    return not_applicable(what)


@check(
    "iommu.smmu",
    impact=Impact.BROKEN,
    roles=_HOSTS,
    source="linux-rdma/rdma-core kernel-boot/rdma_topo; drivers/iommu/arm/arm-smmu-v3",
    fix="the SMMU on in the BIOS, then reboot",
)
def smmu(node: Node, want: Want) -> Finding:
    """On Grace and Vera the SMMU is on: the driver judges by IOMMU groups there.

    Translated domains are normal on Grace. Other arm64 boards may have it on or off; what
    it does to peer traffic is judged by iommu.passthrough and nvidia.topo_gate.
    """
    if node.arch != "aarch64":
        return not_applicable(f"no SMMU on {node.arch}")
    units = [each for each in node.iommu_units if "smmu" in each]
    if node.platform in _SMMU_NEEDED and not units:
        return failed(f"off on a {node.platform} board", expected="the SMMU on")
    return passed(f"{len(units)} units on" if units else "off, and not needed on this board")


@check(
    "nvidia.topo_gate",
    impact=Impact.BROKEN,
    roles=_HOSTS,
    source="NVIDIA/open-gpu-kernel-modules nv-pci.c, nv_grdma_pci_topology_supported; nv-dmabuf.c",
    fix="HCA and GPU below one PCIe bridge; or options nvidia NVreg_GrdmaPciTopoCheckOverride=1, "
    "a slower way; on coherent systems the IOMMU groups that acs.mask wants",
)
def topo_gate(node: Node, want: Want) -> Finding:
    """The driver accepts the topology of GPUs and HCAs.

    From 580.65.06 it refuses peer memory on Grace, Ampere Altra and AmpereOne unless GPU and
    HCA have a common PCI bridge, for peermem and dma-buf alike; coherent GPUs are exempt,
    but for mappings that force PCIe, which need one IOMMU group for both. Users see ENOTSUPP
    (524) of ibv_reg_mr. NVreg_GrdmaPciTopoCheckOverride: 1 allows, 2 denies everywhere.
    """
    driver = node.driver
    if driver is None or not driver.version.at_least(570, 86, 15):
        version = "no driver is loaded" if driver is None else f"driver {driver.version}"
        return not_applicable(f"{version}: topology is judged from 570.86.15 on")
    gated = driver.version.at_least(*_GATE_SINCE)
    override = node.driver_params.get(_OVERRIDE, "0")
    coherent = bool(node.coherent_gpus)
    if gated and override == "2" and not coherent:
        return failed(
            f"{_OVERRIDE} 2 denies every topology",
            expected=f"{_OVERRIDE} 0 or 1",
            hint=f"take NVreg_{_OVERRIDE} out of modprobe.d; then {reload('driver')}",
        )
    chipset = refusing_chipset(node.pci)
    if not chipset and not coherent:
        if not node.pci.whole:
            return unknown("an excerpt of lspci: which chipset it is is not told")
        return passed("the driver refuses nothing on this chipset")
    return _refused(node, chipset if gated and not coherent and override != "1" else "")


def _refused(node: Node, chipset: str) -> Finding:
    """What the driver did refuse, and what it will.

    :param chipset: where it demands a common bridge; "" where it does not.
    """
    refusals = [line for line in node.dmesg if any(each in line for each in _REFUSALS)]
    if refusals:
        return failed(
            f"refused {len(refusals)} times since boot",
            expected="no refusal",
            hint=_remedy(coherent=bool(node.coherent_gpus)),
            details=(refusals[-1].strip(),),
        )
    if chipset:
        return _without_bridge(node, chipset)
    return no_refusal(node)


def _remedy(*, coherent: bool) -> str:
    if coherent:
        return "see acs.mask: HCA and GPU need the IOMMU groups of their board"
    return "HCA below the GPU's bridge, or options nvidia NVreg_GrdmaPciTopoCheckOverride=1"


def _without_bridge(node: Node, chipset: str) -> Finding:
    lonely = [
        gpu.address
        for gpu in node.pci.gpus
        if not any(common_bridge(node.pci, gpu, hca) for hca in node.hcas)
    ]
    if not node.hcas:
        return not_applicable("no HCA that could share a bridge with a GPU")
    if untold := [e for e in lonely if chip(node.pci.functions[e].device) is None]:
        return unknown(
            f"{chipset}: whether NVLink-C2C joins {untold[0]} to its CPU is not told",
            hint="nvidia-smi -q | grep Addressing: ATS tells of it",
        )
    if lonely:
        return failed(
            f"{chipset}: {len(lonely)} of {len(node.pci.gpus)} GPUs share no bridge with an HCA",
            expected="a common PCIe bridge, or the override",
            hint=_remedy(coherent=False),
            details=tuple(lonely),
        )
    return passed(f"{chipset}: each GPU shares a bridge with an HCA")


@check(
    "nvidia.topo_override",
    impact=Impact.FRAGILE,
    roles=_HOSTS,
    source="NVIDIA/open-gpu-kernel-modules nv-dmabuf.c, 590.48.01 against 595.44.02",
    fix="take NVreg_GrdmaPciTopoCheckOverride out, and give GPU and HCA the IOMMU groups that "
    "acs.mask wants",
)
def topo_override(node: Node, want: Want) -> Finding:
    """No override of the topology check is relied on that the driver no longer reads.

    Up to 590 it is the vendors' own advice for GB200 and GB300; from 595.44.02 coherent
    systems no longer consult it, and what worked is refused after the update.
    """
    if node.driver is None:
        return not_applicable("no NVIDIA driver is loaded")
    if not node.coherent_gpus:
        return absent(node, "no GPU here is coherent with its processor")
    override = node.driver_params.get(_OVERRIDE, "0")
    if override != "1":
        return passed("no override")
    if node.driver.version.at_least(*_DEAD_SINCE):
        return failed(
            f"{_OVERRIDE} 1 is no longer read by driver {node.driver.version}",
            expected="IOMMU groups that fit, and no override",
        )
    return passed(f"read by driver {node.driver.version}; no longer from 595.44.02 on")


@check(
    "datadirect.bound",
    impact=Impact.SLOW,
    source="drivers/infiniband/hw/mlx5/data_direct.c; NCCL user guide, NCCL_IB_DATA_DIRECT",
    fix="a kernel of 6.12 or the vendor's own (6.14-nvidia), or DOCA-OFED: their mlx5 drives the "
    "data-direct function",
)
def datadirect(node: Node, want: Want) -> Finding:
    """Data-direct functions are driven by mlx5.

    A ConnectX-8 has a second DMA function (15b3:2100) beside the GPU. Without driver it is
    idle, and traffic takes the slower way by the processor. Its ACS and groups: acs.mask.
    """
    functions = [each for each in node.pci.functions.values() if is_data_direct(each)]
    if not functions:
        return absent(node, "no data-direct function")
    idle = [each for each in functions if not each.driver.startswith("mlx5")]
    if idle and all(each.driver == PASSED_THROUGH for each in idle):
        return not_applicable("the data-direct functions are given to guests")
    if idle:
        return failed(
            f"{len(idle)} of {len(functions)} data-direct functions without mlx5",
            expected="mlx5 on each",
            details=tuple(f"{each.address}: {each.driver or 'no driver'}" for each in idle),
        )
    return passed(f"mlx5 on {len(functions)} data-direct functions")


@check(
    "grace.coherent",
    impact=Impact.FRAGILE,
    source="NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h, CoherentGPUMemoryMode",
    fix="options nvidia NVreg_CoherentGPUMemoryMode=driver in modprobe.d, or take it out; then "
    + reload("driver"),
)
def coherent(node: Node, want: Want) -> Finding:
    """GPU memory of coherent systems is in the mode that modprobe.d asks for.

    In mode numa, the default, it is memory of the operating system: allocations of others
    may land in it, and some tools count it as system memory. In mode driver it is not. An
    unknown value counts as numa.
    """
    if not node.coherent_gpus:
        return absent(node, "no GPU here is coherent with its processor")
    if node.driver is None:
        return not_applicable("no NVIDIA driver is loaded")
    live = node.driver_params.get(_MODE, "")
    if live not in {"", "numa", "driver"}:
        return failed(f"{_MODE} {live!r} is no mode", expected="numa or driver")
    asked = ""
    for module, options in node.modprobe.options:
        if module in {"nvidia", "nvidia_current", "nvidia_current_open"}:
            asked = option_values(options).get(_MODE, asked)
    if (asked or "numa") != (live or "numa"):
        return failed(f"{live or 'numa'} now, {asked or 'numa'} configured", expected="one mode")
    return passed(live or "numa, the default")
