"""Would the kernel take the signature of this module?"""

from __future__ import annotations

from toolkit.errors import NoEvidence
from toolkit.facts.modules.kernel_modules import ModuleFile
from toolkit.facts.node.node import Node

BUILT_IN = "(builtin)"


def refused(node: Node, file: ModuleFile) -> str:
    """Why the kernel would refuse the module for its signature; "" where it would not.

    That a module is loaded proves that its signature was taken, and so would another by the
    same key. Otherwise the key must be among those that the kernel judges modules by.

    :raises NoEvidence: where a key fits, and nobody can tell whether it counts.
    :raises NeedsRoot: where only the keyrings could tell, and they were not shown.
    """
    demanded = node.signatures_demanded
    if not demanded:
        return ""
    return mistrusted(node, file, demanded)


def mistrusted(node: Node, file: ModuleFile, demanded: str) -> str:
    """The same, for a kernel that demands signatures for another reason than this one's."""
    if file.filename == BUILT_IN:
        return ""
    signer, key = _signed_by(node, file)
    if wrong := _without_signature(node, file, demanded, signer or key):
        return wrong
    # Whether it is a module of the kernel's own RDMA stack: it knows the key it came with.
    inbox = f"/lib/modules/{node.kernel}/kernel/drivers/" in file.filename
    its_own = inbox and file.signed and file.name in node.rdma_files
    if its_own or (signer, key.lstrip("0")) in _taken(node):
        return ""
    if not signer and not key:
        if not node.let_unsigned_in and loaded_as_is(node, file):
            return ""
        raise NoEvidence(
            f"{file.name} is signed, and kmod does not tell by whom",
            hint="a kmod with OpenSSL, or: tail -c 2000 MODULE | strings",
        )
    if node.keys.trusts(signer, key):
        return ""
    return f"{file.name} is signed by {signer or key}, whom the kernel does not trust"


def _without_signature(node: Node, file: ModuleFile, demanded: str, by: str) -> str:
    """Why the module counts as one without signature, whoever signed it; "" where it has one."""
    if not by and not file.signed:
        return f"{file.name} is not signed, under {demanded}"
    if file.name == "nvidia_peermem" and node.peermem_changed:
        return f"{file.name} was changed after it was signed: its signature is of other bytes"
    return ""


def _signed_by(node: Node, file: ModuleFile) -> tuple[str, str]:
    """Signer and key, from the bytes where they were sent, else as modinfo tells."""
    if file.name == "nvidia_peermem" and node.knows_images and file == node.peermem_chosen:
        image = node.peermem_image
        if image is not None:
            found = image.signature
            return ("", "") if found is None else (found.signer, found.key)
    return file.signer, file.key


def loaded_as_is(node: Node, file: ModuleFile) -> bool:
    """Whether the module is loaded from the file that is on disk."""
    state = node.module_state.get(file.name)
    return state is not None and bool(state.srcversion) and state.srcversion == file.srcversion


def _taken(node: Node) -> set[tuple[str, str]]:
    """Signer and key of modules that are loaded as they are on disk.

    Nothing can be told by that once any module without a good signature was let in.
    """
    if node.let_unsigned_in:
        return set()
    files = [*node.rdma_files.values(), *([node.driver_file] if node.driver_file else [])]
    return {
        (each.signer, each.key.lstrip("0"))
        for each in files
        if each.signer and loaded_as_is(node, each)
    }
