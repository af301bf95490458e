"""Is a node the image that it was born from?"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.build import HEALTHY, KERNEL, NEXT_KERNEL, PEERMEM, node, without_module
from tests.evidence.frames import ABSENT, DENIED
from tests.evidence.healthy_boot import ARGUMENTS
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.unit.passports import BORN, BUILD, IMAGE, LOAD, NOTE, RUN, born, hashed, loaded, sha
from toolkit.checks.image import passport
from toolkit.evidence import Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.passport import FileEntry, KernelEntry
from toolkit.want import Want

ASKED = Want(passport=True)
SIGNED = Want(passport=True, passport_key="allowed")
ID = "image.passport"
OTHER = sha(99)
GRUB = "/etc/default/grub.d/zz-gdr-toolkit.cfg"
GRUBBY, TRIAL = "/etc/gdr-toolkit/kernel-arguments", "gdr_toolkit.trial=ab12 panic=30"
ADDING = replace(BORN, files=(*BORN.files, FileEntry(GRUB, sha(5), "644")))
_KERNEL = BORN.kernels[0]
TWO = replace(BORN, kernels=(_KERNEL, KernelEntry(NEXT_KERNEL, None, ())))
INBOX = f"/lib/modules/{KERNEL}/kernel/drivers/infiniband/core/ib_uverbs.ko"
_UVERBS = replace(_KERNEL.modules[-1], name="ib_uverbs", file=FileEntry(INBOX, sha(7), "644"))
GONE = replace(BORN, kernels=(replace(_KERNEL, modules=(*_KERNEL.modules, _UVERBS)),))
REMOVED = {IMAGE: "absent", INBOX: "absent"}
NO_DEFAULT = replace(BORN, default="")
WITHOUT = replace(BORN, kernels=(replace(BORN.kernels[0], modules=BORN.kernels[0].modules[:-1]),))


def since(sum_: str, path: str = LOAD) -> str:
    return f"{RUN} {sum_} {path}\n"


def booted(words: str) -> str:
    return f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {words}\n"


ROWS = [
    Row("none", ID, NA, "not born from an image"),
    Row("none-and-demanded", ID, FAIL, "no passport", want=ASKED),
    Row("an-image-has-no-present", ID, NA, "no present", {"boot-id": ABSENT}, want=ASKED),
    Row("as-born", ID, PASS, f"9 files, kernel {KERNEL}", born()),
    Row("as-born-and-demanded", ID, PASS, "as the image was born", born(), want=ASKED),
    Row("a-module-replaced", ID, FAIL, PEERMEM, born(passport_files=hashed({PEERMEM: OTHER}))),
    Row("a-file-gone", ID, FAIL, f"{LOAD}: not there", born(
        passport_files=hashed({LOAD: "absent"}))),
    Row("two-differ", ID, FAIL, "and 1 more", born(
        passport_files=hashed({LOAD: OTHER, PEERMEM: OTHER}))),
    Row("loaded-from-elsewhere", ID, FAIL, "loaded mlx5_core: srcversion 00AA", born(
        passport_loaded=loaded(mlx5_core="00AA"))),
    Row("same-sources-another-build", ID, FAIL, "loaded nvidia_peermem: build id ff", born(
        passport_loaded=loaded(ids=NOTE.replace("00 11 22", "ff 11 22")))),
    Row("loaded-and-not-in-the-image", ID, FAIL, "loaded nvidia_peermem: 2222", {
        **born(WITHOUT), "passport-loaded": "nvidia 1111111111111111111111A\n"}),
    Row("not-loaded-is-no-difference", ID, PASS, "as the image", {
        **born(passport_loaded=loaded(ids="").replace("nvidia_peermem", "")[0:0]),
        "module-state": without_module("nvidia_peermem")}),
    Row("a-later-kernel-is-no-failure-of-the-node", ID, NA, f"kernel {NEXT_KERNEL} came later",
        born(kernel_release=f"{NEXT_KERNEL}\n")),
    Row("a-later-kernel-where-the-image-is-demanded", ID, FAIL, f"running kernel: {NEXT_KERNEL}",
        born(kernel_release=f"{NEXT_KERNEL}\n"), want=ASKED),
    Row("a-later-kernel-excuses-no-replaced-file", ID, FAIL, f"{LOAD}: sha256", born(
        kernel_release=f"{NEXT_KERNEL}\n", passport_files=hashed({LOAD: OTHER}))),
    Row("the-old-kernel-was-removed", ID, NA, "came later", born(
        GONE, kernel_release=f"{NEXT_KERNEL}\n", passport_files=hashed(REMOVED, GONE))),
    Row("half-of-a-kernel-is-not-removed", ID, FAIL, f"{IMAGE}: not there", born(
        GONE, kernel_release=f"{NEXT_KERNEL}\n", passport_files=hashed({IMAGE: "absent"}, GONE))),
    Row("what-remains-of-it-must-be-as-it-was", ID, FAIL, f"{IMAGE}: not there", born(
        GONE, kernel_release=f"{NEXT_KERNEL}\n",
        passport_files=hashed({**REMOVED, PEERMEM: OTHER}, GONE))),
    Row("the-kernel-that-runs-was-not-removed", ID, FAIL, f"{IMAGE}: not there", born(
        GONE, passport_files=hashed(REMOVED, GONE))),
    Row("another-kernel-of-the-image-runs", ID, FAIL, f"running kernel: {NEXT_KERNEL}", born(
        TWO, kernel_release=f"{NEXT_KERNEL}\n", passport_files=hashed(passport=TWO))),
    Row("another-architecture", ID, FAIL, "architecture: aarch64", born(arch="aarch64\n")),
    Row("an-argument-lost", ID, FAIL, "argument iommu: not there", born(
        cmdline=booted("root=UUID=1 ro quiet"))),
    Row("an-argument-changed", ID, FAIL, "argument iommu: iommu=pt iommu=off", born(
        cmdline=booted(f"{ARGUMENTS} iommu=off"))),
    Row("an-argument-that-decides-added", ID, FAIL, "argument pci: pci=nommconf", born(
        cmdline=booted(f"{ARGUMENTS} pci=nommconf"))),
    Row("words-of-this-machine-alone", ID, PASS, "as the image", born(
        cmdline=booted("root=UUID=2 rw iommu=pt console=ttyS0 rd.luks.uuid=3 foo=bar"))),
    Row("updated-by-a-run-of-ours", ID, PASS, f"updated since by {RUN} of ours: 1 change", born(
        passport_files=hashed({LOAD: OTHER}), passport_since=since(OTHER))),
    Row("removed-by-a-run-of-ours", ID, PASS, f"updated since by {RUN}", born(
        passport_files=hashed({LOAD: "absent"}), passport_since=since("absent"))),
    Row("and-changed-again-by-others", ID, FAIL, LOAD, born(
        passport_files=hashed({LOAD: OTHER}), passport_since=since(sha(98)))),
    Row("our-update-excuses-no-other", ID, FAIL, PEERMEM, born(
        passport_files=hashed({LOAD: OTHER, PEERMEM: OTHER}),
        passport_since=since(OTHER))),
    Row("a-module-rebuilt-by-ours-and-loaded", ID, PASS, "updated since", born(
        passport_files=hashed({PEERMEM: OTHER}), passport_since=since(OTHER, PEERMEM),
        passport_loaded=loaded(nvidia_peermem="00AA"))),
    Row("arguments-of-a-later-run", ID, PASS, "by a later run of ours: 1 change", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc"), left=f"{OTHER} {GRUB}\n",
        placed=f"{OTHER} 644 0 0 {GRUB}\n")),
    Row("arguments-of-others-beside-a-later-run", ID, FAIL, "argument pci", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc"), left=f"{OTHER} {GRUB}\n",
        placed=f"{sha(98)} 644 0 0 {GRUB}\n")),
    Row("arguments-that-a-run-has-changed", ID, PASS, f"updated since by {RUN}", born(
        ADDING, cmdline=booted("root=UUID=1 ro quiet"),
        passport_files=hashed({GRUB: OTHER}, ADDING), passport_since=since(OTHER, GRUB))),
    Row("arguments-of-a-later-run-told-to-grubby", ID, PASS, "by a later run of ours", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc"), left=f"{OTHER} {GRUBBY}\n",
        placed=f"{OTHER} 644 0 0 {GRUBBY}\n")),
    Row("arguments-that-are-being-tried", ID, PASS, "by trial ab12 of ours", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc {TRIAL}"),
        boot_trials="ab12 open 2026-01-02T03:04:05Z \n")),
    Row("a-trial-that-nobody-noted", ID, FAIL, "argument pci", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc {TRIAL}"))),
    Row("a-trial-that-was-given-up", ID, FAIL, "argument pci", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc {TRIAL}"),
        boot_trials="ab12 given-up 2026-01-02T03:04:05Z it panicked\n")),
    Row("a-kernel-that-nothing-says-is-booted", ID, FAIL, f"running kernel: {NEXT_KERNEL}",
        born(NO_DEFAULT, kernel_release=f"{NEXT_KERNEL}\n"), want=ASKED),
    Row("the-kernel-that-nothing-says-is-booted", ID, PASS, f"9 files, kernel {KERNEL}",
        born(NO_DEFAULT)),
    Row("an-argument-of-one-start-is-none-of-the-image", ID, PASS, "as the image",
        born(replace(BORN, arguments=(*(BORN.arguments or ()), "rd.x=9", "luks.x=y")))),
    Row("a-word-that-begins-as-none-that-decides", ID, PASS, "as the image", born(
        cmdline=booted(f"{ARGUMENTS} xpci=nommconf"))),
    Row("arguments-beside-another-file-of-a-run", ID, FAIL, "argument pci", born(
        cmdline=booted(f"{ARGUMENTS} pci=realloc"), passport_files=hashed({LOAD: OTHER}),
        passport_since=since(OTHER), left=f"{OTHER} /etc/modules-load.d/x.conf\n",
        placed=f"{OTHER} 644 0 0 /etc/modules-load.d/x.conf\n")),
    Row("arguments-of-a-file-that-is-as-it-was-born", ID, FAIL, "argument pci", born(
        ADDING, cmdline=booted(f"{ARGUMENTS} pci=realloc"), passport_files=hashed({}, ADDING),
        passport_since=since(sha(5), GRUB), left=f"{sha(5)} {GRUB}\n",
        placed=f"{sha(5)} 644 0 0 {GRUB}\n")),
    Row("unreadable", ID, UNKNOWN, "permission denied", born(passport=DENIED)),
    Row("no-passport-at-all", ID, UNKNOWN, "cannot read", born(passport="{\n")),
    Row("of-a-later-format", ID, UNKNOWN, "format", born(
        passport=BORN.json().replace("passport/1", "passport/2"))),
    Row("nobody-could-hash", ID, UNKNOWN, "not there", born(passport_files=ABSENT)),
    Row("a-file-not-for-us", ID, UNKNOWN, "permission denied", born(
        passport_files=hashed({PEERMEM: "denied"}))),
    # One line for all: the node's shell finds no path in it, and nothing is taken on trust.
    Row("paths-that-the-probe-did-not-find", ID, FAIL, "not read", born(passport_files="")),
    Row("a-signature-nobody-looked-at", ID, UNKNOWN, "passport-verified", born(), want=SIGNED),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_node_beside_its_image(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize(
    ("said", "status", "found"),
    [
        pytest.param("good by ops@example.org", PASS, "as the image", id="good"),
        pytest.param("bad no key given has signed it", FAIL, "no key given", id="bad"),
    ],
)
def test_a_demanded_signature_goes_before_all_else(said: str, status: object, found: str) -> None:
    frame = Frame("passport-verified", State.OK, "allowed", f"{said}\n")
    verdict = passport(Node(node(born()).plus([frame])), SIGNED)
    assert verdict.status is status
    assert found in verdict.finding.found


def test_each_difference_is_named() -> None:
    row = Row("", ID, FAIL, "", born(passport_files=hashed({LOAD: OTHER, PEERMEM: OTHER})))
    details = judged(row).finding.details
    assert [line.split(":")[0] for line in details] == [PEERMEM, LOAD]
    assert f"sha256 {OTHER[:16]}" in details[0]


def test_a_later_kernel_is_told_apart_from_what_somebody_replaced() -> None:
    """What the rebuild program made for it is in no passport, and no difference."""
    later = f"{NEXT_KERNEL}\n"
    found = judged(Row("", ID, FAIL, "", born(kernel_release=later), want=ASKED)).finding
    assert [line.split(":")[0] for line in found.details] == [
        "running kernel",
        "what is loaded is not compared",
    ]
    assert "test the image with that kernel" in found.hint
    quiet = judged(Row("", ID, NA, "", born(kernel_release=later))).finding
    assert quiet.details == found.details
    both = judged(
        Row("", ID, FAIL, "", born(kernel_release=later, passport_files=hashed({PEERMEM: OTHER})))
    )
    assert PEERMEM in both.finding.details[1]
    assert "boot the image that was tested" in both.finding.hint


def test_what_the_kernel_does_not_tell_is_said_with_the_pass() -> None:
    quiet = loaded(ids="", nvidia_peermem="-")
    found = judged(Row("", ID, PASS, "", born(passport_loaded=quiet))).finding
    assert found.details == ("nvidia_peermem: the kernel does not tell its build",)
    untold = judged(Row("", ID, PASS, "", born(replace(BORN, arguments=None)))).finding
    assert untold.details == ("the passport does not tell the kernel's arguments",)


def test_the_healthy_node_loads_what_its_passport_says() -> None:
    assert BUILD in str(Node(node(born())).passport_loaded)
    assert "passport" in HEALTHY


@pytest.mark.parametrize(
    "word",
    [
        *("BOOT_IMAGE", "initrd", "root", "rootfstype", "rootflags", "rootwait", "ro", "rw"),
        *("resume", "console", "earlycon", "earlyprintk", "quiet", "splash", "ip", "hostname"),
        *("systemd.machine_id", "BOOTIF", "ostree", "cloud_init", "ds"),
    ],
)
def test_what_a_boot_loader_writes_for_one_machine_is_no_difference(word: str) -> None:
    of_image = replace(BORN, arguments=(*(BORN.arguments or ()), f"{word}=7"))
    holds(Row("", ID, PASS, "as the image", born(of_image)))


@pytest.mark.parametrize(
    "word",
    [
        *("iommu=off", "intel_iommu=off", "amd_iommu=off", "arm_smmu.disable_bypass=1"),
        *("pci=nommconf", "pcie_aspm=off", "nvidia.x=1", "mlx5_core.x=1", "modprobe.blacklist=x"),
        *("module_blacklist=x", "module.sig_enforce=1", "lockdown=none", "initcall_blacklist=x"),
    ],
)
def test_a_word_that_decides_and_is_none_of_the_images_is_a_difference(word: str) -> None:
    name = word.partition("=")[0]
    told = born(cmdline=booted(f"{ARGUMENTS} {word}"))
    holds(Row("", ID, FAIL, f"argument {name}", told))
