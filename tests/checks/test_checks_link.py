"""The checks on links, their errors, the PCI Express registers, and BAR1."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.checks.test_checks_pci import verdict
from tests.evidence.board import BOARD, FLAT, GIB, GPUS, HCAS, MIB, PORTS, Board, Fn, Registers
from tests.evidence.build import CPU, GUEST_CPU, gpu_rows, hca_lines
from tests.evidence.frames import ABSENT, DENIED, MISSING, TIMEOUT, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.check import Status

GUEST: dict[str, Override] = {"cpu": GUEST_CPU}
AMD: dict[str, Override] = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
ASLEEP = ("2.5 GT/s PCIe", 16)
NARROW = ("32.0 GT/s PCIe", 8)
GEN4 = ("16.0 GT/s PCIe", 16)
UP = ("4: ACTIVE", "5: LinkUp")
STORAGE = HCAS[2]
MANAGED: dict[str, Override] = {
    "infiniband": "".join(hca_lines(f"mlx5_{i}", a, UP) for i, a in enumerate(HCAS))
    + "mlx5_2/net:ens5\n",
    "ssh-interface": "ens5\n",
}


def idle(device: int, *slow: str) -> Board:
    """The board with GPUs of another kind, some of them at the speed of idle ones."""
    board = BOARD
    for gpu in GPUS:
        board = board.but(gpu, ids=(0x10DE, device), **({"now": ASLEEP} if gpu in slow else {}))
    return board


def links() -> list[Row]:
    check = "pcie.link"
    management = Fn("0000:07:00.0", "pci0000:05", (0x14E4, 0x165F), 0x020000, "tg3", now=NARROW)
    return [
        Row("healthy", check, PASS, "7 links at full width"),
        Row("an-h100-does-not-idle", check, FAIL, "1 link", board=BOARD.but(GPUS[0], now=ASLEEP)),
        Row("not-one-h100-does", check, FAIL, "2 links", board=idle(0x2330, *GPUS)),
        Row("idle-cards", check, PASS, "2 GPUs at a lower", board=idle(0x26B9, *GPUS)),
        Row(
            "one-card-is-slower",
            check,
            UNKNOWN,
            "slower than its twin",
            board=idle(0x26B9, GPUS[0]),
        ),
        Row(
            "a-gpu-for-guests-sleeps",
            check,
            PASS,
            "2 GPUs at a lower",
            board=idle(0x2330, *GPUS).but(GPUS[0], driver="vfio-pci").but(GPUS[1], driver=""),
        ),
        Row(
            "a-superchip-has-c2c-and-saves-power",
            check,
            PASS,
            "2 GPUs at a lower",
            board=idle(0x2941, *GPUS),
        ),
        Row("narrow-gpu", check, FAIL, "1 link", board=BOARD.but(GPUS[0], now=NARROW)),
        Row("slow-hca", check, FAIL, "1 link", board=BOARD.but(HCAS[0], now=ASLEEP)),
        Row(
            "older-card-in-a-newer-slot",
            check,
            PASS,
            "full width",
            board=BOARD.but(HCAS[0], now=GEN4, best=GEN4).but(PORTS[1], now=GEN4),
        ),
        Row(
            "newer-card-in-an-older-slot",
            check,
            PASS,
            "full width",
            board=BOARD.but(PORTS[1], now=GEN4, best=GEN4).but(HCAS[0], now=GEN4),
        ),
        Row("narrow-switch", check, FAIL, "1 link", board=BOARD.but("0000:16:00.0", now=NARROW)),
        Row("nothing-that-leads-to-a-gpu", check, PASS, "7 links", board=BOARD.plus(management)),
        Row(
            "an-hca-for-storage-counts",
            check,
            FAIL,
            "1 link",
            board=BOARD.but(STORAGE, now=NARROW),
        ),
        Row(
            "one-that-manages-the-node-does-not",
            check,
            PASS,
            "6 links",
            MANAGED,
            BOARD.but(STORAGE, now=NARROW),
        ),
        Row("guest", check, NA, "not the machine's", GUEST, FLAT),
        Row("not-told", check, UNKNOWN, "no link tells", {}, FLAT),
        Row("not-read", check, UNKNOWN, "permission", {"pci-links": DENIED}),
    ]


def logged() -> list[Row]:
    """What the kernel log tells of errors, by words of old and new kernels and of firmware."""
    gpu, hca, port = GPUS[0], HCAS[0], PORTS[0]
    apei = ("{7}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5",)
    section = "{7}[Hardware Error]:   section_type: PCIe error"

    def ghes(event: str, error: str, device: str, kind: str = section) -> tuple[str, ...]:
        head = "{7}[Hardware Error]: "
        lines = (f"{head}event severity: {event}", f"{head} Error 0, type: {error}", kind)
        last = (f"{head}  device_id: {device}", f"{head}  vendor_id: 0x10de, device_id: 0x2330")
        return (*apei, *lines, *last)

    fatal = {
        "received": (f"pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received: {gpu}",),
        "message": (
            f"pcieport {port}: AER: Multiple Uncorrectable (Fatal) error message received from "
            + gpu,
        ),
        "bus-error": (f"nvidia {gpu}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Trans",),
        "aer-bus-error": (f"mlx5_core {hca}: AER: PCIe Bus Error: severity=Uncorrectable (Fatal)",),
        "trace": (f"aer_event: {hca} PCIe Bus Error: severity=Fatal, Data Link Protocol",),
        "contained": (f"pcieport {port}: DPC: containment event, status:0x1f01 source:0x0000",),
        "firmware": ghes("fatal", "fatal", gpu),
        "firmware-recovered": ghes("recoverable", "fatal", hca),
    }
    other = {
        "nonfatal": (f"mlx5_core {hca}: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=",),
        "trace-nonfatal": (f"aer_event: {hca} PCIe Bus Error: severity=Uncorrected, non-fatal, X",),
        "not-recovered": (f"nvidia {gpu}: AER: can't recover (no error_detected callback)",),
        "recoverable": ghes("recoverable", "recoverable", gpu),
        "flood": (f"nvidia {gpu}: PCIe Bus Error: severity=Corrected, type=Physical",) * 1000,
        "firmware-flood": ghes("corrected", "corrected", gpu) * 1000,
    }
    sound = {
        "some-corrected": (f"nvidia {gpu}: PCIe Bus Error: severity=Correctable, type=Phys",) * 99,
        "of-an-nvme": ghes("fatal", "fatal", "0000:70:00.0"),
        "of-memory": ghes("fatal", "fatal", gpu, "{7}[Hardware Error]:   section_type: memory"),
    }

    def row(claim: str, check: str, status: Status, lines: tuple[str, ...]) -> Row:
        log: dict[str, Override] = {
            "dmesg": "".join(f"[ 9.1] {line}\n" for line in lines),
            "aer": ABSENT,
        }
        return Row(f"log-{claim}", check, status, "" if status is NA else "errors on 1", log)

    return [
        *(row(claim, "pcie.fatal", FAIL, lines) for claim, lines in fatal.items()),
        *(row(claim, "pcie.aer", NA, lines) for claim, lines in fatal.items()),
        *(row(claim, "pcie.fatal", NA, lines) for claim, lines in (other | sound).items()),
        *(row(claim, "pcie.aer", FAIL, lines) for claim, lines in other.items()),
        *(row(claim, "pcie.aer", NA, lines) for claim, lines in sound.items()),
    ]


def aer(*lines: str, uptime: int = 36000, functions: int = 14) -> dict[str, Override]:
    head = (f"uptime:{uptime}", f"functions:{functions}")
    return {"aer": "".join(line + "\n" for line in (*head, *lines))}


def errors() -> list[Row]:
    check, total = "pcie.aer", "aer_dev_{}:TOTAL_ERR_{}"
    fatal, nonfatal = total.format("fatal", "FATAL"), total.format("nonfatal", "NONFATAL")
    corrected = total.format("correctable", "COR")
    return [
        Row("healthy", check, PASS, "none of note on 14 functions in 100 hours"),
        Row("fatal", "pcie.fatal", FAIL, "errors on 1 of 14", aer(f"{GPUS[0]}/{fatal} 1")),
        *logged(),
        Row("none-fatal", "pcie.fatal", PASS, "none", aer(f"{GPUS[0]}/{nonfatal} 1")),
        Row("no-counters", "pcie.fatal", NA, "no function has AER", {"aer": ABSENT}),
        Row("not-read", "pcie.fatal", UNKNOWN, "permission", {"aer": DENIED}),
        Row("fatal-is-told-once", check, PASS, "none of note", aer(f"{GPUS[0]}/{fatal} 1")),
        Row("nonfatal-on-a-port", check, FAIL, "errors on 1", aer(f"{PORTS[0]}/{nonfatal} 2")),
        Row("a-few-corrected", check, PASS, "none of note", aer(f"{GPUS[0]}/{corrected} 999")),
        Row("many-corrected", check, FAIL, "errors on 1", aer(f"{GPUS[0]}/{corrected} 1000")),
        Row("just-booted", check, PASS, "in 1 hour", aer(f"{GPUS[0]}/{corrected} 99", uptime=60)),
        Row("of-something-else", check, PASS, "none", aer(f"0000:70:00.0/{fatal} 1")),
        Row("no-counters", check, NA, "no function has AER", {"aer": ABSENT}),
        Row("not-read", check, UNKNOWN, "permission", {"aer": DENIED}),
        Row("another-form", check, UNKNOWN, "cannot read line 3", aer("x")),
        Row("without-head", check, UNKNOWN, "cannot read", {"aer": ""}),
    ]


def but(address: str, board: Board = BOARD, **registers: Any) -> Board:
    return board.but(address, express=replace(Registers(), **registers))


def registers() -> list[Row]:
    mps, mrrs, order, tags = "pcie.mps", "pcie.mrrs", "pcie.relaxed_ordering", "pcie.tags"
    unread = BOARD.but(HCAS[0], readable=64)
    large = BOARD
    for address in ("0000:15:01.0", "0000:16:00.0", *PORTS[:2], HCAS[0]):
        large = but(address, large, payload=512)
    rows = [
        Row("healthy", mps, PASS, "256 bytes on 12 functions"),
        Row("hca-above-its-port", mps, FAIL, "1 senders", board=but(HCAS[0], payload=512)),
        Row("hca-above-a-gpu-behind-its-switch", mps, FAIL, "1 senders", board=large),
        Row("a-port-may-be-larger", mps, PASS, "256, 512", board=but(PORTS[0], payload=512)),
        Row("storage-is-not-on-the-path", mps, PASS, "256", board=but(STORAGE, payload=512)),
        Row("no-hca", mps, NA, "no HCA", {"infiniband": ""}, BOARD.without(*HCAS)),
        Row("healthy", mrrs, PASS, "4096 bytes on 2 HCAs"),
        Row("the-default", mrrs, PASS, "512, 4096", board=but(HCAS[0], read_request=512)),
        Row("crumbs", mrrs, FAIL, "below 512 bytes on 1", board=but(HCAS[0], read_request=128)),
        Row("of-a-gpu", mrrs, PASS, "4096", board=but(GPUS[0], read_request=128)),
        Row("healthy", order, PASS, "on for 2 HCAs"),
        Row(
            "off-on-intel", order, PASS, "does not mind", board=but(HCAS[0], relaxed_ordering=False)
        ),
        Row("off-on-amd", order, FAIL, "off on 1 of 2", AMD, but(HCAS[0], relaxed_ordering=False)),
        Row("healthy", tags, PASS, "8-bit tags"),
        Row("five-bits", tags, FAIL, "5-bit tags on 1 of 4", board=but(HCAS[0], tags_8bit=False)),
        Row("ten-bits", tags, PASS, "8-bit", board=but(HCAS[0], tags_8bit=False, tags_10bit=True)),
    ]
    for check in (mps, mrrs, order, tags):
        rows += [
            Row("64-bytes-for-ordinary-users", check, UNKNOWN, "only 64 bytes", board=unread),
            Row("guest", check, NA, "not judged on a vm", GUEST),
            Row("no-od", check, UNKNOWN, "not there", {"pci-config": ABSENT}),
        ]
    return rows


SMALL = BOARD.but(
    GPUS[0], bars=((0, 16 * MIB), (1, 256 * MIB)), express=Registers(rebar=(256 * MIB, 128 * GIB))
)


def bars() -> list[Row]:
    check = "pcie.bar1"
    return [
        Row("healthy", check, PASS, "covers the memory of 2 GPUs"),
        Row("256-mib", check, FAIL, "256 MiB or less on 1 of 2", board=SMALL),
        Row(
            "256-mib-and-nvidia-smi-hangs",
            check,
            FAIL,
            "256 MiB or less",
            {"nvidia-smi": TIMEOUT},
            SMALL,
        ),
        Row(
            "256-mib-and-no-registers",
            check,
            FAIL,
            "256 MiB or less",
            {"pci-config": DENIED},
            SMALL,
        ),
        Row(
            "smaller-than-memory",
            check,
            FAIL,
            "smaller than the memory of 1 of 2",
            board=BOARD.but(GPUS[0], bars=((1, 32768 * MIB),)),
        ),
        Row("no-region", check, UNKNOWN, "no memory region", board=BOARD.but(GPUS[0], bars=())),
        Row("memory-n/a", check, UNKNOWN, "memory of", {"nvidia-smi": gpu_rows("[N/A]")}),
        Row("nvidia-smi-hangs", check, UNKNOWN, "no answer", {"nvidia-smi": TIMEOUT}),
        Row("resources-cut", check, UNKNOWN, "not part of", {"pci-resources": MISSING}),
    ]


ROWS = [*links(), *errors(), *registers(), *bars()]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_link(row: Row) -> None:
    holds(row)


def test_a_narrow_link_is_named_with_both_widths() -> None:
    board = BOARD.but(GPUS[0], now=NARROW)
    assert judged(Row("", "pcie.link", FAIL, "", board=board)).finding.details == (
        "0000:18:00.0: x8 of x16",
    )


def test_too_large_packets_are_told_with_both_ends() -> None:
    board = but(HCAS[0], but(PORTS[1], payload=512), payload=512)
    assert judged(Row("", "pcie.mps", FAIL, "", board=board)).finding.details == (
        "0000:19:00.0 sends 512 bytes, 0000:16:00.0 takes 256",
    )


def test_a_default_request_size_is_a_hint_and_no_fault() -> None:
    finding = judged(Row("", "pcie.mrrs", PASS, "", board=but(HCAS[0], read_request=512))).finding
    assert finding.details == ("0000:19:00.0: 512; 4096 suits large reads better",)


@pytest.mark.parametrize("device", [0x2235, 0x2230, 0x26B5, 0x26B1, 0x2BB5])
def test_a_small_bar_of_a_card_with_a_display_mode_has_its_own_remedy(device: int) -> None:
    board = SMALL.but(GPUS[0], ids=(0x10DE, device))
    hint = judged(Row("", "pcie.bar1", FAIL, "", board=board)).finding.hint
    assert "displaymodeselector --gpumode compute" in hint
    assert "reboot" in hint


def test_a_small_bar_is_told_with_the_size_that_is_possible() -> None:
    assert (
        "offers up to 128 GiB" in judged(Row("", "pcie.bar1", FAIL, "", board=SMALL)).finding.hint
    )
    unread = Row("", "pcie.bar1", FAIL, "", {"pci-config": DENIED}, SMALL)
    assert judged(unread).finding.hint == ""


GPU = """\
19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tRegion 0: Memory at 214042000000 (64-bit, prefetchable) [size=16M]
\tRegion 2: Memory at 210000000000 (64-bit, prefetchable) [size={size}]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0, Latency L0s <64ns, L1 <1us
\t\t\tExtTag+ AttnBtn- AttnInd- PwrInd- RBE+ FLReset+ SlotPowerLimit 25.000W
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq+
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop- FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
\t\tLnkSta:\tSpeed {speed}GT/s{mark}, Width x{width}
\tCapabilities: [134 v1] Physical Resizable BAR
\t\tBAR 2: current size: {size}B, supported: 64MB 128MB 256MB 512MB 1GB 64GB 128GB
"""


def gpu(size: str = "128G", speed: str = "32", width: int = 16, mark: str = " (ok)") -> str:
    return GPU.format(size=size, speed=speed, width=width, mark=mark)


def test_a_bar_at_its_largest_size_passes_without_nvidia_smi() -> None:
    assert verdict("pcie.bar1", lspci=gpu()).status is PASS
    small = verdict("pcie.bar1", lspci=gpu("64G"))
    assert (small.status, "65536 MiB of 131072" in small.finding.found) == (FAIL, True)


def test_an_excerpt_is_judged_as_far_as_one_end_tells() -> None:
    assert verdict("pcie.link", lspci=gpu()).status is PASS
    slow = verdict("pcie.link", lspci=gpu(speed="2.5", mark=" (downgraded)"))
    assert (slow.status, "2.5 of 32 GT/s" in slow.finding.found) == (UNKNOWN, True)
    narrow = verdict("pcie.link", lspci=gpu(width=8))
    assert (narrow.status, "x8 of x16" in narrow.finding.found) == (UNKNOWN, True)


def told(*words: str) -> str:
    said = " ".join(words)
    return f"[    2.6] mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth{said}\n"


def test_the_kernel_log_alone_tells_of_a_limited_link() -> None:
    limited = ", limited by 8.0 GT/s PCIe x8 link at 0000:40:01.1"
    more = " (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)"
    bad = verdict("pcie.link", dmesg=told(limited + more))
    assert bad.status is FAIL
    assert bad.finding.details[0].startswith("0000:41:00.1: 63.008 Gb/s, limited by 8.0 GT/s")
    assert verdict("pcie.link", dmesg=told(" (8.0 GT/s PCIe x8 link)")).status is UNKNOWN
    assert verdict("pcie.link", dmesg="[ 1.0] Linux\n").status is UNKNOWN


def test_an_hca_alone_does_not_tell_whose_packets_meet() -> None:
    hca = gpu().replace("3D controller: NVIDIA Corporation Device 2330", "0207: 15b3:1021")
    found = verdict("pcie.mps", lspci=hca)
    assert (found.status, "hangs is not told" in found.finding.found) == (UNKNOWN, True)
    assert verdict("pcie.mrrs", lspci=hca).status is PASS
