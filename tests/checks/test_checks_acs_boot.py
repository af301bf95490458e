"""The check on what becomes of ACS at the next boot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, HCAS, PORTS, REDIRECTS, Board
from tests.evidence.build import CPU, GUEST_CPU, KERNEL
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override
from tests.evidence.healthy_boot import grub
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.evidence.platforms import (
    DATA_DIRECT,
    GRACE,
    INLINE,
    INLINE_HOST,
    ROOT,
    TO_GPU,
    TO_NIC,
)
from toolkit.want import Role, Want

HOST = Want(role=Role.VM_HOST)
BARE = Want(role=Role.BARE_METAL)
LOOSE_RDMA: dict[str, Override] = {"infiniband": ""}  # the board's own HCAs, by their ids


def boots(arguments: str, **frames: Override) -> dict[str, Override]:
    kernel = str(frames.get("kernel-release", KERNEL)).strip()
    entries = grub(f"ro {arguments}", kernels=(kernel,))
    return {"boot-entries": entries, "acs-units": "", **frames}


AMD_CPU = CPU.replace("GenuineIntel", "AuthenticAMD")
NEW_KERNEL: dict[str, Override] = {"kernel-release": "6.14.0-1013-nvidia\n"}
MASKED = "pci=config_acs=xx000x0@pci:1000:c030"
BY_IDS = "pci=disable_acs_redir=pci:1000:c030;pci:8086:352a"
ALL_FOUR = ";".join(PORTS)


def persistence() -> list[Row]:
    check = "acs.persistence"
    off: dict[str, Override] = {"iommu-units": "", "iommu-groups": ""}

    def at_boot(claim: str, status: Row, found: str, arguments: str, **more: Override) -> Row:
        return Row(claim, check, status.status, found, boots(arguments, **more))

    good, bad, doubt = (Row("", "", each, "") for each in (PASS, FAIL, UNKNOWN))
    bare: dict[str, Override] = {"cpu": AMD_CPU, "acpi-tables": ""}
    epyc = bare | {"acpi-tables": "/sys/firmware/acpi/tables/IVRS\n"}
    mistaken: dict[str, Override] = {"kernel-release": "6.12.22-amd64\n"}
    later: dict[str, Override] = {"kernel-release": "6.19.3-generic\n"}
    return [
        Row("unit", check, PASS, "acs-off.service calls setpci at boot"),
        at_boot("by-hand", bad, "4 of 4 bridges are right by hand", "iommu=pt"),
        at_boot(
            "unit-not-enabled",
            bad,
            "right by hand",
            "iommu=pt",
            **{"acs-units": "acs-off.service disabled /usr/sbin/setpci -s 17:00.0 f2.w=0\n"},
        ),
        at_boot("amd-off", doubt, "may ask for ACS although", "amd_iommu=off", **off, **epyc),
        at_boot("amd-off-and-told", good, "sets 4 bridges", f"amd_iommu=off {BY_IDS}", **epyc),
        at_boot("amd-off-since-6.19", good, "no IOMMU asks", "amd_iommu=off", **epyc, **later),
        at_boot("amd-all-off", doubt, "may ask for ACS although", "iommu=off", **off, **epyc),
        at_boot("intel-all-off", good, "no IOMMU asks", "iommu=off", **off),
        at_boot("amd-offers-none", good, "no IOMMU asks", "amd_iommu=off", **off, **bare),
        at_boot("by-address", good, "sets 4 bridges", f'"pci=disable_acs_redir={ALL_FOUR}"'),
        at_boot("by-ids", good, "sets 4 bridges", BY_IDS),
        at_boot("among-others", good, "sets 4", f"pci=realloc,{BY_IDS.removeprefix('pci=')}"),
        at_boot("any-bridge", good, "sets 4", "pci=disable_acs_redir=pci:0:0"),
        at_boot("by-mask", good, "sets 4", MASKED, **NEW_KERNEL),
        at_boot("mask-on-a-kernel-that-knows-none", bad, "4 of 4", MASKED),
        at_boot("mask-backported-as-is-seen", good, "sets 4", MASKED, cmdline=f"ro {MASKED}\n"),
        Row(
            "unit-under-lockdown",
            check,
            FAIL,
            "acs-off.service is refused by lockdown",
            {"lockdown": "none [integrity] confidentiality\n"},
        ),
        Row("lockdown-not-read", check, UNKNOWN, "denied", {"lockdown": DENIED}),
        at_boot("mask-that-leaves-it", bad, "4 of 4", "pci=config_acs=xxxxxx0@pci:1000:c030"),
        at_boot("one-forgotten", bad, "1 of 4", f"pci=disable_acs_redir={';'.join(PORTS[1:])}"),
        at_boot(
            "the-last-list-counts",
            bad,
            "3 of 4",
            f"{BY_IDS} pci=disable_acs_redir={PORTS[0]}",
        ),
        at_boot(
            "by-path",
            bad,
            "3 of 4",
            "pci=disable_acs_redir=0000:15:01.0/00.0/00.0",
        ),
        at_boot("pci=noacs-is-no-argument", bad, "4 of 4", "pci=noacs"),
        at_boot("iommu-off-at-boot", good, "no IOMMU asks for ACS", "intel_iommu=off"),
        at_boot("no-iommu-now-or-then", good, "no IOMMU asks", "quiet", **off),
        at_boot("iommu-to-come", bad, "right by hand", "intel_iommu=on iommu=pt", **off),
        at_boot(
            "iommu-off-by-an-argument-that-goes",
            bad,
            "right by hand",
            "quiet",
            cmdline="ro intel_iommu=off\n",
            **off,
        ),
        Row(
            "cannot-redirect",
            check,
            PASS,
            "what the kernel sets is right for 4",
            boots("iommu=pt"),
            _unable(BOARD),
        ),
        Row("redirects-now", check, NA, "not right now", {}, BOARD.but(PORTS[0], acs=REDIRECTS)),
        Row(
            "written-not-in-effect",
            check,
            PASS,
            "written, not in effect: pci= of the next boot sets 4",
            boots(f'"pci=disable_acs_redir={ALL_FOUR}"'),
            BOARD.but(PORTS[0], acs=REDIRECTS),
        ),
        Row(
            "in-effect-and-of-no-use",
            check,
            NA,
            "not right now",
            boots(BY_IDS, cmdline=f"ro {BY_IDS}\n"),
            BOARD.but(PORTS[0], acs=REDIRECTS),
        ),
        Row(
            "written-for-one-of-two",
            check,
            NA,
            "not right now",
            boots(f"pci=disable_acs_redir={PORTS[1]}"),
            BOARD.but(PORTS[0], acs=REDIRECTS),
        ),
        at_boot("6.11-mistakes-masks", bad, "4 of 4", MASKED, **mistaken),
        at_boot("6.11-mistakes-lists", bad, "4 of 4", BY_IDS, **mistaken),
        Row("egress-now", check, NA, "not right now", {}, BOARD.but(PORTS[0], acs=0x20)),
        Row("guest", check, NA, "on a vm", {"cpu": GUEST_CPU}),
        Row("image", check, NA, "no bridges", {"boot-id": ABSENT}),
        Row("grace", check, PASS, "what the kernel sets", boots("quiet", **LOOSE_RDMA), GRACE),
        Row("host-of-guests", check, NA, "ACS stays on", {}, BOARD, HOST),
        Row("inline-host", check, FAIL, "1 of 4", boots("quiet", **LOOSE_RDMA), INLINE_HOST, HOST),
        Row(
            "inline-host-by-mask",
            check,
            PASS,
            "sets 1 bridges",
            boots(f"pci=config_acs=1x111x1@{TO_NIC}", **LOOSE_RDMA, **NEW_KERNEL),
            INLINE_HOST,
            HOST,
        ),
        Row(
            "data-direct-by-hand",
            check,
            FAIL,
            "3 of 5",
            boots("quiet", **LOOSE_RDMA),
            DATA_DIRECT,
        ),
        Row(
            "data-direct-as-rdma_topo-writes-it",
            check,
            PASS,
            "sets 3 bridges",
            boots(
                f'"pci=config_acs=xx111x0@{ROOT};xx110x1@{TO_NIC};xx101x1@{TO_GPU}"',
                **LOOSE_RDMA,
                **NEW_KERNEL,
            ),
            DATA_DIRECT,
        ),
        Row("inline-by-hand", check, FAIL, "4 of 4", boots("quiet", **LOOSE_RDMA), INLINE),
        Row(
            "inline-cleared-of-redirects-alone",
            check,
            FAIL,
            "4 of 4",
            boots("pci=disable_acs_redir=pci:0:0", **LOOSE_RDMA),
            INLINE,
        ),
        Row("no-common-switch", check, NA, "no GPU shares", {}, BOARD.without(*HCAS[:2])),
        Row("inline", check, PASS, "setpci at boot", LOOSE_RDMA, INLINE),
        Row(
            "units-not-read", check, UNKNOWN, "not part of", boots("quiet") | {"acs-units": MISSING}
        ),
        Row("menu-not-read", check, UNKNOWN, "no entry that boots", {"boot-entries": ""}),
    ]


def _unable(board: Board) -> Board:
    return Board(tuple(replace(each, acs_able=0x01) for each in board.functions))


ROWS = persistence()


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_acs_at_the_next_boot(row: Row) -> None:
    holds(row)
