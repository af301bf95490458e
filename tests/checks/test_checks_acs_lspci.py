"""ACS judged from the text of ``lspci -vvv``, where nothing else was given."""

from __future__ import annotations

import pytest

from tests.evidence.frames import MISSING, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name

CLEAR = "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
REDIRECTS = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
NOT_GIVEN: dict[str, Override] = dict.fromkeys(
    ("pci", "pci-links", "pci-resources", "pci-config", "infiniband", "rdma-nodes", "cpu"), MISSING
)


def bridge(slot: str, buses: tuple[int, int, int], kind: str, acs: str) -> str:
    first, second, last = (f"{bus:02x}" for bus in buses)
    lines = [
        f"{slot} PCI bridge [0604]: Broadcom / LSI PEX890xx PCIe Gen 5 Switch [1000:c030]",
        f"\tBus: primary={first}, secondary={second}, subordinate={last}, sec-latency=0",
        f"\tCapabilities: [68] Express (v2) {kind} (Slot-), MSI 00",
        "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0",
        "\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq+",
        "\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+",
        "\t\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes",
        "\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM not supported",
        "\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)",
    ]
    if acs:
        lines += [
            "\tCapabilities: [148 v1] Access Control Services",
            "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-",
            f"\t\tACSCtl:\t{acs}",
        ]
    lines.append("\tKernel driver in use: pcieport")
    return "".join(line + "\n" for line in lines) + "\n"


def lspci(left: str, right: str, *, whole: bool = True, root: bool = True) -> str:
    """A GPU and an HCA below one switch; ACSCtl of the two ports that lead to them."""
    shown = [
        "00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2]\n\n" if whole else "",
        bridge("15:01.0", (0x15, 0x16, 0x19), "Root Port", CLEAR),
        bridge("16:00.0", (0x16, 0x17, 0x19), "Upstream Port", ""),
        bridge("17:00.0", (0x17, 0x18, 0x18), "Downstream Port", left),
        bridge("17:01.0", (0x17, 0x19, 0x19), "Downstream Port", right),
        "18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]\n"
        "\tKernel driver in use: nvidia\n\n",
        "19:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
        "\tKernel driver in use: mlx5_core\n\n",
    ]
    text = "".join(shown)
    if root:
        return text
    lines = [line for line in text.split("\n") if not line.startswith("\t\t")]
    hidden = (
        "\tCapabilities: <access denied>" if line.startswith("\tCapabilities") else line
        for line in lines
    )
    return "\n".join(hidden)


def given(text: str) -> dict[str, Override]:
    return {**NOT_GIVEN, "lspci": text}


EXCERPT = bridge("17:00.0", (0x17, 0x18, 0x18), "Downstream Port", REDIRECTS)
ROWS = [
    Row("SrcValid-alone", "acs.redirect", PASS, "clear on 2", given(lspci(CLEAR, CLEAR))),
    Row("one-redirects", "acs.redirect", FAIL, "1 of 2", given(lspci(CLEAR, REDIRECTS))),
    Row("no-capability", "acs.redirect", PASS, "clear on 2", given(lspci("", CLEAR))),
    Row(
        "as-an-ordinary-user",
        "acs.redirect",
        UNKNOWN,
        "are not shown",
        given(lspci(CLEAR, REDIRECTS, root=False)),
    ),
    Row(
        "excerpt-with-the-path",
        "acs.redirect",
        FAIL,
        "1 of 2",
        given(lspci(CLEAR, REDIRECTS, whole=False)),
    ),
    Row(
        "excerpt-of-bridges",
        "acs.redirect",
        UNKNOWN,
        "an excerpt of lspci",
        given(EXCERPT),
    ),
    Row("ordinary-switch", "acs.mask", NA, "see acs.redirect", given(lspci(CLEAR, CLEAR))),
    Row(
        "which-gpus-there-are-is-not-told",
        "acs.mask",
        UNKNOWN,
        "an excerpt",
        given(EXCERPT),
    ),
    *(
        Row("an-excerpt-proves-no-absence", check, UNKNOWN, "an excerpt", given(EXCERPT))
        for check in ("ats.nic", "rdma.sriov", "datadirect.bound", "grace.coherent")
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_lspci(row: Row) -> None:
    holds(row)


def test_the_redirecting_bridge_is_named_with_its_bits_and_its_argument() -> None:
    finding = judged(ROWS[1]).finding
    assert finding.details == (
        "0000:17:01.0: ReqRedir CmpltRedir (ACSCtl 001d)",
        'named by "pci=disable_acs_redir=0000:17:01.0"',
    )
