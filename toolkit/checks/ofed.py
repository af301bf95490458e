"""Which RDMA stack is installed, and is it there for this kernel and the next?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed
from toolkit.facts.node import Node
from toolkit.facts.rdma import OfedFlavour
from toolkit.want import Want


@check(
    "ofed.flavor",
    impact=Impact.FRAGILE,
    source="ofed_info; stackhpc/ansible-role-ofed; mlnx-ofa_kernel packaging",
    fix="install the wanted stack, or finish removing the other",
)
def flavor(node: Node, want: Want) -> Finding:
    """The RDMA stack is the wanted one, and whole.

    doca-ofed may answer ofed_info with "OFED-internal-": the version is what counts.
    """
    stack = node.ofed
    core = node.rdma_files.get("ib_core")
    if stack.flavour is not OfedFlavour.INBOX and core is not None and core.origin == "inbox":
        return failed(
            f"{stack} is installed, but ib_core on disk is the inbox one",
            expected=f"the modules of {stack.flavour} for {node.kernel}",
            hint="build OFED's modules for this kernel, or remove what is left of it",
        )
    if want.ofed not in {"any", stack.flavour}:
        return failed(str(stack), expected=want.ofed)
    return passed(str(stack))


@check(
    "ofed.kernel_match",
    impact=Impact.BROKEN,
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
        built = {each.release for each in node.kernels if _out_of_tree_core(each.modules)}
    missing = [kernel for kernel in kernels if kernel not in built]
    if missing:
        return failed(
            f"{name or stack}: not installed for {', '.join(missing)}",
            expected=f"installed for {', '.join(kernels)}",
        )
    return passed(f"{name or stack}: installed for {', '.join(kernels)}")


def _out_of_tree_core(modules: tuple[str, ...]) -> bool:
    return any("/ib_core.ko" in path and "/kernel/" not in path for path in modules)
