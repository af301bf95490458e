"""What a rehearsal foretells of an upgrade is what provision by the same words then does."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evidence.build import node
from tests.features.rehearse.kinds import KINDS, TODAY, WANT, captured, newer, read, statuses
from toolkit.compat.reader import shipped
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.features.rehearse.plan import rehearse_node
from toolkit.features.rehearse.plan_evidence import as_if
from toolkit.node.deliver import rollback_script
from toolkit.node.scripts import assembled
from toolkit.plan.artefact import Trigger
from toolkit.plan.bundle import script
from toolkit.plan.upgrade_packages import installing, packages_asked
from toolkit.upgrade import Upgrade
from toolkit.verbs.plan import Planned, plan_node
from toolkit.want import Want

UBUNTU = "6.8.0-90-generic"
OFFERED = f"linux-image-{UBUNTU} 6.8.0-90.91\nlinux-headers-{UBUNTU} 6.8.0-90.91\n"


def asked(place: Path, evidence: Evidence, upgrade: Upgrade) -> Evidence:
    """With what the node's own repositories have."""
    call = " ".join(("offered", *map(shlex.quote, packages_asked(evidence, upgrade))))
    return evidence.plus(read(place, assembled(("frames.sh", "offered.sh"), call)).frames.values())


def offering(text: str) -> Evidence:
    return node().plus([Frame("packages", State.OK, "apt-cache madison", text)])


def planned(evidence: Evidence, upgrade: Upgrade, *, want: Want = WANT) -> Planned:
    """What provision would do, where the site lets it install packages."""
    return plan_node("n", evidence, replace(want, packages=True, upgrade=upgrade), TODAY)


def test_of_three_hundred_nodes_each_is_planned_for_as_it_was_foretold(tmp_path: Path) -> None:
    upgrade, kinds = Upgrade(kernel=UBUNTU), {}
    for kind, recipe in KINDS.items():
        place = tmp_path / kind
        kinds[kind] = asked(place, captured(recipe, place), upgrade)
    told = {kind: rehearse_node(kind, each, WANT, upgrade, TODAY) for kind, each in kinds.items()}
    whole = {kind: planned(each, upgrade).plan for kind, each in kinds.items()}
    for number in range(300):
        kind = [*kinds][number % 4]
        name = f"n{number:03d}"
        mine = Evidence.parse(kinds[kind].dump().replace(f"|{kind}", f"|{name}"))
        acts, blocked = installing(mine, upgrade, allowed=True)
        assert acts == whole[kind].acts or blocked, name
        # It is installed on all those of which something is known, and on no other.
        assert bool(acts) is not bool(told[kind].unclear), name
        [foretold] = told[kind].packages
        names = [pin.partition("=")[0] for act in acts for pin in act.command[1:]]
        assert names == (foretold.split(" and ") if acts else []), name
        assert told[kind].boots == 1, name


@pytest.mark.parametrize("kind", ["demo-healthy", "demo-rocky"])
def test_a_node_that_was_upgraded_is_as_it_was_foretold_and_can_go_back(
    kind: str, tmp_path: Path
) -> None:
    place = tmp_path / kind
    before = captured(KINDS[kind], place)
    upgrade = Upgrade(kernel=newer(KINDS[kind]))
    first = planned(asked(place, before, upgrade), upgrade)
    assert first.plan.triggers == (Trigger.INSTALL_PACKAGES,)
    assert first.bundle is not None
    read(place, script(first.bundle))
    second = planned(read(place), upgrade).plan
    assert not second.installs
    assert second.needs_reboot
    read(place, rollback_script("last", 60))
    assert {each.release for each in Node(read(place)).kernels} == set(KINDS[kind].kernels)
    read(place, script(first.bundle))
    read(place, '"$GDR_BIN/boot"\n')
    found = read(place)
    assert statuses(found) == statuses(as_if(before, upgrade, shipped()))
    assert Node(found).kernel == upgrade.kernel
    told = read(place, rollback_script("last", 60))
    assert any("runs: boot the one before it" in each.text for each in told.frames.values())


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
