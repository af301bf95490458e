"""What follows from what among the checks of GPUs and HCAs, as tools tell of them.

The rules of the table in follows.py that look at devices alone.
"""

from __future__ import annotations

from toolkit.checks.check import Finding
from toolkit.checks.consumers.path import older_than_turing
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

_OFF_THE_BUS = 79  # NVIDIA's Xid catalog


def smi_without_driver(node: Node, want: Want, finding: Finding) -> str:
    gone = node.no_driver and "nvidia-smi" in finding.found
    return "nvidia-smi answers through the driver, which is not loaded" if gone else ""


def smi_of_another(node: Node, want: Want, finding: Finding) -> str:
    version = node.mismatched_library if "nvidia-smi" in finding.found else ""
    return f"nvidia-smi of {version} refuses the driver that is loaded" if version else ""


def nvml_of_another(node: Node, want: Want, _: Finding) -> str:
    version = node.mismatched_library
    return f"NVML of {version} refuses the driver that is loaded" if version else ""


def smi_silent(node: Node, want: Want, finding: Finding) -> str:
    """What nvidia-smi would tell, where NVML answers for no GPU."""
    silent = "nvidia-smi" in finding.found and bool(node.smi_said.silent)
    return "nvidia-smi has no answer while NVML does not reach the driver" if silent else ""


def xid_of_lost(node: Node, want: Want, _: Finding) -> str:
    """The one Xid is the very line by which the GPU is known to be lost."""
    sick = [each for each in node.xids if each.sick]
    lost = {each.address for each in node.fallen_gpus}
    others = node.uvm_troubles or any(each.number != _OFF_THE_BUS for each in sick)
    if others or not sick or not lost.issuperset(each.address for each in sick):
        return ""
    return f"Xid {_OFF_THE_BUS} is how the driver logs that a GPU fell off the bus"


def let_go_of(node: Node, want: Want, _: Finding) -> str:
    """Bound anew, as after a reset, the driver does not take a GPU that does not answer."""
    without = {each.address for each in node.pci.gpus if each.driver not in {"nvidia", "vfio-pci"}}
    gone = without and without.issubset(each.address for each in node.fallen_gpus)
    return "the driver takes no GPU that does not answer" if gone else ""


def older_gpus(node: Node, want: Want, _: Finding) -> str:
    """Another driver would not help them: none of theirs has the exporter."""
    if want.path is not PeerPath.DMABUF or not any(map(older_than_turing, node.pci.gpus)):
        return ""
    return "GPUs older than Turing have no open kernel modules, and so no dma-buf"


def no_rdma_device(node: Node, want: Want, finding: Finding) -> str:
    gone = finding.found.startswith("no RDMA device")
    return "without an RDMA device there is no port" if gone else ""


def translated(node: Node, want: Want, _: Finding) -> str:
    groups = [node.iommu_groups[each.group] for each in node.hcas if each.group]
    return "the IOMMU translates for HCAs" if any(each.translated for each in groups) else ""


def not_registered(node: Node, want: Want, finding: Finding) -> str:
    refused = "_reg_" in finding.found or "regist" in finding.found
    return "what was not registered cannot be sent" if refused else ""


def proprietary(node: Node, want: Want, _: Finding) -> str:
    closed = node.driver is not None and node.driver.flavor is not Flavor.OPEN
    return "the proprietary driver has no exporter" if closed else ""


def cuda_without_driver(node: Node, want: Want, finding: Finding) -> str:
    gone = node.driver is None and finding.found.startswith("libcuda: cuInit")
    return "CUDA answers through the driver, which is not loaded" if gone else ""
