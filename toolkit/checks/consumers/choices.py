"""The libraries of one node, each with what it would do: the entry to ``chosen``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from toolkit.checks.check import without_gpus
from toolkit.checks.consumers.chosen import (
    Choice,
    Chosen,
    Group,
    Way,
    ask,
    decide,
    settings_of,
    wanted,
)
from toolkit.checks.consumers.chosen_nccl import (
    Settings,
    allowed,
    by_direction,
    by_distance,
    may_lack_dmabuf,
    of_pair,
    switched_off,
    takes_pxn,
)
from toolkit.checks.consumers.consumers import carries_cuda
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.compat.reader import Distances
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.facts.nccl.consumers import Setting
from toolkit.facts.nccl.nccl_log import Direction
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import AMAZON
from toolkit.facts.pci.pairs import NamedPair
from toolkit.facts.pci.topology import Distance
from toolkit.want import Want

BOTH = tuple(Direction)


def choices(
    node: Node, want: Want, *, job: Mapping[str, Setting] | None = None
) -> tuple[Chosen, ...]:
    """For each library that was asked for or found, each MPI, and perftest's two ways.

    :param job: settings of one job, which count before those for everybody.

    What could not be read makes a choice not known; it never raises NoEvidence. An image and
    a node without GPUs have nothing to choose.
    """
    if not read_or(lambda: node.live, True) or without_gpus(node):
        return ()
    seen = _pairs(node)
    libraries = [_library(node, want, seen, each, job or {}) for each in wanted(node, want)]
    return (*libraries, *_mpis(node, libraries, seen), *_perftest(node, want, seen))


def _pairs(node: Node) -> tuple[tuple[NamedPair, ...], str]:
    """Every GPU with every HCA; or none, and why."""
    try:
        found = node.pairs
    except (NoEvidence, Unparsable) as why:
        return (), str(why)
    if not found.pairs and not found.whole:
        return (), f"{found.source}: an excerpt, which names none"
    return found.pairs, ""


Seen = tuple[tuple[NamedPair, ...], str]


def _library(
    node: Node, want: Want, seen: Seen, library: tuple[str, str, str], job: Mapping[str, Setting]
) -> Chosen:
    name, version, origin = library
    rows = [each for each in want.compat.consumers if each.name == name]
    rules = want.compat.consumer(name, version) if version or len(rows) == 1 else None
    settings, not_known = settings_of(node, name)
    settings = {**settings, **job}
    if rules is not None:
        base = _switched_off(node, library, settings) or decide(node, want, rules, settings)
    else:
        base = _by_any_version(node, want, library, settings)
    if name == "nccl":
        base, seen, unsure = _of_nccl(node, seen, base, library, settings)
        not_known += unsure
    if seen[1]:
        not_known += (f"GPUs and HCAs: {seen[1]}",)
    groups: tuple[Group, ...]
    if seen[1]:
        groups = (_unplaced(name, base),)
    elif name == "nccl" and version:
        groups = _nccl_groups(node, want.compat.nccl_distances(version), seen[0], base, settings)
    else:
        groups = _groups(node, seen[0], lambda *_: base)
    if name == "nccl":
        not_known += _plugins(node)
    return Chosen(
        name,
        version,
        origin,
        groups,
        _nearest(node, seen[0]),
        _otherwise(node, name, base),
        tuple(settings.values()),
        not_known,
    )


def _of_nccl(
    node: Node, seen: Seen, base: Choice, library: tuple[str, str, str], settings: Settings
) -> tuple[Choice, Seen, tuple[str, ...]]:
    """The same with what NCCL has of its own: how it was built, and which HCAs it is to use.

    Its last part is what is not known of it.
    """
    _, version, origin = library
    if base.way is Way.DMABUF and may_lack_dmabuf(version, origin):
        base = Choice(Way.UNKNOWN, "built for CUDA 11: it has dma-buf from CUDA 11.7 on alone")
    left = _used(node, seen[0], settings)
    if left is None:
        return base, seen, (f"which HCAs NCCL_IB_HCA={settings['NCCL_IB_HCA'].value} leaves",)
    if seen[0] and not left:
        return Choice(Way.NONE, "NCCL_IB_HCA leaves none of the HCAs that are here"), seen, ()
    return base, (left, seen[1]), ()


def _by_any_version(
    node: Node, want: Want, library: tuple[str, str, str], settings: Settings
) -> Choice:
    """Where the version is not known: what all versions would do, if they agree."""
    unknown = Choice(Way.UNKNOWN, "its version is not known")
    name = library[0]
    off = _switched_off(node, library, settings)
    if off is not None or name == "nccl":  # its distances go by version too
        return off or unknown
    rows = [each for each in want.compat.consumers if each.name == name]
    found = [decide(node, want, each, settings) for each in rows]
    alike = len({each.way for each in found}) == 1
    return Choice(found[-1].way, f"whatever its version: {found[-1].why}") if alike else unknown


def _used(
    node: Node, pairs: tuple[NamedPair, ...], settings: Settings
) -> tuple[NamedPair, ...] | None:
    """The pairs with the HCAs that NCCL_IB_HCA leaves; None where their names are not known."""
    chosen = settings.get("NCCL_IB_HCA")
    if chosen is None:
        return pairs
    names = _names(node)
    if any(each.hca not in names for each in pairs):
        return None
    return tuple(each for each in pairs if allowed(names[each.hca], chosen))


def _unplaced(name: str, base: Choice) -> Group:
    """Where nobody knows the GPUs and HCAs: NCCL asks how far they are apart."""
    if name == "nccl" and base.way is not Way.NONE:
        base = Choice(Way.UNKNOWN, f"{base.why}; how far GPUs and HCAs are apart is not known")
    return Group(base.way, base.why, BOTH, ())


def _switched_off(node: Node, library: tuple[str, str, str], settings: Settings) -> Choice | None:
    name, _, origin = library
    if name == "nccl":
        return switched_off(settings)
    if name in {"ucx", "nixl"}:
        found, tls = settings.get("UCX_IB_GPU_DIRECT_RDMA"), settings.get("UCX_TLS")
        if found is not None and found.value.lower() in {"n", "no", "0"}:
            return Choice(Way.NONE, f"{found.name}={found.value} in {found.file}")
        if tls is not None and not carries_cuda(tls.value):
            return Choice(Way.NONE, f"UCX_TLS={tls.value} in {tls.file} has no CUDA in it")
    # What ucx_info says of its build is of that UCX alone: not of a wheel's, nor of a job's.
    ucx = read_or(lambda: node.ucx, None) if origin == "ucx_info" else None
    if ucx is not None and ucx.cuda is False:
        return Choice(Way.NONE, "it was built without CUDA")
    return None


def _nccl_groups(
    node: Node, row: Distances, pairs: tuple[NamedPair, ...], base: Choice, settings: Settings
) -> tuple[Group, ...]:
    near: dict[Distance, Choice | None] = {
        each.distance: by_distance(row, settings, each.distance) for each in pairs
    }
    sending = {
        each.gpu: by_direction(node, row, each.path.gpu if each.path else None, settings)
        for each in pairs
    }
    proxied = takes_pxn(row) and read_or(lambda: node.nvlinked, False)

    def choose(each: NamedPair, direction: Direction) -> Choice:
        if each.path and each.path.hca.vendor == AMAZON and base.way is not Way.NONE:
            return Choice(Way.UNKNOWN, "EFA: by libfabric's plugin, which has rules of its own")
        rules = (lambda: near[each.distance], lambda: sending[each.gpu])
        found = of_pair(base, rules, direction)
        if found is near[each.distance] and found.way is Way.NONE and proxied:
            return Choice(Way.NONE, f"{found.why}; through the GPU beside that HCA by PXN")
        return found

    return _groups(node, pairs, choose)


def _groups(
    node: Node, pairs: tuple[NamedPair, ...], choose: Callable[[NamedPair, Direction], Choice]
) -> tuple[Group, ...]:
    """Legs that stand alike, together: first by pairs, then by directions."""
    if not pairs:
        return (Group(Way.NONE, "there is no GPU with an HCA", BOTH, ()),)
    names = _names(node)
    legs: dict[tuple[Way, str, Direction], list[tuple[str, str]]] = {}
    for each in pairs:
        label = (each.gpu, names.get(each.hca, each.hca))
        for direction in BOTH:
            found = choose(each, direction)
            legs.setdefault((found.way, found.why, direction), []).append(label)
    groups: dict[tuple[Way, str, tuple[tuple[str, str], ...]], list[Direction]] = {}
    for (way, why, direction), labels in legs.items():
        groups.setdefault((way, why, tuple(labels)), []).append(direction)
    return tuple(
        Group(way, why, tuple(directions), labels)
        for (way, why, labels), directions in groups.items()
    )


def _names(node: Node) -> dict[str, str]:
    """RDMA names by PCI address."""
    return {each.address: each.name for each in read_or(lambda: node.rdma_hardware, ())}


def _nearest(node: Node, pairs: tuple[NamedPair, ...]) -> tuple[tuple[str, str], ...]:
    best: dict[str, NamedPair] = {}
    for each in pairs:
        if each.gpu not in best or each.distance < best[each.gpu].distance:
            best[each.gpu] = each
    names = _names(node)
    return tuple((gpu, names.get(e.hca, e.hca)) for gpu, e in best.items())


def _otherwise(node: Node, name: str, base: Choice) -> str:
    """The one setting by which a job can take the other path, where that path is there."""
    switch = {"nccl": "NCCL_DMABUF_ENABLE=0", "nvshmem": "NVSHMEM_IB_DISABLE_DMABUF=1"}.get(name)
    if base.way is not Way.DMABUF or switch is None:
        return ""
    return f"peermem with {switch}" if read_or(lambda: not peermem_gap(node), False) else ""


def _plugins(node: Node) -> tuple[str, ...]:
    """Plugins beside the library, which a job may load in place of NCCL's own InfiniBand code."""
    return tuple(
        f"whether jobs load {each.path}, which has rules of its own"
        for each in read_or(lambda: node.libraries, ())
        if each.name == "nccl-plugin"
    )


def _mpis(node: Node, libraries: list[Chosen], seen: Seen) -> Iterator[Chosen]:
    """MPI leaves GPU memory to UCX or libfabric; of these we know UCX."""
    # Of several the one that was asked for or that ucx_info is of, and not a wheel's.
    ucx = next((e for e in libraries if e.consumer == "ucx" and e.origin[:1] != "/"), None)
    for mpi in read_or(lambda: node.mpis, ()):
        if mpi.cuda and mpi.name == "Open MPI" and ucx is not None:
            groups = tuple(replace(each, why=f"by UCX: {each.why}") for each in ucx.groups)
        elif mpi.cuda:
            groups = (Group(Way.UNKNOWN, "by UCX or libfabric, which were not seen", BOTH, ()),)
        else:
            groups = (Group(Way.NONE, "it was built without CUDA", BOTH, ()),)
        yield Chosen(mpi.name, mpi.version, mpi.prefix, groups, _nearest(node, seen[0]))


def _perftest(node: Node, want: Want, seen: Seen) -> Iterator[Chosen]:
    """ib_write_bw takes the path that its options name, and tries no other."""
    tool = read_or(lambda: node.perftest, None)
    if tool is None:
        return
    for options, built, gap, way in (
        ("--use_cuda", tool.cuda, lambda: peermem_gap(node), Way.PEERMEM),
        ("--use_cuda --use_cuda_dmabuf", tool.dmabuf, lambda: dmabuf_gap(node, want), Way.DMABUF),
    ):
        base = _by_option(options, built, gap, way)
        groups = (
            _groups(node, seen[0], lambda *_, base=base: base)
            if not seen[1]
            else (_unplaced("perftest", base),)
        )
        yield Chosen(f"perftest {options}", "", tool.path, groups, _nearest(node, seen[0]))


def _by_option(options: str, built: bool | None, gap: Callable[[], str], way: Way) -> Choice:
    if built is not True:
        return Choice(Way.NONE, f"it was built without what {options} needs")
    works = ask(gap)
    if works.yes is None:
        return Choice(Way.UNKNOWN, works.why)
    return Choice(way, "asked for by name") if works.yes else Choice(Way.NONE, works.why)
