"""Images: judged for a kernel of their own, planned as nodes are, bound to nothing that runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.build import DRIVER, KERNEL, kernel_block, node
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from tests.unit.delivering import (
    PLACE,
    blocked,
    build,
    module,
    paths,
    plan_with,
    with_delivered,
    without_peermem,
)
from tests.unit.imaging import IMAGE, LIVE_WORK, NOT_BUILT, OF_A_RUN, change, image, planned
from tests.unit.judged import TODAY
from tests.unit.planning import LITTLE_MEMLOCK, NO_AUTOLOAD, NO_PT, placed, plan_for, rocky
from toolkit.checks.check import Status
from toolkit.errors import NoEvidence
from toolkit.evidence import Frame, State
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action
from toolkit.plan.decide import UNSEEN
from toolkit.verbs.plan import plan_node
from toolkit.want import PeerPath, SigningPaths, Want

OTHER = "6.1.0-49-amd64"
MODPROBE = "/etc/modprobe.d/gdr-toolkit.conf"


def verdict(check: str, frames: dict[str, Override] | None = None) -> tuple[Status, str]:
    found = {each.check.id: each for each in planned(frames).judged.verdicts}[check]
    return found.status, found.finding.found


def test_nothing_of_a_run_is_ever_told_of_an_image() -> None:
    for each in planned().judged.verdicts:
        assert not set(each.cited) & set(OF_A_RUN) - {"boot-id"} or each.status is Status.NA


def test_an_image_without_gpus_to_be_seen_is_judged_for_nodes_with_gpus() -> None:
    found = planned()
    assert found.judged.gpus
    passed = {each.check.id for each in found.judged.having(Status.PASS)}
    assert {"peermem.file", "peermem.stub", "dkms.state", "ofed.kernel_match"} <= passed
    assert not found.judged.having(Status.FAIL)


def test_of_a_sound_image_one_file_is_placed_that_only_a_run_would_show_to_be_needed() -> None:
    found = planned()
    assert [each.path for each in found.plan.changes] == [MODPROBE]
    assert change(found, "modprobe.peermem").why == (UNSEEN,)
    text = change(found, "modprobe.peermem").text
    assert planned(placed({MODPROBE: text})).plan.empty


def test_a_live_node_is_not_given_a_file_that_its_checks_do_not_ask_for() -> None:
    assert plan_for({}).empty


def test_modules_are_built_for_the_kernel_that_the_image_was_read_for() -> None:
    found = planned({**NOT_BUILT, "dkms-confs": _without_peermem()})
    calls = [act.call for act in found.plan.acts]
    assert f"BUILD_DKMS rebuild --kernel {KERNEL} --peermem" in calls
    assert f"DEPMOD depmod -a {KERNEL}" in calls
    assert all(KERNEL in call or "dkms add" in call for call in calls)


def _without_peermem() -> str:
    return (
        f'nvidia-{DRIVER}/dkms.conf:PACKAGE_NAME="nvidia"\n'
        f'nvidia-{DRIVER}/dkms.conf:PACKAGE_VERSION="{DRIVER}"\n'
        f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
    )


def test_a_module_that_was_built_elsewhere_is_laid_there_and_not_loaded() -> None:
    plan = plan_with({**without_peermem(), **IMAGE}, build())
    assert paths(plan) == [PLACE]
    assert plan.changes[0].content == module()
    assert plan.acts[0].call == f"DEPMOD depmod -a {KERNEL}"
    assert not set(plan.triggers) & (LIVE_WORK | {Trigger.BUILD_DKMS})
    assert plan_with({**with_delivered(), **IMAGE}, build()).changes == tuple(
        each for each in plan.changes if each.artefact == "modprobe.peermem"
    )


def test_a_build_for_the_builders_kernel_is_no_build_for_the_image() -> None:
    plan = plan_with({**without_peermem(), **IMAGE}, build(kernel=OTHER))
    assert f"no build of nvidia-peermem for {KERNEL}" in blocked(plan)


@pytest.mark.parametrize(
    "ailing",
    [
        pytest.param({**NOT_BUILT, "dkms-confs": _without_peermem()}, id="not-built"),
        pytest.param(NO_AUTOLOAD, id="not-queued"),
        pytest.param(LITTLE_MEMLOCK, id="limits"),
        pytest.param({"boot-entries": grub(NO_PT)}, id="arguments"),
    ],
)
def test_nothing_is_loaded_started_or_rebooted(ailing: dict[str, Override]) -> None:
    found = planned(ailing)
    assert not found.plan.empty
    assert not set(found.plan.triggers) & LIVE_WORK
    assert not found.plan.needs_reboot


def test_peermem_is_queued_for_the_first_boot() -> None:
    queued = change(planned(NO_AUTOLOAD), "modules-load.peermem")
    assert (queued.action, queued.triggers) == (Action.PLACE, ())


def test_the_bundle_is_bound_to_files_and_to_no_kernel_that_runs() -> None:
    bundle = planned(LITTLE_MEMLOCK).bundle
    assert bundle is not None
    expected = [step for step in bundle.steps if step.startswith("expect ")]
    assert expected
    assert all(step.startswith("expect file ") for step in expected)
    assert f'"kernel": "{KERNEL}"' in bundle.manifest


def test_the_driver_is_the_one_on_disk() -> None:
    driver = Node(image()).driver
    assert driver is not None
    assert (str(driver.version), driver.flavor) == (DRIVER, Flavor.OPEN)


def test_a_driver_that_waits_for_its_first_build_is_told_by_dkms() -> None:
    driver = Node(image({"all-modinfo": "", "dkms-status": f"nvidia/{DRIVER}: added\n"})).driver
    assert driver is not None
    assert str(driver.version) == DRIVER


def test_an_image_without_a_driver_is_told_so_and_not_to_load_one() -> None:
    bare: dict[str, Override] = {"all-modinfo": "", "dkms-status": ABSENT}
    assert verdict("nvidia.flavor", bare) == (Status.FAIL, f"no NVIDIA driver for {KERNEL}")


def test_no_driver_is_none() -> None:
    assert Node(image({"all-modinfo": "", "dkms-status": ABSENT})).driver is None


def test_the_next_boot_is_that_of_the_kernel_it_was_read_for() -> None:
    two = kernel_block(KERNEL) + kernel_block(OTHER)
    menu = grub(kernels=(OTHER, KERNEL))
    told = Node(image({"kernels": two, "boot-entries": menu}))
    assert told.default_kernel == KERNEL
    assert told.next_boot.kernel == KERNEL
    assert told.default_entry is not None
    assert told.default_entry.kernel == OTHER
    live = Node(node({"kernels": two, "boot-entries": menu}))
    assert live.default_kernel == OTHER


def test_without_a_boot_menu_the_arguments_are_not_the_images_to_give() -> None:
    bare: dict[str, Override] = {"boot-entries": ""}
    status, found = verdict("iommu.boot", bare)
    assert (status, found.partition(":")[0]) == (Status.NA, "no boot menu in the image")
    assert verdict("modules.blacklist", bare)[0] is Status.PASS
    assert "boot.arguments" not in {each.artefact for each in planned(bare).plan.changes}


def test_with_a_boot_menu_the_arguments_go_into_it() -> None:
    found = planned({"boot-entries": grub(NO_PT)})
    assert change(found, "boot.arguments").triggers == (Trigger.UPDATE_BOOTLOADER,)
    assert [act.call for act in found.plan.acts] == [
        "UPDATE_BOOTLOADER menu /boot/grub/grub.cfg +iommu=pt"
    ]
    assert found.plan.trial is None


def test_an_image_of_the_rhel_family_is_told_by_grubby() -> None:
    found = planned(rocky(NO_PT))
    assert [act.call.partition(" ")[2].split()[0] for act in found.plan.acts] == ["grubby"]
    assert found.plan.family == "rhel"


def test_a_kernel_without_its_own_entry_is_not_known_to_boot_well() -> None:
    status, _ = verdict("iommu.boot", {"boot-entries": grub(kernels=(OTHER,))})
    assert status is Status.UNKNOWN


def test_an_image_without_initramfs_is_not_blamed_for_it() -> None:
    bare = Frame("initramfs", State.ABSENT, f"/boot/initrd.img-{KERNEL}")
    found = plan_node("image", image().plus([bare]), Want(), TODAY).judged.verdicts
    [told] = [each.finding for each in found if each.check.id == "kernel.initrd_rdma"]
    assert (told.status, told.found[:12]) == (Status.NA, "no initramfs")
    unlisted = Frame("initramfs", State.ABSENT, "lsinitrd")
    found = plan_node("image", image().plus([unlisted]), Want(), TODAY).judged.verdicts
    [told] = [each.finding for each in found if each.check.id == "kernel.initrd_rdma"]
    assert told.status is Status.UNKNOWN


def test_firmware_and_keys_belong_to_each_node() -> None:
    with pytest.raises(NoEvidence, match="an image has no firmware"):
        _ = Node(image()).secure_boot
    assert verdict("secureboot.mok")[0] is Status.NA


def test_a_site_that_names_a_key_has_images_signed_whatever_the_builder_demands() -> None:
    key = SigningPaths("/etc/dkms/keys/site.key", "/etc/dkms/keys/site.der")
    found = {each.check.id: each.status for each in planned(want=Want(signing=key)).judged.verdicts}
    assert found["secureboot.site_key"] is Status.FAIL


def test_a_kernel_that_was_built_to_demand_signatures_demands_them_in_an_image() -> None:
    config = node().text("kernel-config") + "CONFIG_MODULE_SIG_FORCE=y\n"
    assert Node(image({"kernel-config": config})).signatures_demanded == "CONFIG_MODULE_SIG_FORCE"
    assert Node(image()).signatures_demanded == ""


def test_on_the_dmabuf_path_the_flavour_of_the_driver_on_disk_counts() -> None:
    want = replace(Want(), path=PeerPath.DMABUF)
    found = {each.check.id: each.status for each in planned(want=want).judged.verdicts}
    assert found["nvidia.flavor"] is Status.PASS
    assert found["dmabuf.gpu"] is Status.NA


def test_frames_of_a_run_are_all_known_to_the_probe() -> None:
    assert set(IMAGE) <= set(node().frames)
