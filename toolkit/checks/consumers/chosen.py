"""Which path each library would take, for every GPU and HCA, by its own rules.

Nothing here is a verdict: a library may be out of use, and what a job sets for itself is not
seen. The rules are those of NVIDIA/nccl src/graph/paths.cc and src/transport/net_ib*, openucx/ucx
src/uct/ib/base/ib_md.c, NVIDIA/nvshmem src/modules/transport and linux-rdma/perftest; the
versions are told apart by toolkit/compat/data/consumers.toml and distances.toml.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.consumers.path import (
    REGISTER,
    dmabuf_gap,
    dmabuf_gpu_gap,
    dmabuf_nic_gap,
    peermem_gap,
)
from toolkit.checks.modules.loading import NAMES
from toolkit.compat.reader import Consumer
from toolkit.errors import CutOff, NoEvidence, Unparsable, read_or
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.modules.refusals import parse_refusals
from toolkit.facts.nccl.consumers import Library, Setting
from toolkit.facts.nccl.nccl_log import Direction
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.want import PeerPath, Want

ASKED = "asked"  # origin of a library that stands in the want


class Way(StrEnum):
    """How GPU memory would travel."""

    DMABUF = "dmabuf"
    PEERMEM = "peermem"
    NONE = "none"  # through host memory
    UNKNOWN = "not known"
    MIXED = "mixed"  # of several pairs together


class Answer(Struct, frozen=True):
    """Yes, no with the reason, or not known with what was missing."""

    yes: bool | None
    why: str = ""


class Choice(Struct, frozen=True):
    """What a library decides before it looks at a GPU and an HCA."""

    way: Way
    why: str


class Group(Struct, frozen=True):
    """Pairs and directions about which the same is decided for the same reason."""

    way: Way
    why: str
    directions: tuple[Direction, ...]
    pairs: tuple[tuple[str, str], ...]  # GPU's address, HCA's name or address


class Chosen(Struct, frozen=True):
    """What one library would do on one node."""

    consumer: str  # "nccl"
    version: str  # "" where not known
    origin: str  # path of the library, "ucx_info", or ASKED
    groups: tuple[Group, ...]
    nearest: tuple[tuple[str, str], ...]  # each GPU with its nearest HCA
    otherwise: str = ""  # what one setting would change
    settings: tuple[Setting, ...] = ()  # those seen that it reads
    not_known: tuple[str, ...] = ()

    @property
    def near(self) -> tuple[Group, ...]:
        """The groups that the nearest pairs are in; all where no pair is told."""
        near = set(self.nearest)
        return tuple(e for e in self.groups if not e.pairs or not near or near & set(e.pairs))

    @property
    def way(self) -> Way:
        """For the GPUs with their nearest HCAs: the way that all take in both directions."""
        ways = {each.way for each in self.near}
        return ways.pop() if len(ways) == 1 else (Way.MIXED if ways else Way.UNKNOWN)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, for the same pairs."""
        return tuple(dict.fromkeys(each.why for each in self.near))


def ask(gap: Callable[[], str]) -> Answer:
    """What a function that returns a gap says, where not being able to tell is an answer."""
    try:
        found = gap()
    except (NoEvidence, Unparsable) as why:
        return Answer(None, str(why))
    return Answer(not found, found)


def sees_peermem(node: Node, rules: Consumer) -> bool:
    """Whether one of the files is there by which a library knows of peermem.

    :returns: true as well for a library that does not look.
    :raises NoEvidence: where none was seen, and one could not be looked for.
    """
    trouble: NoEvidence | Unparsable | None = None
    for file in rules.detects:
        try:
            if _exists(node, file):
                return True
        except (NoEvidence, Unparsable) as why:
            trouble = why
    if trouble is not None:
        raise trouble
    return not rules.detects


def _exists(node: Node, file: str) -> bool:
    if not file.startswith("/sys/module/"):
        return file in node.memory_peers
    state = node.module_state.get(file.split("/")[3])
    return state is not None and bool(state.version)


def decide(node: Node, want: Want, rules: Consumer, settings: dict[str, Setting]) -> Choice:
    """The way that a library is set on before it weighs GPU and HCA."""
    dmabuf = _dmabuf(node, want, rules, settings)
    none = f"none of {', '.join(rules.detects)}"
    peermem = ask(lambda: peermem_gap(node) if sees_peermem(node, rules) else none)
    if dmabuf.yes and rules.prefers == "dmabuf":
        return Choice(Way.DMABUF, "driver and HCA can, and it prefers dma-buf")
    if dmabuf.yes is None and rules.prefers == "dmabuf":
        return Choice(Way.UNKNOWN, f"dma-buf is tried first, and is not known: {dmabuf.why}")
    if peermem.yes:
        return Choice(Way.PEERMEM, f"no dma-buf: {dmabuf.why}")
    if peermem.yes is None:
        return Choice(Way.UNKNOWN, f"no dma-buf: {dmabuf.why}; peermem is not known: {peermem.why}")
    return Choice(Way.NONE, f"no dma-buf: {dmabuf.why}; no peermem: {peermem.why}")


_NO_DMABUF = {"nccl": "NCCL_DMABUF_ENABLE", "nvshmem": "NVSHMEM_IB_DISABLE_DMABUF"}


def _dmabuf(node: Node, want: Want, rules: Consumer, settings: dict[str, Setting]) -> Answer:
    if not rules.dmabuf:
        return Answer(False, "this version has none")
    off = settings.get(_NO_DMABUF.get(rules.name, ""))
    if off is not None and _forbids(rules.name, off):
        return Answer(False, f"{off.name}={off.value} in {off.file}")
    exported = ask(lambda: dmabuf_gpu_gap(node, want))
    # NVSHMEM trusts the GPU's attribute and never asks the HCA.
    if exported.yes is not True or rules.name == "nvshmem":
        return exported
    return ask(lambda: dmabuf_nic_gap(node, want))


def _forbids(library: str, setting: Setting) -> bool:
    """Whether a setting takes dma-buf away: NCCL reads a number, NVSHMEM a word."""
    if library == "nccl":
        return bool(setting.value) and setting.number == 0
    return bool(setting.value) and setting.value[0].lower() not in "0nf"


_PREFIXES = {"nccl": "NCCL_", "ucx": "UCX_", "nixl": "UCX_", "nvshmem": "NVSHMEM_"}


def settings_of(node: Node, name: str) -> tuple[dict[str, Setting], tuple[str, ...]]:
    """The settings that a library reads, and what keeps us from knowing them."""
    try:
        seen = node.settings
    except (NoEvidence, Unparsable) as why:
        return {}, (f"settings for everybody: {why}",)
    return {key: each for key, each in seen.items() if key.startswith(_PREFIXES[name])}, ()


def names_its_release(library: Library) -> bool:
    """Whether it can be judged: ucx_info tells UCX's release, as a wheel does; libucp does not."""
    return library.name != "ucx" or bool(library.version)


def wanted(node: Node, want: Want) -> tuple[tuple[str, str, str], ...]:
    """Name, version and origin of each library: those asked for, then those on the node.

    One that was asked for stands in place of what the node has of that name.
    """
    asked = dict(want.consumers)
    found = [(name, version, ASKED) for name, version in asked.items()]
    found += [
        (e.name, e.version, e.path)
        for e in read_or(lambda: node.libraries, ())
        if e.name not in {*asked, "nccl-plugin"} and names_its_release(e)
    ]
    ucx = read_or(lambda: node.ucx, None)
    if ucx is not None and "ucx" not in asked:
        found.append(("ucx", ucx.version, "ucx_info"))
    return tuple(dict.fromkeys(found))


# Which path does a node take, where nobody insists on one?
# Consumers decide for themselves, and NCCL takes dma-buf wherever it is: so does a node on which
# it is usable, else it takes peermem. Where neither is, the one that needs the least repair. What
# cannot be read leaves the path open, and every check that goes by it unknown; but who pastes that
# nvidia-peermem was loaded, or refused, goes by peermem and asks about it.
def taken(node: Node, want: Want) -> Want:
    """The want with the path that this node takes, where it insists on none.

    :returns: with no path where that cannot be told.
    """
    if want.path is not None:
        return want
    try:
        return replace(want, path=_path(node, want), taken=True)
    except (NoEvidence, Unparsable):
        return replace(want, path=PeerPath.PEERMEM if _tried(node.fresh()) else None, taken=True)


def _tried(node: Node) -> bool:
    """Whether loose files say that somebody loaded nvidia-peermem, was refused, or asked of it."""
    try:
        if node.knows_state:
            return False
        told = {*(node.lsmod or ()), *(each.module for each in node.not_inserted)}
        told |= node.tagged_modules
        exports = node.said_symbols is not None and REGISTER in node.said_symbols.modules
        asked = bool(node.peermem_container) or node.peermem_said is not None or exports
        if not told.isdisjoint(NAMES) or asked:
            return True
        log = parse_refusals(node.dmesg) if node.has_log else None
        return log is not None and (log.any or bool(log.at_work))
    except (NoEvidence, Unparsable):
        return False


def _path(node: Node, want: Want) -> PeerPath:
    """The path.

    :raises NoEvidence: where one that is not known may be usable.
    """
    if not node.live:
        return _least(node, want)
    trouble: NoEvidence | Unparsable | None = None
    try:
        if not dmabuf_gap(node, want) and _registers(node, want):
            return PeerPath.DMABUF
    except CutOff:
        raise
    except (NoEvidence, Unparsable) as why:
        trouble = why
    if not peermem_gap(node):
        return PeerPath.PEERMEM
    if trouble is not None:
        raise trouble
    return _least(node, want)


def _least(node: Node, want: Want) -> PeerPath:
    """The path that needs the least repair: no other driver, and no other RDMA stack.

    Of an image too, of which GPUs and HCAs are not known: OFED there is to be used.
    """
    if node.ofed.flavour is not OfedFlavour.INBOX or REGISTER in node.symbols:
        lacks = not node.live or bool(dmabuf_gpu_gap(node, want)) or not _registers(node, want)
    else:
        lacks = node.driver is not None and node.driver.flavor is not Flavor.OPEN
    return PeerPath.PEERMEM if lacks else PeerPath.DMABUF


def _registers(node: Node, want: Want) -> bool:
    """What kernel.version asks, of an old kernel under a new OFED too."""
    since = want.compat.kernel_gate("dmabuf-mr")
    return since.covers(node.kernel) or "ib_umem_dmabuf_get" in node.symbols
