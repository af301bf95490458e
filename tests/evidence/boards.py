"""PCI boards as hypothesis draws them: root complexes, switches in switches, GPUs and HCAs."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from tests.evidence.board import BRIDGE, GPU_CLASS, Board, Fn, hca

SPEEDS = ("32.0 GT/s PCIe", "16.0 GT/s PCIe", "8.0 GT/s PCIe", "5.0 GT/s PCIe", "2.5 GT/s PCIe")
WIDTHS = (16, 8, 4, 2, 1)
BROADCOM, INTEL = (0x1000, 0xC030), (0x8086, 0x352A)
_ACS = st.sampled_from((None, 0x00, 0x01, 0x1D))


@st.composite
def boards(draw: st.DrawFn) -> Board:
    """One to three root complexes, each with a few devices behind ports and switches."""
    buses, functions, kinds = count(0x10), list[Fn](), set[str]()

    def device(parent: str, numa: int) -> None:
        kind = draw(st.sampled_from(("gpu", "hca")))
        kinds.add(kind)
        address = f"0000:{next(buses):02x}:00.0"
        if kind == "hca":
            functions.append(hca(address, parent, numa=numa))
        else:
            ids = (0x10DE, 0x2330)
            functions.append(Fn(address, parent, ids, GPU_CLASS, "nvidia", numa=numa))

    def below(parent: str, numa: int, depth: int) -> None:
        if depth and draw(st.booleans()):
            up = f"0000:{next(buses):02x}:00.0"
            functions.append(Fn(up, parent, BROADCOM, BRIDGE, numa=numa))
            bus = next(buses)
            for slot in range(draw(st.integers(1, 3))):
                down = f"0000:{bus:02x}:{slot:02x}.0"
                functions.append(Fn(down, up, BROADCOM, BRIDGE, numa=numa, acs=draw(_ACS)))
                below(down, numa, depth - 1)
        else:
            device(parent, numa)

    for _ in range(draw(st.integers(1, 3))):
        numa, bus = draw(st.integers(-1, 1)), next(buses)
        for slot in range(1, draw(st.integers(2, 3))):
            port = f"0000:{bus:02x}:{slot:02x}.0"
            functions.append(Fn(port, f"pci0000:{bus:02x}", INTEL, BRIDGE, numa=numa, acs=0x01))
            below(port, numa, 2)
    return Board(tuple(functions))


@st.composite
def unrelated(draw: st.DrawFn) -> tuple[Fn, ...]:
    """A device that has no part in GPUDirect, alone on a root complex of its own."""
    ids, klass, driver = draw(
        st.sampled_from(
            (
                ((0x8086, 0x7AE0), 0x0C0330, "xhci_hcd"),
                ((0x1B4B, 0x2241), 0x010802, "nvme"),
                ((0x14E4, 0x165F), 0x020000, "tg3"),
                ((0x102B, 0x0536), 0x030000, "mgag200"),
            )
        )
    )
    port = Fn("0000:f0:01.0", "pci0000:f0", INTEL, BRIDGE, acs=draw(_ACS))
    speed, width = draw(st.sampled_from(SPEEDS)), draw(st.sampled_from(WIDTHS))
    return port, Fn(
        "0000:f1:00.0",
        port.address,
        ids,
        klass,
        driver,
        group=draw(st.sampled_from(("", "90"))),
        now=(speed, width),
    )
