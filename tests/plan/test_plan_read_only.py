"""Systems whose /usr belongs to an image: nothing is planned below it, nor what rests on it."""

from __future__ import annotations

import pytest

from tests.evidence.frames import Override
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    NO_HOOKS,
    NOT_LOADED,
    STUBBED,
    TRANSLATED,
    plan_for,
    rocky,
)
from toolkit.plan.artefact import Trigger
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.node_state import topics
from toolkit.plan.plan import Plan

COREOS = (
    'ID="rhcos"\nID_LIKE="rhel fedora"\nVERSION_ID="4.18"\nVARIANT_ID=coreos\n'
    'OSTREE_VERSION="418.94.202509100653-0"\n'
)
SILVERBLUE = 'ID=fedora\nVERSION_ID=43\nVARIANT_ID=silverblue\nOSTREE_VERSION="43.20261120.0"\n'
MICRO = 'ID="sl-micro"\nID_LIKE="suse"\nVERSION_ID="6.1"\n'
WORDS = "root=UUID=1 ro quiet"
# By the sources that tell of it, one at a time.
TOLD: dict[str, dict[str, Override]] = {
    "rhcos-by-os-release": rocky(WORDS) | {"os-release": COREOS},
    "silverblue-by-os-release": rocky(WORDS) | {"os-release": SILVERBLUE},
    "bootc-by-its-argument": rocky(WORDS)
    | {"cmdline": f"{WORDS} ostree=/ostree/boot.0/default/1/0\n"},
    "bootc-by-composefs": rocky(WORDS) | {"cmdline": f"{WORDS} composefs=0123456789abcdef\n"},
    "ostree-by-run": rocky(WORDS) | {"loader": "ostree\ngrub /boot/grub2\n"},
    "transactional": {"os-release": MICRO, "loader": "read-only root\ngrub /boot/grub2\n"},
}
AILS: dict[str, dict[str, Override]] = {
    "stub": STUBBED | LITTLE_MEMLOCK,
    "unnoticed": NO_HOOKS | NOT_LOADED | NO_AUTOLOAD | LITTLE_MEMLOCK,
    "openibd": {"openibd-state": "LoadState=loaded\nActiveState=failed\nResult=exit-code\n"},
}
NEVER = {Trigger.BUILD_DKMS, Trigger.DEPMOD, Trigger.REBUILD_INITRAMFS, Trigger.UPDATE_BOOTLOADER}


def _triggers(plan: Plan) -> set[Trigger]:
    return {trigger for change in plan.changes for trigger in change.triggers}


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
@pytest.mark.parametrize("ails", AILS.values(), ids=AILS)
def test_nothing_is_planned_below_a_usr_of_an_image(
    ails: dict[str, Override], told: dict[str, Override]
) -> None:
    plan = plan_for(ails | told)
    assert not [each.path for each in plan.changes if not each.path.startswith("/etc/")]
    assert not _triggers(plan) & NEVER
    refused = [each for each in plan.blocked if "/usr belongs to an image" in each.reason]
    assert refused
    assert all(each.hint for each in refused)


@pytest.mark.parametrize("ails", AILS.values(), ids=AILS)
def test_what_is_planned_there_elsewhere_rests_on_usr(ails: dict[str, Override]) -> None:
    """The guard has something to guard: the same node of packages gets these files."""
    plan = plan_for(ails | rocky(WORDS))
    assert [each.path for each in plan.changes if each.path.startswith(("/usr/", "/etc/dkms/"))]


def test_what_the_system_reads_below_etc_is_still_placed() -> None:
    plan = plan_for(LITTLE_MEMLOCK | TOLD["rhcos-by-os-release"])
    assert {each.artefact for each in plan.changes} >= {"limits.logins", "limits.services"}


@pytest.mark.parametrize("name", ["rhcos-by-os-release", "bootc-by-its-argument"])
def test_kernel_arguments_there_are_left_to_its_own_command(name: str) -> None:
    [told] = [
        each
        for each in plan_for(TRANSLATED | TOLD[name]).blocked
        if each.artefact.startswith("boot")
    ]
    assert "rpm-ostree kargs --append-if-missing" in told.hint
    assert "MachineConfig" in told.hint


def test_no_artefact_that_has_to_do_with_usr_is_forgotten() -> None:
    """Those that stay are named here, so that a new one is thought of."""
    among = topics(ARTEFACTS)
    assert {each.id.partition(".")[0] for each in ARTEFACTS} - among == {
        "boot", "limits", "modprobe", "modules-load", "order",
    }  # fmt: skip
