"""What a node would lose if it booted another kernel."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.board import BOARD, GPUS, Board
from tests.evidence.build import (
    CONFIG,
    DRIVER,
    HEALTHY,
    KERNEL,
    NEXT_KERNEL,
    OFED,
    kernel_block,
    node,
    rdma_core,
)
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.healthy_boot import grub
from tests.evidence.healthy_builds import built, listing
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN
from toolkit.checks.check import Status
from toolkit.checks.kernel.forecast import Forecast, Prospect, forecast
from toolkit.errors import ExitCode
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.want import Want

# Two kernels, both with everything; the next boot takes the newer one.
BOTH: dict[str, Override] = {
    "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL),
    "all-modinfo": built() + built(NEXT_KERNEL),
    "kernel-configs": f"@{KERNEL}\nCONFIG_MODVERSIONS=y\n@{NEXT_KERNEL}\n{CONFIG}",
    "boot-entries": grub(kernels=(NEXT_KERNEL, KERNEL)),
    "initramfs-next": listing(NEXT_KERNEL),
    "dkms-status": "".join(
        f"{module}, {kernel}, x86_64: installed\n"
        for module in (f"mlnx-ofed-kernel/{OFED}", f"nvidia/{DRIVER}")
        for kernel in (KERNEL, NEXT_KERNEL)
    ),
}
ONLY_RUNNING = {"dkms-status": HEALTHY["dkms-status"]}
BARE_NEXT = {
    "kernels": kernel_block(KERNEL) + f"@{NEXT_KERNEL}\nimage\nheaders\n",
    "all-modinfo": built(),
    **ONLY_RUNNING,
}


def ahead(
    frames: Mapping[str, Override] | None = None,
    *,
    release: str = "",
    want: Want | None = None,
    board: Board = BOARD,
) -> Forecast:
    return forecast(Node(node(BOTH | dict(frames or {}), board=board)), want or Want(), release)


def prospect(found: Forecast, topic: str) -> Prospect:
    return next(each for each in found.prospects if each.topic == topic)


@pytest.mark.parametrize("release", ["", NEXT_KERNEL, KERNEL])
def test_a_kernel_with_everything_loses_nothing(release: str) -> None:
    found = ahead(release=release)
    assert found.kernel == (release or NEXT_KERNEL)
    assert found.losses == found.unknown == ()
    assert (found.state, found.exit_code) == ("keeps", ExitCode.OK)


LOCKED = "none [integrity] confidentiality\n"
RINGS = (
    "@.builtin_trusted_keys\n1: ---lswrv  0  0 asymmetric: MOK: 0011\n@/proc/keys\n"
    "1a2b3c4d I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 1\n"
    "1a2b3c4e I------     1 perm 1f0b0000     0     0 keyring   .platform: 2\n"
    "1a2b3c4f I------     1 perm 1f030000     0     0 asymmetri MOK: 0011: X509.rsa 0011 []\n"
)
Case = tuple[str, Status, str, Mapping[str, Override]]
CASES: dict[str, Case] = {
    "no-image": ("kernel", UNKNOWN, "no image", {
        "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL).replace("image\n", "")}),
    "no-driver": ("driver", FAIL, f"no nvidia for {NEXT_KERNEL}", BARE_NEXT),
    "another-driver": ("driver", FAIL, "nvidia 550.54.15 for", {
        "all-modinfo": built() + built(NEXT_KERNEL, driver="550.54.15")}),
    "no-headers": ("kernel", PASS, "installed, no headers", {
        "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL).replace("headers\n", "")}),
    "kernels-not-read": ("kernel", UNKNOWN, "permission", {"kernels": DENIED}),
    "ofed-not-built": ("rdma-stack", FAIL, "the inbox stack would load", BARE_NEXT),
    "ofed-gone-and-inbox-there": ("rdma-stack", FAIL, "the inbox stack would load", {
        "kernels": kernel_block(KERNEL)
        + kernel_block(NEXT_KERNEL).replace("updates/dkms/ib_core", "kernel/ib_core")}),
    "inbox-stack-is-there": ("rdma-stack", PASS, "inbox", {
        "ofed-info": ABSENT, "rdma-modinfo": rdma_core(version=""),
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    "inbox-stack-is-built-in": ("rdma-stack", PASS, "inbox", BARE_NEXT | {
        "ofed-info": ABSENT, "rdma-modinfo": rdma_core(version=""),
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
        "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_INFINIBAND=y\nCONFIG_MLX5_CORE=y\n"}),
    "inbox-stack-is-not": ("rdma-stack", FAIL, "no mlx5_core, ib_core", BARE_NEXT | {
        "ofed-info": ABSENT, "rdma-modinfo": rdma_core(version=""),
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    "prebuilt": ("rdma-stack", PASS, "doca-ofed 25.10-1.7.1", {
        "ofed-info": ABSENT, "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    "container": ("rdma-stack", UNKNOWN, "driver container", {
        "ofed-info": ABSENT, "ofed-container": "/run/mellanox/drivers\n",
        "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    "ofed-not-read": ("rdma-stack", UNKNOWN, "no answer", {"ofed-info": TIMEOUT}),
    "no-peermem": ("nvidia-peermem", FAIL, f"no nvidia-peermem for {NEXT_KERNEL}", {
        "kernels": kernel_block(KERNEL) + kernel_block(NEXT_KERNEL, peermem=False)}),
    "two-peermems-of-which-one-is-a-stub": ("nvidia-peermem", UNKNOWN, "not alike: ", {
        "all-modinfo": built() + built(NEXT_KERNEL) + "".join(
            f"filename:{each}" for each in built(NEXT_KERNEL, peermem="").split("filename:")[1:]
            if "peermem" in each).replace("updates/dkms", "extra")}),
    "peermem-on-a-core-that-is-part-of-the-kernel": ("nvidia-peermem", PASS, "depends on nvidia", {
        "all-modinfo": built() + built(NEXT_KERNEL, peermem="nvidia"),
        "kernels": kernel_block(KERNEL) + "".join(
            line for line in kernel_block(NEXT_KERNEL).splitlines(keepends=True)
            if "ib_core" not in line)}),
    "peermem-that-asks-for-rdma-alone": ("nvidia-peermem", FAIL, "depends on ib_uverbs only", {
        "all-modinfo": built() + built(NEXT_KERNEL, peermem="ib_uverbs")}),
    "stub": ("nvidia-peermem", FAIL, "a stub", {
        "all-modinfo": built() + built(NEXT_KERNEL, peermem="")}),
    "peermem-that-never-asks-for-rdma": ("nvidia-peermem", FAIL, "depends on nvidia only", {
        "all-modinfo": built() + built(NEXT_KERNEL, peermem="nvidia")}),
    "peermem-linked-from-an-older-kernel-and-ofed-not": ("nvidia-peermem", UNKNOWN,
        f"built for {KERNEL}, beside doca-ofed built for {NEXT_KERNEL}", {
        "all-modinfo": built() + built(NEXT_KERNEL).replace(
            f"depends:        nvidia,ib_uverbs\nvermagic:       {NEXT_KERNEL}",
            f"depends:        nvidia,ib_uverbs\nvermagic:       {KERNEL}")}),
    "peermem-of-another-driver": ("nvidia-peermem", FAIL, "beside nvidia 580", {
        "all-modinfo": built() + built(NEXT_KERNEL).replace(
            f"peermem.ko\nversion:        {DRIVER}", "peermem.ko\nversion:        570.1")}),
    "peermem-not-read": ("nvidia-peermem", UNKNOWN, "modinfo says nothing", {
        "all-modinfo": built()}),
    "signed": ("signatures", PASS, "signed by MOK", {
        "lockdown": LOCKED, "all-modinfo": built(signer="MOK") + built(NEXT_KERNEL, signer="MOK"),
        "trusted-keys": RINGS}),
    "unsigned": ("signatures", FAIL, "unsigned: ib_core", {"lockdown": LOCKED}),
    "unsigned-and-forced": ("signatures", FAIL, "under CONFIG_MODULE_SIG_FORCE", {
        "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_MODULE_SIG_FORCE=y\n"}),
    "unsigned-and-locked-by-the-configuration": ("signatures", FAIL, "by its configuration", {
        "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y\n"}),
    "unsigned-and-secure-boot": ("signatures", FAIL, "under lockdown under Secure Boot", {
        "efi-secureboot": "   1\n",
        "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_LOCK_DOWN_IN_EFI_SECURE_BOOT=y\n"}),
    "unsigned-and-secure-boot-is-off": ("signatures", PASS, "no signature", {
        "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_LOCK_DOWN_IN_EFI_SECURE_BOOT=y\n"}),
    "unsigned-and-asked-for-on-its-command-line": ("signatures", FAIL, "module.sig_enforce", {
        "boot-entries": grub("ro iommu=pt module.sig_enforce=1", kernels=(NEXT_KERNEL,))}),
    "asked-for-on-the-running-command-line-alone": ("signatures", PASS, "no signature", {
        "cmdline": "ro iommu=pt module.sig_enforce=1\n"}),
    "unsigned-and-locked-on-its-command-line": ("signatures", FAIL, "lockdown (integrity)", {
        "boot-entries": grub("ro iommu=pt lockdown=integrity", kernels=(NEXT_KERNEL,))}),
    "a-packaged-driver-signed-by-others": ("signatures", FAIL, "nvidia is signed by Others", {
        "lockdown": LOCKED, "trusted-keys": RINGS,
        "all-modinfo": f"filename:       /lib/modules/{NEXT_KERNEL}/kernel/nvidia-580/nvidia.ko\n"
        f"vermagic:       {NEXT_KERNEL} SMP \nsigner:         Others\n"}),
    "configuration-of-that-kernel-not-read": ("signatures", UNKNOWN, "was not read", {
        "kernel-configs": f"@{KERNEL}\nCONFIG_MODVERSIONS=y\n@{NEXT_KERNEL}\n"}),
    "signed-by-a-stranger": ("signatures", FAIL, "signed by new MOK, whom", {
        "lockdown": LOCKED,
        "all-modinfo": built(signer="MOK") + built(NEXT_KERNEL, signer="new MOK")}),
    "signed-and-the-keyring-not-told": ("signatures", UNKNOWN, "tells no keyring", {
        "lockdown": LOCKED, "all-modinfo": built(signer="MOK") + built(NEXT_KERNEL, signer="MOK"),
        "trusted-keys": RINGS.partition("@/proc")[1] + RINGS.partition("@/proc")[2]}),
    "signatures-not-read": ("signatures", UNKNOWN, "modinfo says nothing", {
        "lockdown": "none [integrity] confidentiality\n", "all-modinfo": built()}),
    "inbox-in-the-initramfs": ("initramfs", FAIL, "holds the inbox", {
        "initramfs-next": listing(NEXT_KERNEL, "kernel/drivers")}),
    "initramfs-not-listed": ("initramfs", UNKNOWN, "was not listed", {"initramfs-next": ABSENT}),
    "initramfs-of-a-third": ("initramfs", UNKNOWN, "not among those", {
        "initramfs-next": listing("5.15.0-1-generic")}),
    "blacklisted": ("configuration", FAIL, "mlx5_core: blacklisted", {
        "modprobe-config": "blacklist mlx5_core\n"}),
    "blacklisted-by-its-command-line": ("configuration", FAIL, "blacklists nvidia_peermem", {
        "boot-entries": grub("ro iommu=pt module_blacklist=nvidia-peermem", kernels=(NEXT_KERNEL,))
    }),
    "configuration-not-read": ("configuration", UNKNOWN, "permission", {
        "modprobe-config": DENIED}),
    "nothing-loads-it": ("autoload", FAIL, "nothing loads it", {"modules-load": ""}),
    "autoload-not-read": ("autoload", UNKNOWN, "permission", {"modules-load": DENIED}),
    "arguments-are-lost": ("command-line", FAIL, f"not passed to {NEXT_KERNEL}: iommu=pt", {
        "boot-entries": grub("ro quiet", kernels=(NEXT_KERNEL, KERNEL))}),
    "no-arguments": ("command-line", PASS, "none about IOMMU", {"cmdline": "ro quiet\n"}),
    "command-line-not-read": ("command-line", UNKNOWN, "permission", {"cmdline": DENIED}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_thing_that_differs_is_told(case: Case) -> None:
    topic, status, found, frames = case
    said = prospect(ahead(frames), topic).finding
    assert said.status is status, said
    assert found in said.found
    assert bool(said.expected) == (status is FAIL)
    assert said.hint or status is not FAIL
    assert status is not UNKNOWN or ahead(frames).exit_code is not ExitCode.OK


ROCKY_8 = 'ID="rocky"\nVERSION_ID="9.8"\nID_LIKE="rhel centos fedora"\n'
OLD_OFED = {"ofed-info": "OFED-internal-24.10-0.7.0:\n", "os-release": ROCKY_8}
STEPS: dict[str, tuple[str, str, Mapping[str, Override]]] = {
    "no-headers-to-build-with": ("driver", f"install linux-headers-{NEXT_KERNEL}, then dkms", {
        **BARE_NEXT, "kernels": kernel_block(KERNEL) + f"@{NEXT_KERNEL}\nimage\n"}),
    "ofed-before-the-driver-and-headers-once": ("driver",
        f"install linux-headers-{NEXT_KERNEL}, then dkms install mlnx-ofed-kernel/{OFED} -k "
        f"{NEXT_KERNEL}; then dkms install nvidia/{DRIVER} -k {NEXT_KERNEL}", {
        **BARE_NEXT, "kernels": kernel_block(KERNEL) + f"@{NEXT_KERNEL}\nimage\n"}),
    "a-kernel-for-which-the-driver-is-not-made": ("driver", "boot a kernel without PREEMPT_RT", {
        **BARE_NEXT, "kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_PREEMPT_RT=y\n"}),
    "built-and-not-installed": ("driver", f"dkms install nvidia/550.1 -k {NEXT_KERNEL}", {
        **BARE_NEXT, "kernels": kernel_block(KERNEL) + f"@{NEXT_KERNEL}\nimage\n",
        "dkms-status": f"nvidia/550.1, {NEXT_KERNEL}, x86_64: built\n"
        f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"}),
    "added-and-never-built": ("driver", f"dkms install nvidia/550.1 -k {NEXT_KERNEL}", {
        **BARE_NEXT, "dkms-status": "nvidia/550.1: added\n"}),
    "by-packages": ("driver", f"install the modules of the NVIDIA driver for {NEXT_KERNEL}", {
        **BARE_NEXT, "dkms-confs": "", "dkms-status": ""}),
    "a-menu-of-grubby": ("command-line", "grubby --update-kernel", {
        "os-release": ROCKY_8, "boot-entries": grub("ro quiet", kernels=(NEXT_KERNEL, KERNEL))}),
    "what-autoload-lacks": ("autoload", "a file in /etc/modules-load.d", {"modules-load": ""}),
    "a-line-that-blacklists": ("configuration", "remove the blacklist", {
        "modprobe-config": "blacklist mlx5_core\n"}),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS.values(), ids=STEPS)
def test_the_step_is_the_one_that_this_node_needs(
    case: tuple[str, str, Mapping[str, Override]],
) -> None:
    topic, step, frames = case
    assert step in prospect(ahead(frames), topic).finding.hint


EL96, EL98 = "5.14.0-570.el9_6.x86_64", "5.14.0-687.5.1.el9_8.x86_64"


@pytest.mark.parametrize(
    ("release", "frames", "hint"),
    [
        pytest.param(
            "6.8.0-99-generic",
            {},
            "install linux-image-6.8.0-99-generic and linux-headers-6.8.0-99-generic; DKMS would "
            f"build mlnx-ofed-kernel/{OFED}, nvidia/{DRIVER} then",
            id="ubuntu's",
        ),
        pytest.param(
            "6.8.0-99-generic",
            {"dkms-status": f"nvidia/{DRIVER}: added\n"},
            "linux-headers-6.8.0-99-generic",
            id="nothing-that-is-built",
        ),
        pytest.param(
            "6.8.0-99-generic",
            {"dkms-tree": f"{HEALTHY['dkms-tree']}/etc/dkms/no-autoinstall\n"},
            "linux-headers-6.8.0-99-generic",
            id="dkms-was-told-to-build-nothing",
        ),
        pytest.param(EL98, {}, f"{EL98} is named like no kernel of ubuntu", id="another's"),
        pytest.param(
            "6.8.0-99", {"os-release": ROCKY_8}, "no kernel of rocky", id="ubuntu's-there"
        ),
        pytest.param(
            EL96,
            {"os-release": ROCKY_8},
            f"install kernel-{EL96} and kernel-devel-{EL96}; DKMS would",
            id="rocky's",
        ),
        pytest.param(
            EL98, OLD_OFED, f"does not compile for {EL98}", id="which-ofed-is-too-old-for"
        ),
    ],
)
def test_a_kernel_that_is_not_there_is_told_with_how_to_come_by_it(
    release: str, frames: Mapping[str, Override], hint: str
) -> None:
    (only,) = ahead(frames, release=release).prospects
    assert only.finding.status is UNKNOWN
    assert only.finding.found == f"{release} is not installed there"
    assert hint in only.finding.hint
    assert ("DKMS would" in only.finding.hint) == ("DKMS would" in hint)


def test_which_path_is_taken_has_to_be_known() -> None:
    found = ahead(want=Want(path=None))
    told = {each.topic: each.finding.found for each in found.unknown}
    assert set(told) == {"nvidia-peermem", "dma-buf", "autoload"}
    assert set(told.values()) == {"which path the node takes is not known"}


def test_the_next_boot_is_not_known_without_a_menu() -> None:
    found = ahead({"boot-entries": ""})
    assert (found.kernel, found.exit_code) == ("", ExitCode.UNKNOWN)
    assert "no entry that boots" in found.unknown[0].finding.found


def test_a_kernel_named_by_hand_needs_its_own_entry() -> None:
    found = ahead({"boot-entries": grub()}, release=NEXT_KERNEL)
    assert "no boot entry starts" in prospect(found, "command-line").finding.found


def test_dmabuf_asks_for_the_kernels_configuration() -> None:
    assert prospect(ahead(want=DMABUF), "dma-buf").finding.status is PASS
    assert prospect(ahead(want=DMABUF), "nvidia-peermem").finding.status is NA
    off = {"kernel-configs": f"@{NEXT_KERNEL}\n# CONFIG_DMA_SHARED_BUFFER is not set\n"}
    assert prospect(ahead(off, want=DMABUF), "dma-buf").finding.status is FAIL
    unread = {"kernel-configs": f"@{NEXT_KERNEL}\n"}
    assert prospect(ahead(unread, want=DMABUF), "dma-buf").finding.status is UNKNOWN


@pytest.mark.parametrize(
    ("board", "why"),
    [
        pytest.param(BOARD.without(*GPUS), "no NVIDIA GPU", id="none"),
        pytest.param(
            BOARD.but(GPUS[0], driver="vfio-pci").but(GPUS[1], driver="vfio-pci"),
            "all GPUs are passed through",
            id="given-away",
        ),
    ],
)
def test_without_gpus_of_its_own_a_node_needs_no_driver(board: Board, why: str) -> None:
    found = ahead(BARE_NEXT, board=board)
    for topic in ("driver", "nvidia-peermem", "autoload"):
        finding = prospect(found, topic).finding
        assert (finding.status, finding.found.startswith(why)) == (NA, True)


def test_a_cut_never_turns_a_loss_into_a_keep() -> None:
    whole = {each.topic: each.finding.status for each in ahead(BARE_NEXT).prospects}
    frames = list(node(BOTH | BARE_NEXT).frames.items())
    for count in range(len(frames)):
        part = forecast(Node(Evidence(dict(frames[:count]))), Want(), NEXT_KERNEL)
        for each in part.prospects:
            assert each.finding.status in {whole[each.topic], UNKNOWN}, (each, frames[count - 1][0])


def test_a_weak_module_is_said_to_be_one() -> None:
    weak = built(NEXT_KERNEL).replace(f"vermagic:       {NEXT_KERNEL}", f"vermagic:       {KERNEL}")
    found = prospect(ahead({"all-modinfo": built() + weak}), "driver").finding
    assert found.details == (f"built for {KERNEL}, and linked from there",)
