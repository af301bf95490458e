"""What can stand between nvidia-peermem on disk and ``modprobe nvidia-peermem``.

Each function looks for one cause, and says which command mends it. "Invalid argument" is
what modprobe says to half of them, and the kernel says nothing at all to the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from toolkit.checks.consumers.path import REGISTER
from toolkit.checks.kernel.secureboot import refused
from toolkit.checks.modules.fixes import build_again, reload
from toolkit.errors import NoEvidence, read_or
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.modules.kernel_modules import ModuleFile, ModuleState
from toolkit.facts.modules.module_file import ModuleImage
from toolkit.facts.modules.refusals import parse_mixed
from toolkit.facts.node.node import Node


# Is what is loaded what lies on disk? Asked of modules that tell it in different ways.
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


RELOAD = f"{reload('rdma')}; if it comes back, rebuild the initramfs"
STACK = ("nvidia", "ib_uverbs", "ib_core")
ARM = "aarch64"
SIGN = "sign it with an enrolled key: mokutil --import CERTIFICATE, confirm at the console"


class Obstacle(Struct, frozen=True):
    """One cause, as it is on this node."""

    found: str
    expected: str
    command: str  # the one step that mends it


def rebuild(node: Node) -> str:
    """The step that builds nvidia-peermem again for the running kernel.

    For hints alone: what is not known is left out of it.
    """
    name = read_or(lambda: node.peermem_dkms or node.driver_dkms, "")
    if not name:
        return f"rebuild nvidia-peermem for {node.kernel}: ./invokew provision"
    return build_again(node, node.kernel)


def image_of(node: Node) -> ModuleImage | None:
    """The chosen module from its bytes; None where the evidence is older than that."""
    return node.peermem_image if node.knows_images else None


def stub(node: Node, chosen: ModuleFile) -> Obstacle | None:
    """It was compiled where OFED's symbols were not seen, or without the driver's."""
    image, depends = image_of(node), {module_name(each) for each in chosen.depends}
    asks = {"ib": True, "nvidia": True}
    if image is not None:
        asks = {family: any(n.startswith(family) for n in image.shared) for family in asks}
    if not depends and (image is None or not any(asks.values())):
        told = "depends on nothing" if image is None else "imports nothing and depends on nothing"
        return Obstacle(
            f"a stub: it {told}",
            f"depends on nvidia and on the module that exports {REGISTER}",
            rebuild(node),
        )
    if not asks["ib"]:
        return Obstacle(f"never asks for {REGISTER}", f"imports {REGISTER}", rebuild(node))
    if "nvidia" not in depends:
        only = f"{', '.join(sorted(depends))} only" if depends else "nothing, whatever it imports"
        return Obstacle(
            f"depends on {only}",
            "depends on nvidia too, or its symbols have no versions",
            rebuild(node),
        )
    rdma = [name for name in depends if not name.startswith("nvidia")]
    if not rdma and node.symbols.get(REGISTER) != "":  # "" is the kernel itself
        return Obstacle("depends on nvidia only", "depends on the RDMA core too", rebuild(node))
    return None


def other_kernel(node: Node, chosen: ModuleFile) -> Obstacle | None:
    """Its vermagic is not the kernel's.

    With symbol versions the kernel passes over the release, and compares the flags behind
    it and the version of module_layout: a weak module of the RHEL family is good.
    """
    words = chosen.vermagic.split()
    if not words:
        raise NoEvidence(f"{chosen.filename}: modinfo tells no vermagic")
    expected = f"built for {node.kernel}"
    if words[0] == node.kernel:
        flags = _kernel_flags(node)
        if flags and set(flags) != set(words[1:]):
            found = f"built for {' '.join(words)}; the kernel's own are {' '.join(flags)}"
            return Obstacle(found, expected, rebuild(node))
        # Of the architectures that GPUDirect is on, one alone stands in vermagic.
        if not flags and (ARM in words) != (node.arch == ARM):
            return Obstacle(f"built for {' '.join(words)}, on {node.arch}", expected, rebuild(node))
        return None
    found = f"built for {words[0]}, running {node.kernel}"
    image = image_of(node)
    flags = _kernel_flags(node)
    if image is None or not image.versions or (flags and set(flags) != set(words[1:])):
        return Obstacle(found, expected, rebuild(node))
    here = {
        each.filename.removeprefix("/usr")
        for each in node.rdma_files.values()
        if each.kernel == node.kernel
    }
    layouts = {e.layout for e in node.exports if e.layout and e.path.removeprefix("/usr") in here}
    if not layouts:
        raise NoEvidence(f"{found}, and nothing says what the kernel's module_layout is")
    if image.versions.get("module_layout") in layouts:
        return None
    return Obstacle(f"{found}, whose module_layout differs", expected, rebuild(node))


def _kernel_flags(node: Node) -> list[str]:
    """The rest of vermagic that modules of the running kernel carry; [] where none is known."""
    for each in node.rdma_files.values():
        if each.kernel == node.kernel:
            return each.vermagic.split()[1:]
    return []


def signature(node: Node, chosen: ModuleFile) -> Obstacle | None:
    """The kernel demands a signature, and would not take this one."""
    found = refused(node, chosen)
    if not found:
        return None
    return Obstacle(found, "signed by a key that the kernel trusts", SIGN)


def no_driver(node: Node) -> Obstacle | None:
    """nvidia is not loaded, and there is none that modprobe could load first."""
    if "nvidia" in node.module_state or node.driver_file is not None:
        return None
    if any(module_name(path) == "nvidia" for path in node.module_deps):
        return None
    return Obstacle(
        f"nvidia is not loaded, and not on disk for {node.kernel}",
        "nvidia loaded, or on disk to be loaded first",
        f"install the driver for {node.kernel}: dkms install nvidia/VERSION -k {node.kernel}",
    )


def mixed(node: Node, chosen: ModuleFile) -> Obstacle | None:
    """The kernel refused a module that nvidia-peermem rests on: it is of another stack."""
    files = node.module_deps.get(_key(node, chosen), ())
    return of_two_stacks(node, {*map(module_name, files), *STACK})


def of_two_stacks(node: Node, names: Collection[str]) -> Obstacle | None:
    """One of these modules was refused for the version of a symbol, and is not loaded.

    One that is loaded now was let in since. Nothing where the log cannot be read.
    """
    if not node.live:
        return None  # an image has no log yet
    told = parse_mixed(read_or(lambda: node.dmesg, ()))
    loaded = node.users if node.knows_state or node.lsmod is not None else {}
    for name, symbols in told.items():
        if name in names and name not in loaded:
            return Obstacle(
                f"{name} was refused: it asks another version of {', '.join(symbols)} (err -22)",
                f"{name} and what is loaded below it of one stack",
                RELOAD,
            )
    return None


def provider(node: Node, chosen: ModuleFile) -> Obstacle | None:
    """Nothing loaded exports the peer-memory interface, nor would anything once loaded.

    A provider that was updated on disk and not reloaded counts too: nvidia-peermem was built
    against the new one, and the symbol versions of the loaded one cannot be read.
    """
    if stale := loaded_from_elsewhere(node, STACK):
        found = f"loaded from another build than that on disk: {', '.join(stale)}"
        command = reload("driver") if "nvidia" in stale else RELOAD
        return Obstacle(found, "the loaded modules are those on disk", command)
    if REGISTER in node.symbols:
        return None
    expected = f"{REGISTER} exported by a loaded module"
    offers = [each.path for each in node.exports if REGISTER in each.crcs]
    if not offers:
        return Obstacle(
            f"nothing exports {REGISTER}, loaded or on disk",
            expected,
            "use dma-buf: --profile dmabuf; or, with the node drained (it replaces the RDMA "
            f"stack), DOCA-OFED for {node.kernel}",
        )
    loaded = [path for path in offers if module_name(path) in node.module_state]
    if loaded:
        found = f"{module_name(loaded[0])} is loaded without {REGISTER}: the wrong stack is loaded"
        return Obstacle(found, expected, RELOAD)
    needs = {module_name(path) for path in node.module_deps.get(_key(node, chosen), ())}
    if not needs & {module_name(path) for path in offers}:
        found = f"{module_name(offers[0])} is not loaded, and modprobe does not know to load it"
        return Obstacle(found, expected, f"depmod -a {node.kernel}")
    return None


def _key(node: Node, chosen: ModuleFile) -> str:
    plain = chosen.filename.removeprefix("/usr")
    return next((each for each in node.module_deps if each.removeprefix("/usr") == plain), "")


def legacy(node: Node) -> Obstacle | None:
    """nv_peer_mem is loaded: it has registered the client of the same name."""
    if "nv_peer_mem" not in node.module_state:
        return None
    return Obstacle(
        "nv_peer_mem is loaded and has registered first",
        "nv_peer_mem not loaded",
        "with no job on the node: rmmod nv_peer_mem; then remove the package nvidia-peer-memory",
    )


def blocked(node: Node) -> Obstacle | None:
    """An install line or the kernel command line keeps it, or what it needs, from loading."""
    listed = {each.replace("-", "_") for each in node.cmdline.listed("module_blacklist")}
    for module in ("nvidia_peermem", *STACK):
        command = node.modprobe.blocked(module)
        if not command and module not in listed:
            continue
        if module != "nvidia_peermem" and (
            module in node.module_state or (module != "nvidia" and REGISTER in node.symbols)
        ):
            continue
        if command:
            found = f"{module}: install {command}"
            remedy = f"remove it: grep -r {module} /etc/modprobe.d"
            return Obstacle(found, "no install line", remedy)
        found = f"{module}: module_blacklist= on the kernel command line"
        return Obstacle(found, "not listed there", "remove it from the kernel command line")
    return None


def needed(node: Node) -> Obstacle | None:
    """The kernel would refuse the signature of a module that has to be loaded first."""
    files = {**node.rdma_files, "nvidia": node.driver_file}
    for name in STACK:
        file = files.get(name)
        if file is not None and name not in node.module_state and (why := refused(node, file)):
            return Obstacle(why, "signed by a key that the kernel trusts", SIGN)
    return None
