"""The check on arguments of the kernel that do not do what they seem to do."""

from __future__ import annotations

import pytest

from tests.evidence.frames import DENIED, MISSING, Override
from tests.evidence.judging import FAIL, PASS, UNKNOWN, Row, holds, name

NOTHING = "[    0.0] Linux version 6.8.0\n"


def cmdline() -> list[Row]:
    def says(claim: str, status: Row, words: str, found: str) -> Row:
        return Row(claim, "iommu.cmdline", status.status, found, {"cmdline": f"ro {words}\n"})

    good, bad = Row("", "", PASS, ""), Row("", "", FAIL, "")
    return [
        says("plain", good, "quiet", "nothing misleading"),
        says("amd_iommu=on-is-harmless", good, "amd_iommu=on iommu=pt", "does no harm"),
        says("pci=noacs", bad, "pci=realloc,noacs", "pci=noacs does not exist"),
        says("other-pci-options", good, "pci=realloc=off", "nothing misleading"),
        says("override", bad, "pcie_acs_override=downstream", "only pretends"),
        says("both", bad, "iommu=pt iommu=nopt", "contradict each other"),
        says("on-and-off", bad, "intel_iommu=on intel_iommu=off", "switched on and off"),
        says("said-twice", good, "intel_iommu=on intel_iommu=on iommu=pt", "nothing"),
        says("off-and-pt", good, "amd_iommu=off iommu=pt", "nothing misleading"),
        says("both-ways", bad, "iommu.passthrough=0 iommu.passthrough=1", "both ways"),
        says("against-each-other", bad, "iommu=pt iommu.passthrough=0", "contradict"),
        says(
            "the-last-list-alone-counts",
            bad,
            'pci=disable_acs_redir=17:00.0 "pci=disable_acs_redir=99:00.0"',
            "stands there 2 times",
        ),
        says("one-list", good, "pci=realloc,disable_acs_redir=17:00.0;99:00.0", "nothing"),
        Row("refused", "iommu.cmdline", FAIL, "pci=acs_off: the kernel knows", _strange(REFUSED)),
        Row("of-a-later-kernel", "iommu.cmdline", PASS, "nothing", _strange(NOTHING)),
        Row("strange-and-no-log", "iommu.cmdline", UNKNOWN, "denied", _strange(DENIED)),
        Row(
            "log-alone",
            "iommu.cmdline",
            FAIL,
            "pci=acs_off: the kernel knows no such",
            {"cmdline": MISSING, "dmesg": REFUSED},
        ),
        Row(
            "log-without-complaint",
            "iommu.cmdline",
            UNKNOWN,
            "complains of no option",
            {"cmdline": MISSING, "dmesg": NOTHING},
        ),
        Row("not-read", "iommu.cmdline", UNKNOWN, "permission denied", {"cmdline": DENIED}),
    ]


REFUSED = "[    0.1] PCI: Unknown option `acs_off'\n"


def _strange(log: Override) -> dict[str, Override]:
    return {"cmdline": "ro pci=realloc,acs_off\n", "dmesg": log}


ROWS = cmdline()


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_arguments(row: Row) -> None:
    holds(row)
