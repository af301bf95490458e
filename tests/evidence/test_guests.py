"""Evidence of real kernels: what is judged of it, word for word, and what other tools say.

Each file below ``guests`` is evidence of a Debian 12 guest in QEMU, read by the probe and scrubbed.
The kernel, its IOMMU and the ACS registers are real; the devices are not:

- redirected, redirect-cleared, redirect-by-boot: two H100 and two ConnectX-7 that a kernel
  module of the laboratory shows on PCI buses of its own, which have no IOMMU. As booted
  with a device of Soft-RoCE, after setpci, and booted with the argument that we advise.
- translated, passthrough: an Ethernet card and a memory device of QEMU under other ids,
  laid over their files in sysfs, without and with iommu=pt.

Of translated and redirect-by-boot the kernel log was saved whole, and later cut down to the
lines that the probe keeps. They do not change with the probe: a frame that is newer than they
are is "not collected".
The folder ``redirected`` has what lspci, dmesg and others printed in the first of them.
To accept another wording, run these tests with GDR_ACCEPT=1, as in ``test_golden``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.checks.all import ALL, BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.verbs.saved import read_saved
from toolkit.want import PeerPath, Role, Want

HERE = Path(__file__).parent / "guests"
GUESTS = sorted(HERE.glob("*.txt"))
WANT = Want(role=Role.BARE_METAL)  # the devices are laid out as on one
PASS, FAIL, UNKNOWN, NA = Status


def guest(name: str) -> Node:
    return Node(Evidence.parse((HERE / f"{name}.txt").read_text()))


def told(node: Node) -> str:
    """What is not "n/a", with what should be, what to do, and each device."""
    lines = []
    for check in ALL:
        finding = check(node, WANT).finding
        if PeerPath.PEERMEM not in check.paths or finding.status is NA:
            continue
        lines.append(f"{finding.status:<7} {check.id}: {finding.found}")
        lines += [f"        expected: {finding.expected}"] if finding.expected else []
        lines += [f"        hint: {finding.hint}"] if finding.hint else []
        lines += [f"        {detail}" for detail in finding.details]
    return "\n".join(lines) + "\n"


def says(name: str, check: str) -> Finding:
    return BY_ID[check](guest(name), WANT).finding


@pytest.mark.parametrize("file", GUESTS, ids=lambda file: file.stem)
def test_verdicts(file: Path) -> None:
    golden = file.with_suffix(".verdicts")
    if os.environ.get("GDR_ACCEPT") == "1":
        golden.write_text(told(guest(file.stem)))
    assert told(guest(file.stem)) == golden.read_text()


def test_each_is_whole_small_and_has_its_verdicts() -> None:
    assert sorted(HERE.glob("*.verdicts")) == [each.with_suffix(".verdicts") for each in GUESTS]
    assert all(Evidence.parse(file.read_text()).complete for file in GUESTS)
    assert all(file.stat().st_size < 60_000 for file in GUESTS)


def test_the_kernel_turns_redirection_on_with_the_iommu() -> None:
    assert says("redirected", "acs.redirect").status is FAIL
    assert "(ACSCtl 001d)" in says("redirected", "acs.redirect").details[0]


def test_setpci_clears_it_until_the_next_boot() -> None:
    assert says("redirect-cleared", "acs.redirect").status is PASS
    assert says("redirect-cleared", "acs.persistence").status is FAIL


def test_the_argument_that_we_advise_clears_it_for_good() -> None:
    advised = says("redirected", "acs.redirect").details[-1].split('"')[1]
    assert advised in guest("redirect-by-boot").cmdline.words
    assert says("redirect-by-boot", "acs.redirect").status is PASS
    assert says("redirect-by-boot", "acs.persistence").status is PASS


def test_only_iommu_pt_ends_the_translation() -> None:
    assert says("translated", "iommu.passthrough").found == "translated: DMA-FQ on 1"
    assert says("passthrough", "iommu.passthrough").found.startswith("identity on 1")
    assert says("translated", "iommu.boot").status is FAIL
    assert says("passthrough", "iommu.boot").status is PASS


def test_a_device_of_software_is_neither_an_hca_nor_a_port_that_is_up() -> None:
    assert says("redirected", "rdma.devices").details[-1].startswith("rxe0: ")
    assert says("redirected", "rdma.port").status is FAIL


def test_a_guest_says_that_it_is_one() -> None:
    assert all(says(file.stem, "host.virt").status is FAIL for file in GUESTS)


def judged_by_both() -> list[str]:
    """The checks that the other tools' words suffice for."""
    loose = other_tools()
    told = [each.id for each in ALL if each(loose, WANT).finding.status in {PASS, FAIL}]
    # The functions of the lab lie beside its IOMMU: their groups alone tell, and no log.
    return [each for each in told if each != "iommu.passthrough"]


def other_tools() -> Node:
    ((_, evidence),) = read_saved(HERE / "redirected")
    return Node(evidence)


def test_lspci_and_dmesg_suffice_for_these() -> None:
    assert set(judged_by_both()) >= {
        "acs.redirect",
        "ats.nic",
        "iommu.cmdline",
        "nvidia.present",
        "pcie.distance",
        "pcie.link",
        "pcie.mrrs",
        "rdma.devices",
        "rdma.port",
    }


@pytest.mark.parametrize("check", judged_by_both())
def test_they_say_what_the_probe_says(check: str) -> None:
    loose = BY_ID[check](other_tools(), WANT).finding
    probed = says("redirected", check)
    assert (loose.status, loose.found) == (probed.status, probed.found)
