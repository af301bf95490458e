"""lspci's text and drawing, in the shapes that people paste."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from toolkit.errors import NeedsRoot, NoEvidence, Unparsable
from toolkit.facts.pci.config_space import Acs
from toolkit.facts.pci.functions import Bar, PciFunction
from toolkit.facts.pci.lspci import parse_lspci
from toolkit.facts.pci.lspci_tree import parse_lspci_tree
from toolkit.facts.pci.pcie_caps import Express, Link, PortType, Resizable

MIB, GIB = 1 << 20, 1 << 30


def one(text: str) -> PciFunction:
    (function,) = parse_lspci(text).functions.values()
    return function


@pytest.mark.parametrize(
    ("line", "address", "vendor", "device", "klass"),
    [
        pytest.param(
            "19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)",
            "0000:19:00.0", 0x10DE, 0x2330, 0x030200, id="without-a-name",
        ),
        pytest.param(
            "0009:01:00.0 3D controller [0302]: NVIDIA Corporation GH200 [10de:2342] (rev a1)",
            "0009:01:00.0", 0x10DE, 0x2342, 0x030200, id="nn-and-domain",
        ),
        pytest.param(
            "1a:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]",
            "0000:1a:00.0", 0x15B3, 0, 0x020000, id="name-alone",
        ),
        pytest.param(
            "05:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram",
            "0000:05:00.0", 0x1002, 0, 0x120000, id="amd-s-accelerator",
        ),
        pytest.param(
            "06:00.0 Ethernet controller: Broadcom Inc. and subsidiaries BCM57608 [14e4:1760]",
            "0000:06:00.0", 0x14E4, 0x1760, 0x020000, id="broadcom",
        ),
        pytest.param("18:00.0 0302: 10de:2330 (rev a1)", "0000:18:00.0", 0x10DE, 0x2330, 0x030200,
                     id="n"),
        pytest.param("10000:e1:00.0 Mystery: Nobody Knows", "10000:e1:00.0", 0, 0, 0, id="unknown"),
    ],
)  # fmt: skip
def test_first_lines(line: str, address: str, vendor: int, device: int, klass: int) -> None:
    found = one(line + "\n")
    assert (found.address, found.vendor, found.device, found.klass) == (
        address, vendor, device, klass
    )  # fmt: skip


GPU = """\
root@gpu01:~# lspci -vvv
01:00.0 VGA compatible controller: NVIDIA Corporation AD102GL [RTX 6000 Ada Generation] (rev a1)
        NUMA node: 1
        IOMMU group: 20
        Region 0: Memory at f8000000 (32-bit, non-prefetchable) [size=16M]
        Region 1: Memory at 3f000000000 (64-bit, prefetchable) [size=64G]
        Region 5: I/O ports at 2000 [size=128]
        Expansion ROM at f9000000 [virtual] [disabled] [size=512K]
        Capabilities: [78] Express (v2) Legacy Endpoint, MSI 00
                DevCap: MaxPayload 256 bytes, PhantFunc 0, Latency L0s unlimited, L1 <64us
                        ExtTag+ AttnBtn- AttnInd- PwrInd- RBE+ FLReset+
                DevCtl: CorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
                        RlxdOrd- ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
                        MaxPayload 128 bytes, MaxReadReq 512 bytes
                LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
                LnkSta: Speed 2.5GT/s (downgraded), Width x16
                DevCap2: Completion Timeout: Range AB, TimeoutDis+ NROPrPrP- LTR+
                         10BitTagComp+ 10BitTagReq- OBFF Via message, ExtFmt- EETLPPrefix-
                DevCtl2: Completion Timeout: 50us to 50ms, TimeoutDis- LTR+ 10BitTagReq+ OBFF
        Capabilities: [180 v1] Single Root I/O Virtualization (SR-IOV)
                Region 1: Memory at 0000212000000000 (64-bit, prefetchable)
        Capabilities: [140 v1] Virtual Resizable BAR
                BAR 1: current size: 4GB, supported: 64MB 128GB 256TB
        Capabilities: [bb0 v1] Physical Resizable BAR
                BAR 0: current size: 16MB, supported: 16MB
                BAR 1: current size: 32GB, supported: 64MB 32GB 64GB
        Capabilities: [300 v1] Address Translation Service (ATS)
                ATSCap: Invalidate Queue Depth: 00
                ATSCtl: Enable+, Smallest Translation Unit: 00
        Kernel driver in use: nvidia
root@gpu01:~#
"""


def _turned(found: re.Match[str]) -> str:
    return f"{found[1]}{'-' if found[0].endswith('+') else '+'}"


def test_a_block_with_everything_that_it_tells() -> None:
    gpu = one(GPU)
    assert (gpu.numa, gpu.group, gpu.driver) == (1, "20", "nvidia")
    assert gpu.bars == (Bar(0, 16 * MIB), Bar(1, 64 * GIB))
    assert (gpu.now, gpu.best) == (Link(2.5, 16), Link(16.0, 16))
    express = gpu.express()
    assert express is not None
    assert express == Express(
        PortType.LEGACY_ENDPOINT, 256, 128, 512, relaxed_ordering=False, tags_8bit_possible=True,
        tags_8bit=True, tags_10bit_completer=True, tags_10bit_requester=False, tags_10bit=True,
        now=Link(2.5, 16), best=Link(16.0, 16),
    )  # fmt: skip
    turned = one(re.sub(r"(RlxdOrd|ExtTag|10BitTag\w+)[+-]", _turned, GPU)).express()
    assert turned == replace(
        express, relaxed_ordering=True, tags_8bit_possible=False, tags_8bit=False,
        tags_10bit_completer=False, tags_10bit_requester=True, tags_10bit=False,
    )  # fmt: skip
    mute = one(re.sub(r" (RlxdOrd|ExtTag|10BitTag\w+)[+-]", "", GPU)).express()
    assert mute == replace(
        express, tags_8bit_possible=False, tags_8bit=False,
        tags_10bit_completer=None, tags_10bit_requester=None, tags_10bit=None,
    )  # fmt: skip
    assert gpu.resizable() == (
        Resizable(0, 16 * MIB, 16 * MIB), Resizable(1, 32 * GIB, 64 * GIB)
    )  # fmt: skip
    ats = gpu.ats()
    assert ats is not None
    assert ats.enabled
    assert gpu.acs_registers() is None


def test_an_older_lspci_does_not_tell_of_10_bit_tags() -> None:
    express = one(GPU.replace(" 10BitTagReq+ OBFF", " OBFF")).express()
    assert express is not None
    assert express.tags_10bit is None


def test_refused_capabilities_are_not_absent_ones() -> None:
    text = (
        "19:00.0 3D controller: NVIDIA Corporation Device 2330\n\tCapabilities: <access denied>\n"
    )
    with pytest.raises(NeedsRoot, match="capabilities of 0000:19:00"):
        one(text).acs_registers()
    with pytest.raises(NoEvidence):
        one("19:00.0 3D controller: NVIDIA Corporation Device 2330\n").express()


BRIDGES = """\
00:00.0 Host bridge: Intel Corporation Device 09a2
15:01.0 PCI bridge: Intel Corporation Device 352a (prog-if 00 [Normal decode])
\tBus: primary=15, secondary=16, subordinate=19, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot-), MSI 00
16:00.0 PCI bridge: Broadcom / LSI PEX890xx (prog-if 00 [Normal decode])
\tBus: primary=16, secondary=17, subordinate=19, sec-latency=0
\tCapabilities: [40] Express (v2) Upstream Port, MSI 00
\t\tDevCap: MaxPayload 512 bytes
\t\tDevCtl: MaxPayload 256 bytes, MaxReadReq 128 bytes
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap: SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
17:00.0 PCI bridge: Broadcom / LSI PEX890xx (prog-if 00 [Normal decode])
\tBus: primary=17, secondary=18, subordinate=18, sec-latency=0
18:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tLatency: 0
"""


def test_the_tree_follows_from_the_bus_numbers() -> None:
    tree = parse_lspci(BRIDGES)
    assert tree.whole
    assert tree.functions["0000:18:00.0"].parents == (
        "pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0"
    )  # fmt: skip
    acs = tree.functions["0000:16:00.0"].acs_registers()
    assert acs is not None
    assert acs.control == Acs.SOURCE_VALIDATION | Acs.REQUEST_REDIRECT


def test_an_excerpt_leaves_the_place_open() -> None:
    """The lower ports of one switch would otherwise look like two root complexes."""
    block = BRIDGES[BRIDGES.index("16:00.0") :]
    tree = parse_lspci(block)
    assert not tree.whole
    assert tree.functions["0000:18:00.0"].parents == ()
    assert one(GPU).parents == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("\tKernel modules: nvidia\n", id="grepped"),
        pytest.param("hello world\n", id="something-else"),
        pytest.param("18:00.0 0302: 10de:2330\n18:00.0 0302: 10de:2330\n", id="twice"),
        pytest.param("18:00.0 0302: 10de:2330\n10: " + "00 " * 15 + "00\n", id="dump-with-a-gap"),
    ],
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="lspci"):
        parse_lspci(text)


# --- the drawing ---

TREE = """\
-+-[0000:00]-+-00.0  Intel Corporation Device 09a2
 |           \\-14.0-[02]--
 +-[0000:15]---01.0-[16-19]----00.0-[17-19]--+-00.0-[18]--+-00.0  NVIDIA Corporation Device 2330
 |                                           |            \\-00.1  NVIDIA Corporation GH100 Audio
 |                                           \\-01.0-[19]----00.0  Mellanox Technologies [CX7]
 \\-[0001:97]---00.0  NVIDIA Corporation GH100 [H100 NVSwitch]
"""


def test_a_drawn_tree() -> None:
    tree = parse_lspci_tree(TREE)
    switch = ("pci0000:15", "0000:15:01.0", "0000:16:00.0")
    assert tree.whole
    assert tree.functions["0000:18:00.0"].parents == (*switch, "0000:17:00.0")
    assert tree.functions["0000:18:00.1"].parents == (*switch, "0000:17:00.0")
    assert tree.functions["0000:19:00.0"].parents == (*switch, "0000:17:01.0")
    assert tree.functions["0001:97:00.0"].parents == ("pci0001:97",)
    assert [each.address for each in tree.gpus] == ["0000:18:00.0"]
    assert [each.address for each in tree.adapters] == ["0000:19:00.0"]
    assert tree.functions["0000:00:14.0"].is_bridge


def test_one_root_complex_alone() -> None:
    tree = parse_lspci_tree(
        "-[0000:00]-+-00.0  Intel Corporation Device 0d57\n           \\-01.0-[01]----00.0  "
        "NVIDIA Corporation GA100 [A100] [10de:20b2]\n"
    )
    assert tree.functions["0000:01:00.0"].device == 0x20B2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("hello\n", id="something-else"),
        pytest.param("-[0000:00]-+-00.0  A\n      \\-01.0  B\n", id="a-branch-of-nothing"),
        pytest.param("-[0000:00]-+-00.0  A\n           \\-zz\n", id="no-function"),
    ],
)
def test_another_drawing_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="lspci -t"):
        parse_lspci_tree(text)
