"""Boards of GPU servers, as their vendors draw them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from tests.evidence.board import BRIDGE, ETHERNET, GIB, GPU_CLASS, IB, MIB, Board, Fn
from tests.evidence.platforms import DATA_DIRECT

Ids = tuple[int, int]
H100, H200, B200, L40S = (0x10DE, 0x2330), (0x10DE, 0x2335), (0x10DE, 0x2901), (0x10DE, 0x26B9)
GB200, GB300, GH200 = (0x10DE, 0x2941), (0x10DE, 0x31C2), (0x10DE, 0x2342)
BARS = {H100: 128, H200: 256, B200: 256, L40S: 64, GB200: 256, GB300: 512, GH200: 128}  # GiB
NVSWITCH, GRACE = (0x10DE, 0x22A3), (0x10DE, 0x22B1)
CX7, CX7_VF, CX7_BRIDGE = (0x15B3, 0x1021), (0x15B3, 0x101E), (0x15B3, 0x1979)
THOR2, POLLARA, E810 = (0x14E4, 0x1760), (0x1DD8, 0x1002), (0x8086, 0x1592)
EFA_P5, EFA_P5EN = (0x1D0F, 0xEFA2), (0x1D0F, 0xEFA3)
XEON, BROADCOM, AWS_BRIDGE = (0x8086, 0x352A), (0x1000, 0xC030), (0x1D0F, 0x0200)
BUSES = (0x15, 0x26, 0x37, 0x48, 0x97, 0xA7, 0xB7, 0xC7)
TRANSLATING = 0x1D  # what the kernel sets where the IOMMU asks for ACS


@dataclass(frozen=True, slots=True)
class Nic:
    """A network function of one kind."""

    ids: Ids
    driver: str
    klass: int = ETHERNET

    def at(self, address: str, parent: str, numa: int = 0, group: str = "") -> Fn:
        bars = ((0, 32 * MIB),)
        return Fn(address, parent, self.ids, self.klass, self.driver, group, numa, bars=bars)


MLX_IB, MLX_ROCE = Nic(CX7, "mlx5_core", IB), Nic(CX7, "mlx5_core")
VF_IB, VF_ROCE = Nic(CX7_VF, "mlx5_core", IB), Nic(CX7_VF, "mlx5_core")


def gpu(address: str, parent: str, ids: Ids, numa: int = 0, group: str = "") -> Fn:
    """A GPU with the BAR1 of its model."""
    bars = ((0, 16 * MIB), (2, BARS[ids] * GIB), (4, 32 * MIB))
    return Fn(address, parent, ids, GPU_CLASS, "nvidia", group, numa, bars=bars)


def hgx(ids: Ids, nic: Nic, *, switches: int) -> Board:
    """Eight GPUs, each below one PCIe switch with a NIC; NVSwitches on a bus of their own."""
    found: list[Fn] = []
    for at, bus in enumerate(BUSES):
        numa, root, up = at // 4, f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        left, right = f"0000:{bus + 2:02x}:00.0", f"0000:{bus + 2:02x}:01.0"
        group = (str(2 * at + 1), str(2 * at + 2))
        found += [
            Fn(root, f"pci0000:{bus:02x}", XEON, BRIDGE, numa=numa, acs=0x01),
            Fn(up, root, BROADCOM, BRIDGE, numa=numa, upstream=True),
            Fn(left, up, BROADCOM, BRIDGE, numa=numa, acs=0x01),
            Fn(right, up, BROADCOM, BRIDGE, numa=numa, acs=0x01),
            gpu(f"0000:{bus + 3:02x}:00.0", left, ids, numa, group[0]),
            nic.at(f"0000:{bus + 4:02x}:00.0", right, numa, group[1]),
        ]
    for at in range(switches):
        root, here = f"0000:d7:{at + 1:02x}.0", f"0000:{0xD8 + at:02x}:00.0"
        found += [Fn(root, "pci0000:d7", XEON, BRIDGE, numa=1, acs=0x01), nvswitch(here, root)]
    return Board(tuple(found))


def nvswitch(address: str, parent: str) -> Fn:
    link, bars = ("5.0 GT/s PCIe", 2), ((0, 32 * MIB),)
    return Fn(address, parent, NVSWITCH, 0x068000, "nvidia-nvswitch", "", 1, link, link, bars=bars)


def aws(ids: Ids, efa: Ids, each: int, *, switches: int) -> Board:
    """A p instance: below each of eight bridges of Nitro a GPU, and EFAs beside it.

    The places are those of p5: 4f to 52 EFAs and 53 a GPU, and so on by 11.
    """
    found: list[Fn] = []
    for at in range(8):
        numa, up = at // 4, f"0000:{0x44 + 0x11 * at:02x}:00.0"
        first, last = 0x4F + 0x11 * at, 0x53 + 0x11 * at
        found.append(Fn(up, f"pci0000:{0x44 + 0x11 * at:02x}", AWS_BRIDGE, BRIDGE, numa=numa))
        for slot, bus in enumerate((*range(first, first + each), last)):
            port = f"0000:{0x45 + 0x11 * at:02x}:{slot:02x}.0"
            found.append(Fn(port, up, AWS_BRIDGE, BRIDGE, numa=numa))
            here = f"0000:{bus:02x}:00.0"
            nic = Nic(efa, "efa").at(here, port, numa)
            found.append(gpu(here, port, ids, numa) if bus == last else nic)
    found += [nvswitch(f"0000:{0xE0 + at:02x}:00.0", "pci0000:e0") for at in range(switches)]
    return Board(tuple(found))


def gcp(ids: Ids) -> Board:
    """a3-ultra and a4: four switches with two GPUs and two ConnectX-7 each."""
    found: list[Fn] = []
    for at, bus in enumerate((0x8C, 0xC4, 0xD4, 0xE4)):
        numa, root, up = at // 2, f"0000:{bus:02x}:00.0", f"0000:{bus + 1:02x}:00.0"
        found.append(Fn(root, f"pci0000:{bus:02x}", XEON, BRIDGE, numa=numa))
        found.append(Fn(up, root, BROADCOM, BRIDGE, numa=numa, upstream=True))
        for slot in range(4):
            port = f"0000:{bus + 2:02x}:{slot:02x}.0"
            here = f"0000:{bus + 3 + slot:02x}:00.0"
            found.append(Fn(port, up, BROADCOM, BRIDGE, numa=numa))
            is_gpu = slot < 2
            found.append(gpu(here, port, ids, numa) if is_gpu else VF_ROCE.at(here, port, numa))
    return Board(tuple(found))


def azure(ids: Ids, count: int, nic: Nic, *, switches: int) -> Board:
    """A guest of Hyper-V: every device alone in a PCI domain of its own."""
    half = count // 2
    gpus = [
        gpu(f"{at + 1:04x}:00:00.0", f"pci{at + 1:04x}:00", ids, at // half) for at in range(count)
    ]
    nics = [
        nic.at(f"{0x101 + at:04x}:00:00.0", f"pci{0x101 + at:04x}:00", at // half)
        for at in range(count)
    ]
    bridges = [
        nvswitch(f"{0x0A + at:04x}:00:00.0", f"pci{0x0A + at:04x}:00") for at in range(switches)
    ]
    return Board((*gpus, *nics, *bridges))


def gb200() -> Board:
    """A compute tray of NVL72: each of four GPUs and four ConnectX-7 on a root port of Grace."""
    found: list[Fn] = []
    for at, (of_gpu, of_nic) in enumerate(
        (("0008", "0000"), ("0009", "0002"), ("0018", "0010"), ("0019", "0012"))
    ):
        numa, port, root = at // 2, f"{of_gpu}:00:00.0", f"{of_nic}:00:00.0"
        up, down = f"{of_nic}:01:00.0", f"{of_nic}:02:00.0"
        found += [
            Fn(port, f"pci{of_gpu}:00", GRACE, BRIDGE, numa=numa, acs=TRANSLATING),
            gpu(f"{of_gpu}:01:00.0", port, GB200, numa, str(2 * at + 1)),
            Fn(root, f"pci{of_nic}:00", GRACE, BRIDGE, numa=numa, acs=TRANSLATING),
            Fn(up, root, CX7_BRIDGE, BRIDGE, numa=numa, upstream=True),
            Fn(down, up, CX7_BRIDGE, BRIDGE, numa=numa),
            MLX_IB.at(f"{of_nic}:03:00.0", down, numa, str(2 * at + 2)),
        ]
    return Board(tuple(found))


def gb300() -> Board:
    """A compute tray of NVL72: four times a Grace port with ConnectX-8, its DMA function, a GPU."""
    found: list[Fn] = []
    for at, domain in enumerate(("0000", "0002", "0010", "0012")):
        for each in DATA_DIRECT.functions:
            parent = each.parent.replace("0000:", f"{domain}:", 1)
            group = str(int(each.group) + 10 * at) if each.group else ""
            address = each.address.replace("0000:", f"{domain}:", 1)
            klass = IB if each.driver == "mlx5_core" else each.klass
            bars = ((0, 16 * MIB), (2, BARS[GB300] * GIB)) if each.ids == GB300 else each.bars
            found.append(
                replace(
                    each,
                    address=address,
                    parent=parent,
                    group=group,
                    numa=at // 2,
                    klass=klass,
                    bars=bars,
                )
            )
    return Board(tuple(found))
