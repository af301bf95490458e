"""The system's view of the firmware and the BMC's, joined in one verdict."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.checks.bmc_beside import ADDRESS, DMI, Bmc, found
from tests.evidence.board import BOARD, GPUS, PORTS, Registers
from tests.evidence.build import node
from tests.evidence.frames import DENIED, Override
from tests.evidence.healthy_firmware import DMA_OPT_IN, dmar, setup
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN
from tests.unit.bios_personas import DGX, X13, Row, switch
from tests.unit.biosing import bios
from toolkit.checks.all import ALL
from toolkit.checks.check import Status
from toolkit.checks.firmware.bios import View, _contradictions
from toolkit.checks.firmware.bios_seen import right
from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import match
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

HOST = Want(role=Role.VM_HOST)
ABOVE = switch("MmioAbove4Gb", "Disabled", "Memory Mapped I/O above 4 GB")
ASPM = switch("PcieAspmL1", "Enabled", "PCI ASPM L1 Link Power Management")
DMA = switch("KernelDmaProtection", "Enabled", "Kernel DMA Protection")
RESTING = BOARD.but(GPUS[0], express=Registers(aspm=2))
OPT_IN: dict[str, Override] = {"acpi-bytes": dmar(DMA_OPT_IN)}


def _resting(bmc: Bmc) -> object:
    return node({"dmi": DMI}, board=RESTING).plus(bmc.frames())


# --- the system decides ---


def test_without_a_bmc_the_same_ids_are_answered_from_the_system_alone() -> None:
    firmware = [each for each in ALL if each.id.startswith("bios.")]
    assert len(firmware) == 19
    for machine in (Node(node()), Node(Bmc(X13).beside())):
        assert all(each(machine, Want()).status is not UNKNOWN for each in firmware)


def test_what_the_system_shows_goes_first_and_a_contradiction_is_named() -> None:
    finding = found("bios.above_4g", Bmc((ABOVE,)).beside())
    assert finding.status is PASS
    assert finding.details == (
        "MmioAbove4Gb: current Disabled, wanted on or auto",
        "contradiction: the BIOS says Disabled (MmioAbove4Gb), the system shows it on",
    )


def test_what_the_kernel_may_have_changed_since_contradicts_nothing() -> None:
    finding = found("bios.aspm", Bmc((ASPM,)).beside())
    assert finding.status is PASS
    assert finding.details == ("PcieAspmL1: current Enabled, wanted off",)


def test_current_pending_and_wanted_stand_side_by_side() -> None:
    bmc = Bmc((DMA,), {"KernelDmaProtection": "Disabled"})
    finding = found("bios.dma_protection", bmc.beside(OPT_IN))
    assert finding.status is FAIL
    assert finding.details == (
        "KernelDmaProtection: current Enabled, pending Disabled, wanted off",
    )
    assert finding.hint == "set already, and in effect after the next boot"


def test_a_failure_says_what_would_change_it() -> None:
    finding = found("bios.dma_protection", Bmc((DMA,)).beside(OPT_IN))
    assert finding.hint.startswith("./invokew bios --hosts NODE --set dma-protection=off")
    assert "invokew bios" not in found("bios.dma_protection", node(OPT_IN)).hint


def test_a_pending_value_that_is_no_better_is_no_remedy() -> None:
    bmc = Bmc((DMA,), {"KernelDmaProtection": "Enabled"})
    hint = found("bios.dma_protection", bmc.beside(OPT_IN)).hint
    assert "set already" not in hint


def test_many_slots_are_not_all_listed() -> None:
    rows = tuple(Row(f"PciSlot{number}Aspm", "Disabled") for number in range(1, 13))
    details = found("bios.aspm", Bmc(rows).beside()).details
    assert details[0] == "PciSlot1Aspm (slot 1): current Disabled, wanted off"
    assert details[-1] == "and 4 more of the kind"
    assert len(details) == 9


# --- where the system does not show it ---

ACS = switch("AccessControlService", "Enabled", "Access Control Service")
FENCED = BOARD.but(PORTS[0], acs=0x1D)


@pytest.mark.parametrize(
    ("value", "status", "told"),
    [
        pytest.param("Enabled", FAIL, "Enabled in the BIOS (AccessControlService)", id="wrong"),
        pytest.param("Disabled", PASS, "Disabled in the BIOS", id="right"),
        pytest.param("Auto", NA, "Auto in the BIOS", id="left-to-the-firmware"),
        pytest.param("Purple", NA, "Purple in the BIOS", id="a-word-of-its-own"),
    ],
)
def test_where_the_system_cannot_tell_the_bmc_does_and_is_named(
    value: str, status: Status, told: str
) -> None:
    bmc = Bmc((Row(ACS.name, value, ACS.display),))
    finding = found("bios.acs", node({"dmi": DMI}, board=FENCED).plus(bmc.frames()))
    assert (finding.status, told in finding.found) == (status, True)
    assert "the kernel does itself while an IOMMU is on" in finding.found


@pytest.mark.parametrize(
    ("value", "status"),
    [pytest.param("Enabled", FAIL, id="wrong"), pytest.param("Disabled", PASS, id="right")],
)
def test_where_the_system_was_not_readable_the_bmc_tells(value: str, status: Status) -> None:
    bmc = Bmc((Row(DMA.name, value, DMA.display),))
    finding = found("bios.dma_protection", bmc.beside({"acpi-bytes": DENIED}))
    assert finding.status is status
    assert "permission denied" in finding.found


def test_where_neither_tells_it_is_not_known() -> None:
    finding = found("bios.dma_protection", Bmc().beside({"acpi-bytes": DENIED}))
    assert finding.status is UNKNOWN


def test_a_setting_that_acts_on_nothing_here_is_no_failure_whatever_the_bios_says() -> None:
    off = switch("Re_SizeBARSupport_0042", "Disabled", "Re-Size BAR Support")
    finding = found("bios.resizable_bar", Bmc((off,)).beside())
    assert (finding.status, finding.found) == (NA, "no GPU here has a BAR that can be resized")
    assert finding.details == (f"{off.name}: current Disabled, wanted on or auto",)


def test_what_neither_exposes_is_never_a_failure() -> None:
    finding = found("bios.resizable_bar", Bmc((ABOVE,)).beside())
    assert finding.status is NA
    assert finding.found.startswith("not exposed by this BIOS; ")


def test_what_a_bios_hides_is_told_beside_not_exposed() -> None:
    hides = Row("ProcAts", "Enabled", "Address Translation Services", unserved=True)
    finding = found("bios.ats", Bmc((hides,)).beside())
    assert (finding.status, finding.found[:11]) == (NA, "not exposed")
    assert finding.details == ("hidden in this BIOS: ProcAts",)


@pytest.mark.parametrize("want", [Want(), HOST], ids=["bare-metal", "vm-host"])
@pytest.mark.parametrize("rows", [(), X13, DGX], ids=["nothing", "x13", "dgx"])
def test_a_bios_never_makes_a_failure_of_what_the_system_shows_to_be_right(
    rows: tuple[Row, ...], want: Want
) -> None:
    alone = {each.id: each(Node(node()), want).status for each in ALL}
    beside = Node(Bmc(rows).beside())
    for each in ALL:
        if alone[each.id] in {PASS, FAIL}:
            assert each(beside, want).status is alone[each.id], each.id


# --- whose word it is ---


def test_a_bmc_of_another_machine_is_named_and_left_out() -> None:
    finding = found("bios.above_4g", Bmc((ABOVE,), serial="C6YI4T4").beside())
    assert finding.status is PASS
    assert finding.details == (
        f"the BMC {ADDRESS} sits in another machine: serial C6YI4T4, the node has B5XH3S3; "
        "left out",
    )


def test_a_bmc_of_another_machine_decides_nothing() -> None:
    bmc = Bmc((DMA,), serial="C6YI4T4")
    assert found("bios.dma_protection", bmc.beside({"acpi-bytes": DENIED})).status is UNKNOWN


def test_a_bmc_that_may_be_anothers_is_heard_and_that_is_said() -> None:
    finding = found("bios.above_4g", Bmc((ABOVE,), serial="").beside())
    assert finding.details[0] == (
        f"the BMC {ADDRESS} may be another machine's: no serial number or UUID is told by both"
    )
    assert "current Disabled" in finding.details[1]


def test_a_bmc_that_could_not_be_read_is_told_and_decides_nothing() -> None:
    bmc = Bmc(trouble="192.0.2.7: the BMC refuses the password")
    finding = found("bios.above_4g", bmc.beside())
    assert finding.status is PASS
    assert finding.details == ("BMC: 192.0.2.7: the BMC refuses the password",)
    assert found("bios.dma_protection", bmc.beside({"acpi-bytes": DENIED})).status is UNKNOWN


def test_evidence_that_was_cut_off_before_any_bmc_has_none() -> None:
    finding = found("bios.smt", node(complete=False))
    assert (finding.status, finding.details) == (PASS, ())


# --- secure boot, and the site's own wishes ---


def test_secure_boot_has_a_resource_of_its_own() -> None:
    resource = {"SecureBootCurrentBoot": "Enabled", "SecureBootEnable": False}
    finding = found("bios.secure_boot", Bmc(secure=resource).beside())
    assert finding.status is PASS
    assert finding.details == (
        "SecureBoot: current on, set to off",
        "contradiction: the BMC says secure boot is on, the system shows it off",
    )


def test_the_site_may_want_a_setting_its_way() -> None:
    bmc = Bmc((switch("LogicalProc", "Enabled", "Logical Processor"),))
    finding = found("bios.smt", bmc.beside(), Want(bios=(("smt", "off"),)))
    assert finding.status is FAIL
    assert finding.expected == "off: the site's file says so"
    assert finding.details == ("LogicalProc: current Enabled, wanted off",)
    assert "--set smt=off" in finding.hint


@pytest.mark.parametrize(
    ("value", "status"),
    [pytest.param("Disabled", PASS, id="as-wished"), pytest.param("Enabled", FAIL, id="otherwise")],
)
def test_the_sites_word_fits_whatever_the_vendor_calls_it(value: str, status: Status) -> None:
    bmc = Bmc((Row(ACS.name, value, ACS.display),))
    evidence = node({"dmi": DMI}, board=FENCED).plus(bmc.frames())
    for word in ("off", "disable", "No"):
        assert found("bios.acs", evidence, Want(bios=(("acs", word),))).status is status


@pytest.mark.parametrize(
    ("word", "status"),
    [("off", FAIL), ("Disabled", FAIL), ("on", PASS), ("Enable", PASS), ("auto", PASS)],
)
def test_the_sites_word_is_understood_as_vendors_spell_it(word: str, status: Status) -> None:
    assert found("bios.smt", node(), Want(bios=(("smt", word),))).status is status


@pytest.mark.parametrize(
    ("base", "told"),
    [
        pytest.param("56TB", (), id="within"),
        pytest.param("64TB", ("MemoryMappedIOH: 64TB lies beyond",), id="beyond"),
    ],
)
def test_a_base_that_the_processor_cannot_address_is_named(
    base: str, told: tuple[str, ...]
) -> None:
    row = Row("MemoryMappedIOH", "12TB", "Memory Mapped I/O Base", values=("12TB", "56TB", "64TB"))
    details = found("bios.mmio_window", Bmc((row,), {row.name: base}).beside()).details
    assert f"MemoryMappedIOH: current 12TB, pending {base}" in details
    lines = [each for each in details if "lies beyond" in each]
    assert len(lines) == len(told)
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))


@pytest.mark.parametrize(
    ("word", "status"),
    [
        pytest.param("1", PASS, id="one"),
        pytest.param("off", PASS, id="off"),
        pytest.param("NPS1", PASS, id="in-a-vendors-word"),
        pytest.param("4", FAIL, id="four"),
        pytest.param("auto", PASS, id="no-count"),
    ],
)
def test_a_sites_count_of_clusters_is_judged_by_the_system(word: str, status: Status) -> None:
    want = Want(bios=(("numa-clustering", word),))
    assert found("bios.numa_clustering", node(), want).status is status


def test_clusters_that_a_site_wants_off_are_seen_by_the_system() -> None:
    four: dict[str, Override] = {"setup": setup(packages="0:0 1:0 2:0 3:0"), "numa-nodes": "0-3\n"}
    for word, status in (("off", FAIL), ("4", PASS), ("1", FAIL)):
        want = Want(bios=(("numa-clustering", word),))
        assert found("bios.numa_clustering", node(four), want).status is status


@pytest.mark.parametrize(("word", "status"), [("Perf_Optimized", PASS), ("Custom", FAIL)])
def test_a_sites_own_word_that_only_the_bmc_can_tell_is_judged_by_it(
    word: str, status: Status
) -> None:
    profile = Row("SysProfile", "PerfOptimized", "System Profile")
    want = Want(bios=(("power-profile", word),))
    finding = found("bios.power_profile", Bmc((profile,)).beside(), want)
    assert finding.status is status, finding


@pytest.mark.parametrize(
    ("scope", "part", "told"), [("", "", True), ("slot 1", "", False), ("", "opt-in", False)]
)
def test_a_slot_or_a_part_contradicts_nothing_that_holds_for_the_machine(
    scope: str, part: str, told: bool
) -> None:
    """No row has either yet of a setting whose state the system shows for certain."""
    [above] = match(bios(MmioAbove4Gb="Disabled"), shipped())[BiosRole.ABOVE_4G]
    other = replace(above, scope=scope, row=replace(above.row, part=part))
    view = View((other,), usable=True)
    assert bool(_contradictions(right("on", on=True), view)) is told
