"""The checks on the kernel: what each says of nodes that differ in one thing."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    CONFIG,
    KERNEL,
    NEXT_KERNEL,
    PEERMEM_INFO,
    PROPRIETARY,
    UPDATES,
    kernel_block,
    modinfo,
)
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_boot import grub
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name

OLD_DRIVER = PROPRIETARY.replace("580.126.16", "550.90.07")
BACKPORT = "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n"
INBOX: dict[str, Override] = {"ofed-info": ABSENT, "dkms-status": "", "rdma-modinfo": "@ib_core\n"}
NEXT = {"boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL))}
SIGNED = {
    "nvidia-modinfo": modinfo(f"{UPDATES}/nvidia.ko", depends="", signer="gpu01 MOK"),
    "peermem-modinfo": PEERMEM_INFO + "signer:         gpu01 MOK\n",
}
LOCKED = {"lockdown": "none [integrity] confidentiality\n"}

IN_POD = (
    "driver-root:/run/nvidia/driver\nrun/nvidia/validations/driver-ready:IS_HOST_DRIVER=false\n"
)
ROWS = [
    Row("healthy", "kernel.version", PASS, KERNEL),
    Row(
        "el7-with-an-older-driver",
        "kernel.version",
        PASS,
        "3.10.0",
        {"kernel-release": "3.10.0-1160.el7.x86_64\n", "nvidia-version": OLD_DRIVER},
    ),
    Row(
        "el7-with-branch-580",
        "kernel.version",
        FAIL,
        "3.10.0",
        {"kernel-release": "3.10.0-1160.el7.x86_64\n"},
    ),
    Row(
        "el7-without-driver",
        "kernel.version",
        PASS,
        "3.10.0",
        {"kernel-release": "3.10.0-1160.el7.x86_64\n", "nvidia-version": ABSENT},
    ),
    Row("dmabuf-on-5.15", "kernel.version", PASS, KERNEL, want=DMABUF),
    Row(
        "dmabuf-backported-by-rhel",
        "kernel.version",
        PASS,
        "backported",
        {"kernel-release": "4.18.0-553.el8_10.x86_64\n", "kallsyms": BACKPORT},
        want=DMABUF,
    ),
    Row(
        "dmabuf-on-5.4",
        "kernel.version",
        FAIL,
        "without dma-buf registration",
        {"kernel-release": "5.4.0-97-generic\n"},
        want=DMABUF,
    ),
    Row(
        "dmabuf-on-5.4-symbols-not-read",
        "kernel.version",
        UNKNOWN,
        "kallsyms: not there",
        {"kernel-release": "5.4.0-97-generic\n", "kallsyms": ABSENT},
        want=DMABUF,
    ),
    Row("unreadable", "kernel.version", UNKNOWN, "kernel-release", {"kernel-release": DENIED}),
    Row("healthy", "kernel.headers", PASS, f"complete for {KERNEL}"),
    Row(
        "empty-symvers",
        "kernel.headers",
        FAIL,
        "Module.symvers",
        {"headers": "Makefile present\nModule.symvers missing\n"},
    ),
    Row("no-dkms", "kernel.headers", NA, "nothing on this node", {"dkms-status": ABSENT}),
    Row("no-dkms-module", "kernel.headers", NA, "nothing on this node", {"dkms-status": ""}),
    Row("dkms-hangs", "kernel.headers", UNKNOWN, "no answer in time", {"dkms-status": TIMEOUT}),
    Row("dkms-fails", "kernel.headers", UNKNOWN, "ended with status 4", {"dkms-status": failed(4)}),
    Row("the-same-kernel", "kernel.pending_reboot", PASS, f"{KERNEL} again"),
    Row(
        "a-new-kernel-with-its-modules",
        "kernel.pending_reboot",
        PASS,
        f"starts {NEXT_KERNEL}, which has the modules",
        {**NEXT, "kernels": kernel_block(NEXT_KERNEL) + kernel_block(KERNEL)},
    ),
    Row(
        "a-new-kernel-without-peermem",
        "kernel.pending_reboot",
        FAIL,
        f"starts {NEXT_KERNEL}, which lacks nvidia-peermem",
        {**NEXT, "kernels": kernel_block(NEXT_KERNEL, peermem=False) + kernel_block(KERNEL)},
    ),
    Row(
        "dmabuf-needs-no-peermem",
        "kernel.pending_reboot",
        PASS,
        NEXT_KERNEL,
        {**NEXT, "kernels": kernel_block(NEXT_KERNEL, peermem=False)},
        want=DMABUF,
    ),
    Row(
        "dmabuf-needs-the-driver",
        "kernel.pending_reboot",
        FAIL,
        "lacks nvidia",
        {**NEXT, "kernels": kernel_block(NEXT_KERNEL, nvidia=False)},
        want=DMABUF,
    ),
    Row(
        "rdma-built-in",
        "kernel.pending_reboot",
        PASS,
        NEXT_KERNEL,
        {
            **NEXT,
            "kernels": f"@{NEXT_KERNEL}\nimage\n/lib/modules/{NEXT_KERNEL}/extra/nvidia.ko\n",
            "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_INFINIBAND=y\nCONFIG_MLX5_CORE=y\n",
        },
        want=DMABUF,
    ),
    *(
        Row(
            f"a-pod-brings-the-driver-{status}",
            "kernel.pending_reboot",
            status,
            found,
            {**NEXT, "kernels": kernels, "containers": IN_POD},
        )
        for status, found, kernels in (
            (PASS, NEXT_KERNEL, kernel_block(NEXT_KERNEL, peermem=False, nvidia=False)),
            (FAIL, "lacks ib_core, mlx5_core", f"@{NEXT_KERNEL}\nimage\n"),
        )
    ),
    Row("no-modules-at-all", "kernel.pending_reboot", FAIL, "no modules at all", NEXT),
    Row(
        "grub-reboot-once",
        "kernel.pending_reboot",
        FAIL,
        NEXT_KERNEL,
        {
            "boot-entries": grub(kernels=(KERNEL, NEXT_KERNEL)),
            "grub-env": f"next_entry=gnulinux-advanced-1>gnulinux-{NEXT_KERNEL}-advanced-1\n",
        },
    ),
    Row("no-menu", "kernel.pending_reboot", UNKNOWN, "no entry that boots", {"boot-entries": ""}),
    Row(
        "saved-entry-not-read",
        "kernel.pending_reboot",
        UNKNOWN,
        "no entry that boots",
        {"boot-entries": grub().replace('default="0"', 'default="${saved_entry}"')}
        | {"grub-env": ABSENT},
    ),
    Row(
        "arch-names-no-release",
        "kernel.pending_reboot",
        UNKNOWN,
        "kernel release: cannot read: 'linux'",
        {"boot-entries": grub(kernels=("linux",))},
    ),
    Row("on", "kernel.config.dmabuf", PASS, "=y", want=DMABUF),
    Row(
        "off",
        "kernel.config.dmabuf",
        FAIL,
        "CONFIG_DMA_SHARED_BUFFER=n",
        {"kernel-config": "# CONFIG_DMA_SHARED_BUFFER is not set\n"},
        want=DMABUF,
    ),
    Row(
        "p2pdma-is-not-needed",
        "kernel.config.dmabuf",
        PASS,
        "=y",
        {"kernel-config": CONFIG.replace("CONFIG_PCI_P2PDMA=y", "# CONFIG_PCI_P2PDMA is not set")},
        want=DMABUF,
    ),
    Row(
        "no-config",
        "kernel.config.dmabuf",
        UNKNOWN,
        "not there",
        {"kernel-config": ABSENT},
        want=DMABUF,
    ),
    Row("peermem", "kernel.config.dmabuf", NA, "not part of the peermem path"),
    Row("ofed", "kernel.config.infiniband", NA, "brings its own RDMA stack"),
    Row("inbox", "kernel.config.infiniband", PASS, "all options", INBOX),
    Row(
        "inbox-without-uverbs",
        "kernel.config.infiniband",
        FAIL,
        "CONFIG_INFINIBAND_USER_ACCESS",
        {**INBOX, "kernel-config": "CONFIG_INFINIBAND=m\n"},
    ),
    Row(
        "inbox-dmabuf-without-odp",
        "kernel.config.infiniband",
        FAIL,
        "off: CONFIG_INFINIBAND_ON_DEMAND_PAGING",
        {**INBOX, "kernel-config": CONFIG.replace("ON_DEMAND_PAGING=y", "OTHER=y")},
        want=DMABUF,
    ),
    Row(
        "inbox-peermem-needs-no-odp",
        "kernel.config.infiniband",
        PASS,
        "all options",
        {**INBOX, "kernel-config": CONFIG.replace("ON_DEMAND_PAGING=y", "OTHER=y")},
    ),
    Row(
        "no-config",
        "kernel.config.infiniband",
        UNKNOWN,
        "kernel-config: not there",
        {**INBOX, "kernel-config": ABSENT},
    ),
    Row("none", "kernel.lockdown", PASS, "none"),
    Row("no-such-file", "kernel.lockdown", PASS, "none", {"lockdown": ABSENT}),
    Row(
        "hidden-under-secure-boot",
        "kernel.lockdown",
        UNKNOWN,
        "not there, and Secure Boot is on",
        {"lockdown": ABSENT, "efi-secureboot": "   1\n"},
    ),
    Row("unsigned", "kernel.lockdown", FAIL, "unsigned: nvidia, nvidia_peermem", LOCKED),
    Row("signed", "kernel.lockdown", PASS, "signed by gpu01 MOK", {**LOCKED, **SIGNED}),
    Row(
        "one-unsigned",
        "kernel.lockdown",
        FAIL,
        "unsigned: nvidia_peermem",
        {**LOCKED, "nvidia-modinfo": SIGNED["nvidia-modinfo"]},
    ),
    Row(
        "dmabuf-needs-no-signed-peermem",
        "kernel.lockdown",
        PASS,
        "integrity",
        {**LOCKED, "nvidia-modinfo": SIGNED["nvidia-modinfo"]},
        want=DMABUF,
    ),
    Row("unreadable", "kernel.lockdown", UNKNOWN, "permission denied", {"lockdown": DENIED}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_kernel(row: Row) -> None:
    holds(row)


def test_a_kernel_without_modules_gets_a_command() -> None:
    row = Row("", "kernel.pending_reboot", FAIL, "", NEXT)
    assert judged(row).finding.hint.endswith(f"dkms autoinstall -k {NEXT_KERNEL}")
