"""Evidence of a machine as its vendor describes it, made from that of another machine.

``like`` takes an evidence and puts words of it in place of others, as one GPU's device id for
another's. ``with_board`` gives it other hardware: the frames that tell of PCI, GPUs, RDMA devices
and NUMA are written anew, in the form in which the probe prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from tests.evidence.board import Board, Fn
from tests.evidence.frames import Bad, Override
from tests.evidence.machines.edits import HERE, edited
from toolkit.evidence import Evidence, Frame, State

IB, ETHERNET = "InfiniBand", "Ethernet"
ACTIVE, DISABLED = ("4: ACTIVE", "5: LinkUp"), ("1: DOWN", "3: Disabled")


def edit(machine: str) -> Evidence:
    """One of the expert's machines."""
    base = Evidence.parse((HERE / "base.evidence").read_text())
    return edited(base, (HERE / "nodes" / f"{machine}.edits").read_text())


class Gpus(Struct, frozen=True):
    """What the driver tells of each GPU."""

    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 81559  # MiB
    bar1: int = 131072
    device: int = 0x2330
    fabric: tuple[str, str] = ("Completed", "Success")
    cluster: str = "00000000-0000-0000-0000-000000000000"


class Hca(Struct, frozen=True):
    """An RDMA device with one port."""

    name: str  # "mlx5_0"
    address: str
    net: str = ""
    kind: str = "MT4129"  # hca_type; "" where the driver has no such file
    board: str = "MT_0000000838"
    firmware: str = "28.43.1014"
    rate: str = "400 Gb/sec (4X NDR)"
    layer: str = IB
    node: str = "1: CA"
    state: tuple[str, str] = ACTIVE
    address4: str = ""  # of its interface, in the form of a GID: "0a00:0001"


@dataclass(frozen=True, slots=True)
class Hardware:
    """What stands in the frames that ``with_board`` writes."""

    board: Board
    gpus: Gpus
    hcas: tuple[Hca, ...]
    domain: str = ""  # type of every IOMMU group; "" where there is no IOMMU
    unit: str = "dmar0"
    other: Mapping[str, Override | Frame] = field(default_factory=dict)


def like(start: Evidence, *words: tuple[str, str], **others: Override | Frame) -> Evidence:
    """The evidence with words in place of others, and whole frames (a_b for "a-b")."""
    frames = dict(start.frames)
    for old, new in words:
        assert any(old in each.text for each in frames.values()), f"nothing says {old!r}"
        frames = {
            key: replace(each, text=each.text.replace(old, new)) for key, each in frames.items()
        }
    for name, value in others.items():
        key = name.replace("_", "-")
        if isinstance(value, Frame):
            frames[key] = value
            continue
        bad = value if isinstance(value, Bad) else Bad(State.OK, 0, value or "")
        frames[key] = Frame(key, bad.state, frames[key].source, bad.text, bad.exit)
    return Evidence(frames, start.complete)


def with_board(start: Evidence, hardware: Hardware) -> Evidence:
    """The evidence on other hardware."""
    board, driver = hardware.board, start.text("nvidia-smi").split(", ")[2]
    gpus = [each for each in board.functions if each.driver == "nvidia"]
    groups = sorted({each.group for each in board.functions if each.group}, key=int)
    texts: dict[str, Override | Frame] = {
        **board.frames(),
        "iommu-groups": "".join(f"{each}/type:{hardware.domain}\n" for each in groups),
        "iommu-units": _unit(hardware.unit) if hardware.domain else "",
        "aer": f"uptime:360000\nfunctions:{len(board.functions)}\n",
        "iomem": _windows(board),
        "infiniband": _infiniband(hardware.hcas),
        "rdma-nodes": "".join(
            f"/dev/infiniband/{each}\n"
            for each in ("rdma_cm", *(f"uverbs{at}" for at in range(len(hardware.hcas))))
        ),
        "rdma-gids": "".join(map(_gids, hardware.hcas)),
        "net-devices": _nets(hardware.hcas),
        "nvidia-smi": "".join(
            f"{_bus(each)}, {hardware.gpus.name}, {driver}, {hardware.gpus.memory} MiB, Enabled\n"
            for each in gpus
        ),
        "nvidia-topology": _topology(hardware, gpus),
        "nvidia-smi-q": _smi_q(gpus, hardware.gpus, driver),
        **hardware.other,
    }
    return like(start, **{key.replace("-", "_"): value for key, value in texts.items()})


def _bus(function: Fn) -> str:
    domain, rest = function.address.split(":", 1)
    return f"{int(domain, 16):08X}:{rest.upper()}"


def _unit(name: str) -> str:
    return f"/sys/class/iommu/{name} -> ../../devices/virtual/iommu/{name}\n"


def _windows(board: Board) -> str:
    """What /proc/iomem says of the root buses: a window for the regions below each."""
    places = {each.address: board.path(each).split("/")[0] for each in board.functions}
    spans: dict[str, list[tuple[int, int]]] = {}
    for line in board.frames()["pci-resources"].splitlines():
        address, _, values = line.partition("/resource:")
        start, end = (int(each, 16) for each in values.split()[:2])
        if end:
            spans.setdefault(places[address], []).append((start, end))
    # The functions of one card share their addresses on our boards: there is room for all.
    return "".join(
        f"{min(start for start, _ in each):x}-"
        f"{max(end for _, end in each) + sum(end - start + 1 for start, end in each):x}"
        f" : PCI Bus {root.removeprefix('pci')}\n"
        for root, each in spans.items()
    )


def _infiniband(hcas: tuple[Hca, ...]) -> str:
    lines = []
    for at, each in enumerate(hcas):
        port = f"{each.name}/ports/1"
        lines += [f"{each.name}/fw_ver:{each.firmware}"]
        lines += [f"{each.name}/hca_type:{each.kind}"] if each.kind else []
        lines += [f"{each.name}/board_id:{each.board}"] if each.board else []
        lines += [f"{each.name}/node_guid:a088:c203:{at:04x}:1900"]
        lines += [f"{each.name}/node_type:{each.node}"]
        lines += [f"{port}/state:{each.state[0]}", f"{port}/phys_state:{each.state[1]}"]
        lines += [f"{port}/rate:{each.rate}", f"{port}/link_layer:{each.layer}"]
        lines += [f"{each.name}/device:{each.address}"]
        lines += [f"{each.name}/net:{each.net}"] if each.net else []
    return "".join(f"{line}\n" for line in lines)


def _gids(hca: Hca) -> str:
    if hca.layer != ETHERNET:
        return ""
    port, local = f"{hca.name}/ports/1", "fe80:0000:0000:0000:a288:c2ff:fe03:1900"
    rows = [(0, local, "IB/RoCE v1"), (1, local, "RoCE v2")]
    if hca.address4:
        rows.append((3, f"0000:0000:0000:0000:0000:ffff:{hca.address4}", "RoCE v2"))
    return "".join(
        f"{port}/gids/{at}:{gid}\n{port}/gid_attrs/types/{at}:{kind}\n"
        f"{port}/gid_attrs/ndevs/{at}:{hca.net}\n"
        for at, gid, kind in rows
    )


def _nets(hcas: tuple[Hca, ...]) -> str:
    mtus = [(each.net, 9000 if each.layer == ETHERNET else 2044) for each in hcas if each.net]
    up = {each.net: each.state == ACTIVE for each in hcas}
    return "".join(
        f"{name}/mtu:{mtu}\n{name}/operstate:{'up' if up.get(name, True) else 'down'}\n"
        for name, mtu in (*mtus, ("eno1", 1500))
    )


def _topology(hardware: Hardware, gpus: list[Fn]) -> str:
    """``nvidia-smi topo -m`` without its legend of words."""
    board, hcas = hardware.board, hardware.hcas
    linked = gpus if hardware.gpus.fabric[0] == "Completed" else []
    nics = [next(f for f in board.functions if f.address == each.address) for each in hcas]
    names = [f"GPU{at}" for at in range(len(gpus))] + [f"NIC{at}" for at in range(len(nics))]
    functions = [*gpus, *nics]
    head = "\t" + "\t".join((*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))
    lines = [head]
    paths = {each: board.path(each).split("/") for each in functions}
    for name, one in zip(names, functions, strict=True):
        cells = [_between(paths, one, other, linked) for other in functions]
        tail = [f"{56 * one.numa}-{56 * one.numa + 55}", str(one.numa), "N/A"]
        lines.append("\t".join((name, *cells, *(tail if one in gpus else []))))
    legend = ["", "NIC Legend:", "", *(f"  NIC{at}: {e.name}" for at, e in enumerate(hcas))]
    return "".join(f"{line}\n" for line in (*lines, *legend))


def _between(paths: dict[Fn, list[str]], one: Fn, other: Fn, linked: list[Fn]) -> str:
    if one == other:
        return " X "
    if one in linked and other in linked:
        return "NV18"
    ours, theirs = paths[one], paths[other]
    shared = sum(a == b for a, b in zip(ours, theirs, strict=False))
    if shared > 1:
        return "PIX" if len(ours) + len(theirs) - 2 * shared <= 4 else "PXB"
    return "PHB" if shared else "NODE" if one.numa == other.numa else "SYS"


def _smi_q(gpus: list[Fn], told: Gpus, driver: str) -> str:
    lines = [f"Driver Version                            : {driver}"]
    lines += [f"Attached GPUs                             : {len(gpus)}"]
    for each in gpus:
        lines += [f"GPU {_bus(each)}"]
        lines += [f"    Product Name                          : {told.name}"]
        lines += ["    Persistence Mode                      : Enabled", "    MIG Mode"]
        lines += ["        Current                           : Disabled"]
        lines += ["        Pending                           : Disabled"]
        lines += ["    GPU Virtualization Mode"]
        lines += ["        Virtualization Mode               : None"]
        lines += ["        Host VGPU Mode                    : N/A", "    PCI"]
        lines += [f"        Device Id                         : 0x{told.device:04X}10DE"]
        lines += ["    FB Memory Usage"]
        lines += [f"        Total                             : {told.memory} MiB"]
        lines += ["    BAR1 Memory Usage"]
        lines += [f"        Total                             : {told.bar1} MiB", "    Fabric"]
        lines += [f"        State                             : {told.fabric[0]}"]
        lines += [f"        Status                            : {told.fabric[1]}"]
        lines += [f"        ClusterUUID                       : {told.cluster}"]
        lines += ["    Processes                             : None"]
    return "".join(f"{line}\n" for line in lines)
