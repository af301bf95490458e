"""What is placed about OFED, on which nodes, and which are left alone."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    DRIVER,
    EXPORT,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    UPDATES,
    kernel_block,
    node,
    rdma_core,
)
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from tests.evidence.healthy_builds import listing
from tests.unit.planning import STUBBED, frames, placed, plan_for
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action, Change
from toolkit.plan.plan import Plan
from toolkit.want import Modules, PeerPath, Want

DMABUF = Want(path=PeerPath.DMABUF)


def files(plan: Plan, *artefacts: str) -> dict[str, Change]:
    """The changes of these artefacts, by path."""
    return {each.path: each for each in plan.changes if each.artefact in artefacts}


def text_at(plan: Plan, path: str) -> str:
    return next(each.text for each in plan.changes if each.path == path)


def lines_of(text: str) -> list[str]:
    """What counts in it: no comments."""
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def test_a_healthy_node_is_left_alone() -> None:
    assert plan_for({}).empty


# --- OFED's own DKMS package --------------------------------------------------------------

NEXT: dict[str, Override] = {
    "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL, peermem=False),
    "boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL)),
}


def named(package: str) -> dict[str, Override]:
    status = str(node({}).text("dkms-status")).replace("mlnx-ofed-kernel", package)
    return {"dkms-status": status}


@pytest.mark.parametrize("package", ["mlnx-ofed-kernel", "mlnx-ofa_kernel", "doca-ofed-25.10"])
def test_ofed_is_built_for_the_kernel_that_will_boot(package: str) -> None:
    plan = plan_for(frames(NEXT, named(package)))
    path = f"/etc/dkms/{package}.conf"
    assert lines_of(text_at(plan, path)) == ['AUTOINSTALL="yes"', 'NO_WEAK_MODULES="yes"']
    commands = [act.command for act in plan.acts if package in act.command]
    assert [(words[1], words[7]) for words in commands] == [
        ("build", NEXT_KERNEL),
        ("install", NEXT_KERNEL),
    ]
    # What is built for the running kernel is not built again, nor in place of a good build.
    assert not any("--force" in words for words in commands)


@pytest.mark.parametrize(
    ("version", "patches"),
    [("dkms-3.0.10\n", False), ("dkms-3.2.2\n", False), ("dkms-3.4.0\n", True)],
)
def test_the_sites_patches_have_a_place_since_dkms_3_4(version: str, patches: bool) -> None:
    plan = plan_for(frames(NEXT, {"dkms-version": version}))
    text = text_at(plan, "/etc/dkms/mlnx-ofed-kernel.conf")
    assert ("/etc/dkms/mlnx-ofed-kernel/patches/*.patch" in text) is patches
    assert ("PATCH+=" in text) is patches


def test_the_drivers_fragment_is_not_taken_for_that_of_ofed() -> None:
    """A driver that is no longer DKMS's leaves its fragment behind: it is the driver's."""
    gone = frames(placed({"/etc/dkms/nvidia.conf": "x\n"}), {"dkms-confs": ""})
    removed = [each for each in plan_for(gone).changes if each.action is Action.REMOVE]
    assert [each.artefact for each in removed] == ["dkms.driver"]


def test_without_headers_ofed_is_not_built() -> None:
    plan = plan_for(frames(NEXT, {"headers": "Makefile missing\n"}))
    assert not files(plan, "ofed.dkms")
    assert any("kernel.headers" in each.reason for each in plan.blocked)


# --- a precompiled nvidia-peermem beside DKMS's own ----------------------------------------

FORCE = "/usr/share/dkms/modules_to_force_install/gdr-toolkit"
PRECOMPILED = f"/lib/modules/{KERNEL}/kernel/nvidia-580/nvidia-peermem.ko"
OWN: dict[str, Override] = {
    "dkms-confs": f'nvidia-{DRIVER}/dkms.conf:PACKAGE_NAME="nvidia"\n'
    f'nvidia-{DRIVER}/dkms.conf:PACKAGE_VERSION="{DRIVER}"\n'
    f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
}


BESIDE: dict[str, Override] = {"kernels": kernel_block(KERNEL, peermem=False) + PRECOMPILED + "\n"}


@pytest.mark.parametrize(
    ("changed", "forced"),
    [
        pytest.param(BESIDE, True, id="beside"),
        pytest.param({}, False, id="nothing-precompiled"),
        pytest.param(
            {"dkms-status": f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"},
            True,
            id="a-driver-that-came-as-modules",  # RHEL's and SUSE's lie where DKMS's own do
        ),
    ],
)
def test_a_precompiled_stub_gives_way(changed: dict[str, Override], forced: bool) -> None:
    plan = plan_for(frames(STUBBED, OWN, changed))
    assert (FORCE in [each.path for each in plan.changes]) is forced
    if forced:
        assert lines_of(text_at(plan, FORCE)) == ["nvidia-peermem"]


@pytest.mark.parametrize("want", [DMABUF, Want(modules=Modules.BUILT)], ids=["dmabuf", "built"])
def test_what_made_it_give_way_goes_where_ours_is_not_built_there(want: Want) -> None:
    plan = plan_for(frames(STUBBED, OWN, BESIDE, placed({FORCE: "nvidia-peermem\n"})), want)
    assert Action.REMOVE in {each.action for each in plan.changes if each.path == FORCE}


# --- OFED before inbox -----------------------------------------------------------------------

DEPMOD = "/etc/depmod.d/gdr-toolkit.conf"
INBOX = f"/lib/modules/{KERNEL}/kernel/drivers/infiniband"
MIXED: dict[str, Override] = {
    "rdma-modinfo": rdma_core().replace(f"{UPDATES}/ib_core.ko", f"{INBOX}/core/ib_core.ko")
}


def test_ofed_comes_before_inbox_where_modprobe_would_mix_them() -> None:
    plan = plan_for(MIXED)
    wanted = lines_of(text_at(plan, DEPMOD))
    assert "override ib_core * updates/dkms" in wanted
    assert "override mlx5_ib * updates/dkms" in wanted
    assert Trigger.DEPMOD in plan.triggers
    # Another stack cannot take the place of the loaded one under those who use it.
    assert plan.needs_reboot
    assert Trigger.RELOAD_MODULES not in plan.triggers


def test_the_initramfs_is_rebuilt_where_it_holds_the_inbox_stack() -> None:
    held = listing().replace("updates/dkms/ib_core", "kernel/drivers/infiniband/core/ib_core")
    plan = plan_for({"initramfs": held})
    assert DEPMOD in [each.path for each in plan.changes]
    assert Trigger.REBUILD_INITRAMFS in plan.triggers


def test_the_file_stays_once_it_has_done_its_work() -> None:
    text = text_at(plan_for(MIXED), DEPMOD)
    plan = plan_for(placed({DEPMOD: text}))
    assert plan.empty
    assert not plan.blocked


KMOD = f"/lib/modules/{KERNEL}/extra/mlnx-ofa_kernel/drivers/infiniband/core/ib_core.ko"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param(
            {"kernels": f"@{KERNEL}\nimage\nheaders\n{KMOD}\n"},
            "in several folders",
            id="kmod-packages",
        ),
        pytest.param({"kernels": f"@{KERNEL}\nimage\nheaders\n"}, "not on disk", id="not-built"),
    ],
)
def test_where_dkms_did_not_put_it_there_nothing_is_overridden(
    changed: dict[str, Override], told: str
) -> None:
    plan = plan_for(frames(MIXED, changed))
    assert DEPMOD not in [each.path for each in plan.changes]
    assert any(told in each.reason for each in plan.blocked if each.artefact == "ofed.depmod")


def test_the_inbox_stack_alone_is_overridden_by_nothing() -> None:
    inbox: dict[str, Override] = {
        "ofed-info": ABSENT,
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
    }
    changed: dict[str, Override] = {**inbox, "rdma-modinfo": rdma_core(version="")}
    assert DEPMOD not in [each.path for each in plan_for(frames(changed)).changes]


# --- openibd -----------------------------------------------------------------------------------

PEERS = (
    "/usr/lib/gdr-toolkit/openibd-peers",
    "/etc/systemd/system/gdr-toolkit-peers.service",
    "/etc/systemd/system/openibd.service.d/gdr-toolkit.conf",
)
FAILED: dict[str, Override] = {
    "openibd-state": "LoadState=loaded\nActiveState=failed\nResult=exit-code\n",
    "openibd-log": "rmmod: ERROR: Module ib_core is in use by: nvidia_peermem\n",
}


def test_where_openibd_has_failed_it_gets_its_peers_out_of_the_way() -> None:
    plan = plan_for(FAILED)
    assert tuple(files(plan, "openibd.peers", "openibd.unit", "openibd.drop-in")) == PEERS
    assert [act.call for act in plan.acts] == ["DAEMON_RELOAD systemctl daemon-reload"]
    # openibd may carry storage: it is never restarted by us, the next boot starts it.
    assert plan.needs_reboot


def test_the_drop_in_stays_once_openibd_runs() -> None:
    texts = {each.path: each.text for each in plan_for(FAILED).changes}
    modes = placed(texts)
    listed = str(modes["placed"]).replace(f"644 0 0 {PEERS[0]}", f"755 0 0 {PEERS[0]}")
    plan = plan_for(modes | {"placed": listed})
    assert plan.empty
    assert not plan.blocked


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        pytest.param({"openibd-state": ABSENT, "openibd-log": ABSENT}, Want(), id="no-openibd"),
        pytest.param(FAILED, DMABUF, id="dmabuf"),
        pytest.param(
            {"openibd-state": "LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n"},
            Want(),
            id="disabled",
        ),
    ],
)
def test_elsewhere_openibd_is_left_alone(changed: dict[str, Override], want: Want) -> None:
    assert not set(PEERS) & {each.path for each in plan_for(changed, want).changes}


# --- ARM -----------------------------------------------------------------------------------------

LINKS = "/etc/tmpfiles.d/gdr-toolkit.conf"
AT = f"/usr/src/ofa_kernel/aarch64/{KERNEL}"


def arm(*sources: str) -> dict[str, Override]:
    """An ARM node whose OFED lies where OFED puts it."""
    listed = ("/usr/src/ofa_kernel", "/usr/src/ofa_kernel/aarch64", AT, *sources)
    return {
        "arch": "aarch64\n",
        "symvers": f"@{AT}/Module.symvers\n{EXPORT}",
        "sources": "".join(f"{each}\n" for each in listed) + f"/usr/src/nvidia-{DRIVER}\n",
    }


def test_on_arm_the_drivers_conftest_is_led_to_ofed() -> None:
    plan = plan_for(arm())
    assert lines_of(text_at(plan, LINKS)) == [
        f"L /usr/src/ofa_kernel/{KERNEL} - - - - aarch64/{KERNEL}"
    ]
    made = next(act for act in plan.acts if act.command[0] == "systemd-tmpfiles")
    assert made.command == ("systemd-tmpfiles", "--create", LINKS)
    assert made.keeps == (f"/usr/src/ofa_kernel/{KERNEL}",)  # so that a rollback takes it away


def test_the_link_is_there_before_anything_is_built() -> None:
    plan = plan_for(frames(STUBBED, arm()))
    commands = [act.command[0] for act in plan.acts if act.trigger is Trigger.BUILD_DKMS]
    assert commands[0] == "systemd-tmpfiles"
    assert len(commands) > 1


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(arm(f"/usr/src/ofa_kernel/{KERNEL}"), id="somebody-elses-folder"),
        pytest.param(arm() | {"arch": "x86_64\n"}, id="x86"),
    ],
)
def test_elsewhere_no_link_is_made(changed: dict[str, Override]) -> None:
    assert LINKS not in [each.path for each in plan_for(changed).changes]


def test_on_the_dmabuf_path_nobody_needs_the_link() -> None:
    assert LINKS not in [each.path for each in plan_for(arm(), DMABUF).changes]
