"""What is planned where a module must be built, and what interrupted runs still owe."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    DRIVER,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    kernel_block,
    modinfo,
    node,
)
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from tests.unit.planning import (
    NO_HOOKS,
    STUBBED,
    TRANSLATED,
    calls,
    carried_out,
    frames,
    placed,
    plan_for,
)
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action
from toolkit.want import PeerPath, Want

FRAGMENT = "/etc/dkms/nvidia.conf"
DMABUF = Want(path=PeerPath.DMABUF)


def test_a_stub_is_rebuilt_after_ofed() -> None:
    changed = frames(STUBBED)
    plan = plan_for(changed)
    assert plan.changes[0].path == FRAGMENT
    assert 'BUILD_DEPENDS+=("mlnx-ofed-kernel")' in plan.changes[0].text
    assert calls(changed) == [
        f"BUILD_DKMS rebuild --kernel {KERNEL} --peermem",
        f"DEPMOD depmod -a {KERNEL}",
        "RELOAD_MODULES reload nvidia_peermem nvidia-peermem",
    ]


def test_ofed_is_built_first_where_it_is_not_built() -> None:
    changed = STUBBED | {
        "dkms-status": f"mlnx-ofed-kernel/{OFED}: added\n"
        f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"
    }
    built = [act for act in plan_for(changed).acts if act.trigger is Trigger.BUILD_DKMS]
    assert [act.command[:4] for act in built] == [
        ("dkms", "build", "-m", "mlnx-ofed-kernel"),
        ("dkms", "install", "-m", "mlnx-ofed-kernel"),
        ("rebuild", "--kernel", KERNEL, "--peermem"),
    ]


def test_what_works_is_never_rebuilt_in_its_place() -> None:
    """``dkms build --force`` deletes the last good build before it begins."""
    for changed in (STUBBED, STUBBED | OWN):
        acts = [act.command for act in plan_for(changed).acts]
        assert any(command[0] == "rebuild" for command in acts)
        assert not any("--force" in command for command in acts)


def test_a_rollback_has_the_modules_and_the_tree_of_what_was_rebuilt() -> None:
    [act] = [each for each in plan_for(frames(STUBBED)).acts if each.command[0] == "rebuild"]
    assert f"/lib/modules/{KERNEL}/updates/dkms" in act.keeps
    assert f"/var/lib/dkms/nvidia/{DRIVER}/{KERNEL}" in act.keeps
    # Where those cannot be restored the program is gone again, so DKMS itself does it.
    force = f"-m nvidia -v {DRIVER} -k {KERNEL} --force"
    assert [" ".join(command) for _, command in act.undo] == [
        f"dkms build {force}",
        f"dkms install {force}",
    ]


def test_the_kernel_of_the_next_boot_is_built_for_too() -> None:
    changed = STUBBED | {
        "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL, peermem=False),
        "boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL)),
    }
    built = {act.command[2] for act in plan_for(changed).acts if act.command[0] == "rebuild"}
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
    assert [act.command for act in plan.acts if act.trigger is Trigger.BUILD_DKMS] == [
        ("dkms", "add", "-m", "nvidia-peermem", "-v", DRIVER),
        ("rebuild", "--kernel", KERNEL, "--peermem"),
    ]


def installed_at(folder: str) -> dict[str, Override]:
    """A driver that came as modules, into a folder below /lib/modules/KERNEL."""
    path = f"/lib/modules/{KERNEL}/{folder}/nvidia.ko"
    status = f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    modules = {"nvidia-modinfo": modinfo(path, depends=""), "dkms-status": status}
    return STUBBED | modules | {"dkms-confs": ""}


EL = 'ID="rhel"\nVERSION_ID="9.6"\nID_LIKE="fedora"\n'
SLES = 'ID="sles"\nVERSION_ID="15.7"\nID_LIKE="suse"\n'
RUN = f"sh NVIDIA-Linux-x86_64-{DRIVER}.run --extract-only --target /usr/src/nvidia-{DRIVER}"


@pytest.mark.parametrize(
    ("os_release", "folder", "named"),
    [
        pytest.param(
            "ID=ubuntu\nVERSION_ID=24.04\nID_LIKE=debian\n", "kernel/nvidia-580-server-open",
            f"apt-get install 'nvidia-kernel-source-580-server-open={DRIVER}-*'", id="ubuntu",
        ),
        pytest.param(
            EL, "extra/drivers/video/nvidia", f"dnf download kmod-nvidia-open-dkms-{DRIVER}, then",
            id="rhel",
        ),
        pytest.param(
            SLES, "updates", "zypper source-install -D nvidia-open-driver-G06-signed", id="suse"
        ),
        pytest.param(
            "ID=debian\nVERSION_ID=13\n", "nvidia",
            f"apt-get download 'nvidia-open-kernel-source={DRIVER}-*', then", id="debian",
        ),
        pytest.param(EL, "kernel/drivers/video", RUN, id="the-vendors-installer"),
    ],
)  # fmt: skip
def test_a_driver_without_dkms_has_the_package_of_its_source_named(
    os_release: str, folder: str, named: str
) -> None:
    blocked = plan_for(installed_at(folder) | {"os-release": os_release}).blocked
    told = next(each for each in blocked if each.artefact == "dkms.peermem")
    assert told.reason == (
        f"the source of driver {DRIVER} is not below /usr/src, nvidia-peermem cannot be built"
    )
    assert told.hint.startswith(named)
    assert RUN in told.hint
    assert "dmabuf path" in told.hint


def test_its_source_alone_is_enough_for_nvidia_peermem_to_be_built_there() -> None:
    kbuild = f'nvidia-{DRIVER}/Kbuild:ccflags-y += -DNV_VERSION_STRING=\\"{DRIVER}\\"\n'
    plan = plan_for(installed_at("kernel/nvidia-580-server-open") | {"dkms-confs": kbuild})
    assert f"/usr/src/nvidia-peermem-{DRIVER}/dkms.conf" in [each.path for each in plan.changes]


def hooks(changed: dict[str, Override]) -> list[str]:
    found = [each.path for each in plan_for(changed).changes if each.artefact.startswith("rebuild")]
    return [path for path in found if path != "/usr/lib/gdr-toolkit/rebuild"]


APT = "/etc/apt/apt.conf.d/zz-gdr-toolkit"
AFTER = "/etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf"
NEW_KERNEL = [
    "/etc/kernel/postinst.d/zz-gdr-toolkit",
    "/etc/kernel/header_postinst.d/zz-gdr-toolkit",
]
BY_DKMS = (
    f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"
)


@pytest.mark.parametrize(
    ("version", "status", "expected"),
    [
        pytest.param("dkms-3.0.10", BY_DKMS, [APT, *NEW_KERNEL], id="dkms-does-not-notice"),
        pytest.param("dkms-3.1.8", BY_DKMS, [APT, *NEW_KERNEL], id="nor-3.1"),
        pytest.param("dkms-3.2.0", BY_DKMS, [AFTER, *NEW_KERNEL], id="dkms-calls"),
        pytest.param("dkms-3.4.3", BY_DKMS, [AFTER, *NEW_KERNEL], id="the-latest"),
    ],
)
def test_who_calls_the_rebuild_by_version_of_dkms(
    version: str, status: str, expected: list[str]
) -> None:
    assert hooks(STUBBED | {"dkms-version": f"{version}\n", "dkms-status": status}) == expected


@pytest.mark.parametrize(
    ("os_release", "expected"),
    [
        pytest.param("ID=rocky\nVERSION_ID=9.4\n", [
            "/etc/dnf/plugins/post-transaction-actions.d/gdr-toolkit.action",
            "/etc/kernel/install.d/95-gdr-toolkit.install",
        ], id="rhel"),
        pytest.param("ID=sles\nVERSION_ID=15.6\n", [
            "/usr/lib/zypp/plugins/commit/gdr-toolkit",
        ], id="suse"),
    ],
)  # fmt: skip
def test_who_calls_the_rebuild_by_family(os_release: str, expected: list[str]) -> None:
    changed = STUBBED | {"os-release": os_release, "dkms-version": "dkms-3.0.11\n"}
    assert hooks(changed) == expected


def test_a_healthy_node_without_hooks_gets_them_and_nothing_else() -> None:
    plan = plan_for(NO_HOOKS)
    assert [each.path for each in plan.changes] == [
        "/usr/lib/gdr-toolkit/rebuild",
        AFTER,
        *NEW_KERNEL,
    ]
    assert {each.action for each in plan.changes} == {Action.PLACE}
    assert (plan.triggers, plan.acts, plan.blocked) == ((), (), ())
    assert plan.changes[0].why == (
        "peermem.rebuild: goes unnoticed: an OFED update, a driver update, a new kernel",
    )
    second = plan_for(carried_out(NO_HOOKS, plan))
    assert (second.empty, second.blocked) == (True, ())


def test_a_hook_that_is_not_ours_any_more_is_replaced() -> None:
    old = placed({NEW_KERNEL[0]: "#!/bin/sh\n# of an older version\n"}, mode="755")
    [change] = plan_for(old).changes
    assert (change.path, change.why) == (NEW_KERNEL[0], ("its text differs",))
    [change] = plan_for(placed({AFTER: plan_for(NO_HOOKS).changes[1].text}, mode="600")).changes
    assert (change.path, change.why) == (AFTER, ("its mode is 600, not 644",))


def test_where_ofed_comes_prebuilt_what_is_good_is_followed_all_the_same() -> None:
    """DKMS's driver cannot wait for such an OFED; its updates are seen by the package manager."""
    prebuilt = {"dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}
    plan = plan_for(NO_HOOKS | prebuilt)
    assert [each.path for each in plan.changes][1:] == [AFTER, APT, *NEW_KERNEL]
    assert (plan.acts, plan.blocked) == ((), ())


def test_hooks_go_where_nothing_is_to_be_followed() -> None:
    ours = placed({APT: "old\n", NEW_KERNEL[0]: "old\n"})
    inbox: dict[str, Override] = {"ofed-info": ABSENT, "rdma-modinfo": "@ib_core\n"}
    inbox["dkms-status"] = f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"
    for plan in (plan_for(ours, DMABUF), plan_for(ours | inbox)):
        assert {(each.path, each.action) for each in plan.changes} == {
            (APT, Action.REMOVE),
            (NEW_KERNEL[0], Action.REMOVE),
        }


def test_nothing_calls_a_rebuild_where_dkms_does_not_build_nvidia_peermem() -> None:
    changed = STUBBED | {"dkms-status": "", "dkms-confs": ""}
    assert not [each for each in plan_for(changed).changes if each.artefact.startswith("rebuild")]


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
