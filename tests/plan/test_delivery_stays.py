"""The kernel of the next boot, and what has been delivered: it stays until it is replaced."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.build import DRIVER, KERNEL, NEXT_KERNEL, modinfo, node
from tests.evidence.frames import Override
from tests.evidence.healthy_files import LAYOUT, P2P, PEERS, elf
from tests.unit.delivering import (
    BUILT,
    PLACE,
    SYMBOLS,
    blocked,
    build,
    module,
    paths,
    plan_with,
    two_kernels,
    with_delivered,
)
from toolkit.built.plan.model import Part
from toolkit.plan.change import Action
from toolkit.plan.plan import diff
from toolkit.want import PeerPath, Want

# --- the next boot ----------------------------------------------------------------


def next_place(prefix: str = "nvidia-") -> str:
    return f"/lib/modules/{NEXT_KERNEL}/updates/gdr-toolkit/{prefix}peermem.ko"


def test_the_kernel_of_the_next_boot_is_given_its_own() -> None:
    plan = plan_with(two_kernels(), build(), build(kernel=NEXT_KERNEL))
    assert paths(plan) == [next_place()]
    assert plan.changes[0].why == (f"at the next boot: no nvidia-peermem for {NEXT_KERNEL}",)
    # Nothing that runs is touched for it.
    assert [act.call for act in plan.acts] == [f"DEPMOD depmod -a {NEXT_KERNEL}"]


def test_what_the_next_boot_would_lack_is_told_although_no_check_fails() -> None:
    plan = plan_with(two_kernels(), build())
    assert paths(plan) == []
    assert f"no build of nvidia-peermem for {NEXT_KERNEL}" in blocked(plan, "modules.peermem-next")


def test_where_the_next_kernels_modules_were_not_read_nothing_is_claimed_of_them() -> None:
    plan = plan_with(two_kernels(exports=False), build(), build(kernel=NEXT_KERNEL))
    assert paths(plan) == []
    assert f"export for {NEXT_KERNEL} was not read" in blocked(plan, "modules.peermem-next")


def test_a_kernel_built_against_other_versions_is_not_given_the_running_ones() -> None:
    other = two_kernels()
    exports = str(other["exports"]).split(f"@/lib/modules/{NEXT_KERNEL}", 1)
    later = exports[1].replace(f"0x{P2P['nvidia_p2p_get_pages']:08x}", "0x00000007")
    other["exports"] = exports[0] + f"@/lib/modules/{NEXT_KERNEL}" + later
    plan = plan_with(other, build(), build(kernel=NEXT_KERNEL))
    assert paths(plan) == []
    told = blocked(plan, "modules.peermem-next")
    assert "another version of nvidia_p2p_get_pages" in told


# --- what has been delivered stays, until it is replaced -----------------------------


def test_without_the_cache_what_was_delivered_stays() -> None:
    plan = plan_with(with_delivered())
    assert plan.empty
    assert not plan.blocked


def test_who_forgets_to_say_built_takes_nothing_away() -> None:
    plan = plan_with(with_delivered(), want=Want())
    assert plan.empty


def test_dkms_is_no_second_owner_of_what_was_delivered() -> None:
    stub = with_delivered() | {"peermem-elf": elf({"module_layout": LAYOUT}, path=PLACE)}
    plan = plan_with(stub | {"peermem-modinfo": modinfo(PLACE, depends="")}, want=Want())
    assert not any(each.path.startswith("/usr/src") for each in plan.changes)
    assert f"{PLACE} was delivered as it was built" in blocked(plan, "dkms.peermem")
    assert 'modules = "built"' in blocked(plan, "dkms.peermem")


def ours_as_well(changed: dict[str, Override], place: str) -> dict[str, Override]:
    """The frames that tell of files that earlier runs placed, with one more."""
    line = f"{'0' * 64} 644 0 0 {place}\n"
    return {
        "placed": f"{changed['placed']}{line}",
        "owned": f"{changed['owned']}{place}\n",
    }


SIGNED = "sig_id:         PKCS#7\nsigner:         site\nsig_key:        12:34\n"


@pytest.mark.parametrize(("told", "replaced"), [("", True), (SIGNED, False)])
def test_a_signed_module_of_the_next_kernel_is_not_replaced_by_an_unsigned_one(
    told: str, replaced: bool
) -> None:
    changed = two_kernels()
    changed |= ours_as_well(changed, next_place())
    info = modinfo(next_place(), depends="nvidia,ib_uverbs", version=DRIVER) + told
    changed["all-modinfo"] = str(changed["all-modinfo"]) + info.partition("\n")[2]
    plan = plan_with(changed, build(), build(kernel=NEXT_KERNEL))
    assert paths(plan) == ([next_place()] if replaced else [])


@pytest.mark.parametrize(("told", "replaced"), [("", True), (SIGNED, False)])
def test_a_signed_companion_is_not_replaced_by_an_unsigned_one(told: str, replaced: bool) -> None:
    place = f"/lib/modules/{KERNEL}/updates/gdr-toolkit/gdrdrv.ko"
    info = modinfo(place, depends="nvidia", version="2.4").replace(f"@{place}", "@gdrdrv") + told
    changed = with_delivered() | {"companion-modinfo": info}
    changed |= ours_as_well(changed, place)
    own = {name: crc for name, crc in SYMBOLS.items() if name not in PEERS}
    data = module(version="2.4", symbols=own, depends="nvidia", name="gdrdrv")
    gdrdrv = build(data, part=Part.GDRDRV, name="gdrdrv.ko", version="2.4")
    plan = plan_with(changed, build(), gdrdrv, want=replace(BUILT, companions=("gdrdrv",)))
    assert paths(plan) == ([place] if replaced else [])


def test_on_the_dmabuf_path_it_is_taken_away() -> None:
    plan = plan_with(with_delivered(), want=replace(BUILT, path=PeerPath.DMABUF))
    assert [(each.action, each.path) for each in plan.changes] == [(Action.REMOVE, PLACE)]
    assert [act.call for act in plan.acts] == [f"DEPMOD depmod -a {KERNEL}"]


OLD = PLACE.replace(KERNEL, "5.15.0-100-generic")


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        pytest.param("@5.15.0-100-generic\nimage\n", True, id="still-bootable"),
        pytest.param("@5.15.0-100-generic\n", False, id="its-image-is-gone"),
    ],
)
def test_an_older_kernel_keeps_its_module_as_long_as_it_can_be_booted(
    listed: str, kept: bool
) -> None:
    changed = with_delivered()
    changed |= ours_as_well(changed, OLD)
    changed["kernels"] = str(changed["kernels"]) + listed
    plan = plan_with(changed, build())
    assert (OLD not in [each.path for each in plan.changes]) is kept


def test_a_newer_driver_gets_the_build_for_it() -> None:
    newer = "580.130.01"
    version = str(node({}).text("nvidia-version")).replace(DRIVER, newer)
    told = str(with_delivered()["all-modinfo"])
    nvidia = f"updates/dkms/nvidia.ko\nversion:        {DRIVER}"
    changed = with_delivered() | {
        "nvidia-version": version,
        "all-modinfo": told.replace(nvidia, nvidia.replace(DRIVER, newer)),
    }
    fresh = build(module(version=newer), version=newer)
    plan = plan_with(changed, build(), fresh)
    change = plan.changes[0]
    assert (change.path, change.content) == (PLACE, fresh.files[0].data)
    assert change.old is not None
    assert "in place of sha256" in diff(plan)
