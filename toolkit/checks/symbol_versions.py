"""Was nvidia-peermem built against the symbols that the node's modules export now?"""

from __future__ import annotations

from toolkit.checks.obstacles import Obstacle, rebuild
from toolkit.checks.signatures import loaded_as_is
from toolkit.errors import NoEvidence
from toolkit.facts.module_file import ModuleImage
from toolkit.facts.node import Node


def other_versions(node: Node, image: ModuleImage) -> Obstacle | None:
    """A symbol has another version in the installed provider than when this was built.

    :raises NoEvidence: where nothing tells the provider's version.
    """
    layouts, built = _layouts(node), image.versions.get("module_layout")
    if built is not None and layouts and built not in layouts and image.kernel == node.kernel:
        found = f"built against another build of {node.kernel}: module_layout differs"
        return Obstacle(found, "the symbol versions of the running kernel", rebuild(node))
    wrong = []
    for name in image.shared:
        offers = _offers(node, name)
        if not offers:
            found = f"imports {name}, which its installed provider does not export"
            return Obstacle(found, f"{name} exported", rebuild(node))
        built = image.versions.get(name)
        if built is not None and built not in offers.values():
            path, crc = next(iter(offers.items()))
            wrong.append(f"{name} 0x{built:08x}, in {path.rpartition('/')[2]} 0x{crc:08x}")
    if not wrong:
        return None
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Obstacle(
        f"built against another version of {wrong[0]}{more}",
        "the symbol versions of the installed providers",
        rebuild(node),
    )


def _layouts(node: Node) -> set[int]:
    """Versions of module_layout that the running kernel has taken, or came with.

    Two builds of a kernel may have one release and differ in their configuration.
    """
    sure = {
        each.filename.removeprefix("/usr")
        for each in node.rdma_files.values()
        if each.kernel == node.kernel and (each.origin == "inbox" or loaded_as_is(node, each))
    }
    found = {each.path.removeprefix("/usr"): each.layout for each in node.exports}
    return {layout for path, layout in found.items() if layout and path in sure}


def _offers(node: Node, name: str) -> dict[str, int]:
    """Versions of a symbol by the file that exports it; none where its provider has no such.

    An installed module is asked first; Module.symvers speaks where the node's kmod is too
    old to tell, and only of the last build.
    """
    installed = {each.path: each.crcs[name] for each in node.exports if name in each.crcs}
    if installed:
        return installed
    family = name.split("_", 1)[0]
    if any(symbol.startswith(family) for each in node.exports for symbol in each.crcs):
        return {}
    built = {p: crcs[name] for p, crcs in node.symbol_versions.items() if name in crcs}
    if not built:
        raise NoEvidence(f"{name}: no installed module tells its version", hint="kmod 30 or newer")
    return built
