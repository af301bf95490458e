"""The checks on the IOMMU, now and at the next boot."""

from __future__ import annotations

import re

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS, Board, Fn
from tests.evidence.build import CONFIG, CPU, DRIVER, GUEST_CPU, KERNEL, OPEN, groups
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override
from tests.evidence.healthy_boot import grub
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.evidence.platforms import ALTRA, DATA_DIRECT, GRACE
from toolkit.want import Iommu, Role, Want

STARTED = "Linux version 5.15.0-170-generic"
ANY = Want(iommu=Iommu.ANY)
GUEST: dict[str, Override] = {"cpu": GUEST_CPU}
OFF: dict[str, Override] = {"iommu-groups": "", "iommu-units": ""}
LOOSE: dict[str, Override] = {"iommu-groups": MISSING, "iommu-units": MISSING}
AMD = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
ARM = {"cpu": "processor\t: 0\nCPU part\t: 0xd4f\n"}
BUILT_FOR_IT = {
    "kernel-config": CONFIG.replace(
        "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set", "CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y"
    )
}


def boots(arguments: str, frames: dict[str, Override] | None = None) -> dict[str, Override]:
    return {"boot-entries": grub(f"root=UUID=1 ro {arguments}"), **(frames or {})}


def passthrough() -> list[Row]:
    check = "iommu.passthrough"
    dma_on_gpu = groups("identity", "11", "20", "21", "30") + groups("DMA", "10")
    dma_on_hca = groups("identity", "10", "11", "21", "30") + groups("DMA", "20")
    return [
        Row("identity", check, PASS, "identity on 3 HCAs"),
        Row("off", check, PASS, "no IOMMU is active", OFF),
        Row(
            "iommu=pt-and-yet-lazily-translated",
            check,
            FAIL,
            "translated: DMA-FQ on 3",
            {"iommu-groups": groups("DMA-FQ")},
        ),
        Row("one-strict", check, FAIL, "DMA on 1", {"iommu-groups": dma_on_hca}),
        Row("the-gpu-initiates-nothing", check, PASS, "on 3 HCAs", {"iommu-groups": dma_on_gpu}),
        Row(
            "others-may-be-translated",
            check,
            PASS,
            "identity on 3",
            {"iommu-groups": groups("identity") + groups("DMA", "3", "4")},
        ),
        Row("no-group", check, PASS, "no HCA is in", board=_groupless()),
        Row("type-not-told", check, UNKNOWN, "not told", {"iommu-groups": ""}),
        Row(
            "type-not-told-for-one",
            check,
            UNKNOWN,
            "0000:06:00.0: not told",
            {"iommu-groups": groups("identity", "10", "11", "20", "21")},
        ),
        Row("kernel-knows-no-name", check, UNKNOWN, "unknown", {"iommu-groups": groups("unknown")}),
        Row(
            "one-is-a-guests",
            check,
            PASS,
            "identity on 2",
            {
                "iommu-groups": groups("unmanaged", "20")
                + groups("identity", "10", "11", "21", "30")
            },
        ),
        Row("undocumented-type", check, UNKNOWN, "cannot read", {"iommu-groups": groups("pt")}),
        Row("guest", check, NA, "on a vm", {**GUEST, "iommu-groups": groups("DMA")}),
        Row("wanted-as-guest", check, NA, "on a vm", want=Want(role=Role.VM)),
        Row("left-alone", check, NA, "leaves the IOMMU alone", want=ANY),
        Row("not-read", check, UNKNOWN, "permission denied", {"iommu-units": DENIED}),
        Row(
            "grace-translates-as-a-rule",
            check,
            NA,
            "translation is normal",
            {"iommu-groups": groups("DMA-FQ", "1", "2", "3"), "infiniband": MISSING},
            GRACE,
        ),
        Row("data-direct", check, NA, "is normal", {"iommu-groups": ""}, DATA_DIRECT),
        Row("all-gpus-are-the-guests", check, NA, "given to guests", board=_given_away()),
        Row("groups-lost", check, UNKNOWN, "not part of this", {"iommu-groups": MISSING}),
        *_loose(),
    ]


def _given_away() -> Board:
    board = BOARD
    for address in GPUS:
        board = board.but(address, driver="vfio-pci")
    return board


NOTHING = "[    0.0] Linux version 6.8.0\n"
PASSED_THROUGH = "[    5.2] iommu: Default domain type: Passthrough (set via kernel command line)\n"
TRANSLATED = "[    5.2] iommu: Default domain type: Translated\n"
ENABLED = "[    0.2] DMAR: IOMMU enabled\n"
TABLES = (
    "[    0.0] ACPI: DMAR 0x000000007C9F6300 0000E0 (v01 A M I  OEMDMAR  00000001)\n"
    "[    0.5] DMAR-IR: IOAPIC id 3 under DRHD base  0xfbffe000 IOMMU 0\n"
)


def _loose() -> list[Row]:
    """Loose files: no groups, only what the kernel logged or was told."""

    def says(claim: str, status: Row, found: str, **given: str) -> Row:
        frames: dict[str, Override] = {
            "iommu-groups": MISSING,
            "iommu-units": MISSING,
            "cpu": MISSING,
            "dmesg": MISSING,
            "cmdline": MISSING,
            **given,
        }
        return Row(f"loose-{claim}", "iommu.passthrough", status.status, found, frames)

    good, bad, nobody_knows = (Row("", "", each, "") for each in (PASS, FAIL, UNKNOWN))
    return [
        says("iommu=pt", good, "iommu=pt on the command line", cmdline="ro iommu=pt\n"),
        says("off-beats-pt", good, "amd_iommu=off", cmdline="amd_iommu=off iommu=pt\n"),
        says("logged", good, "logs passthrough", dmesg=PASSED_THROUGH),
        says("logged-raw", good, "logs passthrough", dmesg="<6>" + PASSED_THROUGH),
        says("intel-on", bad, "IOMMU is enabled", dmesg=TABLES + ENABLED),
        says("on-and-translated", bad, "IOMMU is enabled", dmesg=ENABLED + TRANSLATED),
        says("asked-for", bad, "intel_iommu=on", cmdline="ro intel_iommu=on\n"),
        says("on-and-pt", good, "iommu=pt", dmesg=ENABLED, cmdline="ro iommu=pt\n"),
        says(
            "arguments-in-the-log",
            good,
            "iommu=pt on",
            dmesg=ENABLED + "[    0.0] Command line: BOOT_IMAGE=/vmlinuz ro iommu=pt\n",
        ),
        says("tables-alone-say-nothing", nobody_knows, "neither", dmesg=TABLES),
        says("translated-even-without-iommu", nobody_knows, "neither", dmesg=TRANSLATED),
        says("nothing-of-it", nobody_knows, "neither", dmesg=NOTHING),
        says("nothing-at-all", nobody_knows, "iommu-groups: not part of this evidence"),
    ]


def _groupless() -> Board:
    board = BOARD
    for address in (*GPUS, *HCAS):
        board = board.but(address, group="")
    return board


def boot() -> list[Row]:
    check = "iommu.boot"
    return [
        Row("iommu=pt", check, PASS, f"iommu=pt for {KERNEL}"),
        Row("arm64", check, PASS, "iommu.passthrough=1", boots("iommu.passthrough=1", {**ARM})),
        Row("off-on-intel", check, PASS, "intel_iommu=off", boots("intel_iommu=off")),
        Row("off-on-amd", check, PASS, "amd_iommu=off", boots("amd_iommu=off iommu=nopt", {**AMD})),
        Row("intels-switch-on-amd", check, FAIL, "nothing", boots("intel_iommu=off", {**AMD})),
        Row("amds-switch-on-intel", check, FAIL, "nothing asks", boots("amd_iommu=off")),
        Row("x86-switch-on-arm64", check, FAIL, "nothing asks", boots("iommu=off", {**ARM})),
        Row("nothing", check, FAIL, f"in the entry of {KERNEL}", boots("quiet")),
        Row(
            "typed-by-hand-this-time",
            check,
            FAIL,
            "nothing asks",
            boots("quiet", {"cmdline": "ro iommu=pt\n"}),
        ),
        Row("the-last-counts", check, FAIL, "nothing asks", boots("iommu=pt iommu=nopt")),
        Row("for-init-not-the-kernel", check, FAIL, "nothing asks", boots("-- iommu=pt")),
        Row("kernel-built-for-it", check, PASS, "built for", boots("quiet", {**BUILT_FOR_IT})),
        Row(
            "built-for-it-and-told-otherwise",
            check,
            FAIL,
            "nothing asks",
            boots("iommu.passthrough=0", {**BUILT_FOR_IT}),
        ),
        Row("the-last-of-two-names", check, FAIL, "nothing", boots("iommu=pt iommu.passthrough=0")),
        Row("of-either-name", check, PASS, "=1", boots("iommu=nopt iommu.passthrough=1")),
        Row("x86s-word-on-arm64", check, FAIL, "nothing asks", boots("iommu=pt", {**ARM})),
        Row("off-then-on", check, FAIL, "nothing", boots("intel_iommu=off intel_iommu=on")),
        Row("on-at-the-next-boot", check, FAIL, "nothing", boots("intel_iommu=on", OFF)),
        Row("no-iommu", check, PASS, "no IOMMU is active", boots("quiet", OFF)),
        Row(
            "off-now-by-an-argument-that-goes",
            check,
            FAIL,
            "nothing asks",
            boots("quiet", {**OFF, "cmdline": "ro intel_iommu=off\n"}),
        ),
        Row("guest", check, NA, "on a vm", boots("quiet", GUEST)),
        Row("left-alone", check, NA, "leaves the IOMMU alone", boots("quiet"), want=ANY),
        Row("no-menu", check, UNKNOWN, "no entry that boots", {"boot-entries": ""}),
        Row(
            "rhel-8-with-its-environment",
            check,
            PASS,
            "iommu=pt",
            {"boot-entries": _bls(), "grub-env": "kernelopts=ro iommu=pt\n"},
        ),
        Row(
            "rhel-8-without-its-environment",
            check,
            UNKNOWN,
            "$kernelopts not known",
            {
                "boot-entries": _bls(),
                "grub-env": ABSENT,
                "boot-default": f"/boot/vmlinuz-{KERNEL}\n",
            },
        ),
        Row("no-config", check, UNKNOWN, "not there", boots("quiet", {"kernel-config": ABSENT})),
        Row("grace-translates-as-a-rule", check, NA, "is normal", boots("quiet"), GRACE),
    ]


def _bls() -> str:
    lines = ("title x", f"version {KERNEL}", f"linux /vmlinuz-{KERNEL}", "options $kernelopts")
    return "".join(f"id-{KERNEL}.conf:{line}\n" for line in lines)


def state() -> list[Row]:
    check = "iommu.state"
    off: dict[str, Override] = {"iommu-units": ""}
    return [
        Row("on", check, PASS, "on: 1 dmar"),
        Row(
            "on-amd",
            check,
            PASS,
            "on: 2 ivhd",
            {"iommu-units": "".join(f"/sys/class/iommu/ivhd{n} -> x\n" for n in (0, 1))},
        ),
        Row(
            "on-against-the-argument",
            check,
            FAIL,
            "on (1 dmar), although intel_iommu=off",
            {"cmdline": "ro intel_iommu=off\n"},
        ),
        Row("amds-switch-on-intel", check, PASS, "on: 1 dmar", {"cmdline": "amd_iommu=off\n"}),
        Row("off-by-argument", check, PASS, "off: iommu=off", {**off, "cmdline": "iommu=off\n"}),
        Row("off-in-the-bios", check, PASS, "firmware offers none", {**off, "acpi-tables": ""}),
        Row(
            "asked-for-and-off-in-the-bios",
            check,
            PASS,
            "firmware offers none",
            {**off, "acpi-tables": "", "cmdline": "intel_iommu=on\n"},
        ),
        Row("nobody-asked", check, PASS, "nothing asks for it", off),
        Row(
            "asked-for-and-off",
            check,
            FAIL,
            "off, although intel_iommu=on",
            {**off, "cmdline": "intel_iommu=on iommu=pt\n"},
        ),
        Row(
            "intels-switch-on-amd",
            check,
            PASS,
            "nothing asks",
            {**off, **AMD, "cmdline": "intel_iommu=on\n"},
        ),
        Row("guest", check, NA, "on a vm", GUEST),
        Row("not-read", check, UNKNOWN, "permission denied", {"iommu-units": DENIED}),
    ]


INTEL = "fault addr 0x3800000000 [fault reason 0x05] PTE Write access is not set"
AMDS = "domain=0x0031 address=0x28000010000 flags=0x0030]"
SMMU = "arm-smmu-v3 arm-smmu-v3.2.auto: event"
# As each driver prints them, now and years ago; the board has a GPU at 18:00.0, an HCA at 19:00.0.
REFUSED = {
    "intel": f"DMAR: [DMA Write NO_PASID] Request device [18:00.0] {INTEL}",
    "intel-with-pasid": f"DMAR: [DMA Read PASID 0x2] Request device [18:00.0] {INTEL}",
    "intel-in-hex": f"DMAR: [DMA Read NO_PASID] Request device [0x18:0x00.0] {INTEL}",
    "intel-of-old": f"DMAR:[DMA Write] Request device [18:00.0] {INTEL}",
    "amd": f"nvidia 0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT {AMDS}",
    "amd-driverless": f"AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:18:00.0 {AMDS}",
    "amd-of-old": f"AMD-Vi: Event logged [IO_PAGE_FAULT device=18:00.0 {AMDS}",
    "arm": f"{SMMU}: F_TRANSLATION client: 0000:18:00.0 sid: 0x900 ssid: 0x0 iova: 0x1 ipa: 0x0",
}
OTHERS = {
    "none": "DMAR: DRHD: handling fault status reg 2",
    "another-device": f"DMAR: [DMA Read] Request device [00:02.0] {INTEL}",
    "an-interrupt": "DMAR: [INTR-REMAP] Request device [18:00.0] fault index 0x19 [fault reason 6]",
    "arm-before-it-told-whose": f"{SMMU} 0x10 received:",
}


def faults() -> list[Row]:
    check, two = "iommu.faults", REFUSED["intel"].replace("[18", "[19")
    twin = Board((*BOARD.functions, Fn("0001:18:00.0", "pci0001:00", (0x8086, 0x0A54), 0x020000)))

    def log(*lines: str) -> dict[str, Override]:
        return {"dmesg": "".join(f"[{at}.0] {line}\n" for at, line in enumerate((STARTED, *lines)))}

    return [
        *(Row(claim, check, FAIL, "0000:18:00.0", log(line)) for claim, line in REFUSED.items()),
        *(Row(claim, check, PASS, "nothing", log(line)) for claim, line in OTHERS.items()),
        Row("both", check, FAIL, "0000:19:00.0, 0000:18:00.0", log(two, REFUSED["intel"], two)),
        Row("one-of-two-in-another-domain", check, PASS, "nothing", log(REFUSED["intel"]), twin),
        Row("no-iommu", check, NA, "no IOMMU is active", {**OFF, **log(REFUSED["intel"])}),
        Row("text", check, FAIL, "0000:18:00.0", {**LOOSE, **log(REFUSED["intel"])}),
        Row(
            "log-alone", check, UNKNOWN, "whose", {**LOOSE, "pci": MISSING, **log(REFUSED["intel"])}
        ),
        Row("guest", check, NA, "on a vm", GUEST),
        Row("not-read", check, UNKNOWN, "permission denied", {"dmesg": DENIED}),
    ]


ROWS = [*passthrough(), *boot(), *state(), *faults()]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_iommu(row: Row) -> None:
    holds(row)


def test_a_translated_gpu_is_told_though_it_decides_nothing() -> None:
    frames = {"iommu-groups": groups("identity", "11", "20", "21", "30") + groups("DMA", "10")}
    finding = judged(Row("", "iommu.passthrough", PASS, "", frames)).finding
    assert finding.details == (
        "0000:18:00.0: the GPU itself is translated, which does not matter here",
    )


def test_on_the_dmabuf_path_the_raw_addresses_of_the_driver_are_named() -> None:
    frames: dict[str, Override] = {"iommu-groups": groups("DMA")}
    there = {**frames, "nvidia-version": OPEN.replace(DRIVER, "595.45.04")}
    peermem = judged(Row("", "iommu.passthrough", FAIL, "", there))
    dmabuf = judged(Row("", "iommu.passthrough", FAIL, "", there, want=DMABUF))
    another = judged(Row("", "iommu.passthrough", FAIL, "", frames, want=DMABUF))
    told = ["issue 1324" in each.finding.hint for each in (peermem, dmabuf, another)]
    assert told == [False, True, False]


@pytest.mark.parametrize("want", [Want(), DMABUF])
@pytest.mark.parametrize("check", ["iommu.passthrough", "iommu.boot"])
def test_an_arm64_node_is_never_given_what_x86_alone_reads(check: str, want: Want) -> None:
    frames: dict[str, Override] = {
        "arch": "aarch64\n",
        **ARM,
        "iommu-groups": groups("DMA", *{each.group for each in ALTRA.functions if each.group}),
        "boot-entries": grub("ro quiet"),
        "infiniband": MISSING,
    }
    finding = judged(Row("", check, FAIL, "", frames, ALTRA, want)).finding
    assert finding.status is FAIL
    assert "iommu.passthrough=1" in finding.hint
    assert not re.search(r"iommu=(pt|off)|intel_iommu|amd_iommu", finding.expected + finding.hint)


@pytest.mark.parametrize("check", ["iommu.passthrough", "iommu.boot", "path.selected"])
def test_a_gb10_is_told_that_it_is_not_made_for_it(check: str) -> None:
    board = BOARD.but(GPUS[0], ids=(0x10DE, 0x2E12)).without(GPUS[1])
    finding = judged(Row("", check, NA, "", {"iommu-groups": groups("DMA")}, board)).finding
    assert finding.status is NA
    assert finding.found.startswith("not supported by design")
