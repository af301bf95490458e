"""Which of the breakages that are known in the field does a node meet?

A function for each id of compat/data/breakages.toml says what of it was found. What could not
be read matches nothing: a breakage explains findings, it makes none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from toolkit.checks.consumers.chosen import sees_peermem
from toolkit.checks.consumers.path import REGISTER, dmabuf_gap, peermem_gap
from toolkit.checks.role import role
from toolkit.compat.rows import build_numbers
from toolkit.errors import read_or
from toolkit.facts.firmware.secureboot import Enrolment, SecureBoot
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.modules.ofed import LEFTOVER
from toolkit.facts.modules.refusals import parse_refusals
from toolkit.facts.node.node import Node
from toolkit.facts.pci.platform import refusing_chipset
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.facts.versions import Version
from toolkit.want import PeerPath, Role, Want

OVERRIDE = "GrdmaPciTopoCheckOverride"
UNSIGNED_SINCE = "3.2"  # the DOCA that brings no module signed by the vendor any more
# Those of the family rhel whose versions are RHEL's: neither Fedora's nor Amazon's.
_EL = frozenset({"rhel", "rocky", "almalinux", "ol", "centos"})
Match = Callable[[Node, Want], str]


class KnownBreakage(Struct, frozen=True):
    """A breakage that a node meets."""

    id: str  # "B01"
    title: str
    found: str  # what on this node says so
    effect: str
    action: str  # the way out
    checks: tuple[str, ...]  # ids of the checks whose findings it explains


def known(node: Node, want: Want) -> tuple[KnownBreakage, ...]:
    """The breakages met, in the order of the table; one of the site's own has no function."""
    met = []
    for row in want.compat.breakages:
        match = MATCHES.get(row.id, lambda _node, _want: "")
        if found := read_or(partial(match, node.fresh(), want), ""):
            met.append(KnownBreakage(row.id, row.title, found, row.effect, row.action, row.checks))
    return tuple(met)


def _ask(name: str, node: Node, want: Want) -> str:
    match = MATCHES.get(name)
    return read_or(lambda: match(node.fresh(), want), "") if match is not None else ""


def _stub(node: Node) -> bool:
    """The nvidia-peermem that modprobe takes was built without the peer-memory interface."""
    chosen = node.peermem_chosen
    return chosen is not None and not any(each.startswith("ib_") for each in chosen.depends)


def _b01(node: Node, want: Want) -> str:
    release = want.compat.ofed_release(str(node.ofed.version or ""))
    if release is None or release.memory_peers or peermem_gap(node):
        return ""
    libraries = [(each.name, each.version) for each in read_or(lambda: node.libraries, ())]
    ucx = read_or(lambda: node.ucx, None)
    if ucx is not None and ucx.cuda:
        libraries.append(("ucx", ucx.version))
    asked = dict(want.consumers)
    libraries = [*asked.items(), *(each for each in libraries if each[0] not in asked)]
    blind = []
    for name, version in libraries:
        rules = want.compat.consumer(name, version) if version else None
        if rules is None or sees_peermem(node, rules):
            continue
        if not rules.dmabuf or dmabuf_gap(node, want):
            blind.append(f"{name} {version}")
    return f"{', '.join(dict.fromkeys(blind))} with OFED {node.ofed.version}" if blind else ""


def _b02(node: Node, want: Want) -> str:
    holds = [each for each in ("ib_core", "ib_uverbs") if each in node.module_state
             and "nvidia_peermem" in node.module_state[each].holders]  # fmt: skip
    return "nvidia_peermem holds ib_uverbs alone" if holds == ["ib_uverbs"] else ""


# All flavours but linux-nvidia are made from the generic kernel.
_WITHOUT_PEERS = re.compile(r"-(generic|lowlatency|aws|azure|gcp|gke|oracle|ibm)(-64k|-fde)?$")


def _b03(node: Node, want: Want) -> str:
    gone = want.compat.kernel_gate("ubuntu-peer-memory")
    plain = _WITHOUT_PEERS.search(node.kernel)
    if node.distro.id != "ubuntu" or not plain or gone.covers(node.kernel):
        return ""
    if node.ofed.flavour is not OfedFlavour.INBOX or REGISTER in node.symbols:
        return ""
    return f"Ubuntu kernel {node.kernel} without OFED"


# linux-modules-nvidia-570-open-KERNEL puts them there, and kmod-nvidia of the RHEL family into
# extra/drivers; DKMS puts them into updates/dkms or extra.
_PRECOMPILED = re.compile(
    r"/kernel/nvidia-\d+[a-z-]*/nvidia\.ko|/extra/drivers/video/nvidia/nvidia\.ko"
)


def _b04(node: Node, want: Want) -> str:
    file = node.driver_file
    if file is None or not _PRECOMPILED.search(file.filename) or not _stub(node):
        return ""
    return "" if node.ofed.flavour is OfedFlavour.INBOX else f"{file.filename}, {node.ofed}"


def _b05(node: Node, want: Want) -> str:
    stale = LEFTOVER in node.dkms_tree and node.ofed_dkms != LEFTOVER.rpartition("/")[2]
    return LEFTOVER if stale else ""


def _b06(node: Node, want: Want) -> str:
    if node.arch != "aarch64" or node.ofed.flavour is OfedFlavour.INBOX or not node.ofed_sources:
        return ""
    search = node.ofed_folders.search(node.kernel, node.arch)
    return "" if search.conftest else f"{search.kbuild or '/usr/src/ofa_kernel'} is not found"


def _b07(node: Node, want: Want) -> str:
    chipset = refusing_chipset(node.pci)
    if not chipset.startswith("Ampere") or not _driver_at_least(node, 580):
        return ""
    if node.driver_params.get(OVERRIDE) == "1" or role(node, want) is Role.VM:
        return ""
    near = {each.gpu.address for each in node.tree_pairs if each.distance <= Distance.PXB}
    apart = [each.address for each in node.pci.gpus if each.address not in near]
    return f"{chipset}: {', '.join(apart)} below no switch with an HCA" if apart else ""


def _b08(node: Node, want: Want) -> str:
    relied = node.driver_params.get(OVERRIDE) == "1" and _driver_at_least(node, 595, 44, 2)
    return f"{OVERRIDE}=1, which this driver ignores" if relied and node.coherent_gpus else ""


def _b09(node: Node, want: Want) -> str:
    if want.path is not PeerPath.DMABUF or not _driver_at_least(node, 595):
        return ""
    groups = node.iommu_groups
    here = [h.address for h in node.hcas if h.group in groups and groups[h.group].translated]
    return f"driver 595 or newer, and translated: {', '.join(here)}" if here else ""


def _b10(node: Node, want: Want) -> str:
    if node.arch != "x86_64" or node.driver is None or node.driver.flavor is Flavor.OPEN:
        return ""
    file = read_or(lambda: node.companion_modules, {}).get("nvidia-fs")
    version = file.version if file else read_or(lambda: node.nvidia_fs.version, "")
    built = [each.version for each in node.dkms if each.module == "nvidia-fs"]
    new = [each for each in (version, *built) if each and Version(each).at_least(2, 17, 5)]
    return f"nvidia-fs {new[0]} with the proprietary driver" if new else ""


def _b11(node: Node, want: Want) -> str:
    if node.distro.id not in _EL or not node.ofed_dkms:
        return ""
    version, fails = str(node.ofed.version or ""), want.compat.will_not_compile
    if not version:
        return ""
    if fails("ofed", version, node.kernel):
        return f"{node.ofed} by DKMS on {node.kernel}"
    # Before the update is finished: its kernel is there already.
    others = (each.release for each in node.kernels)
    waiting = next((each for each in others if fails("ofed", version, each)), "")
    return f"{node.ofed} by DKMS, and {waiting} is installed" if waiting else ""


def _b12(node: Node, want: Want) -> str:
    readable = want.compat.kernel_gate("crc-by-nm").covers(node.kernel)
    return "" if readable or not node.legacy_files else f"{node.legacy_files[0]} on {node.kernel}"


def _b13(node: Node, want: Want) -> str:
    ordered = [each.name for each in node.dkms_packages if each.depends]
    if not ordered or node.dkms_version.at_least(3, 1, 4):
        return ""
    return f"dkms {node.dkms_version}, and {ordered[0]} has BUILD_DEPENDS"


def _b14(node: Node, want: Want) -> str:
    lines = (line for line in node.openibd_log if "in use" in line or "nload" in line)
    return next((line.strip() for line in lines if "peermem" in line), "")


def _b15(node: Node, want: Want) -> str:
    containers = node.containers
    if not containers.driver_container or not (containers.ofed_container or containers.ofed_newer):
        return ""
    disagrees = parse_refusals(node.dmesg).other_version
    return f"both drivers come from containers; {disagrees[0]} disagrees" if disagrees else ""


def _b16(node: Node, want: Want) -> str:
    return f"{len(node.gpu_chips)} GPU of this kind" if node.unified_memory else ""


def _b17(node: Node, want: Want) -> str:
    return next((each.name for each in node.gpu_rows if "geforce" in each.name.lower()), "")


def _b18(node: Node, want: Want) -> str:
    if role(node, want) is not Role.BARE_METAL:
        return ""
    functions = node.pci_config.functions
    on = []
    for each in node.hcas:
        ats = functions[each.address].ats()
        if ats is not None and ats.enabled:
            on.append(each.address)
    return f"enabled on {', '.join(on)}" if on else ""


def _b19(node: Node, want: Want) -> str:
    missing = node.tools and "g++" not in node.tools and node.driver_dkms
    return f"no g++, and {node.driver_dkms} is built by DKMS" if missing else ""


def _b20(node: Node, want: Want) -> str:
    unsigned = next(each for each in want.compat.ofed if each.doca == UNSIGNED_SINCE)
    if not node.ofed_dkms or build_numbers(str(node.ofed.version)) < build_numbers(unsigned.first):
        return ""
    if node.secure_boot is not SecureBoot.ON:
        return ""
    key = node.own_key
    if key is not None and key[1] is Enrolment.ENROLLED:
        return ""
    stands = f"{key[0]} is {key[1]}" if key else "DKMS has no key to sign with"
    return f"Secure Boot is on, and {stands}"


def _driver_at_least(node: Node, *numbers: int) -> bool:
    return node.driver is not None and node.driver.version.at_least(*numbers)


MATCHES: dict[str, Match] = {
    "B01": _b01,
    "B02": _b02,
    "B03": _b03,
    "B04": _b04,
    "B05": _b05,
    "B06": _b06,
    "B07": _b07,
    "B08": _b08,
    "B09": _b09,
    "B10": _b10,
    "B11": _b11,
    "B12": _b12,
    "B13": _b13,
    "B14": _b14,
    "B15": _b15,
    "B16": _b16,
    "B17": _b17,
    "B18": _b18,
    "B19": _b19,
    "B20": _b20,
}
