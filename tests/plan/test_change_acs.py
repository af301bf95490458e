"""What we do about ACS on which node: the argument, the unit, or nothing."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, BRIDGE, GPUS, PORTS, REDIRECTS, Board, Fn
from tests.evidence.build import GUEST_CPU
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_boot import grub
from tests.evidence.platforms import DATA_DIRECT, GRACE, INLINE, INLINE_HOST, ROOT, TO_GPU
from tests.plan.bridging import (
    BARE,
    BY_LIST,
    CONFIG,
    LOOSE,
    NEW,
    ODD,
    OLD,
    PATHS,
    REDIRECTED,
    made,
    runs,
)
from tests.unit.planning import placed
from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.boot.acs_boot import device_path, matches
from toolkit.plan.acs import UNIT, acs_arguments, acs_demands, acs_unit
from toolkit.want import Role, Waiver, Want


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        pytest.param(OLD, (BY_LIST,), id="6.1"),
        pytest.param(NEW, (f"pci=config_acs={CONFIG}",), id="6.12"),
        pytest.param(ODD, (), id="6.11-mistakes-both"),
    ],
)
def test_the_next_kernel_says_which_argument(kernel: str, words: tuple[str, ...]) -> None:
    assert acs_arguments(made(runs(kernel)), BARE) == words


def test_it_is_the_kernel_of_the_next_boot_that_counts() -> None:
    changed = runs(OLD) | {"boot-entries": grub("ro", kernels=(ODD,))}
    assert acs_arguments(made(changed), BARE) == ()
    assert acs_unit(made(changed), BARE) is not None


def test_without_an_iommu_what_firmware_left_is_left_but_for_redirects() -> None:
    off: dict[str, Override] = {"iommu-units": "", "iommu-groups": ""}
    (word,) = acs_arguments(made(runs(NEW, "intel_iommu=off", **off)), BARE)
    assert word.startswith("pci=config_acs=x0x00xx@0000:15:01.0")


def test_bridges_off_the_path_are_not_named() -> None:
    beside = Fn("0000:17:02.0", "0000:16:00.0", (0x1000, 0xC030), BRIDGE, acs=REDIRECTS)
    board = REDIRECTED.plus(beside)
    assert tuple(each.bridge.address for each in acs_demands(made({}, board), BARE)) == PORTS
    assert BY_LIST in acs_arguments(made(runs(OLD), board), BARE)


def test_a_bridge_that_cannot_redirect_is_not_named() -> None:
    board = REDIRECTED.but(PORTS[0], acs=0x01, acs_able=0x01).but(PORTS[1], acs=None)
    assert tuple(e.bridge.address for e in acs_demands(made({}, board), BARE)) == PORTS[2:]


@pytest.mark.parametrize(
    ("changed", "board", "want"),
    [
        pytest.param({}, REDIRECTED, Want(role=Role.VM_HOST), id="host-of-guests"),
        pytest.param({"cpu": GUEST_CPU}, REDIRECTED, Want(), id="guest"),
        pytest.param(
            {}, REDIRECTED.but(GPUS[0], driver="vfio-pci"), Want(), id="perhaps-a-host-of-guests"
        ),
        pytest.param({}, INLINE_HOST, Want(), id="inline-host-of-guests"),
        pytest.param(LOOSE, GRACE, BARE, id="the-kernel-is-right-on-grace"),
        pytest.param({"boot-id": ABSENT}, REDIRECTED, BARE, id="image"),
    ],
)
def test_others_are_left_alone(changed: dict[str, Override], board: Board, want: Want) -> None:
    for kernel in (OLD, NEW, ODD):
        here = made(runs(kernel) | changed, board)
        assert acs_demands(here, want) == ()
        assert acs_arguments(here, want) == ()
        assert acs_unit(here, want) is None


def test_a_node_that_is_right_is_left_alone() -> None:
    by_unit: dict[str, Override] = {
        "acs-units": "acs-off.service enabled /usr/local/sbin/acs-off\n"
    }
    assert acs_arguments(made(runs(OLD) | by_unit, BOARD), BARE) == ()
    assert acs_arguments(made(runs(OLD), BOARD), BARE) == (BY_LIST,)  # by hand: gone at the boot


def test_a_site_that_lives_with_it_is_left_alone() -> None:
    waiver = Waiver("acs.redirect", "the vendor said so", date(2099, 1, 1))
    assert acs_arguments(made(runs(OLD)), replace(BARE, waivers=(waiver,))) == ()


def test_what_is_ours_stays_once_it_works() -> None:
    path = "/etc/default/grub.d/zz-gdr-toolkit.cfg"
    ours = placed({path: f'GRUB_CMDLINE_LINUX="\\"{BY_LIST}\\""\n'})
    works = runs(OLD, f'ro "{BY_LIST}"') | ours | {"cmdline": f"ro {BY_LIST}\n"}
    assert acs_arguments(made(works, BOARD), BARE) == (BY_LIST,)


@pytest.mark.parametrize(
    "theirs",
    ["pci=disable_acs_redir=0000:97:01.0/00.0/00.0", "pci=nocrs,config_acs=xx000x0@pci:1000:c030"],
)
def test_a_list_of_somebody_elses_is_said_not_overridden(theirs: str) -> None:
    here = made(runs(OLD, f"ro {theirs}"))
    assert acs_arguments(here, BARE) == ()
    with pytest.raises(Unsupported, match="which is not ours; of two such lists the last counts"):
        acs_unit(here, BARE)


def test_other_words_of_pci_are_no_conflict() -> None:
    assert acs_arguments(made(runs(OLD, "ro pci=nocrs,realloc pci=noaer")), BARE) == (BY_LIST,)


def test_an_inline_board_needs_every_bit_and_so_config_acs() -> None:
    wrong = INLINE.but(TO_GPU, acs=0x1D)
    (word,) = acs_arguments(made(runs(NEW) | LOOSE, wrong), BARE)
    assert word.startswith(f"pci=config_acs=xx000x0@{ROOT};xx000x0@0000:20:00.0/00.0/00.0;")
    with pytest.raises(Unsupported, match="IOMMU groups, which inline needs otherwise"):
        acs_unit(made(runs(OLD) | LOOSE, wrong), BARE)


def test_a_data_direct_board_has_the_masks_of_the_table() -> None:
    wrong = DATA_DIRECT.but(TO_GPU, acs=0x1D)
    (word,) = acs_arguments(made(runs(NEW) | LOOSE, wrong), BARE)
    assert "xx111x0@0000:20:00.0;xx110x1@0000:20:00.0/00.0/00.0;xx101x1@" in word


def test_the_unit_names_what_the_argument_would() -> None:
    values = acs_unit(made(runs(ODD)), BARE)
    assert values == {"bridges": " ".join(PATHS), "clear": "002c"}
    assert acs_unit(made(runs(OLD)), BARE) is None


def test_a_unit_in_place_stays_when_a_kernel_comes_that_needs_none() -> None:
    assert acs_unit(made(runs(NEW) | placed({UNIT: "[Unit]\n"})), BARE) is not None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"lockdown": "none [integrity] confidentiality\n"}, r"lockdown \(integrity\) refuses"),
        ({"setpci": ABSENT}, "setpci is not on the node"),
    ],
)
def test_a_unit_that_cannot_write_is_not_planned(changed: dict[str, Override], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        acs_unit(made(runs(ODD) | changed), BARE)


def test_a_list_too_long_for_the_kernel_goes_to_the_unit() -> None:
    crowded = made(runs(OLD, f"ro quiet dummy={'x' * 1950}"))
    assert acs_arguments(crowded, BARE) == ()
    assert acs_unit(crowded, BARE) is not None


def test_what_was_not_read_is_not_guessed() -> None:
    ours = placed({"/etc/default/grub.d/zz-gdr-toolkit.cfg": f"{BY_LIST}\n"})
    for key in ("pci-config", "boot-entries"):
        changed = runs(OLD) | {key: DENIED}
        assert acs_arguments(made(changed), BARE) == ()  # so that others need not wait for it
        with pytest.raises(NoEvidence):
            acs_unit(made(changed), BARE)
        with pytest.raises(NoEvidence):  # or a word of ours would be lost
            acs_arguments(made(changed | ours), BARE)


def test_a_path_leads_back_to_its_bridge_alone() -> None:
    tree = made({}).pci
    for each in tree.functions.values():
        path = device_path(each)
        assert [f.address for f in tree.functions.values() if matches(tree, f, path)] == [
            each.address
        ]


def test_behind_vmd_a_path_begins_at_its_own_root_bus() -> None:
    inner = made({}).pci.functions[PORTS[0]]
    parents = ("pci0000:64", "0000:64:00.5", "pci10000:00", "10000:00:02.0")
    assert device_path(replace(inner, address="10000:01:00.0", parents=parents)) == (
        "10000:00:02.0/00.0"
    )
