"""Would the kernel take the signature of this module?"""

from __future__ import annotations

from toolkit.facts.modules import ModuleFile
from toolkit.facts.node import Node


def refused(node: Node, file: ModuleFile) -> str:
    """Why the kernel would refuse the module for its signature; "" where it would not.

    That a module is loaded proves that its signature was taken, and so would another by the
    same signer. Otherwise the signer must be among the kernel's keys.

    :raises NeedsRoot: where only the keyrings could tell, and they were not shown.
    """
    demanded = node.signatures_demanded
    if not demanded:
        return ""
    signer, key = _signed_by(node, file)
    if not signer and not key:
        return f"{file.name} is not signed, under {demanded}"
    if signer and signer in _taken(node):
        return ""
    if node.keys.trusts(signer, key) is not None:
        return ""
    return f"{file.name} is signed by {signer or key}, whom the kernel does not trust"


def _signed_by(node: Node, file: ModuleFile) -> tuple[str, str]:
    """Signer and key, from the bytes where they were sent, else as modinfo tells."""
    if file.name == "nvidia_peermem" and node.knows_images:
        image = node.peermem_image
        if image is not None:  # of several files, the one that modprobe takes
            found = image.signature
            return ("", "") if found is None else (found.signer, found.key)
    if file.signer:
        return file.signer, ""
    return ("", "an unnamed key") if file.signed else ("", "")


def _taken(node: Node) -> set[str]:
    """Signers of modules that are loaded as they are on disk.

    Nothing can be told by that once any module without a good signature was let in.
    """
    if node.let_unsigned_in:
        return set()
    files = [*node.rdma_files.values(), *([node.driver_file] if node.driver_file else [])]
    signers = set()
    for file in files:
        state = node.module_state.get(file.name)
        same = state is not None and state.srcversion and state.srcversion == file.srcversion
        if same and file.signer:
            signers.add(file.signer)
    return signers
