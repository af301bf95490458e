"""The checks on builds, DKMS and OFED's place on disk: what each says of what differs."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    CONFIG,
    DRIVER,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    PEERMEM_INFO,
    kernel_block,
    modinfo,
    rdma_core,
)
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_boot import grub
from tests.evidence.healthy_builds import listing
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name

TREE = "/var/lib/dkms/nvidia\ncalled by:\n"
UNIT = "/usr/lib/systemd/system/dkms.service"
NO_DKMS: dict[str, Override] = {"dkms-status": ""}
INBOX: dict[str, Override] = {
    "ofed-info": ABSENT,
    "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
    "rdma-modinfo": rdma_core(f"/lib/modules/{KERNEL}/kernel/drivers", version=""),
    "sources": "",
    "symvers": "",
    "dkms-tree": "",
}
NEXT: dict[str, Override] = {"boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL))}


def config(version: str, *more: str) -> dict[str, Override]:
    lines = [f'CONFIG_CC_VERSION_TEXT="{version}"', *more]
    return {"kernel-config": "".join(f"{line}\n" for line in lines)}


def gcc(major: str, *tools: str) -> dict[str, Override]:
    return {"gcc-version": f"{major}.2.0\n", "tools": "".join(f"{t}\n" for t in tools)}


GCC12 = config("x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0")
CLANG = config("Ubuntu clang version 18.1.3 (1ubuntu1)")
ALL_TOOLS = ("gcc", "g++", "make", "ld")

COMPILER = [
    Row("healthy", "kernel.compiler", PASS, "gcc 11"),
    Row("the-kernels-own-beside-an-older", "kernel.compiler", PASS, "gcc-12",
        GCC12 | gcc("11", *ALL_TOOLS, "x86_64-linux-gnu-gcc-12")),
    Row("older-than-the-kernels", "kernel.compiler", FAIL, "gcc 11", GCC12 | gcc("11", *ALL_TOOLS)),
    Row("newer-only-warns", "kernel.compiler", PASS, "gcc 13", GCC12 | gcc("13", *ALL_TOOLS)),
    Row("newer-on-a-kernel-with-plugins", "kernel.compiler", FAIL, "gcc 13",
        config("gcc (GCC) 12.2.1 20230111", "CONFIG_GCC_PLUGINS=y", "CONFIG_RANDSTRUCT=y")
        | gcc("13", *ALL_TOOLS)),
    Row("red-hat-writes-two-brackets", "kernel.compiler", PASS, "gcc 11",
        config("gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-2)")),
    Row("none", "kernel.compiler", FAIL, "gcc is missing", {"tools": "make\n"}),
    Row("neither", "kernel.compiler", FAIL, "make and gcc are missing", {"tools": ""}),
    Row("no-make", "kernel.compiler", FAIL, "make is missing", {"tools": "gcc\ng++\n"}),
    Row("clang-kernel-with-gcc", "kernel.compiler", FAIL, "clang is missing", CLANG),
    Row("clang-kernel-with-clang", "kernel.compiler", PASS, "clang",
        CLANG | {"tools": "clang\nmake\nld\n"}),
    Row("nothing-is-built", "kernel.compiler", NA, "nothing on this node", NO_DKMS),
    Row("no-config", "kernel.compiler", UNKNOWN, "not there", {"kernel-config": ABSENT}),
    Row("config-without-the-line", "kernel.compiler", UNKNOWN, "no CONFIG_CC_VERSION_TEXT",
        {"kernel-config": "CONFIG_MODVERSIONS=y\n"}),
    Row("another-compiler", "kernel.compiler", UNKNOWN, "cannot read", config("icc 2021.1")),
    Row("gcc-hangs", "kernel.compiler", UNKNOWN, "no answer", {"gcc-version": TIMEOUT}),
]  # fmt: skip

KERNEL_ROWS = [
    Row("healthy", "kernel.preempt_rt", PASS, "off"),
    Row("real-time", "kernel.preempt_rt", FAIL, "CONFIG_PREEMPT_RT=y",
        {"kernel-config": CONFIG + "CONFIG_PREEMPT_RT=y\n"}),
    Row("nothing-is-built", "kernel.preempt_rt", NA, "nothing on this node", NO_DKMS),
    Row("not-read", "kernel.preempt_rt", UNKNOWN, "permission", {"kernel-config": DENIED}),
    Row("not-needed-for-rdma", "kernel.config.p2pdma", NA, "not needed for RDMA",
        {"kernel-config": "# CONFIG_PCI_P2PDMA is not set\n"}),
    Row("asked-for-and-on", "kernel.config.p2pdma", PASS, "=y",
        {"cufile": 'etc/cufile.json:  "use_pci_p2pdma": true,\n'}),
    Row("asked-for-and-off", "kernel.config.p2pdma", FAIL, "CONFIG_PCI_P2PDMA=n",
        {"cufile": 'etc/cufile.json:  "use_pci_p2pdma": true,\n',
         "kernel-config": "# CONFIG_PCI_P2PDMA is not set\n"}),
    Row("asked-for-and-not-read", "kernel.config.p2pdma", UNKNOWN, "not there",
        {"cufile": 'etc/cufile.json:  "use_pci_p2pdma": true,\n', "kernel-config": ABSENT}),
    Row("ofeds-own", "kernel.initrd_rdma", PASS, "holds OFED's mlx5_core"),
    Row("inbox-in-it", "kernel.initrd_rdma", FAIL, "holds the inbox mlx5_core, mlx5_ib, ib_core",
        {"initramfs": listing(folder="kernel/drivers/net")}),
    Row("as-lsinitrd-lists-it", "kernel.initrd_rdma", FAIL, "holds the inbox ib_core",
        {"initramfs": "-rw-r--r--   1 root     root        94210 Jan  1  1970 "
         f"usr/lib/modules/{KERNEL}/kernel/drivers/infiniband/core/ib_core.ko.xz\n"}),
    Row("none-in-it", "kernel.initrd_rdma", PASS, "holds no RDMA module",
        {"initramfs": f"usr/lib/modules/{KERNEL}/modules.dep\n"}),
    Row("a-blacklist-that-is-gone", "kernel.initrd_rdma", FAIL, "blacklist-ofed-modules.conf",
        {"initramfs": "etc/modprobe.d/blacklist-ofed-modules.conf\n" + listing()}),
    Row("a-blacklist-that-is-there", "kernel.initrd_rdma", PASS, "holds OFED's",
        {"initramfs": listing(KERNEL, "updates/dkms", "etc/modprobe.d/blacklist.conf"),
         "modprobe-files": "blacklist.conf:blacklist pcspkr\n"}),
    Row("that-of-the-next-boot", "kernel.initrd_rdma", FAIL, f"of {NEXT_KERNEL} holds the inbox",
        NEXT | {"initramfs-next": listing(NEXT_KERNEL, "kernel/drivers")}),
    Row("the-next-boots-was-not-listed", "kernel.initrd_rdma", UNKNOWN, "not among those",
        NEXT | {"initramfs-next": listing("5.15.0-100-generic")}),
    Row("older-than-ofed", "kernel.initrd_rdma", FAIL, "is older than mlx5_core on disk",
        {"initramfs": listing()
            + f"newer /lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko.zst\n"}),
    Row("older-than-what-it-does-not-hold", "kernel.initrd_rdma", PASS, "holds OFED's",
        {"initramfs": listing()
            + f"newer /lib/modules/{KERNEL}/updates/dkms/ib_uverbs.ko\n"}),
    Row("from-another-folder", "kernel.initrd_rdma", FAIL, "other files than modprobe would load",
        {"initramfs": listing(folder="extra/mlnx")}),
    Row("by-way-of-weak-updates", "kernel.initrd_rdma", PASS, "holds OFED's",
        {"initramfs": listing(folder="weak-updates/mlnx")}),
    Row("no-image", "kernel.initrd_rdma", UNKNOWN, "was not listed", {"initramfs": ABSENT}),
    Row("for-root-alone", "kernel.initrd_rdma", UNKNOWN, "status 1", {"initramfs": failed(1)}),
    Row("inbox-stack", "kernel.initrd_rdma", NA, "no RDMA stack beside", INBOX),
]  # fmt: skip

DKMS = [
    Row("healthy", "dkms.present", PASS, "3.2.2"),
    Row("debian-12", "dkms.present", PASS, "3.0.10", {"dkms-version": "dkms-3.0.10\n"}),
    Row("ubuntu-20.04", "dkms.present", PASS, "2.8.1", {"dkms-version": "dkms: 2.8.1\n"}),
    Row("too-old-for-the-rpm", "dkms.present", FAIL, "3.1.8, with mlnx-ofa_kernel",
        {"dkms-version": "dkms-3.1.8\n",
         "dkms-status": f"mlnx-ofa_kernel/25.10, {KERNEL}, x86_64: installed\n"}),
    Row("no-autoinstall", "dkms.present", FAIL, "no-autoinstall",
        {"dkms-tree": "/etc/dkms/no-autoinstall\n/var/lib/dkms/nvidia\n"}),
    Row("called-by-a-hook", "dkms.present", PASS, "3.2.2",
        {"dkms-tree": TREE + "/etc/kernel/postinst.d/dkms\n"}),
    Row("called-at-boot", "dkms.present", PASS, "3.2.2", {"dkms-tree": TREE
        + f"{UNIT}\n/etc/systemd/system/multi-user.target.wants/dkms.service -> {UNIT}\n"}),
    Row("called-by-nothing", "dkms.present", FAIL, "nothing calls it", {"dkms-tree": TREE}),
    Row("called-by-a-hook-and-its-unit-is-not-enabled", "dkms.present", PASS, "3.2.2",
        {"dkms-tree": f"{TREE}/etc/kernel/postinst.d/dkms\n{UNIT}\n"}),
    *(Row(f"version-{version}", "dkms.present", PASS, version,
          {"dkms-version": f"dkms-{version}\n"}) for version in ("3.1.3", "3.1.4", "3.2.0")),
    Row("new-enough-for-the-rpm", "dkms.present", PASS, "3.2.0",
        {"dkms-version": "dkms-3.2.0\n",
         "dkms-status": f"mlnx-ofa_kernel/25.10, {KERNEL}, x86_64: installed\n"}),
    Row("its-unit-is-not-enabled", "dkms.present", FAIL, "nothing calls it",
        {"dkms-tree": f"{TREE}{UNIT}\n"}),
    Row("sources-without-it", "dkms.present", FAIL, "no dkms, but sources for it: nvidia",
        {"dkms-version": ABSENT, "dkms-status": ABSENT}),
    Row("not-used", "dkms.present", NA, "nothing on this node",
        {"dkms-version": ABSENT, "dkms-status": ABSENT, "dkms-confs": ""}),
    Row("nothing-registered", "dkms.present", NA, "nothing on this node", NO_DKMS),
    Row("no-version", "dkms.present", UNKNOWN, "cannot read", {"dkms-version": "dkms\n"}),
    Row("hangs", "dkms.present", UNKNOWN, "no answer", {"dkms-version": TIMEOUT}),
    Row("healthy", "dkms.state", PASS, f"mlnx-ofed-kernel, nvidia: installed for {KERNEL}"),
    Row("differences-are-no-failure", "dkms.state", PASS, "nvidia",
        {"dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed"
         " (Differences between built and installed modules)\n"}),
    Row("files-are-gone", "dkms.state", FAIL, "Missing some",
        {"dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed"
         " (WARNING! Missing some built modules!)\n"}),
    Row("files-of-an-old-kernel-are-gone", "dkms.state", PASS, "nvidia: installed",
        {"dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"
         f"nvidia/{DRIVER}, 5.4.0-1-generic, x86_64: installed"
         " (Built modules are missing in the kernel modules folder)\n"}),
    Row("built-is-not-installed", "dkms.state", FAIL, f"mlnx-ofed-kernel, {KERNEL}: built",
        {"dkms-status": f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: built\n"}),
    Row("added-is-not-built", "dkms.state", FAIL, f"mlnx-ofed-kernel, {KERNEL}: added",
        {"dkms-status": f"mlnx-ofed-kernel/{OFED}: added\n",
         "kernels": kernel_block(KERNEL).replace("updates/dkms/ib_core", "kernel/ib_core")}),
    Row("an-old-version-that-is-only-added", "dkms.state", PASS, "nvidia: installed",
        {"dkms-status": f"nvidia/535.1: added\nnvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    Row("prebuilt-modules-beside-a-source", "dkms.state", PASS, "installed",
        {"dkms-status": f"nvidia/{DRIVER}: added\n"}),
    *(Row(f"ready-made-beside-{source}", "dkms.state", PASS, f"{source}: installed",
          {"dkms-status": f"{source}/{DRIVER}: added\n"})
      for source in ("nvidia-open", "nvidia-current", "nvidia-current-open")),
    *(Row(f"nothing-ready-made-beside-{source}", "dkms.state", FAIL, f"{source}, {KERNEL}: added",
          {"dkms-status": f"{source}/{DRIVER}: added\n",
           "kernels": kernel_block(KERNEL, nvidia=source == "nvidia-fs")})
      for source in ("nvidia", "nvidia-open", "nvidia-current", "nvidia-fs")),
    Row("broken", "dkms.state", FAIL, "knem/1.1: broken",
        {"dkms-status": f"knem/1.1: broken\nnvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    Row("two-versions", "dkms.state", FAIL, "535.1 and 580.126.16 installed",
        {"dkms-status": f"nvidia/535.1, {KERNEL}, x86_64: installed\n"
         f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    Row("weak", "dkms.state", PASS, "mlnx-ofa_kernel: installed",
        {"dkms-status": f"mlnx-ofa_kernel, 25.10, {KERNEL}, x86_64: installed-weak from 5.14\n"}),
    Row("not-for-the-next-kernel", "dkms.state", FAIL, f"nvidia, {NEXT_KERNEL}: not built",
        NEXT | {"kernels": kernel_block(NEXT_KERNEL, nvidia=False) + kernel_block(KERNEL)}),
    Row("others-do-not-matter", "dkms.state", NA, "nothing of GPUDirect",
        {"dkms-status": "v4l2loopback/0.12: added\n"}),
    Row("hangs", "dkms.state", UNKNOWN, "no answer", {"dkms-status": TIMEOUT}),
    Row("no-boot-menu", "dkms.state", UNKNOWN, "no entry that boots", {"boot-entries": ""}),
    Row("healthy", "dkms.owner_conflict", PASS, "nvidia"),
    Row("two-packages", "dkms.owner_conflict", FAIL, "nvidia and nvidia-peermem both build",
        {"dkms-confs": f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia-peermem"\n'
         f'nvidia-peermem-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia-peermem"\n',
         "dkms-status": f"nvidia/{DRIVER}: added\nnvidia-peermem/{DRIVER}: added\n"}),
    Row("a-source-that-is-not-registered", "dkms.owner_conflict", PASS, "nvidia",
        {"dkms-confs": f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia-peermem"\n'
         'nvidia-open-1.0/dkms.conf:BUILT_MODULE_NAME[0]="nvidia-peermem"\n'}),
    Row("prebuilt-beside-dkms", "dkms.owner_conflict", FAIL, "2 files",
        {"peermem-modinfo": PEERMEM_INFO
         + modinfo(f"/lib/modules/{KERNEL}/kernel/nvidia/nvidia-peermem.ko", depends="nvidia")}),
    Row("a-weak-link-is-no-second-file", "dkms.owner_conflict", PASS, "nvidia",
        {"peermem-modinfo": PEERMEM_INFO
         + modinfo(f"/lib/modules/{KERNEL}/weak-updates/nvidia-peermem.ko", depends="nvidia")}),
    Row("not-by-dkms", "dkms.owner_conflict", NA, "no DKMS package", {"dkms-confs": ""}),
    Row("dmabuf", "dkms.owner_conflict", NA, "dmabuf path", want=DMABUF),
    Row("not-read", "dkms.owner_conflict", UNKNOWN, "permission", {"dkms-confs": DENIED}),
]  # fmt: skip


def log(*lines: str, kernel: str = KERNEL, module: str = "nvidia", version: str = "590.1") -> str:
    """One block of the frame "dkms-failures"."""
    first = f"first: DKMS make.log for {module}-{version} for kernel {kernel} (x86_64)"
    body = (f"@/var/lib/dkms/{module}/{version}/build/make.log", first, *lines)
    return "".join(f"{line}\n" for line in (*body, f"last: {lines[-1] if lines else ''}"))


FTRIVIAL = "cc: error: unrecognized command-line option ‘-ftrivial-auto-var-init=zero’"
UNBUILT: dict[str, Override] = {"dkms-status": "nvidia/590.1: added\n"}
FAILURE = [
    Row("healthy", "dkms.last_failure", PASS, "no failed build"),
    Row("gcc", "dkms.last_failure", FAIL, "the compiler is older",
        UNBUILT | {"dkms-failures": log(FTRIVIAL)}),
    Row("without-a-known-cause", "dkms.last_failure", FAIL, "the build stopped: make: *** [all]",
        UNBUILT | {"dkms-failures": log("make: *** [all] Error 2")}),
    Row("installed-all-the-same", "dkms.last_failure", PASS, "old ones",
        {"dkms-failures": log(FTRIVIAL)}),
    Row("for-a-kernel-that-nobody-boots", "dkms.last_failure", PASS, "old ones",
        UNBUILT | {"dkms-failures": log(FTRIVIAL, kernel="5.4.0-1-generic")}),
    Row("for-the-next-kernel", "dkms.last_failure", FAIL, f"nvidia/590.1 for {NEXT_KERNEL}",
        NEXT | {"dkms-failures": log(FTRIVIAL, kernel=NEXT_KERNEL)}),
    Row("since-dkms-3.1-the-head-differs", "dkms.last_failure", FAIL, "g++ is missing",
        UNBUILT | {"dkms-failures": "@/var/lib/dkms/nvidia/590.1/build/make.log\n"
         f"first: DKMS (nvidia-590.1) for kernel {KERNEL} (x86_64)\n"
         "/bin/sh: 1: g++: not found\nlast: # exit code: 2\n"}),
    Row("no-dkms", "dkms.last_failure", NA, "nothing on this node",
        {"dkms-failures": ABSENT, "dkms-status": ABSENT}),
    Row("for-root-alone", "dkms.last_failure", UNKNOWN, "permission denied",
        {"dkms-failures": "@/var/lib/dkms/nvidia/590.1/build/make.log\nunreadable\n"}),
    Row("denied", "dkms.last_failure", UNKNOWN, "permission", {"dkms-failures": DENIED}),
]  # fmt: skip
ROWS = [*COMPILER, *KERNEL_ROWS, *DKMS, *FAILURE]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_builds(row: Row) -> None:
    holds(row)


def test_old_dkms_is_told_what_it_does_not_do() -> None:
    row = Row("", "dkms.present", PASS, "", {"dkms-version": "dkms-3.0.10\n"})
    assert len(judged(row).finding.details) == 2


def test_what_is_not_installed_gets_its_command() -> None:
    row = Row("", "dkms.state", FAIL, "", {
        "dkms-status": f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: built\n"
    })  # fmt: skip
    assert judged(row).finding.hint == f"dkms install mlnx-ofed-kernel/{OFED} -k {KERNEL}"


def test_files_that_are_gone_are_built_again_and_no_folder_is_named_after_a_line() -> None:
    row = next(each for each in ROWS if each.claim == "files-are-gone")
    again = f"nvidia/{DRIVER} -k {KERNEL}"
    assert judged(row).finding.hint == (
        f"see that it builds (./invokew build --on NODE --kernel {KERNEL}), "
        f"then dkms build {again} && dkms install --force {again}"
    )
