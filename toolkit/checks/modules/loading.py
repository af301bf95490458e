"""Would ``modprobe nvidia-peermem`` succeed? Judged from files, before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.path import REGISTER
from toolkit.checks.kernel.secureboot import loaded_as_is
from toolkit.checks.modules import obstacles
from toolkit.checks.modules.fixes import reload
from toolkit.checks.modules.obstacles import Obstacle, rebuild
from toolkit.errors import NoEvidence
from toolkit.facts.modules.module_file import ModuleImage
from toolkit.facts.modules.refusals import Refusals, parse_not_inserted, parse_refusals
from toolkit.facts.node.node import Node
from toolkit.plural import first_of
from toolkit.want import PeerPath, Want

PEERMEM_ONLY = frozenset({PeerPath.PEERMEM})
NAMES = ("nvidia_peermem", "nv_peer_mem")
NO_FILE = "no nvidia-peermem on disk; see peermem.file"


def _failed(obstacle: Obstacle) -> Finding:
    return failed(obstacle.found, expected=obstacle.expected, hint=obstacle.command)


def is_live(node: Node) -> bool:
    """Whether nvidia-peermem is loaded, by /sys/module or by lsmod or kallsyms as loose files.

    :raises NoEvidence: where these list it, and it was refused once: before, after, elsewhere.
    """
    if not node.knows_state and node.lsmod is not None:
        listed = "nvidia_peermem" in node.lsmod
        refused = parse_not_inserted(node.modprobe_said.split("\n"))
        if listed and any(each.module in NAMES for each in refused):
            raise _which_last("lsmod lists it")
        return listed
    if not node.knows_state and "nvidia_peermem" in node.tagged_modules:
        refused = node.not_inserted  # by a loader that the log tells of, too
        by_kernel = node.has_log and parse_refusals(node.dmesg).any
        if by_kernel or any(each.module in NAMES for each in refused):
            raise _which_last("its symbols stand in /proc/kallsyms")
        return True
    state = node.module_state.get("nvidia_peermem")
    return state is not None and state.initstate == "live"


def _which_last(listed: str) -> NoEvidence:
    return NoEvidence(
        f"{listed}, and it could not be inserted: which came last?",
        hint="lsmod | grep -e nvidia -e ib_core",
    )


@check(
    "peermem.crc",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="kernel/module/version.c, check_version; NVIDIA/gpu-operator issue 2868",
    fix="rebuild nvidia-peermem against the driver and the OFED that are installed now",
)
def crc(node: Node, want: Want) -> Finding:
    """nvidia-peermem was built against the very symbols that the installed modules export.

    Each exported symbol carries a checksum of its types. After an update of OFED or of the
    driver the old nvidia-peermem is refused with "Invalid argument"; the kernel log says
    "disagrees about version of symbol". Here the checksums in the file are held against
    those of the installed modules, before anything is loaded.
    """
    if node.peermem_chosen is None:
        return not_applicable(NO_FILE)
    if node.kernel_config.get("CONFIG_MODVERSIONS") == "n":
        return not_applicable("the kernel keeps no symbol versions")
    image = node.peermem_image
    assert image is not None  # a file was chosen
    if not image.shared:
        return not_applicable("imports nothing of the driver or OFED; see peermem.stub")
    found = other_versions(node, image)
    if found is not None:
        return _failed(found)
    bare = [name for name in image.shared if name not in image.versions]
    if bare:
        return unknown(
            f"built without a version for {', '.join(bare)}", hint=obstacles.rebuild(node)
        )
    return passed(f"{len(image.shared)} symbols, each as the installed modules export it")


@check(
    "peermem.vermagic",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="kernel/module/main.c, check_modinfo; version.c, same_magic",
    fix="build nvidia-peermem for the running kernel: dkms install MODULE/VERSION -k KERNEL",
)
def vermagic(node: Node, want: Want) -> Finding:
    """nvidia-peermem was built for a kernel like the running one.

    modprobe says "Exec format error" to a module for another kernel. A module that the RHEL
    family links from an older release (weak-updates) is good as long as module_layout is
    the same: with symbol versions the kernel does not compare the release itself.
    """
    chosen = node.peermem_chosen
    if chosen is None:
        return not_applicable(NO_FILE)
    found = obstacles.other_kernel(node, chosen)
    return passed(f"built for {chosen.kernel}") if found is None else _failed(found)


@check(
    "peermem.provider",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="kernel/module/main.c, resolve_symbol; Mellanox/nv_peer_memory issues 39 and 107",
    fix="install the driver and OFED for the running kernel; then " + reload("rdma"),
)
def provider(node: Node, want: Want) -> Finding:
    """What nvidia-peermem imports is exported by the modules that are loaded, or will be.

    The usual miss is the kernel's own RDMA stack, loaded from the initramfs although OFED
    is on disk: "Unknown symbol ib_register_peer_memory_client (err -2)".
    """
    if is_live(node):
        return passed("nvidia-peermem is loaded: both were found")
    chosen = node.peermem_chosen
    if chosen is None:
        return not_applicable(NO_FILE)
    looks = (obstacles.provider, obstacles.mixed)
    for found in (obstacles.no_driver(node), *(look(node, chosen) for look in looks)):
        if found is not None:
            return _failed(found)
    driver = "nvidia is loaded" if "nvidia" in node.module_state else "nvidia would be loaded first"
    if REGISTER in node.symbols:
        return passed(f"{driver}; {REGISTER}: {node.symbols[REGISTER] or 'the kernel itself'}")
    return passed(f"{driver}; the exporter of {REGISTER} would be loaded first")


@check(
    "peermem.unknown_symbol",
    impact=Impact.BROKEN,
    paths=PEERMEM_ONLY,
    source="kernel/module/main.c, simplify_symbols; Mellanox/nv_peer_memory issues 59 and 84",
    fix="err -22: rebuild nvidia-peermem; err -2 or 0: " + reload("rdma"),
)
def unknown_symbol(node: Node, want: Want) -> Finding:
    """The kernel has refused no symbol to nvidia-peermem, nor to a module that it rests on.

    err -22 is another version of the symbol, err -2 (or 0) is none at all: the kernel's own
    RDMA stack is loaded. "nv_get_p2p_free_callback ... invalid context" is neither: a
    loaded nvidia-peermem says so when a process dies with memory registered.
    """
    if (node.knows_state or node.lsmod is not None) and is_live(node):
        return passed("nvidia-peermem is loaded: each symbol was found")
    told = parse_refusals(node.dmesg)
    if told.other_version:
        return failed(
            f"another version of {', '.join(told.other_version)} (err -22)",
            expected="built against the modules that are loaded",
            hint=obstacles.rebuild(node) if node.given_kernel else "rebuild nvidia-peermem",
        )
    if told.absent:
        driver = all(name.startswith("nvidia") for name in told.absent)
        return failed(
            f"not exported by anything loaded: {', '.join(told.absent)}",
            expected="exported by nvidia" if driver else "exported by ib_uverbs or ib_core",
            hint="modprobe nvidia" if driver else obstacles.RELOAD,
        )
    chosen = node.peermem_chosen if node.given_kernel else None
    if chosen is not None and (other := obstacles.mixed(node, chosen)) is not None:
        return _failed(other)
    return _no_refusal(told)


def _no_refusal(told: Refusals) -> Finding:
    if told.at_work:
        return passed("it was loaded and at work when it wrote to the log", details=(told.at_work,))
    if not told.whole:
        return unknown("the kernel log does not reach back to the boot", hint="journalctl -k -b")
    return passed("the log since boot holds no refusal")


@check(
    "peermem.params",
    impact=Impact.FRAGILE,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="NVIDIA/open-gpu-kernel-modules nvidia-peermem.c, module_param",
    fix="remove the options line of nvidia-peermem from /etc/modprobe.d; then " + reload(),
)
def params(node: Node, want: Want) -> Finding:
    """The parameters of nvidia-peermem are those of its default.

    peerdirect_support=1 is for MLNX_OFED 4.9 LTS alone, persistent_api_support=0 registers
    two clients as old drivers did. Any other value is refused: "Invalid argument".
    """
    settings = [(name, value, "loaded") for name, value in node.peermem_params.items()]
    for module, words in node.modprobe.options:
        if module == "nvidia_peermem":
            pairs = (word.partition("=") for word in words.split())
            settings += [(name, value, "at the next load") for name, _, value in pairs]
    known = {"peerdirect_support": "0", "persistent_api_support": "1"}
    ofed = node.ofed.version
    if ofed is not None and str(ofed).startswith("4.9"):
        known["peerdirect_support"] = "1"
    wrong = [
        (name, value, when)
        for name, value, when in settings
        if name in known and value != known[name]
    ]
    if wrong:
        names = dict.fromkeys(name for name, *_ in wrong)
        return failed(
            "; ".join(f"{name}={value} ({when})" for name, value, when in wrong),
            expected=", ".join(f"{name}={known[name]}" for name in names),
            hint="remove the options line (grep -r nvidia.peermem /etc/modprobe.d); " + reload(),
        )
    if not settings:
        return not_applicable("nvidia-peermem is not loaded, and no options wait for it")
    return passed(", ".join(f"{name}={value}" for name, value, _ in settings))


def first_obstacle(node: Node) -> tuple[str, Obstacle] | None:
    """The cause to mend first, with the check that tells more of it; None where there is none.

    In the order in which one thing hides the next: a stub has no versions to compare.
    """
    # Where an install line stands in its place, modprobe tells of no file.
    if (kept := obstacles.blocked(node)) is not None:
        return "modules.blacklist", kept
    chosen = node.peermem_chosen
    if chosen is None:
        others = [each.release for each in node.kernels if each.has("nvidia-peermem")]
        told = f"; built for {', '.join(others)}" if others else ""
        nothing = f"modprobe finds no nvidia-peermem for {node.kernel}{told}"
        missing = Obstacle(nothing, "a module that modprobe finds", obstacles.rebuild(node))
        return "peermem.file", missing
    causes: tuple[tuple[str, Callable[[], Obstacle | None]], ...] = (
        ("peermem.stub", lambda: obstacles.stub(node, chosen)),
        ("peermem.vermagic", lambda: obstacles.other_kernel(node, chosen)),
        ("module.signed", lambda: obstacles.signature(node, chosen)),
        ("peermem.provider", lambda: obstacles.no_driver(node)),
        ("peermem.provider", lambda: obstacles.provider(node, chosen)),
        ("peermem.unknown_symbol", lambda: obstacles.mixed(node, chosen)),
        ("module.signed", lambda: obstacles.needed(node)),
        ("peermem.crc", lambda: _versions(node)),
        ("peermem.legacy_conflict", lambda: obstacles.legacy(node)),
    )
    for name, look in causes:
        if (found := look()) is not None:
            return name, found
    return None


def _versions(node: Node) -> Obstacle | None:
    if node.kernel_config.get("CONFIG_MODVERSIONS") == "n":
        return None
    image = node.peermem_image
    assert image is not None  # a file was chosen
    return other_versions(node, image)


@check(
    "peermem.loadable",
    impact=Impact.BROKEN,
    paths=PEERMEM_ONLY,
    source="kernel/module/main.c, load_module; the bytes of the module and of its providers",
    fix="the command that stands beside the cause; then modprobe nvidia-peermem",
)
def loadable(node: Node, want: Want) -> Finding:
    """modprobe nvidia-peermem would succeed now.

    "Invalid argument" has many causes and names none. They are looked for in the files, in
    the order in which one hides the next: kept from loading, a stub, a module for another
    kernel, a signature that the kernel refuses, no driver, no RDMA core that exports the
    interface, other symbol versions, and the older nv_peer_mem in its place.
    """
    if is_live(node):
        return passed("it is loaded")
    found = first_obstacle(node)
    if found is None:
        return passed("nothing stands in the way", details=("modprobe nvidia-peermem",))
    name, obstacle = found
    return failed(
        obstacle.found, expected=obstacle.expected, hint=obstacle.command, details=(f"see {name}",)
    )


# Symbol versions: was nvidia-peermem built against what the node's modules export now?


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
    return Obstacle(
        f"built against another version of {first_of(wrong)}",
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
