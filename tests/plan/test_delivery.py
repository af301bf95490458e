"""Which nodes are given a module that was built elsewhere, and which are left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.build import (
    DRIVER,
    HEALTHY,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    kernel_block,
    modinfo,
    node,
)
from tests.evidence.frames import Override
from tests.evidence.healthy_builds import listing
from tests.evidence.healthy_files import PEERS, elf
from tests.evidence.modules import signed
from tests.unit.delivering import (
    BUILT,
    PLACE,
    SYMBOLS,
    blocked,
    build,
    module,
    paths,
    plan_with,
    with_delivered,
    without_peermem,
)
from tests.unit.planning import placed
from toolkit.built.plan.model import Built, Part
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.bundle import render, script
from toolkit.plan.plan import diff
from toolkit.want import Modules, Want


def test_a_build_that_fits_is_delivered_and_loaded() -> None:
    plan = plan_with(without_peermem(), build())
    assert paths(plan) == [PLACE]
    assert plan.changes[0].content == module()
    assert [act.call for act in plan.acts][:2] == [
        f"DEPMOD depmod -a {KERNEL}",
        "RELOAD_MODULES reload nvidia_peermem nvidia-peermem",
    ]
    assert f"/lib/modules/{KERNEL}/modules.*" in plan.acts[0].keeps


def test_the_second_plan_is_empty() -> None:
    assert plan_with(with_delivered(), build()).empty
    assert not plan_with(with_delivered(), build()).blocked


def test_nothing_is_compiled_on_a_node_that_is_given_its_modules() -> None:
    plan = plan_with(without_peermem(), build())
    assert Trigger.BUILD_DKMS not in plan.triggers
    assert not any(each.path.startswith("/usr/src") for each in plan.changes)


CRC_OFF = {**SYMBOLS, "nvidia_p2p_get_pages": 1}


@pytest.mark.parametrize(
    ("at_hand", "reason"),
    [
        pytest.param((), "no build of nvidia-peermem", id="nothing-at-hand"),
        pytest.param((build(kernel=NEXT_KERNEL),), "no build of nvidia-peermem", id="other-kernel"),
        pytest.param((build(arch="aarch64"),), "no build of nvidia-peermem", id="other-machine"),
        pytest.param((build(version="570.86.15"),), f"and driver {DRIVER}", id="other-driver"),
        pytest.param(
            (build(module(version="570.86.15")),), "from driver 570.86.15", id="mislabelled-driver"
        ),
        pytest.param(
            (build(module(symbols=CRC_OFF)),),
            "another version of nvidia_p2p_get_pages",
            id="other-versions",
        ),
        pytest.param(
            (build(module(symbols={**SYMBOLS, "module_layout": 1})),),
            "module_layout differs",
            id="other-build-of-the-kernel",
        ),
        pytest.param(
            (build(module(symbols={"module_layout": SYMBOLS["module_layout"]})),),
            "a stub",
            id="stub",
        ),
        pytest.param(
            (build(module(flags="SMP preempt mod_unload modversions")),),
            "a kernel with SMP mod_unload modversions preempt",
            id="other-flags",
        ),
        pytest.param((build(module(depends="")),), "depends on nothing", id="no-depends"),
        pytest.param((build(module()[:-40]),), "cannot read", id="cut-off"),
    ],
)
def test_what_does_not_fit_is_not_delivered(at_hand: tuple[Built, ...], reason: str) -> None:
    plan = plan_with(without_peermem(), *at_hand)
    assert paths(plan) == []
    told = blocked(plan)
    assert reason in told
    command = f"./invokew build --kernel {KERNEL} --driver {DRIVER} --part peermem --on gpu01"
    assert told.endswith(command)


MERGED = ("all-modinfo", "exports", "rdma-modinfo", "nvidia-modinfo")


def below_usr(*more: Mapping[str, Override]) -> dict[str, Override]:
    """The same node, whose tools tell of /usr/lib where /lib is a link to it."""
    changed = without_peermem(*more)
    texts = {key: str(changed.get(key, HEALTHY[key])) for key in MERGED}
    return changed | {
        key: t.replace("/lib/modules", "/usr/lib/modules") for key, t in texts.items()
    }


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(module(), "", id="fits"),
        pytest.param(module(symbols=CRC_OFF), "version of nvidia_p2p_get_pages", id="symbols"),
        pytest.param(module(version="570.86.15"), "from driver 570.86.15", id="driver"),
        pytest.param(module(flags="SMP preempt mod_unload modversions"), "preempt", id="flags"),
        pytest.param(
            module(symbols={**SYMBOLS, "module_layout": 1}), "module_layout differs", id="layout"
        ),
    ],
)
def test_a_path_is_the_same_with_and_without_usr(data: bytes, reason: str) -> None:
    plan = plan_with(below_usr(), build(data))
    assert paths(plan) == ([] if reason else [PLACE])
    assert reason in blocked(plan)


def test_what_the_kernel_s_layout_is_seeded_with_is_no_other_kernel() -> None:
    """struct layouts that are drawn anew for each build: the seed in vermagic is none of ours."""
    drawn = "SMP mod_unload modversions RANDSTRUCT"
    changed = without_peermem()
    changed["all-modinfo"] = str(changed["all-modinfo"]).replace(
        "SMP mod_unload modversions ", f"{drawn}_PLUGIN_0a1b2c "
    )
    assert paths(plan_with(changed, build(module(flags=f"{drawn}_PLUGIN_0a1b2c")))) == [PLACE]


def test_of_several_builds_the_one_that_fits_is_taken() -> None:
    good = build()
    plan = plan_with(without_peermem(), build(module(symbols=CRC_OFF)), good)
    assert plan.changes[0].content == good.files[0].data


def test_a_build_of_the_whole_driver_has_the_module_too() -> None:
    whole = build(part=Part.DRIVER)
    assert paths(plan_with(without_peermem(), whole)) == [PLACE]


def test_where_dkms_builds_it_nothing_is_delivered() -> None:
    registered = "nvidia-peermem/580.126.16: added\n"
    confs = (
        'nvidia-peermem-580.126.16/dkms.conf:PACKAGE_NAME="nvidia-peermem"\n'
        'nvidia-peermem-580.126.16/dkms.conf:PACKAGE_VERSION="580.126.16"\n'
        'nvidia-peermem-580.126.16/dkms.conf:BUILT_MODULE_NAME[0]="nvidia-peermem"\n'
    )
    changed = without_peermem({"dkms-status": registered, "dkms-confs": confs})
    plan = plan_with(changed, build())
    assert paths(plan) == []
    assert "the DKMS package nvidia-peermem builds nvidia-peermem here" in blocked(plan)
    assert "dkms remove nvidia-peermem/580.126.16 --all" in blocked(plan)


@pytest.mark.parametrize(
    ("there", "refused"),
    [
        pytest.param(f"/lib/modules/{KERNEL}/updates/x/nvidia-peermem.ko.xz", True, id="updates"),
        pytest.param(f"/usr/lib/modules/{KERNEL}/extra/nvidia-peermem.ko", True, id="extra"),
        pytest.param(f"/lib/modules/{KERNEL}/kernel/nvidia-peermem.ko", False, id="precompiled"),
    ],
)
def test_a_second_file_of_that_name_would_make_loading_a_matter_of_luck(
    there: str, refused: bool
) -> None:
    listed = kernel_block(KERNEL, peermem=False) + there + "\n"
    plan = plan_with(without_peermem({"kernels": listed}), build())
    assert (paths(plan) == []) is refused
    assert (f"{there.removeprefix('/usr')} is there" in blocked(plan)) is refused


@pytest.mark.parametrize(
    ("folder", "ordered"),
    [
        pytest.param("extra/drivers/video/nvidia", True, id="rhel"),
        pytest.param("updates", True, id="suse"),
        pytest.param("kernel/nvidia-580", False, id="ubuntu"),
    ],
)
def test_that_of_a_driver_that_came_as_modules_stays_behind_ours(
    folder: str, ordered: bool
) -> None:
    """To remove the package that brought it would be to remove the driver."""
    files = [f"/lib/modules/{KERNEL}/{folder}/{name}.ko" for name in ("nvidia", "nvidia-peermem")]
    listed = kernel_block(KERNEL, peermem=False, nvidia=False)
    ofed = f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    changed = {"kernels": "\n".join((listed + files[0], files[1], "")), "dkms-status": ofed}
    plan = plan_with(without_peermem(changed), build())
    assert PLACE in paths(plan)
    order = [each.text for each in plan.changes if each.artefact == "modules.order"]
    assert [line for text in order for line in text.split("\n") if line.startswith("override")] == [
        "override nvidia-peermem * updates/gdr-toolkit"
    ] * ordered


def test_what_lies_beside_a_driver_that_dkms_built_did_not_come_with_it() -> None:
    """Where its package builds no nvidia-peermem, somebody else put one there."""
    confs = "".join(
        f'nvidia-{DRIVER}/dkms.conf:{line}\n'
        for line in ('PACKAGE_NAME="nvidia"', f'PACKAGE_VERSION="{DRIVER}"',
                     'BUILT_MODULE_NAME[0]="nvidia"')
    )  # fmt: skip
    there = f"/lib/modules/{KERNEL}/updates/dkms/nvidia-peermem.ko"
    frames: dict[str, Override] = {
        "kernels": kernel_block(KERNEL, peermem=False) + there + "\n",
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
        "dkms-confs": confs,
    }
    plan = plan_with(without_peermem(frames), build())
    assert paths(plan) == []
    assert f"{there} is there" in blocked(plan)


def test_the_file_of_a_package_is_not_overwritten() -> None:
    changed = without_peermem({"placed": f"{'0' * 64} 644 0 0 {PLACE}\n"})
    plan = plan_with(changed, build())
    assert paths(plan) == []
    assert f"{PLACE} was not placed by provision" in blocked(plan)


def test_a_healthy_node_is_left_alone() -> None:
    assert plan_with({}, build()).empty
    assert not plan_with({}, build()).blocked


def test_on_debian_the_file_has_the_name_that_modprobe_asks_for() -> None:
    line = "install nvidia-peermem modprobe -i nvidia-current-open-peermem $CMDLINE_OPTS\n"
    changed = without_peermem({"modprobe-config": line})
    assert paths(plan_with(changed, build())) == [
        f"/lib/modules/{KERNEL}/updates/gdr-toolkit/nvidia-current-open-peermem.ko"
    ]


@pytest.mark.parametrize("name", ["nvidia-../../../etc/cron.d/", "nvidia-current;reboot;"])
def test_a_hostile_install_line_leads_nowhere_else(name: str) -> None:
    line = f"install nvidia-peermem modprobe -i {name}peermem\n"
    assert paths(plan_with(without_peermem({"modprobe-config": line}), build())) == [PLACE]


# --- signatures, initramfs, companions ------------------------------------------------


def test_an_unsigned_module_is_not_delivered_where_signatures_are_asked_for() -> None:
    changed = without_peermem({"sig-enforce": "Y\n"})
    assert paths(plan_with(changed, build())) == []
    assert "--sign-key" in blocked(plan_with(changed, build()))
    good = build(module(signature=signed("site")))
    assert paths(plan_with(changed, good)) == [PLACE]


def test_a_signed_module_is_not_replaced_by_the_unsigned_one() -> None:
    good = module(signature=signed("site"))
    changed = with_delivered(good) | {"peermem-elf": elf(path=PLACE, signature=signed("site"))}
    assert plan_with(changed, build()).empty
    assert plan_with(changed, build(good)).empty


def test_a_signed_module_takes_the_place_of_a_signed_one() -> None:
    old = module(symbols=CRC_OFF, signature=signed("site"))
    new = module(signature=signed("site"))
    changed = with_delivered(old) | {"peermem-elf": elf(path=PLACE, signature=signed("site"))}
    assert plan_with(changed, build(new)).changes[0].content == new


@pytest.mark.parametrize("signer", ["signer:         site\n", "sig_key:        12:34\n"])
@pytest.mark.parametrize("usr", ["", "/usr"])
def test_what_modinfo_tells_of_a_signature_counts_too(signer: str, usr: str) -> None:
    asked = replace(BUILT, companions=("nvidia-fs",))
    place = f"/lib/modules/{KERNEL}/updates/gdr-toolkit/nvidia-fs.ko"
    info = modinfo(f"{usr}{place}", depends="nvidia", version="2.20.4") + signer
    there: dict[str, Override] = {
        "companion-modinfo": info.replace(f"@{usr}{place}", "@nvidia-fs"),
        "gds": "",
        **placed({}),
        "placed": f"{'0' * 64} 644 0 0 {place}\n",
        "owned": f"{place}\n",
    }
    plan = plan_with(there, companion_build(), want=asked)
    assert paths(plan) == []
    assert f"{place} is signed" in blocked(plan, "modules.nvidia-fs")
    there["companion-modinfo"] = str(there["companion-modinfo"]).removesuffix(signer)
    assert paths(plan_with(there, companion_build(), want=asked)) == [place]


def test_an_initramfs_that_holds_the_module_is_rebuilt() -> None:
    held = listing(KERNEL, "updates/dkms", f"usr/lib/modules/{KERNEL}/updates/nvidia-peermem.ko")
    with_it = plan_with(without_peermem({"initramfs": held}), build())
    assert Trigger.REBUILD_INITRAMFS in with_it.triggers
    assert Trigger.REBUILD_INITRAMFS not in plan_with(without_peermem(), build()).triggers


def companion_build(symbols: dict[str, int] | None = None) -> Built:
    own = symbols or {**{k: v for k, v in SYMBOLS.items() if k not in PEERS}}
    data = module(version="2.20.5", symbols=own, depends="nvidia", name="nvidia_fs")
    return build(data, part=Part.NVIDIA_FS, name="nvidia-fs.ko", version="2.20.5")


def test_nvidia_fs_is_delivered_where_the_site_asks_for_it() -> None:
    asked = replace(BUILT, companions=("nvidia-fs",))
    absent: dict[str, Override] = {"companion-modinfo": "", "gds": ""}
    plan = plan_with(absent, companion_build(), want=asked)
    assert paths(plan) == [f"/lib/modules/{KERNEL}/updates/gdr-toolkit/nvidia-fs.ko"]
    assert "RELOAD_MODULES reload nvidia_fs nvidia-fs" in [act.call for act in plan.acts]
    assert paths(plan_with(absent, companion_build())) == []


def test_a_companion_that_somebody_else_installed_has_its_owner() -> None:
    there = f"/lib/modules/{KERNEL}/updates/nvidia-fs.ko"
    info = modinfo(there, depends="nvidia", version="2.20.5").replace(f"@{there}", "@nvidia-fs")
    changed: dict[str, Override] = {"companion-modinfo": info, "gds": ""}
    plan = plan_with(changed, companion_build(), want=replace(BUILT, companions=("nvidia-fs",)))
    assert paths(plan) == []
    assert f"{there} is there" in blocked(plan, "modules.nvidia-fs")
    changed["dkms-status"] = f"{HEALTHY['dkms-status']}nvidia-fs/2.20.5: added\n"
    plan = plan_with(changed, companion_build(), want=replace(BUILT, companions=("nvidia-fs",)))
    assert "dkms remove nvidia-fs/2.20.5 --all" in blocked(plan, "modules.nvidia-fs")


# --- how it travels ------------------------------------------------------------------


def test_the_difference_tells_size_and_hash_and_no_bytes() -> None:
    plan = plan_with(without_peermem(), build())
    told = diff(plan)
    change = plan.changes[0]
    assert f"(binary, {len(change.content)} bytes, sha256 {change.sha256})" in told
    assert "\x00" not in told


def test_the_bytes_travel_as_plain_text() -> None:
    changed = without_peermem()
    bundle = render(plan_with(changed, build()), Node(node(changed)), "engine\n")
    assert bundle.files()[f"files{PLACE}"] == module()
    assert script(bundle).isascii()


def test_the_site_file_says_where_modules_come_from(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('modules = "built"\ncompanions = ["gdrdrv"]\n')
    want = Want.load("peermem", site=file)
    assert (want.modules, want.companions) == (Modules.BUILT, ("gdrdrv",))
