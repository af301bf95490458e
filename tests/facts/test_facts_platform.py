"""Platforms, ACS arguments as the kernel reads them, and what the kernel logs of an IOMMU."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, BRIDGE, HCAS, PORTS, Board, Fn, od, space
from tests.evidence.platforms import ALTRA, DATA_DIRECT, GRACE, INLINE, INLINE_HOST, VERA
from toolkit.errors import Unparsable
from toolkit.facts.boot.acs_boot import (
    AcsArguments,
    AtBoot,
    matches,
    parse_acs_arguments,
    parse_acs_units,
)
from toolkit.facts.boot.cmdline import parse_grub_default
from toolkit.facts.pci.acs import Demand, config_acs, demands, names_of
from toolkit.facts.pci.config_space import Acs, AcsRegisters, Ats, ConfigSpace
from toolkit.facts.pci.functions import PciTree, parse_pci
from toolkit.facts.pci.iommu import IommuSaid, parse_groups, parse_iommu_log
from toolkit.facts.pci.platform import Platform, classify, refusing_chipset

ABLE = Acs(0x5F)
SV, RR, CR, UF, DT = (
    Acs.SOURCE_VALIDATION,
    Acs.REQUEST_REDIRECT,
    Acs.COMPLETION_REDIRECT,
    Acs.UPSTREAM_FORWARDING,
    Acs.DIRECT_TRANSLATED,
)


def tree(board: Board) -> PciTree:
    frames = board.frames()
    return parse_pci(*(frames[key] for key in ("pci", "pci-links", "pci-resources", "pci-config")))


# --- platforms ---


@pytest.mark.parametrize(
    ("board", "platform"),
    [
        pytest.param(BOARD, Platform.SWITCHED, id="hgx"),
        pytest.param(BOARD.without(*HCAS[:2]), Platform.ROOT_PORTS, id="hcas-far-away"),
        pytest.param(ALTRA, Platform.ROOT_PORTS, id="altra"),
        pytest.param(INLINE, Platform.INLINE, id="connectx-8-before-the-gpu"),
        pytest.param(INLINE_HOST, Platform.INLINE, id="with-guests"),
        pytest.param(DATA_DIRECT, Platform.DATA_DIRECT, id="gb300"),
        pytest.param(GRACE, Platform.COHERENT, id="gh200"),
        pytest.param(VERA, Platform.COHERENT, id="vera"),
        pytest.param(
            INLINE.but("0000:20:00.0", ids=(0x10DE, 0x22B1)),
            Platform.INLINE,
            id="a-switch-below-a-grace-port",
        ),
        pytest.param(
            INLINE.but("0000:21:00.0", ids=(0x15B3, 0x197B)),
            Platform.SWITCHED,
            id="a-bluefield-switch-is-not-in-the-table",
        ),
    ],
)
def test_boards_are_told_apart(board: Board, platform: Platform) -> None:
    assert classify(tree(board)) is platform


@pytest.mark.parametrize(
    ("board", "chipset"),
    [
        pytest.param(BOARD, "", id="xeon"),
        pytest.param(GRACE, "Grace", id="grace"),
        pytest.param(VERA, "", id="vera-is-not-refused"),
        pytest.param(ALTRA, "Ampere Altra", id="altra"),
        *(
            pytest.param(
                Board((Fn("0000:01:00.0", "pci0000:01", (0x1DEF, device), BRIDGE),)),
                chipset,
                id=f"ampere-{device:x}",
            )
            for devices, chipset in (
                ((0xE000, 0xE00D, 0xE00E, 0xE010, 0xE100, 0xE110), "Ampere Altra"),
                ((0xE200, 0xE207), "AmpereOne"),
                ((0xDFFF, 0xE1FF, 0xE208), ""),  # the last is AmpereOne with 192 cores
            )
            for device in devices
        ),
    ],
)
def test_chipsets_without_peer_to_peer_are_told_by_their_root_ports(
    board: Board, chipset: str
) -> None:
    assert refusing_chipset(tree(board)) == chipset


# --- the table ---


def test_a_mask_is_read_from_its_end() -> None:
    port = tree(INLINE).functions["0000:22:00.0"]
    demand = Demand(port, "1x110x1", "")
    assert (demand.on, demand.off) == (DT | UF | CR | SV, RR)
    assert demand.trouble(AcsRegisters(ABLE, DT | UF | CR | SV)) == ""
    assert demand.trouble(AcsRegisters(ABLE, UF | CR | SV | RR)) == "DirectTrans off, ReqRedir on"
    assert demand.trouble(None) == "no ACS capability"
    assert Demand(port, "xx000x0", "").trouble(None) == ""


def test_the_argument_names_what_differs_from_the_kernels_default_alone() -> None:
    wanted = demands(tree(DATA_DIRECT), Platform.DATA_DIRECT, virtualised=False)
    assert config_acs(wanted) == (
        "pci=config_acs=xx111x0@0000:20:00.0;xx110x1@0000:22:00.0;xx101x1@0000:22:01.0"
    )
    assert config_acs(demands(tree(VERA), Platform.COHERENT, virtualised=False)) == ""
    assert demands(tree(BOARD), Platform.SWITCHED, virtualised=False) == ()


# --- arguments ---


@pytest.mark.parametrize(
    ("device", "hits"),
    [
        pytest.param("17:00.0", True, id="address"),
        pytest.param("0000:17:00.0", True, id="with-domain"),
        pytest.param("0:17:0.0", True, id="without-zeroes"),
        pytest.param("0001:17:00.0", False, id="other-domain"),
        pytest.param("17:01.0", False, id="its-neighbour"),
        pytest.param("pci:1000:c030", True, id="ids"),
        pytest.param("pci:1000:0", True, id="any-device"),
        pytest.param("pci:0:0", True, id="anything"),
        pytest.param("pci:8086:c030", False, id="other-vendor"),
        pytest.param("PCI:1000:C030", True, id="in-capitals"),
        pytest.param("pci:1000:c030:0:0", True, id="any-subsystem"),
        pytest.param("15:01.0/00.0/00.0", True, id="path"),
        pytest.param("0000:16:00.0/00.0", True, id="path-from-the-switch"),
        pytest.param("15:01.0/00.0/01.0", False, id="path-to-its-neighbour"),
        pytest.param("15:01.0/00.0", False, id="path-to-what-is-above"),
        pytest.param("", False, id="nothing"),
        pytest.param("17:00", False, id="cut-short"),
        pytest.param("all", False, id="a-word"),
    ],
)
def test_devices_are_named_as_the_kernel_names_them(device: str, hits: bool) -> None:
    known = tree(BOARD)
    assert matches(known, known.functions[PORTS[0]], device) is hits


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        pytest.param((), AcsArguments(), id="none"),
        pytest.param(("realloc", "nommconf"), AcsArguments(), id="others"),
        pytest.param(
            ("disable_acs_redir=17:00.0;17:01.0",), AcsArguments(("17:00.0", "17:01.0")), id="two"
        ),
        pytest.param(
            ("realloc,disable_acs_redir=17:00.0,noaer",), AcsArguments(("17:00.0",)), id="among"
        ),
        pytest.param(
            ("disable_acs_redir=17:00.0", "disable_acs_redir=99:00.0"),
            AcsArguments(("99:00.0",)),
            id="the-last-counts",
        ),
        pytest.param(
            ("config_acs=10x@pci:0:0; xx000x0@17:00.0",),
            AcsArguments((), (("10x", "pci:0:0"), ("xx000x0", "17:00.0"))),
            id="masks",
        ),
        pytest.param(("config_acs=pci:0:0",), AcsArguments(), id="mask-forgotten"),
        pytest.param(("disable_acs_redir=",), AcsArguments(), id="nothing-named"),
        pytest.param(('disable_acs_redir="17:00.0"',), AcsArguments(("17:00.0",)), id="quoted"),
    ],
)
def test_arguments(values: tuple[str, ...], arguments: AcsArguments) -> None:
    assert parse_acs_arguments(values) == arguments


@pytest.mark.parametrize(
    ("arguments", "able", "control"),
    [
        pytest.param(AcsArguments(), ABLE, SV | RR | CR | UF, id="kernel's-own"),
        pytest.param(AcsArguments(), SV, SV, id="no-more-than-it-can"),
        pytest.param(AcsArguments(("17:00.0",)), ABLE, SV | UF, id="redirects-off"),
        pytest.param(AcsArguments((), (("xx000x0", "17:00.0"),)), ABLE, Acs(0), id="all-off"),
        pytest.param(
            AcsArguments((), (("1xxxxxx", "17:00.0"),)), ABLE, DT | SV | RR | CR | UF, id="one-more"
        ),
        pytest.param(AcsArguments((), (("0", "17:00.0"),)), ABLE, RR | CR | UF, id="short-mask"),
        pytest.param(
            AcsArguments((), (("0xx", "pci:0:0"), ("xx000x0", "17:00.0"))),
            ABLE,
            SV | CR | UF,
            id="the-first-that-names-it",
        ),
    ],
)
def test_what_a_boot_makes_of_a_bridge(arguments: AcsArguments, able: Acs, control: Acs) -> None:
    known = tree(BOARD)
    assert arguments.at_boot(known, known.functions[PORTS[0]], able) == control


def test_units_of_an_unknown_shape_are_refused() -> None:
    assert parse_acs_units("") == ()
    assert parse_acs_units("a.service enabled /x y\n") == (AtBoot("a.service", True, "/x y"),)
    with pytest.raises(Unparsable, match=r"line 2: 'b\.service maybe /x'"):
        parse_acs_units("a.service enabled /x\nb.service maybe /x\n")


# --- registers ---


def test_capability_and_control_are_told_apart() -> None:
    port = replace(BOARD.functions[2], acs=0x01, acs_able=0x1D, ats=True)
    read = ConfigSpace.parse("0000:17:00.0", od(space(port)).split("\n")[:-1])
    assert read.acs_registers() == AcsRegisters(SV | RR | CR | UF, SV)
    assert read.ats() == Ats(enabled=True)
    assert names_of(SV | RR) == "SrcValid ReqRedir"


# --- the kernel log ---


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(
            "[    5.261710] iommu: Default domain type: Passthrough (set via kernel command line)",
            IommuSaid(passthrough=True, by_argument=True),
            id="passthrough",
        ),
        pytest.param(
            "<6>[    5.2] iommu: Default domain type: Passthrough (set by kernel command line)",
            IommuSaid(passthrough=True, by_argument=True),
            id="older-words",
        ),
        pytest.param(
            "kern  :info  : 2025-02-10T16:28:06,5 iommu: Default domain type: Translated",
            IommuSaid(passthrough=False),
            id="translated",
        ),
        pytest.param("[    0.2] DMAR: IOMMU enabled", IommuSaid(enabled=True), id="intel_iommu=on"),
        pytest.param(
            "6,3,2279,-;Kernel command line: ro iommu=pt",
            IommuSaid(cmdline="ro iommu=pt"),
            id="arguments",
        ),
        pytest.param(
            "[ 0.5] DMAR-IR: IOAPIC id 3 under DRHD base 0x1 IOMMU 0", IommuSaid(), id="ir"
        ),
        pytest.param("[ 0.0] ACPI: DMAR 0x000000007C9F6300 0000E0", IommuSaid(), id="table"),
    ],
)
def test_what_the_kernel_logs_of_an_iommu(line: str, said: IommuSaid) -> None:
    assert parse_iommu_log(["[    0.0] Linux version 6.8.0", line]) == said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n', ("quiet", "iommu=pt"), id="x"
        ),
        pytest.param(
            'GRUB_CMDLINE_LINUX="a"\nGRUB_CMDLINE_LINUX_DEFAULT="b"\n', ("a", "b"), id="both"
        ),
        pytest.param("# GRUB_CMDLINE_LINUX=iommu=pt\nGRUB_TIMEOUT=0\n", (), id="neither"),
        pytest.param('GRUB_CMDLINE_LINUX="a"\nGRUB_CMDLINE_LINUX="b"\n', ("b",), id="last"),
    ],
)
def test_grubs_settings(text: str, words: tuple[str, ...]) -> None:
    assert parse_grub_default(text).words == words


def test_each_type_of_an_iommu_group_is_known() -> None:
    words = ("identity", "DMA", "DMA-FQ", "blocked", "unmanaged", "auto", "unknown")
    text = "".join(f"{number}/type:{word}\n" for number, word in enumerate(words))
    assert tuple(parse_groups(text).values()) == words
    assert [each.value for each in parse_groups(text).values() if each.translated] == [
        *("DMA", "DMA-FQ")
    ]
