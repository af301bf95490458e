"""The checks on IOMMU, ACS, topology and links."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, FLAT, GPUS, HCAS, MIB, PORTS, REDIRECTS, Board, Fn
from tests.evidence.build import CONFIG, CPU, GUEST_CPU, KERNEL, gpu_rows, groups, grub
from tests.evidence.frames import ABSENT, DENIED, MISSING, TIMEOUT, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.want import Iommu, Role, Want

ANY = Want(iommu=Iommu.ANY)
GUEST: dict[str, Override] = {"cpu": GUEST_CPU}
OFF: dict[str, Override] = {"iommu-groups": "", "iommu-units": ""}
AMD = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
ARM = {"cpu": "processor\t: 0\nCPU part\t: 0xd4f\n"}
BUILT_FOR_IT = {
    "kernel-config": CONFIG.replace(
        "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set", "CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y"
    )
}
ASLEEP = ("2.5 GT/s PCIe", 16)
NARROW = ("32.0 GT/s PCIe", 8)
GEN4 = ("16.0 GT/s PCIe", 16)


def boots(arguments: str, frames: dict[str, Override] | None = None) -> dict[str, Override]:
    return {"boot-entries": grub(f"root=UUID=1 ro {arguments}"), **(frames or {})}


def passthrough() -> list[Row]:
    check = "iommu.passthrough"
    dma_on_gpu = groups("identity", "11", "20", "21", "30") + groups("DMA", "10")
    return [
        Row("identity", check, PASS, "identity on 5 GPUs and HCAs"),
        Row("off", check, PASS, "no IOMMU is active", OFF),
        Row(
            "iommu=pt-and-yet-lazily-translated",
            check,
            FAIL,
            "translated: DMA-FQ on 5",
            {"iommu-groups": groups("DMA-FQ")},
        ),
        Row("one-strict", check, FAIL, "DMA on 1", {"iommu-groups": dma_on_gpu}),
        Row(
            "others-may-be-translated",
            check,
            PASS,
            "identity on 5",
            {"iommu-groups": groups("identity") + groups("DMA", "3", "4")},
        ),
        Row("no-group", check, PASS, "no group", board=_groupless()),
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
            "identity on 4",
            {
                "iommu-groups": groups("unmanaged", "10")
                + groups("identity", "11", "20", "21", "30")
            },
        ),
        Row("undocumented-type", check, UNKNOWN, "cannot read", {"iommu-groups": groups("pt")}),
        Row("guest", check, NA, "in a guest", {**GUEST, "iommu-groups": groups("DMA")}),
        Row("wanted-as-guest", check, NA, "in a guest", want=Want(role=Role.VM)),
        Row("left-alone", check, NA, "leaves the IOMMU alone", want=ANY),
        Row("not-read", check, UNKNOWN, "permission denied", {"iommu-units": DENIED}),
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
        Row("no-iommu", check, PASS, "no IOMMU is active", boots("quiet", OFF)),
        Row(
            "off-now-by-an-argument-that-goes",
            check,
            FAIL,
            "nothing asks",
            boots("quiet", {**OFF, "cmdline": "ro intel_iommu=off\n"}),
        ),
        Row("guest", check, NA, "in a guest", boots("quiet", GUEST)),
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
    ]


def _bls() -> str:
    lines = ("title x", f"version {KERNEL}", f"linux /vmlinuz-{KERNEL}", "options $kernelopts")
    return "".join(f"id-{KERNEL}.conf:{line}\n" for line in lines)


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
        Row("not-read", "iommu.cmdline", UNKNOWN, "permission denied", {"cmdline": DENIED}),
    ]


def acs() -> list[Row]:
    check = "acs.redirect"
    fenced = BOARD.but(PORTS[0], acs=REDIRECTS)
    return [
        Row("SrcValid-alone", check, PASS, "clear on 4 bridges of 2 GPU-HCA paths"),
        Row("redirects", check, FAIL, "1 of 4 bridges", board=fenced),
        Row("completions-alone", check, FAIL, "1 of 4", board=BOARD.but(PORTS[3], acs=0x08)),
        Row("egress-alone", check, FAIL, "1 of 4", board=BOARD.but(PORTS[3], acs=0x20)),
        Row("UpstreamFwd-alone", check, PASS, "clear", board=BOARD.but(PORTS[3], acs=0x10)),
        Row("no-capability", check, PASS, "clear", board=BOARD.but(PORTS[3], acs=None)),
        Row(
            "root-port-above-the-switch",
            check,
            PASS,
            "clear",
            board=BOARD.but("0000:15:01.0", acs=REDIRECTS),
        ),
        Row("iommu=pt-does-not-help", check, FAIL, "1 of 4", {"cmdline": "iommu=pt\n"}, fenced),
        Row("guest", check, NA, "on a vm", GUEST, fenced),
        Row("host-of-guests", check, NA, "vm-host", {}, fenced, Want(role=Role.VM_HOST)),
        Row(
            "data-direct",
            check,
            NA,
            "rules of its own",
            board=fenced.plus(Fn("0000:1a:00.0", PORTS[1], (0x15B3, 0x2100), 0x080100, "")),
        ),
        Row("no-common-switch", check, NA, "no GPU shares", board=fenced.without(*HCAS[:2])),
        Row(
            "64-bytes-for-ordinary-users",
            check,
            UNKNOWN,
            "only 64 bytes are readable",
            board=BOARD.but(PORTS[0], readable=64),
        ),
        Row(
            "256-bytes-without-mmconfig",
            check,
            UNKNOWN,
            "only 256 bytes are readable",
            board=BOARD.but(PORTS[0], readable=256),
        ),
        Row("no-od", check, UNKNOWN, "not there", {"pci-config": ABSENT}),
        Row(
            "one-bridge-not-captured",
            check,
            UNKNOWN,
            "config space of 0000:99:01.0: not part of this evidence",
            {"pci-config": BOARD.without(PORTS[3]).frames()["pci-config"]},
        ),
    ]


def topology() -> list[Row]:
    far = BOARD.but(HCAS[0], parent="0000:05:01.0")
    return [
        Row("healthy", "pcie.distance", PASS, "2 PIX"),
        Row("one-far", "pcie.distance", FAIL, "1 of 2 GPUs have no HCA", board=far),
        Row("guest", "pcie.distance", NA, "not the machine's", GUEST, FLAT),
        Row("no-hca", "pcie.distance", NA, "no HCA", {"infiniband": ""}, BOARD.without(*HCAS)),
        Row("not-read", "pcie.distance", UNKNOWN, "permission", {"infiniband": DENIED}),
        Row("healthy", "pcie.link", PASS, "7 links at full width"),
        Row(
            "idle-gpu", "pcie.link", PASS, "1 GPUs at a lower", board=BOARD.but(GPUS[0], now=ASLEEP)
        ),
        Row("narrow-gpu", "pcie.link", FAIL, "1 links", board=BOARD.but(GPUS[0], now=NARROW)),
        Row("slow-hca", "pcie.link", FAIL, "1 links", board=BOARD.but(HCAS[0], now=ASLEEP)),
        Row(
            "older-card-in-a-newer-slot",
            "pcie.link",
            PASS,
            "full width",
            board=BOARD.but(HCAS[0], now=GEN4, best=GEN4),
        ),
        Row(
            "newer-card-in-an-older-slot",
            "pcie.link",
            PASS,
            "full width",
            board=BOARD.but(PORTS[1], now=GEN4, best=GEN4).but(HCAS[0], now=GEN4),
        ),
        Row(
            "narrow-switch",
            "pcie.link",
            FAIL,
            "1 links",
            board=BOARD.but("0000:16:00.0", now=NARROW),
        ),
        Row(
            "nothing-that-leads-to-a-gpu",
            "pcie.link",
            PASS,
            "7 links",
            board=BOARD.plus(
                Fn("0000:07:00.0", "pci0000:05", (0x14E4, 0x165F), 0x020000, "tg3", now=NARROW)
            ),
        ),
        Row("guest", "pcie.link", NA, "not the machine's", GUEST, FLAT),
        Row("not-told", "pcie.link", UNKNOWN, "no link tells", {}, FLAT),
        Row("not-read", "pcie.link", UNKNOWN, "permission", {"pci-links": DENIED}),
        Row("healthy", "pcie.bar1", PASS, "covers the memory of 2 GPUs"),
        Row(
            "256-mib",
            "pcie.bar1",
            FAIL,
            "256 MiB or less on 1 of 2",
            board=BOARD.but(GPUS[0], bars=((0, 16 * MIB), (1, 256 * MIB))),
        ),
        Row(
            "256-mib-and-nvidia-smi-hangs",
            "pcie.bar1",
            FAIL,
            "256 MiB or less",
            {"nvidia-smi": TIMEOUT},
            BOARD.but(GPUS[0], bars=((1, 256 * MIB),)),
        ),
        Row(
            "smaller-than-memory",
            "pcie.bar1",
            FAIL,
            "smaller than the memory of 1 of 2",
            board=BOARD.but(GPUS[0], bars=((1, 32768 * MIB),)),
        ),
        Row(
            "no-region", "pcie.bar1", UNKNOWN, "no memory region", board=BOARD.but(GPUS[0], bars=())
        ),
        Row("memory-n/a", "pcie.bar1", UNKNOWN, "memory of", {"nvidia-smi": gpu_rows("[N/A]")}),
        Row("nvidia-smi-hangs", "pcie.bar1", UNKNOWN, "no answer", {"nvidia-smi": TIMEOUT}),
        Row("resources-cut", "pcie.bar1", UNKNOWN, "not part of", {"pci-resources": MISSING}),
    ]


ROWS = [*passthrough(), *boot(), *cmdline(), *acs(), *topology()]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_pci(row: Row) -> None:
    holds(row)


def test_redirecting_bridges_are_named_with_their_bits() -> None:
    board = BOARD.but(PORTS[0], acs=REDIRECTS).but(PORTS[2], acs=0x20)
    assert judged(Row("", "acs.redirect", FAIL, "", board=board)).finding.details == (
        "0000:17:00.0: ReqRedir CmpltRedir (ACSCtl 001d)",
        "0000:99:00.0: EgressCtrl (ACSCtl 0020)",
    )


def test_a_narrow_link_is_named_with_both_widths() -> None:
    board = BOARD.but(GPUS[0], now=NARROW)
    assert judged(Row("", "pcie.link", FAIL, "", board=board)).finding.details == (
        "0000:18:00.0: x8 of x16",
    )
