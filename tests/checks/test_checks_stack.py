"""The checks on modules and OFED."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    DRIVER,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    SRC,
    build_note,
    kernel_block,
    modinfo,
    module_state,
    rdma_core,
    without_module,
    without_srcversion,
)
from tests.evidence.frames import ABSENT, TIMEOUT, Override, failed
from tests.evidence.healthy_boot import grub
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.want import Want

# Debian's kernels and OFED's ib_core have no srcversion: what tells them apart is the mark of
# an out-of-tree module, and the build id.
PLAIN = without_srcversion(rdma_core(version="")).replace(
    "mlx5_core.ko\n", "mlx5_core.ko\nversion:        25.10-1.7.1\n"
)
NEWER = PLAIN.replace("25.10-1.7.1", "26.01-0.6.3")
IN_TREE = without_srcversion(rdma_core(f"/lib/modules/{KERNEL}/kernel/x", version="")).replace(
    "license:", "intree:         Y\nlicense:"
)
MARKED = without_srcversion(module_state(taint="OE"))
UNMARKED = without_srcversion(module_state(taint=""))
INBOX_CORE = MARKED.replace("ib_core/taint:OE", "ib_core/taint:")
BUILT = f"{MARKED}ib_core/build:{build_note('aa' * 20)}\n"
SAME_BUILD = f"@build-ids\nib_core: {build_note('aa' * 20)}\n"
OTHER_BUILD = f"@build-ids\nib_core: {build_note('bb' * 20)}\n"
CMDLINE = "BOOT_IMAGE=/boot/vmlinuz ro "
INBOX_FOLDER = f"/lib/modules/{KERNEL}/kernel/drivers/infiniband/core"
INBOX: dict[str, Override] = {
    "ofed-info": ABSENT,
    "dkms-status": "",
    "rdma-modinfo": rdma_core(INBOX_FOLDER, version=""),
}
PREBUILT: dict[str, Override] = {"dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}
NEXT = {"boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL))}
DEBIAN = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n"


def modprobe(*lines: str) -> dict[str, Override]:
    return {"modprobe-config": "".join(line + "\n" for line in lines)}


ROWS = [
    Row("healthy", "modules.blacklist", PASS, "none of them"),
    Row(
        "a-container-left-its-file",
        "modules.blacklist",
        FAIL,
        "mlx5_core: blacklisted; ib_uverbs: blacklisted",
        modprobe("blacklist mlx5_core", "blacklist ib-uverbs", "blacklist ib_umad"),
    ),
    Row(
        "install-to-false",
        "modules.blacklist",
        FAIL,
        "nvidia_peermem: install /bin/false",
        modprobe("install nvidia_peermem /bin/false"),
    ),
    Row(
        "on-the-command-line",
        "modules.blacklist",
        FAIL,
        "mlx5_ib: blacklisted on the kernel command line",
        {"cmdline": CMDLINE + "module_blacklist=nouveau,mlx5-ib\n"},
    ),
    Row(
        "on-the-command-line-for-modprobe",
        "modules.blacklist",
        FAIL,
        "nvidia: blacklisted on the kernel",
        {"cmdline": CMDLINE + "modprobe.blacklist=nvidia\n"},
    ),
    Row("nouveau-may-be", "modules.blacklist", PASS, "none", modprobe("blacklist nouveau")),
    Row("debians-renaming", "modules.blacklist", PASS, "none", {"modprobe-config": DEBIAN}),
    Row(
        "dmabuf-needs-no-peermem",
        "modules.blacklist",
        PASS,
        "none",
        modprobe("blacklist nvidia_peermem"),
        want=DMABUF,
    ),
    Row("no-modprobe", "modules.blacklist", UNKNOWN, "not there", {"modprobe-config": ABSENT}),
    Row("all-of-ofed", "modules.origin", PASS, "all out-of-tree 25.10-1.7.1"),
    Row("all-inbox", "modules.origin", PASS, "all inbox", INBOX),
    Row(
        "mixed",
        "modules.origin",
        FAIL,
        "ib_core inbox",
        {
            "rdma-modinfo": rdma_core().replace(
                rdma_core().split("@ib_core\n")[1].split("\n")[0],
                f"filename:       {INBOX_FOLDER}/ib_core.ko",
            )
        },
    ),
    Row(
        "an-initramfs-loaded-others",
        "modules.origin",
        FAIL,
        "loaded from elsewhere than on disk: mlx5_core, mlx5_ib",
        {"rdma-modinfo": rdma_core(suffix="X")},
    ),
    Row(
        "built-in-beside-inbox",
        "modules.origin",
        PASS,
        "all inbox",
        {
            **INBOX,
            "rdma-modinfo": "@ib_core\nfilename:       (builtin)\n"
            + modinfo(
                f"{INBOX_FOLDER}/mlx5_ib.ko", depends="ib_core", srcversion=SRC["mlx5_ib"]
            ).replace(f"@{INBOX_FOLDER}/mlx5_ib.ko", "@mlx5_ib"),
        },
    ),
    *(
        Row(claim, "modules.origin", status, found, {"module-state": loaded, "rdma-modinfo": disk})
        for claim, status, found, loaded, disk in (
            ("ofeds-own", PASS, "all out-of-tree", MARKED, PLAIN),
            ("the-kernels-own-loaded", FAIL, "on disk: ib_core", INBOX_CORE, PLAIN),
            ("ofed-loaded-and-gone-from-disk", FAIL, "mlx5_core, mlx5_ib, ib", MARKED, IN_TREE),
            ("the-kernels-own", PASS, "all inbox", UNMARKED, IN_TREE),
            ("another-build-of-ofed", FAIL, "on disk: ib_core", BUILT, PLAIN + OTHER_BUILD),
            ("the-same-build-of-ofed", PASS, "out-of-tree", BUILT, PLAIN + SAME_BUILD),
            ("another-version-of-ofed", FAIL, "on disk: mlx5_core", MARKED, NEWER),
        )
    ),
    Row(
        "the-kernel-refused-one-of-another-stack",
        "modules.origin",
        FAIL,
        "ib_uverbs was refused",
        {
            "module-state": without_module("ib_uverbs"),
            "dmesg": "ib_uverbs: Unknown symbol ib_dealloc_pd_user (err -22)\n",
        },
    ),
    Row("none-on-disk", "modules.origin", NA, "no RDMA module", {"rdma-modinfo": "@ib_core\n"}),
    Row("no-modinfo", "modules.origin", UNKNOWN, "not there", {"rdma-modinfo": ABSENT}),
    Row("doca-ofed-that-says-internal", "ofed.flavor", PASS, "doca-ofed 25.10-1.7.1"),
    Row(
        "mlnx-ofed",
        "ofed.flavor",
        PASS,
        "mlnx-ofed 24.10-2.1.8.0",
        {
            "ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n",
            "rdma-modinfo": rdma_core(version="24.10-2.1.8"),
        },
        want=Want(ofed="mlnx-ofed"),
    ),
    Row(
        "user-space-of-another-release",
        "ofed.flavor",
        FAIL,
        "user space of mlnx-ofed 24.10-2.1.8.0, modules of 25.10-1.7.1",
        {"ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n"},
    ),
    Row(
        "another-build-of-the-same-release",
        "ofed.flavor",
        PASS,
        "mlnx-ofed 25.10-1.6.1.0",
        {"ofed-info": "MLNX_OFED_LINUX-25.10-1.6.1.0:\n"},
    ),
    Row(
        "modules-without-a-version",
        "ofed.flavor",
        PASS,
        "mlnx-ofed 24.10-2.1.8.0",
        {
            "ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n",
            "rdma-modinfo": without_srcversion(rdma_core(version="")),
        },
    ),
    Row("inbox", "ofed.flavor", PASS, "inbox", INBOX, want=Want(ofed="inbox")),
    Row("not-the-wanted", "ofed.flavor", FAIL, "doca-ofed", want=Want(ofed="mlnx-ofed")),
    Row(
        "inbox-where-ofed-is-wanted",
        "ofed.flavor",
        FAIL,
        "inbox",
        INBOX,
        want=Want(ofed="doca-ofed"),
    ),
    Row(
        "half-removed",
        "ofed.flavor",
        FAIL,
        "ib_core on disk is the inbox one",
        {"rdma-modinfo": rdma_core(INBOX_FOLDER, version="")},
    ),
    Row(
        "ubuntus-own-package-without-ofed_info",
        "ofed.flavor",
        PASS,
        "doca-ofed",
        {"ofed-info": ABSENT, "dkms-status": f"doca-ofed/26.01, {KERNEL}, x86_64: installed\n"},
    ),
    Row("no-version", "ofed.flavor", UNKNOWN, "cannot read", {"ofed-info": "nothing here\n"}),
    Row("ofed_info-fails", "ofed.flavor", UNKNOWN, "status 1", {"ofed-info": failed(1)}),
    Row("healthy", "ofed.kernel_match", PASS, f"installed for {KERNEL}"),
    Row("inbox", "ofed.kernel_match", NA, "part of the kernel", INBOX),
    Row("not-for-the-next", "ofed.kernel_match", FAIL, f"not installed for {NEXT_KERNEL}", NEXT),
    Row(
        "compiled-and-not-installed",
        "ofed.kernel_match",
        FAIL,
        f"not installed for {KERNEL}",
        {"dkms-status": f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: built\n"},
    ),
    Row(
        "rpm-name-and-weak",
        "ofed.kernel_match",
        PASS,
        "mlnx-ofa_kernel: installed",
        {"dkms-status": f"mlnx-ofa_kernel, 25.10, {KERNEL}, x86_64: installed-weak from 5.14\n"},
    ),
    Row("prebuilt", "ofed.kernel_match", PASS, "doca-ofed 25.10-1.7.1: installed", PREBUILT),
    Row(
        "prebuilt-for-another",
        "ofed.kernel_match",
        FAIL,
        f"not installed for {KERNEL}",
        {**PREBUILT, "kernels": f"@{KERNEL}\nimage\n" + kernel_block(NEXT_KERNEL)},
    ),
    Row("dkms-hangs", "ofed.kernel_match", UNKNOWN, "no answer", {"dkms-status": TIMEOUT}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_stack(row: Row) -> None:
    holds(row)


def test_a_blacklist_is_shown_with_file_and_line() -> None:
    line = "blacklist mlx5_core"
    frames = {"modprobe-config": f"{line}\n", "modprobe-files": f"blacklist-ofed.conf:{line}\nx:\n"}
    finding = judged(Row("", "modules.blacklist", FAIL, "", frames)).finding
    assert finding.details == (f"/etc/modprobe.d/blacklist-ofed.conf: {line}",)


@pytest.mark.parametrize("word", ["module_blacklist", "modprobe.blacklist", "rd.driver.blacklist"])
def test_each_word_that_keeps_a_module_from_loading_is_seen(word: str) -> None:
    told: dict[str, Override] = {"cmdline": f"{CMDLINE}{word}=nvidia\n"}
    holds(Row("", "modules.blacklist", FAIL, "nvidia: blacklisted on the kernel", told))
