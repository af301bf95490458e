"""What is planned where a module must be built, and what interrupted runs still owe."""

from __future__ import annotations

import pytest

from tests.evidence.build import DRIVER, KERNEL, NEXT_KERNEL, OFED, grub, kernel_block, node
from tests.evidence.frames import ABSENT, Override
from tests.unit.planning import (
    STUBBED,
    TRANSLATED,
    calls,
    frames,
    placed,
    plan_for,
)
from toolkit.change.artefact import Trigger
from toolkit.change.change import Action
from toolkit.want import PeerPath, Want

FRAGMENT = "/etc/dkms/nvidia.conf"
DMABUF = Want(path=PeerPath.DMABUF)


def test_a_stub_is_rebuilt_after_ofed() -> None:
    changed = frames(STUBBED)
    plan = plan_for(changed)
    assert plan.changes[0].path == FRAGMENT
    assert 'BUILD_DEPENDS+=("mlnx-ofed-kernel")' in plan.changes[0].text
    assert calls(changed) == [
        f"BUILD_DKMS dkms build -m nvidia -v {DRIVER} -k {KERNEL} --force",
        f"BUILD_DKMS dkms install -m nvidia -v {DRIVER} -k {KERNEL} --force",
        f"DEPMOD depmod -a {KERNEL}",
        "RELOAD_MODULES reload nvidia_peermem nvidia-peermem",
    ]


def test_ofed_is_built_first_where_it_is_not_built() -> None:
    changed = STUBBED | {
        "dkms-status": f"mlnx-ofed-kernel/{OFED}: added\n"
        f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"
    }
    verbs = [act.command[1:4:2] for act in plan_for(changed).acts if act.command[0] == "dkms"]
    assert verbs == [
        ("build", "mlnx-ofed-kernel"),
        ("install", "mlnx-ofed-kernel"),
        ("build", "nvidia"),
        ("install", "nvidia"),
    ]


def test_the_kernel_of_the_next_boot_is_built_for_too() -> None:
    changed = STUBBED | {
        "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL, peermem=False),
        "boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL)),
    }
    built = {
        act.command[7] for act in plan_for(changed).acts if act.command[:2] == ("dkms", "build")
    }
    assert built == {KERNEL, NEXT_KERNEL}


def test_the_site_fragment_of_others_is_not_overwritten() -> None:
    changed = STUBBED | placed({FRAGMENT: "NO_WEAK_MODULES=yes\n"}, owned=False)
    plan = plan_for(changed)
    assert FRAGMENT not in [each.path for each in plan.changes]
    assert plan.blocked[0].reason == f"{FRAGMENT} is somebody else's file, and is not overwritten"
    # Nothing else mends the stub, so nothing tries to load it.
    assert plan.empty
    assert {each.artefact for each in plan.blocked} >= {"modprobe.peermem", "modules-load.peermem"}


def test_a_stub_that_nothing_can_mend_is_not_loaded() -> None:
    inbox: dict[str, Override] = {
        "ofed-info": ABSENT,
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
        "rdma-modinfo": "@ib_core\n",
    }
    plan = plan_for(STUBBED | inbox)
    assert plan.empty
    assert "nothing in this plan mends peermem.stub" in plan.blocked[0].reason


def test_where_the_running_stack_lacks_the_symbol_the_next_boot_brings_both() -> None:
    plan = plan_for(STUBBED | {"kallsyms": ""})
    assert Trigger.BUILD_DKMS in plan.triggers
    assert Trigger.RELOAD_MODULES not in plan.triggers
    assert plan.needs_reboot


def test_without_headers_nothing_is_built() -> None:
    plan = plan_for(STUBBED | {"headers": "Makefile missing\n"})
    assert Trigger.BUILD_DKMS not in plan.triggers
    assert "kernel.headers" in plan.blocked[0].reason


OWN: dict[str, Override] = {
    "dkms-confs": f'nvidia-{DRIVER}/dkms.conf:PACKAGE_NAME="nvidia"\n'
    f'nvidia-{DRIVER}/dkms.conf:PACKAGE_VERSION="{DRIVER}"\n'
    f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
}


def test_where_no_package_builds_it_nvidia_peermem_gets_its_own() -> None:
    plan = plan_for(STUBBED | OWN)
    folder = f"/usr/src/nvidia-peermem-{DRIVER}"
    assert [each.path for each in plan.changes if each.artefact.startswith("dkms")] == [
        f"{folder}/dkms.conf",
        f"{folder}/before-build.sh",
        f"{folder}/after-build.sh",
    ]
    assert [act.command for act in plan.acts if act.command[0] == "dkms"] == [
        ("dkms", "add", "-m", "nvidia-peermem", "-v", DRIVER),
        ("dkms", "build", "-m", "nvidia-peermem", "-v", DRIVER, "-k", KERNEL),
        ("dkms", "install", "-m", "nvidia-peermem", "-v", DRIVER, "-k", KERNEL),
    ]


def test_the_package_for_an_older_driver_leaves_dkms_before_its_files_go() -> None:
    old = "/usr/src/nvidia-peermem-570.86.15/dkms.conf"
    known = f"nvidia-peermem/570.86.15, {KERNEL}, x86_64: installed\n"
    changed = STUBBED | OWN | placed({old: "PACKAGE_NAME=nvidia-peermem\n"})
    changed["dkms-status"] = str(node({}).text("dkms-status")) + known
    plan = plan_for(changed)
    early = [act.call for act in plan.acts if act.early]
    assert early == ["BUILD_DKMS dkms remove nvidia-peermem/570.86.15 --all"]
    assert [each.path for each in plan.changes if each.action is Action.REMOVE] == [old]


def test_a_hostile_driver_version_adds_no_line() -> None:
    evil = '580.126.16";touch${IFS}/tmp/x;"'
    changed = STUBBED | {
        "dkms-confs": OWN["dkms-confs"],
        "nvidia-version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {evil}  Rel\n",
    }
    plan = plan_for(changed)
    assert not any("touch" in each.text or "touch" in each.path for each in plan.changes)
    assert not any("touch" in word for act in plan.acts for word in act.command)


PENDING = "UPDATE_BOOTLOADER update-grub\n"


def test_what_an_interrupted_run_owes_is_planned() -> None:
    plan = plan_for({"pending": PENDING})
    assert plan.changes == ()
    assert [act.call for act in plan.acts] == ["UPDATE_BOOTLOADER update-grub"]
    assert plan.acts[0].keeps == ("/boot/grub/grub.cfg",)
    assert not plan.empty


def test_what_is_owed_and_planned_is_done_once() -> None:
    assert calls(TRANSLATED | {"pending": PENDING}) == ["UPDATE_BOOTLOADER update-grub"]


@pytest.mark.parametrize(
    ("line", "done"),
    [
        pytest.param(f"dkms add -m nvidia -v {DRIVER}", False, id="added-already"),
        pytest.param("dkms add -m nvidia-peermem -v 1", True, id="not-yet-added"),
        pytest.param(f"dkms install -m nvidia -v {DRIVER} -k {KERNEL}", False, id="installed"),
        pytest.param(f"dkms install -m nvidia -v {DRIVER} -k other", True, id="for-another-kernel"),
        pytest.param("dkms remove nvidia-peermem/1 --all", False, id="gone-already"),
        pytest.param(f"dkms remove nvidia/{DRIVER} --all", True, id="still-there"),
    ],
)
def test_dkms_is_not_asked_for_what_is_so_already(line: str, done: bool) -> None:
    assert bool(calls({"pending": f"BUILD_DKMS {line}\n"})) is done


def test_a_pending_line_that_is_not_known_is_told() -> None:
    plan = plan_for({"pending": "SING 'la\nDANCE now\n"})
    assert plan.empty
    assert len(plan.blocked) == 2
