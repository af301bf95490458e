"""Is what is loaded what lies on disk? Asked of modules that tell it in different ways."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.facts.modules.kernel_modules import ModuleFile, ModuleState
from toolkit.facts.node.node import Node


def loaded_from_elsewhere(node: Node, names: Iterable[str]) -> list[str]:
    """Those whose loaded build is not that on disk."""
    files = {**node.rdma_files, "nvidia": node.driver_file}
    return [
        name
        for name in names
        if (state := node.module_state.get(name)) is not None
        and (file := files.get(name)) is not None
        and apart(state, file)
    ]


def apart(state: ModuleState, file: ModuleFile) -> bool:
    """Whether anything that both tell shows two builds.

    Kernels built without CONFIG_MODULE_SRCVERSION_ALL, as Debian's are, give a srcversion to
    modules with a version alone, and OFED's ib_core has none. The mark "O" of an out-of-tree
    module is on every kernel; the build id tells two builds of one origin apart.
    """
    told = (
        (state.srcversion, file.srcversion),
        (state.build_id, file.build_id),
        (state.version, file.version),
    )
    if any(one and other and one != other for one, other in told):
        return True
    here = state.in_tree
    return here is not None and file.filename != "(builtin)" and here is not file.in_tree
