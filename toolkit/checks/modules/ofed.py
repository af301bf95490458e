"""Which RDMA stack is installed, and is it there for this kernel and the next?"""

from __future__ import annotations

from collections import Counter

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.rdma.makers import has_connectx, takes_nvidia_peermem
from toolkit.compat.reader import Hca, numbers
from toolkit.errors import read_or
from toolkit.facts.modules.ofed import LEFTOVER, OFA, OfedSearch
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import MELLANOX, PciFunction
from toolkit.facts.rdma.devices import Ofed, OfedFlavour
from toolkit.facts.versions import Version
from toolkit.want import Want


@check(
    "ofed.flavor",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="ofed_info; stackhpc/ansible-role-ofed; mlnx-ofa_kernel packaging",
    fix="install the wanted stack, or finish removing the other",
)
def flavor(node: Node, want: Want) -> Finding:
    """The RDMA stack is the wanted one, and whole.

    doca-ofed may answer ofed_info with "OFED-internal-": the version is what counts. Ubuntu's
    own prebuilt modules and a driver container have no ofed_info: their version tells them.
    Where ofed_info is of one release and mlx5_core on disk of another, two are mixed: libmlx5
    and the kernel's interface may no longer fit, after the next update at the latest.
    """
    stack = node.ofed
    core = node.rdma_files.get("ib_core")
    by_vendor = stack.flavour is not OfedFlavour.INBOX and not stack.packaging
    if by_vendor and core is not None and core.origin == "inbox":
        return failed(
            f"{stack} is installed, but ib_core on disk is the inbox one",
            expected=f"the modules of {stack.flavour} for {node.kernel}",
            hint="build OFED's modules for this kernel, or remove what is left of it",
        )
    if want.ofed not in {"any", stack.flavour}:
        return failed(str(stack), expected=want.ofed)
    driver = node.rdma_files.get("mlx5_core")
    modules = driver.version if driver is not None else ""
    told, built = stack.version.numbers if stack.version else (), Version(modules).numbers
    if by_vendor and told and len(built) > 2 and told[:2] != built[:2]:
        return failed(
            f"user space of {stack}, modules of {modules}",
            expected="user space and modules of one release",
            hint="finish the update: install the packages of one release, then reload or reboot",
        )
    differ = bool(told and built and told[: len(built)] != built[: len(told)])
    return passed(str(stack), details=(f"mlx5_core {modules}",) if differ else ())


@check(
    "ofed.kernel_match",
    impact=Impact.BROKEN,
    on_disk=True,
    source="mlnx-ofa_kernel dkms.conf and spec; dkms(8), STATUS",
    fix="dkms install OFED/VERSION -k KERNEL, then rebuild nvidia-peermem for it",
)
def kernel_match(node: Node, want: Want) -> Finding:
    """OFED's modules are built for the running kernel and for that of the next boot.

    After a kernel update without them the inbox stack loads, or none, and peermem fails
    with "Invalid argument" or "Unknown symbol".
    """
    stack = node.ofed
    if stack.flavour is OfedFlavour.INBOX:
        return not_applicable("the inbox stack is part of the kernel")
    kernels = list(dict.fromkeys((node.kernel, node.default_kernel)))
    name = node.ofed_dkms
    if name:
        built = {each.kernel for each in node.dkms if each.module == name and each.usable}
    else:  # prebuilt packages: look at the files
        built = {
            each.release
            for each in node.kernels
            if any("/ib_core.ko" in path and "/kernel/" not in path for path in each.modules)
        }
        if stack.packaging:  # wherever they lie, the running kernel's were told by their version
            built.add(node.kernel)
    missing = [kernel for kernel in kernels if kernel not in built]
    if missing:
        return failed(
            f"{name or stack}: not installed for {', '.join(missing)}",
            expected=f"installed for {', '.join(kernels)}",
        )
    return passed(f"{name or stack}: installed for {', '.join(kernels)}")


@check(
    "ofed.headers_link",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="NVIDIA/open-gpu-kernel-modules conftest.sh, nvidia-peermem.Kbuild",
    fix="build OFED for the kernel, so that /usr/src/ofa_kernel/ARCH/KERNEL has its Module.symvers",
)
def headers_link(node: Node, want: Want) -> Finding:
    """A build of the driver finds OFED for this kernel, and its two searches agree.

    conftest decides by any Module.symvers whether nvidia-peermem gets a body; Kbuild links
    against the first folder that exists, symvers or not. Where they differ the build stops,
    or makes a stub; a leftover in /var/lib/dkms stops the build of the whole driver.
    """
    if not node.driver_dkms and not node.peermem_dkms:
        return not_applicable("the driver is not built on this node")
    found = node.ofed_folders.search(node.kernel, node.arch)
    if not found.kbuild and node.ofed.flavour is OfedFlavour.INBOX:
        return not_applicable("no OFED to build against")
    return _agree(node, found, want)


def _agree(node: Node, found: OfedSearch, want: Want) -> Finding:
    kernel, folder = node.kernel, found.kbuild
    stub = "nvidia-peermem would become a stub"
    link = f"ln -s {node.arch}/{kernel} {OFA}/{kernel}"
    build = f"build OFED for {kernel}, or " if has_connectx(node) else ""
    stops = (
        (folder == LEFTOVER, f"{LEFTOVER} is taken for OFED", f"{build}rm -r {LEFTOVER}"),
        (
            folder and not found.kbuild_symvers,
            f"{folder} has no Module.symvers",
            f"{build}remove {folder}",
        ),
        (
            found.conftest and not found.kbuild_symbol,
            f"conftest finds OFED in {found.conftest}, the linker looks in {folder or 'none'}",
            f"build OFED for {kernel}" if build else f"remove {found.conftest}",
        ),
    )
    stubs = (
        (not folder, f"nothing of OFED in {OFA} for {kernel}: {stub}", ""),
        (
            found.kbuild_symbol and not found.conftest,
            f"conftest does not look in {folder}: {stub}",
            link,
        ),
        (not found.conftest, f"{folder} has no peer-memory interface: {stub}", ""),
    )
    judged = stops + stubs if takes_nvidia_peermem(node, want) else stops
    expected = "one folder, with the Module.symvers of OFED for this kernel"
    for wrong, text, hint in judged:
        if wrong:
            return failed(text, expected=expected, hint=hint)
    if not folder:
        return not_applicable(f"nothing of OFED in {OFA} for {kernel}, and the path needs none")
    return _of_this_kernel(node, folder, expected)


def _of_this_kernel(node: Node, folder: str, expected: str) -> Finding:
    """Symbol versions of another kernel's OFED make a module that does not load."""
    real = node.ofed_folders.real(folder)
    named = real.rpartition("/")[2]
    if folder == f"{OFA}/default" and named not in {"default", node.kernel}:
        return failed(
            f"{folder} points at {real}",
            expected=expected,
            hint=f"build OFED for {node.kernel}: it makes {OFA}/{node.arch}/{node.kernel}",
        )
    return passed(folder if real == folder else f"{folder} -> {real}")


# Where the inbox modules are loaded, it takes them out first.
_START = "with the node drained (it may take the HCAs' net devices down): systemctl start openibd"


@check(
    "ofed.openibd",
    impact=Impact.FRAGILE,
    source="mlnx-ofa_kernel ofed_scripts/openibd; Mellanox/doca-driver-build pull request 481",
    fix="systemctl enable openibd; ONBOOT=yes in /etc/infiniband/openib.conf",
)
def openibd(node: Node, want: Want) -> Finding:
    """openibd loads OFED at boot, and has done so.

    A restart of it fails while nvidia_peermem is loaded, which its list of modules to
    unload does not know: unload that first, restart openibd, load it again.
    """
    told = node.services.get("openibd")
    if told is not None and told.failed:  # somebody pasted it, and may have pasted nothing else
        return _has_failed(node, told.result)
    if not node.probed and node.openibd_given:
        return _by_itself(node.openibd_said)
    if node.ofed.flavour is OfedFlavour.INBOX:
        return not_applicable("openibd belongs to OFED")
    unit = node.openibd
    if not unit or unit.get("LoadState") == "not-found":
        return not_applicable("no openibd here: udev loads the modules")
    return _by_systemd(node, unit)


def _by_systemd(node: Node, unit: dict[str, str]) -> Finding:
    state = unit["ActiveState"]
    if state == "failed":
        return _has_failed(node, unit.get("Result", ""))
    off = unit.get("UnitFileState", "")
    conf = "/etc/infiniband/openib.conf"
    ill = (
        (off in {"disabled", "masked"}, f"openibd is {off}", "systemctl enable openibd"),
        (
            node.openib_conf.get("ONBOOT", "yes").lower() == "no",
            f"ONBOOT=no in {conf}",
            f"write ONBOOT=yes into {conf}",
        ),
        (state != "active", f"openibd is {state}", _START),
    )
    for wrong, text, hint in ill:
        if wrong:
            return failed(text, expected="enabled, active, ONBOOT=yes", hint=hint)
    return passed("active")


def _by_itself(failures: tuple[str, ...] | None) -> Finding:
    """What it said while it started or stopped, which tells nothing of the next boot."""
    if failures:
        return failed(
            f"openibd could not: {failures[0]}",
            expected="Loading HCA driver and Access Layer: OK",
            hint="dmesg says which module was refused and why; while nvidia_peermem is loaded "
            "nothing below it unloads: rmmod it first, with the node drained",
            details=failures,
        )
    told = "it has loaded its modules" if failures == () else "it has not come up in this text"
    return unknown(
        f"openibd: {told}; whether it does so at boot is not told",
        hint="systemctl status openibd; grep ONBOOT /etc/infiniband/openib.conf",
    )


def _has_failed(node: Node, result: str) -> Finding:
    return failed(
        f"openibd has failed ({result})",
        expected="active",
        hint="./invokew provision lets it restart under nvidia_peermem; by hand, with the node "
        "drained (RDMA and the net devices of its HCAs go down, SSH over them too): rmmod "
        "nvidia_peermem; systemctl restart openibd; modprobe nvidia-peermem",
        details=read_or(lambda: node.openibd_log[-3:], ()),
    )


# Does the RDMA stack know each HCA that is there?
@check(
    "ofed.hca",
    impact=Impact.BROKEN,
    source="DOCA General Support; MLNX_OFED release notes; toolkit/compat/data/hcas.toml",
    fix="with the node drained (it replaces the RDMA stack): a DOCA-OFED that supports the HCA",
)
def hca(node: Node, want: Want) -> Finding:
    """The RDMA stack supports each HCA that is there.

    MLNX_OFED ends with ConnectX-7 and BlueField-2: with anything newer its mlx5_core finds
    no device of its own, and nothing says why. One that is driven all the same is told, and
    is no failure: it works, and the vendor answers no question about it.
    """
    stack = node.ofed
    if stack.flavour is OfedFlavour.INBOX:
        return not_applicable("the inbox stack: its kernel decides, and rdma.devices tells")
    found = [
        each
        for each in node.pci.functions.values()
        if each.may_be_hca
        and each.vendor == MELLANOX
        and not each.virtual
        and each.driver != "vfio-pci"
    ]
    if not found:
        return not_applicable("no ConnectX and no BlueField here")
    named = {each.address: want.compat.hca(each.device) for each in found}
    outside = [each for each in found if not _supports(stack, named[each.address])]
    shown = ", ".join(
        f"{count} {name}" for name, count in Counter(_name(each, want) for each in found).items()
    )
    if outside and not node.drivers_told:
        return unknown(f"{stack} does not support {_name(outside[0], want)}: is it driven?")
    idle = [each for each in outside if not each.driver]
    if idle:
        return _idle(idle, stack, want)
    strange = [each for each in found if not each.driver and named[each.address] is None]
    if node.drivers_told and strange:
        return unknown(f"{strange[0].address} is {_name(strange[0], want)}, which is not known")
    details = (f"{e.address}: {_name(e, want)}, driven, not supported by {stack}" for e in outside)
    return passed(shown, details=tuple(details))


def _idle(idle: list[PciFunction], stack: Ofed, want: Want) -> Finding:
    first = want.compat.hca(idle[0].device)
    new = f"DOCA-OFED {first.first if first else ''}".strip()
    hint = f"install {new} or newer"
    if (
        first is not None
        and first.before
        and numbers(str(stack.version or "")) >= numbers(first.before)
    ):
        hint = f"keep OFED below {first.before}, or the inbox stack"
    return failed(
        f"{stack} does not support {_name(idle[0], want)}: {len(idle)} without a driver",
        expected="a stack that supports each HCA",
        hint=hint,
        details=tuple(f"{each.address}: {_name(each, want)}" for each in idle),
    )


def _supports(stack: Ofed, kind: Hca | None) -> bool:
    """Whether a stack is said to support a kind of HCA; true for one that is not known."""
    if kind is None or stack.version is None:
        return True
    vendors = stack.flavour is OfedFlavour.DOCA_OFED or kind.mlnx_ofed
    return vendors and kind.covers(str(stack.version))


def _name(function: PciFunction, want: Want) -> str:
    """ "ConnectX-8", or its ids."""
    kind = want.compat.hca(function.device)
    return kind.name if kind else f"15b3:{function.device:04x}"
