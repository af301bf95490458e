"""A distribution is one row: what it has rules for is planned, the rest is blocked and told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.plan.bridging import BARE, ODD, REDIRECTED, runs
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    NO_HOOKS,
    NOT_LOADED,
    TRANSLATED,
    calls,
    carried_out,
    frames,
    plan_for,
)
from toolkit.checks.all import ALL
from toolkit.checks.modules.fixes import (
    headers_package,
    image_package,
    initramfs_again,
    menu_again,
)
from toolkit.facts import distros
from toolkit.facts.distros import FAMILIES, Family
from toolkit.facts.node.node import Node
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.plan import make_plan

OTHER = {"os-release": "ID=other\nVERSION_ID=1\n"}
ROW = Family(
    "other",
    frozenset({"other"}),
    ("mkinitfs", "{kernel}"),
    "/boot/initramfs-{kernel}",
    ("/lib/modules/{kernel}/updates",),
)


def add(patch: pytest.MonkeyPatch, row: Family) -> None:
    """What docs/contributing.md says under "A distribution"."""
    patch.setattr(distros, "FAMILIES", (*FAMILIES, row))


def test_a_new_row_plans_what_every_distribution_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, ROW)
    plan = plan_for(frames(NOT_LOADED, NO_AUTOLOAD, OTHER))
    assert plan.family == "other"
    assert [each.artefact for each in plan.changes] == ["modprobe.peermem", "modules-load.peermem"]
    assert not plan.blocked


def test_a_row_without_a_rule_is_blocked_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, ROW)
    plan = plan_for(frames(TRANSLATED, OTHER))
    assert plan.empty
    (found,) = plan.blocked
    assert found.artefact == "boot.arguments"
    assert found.reason == "no rule for other: boot with the kernel arguments that GPUDirect needs"
    assert "iommu=pt" in found.hint


def test_a_row_that_reads_drop_ins_has_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    menu = "/boot/grub/grub.cfg"
    command = ("grub-mkconfig", "-o", menu)
    add(monkeypatch, replace(ROW, bootloader=command, bootloader_files=(menu,)))
    assert calls(frames(TRANSLATED, OTHER)) == [f"UPDATE_BOOTLOADER {' '.join(command)}"]


def test_without_systemd_what_it_alone_reads_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, replace(ROW, systemd=False))
    plan = plan_for(frames(LITTLE_MEMLOCK, OTHER))
    assert [each.artefact for each in plan.changes] == ["limits.logins"]
    (found,) = plan.blocked
    assert found.artefact == "limits.services"
    assert found.reason == "no rule for other: let services lock memory"
    assert found.hint


def test_files_that_serve_one_end_together_are_blocked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(monkeypatch, replace(ROW, systemd=False))
    here = Node(node(runs(ODD) | OTHER, board=REDIRECTED))
    plan = make_plan(here, {each.id: each(here, BARE) for each in ALL}, BARE)
    ours = [each for each in plan.blocked if each.artefact.startswith("acs.")]
    assert [each.reason.partition(":")[0] for each in ours] == ["no rule for other"]
    assert not any(each.artefact.startswith("acs.") for each in plan.changes)


def test_dkms_of_any_distribution_calls_the_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, ROW)
    changed = frames(NO_HOOKS, OTHER)
    plan = plan_for(changed)
    assert [each.artefact for each in plan.changes] == ["rebuild.program", "rebuild.dkms"]
    second = plan_for(carried_out(changed, plan))
    assert second.empty
    assert not second.blocked


def test_without_hooks_for_its_packages_the_rebuild_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(monkeypatch, ROW)
    plan = plan_for(frames(NO_HOOKS, OTHER, {"dkms-version": "dkms-3.0.10\n"}))
    assert plan.empty
    (found,) = plan.blocked
    assert found.artefact == "rebuild.program"
    assert "no hooks of ours are known for its packages" in found.reason
    assert "DKMS 3.2 needs none" in found.hint


def test_hints_name_what_the_row_says(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, replace(ROW, headers="other-headers={version}"))
    here = Node(node(OTHER))
    assert "update-grub or" in menu_again(here, "grubby")
    assert headers_package(here, "6.8.0") == "other-headers=6.8.0"
    assert initramfs_again(here, "6.8.0") == "mkinitfs 6.8.0"
    assert image_package(here, "6.8.0") == "the kernel 6.8.0 and other-headers=6.8.0"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_known_family_has_a_rule_for_every_end(family: Family) -> None:
    wanted = {each.title for each in ARTEFACTS if each.proofs}
    assert wanted == {each.title for each in ARTEFACTS if each.proofs and each.families(family)}


def test_ways_to_one_end_have_the_same_proofs() -> None:
    ends = {each.title: each.proofs for each in ARTEFACTS}
    assert all(ends[each.title] == each.proofs for each in ARTEFACTS)
