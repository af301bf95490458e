"""Would modprobe nvidia-peermem succeed? Each cause that could stand in the way."""

from __future__ import annotations

import pytest

from tests.checks.signing import OUTLIER, SIGNED_BY_DKMS
from tests.evidence.build import (
    CONFIG,
    HEALTHY,
    KERNEL,
    PEERMEM,
    PEERMEM_INFO,
    SRC,
    kernel_block,
    module_state,
    node,
    rdma_core,
    without_module,
    without_srcversion,
)
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override, failed
from tests.evidence.healthy_boot import ARGUMENTS
from tests.evidence.healthy_files import KERNELS_OWN, LAYOUT, P2P, PEERS, elf, exported
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.modules.obstacles import rebuild
from toolkit.facts.node.node import Node

UNLOADED = {"module-state": without_module("nvidia_peermem")}
NO_FILE: dict[str, Override] = {
    "peermem-modinfo": "",
    "peermem-elf": "",
    "peermem-resolve": failed(1, "modprobe: FATAL: Module nvidia-peermem not found\n"),
}
STUB: dict[str, Override] = {
    "peermem-elf": elf(KERNELS_OWN, depends=""),
    "peermem-modinfo": PEERMEM_INFO.replace("nvidia,ib_uverbs", ""),
}
OTHER = "5.15.0-160-generic"


def of_kernel(release: str, versions: dict[str, int] | None = None) -> dict[str, Override]:
    """The module on disk, built for another release."""
    modinfo = PEERMEM_INFO.replace(f"vermagic:       {KERNEL}", f"vermagic:       {release}")
    return {"peermem-elf": elf(versions, kernel=release), "peermem-modinfo": modinfo}


ELSEWHERE = {"module_layout": 0x1111, **P2P, **PEERS}
OLD_PEERS = {**KERNELS_OWN, **P2P, **PEERS, "ib_register_peer_memory_client": 0xDEAD}
NO_PEERS = "0000000000000000 T nvidia_p2p_get_pages\t[nvidia]\n"
NO_RDMA = "".join(
    f"{line}\n"
    for line in without_module("nvidia_peermem").split("\n")[:-1]
    if not line.startswith(("ib_", "mlx5_", "rdma_"))
)
UNRESOLVED = {**UNLOADED, "kallsyms": NO_PEERS}
INBOX = module_state().replace(SRC["ib_uverbs"], "0" * 23).replace(SRC["ib_core"], "1" * 23)
INBOX = "".join(f"{li}\n" for li in INBOX.split("\n")[:-1] if "nvidia_peermem" not in li)
# Debian: the kernel's own ib_core is loaded, OFED is on disk, and neither has a srcversion.
UNBOUND = "".join(
    f"{li}\n"
    for li in without_srcversion(module_state(taint="OE")).split("\n")[:-1]
    if "nvidia_peermem" not in li
)
HALF: dict[str, Override] = {
    "module-state": UNBOUND.replace("ib_core/taint:OE", "ib_core/taint:"),
    "rdma-modinfo": without_srcversion(rdma_core()),
    "kallsyms": "0000000000000000 T nvidia_p2p_get_pages\t[nvidia]\n",
}
NO_UVERBS = "".join(f"{li}\n" for li in UNBOUND.split("\n")[:-1] if "ib_uverbs" not in li)
REFUSED = (
    "[    1.0] Linux version 5.15.0-170-generic\n"
    "[  812.1] ib_uverbs: disagrees about version of symbol ib_dealloc_pd_user\n"
    "[  812.2] ib_uverbs: Unknown symbol ib_dealloc_pd_user (err -22)\n"
)
NO_DRIVER: dict[str, Override] = {
    **UNLOADED,
    "module-state": "".join(
        f"{li}\n" for li in without_module("nvidia_peermem").split("\n")[:-1] if "nvidia" not in li
    ),
    "nvidia-modinfo": "@nvidia\n",
    "module-deps": "updates/dkms/nvidia-peermem.ko: updates/dkms/ib_uverbs.ko\n",
}
UNSIGNED_CORE: dict[str, Override] = {
    **SIGNED_BY_DKMS,
    "rdma-modinfo": rdma_core(),
    "tainted": "4096\n",
}
LOG = "[    1.0] Linux version 5.15.0-170-generic\n"
SAID = "[31832.68] nvidia_peermem: "
ROWS = [
    Row("by-modinfo-alone", "peermem.stub", FAIL, "a stub: it depends on nothing",
        {**STUB, "peermem-elf": MISSING}),
    Row("linked-in-spite-of-warnings", "peermem.stub", FAIL,
        "depends on nothing, whatever it imports", {**STUB, "peermem-elf": elf(depends="")}),
    Row("never-asks-for-the-interface", "peermem.stub", FAIL,
        "never asks for ib_register_peer_memory_client",
        {"peermem-elf": elf({**KERNELS_OWN, **P2P})}),
    Row("healthy", "peermem.crc", PASS, "5 symbols"),
    Row("ofed-was-updated", "peermem.crc", FAIL,
        "ib_register_peer_memory_client 0x0000dead, in ib_uverbs.ko 0x215d891b",
        {"peermem-elf": elf(OLD_PEERS)}),
    Row("driver-was-updated", "peermem.crc", FAIL, "nvidia_p2p_get_pages 0x4a7f7424, in nvidia.ko",
        {"exports": exported({**P2P, "nvidia_p2p_get_pages": 1})}),
    Row("provider-lacks-a-symbol", "peermem.crc", FAIL,
        "imports nvidia_p2p_get_pages_persistent, which its installed provider does not export",
        {"exports": exported({"nvidia_p2p_get_pages": P2P["nvidia_p2p_get_pages"]})}),
    Row("by-module-symvers-where-kmod-is-old", "peermem.crc", FAIL, "Module.symvers 0x0badcafe",
        {"exports": exported(peers={}), "symvers": str(HEALTHY["symvers"]).replace("\t", "\t")
         + "0x0badcafe\tib_unregister_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\n"}),
    Row("nothing-tells-the-providers-version", "peermem.crc", UNKNOWN, "no installed module tells",
        {"exports": "@/lib/modules/x/nvidia.ko\nlacks xz\n", "symvers": ""}),
    Row("another-build-of-the-same-release", "peermem.crc", FAIL, "module_layout differs",
        {"peermem-elf": elf({**P2P, **PEERS, "module_layout": 0x1111})}),
    Row("symbols-without-versions", "peermem.crc", UNKNOWN, "without a version for ib_register",
        {"peermem-elf": elf({**KERNELS_OWN, **P2P}, undefined=(*P2P, *PEERS))}),
    Row("a-stub", "peermem.crc", NA, "see peermem.stub", STUB),
    Row("no-file", "peermem.crc", NA, "see peermem.file", NO_FILE),
    Row("kernel-without-versions", "peermem.crc", NA, "keeps no symbol versions",
        {"kernel-config": CONFIG.replace("CONFIG_MODVERSIONS=y",
         "# CONFIG_MODVERSIONS is not set")}),
    Row("packed-and-no-xz", "peermem.crc", UNKNOWN, "lacks xz",
        {"peermem-elf": f"@{PEERMEM}\nlacks xz\n"}),
    Row("half-of-the-bytes", "peermem.crc", UNKNOWN, "cannot read",
        {"peermem-elf": elf()[: len(elf()) // 2].rpartition("\n")[0] + "\n"}),
    Row("healthy", "peermem.vermagic", PASS, f"built for {KERNEL}"),
    Row("another-kernel", "peermem.vermagic", FAIL, "whose module_layout differs",
        of_kernel(OTHER, ELSEWHERE)),
    Row("weak-module-of-an-older-kernel", "peermem.vermagic", PASS, f"built for {OTHER}",
        of_kernel(OTHER)),
    Row("another-kernel-without-versions", "peermem.vermagic", FAIL, f"built for {OTHER}, running",
        of_kernel(OTHER, {})),
    Row("a-realtime-kernels", "peermem.vermagic", FAIL, "the kernel's own are SMP mod_unload",
        {"peermem-modinfo": PEERMEM_INFO.replace("SMP", "SMP preempt_rt")}),
    Row("another-architecture", "peermem.vermagic", FAIL, "on x86_64",
        {"rdma-modinfo": "", "peermem-modinfo": PEERMEM_INFO.replace(
            "modversions", "modversions aarch64")}),
    Row("no-file", "peermem.vermagic", NA, "see peermem.file", NO_FILE),
    Row("no-modinfo", "peermem.vermagic", UNKNOWN, "not there", {"peermem-modinfo": ABSENT}),
    Row("loaded", "peermem.provider", PASS, "is loaded"),
    Row("would-be-bound", "peermem.provider", PASS, "nvidia is loaded; ib_register", UNLOADED),
    Row("would-be-loaded-first", "peermem.provider", PASS, "would be loaded first",
        {"module-state": NO_RDMA, "kallsyms": NO_PEERS}),
    Row("inbox-stack-loaded", "peermem.provider", FAIL,
        "loaded from another build than that on disk: ib_uverbs, ib_core",
        {"module-state": INBOX, "kallsyms": NO_PEERS}),
    Row("ofed-updated-and-not-reloaded", "peermem.provider", FAIL,
        "loaded from another build than that on disk: ib_uverbs",
        {**UNLOADED, "rdma-modinfo": rdma_core().replace(SRC["ib_uverbs"], "0" * 23)}),
    Row("driver-updated-and-not-reloaded", "peermem.loadable", FAIL,
        "loaded from another build than that on disk: nvidia",
        {**UNLOADED,
         "nvidia-modinfo": str(HEALTHY["nvidia-modinfo"]).replace(SRC["nvidia"], "0" * 23)}),
    *(
        Row(f"{check.partition('.')[2]}-without-srcversion", check, FAIL, "on disk: ib_core", HALF)
        for check in ("peermem.provider", "peermem.loadable")
    ),
    *(
        Row("ofed-refused-on-the-kernels-own-core", check, FAIL,
            "ib_uverbs was refused: it asks another version of ib_dealloc_pd_user",
            {**HALF, "module-state": NO_UVERBS, "dmesg": REFUSED})
        for check in ("peermem.provider", "peermem.loadable", "peermem.unknown_symbol")
    ),
    Row("refused-and-let-in-since", "peermem.unknown_symbol", PASS, "no refusal",
        {**UNLOADED, "dmesg": REFUSED}),
    Row("a-module-that-nobody-needs-was-refused", "peermem.unknown_symbol", PASS, "no refusal",
        {**UNLOADED, "dmesg": REFUSED.replace("ib_uverbs", "rdma_rxe")}),
    Row("the-log-of-a-half-stack-is-denied", "peermem.provider", PASS, "would be loaded first",
        {"module-state": NO_UVERBS, "kallsyms": NO_PEERS, "dmesg": DENIED}),
    Row("loaded-without-the-interface", "peermem.provider", FAIL, "the wrong stack is loaded",
        UNRESOLVED),
    Row("inbox-alone", "peermem.provider", FAIL, "nothing exports ib_register_peer_memory_client",
        {**UNRESOLVED, "exports": exported(peers={})}),
    Row("depmod-is-owed", "peermem.provider", FAIL, "modprobe does not know to load it",
        {"module-state": NO_RDMA, "kallsyms": NO_PEERS,
         "module-deps": "updates/dkms/nvidia-peermem.ko: updates/dkms/nvidia.ko\n"}),
    Row("no-driver", "peermem.provider", FAIL, "nvidia is not loaded, and not on disk", NO_DRIVER),
    Row("debians-driver", "peermem.provider", PASS, "nvidia would be loaded first",
        {**NO_DRIVER, "module-deps": "updates/dkms/nvidia-current.ko:\n"}),
    Row("no-file", "peermem.provider", NA, "see peermem.file", {**UNLOADED, **NO_FILE}),
    Row("symbols-not-read", "peermem.provider", UNKNOWN,
        "permission", {**UNLOADED, "kallsyms": DENIED}),
    Row("loaded", "peermem.loadable", PASS, "it is loaded"),
    Row("nothing-in-the-way", "peermem.loadable", PASS, "nothing stands in the way", UNLOADED),
    Row("no-file", "peermem.loadable", FAIL, "modprobe finds no nvidia-peermem",
        {**UNLOADED, **NO_FILE, "kernels": kernel_block(KERNEL, peermem=False)}),
    Row("kept-from-loading", "peermem.loadable", FAIL, "nvidia_peermem: install /bin/false",
        {**UNLOADED, "modprobe-config": "install nvidia_peermem /bin/false\n",
         "peermem-resolve": "install /bin/false\n"}),
    Row("what-it-needs-is-kept-from-loading", "peermem.loadable", FAIL,
        "ib_uverbs: install /bin/true",
        {"module-state": NO_RDMA, "kallsyms": NO_PEERS,
         "modprobe-config": "install ib_uverbs /bin/true\n"}),
    Row("a-line-for-what-is-loaded-harms-nobody", "peermem.loadable", PASS, "nothing stands",
        {**UNLOADED, "modprobe-config": "install ib_uverbs /bin/true\n"}),
    Row("what-it-needs-is-not-signed", "peermem.loadable", FAIL, "ib_uverbs is not signed",
        {**UNSIGNED_CORE, "module-state": NO_RDMA, "kallsyms": NO_PEERS}),
    Row("blacklisted-by-the-kernel", "peermem.loadable", FAIL, "module_blacklist=",
        {**UNLOADED, "cmdline": f"{ARGUMENTS} module_blacklist=nvidia-peermem\n"}),
    Row("stub", "peermem.loadable", FAIL, "a stub: it imports nothing", {**UNLOADED, **STUB}),
    Row("another-kernel", "peermem.loadable", FAIL, f"built for {OTHER}",
        {**UNLOADED, **of_kernel(OTHER, ELSEWHERE)}),
    Row("unsigned", "peermem.loadable", FAIL,
        "nvidia_peermem is not signed, under module.sig_enforce",
        {**UNLOADED, "sig-enforce": "Y\n"}),
    Row("signer-not-known", "peermem.loadable", FAIL,
        "signed by NVIDIA Support, whom the kernel does not",
        {**UNLOADED, **OUTLIER}),
    Row("no-driver", "peermem.loadable", FAIL, "nvidia is not loaded", NO_DRIVER),
    Row("wrong-stack", "peermem.loadable", FAIL, "the wrong stack", UNRESOLVED),
    Row("other-versions", "peermem.loadable", FAIL, "built against another version of",
        {**UNLOADED, "peermem-elf": elf(OLD_PEERS)}),
    Row("nv_peer_mem", "peermem.loadable", FAIL, "nv_peer_mem is loaded",
        {"module-state": without_module("nvidia_peermem") + "nv_peer_mem/initstate:live\n"}),
    Row("bytes-not-read", "peermem.loadable", UNKNOWN, "permission",
        {**UNLOADED, "peermem-elf": DENIED}),
    Row("loaded", "peermem.unknown_symbol", PASS, "each symbol was found"),
    Row("no-refusal-since-boot", "peermem.unknown_symbol", PASS, "holds no refusal", UNLOADED),
    Row("another-version", "peermem.unknown_symbol", FAIL, "(err -22)",
        {**UNLOADED,
         "dmesg": f"{LOG}{SAID}disagrees about version of symbol ib_register_peer_memory_"
         f"client\n{SAID}Unknown symbol ib_register_peer_memory_client (err -22)\n"}),
    Row("absent", "peermem.unknown_symbol", FAIL, "not exported by anything loaded: ib_register",
        {**UNLOADED,
         "dmesg": f"{LOG}{SAID}Unknown symbol ib_register_peer_memory_client (err -2)\n"}),
    Row("absent-on-an-older-kernel", "peermem.unknown_symbol", FAIL, "nvidia_p2p_get_pages",
        {**UNLOADED, "dmesg": f"{LOG}{SAID}Unknown symbol nvidia_p2p_get_pages (err 0)\n"}),
    Row("a-message-at-work-is-no-refusal", "peermem.unknown_symbol", PASS,
        "it was loaded and at work",
        {**UNLOADED, "dmesg": "6,3973,227996636,-;nvidia-peermem nv_get_p2p_free_callback:127 ERROR"
         " detected invalid context, skipping further processing\n"}),
    Row("a-log-that-begins-later", "peermem.unknown_symbol", UNKNOWN, "does not reach back",
        {**UNLOADED, "dmesg": "[99999.1] usb 1-1: new device\n"}),
    Row("log-denied", "peermem.unknown_symbol", UNKNOWN, "dmesg",
        {**UNLOADED, "dmesg": failed(1, "dmesg: Operation not permitted\n")}),
    Row("healthy", "peermem.params", PASS, "peerdirect_support=0"),
    Row("for-old-ofed", "peermem.params", FAIL, "peerdirect_support=1 (loaded)",
        {"peermem-params": "peerdirect_support:1\n"}),
    Row("refused-at-the-next-load", "peermem.params", FAIL,
        "peerdirect_support=2 (at the next load)",
        {"modprobe-config": "options nvidia_peermem peerdirect_support=2\n"}),
    Row("two-clients", "peermem.params", FAIL, "persistent_api_support=0",
        {"peermem-params": "persistent_api_support:0\n"}),
    Row("the-old-ofed-itself", "peermem.params", PASS, "peerdirect_support=1",
        {"peermem-params": "peerdirect_support:1\n",
         "ofed-info": "MLNX_OFED_LINUX-4.9-7.1.0.0:\n"}),
    Row("not-loaded", "peermem.params", NA, "not loaded", {**UNLOADED, "peermem-params": ""}),
    Row("not-read", "peermem.params", UNKNOWN, "permission", {"peermem-params": DENIED}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_loading(row: Row) -> None:
    holds(row)


def test_the_layout_of_another_kernel_is_another() -> None:
    assert ELSEWHERE["module_layout"] != LAYOUT


@pytest.mark.parametrize("row", [row for row in ROWS if row.status is FAIL], ids=name)
def test_each_failure_names_one_step_that_mends_it(row: Row) -> None:
    assert judged(row).finding.hint


def test_a_stub_is_rebuilt_aside_by_the_program_that_is_there_or_is_to_be_placed() -> None:
    command = f"/usr/lib/gdr-toolkit/rebuild --kernel {KERNEL} --peermem"
    placed = f"./invokew provision --hosts NODE, then on NODE: {command}"
    not_there: tuple[Override, ...] = ("", MISSING, DENIED, "text /usr/lib/gdr-toolkit/rebuild\n")
    for hooks, hint in (
        (HEALTHY["rebuild-hooks"], command),
        *((each, placed) for each in not_there),
    ):
        frames = {**UNLOADED, **STUB, "rebuild-hooks": hooks}
        finding = judged(Row("", "peermem.loadable", FAIL, "", frames)).finding
        assert finding.hint == hint
        assert finding.details == ("see peermem.stub",)


def test_a_step_for_which_dkms_was_not_read_names_no_package() -> None:
    unread = Node(node({"dkms-status": DENIED}))
    assert rebuild(unread) == f"rebuild nvidia-peermem for {unread.kernel}: ./invokew provision"
