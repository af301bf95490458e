"""When an initramfs is made again: where it holds what it should not, or what a plan makes anew."""

from __future__ import annotations

import pytest

from tests.evidence.build import KERNEL, SRC, rdma_core
from tests.evidence.frames import ABSENT, Override, failed
from tests.evidence.healthy_builds import listing
from tests.unit.planning import STUBBED, frames, plan_for
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action

IMAGE = f"/boot/initrd.img-{KERNEL}"
AGAIN = f"REBUILD_INITRAMFS initramfs {KERNEL} {IMAGE} update-initramfs -u -k {KERNEL}"
EXTRA = f"/lib/modules/{KERNEL}/extra/mlnx-ofa_kernel"
# Packages of modules: a folder each, which a depmod.d file of theirs puts first.
KMOD: dict[str, Override] = {
    "kernels": f"@{KERNEL}\nimage\nheaders\n"
    + "".join(f"{EXTRA}/{each}\n" for each in ("core/ib_core.ko", "net/mlx5_core.ko"))
    + f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko\n"
    + f"/lib/modules/{KERNEL}/updates/dkms/nvidia-peermem.ko\n",
    "rdma-modinfo": rdma_core(f"{EXTRA}/core"),
}
OWN = listing(folder="extra/mlnx-ofa_kernel/core")
INBOX = listing(folder="kernel/drivers/infiniband/core")


def test_an_image_with_its_own_kernels_stack_is_made_again_and_nothing_is_placed() -> None:
    plan = plan_for(frames(KMOD, {"initramfs": INBOX}))
    (change,) = plan.changes
    assert (change.artefact, change.action, change.path) == (
        "ofed.initramfs",
        Action.TRIGGER,
        IMAGE,
    )
    assert "holds the inbox" in change.why[0]
    assert [act.call for act in plan.acts] == [AGAIN]
    assert plan.acts[0].keeps == (IMAGE,)
    assert not plan.needs_reboot
    assert not plan.blocked


def test_an_image_older_than_its_modules_is_made_again() -> None:
    newer = f"newer {EXTRA}/core/mlx5_core.ko\n"
    assert [act.call for act in plan_for(frames(KMOD, {"initramfs": OWN + newer})).acts] == [AGAIN]


def test_what_it_loaded_is_exchanged_by_the_next_boot_alone() -> None:
    loaded = rdma_core(f"{EXTRA}/core").replace(SRC["mlx5_core"], "F00D")
    plan = plan_for(frames(KMOD, {"initramfs": OWN, "rdma-modinfo": loaded}))
    assert plan.triggers == (Trigger.REBOOT,)
    assert not plan.acts
    both = plan_for(frames(KMOD, {"initramfs": INBOX, "rdma-modinfo": loaded}))
    assert both.triggers == (Trigger.REBUILD_INITRAMFS, Trigger.REBOOT)


@pytest.mark.parametrize("image", [OWN, ABSENT, failed(1)], ids=["as-is", "no-lister", "refused"])
def test_one_that_is_right_or_that_nobody_can_list_is_left_alone(image: Override) -> None:
    plan = plan_for(frames(KMOD, {"initramfs": image}))
    assert plan.empty
    assert "ofed.initramfs" not in {each.artefact for each in plan.blocked}


def test_where_depmod_is_told_the_order_the_image_is_made_again_once() -> None:
    plan = plan_for({"initramfs": INBOX})
    assert [each.artefact for each in plan.changes] == ["ofed.depmod"]
    assert [act.call for act in plan.acts if act.trigger is Trigger.REBUILD_INITRAMFS] == [AGAIN]


def test_a_driver_that_an_image_holds_is_not_rebuilt_without_it() -> None:
    assert Trigger.REBUILD_INITRAMFS not in plan_for(STUBBED).triggers
    held = listing() + f"usr/lib/modules/{KERNEL}/updates/dkms/nvidia.ko\n"
    plan = plan_for(frames(STUBBED, {"initramfs": held}))
    assert Trigger.REBUILD_INITRAMFS in plan.triggers
    assert AGAIN in [act.call for act in plan.acts]
