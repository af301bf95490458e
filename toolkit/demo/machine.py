"""Which PCI functions a simulated machine has, and where they hang.

Modelled on HGX boards: each GPU shares a PCIe switch with the HCA that serves it.

    root port 0000:15:01.0
    └── switch, upstream port 0000:16:00.0
        ├── downstream port 0000:17:00.0 ── GPU 0000:18:00.0
        └── downstream port 0000:17:01.0 ── HCA 0000:19:00.0
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from toolkit.demo.pci import ACS_REDIRECT, GIB, MIB, ExpressType, Function, Link

# Bus numbers of the root complexes below which pairs hang: four a socket.
_ROOTS = (0x15, 0x26, 0x37, 0x48, 0x97, 0xA7, 0xB7, 0xC7)
_SWITCH_ROOT, _STORAGE_ROOT = 0xD7, 0x05

GPU_IDS, HCA_IDS, NVSWITCH_IDS = (0x10DE, 0x2330), (0x15B3, 0x1021), (0x10DE, 0x22A3)
_ROOT_PORT_IDS, _SWITCH_IDS = (0x8086, 0x352A), (0x1000, 0xC030)
_GEN5 = Link(5, 16)


class Machine(Struct, frozen=True):
    """The hardware of a node."""

    pairs: int = 8  # GPU and HCA below one switch each, at most eight
    gpus: bool = True  # False: the switches have their HCAs and no GPU
    nvswitches: int = 4
    vfs: int = 0  # virtual functions of each HCA
    acs: int = 0  # ACS control register of the bridges; 0x01 is SrcValid alone
    vendor: str = "Supermicro"
    product: str = "SYS-821GE-TNHR"


def functions(machine: Machine) -> tuple[Function, ...]:
    """Every PCI function, in the order of addresses."""
    found: list[Function] = list(_storage())
    # Pairs go to the two sockets by halves, as they do on a real board.
    half = (machine.pairs + 1) // 2
    roots = [_ROOTS[i] if i < half else _ROOTS[4 + i - half] for i in range(machine.pairs)]
    for index, bus in enumerate(roots):
        found += _pair(machine, bus, numa=0 if index < half else 1)
    if machine.gpus:
        found += _nvswitches(machine.nvswitches)
    return tuple(sorted(found, key=lambda each: each.address))


def gpus(machine: Machine) -> tuple[Function, ...]:
    return tuple(each for each in functions(machine) if each.ids == GPU_IDS)


def hcas(machine: Machine) -> tuple[Function, ...]:
    """The physical functions of the HCAs."""
    return tuple(each for each in functions(machine) if each.ids == HCA_IDS)


def _bridge(
    address: str,
    parent: str,
    port: ExpressType,
    below: tuple[int, int],
    *,
    numa: int,
    acs: int | None,
    link: Link = _GEN5,
) -> Function:
    root = port is ExpressType.ROOT_PORT
    label = (
        "PCI bridge: Intel Corporation Sapphire Rapids PCI Express Root Port"
        if root
        else "PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)"
    )
    ids = _ROOT_PORT_IDS if root else _SWITCH_IDS
    return Function(
        address, parent, ids, 0x060400, label, port, link, numa, "pcieport", acs=acs, below=below
    )


def _pair(machine: Machine, bus: int, numa: int) -> list[Function]:
    """A root port, a switch, and what hangs below it."""
    root, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
    down = [f"0000:{bus + 2:02x}:{slot:02x}.0" for slot in (0, 1)]
    gpu, hca = f"0000:{bus + 3:02x}:00.0", f"0000:{bus + 4:02x}:00.0"
    last, acs = bus + 4, machine.acs
    found = [
        _bridge(root, "", ExpressType.ROOT_PORT, (bus + 1, last), numa=numa, acs=acs),
        _bridge(up, root, ExpressType.UPSTREAM, (bus + 2, last), numa=numa, acs=None),
        _bridge(down[0], up, ExpressType.DOWNSTREAM, (bus + 3, bus + 3), numa=numa, acs=acs),
        _bridge(down[1], up, ExpressType.DOWNSTREAM, (last, last), numa=numa, acs=acs),
        _hca(hca, down[1], numa),
    ]
    if machine.gpus:
        found.append(_gpu(gpu, down[0], numa))
    return found + [_vf(found[4], number) for number in range(1, machine.vfs + 1)]


def _gpu(address: str, parent: str, numa: int) -> Function:
    return Function(
        address,
        parent,
        GPU_IDS,
        0x030200,
        "3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)",
        ExpressType.ENDPOINT,
        _GEN5,
        numa,
        "nvidia",
        "nvidia",
        bars=((0, 16 * MIB), (2, 128 * GIB), (4, 32 * MIB)),
        revision=0xA1,
    )


def _hca(address: str, parent: str, numa: int) -> Function:
    return Function(
        address,
        parent,
        HCA_IDS,
        0x020700,
        "Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]",
        ExpressType.ENDPOINT,
        _GEN5,
        numa,
        "mlx5_core",
        "mlx5_core",
        bars=((0, 32 * MIB),),
    )


def _vf(hca: Function, number: int) -> Function:
    address = f"{hca.address[:8]}{number // 8:02x}.{number % 8}"
    label = "Infiniband controller: Mellanox Technologies ConnectX Family mlx5Gen Virtual Function"
    return replace(
        hca,
        address=address,
        ids=(0x15B3, 0x101E),
        label=label,
        physfn=hca.address,
        bars=(),
        driver="",  # sriov_drivers_autoprobe is off, as where they go to guests
        module="",
    )


def _nvswitches(count: int) -> list[Function]:
    bus, port, link = _SWITCH_ROOT, ExpressType.ROOT_PORT, Link(2, 2)
    found = []
    for index in range(count):
        below = bus + 1 + index
        root = f"0000:{bus:02x}:{index + 1:02x}.0"
        found.append(_bridge(root, "", port, (below, below), numa=1, acs=None, link=link))
        found.append(
            Function(
                f"0000:{below:02x}:00.0",
                root,
                NVSWITCH_IDS,
                0x068000,
                "Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev a1)",
                ExpressType.ENDPOINT,
                link,
                1,
                "nvidia-nvswitch",
                "nvidia",
                bars=((0, 32 * MIB),),
                revision=0xA1,
            )
        )
    return found


def _storage() -> list[Function]:
    """An NVMe disk and the management NIC, away from the data path."""
    bus = _STORAGE_ROOT
    disk_root, nic_root = f"0000:{bus:02x}:01.0", f"0000:{bus:02x}:02.0"
    disk = Function(
        f"0000:{bus + 1:02x}:00.0",
        disk_root,
        (0x144D, 0xA80A),
        0x010802,
        "Non-Volatile memory controller: Samsung Electronics Co Ltd NVMe SSD Controller PM9A3",
        ExpressType.ENDPOINT,
        Link(4, 4),
        0,
        "nvme",
        "nvme",
        bars=((0, 32 * 1024),),
        mrrs=512,
    )
    nic = Function(
        f"0000:{bus + 2:02x}:00.0",
        nic_root,
        (0x8086, 0x1572),
        0x020000,
        "Ethernet controller: Intel Corporation Ethernet Controller X710 for 10GbE SFP+",
        ExpressType.ENDPOINT,
        Link(3, 8),
        0,
        "i40e",
        "i40e",
        bars=((0, 16 * MIB), (3, 32 * 1024)),
        revision=2,
        mrrs=512,
    )
    return [_own_root(bus + 1, disk), disk, _own_root(bus + 2, nic), nic]


def _own_root(below: int, device: Function) -> Function:
    """The root port of a device that has one for itself."""
    port = ExpressType.ROOT_PORT
    acs, link = ACS_REDIRECT, device.link
    return _bridge(device.parent, "", port, (below, below), numa=0, acs=acs, link=link)
