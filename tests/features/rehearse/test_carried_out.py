"""What a rehearsal foretells of an upgrade is what provision by the same words then does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.build import DRIVER, KERNEL, UPDATES, kernel_block, modinfo, node, rdma_core
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from tests.features.rehearse.kinds import KINDS, TODAY, WANT, captured, newer, read, statuses
from tests.unit.planning import placed, rocky
from toolkit.checks.selection import selection
from toolkit.compat.reader import shipped
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.features.rehearse.plan import rehearse_node
from toolkit.features.rehearse.plan_evidence import as_if
from toolkit.node.deliver import rollback_script
from toolkit.node.scripts import assembled
from toolkit.plan.artefact import Trigger
from toolkit.plan.artefacts_boot import HELD
from toolkit.plan.bundle import script
from toolkit.plan.plan import Plan
from toolkit.plan.upgrade_packages import installing, packages_asked
from toolkit.upgrade import Upgrade
from toolkit.verbs.plan import Planned, plan_node

BOOT = '"$GDR_BIN/boot"\n'
UBUNTU = "6.8.0-90-generic"
OFFERED = f"linux-image-{UBUNTU} 6.8.0-90.91\nlinux-headers-{UBUNTU} 6.8.0-90.91\n"


def asked(place: Path, evidence: Evidence, upgrade: Upgrade) -> Evidence:
    """With what the node's own repositories have."""
    call = " ".join(("offered", *map(shlex.quote, packages_asked(evidence, upgrade))))
    return evidence.plus(read(place, assembled(("frames.sh", "offered.sh"), call)).frames.values())


def offering(text: str, changed: Mapping[str, Override] | None = None) -> Evidence:
    return node(changed or {}).plus([Frame("packages", State.OK, "apt-cache madison", text)])


def planned(evidence: Evidence, upgrade: Upgrade, *, untried: bool = False) -> Planned:
    """What provision would do, where the site lets it install packages."""
    want = replace(WANT, packages=True, upgrade=upgrade)
    return plan_node("n", evidence, want, TODAY, untried=untried)


def tried(place: Path, upgrade: Upgrade, what: str) -> Node:
    """In the boot that tries it, whose entry is gone from the menu again."""
    found = planned(read(place), upgrade)
    assert found.plan.trial is not None
    assert found.plan.trial.told == what
    assert found.trial is not None
    read(place, script(found.trial))
    read(place, BOOT)
    read(place, rollback_script("last", 60))
    now = Node(read(place))
    assert now.trial == found.plan.trial.id
    return now


def kept(place: Path, upgrade: Upgrade) -> Node:
    """What was tried is the default now."""
    found = planned(read(place), upgrade)
    assert Trigger.REBOOT not in found.plan.triggers
    assert found.bundle is not None
    read(place, script(found.bundle))
    return Node(read(place))


def test_of_three_hundred_nodes_each_is_planned_for_as_it_was_foretold(tmp_path: Path) -> None:
    upgrade, kinds = Upgrade(kernel=UBUNTU), {}
    for kind, recipe in KINDS.items():
        place = tmp_path / kind
        kinds[kind] = asked(place, captured(recipe, place), upgrade)
    told = {kind: rehearse_node(kind, each, WANT, upgrade, TODAY) for kind, each in kinds.items()}
    whole = {kind: planned(each, upgrade).plan for kind, each in kinds.items()}
    # Arguments that wait are tried by a boot of their own, before that of the kernel.
    waits = {kind: planned(each, Upgrade()).plan.trial is not None for kind, each in kinds.items()}
    assert {*waits.values()} == {False, True}
    for number in range(300):
        kind = [*kinds][number % 4]
        name = f"n{number:03d}"
        mine = Evidence.parse(kinds[kind].dump().replace(f"|{kind}", f"|{name}"))
        acts, blocked = installing(mine, upgrade, allowed=True)
        # Before and after them provision keeps the default of the boot as it is.
        planned_for = [each.command for each in whole[kind].acts[: len(acts)]]
        assert [each.command for each in acts] == planned_for or blocked, name
        # It is installed on all those of which something is known, and on no other.
        assert bool(acts) is not bool(told[kind].unclear), name
        [foretold] = told[kind].packages
        names = [pin.partition("=")[0] for act in acts for pin in act.command[1:]]
        assert names == (foretold.split(" and ") if acts else []), name
        assert told[kind].boots == 1 + waits[kind], name


@pytest.mark.parametrize(
    ("kind", "lacks", "mended"),
    [
        pytest.param("demo-healthy", (), set(), id="apt"),
        pytest.param("demo-rocky", ("iommu=pt",), {"iommu.boot", "iommu.passthrough"}, id="dnf"),
    ],
)
def test_a_node_that_was_upgraded_is_as_it_was_foretold_and_can_go_back(
    kind: str, lacks: tuple[str, ...], mended: set[str], tmp_path: Path
) -> None:
    place = tmp_path / kind
    before = captured(KINDS[kind], place)
    upgrade = Upgrade(kernel=newer(KINDS[kind]))
    first = planned(asked(place, before, upgrade), upgrade)
    assert first.plan.triggers[0] == Trigger.INSTALL_PACKAGES
    assert not first.plan.needs_reboot
    assert first.bundle is not None
    read(place, script(first.bundle))
    second = planned(read(place), upgrade)
    assert (second.bundle, second.plan.needs_reboot) == (None, True)
    read(place, rollback_script("last", 60))
    gone = Node(read(place))
    assert {each.release for each in gone.kernels} == set(KINDS[kind].kernels)
    assert gone.default_kernel == Node(before).kernel
    read(place, script(first.bundle))
    for words in lacks:  # by itself, before a kernel that has it
        tried(place, upgrade, words)
        kept(place, upgrade)
    new = tried(place, upgrade, f"kernel {upgrade.kernel}")
    # The next power cycle boots what ran before.
    assert (new.kernel, new.default_kernel) == (upgrade.kernel, Node(before).kernel)
    assert kept(place, upgrade).default_kernel == upgrade.kernel
    read(place, BOOT)
    found = read(place)
    assert Node(found).kernel == upgrade.kernel
    now, foretold = statuses(found), statuses(as_if(before, upgrade, shipped()))
    assert {check for check in foretold if now[check] != foretold[check]} == mended
    assert not planned(found, upgrade).pending
    told = read(place, rollback_script("all", 60))
    assert any("runs: boot the one before it" in each.text for each in told.frames.values())
    assert Node(read(place)).default_kernel == Node(before).kernel
    read(place, BOOT + rollback_script("all", 60))
    last = Node(read(place))
    assert {each.release for each in last.kernels} == set(KINDS[kind].kernels)
    assert (last.kernel, last.owned) == (Node(before).kernel, frozenset())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"grub-abstraction": "lvm\n"}, "the loader cannot boot once", id="lvm"),
        pytest.param({"boot-entries": ABSENT}, "boot-entries", id="not-read"),
    ],
)
def test_a_kernel_that_cannot_be_tried_is_not_installed_unless_it_is_said(
    changed: Mapping[str, Override], said: str
) -> None:
    kernel = KERNEL.replace("170", "190")
    offered = f"linux-image-{kernel} 1\nlinux-headers-{kernel} 1\n"
    evidence, upgrade = offering(offered, changed), Upgrade(kernel=kernel)
    plan = planned(evidence, upgrade).plan
    assert not plan.installs
    assert said in plan.blocked[-1].reason
    bold = planned(evidence, upgrade, untried=True).plan
    assert bold.installs
    assert not bold.changes


def test_an_ofed_that_was_installed_owes_the_boot_that_loads_it() -> None:
    release: dict[str, Override] = {
        "rdma-modinfo": rdma_core(version="26.04-1.0.0", suffix="2"),
        "ofed-info": "OFED-internal-26.04-1.0.0:\n",
    }
    ofed = Upgrade(ofed="26.04-1.0.0")
    assert Trigger.REBOOT in planned(node(release), ofed).plan.triggers
    assert planned(node(), Upgrade(ofed="25.10-1.7.1")).plan.empty


def test_a_driver_that_was_installed_owes_the_boot_that_loads_it() -> None:
    module = modinfo(f"{UPDATES}/nvidia.ko", depends="", version="595.58.03")
    evidence = node({"nvidia-modinfo": module})
    for kernel in ("", KERNEL):
        upgrade = Upgrade(kernel=kernel, driver="595.58")
        assert planned(evidence, upgrade).plan.triggers == (Trigger.REBOOT,)
    assert planned(evidence, Upgrade()).plan.empty
    assert planned(node(), Upgrade(driver=DRIVER)).plan.empty
    known = node().text("dkms-status") + "nvidia/595.58.03: added\n"
    assert planned(node({"dkms-status": known}), Upgrade(driver="595.58")).plan.empty


NEW, OTHER = (KERNEL.replace("170", each) for each in ("190", "180"))


def holding() -> dict[str, Override]:
    """Of three kernels the first is the default, until NEW has booted."""
    offered = offering(f"linux-image-{NEW} 1\nlinux-headers-{NEW} 1\n")
    [held] = planned(offered, Upgrade(kernel=NEW)).plan.changes
    kernels = (NEW, OTHER, KERNEL)
    menu = grub(kernels=kernels).replace('"0"', f'"{held.text.split(chr(39))[-2]}"')
    blocks = "".join(map(kernel_block, kernels))
    return placed({HELD: held.text}) | {"boot-entries": menu, "kernels": blocks}


def test_a_kernel_that_was_given_up_is_not_tried_again() -> None:
    """Its default is held, and nothing takes that away."""
    upgrade, there = Upgrade(kernel=NEW), holding()
    first = planned(node(there), upgrade).plan
    assert first.trial is not None
    tried = {"boot-trials": f"{first.trial.id} given-up 2026-11-27T08:00:00Z it came back\n"}
    again = planned(node(there | tried), upgrade).plan
    assert (again.trial, again.empty) == (None, True)
    assert f"kernel {NEW} was tried at 2026" in again.blocked[-1].reason
    assert planned(node(there), Upgrade()).plan.empty


def on_rhel() -> dict[str, Override]:
    """Of two kernels there the old one is the default."""
    old = rocky("root=UUID=1 ro quiet iommu=pt")
    blocks = kernel_block(KERNEL) + kernel_block(NEW)
    entries = str(old["boot-entries"])
    return old | {"kernels": blocks, "boot-entries": entries.replace(KERNEL, NEW) + entries}


OF_EITHER_FAMILY = pytest.mark.parametrize(
    ("there", "suffix"),
    [
        pytest.param(holding(), "-generic", id="held"),
        pytest.param(on_rhel(), ".el9.x86_64", id="grubby"),
    ],
)


@OF_EITHER_FAMILY
def test_a_kernel_that_was_given_up_and_runs_still_is_not_kept(
    there: dict[str, Override], suffix: str
) -> None:
    """A job began in the boot that tried it, so that nobody could go back."""

    def plan(*, runs: str, upgrade: Upgrade) -> Plan:
        text = node(there | {"kernel-release": f"{runs}\n"}).dump().replace("-generic", suffix)
        return planned(Evidence.parse(text), upgrade).plan

    asked = Upgrade(kernel=NEW.replace("-generic", suffix))
    first = plan(runs=KERNEL, upgrade=asked)
    assert first.trial is not None
    there = there | {"cmdline": f"root=UUID=1 ro quiet iommu=pt {first.trial.mark}\n"}
    assert Trigger.UPDATE_BOOTLOADER in plan(runs=NEW, upgrade=asked).triggers
    there |= {"boot-trials": f"{first.trial.id} given-up 2026-11-27T08:00:00Z ports were down\n"}
    for upgrade in (asked, Upgrade()):
        found = plan(runs=NEW, upgrade=upgrade)
        assert Trigger.UPDATE_BOOTLOADER not in found.triggers
        assert any("given up" in each.reason for each in found.blocked) is bool(upgrade.kernel)


@OF_EITHER_FAMILY
def test_a_kernel_that_waits_for_its_trial_becomes_the_default_where_none_is_wanted(
    there: dict[str, Override], suffix: str
) -> None:
    evidence = Evidence.parse(node(there).dump().replace("-generic", suffix))
    plan = planned(evidence, Upgrade(kernel=NEW.replace("-generic", suffix)), untried=True).plan
    assert (plan.trial, Trigger.UPDATE_BOOTLOADER in plan.triggers) == (None, True)


def test_grubby_holds_the_default_from_before_the_install() -> None:
    kernel = NEW.replace("-generic", ".el9.x86_64")
    there = on_rhel() | {"kernels": kernel_block(KERNEL)}
    offered = [Frame("packages", State.OK, "dnf", f"kernel {kernel}\nkernel-devel {kernel}\n")]
    text = node(there).dump().replace("-generic", ".el9.x86_64")
    evidence = Evidence.parse(text).plus(offered)
    [act] = planned(evidence, Upgrade(kernel=kernel)).plan.acts
    assert act.command[1].startswith("--stays=/boot/vmlinuz-")


def test_an_entry_by_an_odd_name_is_said_to_be_so() -> None:
    menu = grub().replace(f"gnulinux-{KERNEL}-advanced-1", f"gnulinux-{KERNEL} (of ours)")
    offered = offering(f"linux-image-{NEW} 1\nlinux-headers-{NEW} 1\n", {"boot-entries": menu})
    [found] = planned(offered, Upgrade(kernel=NEW)).plan.blocked
    assert "the odd name" in found.reason
    assert "bug report" not in found.hint


SINGLE = (
    "grub/grub.cfg:menuentry 'Single, {0}' {{\ngrub/grub.cfg:\tlinux /boot/vmlinuz-{0} single\n"
)


@pytest.mark.parametrize(
    ("menu", "held"),
    [
        pytest.param(grub() + SINGLE.format(KERNEL), [f"gnulinux-{KERNEL}-advanced-1"], id="two"),
        pytest.param(grub().partition("grub/grub.cfg:submenu")[0], [], id="the-newest's-alone"),
    ],
)
def test_the_default_is_held_at_an_entry_that_stays_that_kernels(
    menu: str, held: list[str]
) -> None:
    """Not at one that somebody wrote for something else, nor by a name that the new one takes."""
    offered = offering(f"linux-image-{NEW} 1\nlinux-headers-{NEW} 1\n", {"boot-entries": menu})
    plan = planned(offered, Upgrade(kernel=NEW)).plan
    assert [re.split("[>']", each.text)[-2] for each in plan.changes] == held
    assert bool(plan.installs) is bool(held)


def test_what_holds_the_default_for_one_kernel_lets_no_other_become_it() -> None:
    """It would be tried, and the next boot would start the old one without a word."""
    plan = planned(node(holding()), Upgrade(kernel=OTHER)).plan
    assert plan.trial is None
    assert f"until {NEW} was tried" in plan.blocked[-1].hint


def test_nothing_is_held_for_a_kernel_that_is_gone() -> None:
    """The newest of those that come after it would never be booted."""
    left = holding() | {"kernels": kernel_block(OTHER) + kernel_block(KERNEL)}
    assert [each.path for each in planned(node(left), Upgrade()).plan.changes] == [HELD]


def test_a_kernel_that_runs_and_is_not_the_default_is_said_to_be_so() -> None:
    runs = holding() | {"kernel-release": f"{NEW}\n"}
    want = replace(WANT, upgrade=Upgrade(kernel=NEW), checks=selection("iommu", ""))
    whole = planned(node(runs), want.upgrade).plan
    assert HELD in {each.path for each in whole.changes}
    part = plan_node("n", node(runs), want, TODAY).plan  # no file but those of a check that is left
    assert f"{NEW} runs, and the next boot starts {KERNEL}" in part.blocked[-1].reason


@pytest.mark.parametrize(
    ("offered", "allowed", "said"),
    [
        pytest.param("", True, "no repository of the node has linux-image-", id="not-offered"),
        pytest.param(OFFERED, False, f"linux-image-{UBUNTU}=6.8.0-90.91", id="not-allowed"),
    ],
)
def test_packages_that_are_not_installed_are_named(offered: str, allowed: bool, said: str) -> None:
    acts, blocked = installing(offering(offered), Upgrade(kernel=UBUNTU), allowed=allowed)
    assert acts == ()
    assert said in blocked[0].reason


@pytest.mark.parametrize(
    ("upgrade", "offered", "pin"),
    [
        pytest.param(
            Upgrade(driver="595.58"),
            "nvidia-open 600.10-1\nnvidia-open 595.58.03-1\nnvidia-open 595.58.01-1\n",
            "nvidia-open=595.58.03-1",
            id="the-newest-of-that-driver",
        ),
        pytest.param(
            Upgrade(ofed="26.04-1.0.0"),
            "mlnx-ofed-kernel-dkms 26.04.OFED.26.04.1.1.0.1-1\n",
            "mlnx-ofed-kernel-dkms=26.04.OFED.26.04.1.1.0.1-1",
            id="a-month-of-ofed",
        ),
        pytest.param(Upgrade(driver="595.5"), "nvidia-open 595.58.03-1\n", "", id="no-prefix"),
        pytest.param(
            Upgrade(ofed="26.04-1.1.1"),
            "mlnx-ofed-kernel-dkms 26.04.OFED.26.04.1.1.0.1-1\n",
            "",
            id="another-release-of-that-month",
        ),
    ],
)
def test_a_package_is_pinned_to_the_version_that_was_named(
    upgrade: Upgrade, offered: str, pin: str
) -> None:
    acts, _ = installing(offering(offered), upgrade, allowed=True)
    assert [pin for act in acts for pin in act.command[1:]] == ([pin] if pin else [])
