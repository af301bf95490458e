"""Which check follows from which, by the facts of one node: where each rule holds, and beside."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.board import BOARD, GPUS, Board
from tests.evidence.build import (
    DRIVER,
    HEALTHY,
    KERNEL,
    OFED,
    OPEN,
    groups,
    kernel_block,
    node,
    rdma_core,
)
from tests.evidence.frames import ABSENT, Override
from tests.evidence.frames import failed as bad
from tests.evidence.test_causes import BOTH, INBOX, NOT_LOADED, told
from toolkit.checks.judged import causes

UNDRIVEN = BOARD.but(GPUS[0], driver="").but(GPUS[1], driver="")
LOADED = str(HEALTHY["module-state"])
NO_NVIDIA: dict[str, Override] = {
    "nvidia-version": ABSENT,
    "module-state": "".join(
        line for line in LOADED.splitlines(keepends=True) if not line.startswith("nvidia")
    ),
}
NONE_BUILT: dict[str, Override] = {
    **NO_NVIDIA,
    "nvidia-modinfo": "",
    "kernels": kernel_block(KERNEL, nvidia=False, peermem=False),
    "dkms-status": f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    f"nvidia/{DRIVER}: added\n",
}
OLDER_DRIVER: dict[str, Override] = {
    "module-state": NOT_LOADED.replace("1" * 22, "9" * 22),
    "nvidia-version": OPEN.replace(DRIVER, "570.86.15"),
}
BY_INBOX: dict[str, Override] = {
    "ofed-info": ABSENT,
    "rdma-modinfo": rdma_core(INBOX, version=""),
    "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
}
NO_FILE: dict[str, Override] = {
    "peermem-files": "",
    "peermem-modinfo": "",
    "peermem-resolve": bad(1, "modprobe: FATAL: Module nvidia-peermem not found\n"),
    "peermem-elf": "",
    "kernels": kernel_block(KERNEL, peermem=False),
}
REGISTER = "ib_register_peer_memory_client"
NOT_EXPORTED: dict[str, Override] = {
    "module-state": NOT_LOADED,
    "kallsyms": "",
    "exports": "",
    "symvers": "",
}


def config(option: str) -> str:
    """The running kernel's without that option."""
    return str(HEALTHY["kernel-config"]).replace(f"{option}=y", "")


def refused(symbol: str, error: int) -> dict[str, Override]:
    return {"dmesg": f"[9.0] nvidia_peermem: Unknown symbol {symbol} (err {error})\n"}


# What follows, from what and by what; the frames, the path ("" for peermem) and the board.
Case = tuple[str, str, str, Mapping[str, Override], str, Board]
FOLLOWS: list[Case] = [
    ("nvidia.present", "dkms.state", "DKMS has not installed nvidia", NONE_BUILT, "", UNDRIVEN),
    ("nvidia.present", "module.signed", "nvidia is not signed, under lockdown",
     {**NO_NVIDIA, "lockdown": "none [integrity] confidentiality\n"}, "", UNDRIVEN),
    ("nvidia.present", "modules.blacklist", "nvidia is blacklisted",
     {**NO_NVIDIA, "modprobe-config": "blacklist nvidia\n"}, "", UNDRIVEN),
    ("nvidia.present", "modules.blacklist", "nvidia is kept from loading: install /bin/false",
     {**NO_NVIDIA, "modprobe-config": "install nvidia /bin/false\n"}, "", UNDRIVEN),
    ("nvidia.version", "nvidia.present", "no GPU has the nvidia driver", NO_NVIDIA, "", UNDRIVEN),
    ("peermem.unknown_symbol", "nvidia.present", "no GPU has the nvidia driver",
     {**NONE_BUILT, **refused("nvidia_p2p_get_pages", -2)}, "", UNDRIVEN),
    ("peermem.unknown_symbol", "ib.peer_symbol", "nothing that is loaded exports",
     {**NOT_EXPORTED, **refused(REGISTER, -2)}, "", BOARD),
    ("peermem.unknown_symbol", "peermem.crc", "built against another version of nvidia_p2p_get",
     {"module-state": NOT_LOADED, **refused("nvidia_p2p_get_pages", -22),
      "exports": str(HEALTHY["exports"]).replace("0x4a7f7424", "0x00000001")}, "", BOARD),
    ("peermem.provider", "ib.peer_symbol", "nothing that is loaded exports", NOT_EXPORTED, "",
     BOARD),
    ("peermem.provider", "nvidia.version", "the loaded driver is not that on disk", OLDER_DRIVER,
     "", BOARD),
    ("peermem.loaded_vs_disk", "peermem.file", "none on disk", NO_FILE, "", BOARD),
    ("path.selected", "peermem.bound", "nvidia-peermem does not hold the driver",
     {"module-state": LOADED.replace("nvidia/holder:nvidia_peermem\n", "")}, "", BOARD),
    ("dmabuf.gpu", "kernel.config.dmabuf", "the kernel has no dma-buf",
     {"kernel-config": config("CONFIG_DMA_SHARED_BUFFER")}, "dmabuf", BOARD),
    ("dmabuf.nic", "rdma.devices", "there is no RDMA device", {"infiniband": ""}, "dmabuf", BOARD),
    ("dmabuf.nic", "kernel.version", "kernel 5.4.0-1-generic cannot register",
     {**BY_INBOX, "kernel-release": "5.4.0-1-generic\n", "kallsyms": ""}, "dmabuf", BOARD),
    ("dmabuf.nic", "kernel.config.infiniband", "lacks CONFIG_INFINIBAND_ON_DEMAND_PAGING",
     {**BY_INBOX, "kernel-config": config("CONFIG_INFINIBAND_ON_DEMAND_PAGING")}, "dmabuf", BOARD),
    ("path.selected", "dmabuf.nic", "there is no RDMA device", {"infiniband": ""}, "dmabuf", BOARD),
    ("rdma.port", "rdma.devices", "without an RDMA device", {"infiniband": ""}, "", BOARD),
    ("iommu.faults", "iommu.passthrough", "the IOMMU translates", {"iommu-groups": groups("DMA"),
     "dmesg": "DMAR: [DMA Write] Request device [19:00.0] fault addr 0x0\n"}, "", BOARD),
]  # fmt: skip


@pytest.mark.parametrize("case", FOLLOWS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_the_other_s_repair_would_mend_follows_from_it(case: Case) -> None:
    check, after, why, frames, path, board = case
    steps = told(node(frames, board=board), BOTH[path or "peermem"]).steps
    assert [each.after for each in steps if each.check == check] == [after]
    assert why in next(each.why for each in steps if each.check == check)


def test_what_nvidia_smi_does_not_tell_follows_from_a_library_that_is_not_the_driver_s() -> None:
    words = (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 1.2\n"
    )
    steps = told(node({"nvidia-smi": bad(18, words)}), BOTH["peermem"]).steps
    why = {each.why for each in steps if each.after == "nvidia.version"}
    assert "nvidia-smi of 1.2 refuses the driver that is loaded" in why


ALONE: list[tuple[str, Mapping[str, Override], Board]] = [
    # Another driver has one of the GPUs: that DKMS has nvidia built or not is not why.
    ("nvidia.present", NONE_BUILT, UNDRIVEN.but(GPUS[0], driver="nouveau")),
    ("nvidia.present", {**NO_NVIDIA, "modprobe-config": "blacklist nvidia\n"},
     UNDRIVEN.but(GPUS[0], driver="nouveau")),
    # It is on disk for this kernel, whatever DKMS says of it.
    ("nvidia.present", {**NO_NVIDIA, "dkms-status": NONE_BUILT["dkms-status"]}, UNDRIVEN),
    # So is what lockdown has of a driver that is not wanted there, and what keeps another module.
    ("nvidia.present", {**NO_NVIDIA, "lockdown": "none [integrity] confidentiality\n"},
     UNDRIVEN.but(GPUS[0], driver="nouveau")),
    ("nvidia.present", {**NO_NVIDIA, "modprobe-config": "blacklist mlx5_ib\n"}, UNDRIVEN),
    ("nvidia.present", {"modprobe-config": "blacklist nvidia\n"}, UNDRIVEN),  # and it is loaded
    # Of both errors one is no want of a driver.
    ("peermem.unknown_symbol", {**NONE_BUILT, "dmesg":
     str(refused("nvidia_p2p_get_pages", -2)["dmesg"]) + str(refused(REGISTER, -22)["dmesg"])},
     UNDRIVEN),
]  # fmt: skip


@pytest.mark.parametrize(("check", "frames", "board"), ALONE)
def test_what_the_other_s_repair_would_not_mend_follows_from_nothing(
    check: str, frames: Mapping[str, Override], board: Board
) -> None:
    assert check in {each.root.check.id for each in causes(told(node(frames, board=board)))}
