"""The checks on nvidia-peermem: stubs, stale builds, other packagers' names."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    DRIVER,
    KERNEL,
    PEERMEM,
    PEERMEM_INFO,
    SRC,
    UPDATES,
    build_note,
    kernel_block,
    modinfo,
    module_state,
    without_module,
    without_srcversion,
)
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_files import KERNELS_OWN, P2P, PEERS, elf
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name

NOT_FOUND = failed(
    1, f"modprobe: FATAL: Module nvidia-peermem not found in /lib/modules/{KERNEL}\n"
)
NONE: dict[str, Override] = {"peermem-modinfo": "", "peermem-resolve": NOT_FOUND}
UNLOADED = {"module-state": without_module("nvidia_peermem")}
BUILT_IN = {"kallsyms": "ffffffff8a T ib_register_peer_memory_client\n"}
DEBIAN = f"{UPDATES}/nvidia-current-open-peermem.ko"
ON_DEBIAN = {
    "peermem-elf": elf(path=DEBIAN),
    "peermem-modinfo": PEERMEM_INFO.replace(PEERMEM, DEBIAN),
    "peermem-resolve": (
        f"insmod {UPDATES}/nvidia-current-open.ko\n"
        "install modprobe -i nvidia-current-open-peermem $CMDLINE_OPTS\n"
    ),
}


def depends(on: str) -> dict[str, Override]:
    return {"peermem-modinfo": PEERMEM_INFO.replace("nvidia,ib_uverbs", on)}


def on_disk(old: str, new: str) -> dict[str, Override]:
    return {"peermem-modinfo": PEERMEM_INFO.replace(old, new)}


def built(loaded: str, on_disk: str) -> dict[str, Override]:
    """No srcversion is told, and of both a build id that repeats a byte."""
    name = PEERMEM_INFO.partition("\n")[0].removeprefix("@")
    state = f"nvidia_peermem/build:{build_note(loaded * 20)}\n"
    return {
        "module-state": without_srcversion(module_state()) + state,
        "peermem-modinfo": without_srcversion(PEERMEM_INFO)
        + f"@build-ids\n{name}: {build_note(on_disk * 20)}\n",
    }


NV_MEM = "/sys/kernel/mm/memory_peers/nv_mem/version\n"
OLDER = without_module("nvidia_peermem") + "nv_peer_mem/initstate:live\n"
ROWS = [
    Row("healthy", "peermem.file", PASS, PEERMEM),
    Row("behind-debians-install-line", "peermem.file", PASS, DEBIAN, ON_DEBIAN),
    Row(
        "kmod-that-says-usr",
        "peermem.file",
        PASS,
        PEERMEM,
        {"peermem-resolve": f"insmod /usr{PEERMEM}\n"},
    ),
    Row(
        "depmod-not-run",
        "peermem.file",
        FAIL,
        "on disk, but modprobe does not find it",
        {"peermem-resolve": NOT_FOUND},
    ),
    Row(
        "hidden-by-an-install-line",
        "peermem.file",
        NA,
        "see modules.blacklist",
        {
            "peermem-resolve": "install /bin/false\n",
            "modprobe-config": "install nvidia_peermem /bin/false\n",
        },
    ),
    Row(
        "built-for-another-kernel",
        "peermem.file",
        FAIL,
        f"none for {KERNEL}; built for 6.8.0-45-generic",
        {**NONE, "kernels": kernel_block(KERNEL, peermem=False) + kernel_block("6.8.0-45-generic")},
    ),
    Row(
        "built-nowhere",
        "peermem.file",
        FAIL,
        f"none for {KERNEL}",
        {**NONE, "kernels": kernel_block(KERNEL, peermem=False)},
    ),
    Row("modprobe-hangs", "peermem.file", UNKNOWN, "no answer", {"peermem-resolve": TIMEOUT}),
    Row("no-modprobe", "peermem.file", UNKNOWN, "not there", {"peermem-resolve": ABSENT}),
    Row("no-modinfo", "peermem.file", UNKNOWN, "not there", {"peermem-modinfo": ABSENT}),
    Row("dmabuf", "peermem.file", NA, "not part of the dmabuf path", NONE, want=DMABUF),
    Row("real", "peermem.stub", PASS, "depends on ib_uverbs, nvidia"),
    Row("real-with-older-ofed", "peermem.stub", PASS, "ib_core", depends("nvidia,ib_core")),
    Row(
        "depends-on-nothing",
        "peermem.stub",
        FAIL,
        "a stub: it imports nothing",
        {**depends(""), "peermem-elf": elf(KERNELS_OWN, depends="")},
    ),
    Row(
        "debians-stub",
        "peermem.stub",
        FAIL,
        "a stub",
        {
            **ON_DEBIAN,
            "peermem-modinfo": ON_DEBIAN["peermem-modinfo"].replace("nvidia,ib_uverbs", ""),
            "peermem-elf": elf(KERNELS_OWN, depends="", path=DEBIAN),
        },
    ),
    Row("no-rdma-core", "peermem.stub", FAIL, "depends on nvidia only", depends("nvidia")),
    Row(
        "no-rdma-core-to-depend-on",
        "peermem.stub",
        PASS,
        "depends on nvidia",
        {**depends("nvidia"), **BUILT_IN},
    ),
    Row("no-driver", "peermem.stub", FAIL, "depends on ib_uverbs only", depends("ib_uverbs")),
    Row("no-file", "peermem.stub", NA, "see peermem.file", NONE),
    Row("modprobe-hangs", "peermem.stub", UNKNOWN, "no answer", {"peermem-resolve": TIMEOUT}),
    Row("healthy", "peermem.loaded", PASS, f"live, version {DRIVER}"),
    Row("not-loaded", "peermem.loaded", FAIL, "not loaded", UNLOADED),
    Row(
        "half-loaded",
        "peermem.loaded",
        FAIL,
        "in state coming",
        {"module-state": "nvidia_peermem/initstate:coming\n"},
    ),
    Row("sys-not-read", "peermem.loaded", UNKNOWN, "permission", {"module-state": DENIED}),
    Row("held-by-ib_uverbs", "peermem.bound", PASS, "nvidia, ib_uverbs"),
    Row(
        "held-by-ib_core",
        "peermem.bound",
        PASS,
        "nvidia, ib_core",
        {"module-state": module_state(ib_uverbs="mlx5_ib", ib_core="nvidia_peermem")},
    ),
    Row(
        "the-driver-can-be-pulled-away",
        "peermem.bound",
        FAIL,
        "holds ib_uverbs",
        {"module-state": module_state(nvidia="nvidia_uvm")},
    ),
    Row(
        "no-rdma-core",
        "peermem.bound",
        FAIL,
        "holds nvidia",
        {"module-state": module_state(ib_uverbs="mlx5_ib")},
    ),
    Row(
        "rdma-core-in-the-kernel",
        "peermem.bound",
        PASS,
        "holds nvidia",
        {"module-state": module_state(ib_uverbs="mlx5_ib"), **BUILT_IN},
    ),
    Row("not-loaded", "peermem.bound", NA, "not loaded", UNLOADED),
    Row(
        "symbols-not-read",
        "peermem.bound",
        UNKNOWN,
        "not there",
        {"module-state": module_state(ib_uverbs="mlx5_ib"), "kallsyms": ABSENT},
    ),
    Row("the-same", "peermem.loaded_vs_disk", PASS, f"version {DRIVER}, the same on disk"),
    Row(
        "no-driver-to-hold-it-beside",
        "peermem.loaded_vs_disk",
        PASS,
        f"version {DRIVER}, the same on disk",
        {"nvidia-version": ABSENT},
    ),
    Row(
        "rebuilt-since",
        "peermem.loaded_vs_disk",
        FAIL,
        "srcversion",
        on_disk(SRC["nvidia_peermem"], "9999999999999999999999Z"),
    ),
    Row(
        "built-again-and-no-srcversion-tells-it",
        "peermem.loaded_vs_disk",
        FAIL,
        f"build id {'aa' * 20} loaded, {'bb' * 20} on disk",
        built("aa", "bb"),
    ),
    Row("the-same-build", "peermem.loaded_vs_disk", PASS, "the same on disk", built("aa", "aa")),
    Row(
        "neither-tells-which-build-it-is",
        "peermem.loaded_vs_disk",
        UNKNOWN,
        "neither version, srcversion nor build id",
        {"module-state": "nvidia_peermem/initstate:live\nnvidia/initstate:live\n"},
    ),
    Row(
        "of-another-driver",
        "peermem.loaded_vs_disk",
        FAIL,
        "version 550.90.07 on disk, driver 580.126.16 loaded",
        on_disk(DRIVER, "550.90.07"),
    ),
    Row(
        "for-another-kernel",
        "peermem.loaded_vs_disk",
        FAIL,
        "built for 6.8.0-45-generic",
        {
            **on_disk(f"vermagic:       {KERNEL}", "vermagic:       6.8.0-45-generic"),
            "peermem-elf": elf({**P2P, **PEERS, "module_layout": 1}, kernel="6.8.0-45-generic"),
        },
    ),
    Row(
        "of-another-release-whose-srcversion-is-the-same",
        "peermem.loaded_vs_disk",
        FAIL,
        f"version 570.86.15 loaded, beside driver {DRIVER}",
        {
            "module-state": module_state().replace(
                f"nvidia_peermem/version:{DRIVER}", "nvidia_peermem/version:570.86.15"
            )
        },
    ),
    Row(
        "of-another-release-and-no-driver-is-read",
        "peermem.loaded_vs_disk",
        FAIL,
        f"version 570.86.15 loaded, {DRIVER} on disk",
        {
            "nvidia-version": ABSENT,
            "module-state": module_state().replace(
                f"nvidia_peermem/version:{DRIVER}", "nvidia_peermem/version:570.86.15"
            ),
        },
    ),
    Row("removed-since", "peermem.loaded_vs_disk", FAIL, "no longer on disk", NONE),
    Row("not-loaded", "peermem.loaded_vs_disk", NA, "not loaded", UNLOADED),
    Row("no-modinfo", "peermem.loaded_vs_disk", UNKNOWN, "not there", {"peermem-modinfo": ABSENT}),
    *(
        Row(f"{claim}", each, status, "", {"module-state": states, "memory-peers": peers})
        for claim, peers, states, row in (
            ("its-forerunner-serves", NV_MEM, OLDER, (PASS, NA, NA)),
            ("its-forerunner-is-not-seen-to-serve", "", OLDER, (FAIL, FAIL, FAIL)),
            ("both", NV_MEM, module_state() + "nv_peer_mem/initstate:live\n", (PASS, PASS, FAIL)),
        )
        for each, status in zip(
            ("path.selected", "peermem.loaded", "peermem.legacy_conflict"), row, strict=True
        )
    ),
    Row("healthy", "peermem.legacy_conflict", PASS, "no trace"),
    Row(
        "loaded",
        "peermem.legacy_conflict",
        FAIL,
        "nv_peer_mem is loaded",
        {"module-state": module_state() + "nv_peer_mem/initstate:live\n"},
    ),
    Row(
        "its-init-script",
        "peermem.legacy_conflict",
        FAIL,
        "/etc/init.d/nv_peer_mem",
        {"legacy": "/etc/init.d/nv_peer_mem\n"},
    ),
    Row(
        "in-dkms",
        "peermem.legacy_conflict",
        FAIL,
        "dkms: nvidia-peer-memory/1.2",
        {"dkms-status": "nvidia-peer-memory/1.2: added\n"},
    ),
    Row("dkms-hangs", "peermem.legacy_conflict", UNKNOWN, "no answer", {"dkms-status": TIMEOUT}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_peermem(row: Row) -> None:
    holds(row)


def test_what_the_kernel_said_goes_with_a_refused_module() -> None:
    said = "[   12.3] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"
    frames = {**UNLOADED, "dmesg": f"[    1.0] Linux version\n{said}\n"}
    assert judged(Row("", "peermem.loaded", FAIL, "", frames)).finding.details == (said,)


def test_a_kernel_log_that_is_denied_takes_nothing_from_the_verdict() -> None:
    row = Row("", "peermem.loaded", FAIL, "not loaded", {**UNLOADED, "dmesg": failed(1, "x\n")})
    holds(row)
    assert judged(row).finding.details == ()


def test_several_files_are_all_named() -> None:
    other = f"/lib/modules/{KERNEL}/kernel/drivers/video/nvidia-peermem.ko"
    frames = {"peermem-modinfo": PEERMEM_INFO + modinfo(other, depends="nvidia")}
    verdict = judged(Row("", "peermem.file", PASS, "", frames))
    assert verdict.finding.found == PEERMEM
    assert verdict.finding.details == (PEERMEM, other)
