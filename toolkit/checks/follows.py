"""What a failed check follows from, on this node: by its facts, never by a table alone.

``AFTER`` says of which checks a check may be a consequence, and each rule looks whether it is
one here. A rule that does not hold, or whose facts were not read, leaves the check a cause of its
own: a failure that is hidden behind another's is worse than one told twice.

What a rule promises: once the other check's failure is mended, as its fix says, nothing that
this rule saw stands in the way of this check any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from toolkit.checks import follows_devices as devices
from toolkit.checks.check import Finding, Gap, Status, Verdict
from toolkit.checks.consumers import path
from toolkit.checks.kernel.builds import CARRIED, image_of
from toolkit.checks.kernel.dkms import unbuilt
from toolkit.checks.kernel.kernel import lacking
from toolkit.checks.kernel.secureboot import refused
from toolkit.checks.modules import obstacles
from toolkit.checks.modules.loading import first_obstacle, is_live, other_versions
from toolkit.checks.modules.modules import RDMA
from toolkit.checks.modules.obstacles import loaded_from_elsewhere
from toolkit.checks.pci.iommu_words import passes_through
from toolkit.checks.pci.pcie import LOST
from toolkit.errors import read_or
from toolkit.facts.modules.ofed import LEFTOVER
from toolkit.facts.modules.refusals import parse_refusals
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

_CARD_LOST = "the HCA that was there is lost"
# How the one brings the other about here, in one line; "" where it does not.
Rule = Callable[[Node, Want, Finding], str]


class Step(Struct, frozen=True):
    """One check is a consequence of another on this node."""

    check: str  # the consequence
    after: str  # what it follows from, which is open too
    why: str  # by what, as this node's facts have it


def steps(node: Node, want: Want, verdicts: Sequence[Verdict]) -> tuple[Step, ...]:
    """At most one step for each verdict that fails or is unknown, the nearest cause's."""
    open_ = {
        each.check.id: each.finding
        for each in verdicts
        if each.status in {Status.FAIL, Status.UNKNOWN}
    }
    found = (_step(name, finding, open_, node, want) for name, finding in open_.items())
    return tuple(each for each in found if each is not None)


def _step(
    name: str, finding: Finding, open_: Mapping[str, Finding], node: Node, want: Want
) -> Step | None:
    rules = AFTER.get(name, ()) if finding.status is Status.FAIL else UNKNOWN
    for after, rule in rules:
        # What is not known is no cause, but of what is not known for the same reason.
        known = after in open_ and (
            open_[after].status is Status.FAIL or open_[after].gap is finding.gap is Gap.PATH
        )
        if after != name and known and (why := _holds(rule, node, want, finding)):
            return Step(name, after, why)
    return None


def _holds(rule: Rule, node: Node, want: Want, finding: Finding) -> str:
    return read_or(lambda: rule(node.fresh(), want, finding), "")


# DKMS has not built it for the kernel.


def _not_built(node: Node, kernel: str, packages: Sequence[str]) -> str:
    """:param packages: DKMS names; "" for one that DKMS does not build."""
    missing = unbuilt(node, kernel)
    if not packages or not missing.issuperset(packages):
        return ""
    return f"DKMS has not installed {', '.join(dict.fromkeys(packages))} for {kernel}"


def _next_lacks(node: Node, want: Want, _: Finding) -> str:
    release = node.default_kernel
    missing = [n for k in node.kernels if k.release == release for n in lacking(node, k, want)]
    builders = {"nvidia": node.driver_dkms, "nvidia-peermem": node.peermem_dkms}
    packages = [builders.get(each, node.ofed_dkms) for each in missing]
    return _not_built(node, release, packages)  # nothing where that kernel has no modules at all


def _no_driver_built(node: Node, want: Want, _: Finding) -> str:
    if not _undriven(node) or node.driver_file is not None:
        return ""
    return _not_built(node, node.kernel, [node.driver_dkms])


def _no_module_to_reach(node: Node, want: Want, finding: Finding) -> str:
    """Of a text that has no word of what is loaded."""
    if node.probed or "communicate with the NVIDIA driver" not in finding.found:
        return ""
    driver = [each for each in unbuilt(node, node.kernel) if each in {"nvidia", "nvidia-open"}]
    return _not_built(node, node.kernel, driver)


def _no_peermem_built(node: Node, want: Want, _: Finding) -> str:
    chosen = node.peermem_chosen
    if node.peermem_files if chosen is None else not obstacles.other_kernel(node, chosen):
        return ""
    return _not_built(node, node.kernel, [node.peermem_dkms])


def _no_ofed_built(node: Node, want: Want, _: Finding) -> str:
    core = node.rdma_files.get("ib_core")
    if core is not None and core.origin != "inbox":
        return ""
    return _not_built(node, node.kernel, [node.ofed_dkms])


def _inbox_for_ofed(node: Node, want: Want, finding: Finding) -> str:
    """Not where another stack is wanted."""
    return _no_ofed_built(node, want, finding) if "the inbox one" in finding.found else ""


def _no_ofed_exported(node: Node, want: Want, finding: Finding) -> str:
    on_disk = any(node.symvers.values())  # OFED as it is here has the interface
    return _no_ofed_built(node, want, finding) if on_disk else ""


def _no_ofed_for(node: Node, want: Want, _: Finding) -> str:
    built = {each.kernel for each in node.dkms if each.module == node.ofed_dkms and each.usable}
    missing = [each for each in (node.kernel, node.default_kernel) if each not in built]
    if not all(_not_built(node, each, [node.ofed_dkms]) for each in missing):
        return ""
    return _not_built(node, missing[0], [node.ofed_dkms]) if missing else ""


def _no_ofed_folder(node: Node, want: Want, finding: Finding) -> str:
    folder = node.ofed_folders.search(node.kernel, node.arch).kbuild
    if folder == LEFTOVER or folder.endswith(f"/{node.kernel}"):
        return ""
    return _no_ofed_built(node, want, finding)


# The driver is not at work.


def _undriven(node: Node) -> bool:
    """No GPU has any driver, neither another one nor a guest's."""
    return not any(each.driver for each in node.pci.gpus) and node.driver is None


def _driver_refused(node: Node, want: Want, _: Finding) -> str:
    file = node.driver_file
    return refused(node, file) if file is not None and _undriven(node) else ""


def _driver_kept(node: Node, want: Want, _: Finding) -> str:
    if not _undriven(node):
        return ""
    if command := node.modprobe.blocked("nvidia"):
        return f"nvidia is kept from loading: install {command}"
    return "nvidia is blacklisted" if "nvidia" in node.modprobe.blacklisted else ""


def _no_driver(node: Node, want: Want, _: Finding) -> str:
    driven = any(each.driver == "nvidia" for each in node.pci.gpus)
    return "" if driven or node.driver is not None else "no GPU has the nvidia driver"


def _no_driver_for_peermem(node: Node, want: Want, _: Finding) -> str:
    found = obstacles.no_driver(node)
    return found.found if found is not None else ""


def _open_for(gap: Gap) -> Rule:
    return lambda _node, _want, finding: gap.value if finding.gap is gap else ""


# A path.


def _path(name: str) -> Rule:
    """The wanted path's first gap is the one that the check ``name`` asks about."""

    def rule(node: Node, want: Want, _: Finding) -> str:
        if want.path is PeerPath.PEERMEM:
            gap = path.peermem_gap(node)
            asks = "peermem.bound" if "does not hold" in gap else "peermem.loaded"
            return gap if name == asks and gap.startswith("nvidia-peermem") else ""
        if gap := path.dmabuf_gpu_gap(node, want):
            return gap if name == "dmabuf.gpu" else ""
        return path.dmabuf_nic_gap(node, want) if name == "dmabuf.nic" else ""

    return rule


def _of_gpu(begins: str) -> Rule:
    return lambda node, want, _: _begun(path.dmabuf_gpu_gap(node, want), begins)


def _of_nic(begins: str) -> Rule:
    return lambda node, want, _: _begun(path.dmabuf_nic_gap(node, want), begins)


def _begun(gap: str, begins: str) -> str:
    return gap if gap.startswith(begins) else ""


# nvidia-peermem would not load.


def _obstacle(name: str) -> Rule:
    """The first thing in the way of modprobe is what the check ``name`` tells of."""

    def rule(node: Node, want: Want, _: Finding) -> str:
        found = first_obstacle(node)
        return found[1].found if found is not None and found[0] == name else ""

    return rule


def _cannot_load(node: Node, want: Want, finding: Finding) -> str:
    hangs = finding.found.startswith("in state ")  # whatever else is in its way
    found = None if hangs or is_live(node) else first_obstacle(node)
    return f"modprobe would not load it: {found[1].found}" if found is not None else ""


def _gone(node: Node, want: Want, _: Finding) -> str:
    return f"none on disk for {node.kernel}" if node.peermem_chosen is None else ""


def _nothing_exports(node: Node, want: Want, finding: Finding) -> str:
    """Not where what is told is of another symbol, or of a module that was refused."""
    if (
        path.REGISTER not in finding.found
        or path.REGISTER in node.symbols
        or obstacles.no_driver(node) is not None
    ):
        return ""
    if loaded_from_elsewhere(node, obstacles.STACK):
        return ""
    return f"nothing that is loaded exports {path.REGISTER}"


def _symbol_absent(node: Node, want: Want, finding: Finding) -> str:
    told = parse_refusals(node.dmesg)
    if told.other_version or set(told.absent) != {path.REGISTER}:
        return ""
    return _nothing_exports(node, want, finding)


def _driver_absent(node: Node, want: Want, finding: Finding) -> str:
    told = parse_refusals(node.dmesg)
    of_driver = told.absent and all(each.startswith("nvidia") for each in told.absent)
    return _no_driver(node, want, finding) if of_driver and not told.other_version else ""


def _other_version(node: Node, want: Want, _: Finding) -> str:
    image = node.peermem_image
    if image is None or not parse_refusals(node.dmesg).other_version:
        return ""
    found = other_versions(node, image)
    return found.found if found is not None else ""


# Another stack is loaded than lies on disk.


def _other_stack(node: Node, want: Want, _: Finding) -> str:
    stale = loaded_from_elsewhere(node, obstacles.STACK)
    if "nvidia" in stale:
        return ""
    if stale:
        return f"loaded from elsewhere than on disk: {', '.join(stale)}"
    mixed = obstacles.of_two_stacks(node, RDMA)
    return mixed.found if mixed is not None else ""


def _other_stack_hides(node: Node, want: Want, finding: Finding) -> str:
    """What lies on disk, once it is loaded, exports the interface; nothing of the driver's."""
    rdma = "nvidia" not in finding.found and path.offered(node)
    return _other_stack(node, want, finding) if rdma else ""


def _other_driver(node: Node, want: Want, _: Finding) -> str:
    stale = loaded_from_elsewhere(node, obstacles.STACK)
    return "the loaded driver is not that on disk" if stale == ["nvidia"] else ""


def _early_stack(node: Node, want: Want, finding: Finding) -> str:
    """The initramfs of this very kernel loads the modules that are loaded instead of OFED's."""
    image = image_of(node, node.kernel) if node.default_kernel == node.kernel else None
    if image is None or not finding.found.startswith("loaded from elsewhere"):
        return ""
    held, states = image.inbox(CARRIED), node.module_state
    stale = [e for e in loaded_from_elsewhere(node, RDMA) if states[e].in_tree is not False]
    early = [each for each in stale if each in held]
    return f"the initramfs loads the inbox {', '.join(early)}" if early else ""


# The IOMMU.


def _no_argument(node: Node, want: Want, _: Finding) -> str:
    vendor = node.cpu.vendor or node.cpu.model
    asked = any(passes_through(each, vendor) for each in (node.cmdline, node.next_cmdline))
    return "" if asked else "one argument is missing: this boot has it not, nor has the next"


_DRIVER = ("nvidia.present", _no_driver)
_OLDER = ("gpu.class", devices.older_gpus)
_GAPS = tuple(
    (name, _path(name)) for name in ("peermem.loaded", "peermem.bound", "dmabuf.gpu", "dmabuf.nic")
)
AFTER: Mapping[str, tuple[tuple[str, Rule], ...]] = {
    "gpu.xid": (("gpu.lost", devices.xid_of_lost),),
    "kernel.pending_reboot": (("dkms.state", _next_lacks),),
    "nvidia.present": (
        ("gpu.lost", devices.let_go_of),
        ("dkms.state", _no_driver_built),
        ("module.signed", _driver_refused),
        ("modules.blacklist", _driver_kept),
    ),
    "nvidia.version": (_DRIVER,),
    "nvidia.flavor": (_DRIVER, _OLDER),
    "nvidia.nvml": (
        ("nvidia.version", devices.nvml_of_another),
        ("dkms.state", _no_module_to_reach),
    ),
    **dict.fromkeys(("path.selected", "register.dmabuf", "register.peermem"), _GAPS),
    "dmabuf.gpu": (
        _DRIVER,
        _OLDER,
        ("nvidia.flavor", devices.proprietary),
        ("kernel.config.dmabuf", _of_gpu("the kernel has no dma-buf")),
    ),
    "dmabuf.nic": (
        ("rdma.devices", _of_nic("there is no RDMA device")),
        ("kernel.version", _of_nic("kernel ")),
        ("kernel.config.infiniband", _of_nic("the kernel's RDMA stack lacks")),
    ),
    "ib.peer_symbol": (("dkms.state", _no_ofed_exported), ("modules.origin", _other_stack_hides)),
    "peermem.file": (("dkms.state", _no_peermem_built),),
    "peermem.vermagic": (("dkms.state", _no_peermem_built),),
    "peermem.provider": (
        ("nvidia.present", _no_driver_for_peermem),
        ("modules.origin", _other_stack),
        ("nvidia.version", _other_driver),
        ("ib.peer_symbol", _nothing_exports),
    ),
    "peermem.loadable": tuple(
        (each, _obstacle(each))
        for each in (
            "modules.blacklist",
            "peermem.file",
            "peermem.stub",
            "peermem.vermagic",
            "module.signed",
            "peermem.provider",
            "peermem.unknown_symbol",
            "peermem.crc",
            "peermem.legacy_conflict",
        )
    ),
    "peermem.unknown_symbol": (
        ("peermem.crc", _other_version),
        ("nvidia.present", _driver_absent),
        ("modules.origin", _other_stack_hides),
        ("ib.peer_symbol", _symbol_absent),
    ),
    "peermem.loaded": (("peermem.loadable", _cannot_load),),
    "peermem.loaded_vs_disk": (("peermem.file", _gone),),
    "modules.origin": (("kernel.initrd_rdma", _early_stack),),
    "ofed.flavor": (("dkms.state", _inbox_for_ofed),),
    "ofed.kernel_match": (("dkms.state", _no_ofed_for),),
    "ofed.headers_link": (("dkms.state", _no_ofed_folder),),
    "rdma.port": (("rdma.devices", devices.no_rdma_device),),
    **dict.fromkeys(("nccl.log", "traffic.pair"), (("rdma.registration", devices.not_registered),)),
    "pcie.distance": (("hca.count", lambda _n, _w, f: _CARD_LOST if f.hint == LOST else ""),),
    "iommu.boot": (("iommu.passthrough", _no_argument),),
    "iommu.faults": (("iommu.passthrough", devices.translated),),
}
# Of what is not known; the checks are many, and the reasons few.
UNKNOWN: tuple[tuple[str, Rule], ...] = (
    ("gpu.lost", _open_for(Gap.LOST)),
    ("nvidia.present", devices.smi_without_driver),
    ("nvidia.present", devices.cuda_without_driver),
    ("nvidia.version", devices.smi_of_another),
    ("nvidia.nvml", devices.smi_silent),
    ("path.selected", _open_for(Gap.PATH)),
)
