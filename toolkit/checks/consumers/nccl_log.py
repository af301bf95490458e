"""What does a job's own log say of GPUDirect RDMA, and does the node say the same?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.choices import choices
from toolkit.checks.consumers.chosen import Chosen, Way
from toolkit.checks.consumers.chosen_nccl import before_ampere
from toolkit.compat.reader import Compat, shipped
from toolkit.facts.nccl.consumers import Setting
from toolkit.facts.nccl.nccl_log import Decision, Direction, Edge, NcclLog, network_edges
from toolkit.facts.node.node import Node
from toolkit.plural import first_of
from toolkit.want import Want

# What a job does not go on from, though its channels were set up for GPUDirect RDMA.
_BROKE = re.compile(r"Got completion|Call to ibv_\w+ failed|NET/OFI |[Aa]sync (?:fatal )?event")
NO_LOG = "no NCCL log was given (doctor --nccl-log FILE)"
AGAIN = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH, with ranks on two nodes"
# HCAs of these makers have no peer-memory client that NCCL's own transport could use.
_IMPOSSIBLE = {"hfi1": "Omni-Path", "rxe": "Soft-RoCE", "siw": "software iWARP"}


@check(
    "nccl.log",
    impact=Impact.SLOW,
    needs_gpu=False,
    source="NVIDIA/nccl src/transport/net.cc, src/graph/paths.cc, v2.4 to v2.30",
    fix="mend what the other checks name; a job's own settings stand in its log",
)
def log(node: Node, want: Want) -> Finding:
    """Every network channel of the job uses GPUDirect RDMA, as its own log tells.

    The suffix /GDRDMA on a channel is the proof, for that channel and that direction. That it
    is missing on sends alone is right below compute capability 8.0 without NVLink: NCCL does
    not let HCAs read there. Since 2.30 the lines on each GPU and HCA are gone, and their
    absence means nothing. The printed distances are numbers of one version; they are decoded.
    """
    told = said_by(node)
    if isinstance(told, str):
        return _by_dump(node.dark_devices) or not_applicable(told)
    edges = tuple(network_edges(told))
    details = tuple(
        decoded(each, told.version, want.compat)
        for each in sorted(told.decisions, key=lambda each: each.enabled)
    )
    if told.versions:
        details = (f"several jobs in one file: NCCL {', '.join(told.versions)}", *details)
    if not edges:
        return _without_channels(told, details)
    return _by_channels(node, want, told, (edges, details))


def _by_channels(
    node: Node, want: Want, told: NcclLog, shown: tuple[tuple[Edge, ...], tuple[str, ...]]
) -> Finding:
    """What its channels over the network say, and what became of them.

    :param shown: the channels, and the lines on distances to be told besides.
    """
    edges, details = shown
    off = [each for each in edges if not each.gdr]
    if any(map(_BROKE.search, told.troubles)):
        return _broken_off(told, (*by_device(edges), *details))
    dark = {(each.host, each.index) for each in told.hcas if not each.enabled}
    if clash := [each for each in edges if each.gdr and (each.host, each.device) in dark]:
        return unknown(
            f"NET/{clash[0].network}/{clash[0].device} is direct, and its HCA is said to be off",
            hint="give the log of one job, whole",
        )
    if not off:
        mapped = " by the PCIe mapping" if any(each.pci for each in edges) else ""
        found = f"on all {len(edges)} network channels{mapped}"
        return passed(found, details=(*by_device(edges), *details))
    if all(each.direction is Direction.SEND for each in off) and len(off) < len(edges):
        return _sends(node, want, told, (edges, off))
    sockets = all(each.network == "Socket" for each in off)
    way = "go by TCP sockets, not by RDMA" if sockets else "go through host memory"
    return failed(
        f"{len(off)} of {len(edges)} network channels {way}",
        expected="the suffix /GDRDMA on each",
        hint=_way_out(told),
        details=(*by_device(edges), *details, *_reasons(told)),
    )


def _by_dump(dark: tuple[str, ...]) -> Finding | None:
    if not dark:
        return None
    return failed(
        f"NCCL's dump has gdr=0 for {', '.join(dark)}",
        expected="gdr=1 for each",
        hint="see path.selected, and consumer.too_old for the library in the job's container",
    )


def _broken_off(told: NcclLog, details: tuple[str, ...]) -> Finding:
    broke = [each for each in told.troubles if _BROKE.search(each)]
    return failed(
        broke[0],
        expected="no registration that is refused, no completion with an error",
        hint=_way_out(told),
        details=(*details, *broke[1:]),
    )


def said_by(node: Node) -> NcclLog | str:
    """The log as far as this node speaks in it; or why there is nothing of it in there.

    All of it where no line has a host, and where the evidence does not name the node.
    """
    whole = node.nccl_log
    if whole is None:
        return NO_LOG
    if not whole.hosts or not node.hostname:
        return whole
    own = whole.of(node.hostname)
    if own is not None:
        return own
    shown = first_of(whole.hosts, 3)
    return f"it is of {shown}, not of this node; pods: judge it alone (doctor --nccl-log FILE)"


def _without_channels(told: NcclLog, details: tuple[str, ...]) -> Finding:
    off = [each for each in told.decisions if not each.enabled]
    dark = [each for each in told.hcas if not each.enabled]
    foreign = [each for each in told.networks if each == "Socket"]
    if told.troubles or foreign:
        found = "; ".join((*told.troubles, *(f"network {each}" for each in foreign)))
        expected = "a network that can use GPUDirect RDMA"
        return failed(found, expected=expected, hint=_way_out(told), details=details)
    if off:
        return failed(
            f"off for {len(off)} of {len(told.decisions)} pairs of GPU and HCA",
            expected="on for each",
            hint=_way_out(told),
            details=details,
        )
    if dark:
        names = ", ".join(each.name for each in dark)
        return failed(
            f"off for {names}", expected="on", hint=_way_out(told), details=_reasons(told)
        )
    if told.torn:
        return unknown(f"{told.torn} lines on channels are torn, and none can be read", hint=AGAIN)
    if told.intra:
        return not_applicable("all its channels are within the node")
    amid = f"; it ended amid: {told.failures[0]}" if told.failures else ""
    return unknown(f"it names no network channel{amid}", hint=_step(told.failures) or AGAIN)


def _sends(
    node: Node, want: Want, told: NcclLog, channels: tuple[tuple[Edge, ...], list[Edge]]
) -> Finding:
    """Receives are direct and sends are not: right on older GPUs, a fault on newer ones.

    :param channels: all, and those that go through host memory.
    """
    edges, off = channels
    found = f"{len(off)} of {len(edges)} network channels, all sends, go through host memory"
    gpus = node.pci.gpus if node.knows_pci else ()
    if not gpus:
        return unknown(
            found, hint="right below compute capability 8.0 without NVLink: which GPU is it?"
        )
    old = all(before_ampere(gpu) for gpu in gpus)
    reads = not old and want.compat.nccl_distances(told.version or "99").ampere_reads
    if not reads and not node.nvlinked:
        which = "Ampere" if old else "2.19"
        details = by_device(edges)
        return passed(f"on every receive; {found}, as NCCL has it before {which}", details=details)
    if not old and not told.version and not node.nvlinked:
        return unknown(found, hint="right before NCCL 2.19 without NVLink: which version is it?")
    return failed(
        found,
        expected="/GDRDMA on sends too",
        hint="NCCL_NET_GDR_READ of the job must not be 0",
        details=(*by_device(edges), *_reasons(told)),
    )


def _reasons(told: NcclLog) -> tuple[str, ...]:
    lines = [
        f"{each.name}: {maker} has no GPUDirect RDMA here"
        for each in told.devices
        for prefix, maker in _IMPOSSIBLE.items()
        if each.name.startswith(prefix)
    ]
    lines += [f"{each.name}: off for the HCA as a whole" for each in told.hcas if not each.enabled]
    lines += [f"{name}={value} in the job" for name, value in told.settings if name in _TELLING]
    able = shipped().cuda_gate("dmabuf")
    if told.cuda and not able.covers(told.cuda):
        lines.append(f"built with CUDA {told.cuda}: no dma-buf before {able.first}")
    return tuple(dict.fromkeys((*lines, *told.troubles)))


_TELLING = frozenset(
    {"NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE", "NCCL_IB_DISABLE"}
    | {"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_TOPO_FILE", "NCCL_NET_GDR_C2C"}
)


# What the status of a completion means: linux-rdma/rdma-core libibverbs/verbs.h, ibv_wc_status.
OF_STATUS = {
    4: "local protection error: the HCA may not reach the memory (ACS, or a translating IOMMU)",
    5: "flushed, for an earlier failure: look for the first, perhaps in another rank's log",
    10: "remote access error: the HCA there may not reach the memory that it was offered",
    11: "remote operation error: the HCA there could not write (ACS, or a translating IOMMU)",
    12: "retries exceeded: GIDs that do not reach each other (NCCL_IB_GID_INDEX), cable, fabric, "
    "or an end that went away",
    13: "the receiver was not ready in time: congestion, or an end that hangs",
}
_STATUS = re.compile(r"Got completion .*?with (?:error |status=)(\d+)")
# The step that follows from a line of trouble: the first that is found.
_STEPS = (
    (r"Cannot allocate memory", "ulimit -l in the job, and in its container (rdma.memlock)"),
    (r"NET/OFI.*register", "the EFA installer and aws-ofi-nccl that fit this NCCL; efa.peermem"),
    (r"fi_getinfo", "fi_info -p efa there: are the devices in the container (ctr.rdma_devices)?"),
    (r"open libibverbs", "rdma-core (libibverbs1, ibverbs-providers) in the job's container"),
    (r"nvls\.cc|failure 802", "nvidia.fabricmanager: after its restart reset all GPUs, or reboot"),
    (r"not found", "install the network plugin that NCCL_NET names, or unset NCCL_NET"),
    (r"No device found", "see rdma.devices; NCCL_IB_HCA and NCCL_IB_DISABLE of the job"),
)


def _step(said: tuple[str, ...]) -> str:
    found = (step for shape, step in _STEPS if any(re.search(shape, each) for each in said))
    return next(found, "")


def _way_out(told: NcclLog) -> str:
    if any(each.name.startswith(tuple(_IMPOSSIBLE)) for each in told.devices):
        return "an HCA whose driver can register GPU memory"
    for status in filter(None, map(_STATUS.search, told.troubles)):
        if int(status[1]) in OF_STATUS:
            return OF_STATUS[int(status[1])]
    if step := _step(told.troubles):
        return step
    if "Socket" in {*told.networks, *(edge.network for edge in told.edges)}:
        return _STEPS[-1][1]
    if any(each.distance is not None and not each.enabled for each in told.decisions):
        return "an HCA at the GPU's switch; NCCL_NET_GDR_LEVEL=SYS allows it anywhere, for a test"
    return "see path.selected, and consumer.too_old for the library in the job's container"


@check(
    "nccl.agrees",
    impact=Impact.FRAGILE,
    source="NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckGdr; toolkit/compat/data/distances.toml",
    fix="run the job again with NCCL_DEBUG=INFO; then look at what its container brings along",
)
def agrees(node: Node, want: Want) -> Finding:
    """The job's log and the node say the same of each GPU and HCA.

    The node is asked what NCCL of the log's version would do on it. Where they differ, one of
    them is not what it seems: the library in the container, a setting of the job, a node that
    has changed since, or a rule of ours that is wrong.
    """
    told = said_by(node)
    if isinstance(told, str):
        return not_applicable(told)
    addresses = {each.address for each in (*node.pci.gpus, *node.hcas)}
    if not told.version:
        several = f"several jobs in one file: NCCL {', '.join(told.versions)}"
        found = several if told.versions else "the log does not tell NCCL's version"
        return unknown(found, hint="give the log of one job" if told.versions else AGAIN)
    asked = replace(want, consumers=(("nccl", told.version),))
    job = {name: Setting(name, value, "the job's log") for name, value in told.settings}
    chosen = next((each for each in choices(node, asked, job=job) if each.consumer == "nccl"), None)
    if chosen is None:
        return not_applicable("there is no GPU here, or this is an image")
    differing, same = _compared(told, chosen)
    if differing:
        return failed(
            f"the log and the node differ on {len(differing)} of {len(differing) + same} edges",
            expected="the same from both",
            details=(*dict.fromkeys(differing), *_reasons(told)),
        )
    if not same:
        found = f"no channel of the log is of one of the node's {len(addresses)} GPUs and HCAs"
        return unknown("; ".join((found, *chosen.not_known[:1])), hint=AGAIN)
    return passed(f"the same for {same} edges between GPU and HCA; {chosen.way}")


Key = tuple[str, str, Direction]


def _compared(told: NcclLog, chosen: Chosen) -> tuple[list[str], int]:
    """The edges on which the log and the node differ, and how many are the same.

    One of which the node does not tell is neither.
    """
    expected = {
        (*pair, direction): group
        for group in chosen.groups
        for pair in group.pairs
        for direction in group.directions
    }
    differing, same = [], 0
    for key, direct in _seen(told):
        group = expected.get(key)
        if group is None or group.way in {Way.UNKNOWN, Way.MIXED}:
            continue
        if direct == (group.way is not Way.NONE):
            same += 1
        else:
            log_says = "direct" if direct else "through host memory"
            differing.append(
                f"{key[0]} and {key[1]}, {key[2]}: the log says {log_says}; the node: "
                f"{group.way} ({group.why})"
            )
    return differing, same


def _seen(told: NcclLog) -> list[tuple[Key, bool]]:
    """GPU's address, HCA's name and direction of each channel that names both, once each."""
    gpus = {(each.host, each.rank): each.bus_id for each in told.ranks if each.bus_id}
    hcas = {(each.host, each.index): each.name for each in told.devices}
    seen: dict[Key, bool] = {}
    for edge in network_edges(told):
        rank = edge.rank if edge.proxy is None else edge.proxy
        gpu, hca = gpus.get((edge.host, rank)), hcas.get((edge.host, edge.device))
        if gpu and hca:
            key = gpu, hca, edge.direction
            seen[key] = seen.get(key, True) and edge.gdr
    return list(seen.items())


# What an NCCL log says, in a few lines: channels by device, and distances by name.


def by_device(edges: Iterable[Edge]) -> tuple[str, ...]:
    """ "NET/IB/3 send: 0 of 2 channels direct", those that are not direct first.

    Devices that stand alike share a line; where several hosts speak, those that have channels
    through host memory are named.
    """
    every: Counter[tuple[str, str, int, str]] = Counter()
    direct: Counter[tuple[str, str, int, str]] = Counter()
    for edge in edges:
        key = edge.host, edge.network, edge.device, edge.direction.value
        every[key] += 1
        direct[key] += edge.gdr
    several = len({host for host, *_ in every}) > 1
    alike: dict[tuple[bool, str, str, int, int, str], list[int]] = {}
    for key, count in sorted(every.items()):
        host, network, device, direction = key
        good = direct[key] == count
        row = good, host if several and not good else "", network, direct[key], count, direction
        if device not in alike.setdefault(row, []):
            alike[row].append(device)
    return tuple(
        f"{host}{' ' if host else ''}NET/{network}/{','.join(map(str, devices))} {direction}: "
        f"{on} of {count} channels direct{' each' if len(devices) > 1 else ''}"
        for (_, host, network, on, count, direction), devices in sorted(alike.items())
    )


def decoded(decision: Decision, version: str, compat: Compat) -> str:
    """One decision with its numbers as names."""
    state = "on" if decision.enabled else "off"
    told = f"GPU {decision.gpu} and HCA {decision.hca}: {state}"
    if decision.distance is None or decision.limit is None:
        return told
    return f"{told}, {meaning(decision.distance, decision.limit, version, compat)}"


def meaning(distance: int, limit: int, version: str, compat: Compat) -> str:
    """ "distance 8 (PHB), limit 5 (PXB)"; where the version is not told, by the versions it fits.

    A default limit is PXB or P2C: the rows of which the printed limit is one fit.
    """
    if version:
        far, near = (compat.path_name(version, number) for number in (distance, limit))
        return f"distance {distance} ({far or 'unknown'}), limit {limit} ({near or 'unknown'})"
    fits = [
        row
        for row in compat.distances
        if limit < len(row.names) and row.names[limit] in {row.limit, row.c2c}
    ]
    names = {row.names[distance] for row in fits if distance < len(row.names)}
    shown = " or ".join(sorted(names)) or "unknown"
    return f"distance {distance} ({shown} by version), limit {limit}"
