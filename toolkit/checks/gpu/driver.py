"""Is the NVIDIA driver there, of one version, and configured as it runs?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.kernel.build_failures import why_not_inserted
from toolkit.checks.modules.fixes import open_driver, reload
from toolkit.errors import NoEvidence
from toolkit.facts.gpu.driver import Flavor, option_values
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.versions import Version
from toolkit.plural import counted
from toolkit.want import PeerPath, Want

Options = Iterable[tuple[str, str]]  # module, its parameters
NOT_LOADED = "no NVIDIA driver is loaded"


@check(
    "nvidia.present",
    impact=Impact.BROKEN,
    source="NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c",
    fix="load the nvidia driver; blacklist nouveau and rebuild the initramfs where it holds a GPU",
)
def present(node: Node, want: Want) -> Finding:
    """Every GPU on the PCI bus is driven by the NVIDIA driver.

    A GPU without it has nouveau, which came first from the initramfs, or no driver for the
    running kernel: DKMS has not built it, or the kernel has refused it. All else that fails
    on the driver and on nvidia-peermem follows from this.
    """
    if not node.knows_pci and (why := why_not_inserted(node, ("nvidia",))):
        return failed(f"{why[0]}: {why[1].cause}", expected="loaded", hint=why[1].action)
    if (said := _by_log(node)) is not None:
        return said
    gpus = node.pci.gpus
    if not node.drivers_told:
        return unknown("what drives the GPUs was not printed", hint="lspci -k")
    if all(gpu.driver == "vfio-pci" for gpu in gpus):
        return not_applicable(
            f"{counted(len(gpus), 'GPU', 'is', 'are')} passed through to guests (vfio-pci)"
        )
    wrong = [gpu for gpu in gpus if gpu.driver not in {"nvidia", "vfio-pci"}]
    if not wrong:
        return passed(f"{counted(len(gpus), 'GPU')}")
    drivers = sorted({gpu.driver or "no driver" for gpu in wrong})
    return _refused(node, wrong) or failed(
        f"{len(wrong)} of {len(gpus)} GPUs: {', '.join(drivers)}",
        expected="driver nvidia on every GPU",
        details=tuple(f"{gpu.address}: {gpu.driver or 'no driver'}" for gpu in wrong),
    )


def _refused(node: Node, without: Collection[PciFunction]) -> Finding | None:
    """Where the log has said that the driver does not drive those that have none."""
    try:
        said = node.unsupported_gpus
    except NoEvidence:
        return None
    odd = {gpu.address: said[gpu.address] for gpu in without if gpu.address in said}
    return _unsupported(odd) if odd else None


def _by_log(node: Node) -> Finding | None:
    """What a loose kernel log says of GPUs that the driver does not take, or cannot start."""
    if not node.probed and (odd := node.unsupported_gpus):
        return _unsupported(odd)
    if not (ill := node.unstarted_gpus):
        return None
    which = ", ".join(dict.fromkeys(each.address for each in ill if each.address))
    return failed(
        f"the driver could not start {which or 'any GPU'}, says the kernel log",
        expected="every GPU started",
        hint="the lines of NVRM before it say why: no address for a BAR, firmware (GSP), a "
        "guest's pass-through; reset the GPU, or power the node off and on",
        details=tuple(dict.fromkeys(each.text for each in ill)),
    )


def _unsupported(gpus: Mapping[str, bool]) -> Finding:
    by_open = any(gpus.values())
    which = "the open kernel modules do" if by_open else "this driver does"
    return failed(
        f"{which} not drive {', '.join(gpus)}, says the kernel log",
        expected="a driver that knows the GPU",
        hint="lspci -nn -d 10de: names the GPU; "
        + ("before Turing it needs the proprietary modules" if by_open else "see NVIDIA's list"),
    )


@check(
    "nvidia.version",
    impact=Impact.FRAGILE,
    source="NVIDIA/open-gpu-kernel-modules; nvidia-smi, Driver/library version mismatch",
    fix=f"{reload('driver')}, or drain the node and reboot",
)
def version(node: Node, want: Want) -> Finding:
    """The driver is of one version: as loaded, on disk, and in user space.

    An update on disk shows only at the next load; a peermem built for the new driver
    does not load against the old one.
    """
    if node.driver is None:
        return failed(NOT_LOADED, expected="a loaded driver", hint="modprobe nvidia")
    seen = {"loaded": str(node.driver.version)}
    told = node.probed or not node.mismatched_library  # what lies on disk, a paste need not say
    if told and node.driver_file is not None and node.driver_file.version:
        seen["on disk"] = node.driver_file.version
    if node.mismatched_library:
        seen["in user space"] = node.mismatched_library
    elif len(set(seen.values())) == 1 and (user := _user_space(node)):
        seen["in user space"] = user
    if len(set(seen.values())) > 1:
        return failed(
            ", ".join(f"{value} {where}" for where, value in seen.items()),
            expected="one version everywhere",
        )
    if want.driver_min and node.driver.version < Version(want.driver_min):
        return failed(str(node.driver.version), expected=f"{want.driver_min} or newer")
    return passed(f"{node.driver.version}, {', '.join(seen)}")


def _user_space(node: Node) -> str:
    """Driver version of the user-space libraries; "" where nvidia-smi is not installed.

    :raises NoEvidence: where nvidia-smi is there and gives no answer.
    """
    if not node.has_nvidia_smi:
        return ""
    rows = node.gpu_rows
    if not rows:
        raise NoEvidence("nvidia-smi: lists no GPU", hint="nvidia-smi; dmesg | grep NVRM")
    return rows[0].driver


@check(
    "nvidia.flavor",
    impact=Impact.BROKEN,
    on_disk=True,
    source="GPU Operator, GPUDirect RDMA; NVIDIA/open-gpu-kernel-modules README",
    fix="the open kernel modules, which need Turing or newer (Debian: nvidia-open-kernel-dkms; "
    "Ubuntu: nvidia-driver-BRANCH-server-open; RPM: nvidia-open); they are in use once the driver "
    "is loaded anew, with the node drained",
)
def flavor(node: Node, want: Want) -> Finding:
    """The driver is of the flavour that the wanted path needs.

    Only the open kernel modules export dma-buf. Peermem works with both.
    """
    if node.driver is None and not node.live:
        lacks = f"no NVIDIA driver for {node.kernel}"
        return failed(lacks, expected="a driver on disk", hint="install it, then run image again")
    if node.driver is None:
        return failed(NOT_LOADED, expected="a loaded driver", hint="modprobe nvidia")
    if want.path is PeerPath.DMABUF and node.driver.flavor is not Flavor.OPEN:
        return failed(
            "proprietary kernel modules", expected="open kernel modules", hint=open_driver(node)
        )
    return passed(f"{node.driver.flavor} kernel modules")


# What decides over GPUDirect and its kin, and so is shown.
_OF_INTEREST = (
    "EnableResizableBar",
    "EnablePCIERelaxedOrderingMode",
    "DmaRemapPeerMmio",
    "EnableStreamMemOPs",
    "GrdmaPciTopoCheckOverride",
    "CoherentGPUMemoryMode",
    "ImexChannelCount",
    "RegistryDwords",
)


@check(
    "nvidia.params",
    impact=Impact.FRAGILE,
    source="NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h",
    fix="rebuild the initramfs; then " + reload("driver"),
)
def params(node: Node, want: Want) -> Finding:
    """The driver runs with the parameters that modprobe.d gives it.

    A stale initramfs or a driver that was not reloaded keeps the old ones. Under a
    translating IOMMU DmaRemapPeerMmio must stay 1. Where the driver runs in a container, it
    takes its options from the container's own configuration, not from the node's files.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    live = node.driver_params
    configured: dict[str, str] = {}
    said: Options = node.said_config.config.options if node.said_config is not None else ()
    for module, words in node.modprobe.options if node.probed else said:
        if re.sub("_current(_open)?$", "", module) == "nvidia":
            configured |= option_values(words)
    stale = [
        f"{key}: {live[key]} live, {value} configured"
        for key, value in configured.items()
        if key in live and _plain(live[key]) != _plain(value)
    ]
    if stale:
        return failed("; ".join(stale), expected="what modprobe.d says, live")
    if not node.probed:
        return _by_values(live, len(configured))
    if live.get("DmaRemapPeerMmio") == "0" and any(
        d.translated for d in node.iommu_groups.values()
    ):
        return failed("DmaRemapPeerMmio 0 under a translating IOMMU", expected="DmaRemapPeerMmio 1")
    return passed(
        f"{len(configured)} configured, all live" if configured else "driver's defaults",
        details=tuple(f"{key}: {live[key]}" for key in _OF_INTEREST if live.get(key)),
    )


def _by_values(live: Mapping[str, str], asked: int) -> Finding:
    """Of loose files: the values that count, and whether any line of modprobe.d was given."""
    told = ", ".join(
        f"{key} {live[key].rstrip(';') or 'empty'}" for key in _OF_INTEREST if key in live
    )
    more = f"{asked} configured, live as far as told" if asked else "what modprobe.d says is not"
    return unknown(
        f"{told or 'none of the values that count'}; {more}",
        hint="modprobe -c | grep 'options nvidia'; cat /proc/driver/nvidia/params",
    )


def _plain(value: str) -> str:
    """Numbers by value, as the kernel reads them into 32 bits; registry dwords in one order."""
    if ";" in value:
        return ";".join(sorted(each.strip() for each in value.split(";") if each.strip()))
    for shape, base in ((r"-?(0|[1-9]\d*)", 10), (r"0[0-7]+", 8), (r"0x[0-9a-fA-F]+", 16)):
        if re.fullmatch(shape, value):
            return str(int(value, base) % (1 << 32))
    return value
