"""The check on arguments of the kernel that do not do what they seem to do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.build import CPU
from tests.evidence.frames import DENIED, MISSING, Override
from tests.evidence.judging import FAIL, PASS, UNKNOWN, Row, holds, name
from toolkit.checks.check import Status

NOTHING = "[    0.0] Linux version 6.8.0\n"


def cmdline() -> list[Row]:
    def says(claim: str, status: Row, words: str, found: str) -> Row:
        return Row(claim, "iommu.cmdline", status.status, found, {"cmdline": f"ro {words}\n"})

    def on(
        claim: str, status: Status, words: str, found: str, frames: Mapping[str, Override]
    ) -> Row:
        return Row(claim, "iommu.cmdline", status, found, {"cmdline": f"{words}\n", **frames})

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
        says("off-and-pt", good, "iommu=off iommu=pt", "passthrough beside iommu=off has no"),
        says("pt-as-amds", bad, "amd_iommu=pt", "amd_iommu=pt does not exist: it is iommu=pt"),
        says("pt-as-intels", bad, "intel_iommu=on,pt", "intel_iommu=pt does not exist"),
        says("passthrough-as-word", bad, "iommu=passthrough", "it is iommu=pt"),
        says("scalable-mode", good, "intel_iommu=on,sm_on iommu=pt", "nothing misleading"),
        says("iommu=on", good, "iommu=on iommu=pt", "iommu=on has no effect"),
        says("amds-switch-on-intel", bad, "amd_iommu=off", "does nothing on GenuineIntel"),
        says("both-makers-switches", good, "amd_iommu=off intel_iommu=off", "nothing misleading"),
        on("intels-switch-on-amd", FAIL, "intel_iommu=off", "nothing on AuthenticAMD", AMD),
        on("intels-on-on-amd", PASS, "intel_iommu=on", "intel_iommu=on has no effect", AMD),
        on("amds-on-hygon", PASS, "amd_iommu=off iommu=pt", "beside amd_iommu=off", HYGON),
        on("off-and-pt-on-amd", PASS, "amd_iommu=off iommu=pt", "beside amd_iommu=off", AMD),
        on("x86s-word-on-arm", FAIL, "iommu=pt", "does nothing on aarch64", ARM),
        on("arms-own-word", PASS, "iommu=pt iommu.passthrough=1", "nothing misleading", ARM),
        on("off-on-arm", FAIL, "iommu=off", "iommu=off does nothing on 0xd4f", ARM),
        on("refused-value", FAIL, "intel_iommu=on,sm_om", "sm_om: the kernel knows no", LOGGED),
        on("value-of-a-later-kernel", PASS, "intel_iommu=on,new", "nothing", {"dmesg": NOTHING}),
        on("unknown-value-and-no-log", UNKNOWN, "intel_iommu=onn", "denied", {"dmesg": DENIED}),
        on("unpatched", FAIL, "pcie_acs_override=all", "is not known to this kernel", PASSED_ON),
        on("override-and-no-log", FAIL, "pcie_acs_override=all", "pretends", {"dmesg": DENIED}),
        on("processor-not-read", UNKNOWN, "iommu=pt", "denied", {"cpu": DENIED}),
        on("nothing-about-an-iommu", PASS, "quiet", "nothing", {"cpu": DENIED}),
        says("last-counts", bad, "iommu=nopt iommu.passthrough=1", "counts: iommu.passthrough=1"),
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


ARM = {"arch": "aarch64\n", "cpu": "processor\t: 0\nCPU part\t: 0xd4f\n"}
AMD = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
HYGON = {"cpu": CPU.replace("GenuineIntel", "HygonGenuine")}
LOGGED = {"dmesg": "[    0.1] DMAR: Unknown option - 'sm_om'\n"}
PASSED_ON = {
    "dmesg": '[    0.1] Unknown kernel command line parameters "pcie_acs_override=all", '
    "will be passed to user space.\n"
}
REFUSED = "[    0.1] PCI: Unknown option `acs_off'\n"


def _strange(log: Override) -> dict[str, Override]:
    return {"cmdline": "ro pci=realloc,acs_off\n", "dmesg": log}


ROWS = cmdline()


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_arguments(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(
            ("intel_iommu", value)
            for value in (
                *("on", "igfx_off", "forcedac", "strict", "sp_off", "sm_on", "sm_off"),
                "tboot_noforce",
            )
        ),
        *(
            ("amd_iommu", value)
            for value in (
                *("on", "fullflush", "force_enable", "force_isolation", "pgtbl_v1", "pgtbl_v2"),
                *("irtcachedis", "nohugepages", "v2_pgsizes_only"),
            )
        ),
    ],
)
def test_a_value_that_every_kernel_knows_is_not_asked_of_the_log(option: str, value: str) -> None:
    told: dict[str, Override] = {"cmdline": f"ro {option}={value}\n", "dmesg": DENIED}
    if option == "amd_iommu":
        told |= AMD
    holds(Row("", "iommu.cmdline", PASS, "", told))


@pytest.mark.parametrize(
    ("option", "value"),
    [("intel_iommu", "on"), ("amd_iommu", "on"), ("amd_iommu", "force_enable")],
)
def test_a_switch_that_says_both_is_misleading(option: str, value: str) -> None:
    told: dict[str, Override] = {"cmdline": f"ro {option}=off,{value}\n"}
    if option == "amd_iommu":
        told |= AMD
    holds(Row("", "iommu.cmdline", FAIL, f"{option} is switched on and off", told))
